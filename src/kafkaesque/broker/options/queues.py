"""Options of queues: what there is, what is allowed, and the engine's policy that follows.

Names are RabbitMQ's without their `x-`, or SQS's in the same spelling, where these have the option.
"""

from collections.abc import Mapping
from typing import Final

from kafkaesque.broker.options.encryption import ENCRYPTION, NONE, QUEUE_ENCRYPTION_OPTION
from kafkaesque.broker.options.nats import QUEUE_NATS_OPTIONS
from kafkaesque.model.errors import InvalidConfig
from kafkaesque.model.options import (
    INT32_MAX,
    INT64_MAX,
    Option,
    OptionTable,
    OptionType,
    OptionValue,
)
from kafkaesque.queues.policy import (
    DEDUPLICATION_COUNT,
    PRIORITIES_MAX,
    Overflow,
    Policy,
    Sharing,
    Undeliverable,
)

#: Queues of the cluster. Each is in the memory of every broker.
QUEUES_MAX: Final = 100_000
#: A target that begins so is a topic: no queue has such a name.
_TOPIC_MARK: Final = "\0topic/"
#: One that begins so is an exchange; a NUL and a routing key may follow its name.
_EXCHANGE_MARK: Final = "\0exchange/"
#: What options call the exchange that has no name.
DEFAULT_EXCHANGE_WORD: Final = "amq.default"
SOURCE_TOPIC: Final = "source.topic"
#: Tasks of Amazon SQS that move a queue's messages, and how fast they do: see `sqs/move_tasks`.
MOVE_TASKS: Final = "sqs.move.tasks"
REDRIVE_RATE: Final = "redrive.rate"
#: How a client of AMQP has declared the queue.
DECLARATION: Final = "amqp.declaration"
#: The topic that a stream of AMQP is.
STREAM_TOPIC: Final = "stream.topic"
#: Whose session of MQTT the queue is.
MQTT_SESSION: Final = "mqtt.session"
#: Which subscription of MQTT its consumers share.
MQTT_SHARE: Final = "mqtt.share"
SOURCE_START: Final = "source.start"
#: The exchange that a queue's messages go on to.
FORWARD_EXCHANGE: Final = "forward.exchange"
FORWARD_KEY: Final = "forward.routing.key"
#: The transformation that changes messages as they are delivered.
TRANSFORMATION_OUT: Final = "transformation.out"
WRITE_CACHING: Final = "write.caching"
#: The topic that Kafka's clients see the queue as.
KAFKA_TOPIC: Final = "kafka.topic"
#: Whether a queue is in one broker's memory alone.
TRANSIENT: Final = "transient"
#: How many logs a queue of its own has.
PARTITIONS: Final = "partitions"
PARTITIONS_MAX: Final = 64
#: What says nothing of a queue without a log, or needs one.
NOT_OF_TRANSIENT: Final = (SOURCE_TOPIC, FORWARD_EXCHANGE, WRITE_CACHING, STREAM_TOPIC)
#: What a queue of several partitions cannot have: it needs one order, or one count, over the whole.
NOT_OF_PARTITIONED: Final = (
    "max.priority",
    "max.length",
    "max.length.bytes",
    "max.in.flight",
    TRANSIENT,
    SOURCE_TOPIC,
    FORWARD_EXCHANGE,
    STREAM_TOPIC,
    MQTT_SESSION,
    MQTT_SHARE,
)
#: What a queue that Kafka's clients see cannot have: it has no log of messages, or holds what is no
#: message of its own.
NOT_OF_SHOWN: Final = (TRANSIENT, SOURCE_TOPIC, STREAM_TOPIC, MQTT_SESSION, MQTT_SHARE)
#: What the queue's log has as its own options.
OF_THE_LOG: Final = (ENCRYPTION, WRITE_CACHING)
#: What a cursor cannot have: its messages are admitted by the topic.
NOT_OF_CURSORS: Final = (
    "deduplication.ms",
    "delay.ms",
    "max.length",
    "max.length.bytes",
    "max.priority",
    "message.ttl.ms",
)
_DEAD_LETTER_WAYS: Final = ("dead.letter.queue", "dead.letter.topic", "dead.letter.exchange")
#: What names where messages go on to.
NAMES_OF_TARGETS: Final = (*_DEAD_LETTER_WAYS, FORWARD_EXCHANGE)
#: What a message is kept with, in short strings of AMQP, where it goes on.
SHORT_TEXTS: Final = (
    *NAMES_OF_TARGETS,
    "dead.letter.routing.key",
    FORWARD_KEY,
    TRANSFORMATION_OUT,
)
YEAR_MS: Final = 366 * 24 * 60 * 60 * 1000

_INT, _STRING, _BOOLEAN = OptionType.LONG, OptionType.STRING, OptionType.BOOLEAN
_OVERFLOWS: Final = {
    "drop-head": Overflow.DROP_HEAD,
    "reject-publish": Overflow.REJECT,
    "dead-letter": Overflow.DEAD_LETTER,
    "reject-publish-dlx": Overflow.REJECT_AND_DEAD_LETTER,
}
_SHARINGS: Final = {
    "all": Sharing.ALL,
    "single-active": Sharing.SINGLE_ACTIVE,
    "exclusive": Sharing.EXCLUSIVE,
}
_UNDELIVERABLES: Final = {"park": Undeliverable.PARK, "drop": Undeliverable.DROP}


def _number(name: str, doc: str, default: int = 0, most: int = INT64_MAX, least: int = 0) -> Option:
    return Option(name=name, type=_INT, default=default, minimum=least, maximum=most, doc=doc)


#: What no engine has to know: clients of SQS are told it, or held to it.
_OF_SQS: Final = (
    Option(
        name="content.based.deduplication",
        type=_BOOLEAN,
        default=False,
        doc="Over SQS, in a FIFO queue: whether a message without a deduplication id has the "
        "SHA-256 of its body for one.",
    ),
    Option(
        name="deduplication.scope",
        type=_STRING,
        default="queue",
        choices=("queue", "group"),
        doc="Over SQS: whether deduplication ids are those of the queue or of each group.",
    ),
    Option(
        name="fifo.throughput.limit",
        type=_STRING,
        default="queue",
        choices=("queue", "group"),
        doc="Over SQS: what FifoThroughputLimit says. Neither is limited here.",
    ),
    _number(
        "receive.wait.ms",
        "Over SQS: how long a request waits for a message if it does not say.",
        most=20_000,
    ),
    _number(
        "max.message.bytes",
        "Over SQS: the longest body with its attributes.",
        default=1024 * 1024,
        least=1024,
        most=4 * 1024 * 1024,
    ),
    _number(
        "delay.max.ms",
        "Over SQS: the longest delay that one message may ask for.",
        default=900_000,
        most=10 * YEAR_MS,
    ),
    Option(
        name="redrive.allow.policy",
        type=_STRING,
        default="",
        doc="Over SQS: which queues may have this one for dead letters, as RedriveAllowPolicy has "
        "it; empty: all.",
    ),
    Option(
        name="sqs.policy",
        type=_STRING,
        default="",
        doc="Over SQS: what Policy says. It is shown and not obeyed: rules say who may do what.",
    ),
    Option(
        name=MOVE_TASKS,
        type=_STRING,
        default="",
        doc="Over SQS: the last moves of messages to other queues. Not for people to set.",
    ),
    _number("modified.ms", "Over SQS: when attributes were set last. Not for people to set."),
    Option(
        name="tags",
        type=_STRING,
        default="",
        doc="Tags of the queue, as a JSON object of strings.",
    ),
)

QUEUE_OPTIONS: Final = OptionTable(
    "queue",
    [
        _number(
            "visibility.timeout.ms",
            "How long a message is locked for whoever takes it, if the request does not say.",
            default=30_000,
            most=YEAR_MS,
        ),
        _number(
            "delivery.limit",
            "Attempts that may fail before a message is given up; 0: any number.",
            most=INT32_MAX,
        ),
        _number(
            "delayed.retry.min.ms",
            "A message whose attempt has failed waits so long, and twice as long each time; 0: it "
            "is ready at once.",
            most=YEAR_MS,
        ),
        _number(
            "delayed.retry.max.ms",
            "The longest wait after a failed attempt; 0: as the shortest.",
            most=YEAR_MS,
        ),
        _number("delay.ms", "Messages wait so long before they can be taken.", most=10 * YEAR_MS),
        _number(
            "message.ttl.ms", "Messages live so long; 0: until they are taken.", most=10 * YEAR_MS
        ),
        _number(
            "max.priority",
            "The highest priority of messages; 0: they have none.",
            most=PRIORITIES_MAX - 1,
        ),
        Option(
            name="ordered.groups",
            type=_BOOLEAN,
            default=False,
            doc="Whether messages of one group are given out one after the other, as SQS FIFO has "
            "it.",
        ),
        Option(
            name="fair.groups",
            type=_BOOLEAN,
            default=False,
            doc="Whether groups get messages in turn, as SQS's fair queues have it: first the one "
            "with fewest in flight.",
        ),
        _number("max.length", "Messages that may wait; 0: any number; -1: none.", least=-1),
        _number(
            "max.length.bytes",
            "Bytes of messages that may wait; 0: any number; -1: no message may wait.",
            least=-1,
        ),
        Option(
            name="max.length.in.flight",
            type=_BOOLEAN,
            default=False,
            doc="Whether limits count messages that somebody has taken.",
        ),
        Option(
            name="overflow",
            type=_STRING,
            default="drop-head",
            choices=tuple(_OVERFLOWS),
            doc="What happens when a queue is too long: the oldest is dropped, or becomes a dead "
            "letter, or the publisher is refused; with `reject-publish-dlx` what it is refused "
            "becomes a dead letter.",
        ),
        Option(
            name="dead.letter.queue",
            type=_STRING,
            default="",
            doc="The queue that takes what is given up; none: it is parked in its own queue.",
        ),
        Option(
            name="dead.letter.topic",
            type=_STRING,
            default="",
            doc="The topic that takes what is given up, in place of a queue.",
        ),
        Option(
            name="dead.letter.exchange",
            type=_STRING,
            default="",
            doc="The exchange that takes what is given up, in place of a queue; amq.default: the "
            "one without a name. It need not exist before it is needed.",
        ),
        Option(
            name="dead.letter.routing.key",
            type=_STRING,
            default="",
            doc="The routing key of dead letters that go to an exchange; empty: the message's own.",
        ),
        Option(
            name="undeliverable",
            type=_STRING,
            default="park",
            choices=tuple(_UNDELIVERABLES),
            doc="What becomes of a message that is given up where no queue and no topic takes it.",
        ),
        Option(
            name="sharing",
            type=_STRING,
            default="all",
            choices=tuple(_SHARINGS),
            doc="Which consumers that are attached are given messages.",
        ),
        _number(
            "deduplication.ms",
            "A message with the id of an earlier one of this time is confirmed and dropped; 0: ids "
            "do not count.",
            most=7 * 24 * 60 * 60 * 1000,
        ),
        _number(
            "deduplication.max.ids",
            "Ids that are remembered; publishers are refused when there are more.",
            default=DEDUPLICATION_COUNT,
            most=100_000_000,
            least=1,
        ),
        Option(
            name=SOURCE_TOPIC,
            type=_STRING,
            default="",
            doc="The topic that the queue is a cursor over: messages stay there, and come to the "
            "queue as they are committed. It cannot be changed.",
        ),
        Option(
            name=SOURCE_START,
            type=_STRING,
            default="latest",
            choices=("latest", "earliest"),
            doc="Where such a queue begins. It cannot be changed.",
        ),
        Option(
            name=FORWARD_EXCHANGE,
            type=_STRING,
            default="",
            doc="The exchange that messages go on to, each as soon as it comes: the queue's broker "
            "publishes it there, then it is done with. amq.default: the exchange without a name. "
            "It need not exist before it is needed.",
        ),
        Option(
            name=FORWARD_KEY,
            type=_STRING,
            default="",
            doc="The routing key that they go on with; empty: the message's own, or the queue's "
            "name if it has none.",
        ),
        Option(
            name=TRANSFORMATION_OUT,
            type=_STRING,
            default="",
            doc="The transformation of the virtual host that changes each message as it is "
            "delivered; the queue keeps it as it came. What it cannot change is given up.",
        ),
        _number(
            "expires.ms",
            "Over AMQP: the queue goes when nobody has used it for so long; 0: never.",
            most=10 * YEAR_MS,
        ),
        _number(
            "consumer.timeout.ms",
            "Over AMQP: a message that a consumer has not acknowledged for so long comes again; 0: "
            "there is no limit.",
            most=YEAR_MS,
        ),
        _number("max.in.flight", "Messages that may be taken at a time; 0: any number."),
        _number(
            REDRIVE_RATE,
            "Messages per second that a redrive moves; 0: as many as go.",
            most=1_000_000,
        ),
        _number(
            PARTITIONS,
            "Logs that the queue is spread over, each with a leader of its own. Messages of one "
            "group are in one of them; else there is no order between them. It cannot be changed.",
            default=1,
            most=PARTITIONS_MAX,
            least=1,
        ),
        Option(
            name=KAFKA_TOPIC,
            type=_STRING,
            default="",
            doc="The name of a topic as which Kafka's clients see the queue, and read its messages "
            "without taking them; empty: they do not see it.",
        ),
        QUEUE_ENCRYPTION_OPTION,
        Option(
            name=WRITE_CACHING,
            type=_BOOLEAN,
            default=False,
            doc="Whether what is put, taken and settled is acknowledged before it is synced to "
            "disk. It is faster; a power failure of a majority may lose the newest of it.",
        ),
        Option(
            name=TRANSIENT,
            type=_BOOLEAN,
            default=False,
            doc="Whether the queue is in the memory of one broker alone, the one that its maker is "
            "connected with: no message and no acknowledgement is written to a disk or "
            "replicated, and the queue is gone when that broker stops. It cannot be changed.",
        ),
        *_OF_SQS,
        Option(
            name=DECLARATION,
            type=_STRING,
            default="",
            doc="Over AMQP: how the queue was declared, as JSON. Not for people to set.",
        ),
        *QUEUE_NATS_OPTIONS,
        Option(
            name=STREAM_TOPIC,
            type=_STRING,
            default="",
            doc="Over AMQP: the topic of a stream. What is published to the queue is appended to "
            "it, and consumers read it there. Not for people to set.",
        ),
        Option(
            name=MQTT_SESSION,
            type=_STRING,
            default="",
            doc="Over MQTT: whose session the queue is, as JSON. Not for people to set.",
        ),
        Option(
            name=MQTT_SHARE,
            type=_STRING,
            default="",
            doc="Over MQTT: which subscription its consumers share, as JSON. Not for people to "
            "set.",
        ),
    ],
)


def make_policy(options: Mapping[str, str]) -> Policy:
    """Return what a queue with these options is asked to do.

    Raises:
        ConfigError: an option is unknown, or its value not allowed.
        InvalidConfig: two options exclude one another.
    """
    values = {**QUEUE_OPTIONS.defaults(), **QUEUE_OPTIONS.parse(options)}

    def number(name: str) -> int:
        return int(values[name])

    _check_together(values)
    policy = Policy(
        lock_ms=number("visibility.timeout.ms"),
        attempts_max=number("delivery.limit"),
        retry_ms_min=number("delayed.retry.min.ms"),
        retry_ms_max=number("delayed.retry.max.ms"),
        delay_ms=number("delay.ms"),
        ttl_ms=number("message.ttl.ms"),
        priorities=number("max.priority") + 1,
        is_ordered=bool(values["ordered.groups"]),
        is_fair_by_group=bool(values["fair.groups"]),
        messages_max=max(0, number("max.length")),
        bytes_max=max(0, number("max.length.bytes")),
        holds_nothing=min(number("max.length"), number("max.length.bytes")) < 0,
        counts_in_flight=bool(values["max.length.in.flight"]),
        overflow=_OVERFLOWS[str(values["overflow"])],
        dead_letters_to=_target_of(values),
        undeliverable=_UNDELIVERABLES[str(values["undeliverable"])],
        sharing=_SHARINGS[str(values["sharing"])],
        deduplication_ms=number("deduplication.ms"),
        deduplication_count=number("deduplication.max.ids"),
        in_flight_max=number("max.in.flight"),
        redrive_rate=number(REDRIVE_RATE),
        # What a client was sent comes again, however late (MQTT 4.3.3-7).
        keeps_begun=bool(values[MQTT_SESSION]),
    )
    policy.check()
    return policy


def _check_together(values: Mapping[str, OptionValue]) -> None:
    """Refuse options that exclude one another."""
    if values[SOURCE_TOPIC]:
        useless = [name for name in NOT_OF_CURSORS if values[name]]
        if useless:
            raise InvalidConfig(f"a queue over a topic has no {useless[0]}")
        if values[ENCRYPTION] != NONE:
            raise InvalidConfig(
                f"a queue over a topic holds no messages: set {ENCRYPTION} of the topic"
            )
    if values[TRANSIENT]:
        useless = [name for name in NOT_OF_TRANSIENT if values[name]]
        if values[ENCRYPTION] != NONE:
            useless.append(ENCRYPTION)
        if useless:
            raise InvalidConfig(f"a transient queue is in no log, and has no {useless[0]}")
    if int(values[PARTITIONS]) > 1:
        _check_partitioned(values)
    if values[KAFKA_TOPIC]:
        _check_shown(values)
    ways = [name for name in _DEAD_LETTER_WAYS if values[name]]
    if len(ways) > 1:
        raise InvalidConfig(f"dead letters go to {' or to '.join(ways)}")
    if values["dead.letter.routing.key"] and not values["dead.letter.exchange"]:
        raise InvalidConfig("dead.letter.routing.key says nothing without dead.letter.exchange")
    if values[FORWARD_KEY] and not values[FORWARD_EXCHANGE]:
        raise InvalidConfig(f"{FORWARD_KEY} says nothing without {FORWARD_EXCHANGE}")
    if values[TRANSFORMATION_OUT]:
        _check_way_out(values)
    if values[FORWARD_EXCHANGE] and values[ENCRYPTION] != NONE:
        raise InvalidConfig(
            f"an encrypted queue has no {FORWARD_EXCHANGE}: subscribers would get its messages in "
            "the clear"
        )


def _check_shown(values: Mapping[str, OptionValue]) -> None:
    useless = [name for name in NOT_OF_SHOWN if values[name]]
    if useless:
        raise InvalidConfig(
            f"a queue with {useless[0]} is shown as no topic: it has no {KAFKA_TOPIC}"
        )
    if _OVERFLOWS[str(values["overflow"])] is Overflow.REJECT_AND_DEAD_LETTER:
        raise InvalidConfig(
            f"with overflow=reject-publish-dlx, {KAFKA_TOPIC} would show messages that were refused"
        )


def _check_way_out(values: Mapping[str, OptionValue]) -> None:
    if values[STREAM_TOPIC]:
        raise InvalidConfig(f"a stream is read in its topic, and has no {TRANSFORMATION_OUT}")
    if _UNDELIVERABLES[str(values["undeliverable"])] is Undeliverable.DROP:
        raise InvalidConfig(
            f"with undeliverable=drop, messages that {TRANSFORMATION_OUT} cannot change would be"
            " lost: leave it at park"
        )


def _check_partitioned(values: Mapping[str, OptionValue]) -> None:
    """Refuse what needs one order, or one count, over the whole queue."""
    useless = [name for name in NOT_OF_PARTITIONED if values[name]]
    if values["sharing"] != "all":
        useless.append(f"sharing={values['sharing']}")
    if useless:
        raise InvalidConfig(
            f"a queue of several partitions has no {useless[0]}: set {PARTITIONS}=1, or leave it "
            "out"
        )
    is_by_group = values["ordered.groups"] or values["fair.groups"]
    if values["deduplication.ms"] and is_by_group and values["deduplication.scope"] != "group":
        raise InvalidConfig(
            "groups are spread over the partitions, and a partition knows its own ids alone: set "
            f"deduplication.scope=group, or {PARTITIONS}=1"
        )


def partition_count(options: Mapping[str, str]) -> int:
    """Return how many logs a queue of its own with these options has.

    Raises:
        ConfigError: it is no number that is allowed.
    """
    if PARTITIONS not in options:
        return 1
    return int(QUEUE_OPTIONS.parse({PARTITIONS: options[PARTITIONS]})[PARTITIONS])


def is_transient(options: Mapping[str, str]) -> bool:
    """Tell whether a queue with these options is in one broker's memory alone."""
    return options.get(TRANSIENT, "").strip().lower() == "true"


def topic_target(topic: str) -> str:
    """Return what the engine calls a topic that takes dead letters."""
    return _TOPIC_MARK + topic


def topic_of_target(target: str) -> str | None:
    """Return the topic that a target is; None: it is a queue."""
    return target.removeprefix(_TOPIC_MARK) if target.startswith(_TOPIC_MARK) else None


def exchange_target(exchange: str, key: str | None) -> str:
    """Return what the engine calls an exchange that takes dead letters; None: with their keys."""
    return _EXCHANGE_MARK + exchange + ("" if key is None else f"\0{key}")


def exchange_of_target(target: str) -> tuple[str, str | None] | None:
    """Return exchange and routing key of a target; None: it is none."""
    if not target.startswith(_EXCHANGE_MARK):
        return None
    exchange, mark, key = target.removeprefix(_EXCHANGE_MARK).partition("\0")
    return exchange, key if mark else None


def _target_of(values: Mapping[str, OptionValue]) -> str:
    if values["dead.letter.topic"]:
        return topic_target(str(values["dead.letter.topic"]))
    exchange = str(values["dead.letter.exchange"])
    if not exchange:
        return str(values["dead.letter.queue"])
    key = str(values["dead.letter.routing.key"])
    return exchange_target("" if exchange == DEFAULT_EXCHANGE_WORD else exchange, key or None)
