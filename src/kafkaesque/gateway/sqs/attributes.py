"""Attributes of queues, as SQS has them, and options of queues, as the broker has them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from kafkaesque.broker.options.queues import QUEUE_OPTIONS
from kafkaesque.model.options import OptionValue
from kafkaesque.protocols.sqs.errors import SqsError
from kafkaesque.protocols.sqs.names import is_fifo_name, read_arn, write_arn
from kafkaesque.protocols.sqs.service import QUEUE_ATTRIBUTES

#: Amazon's limit on messages in flight, of both kinds of queues.
IN_FLIGHT_MAX: Final = 120_000
#: For so long a FIFO queue knows duplicates.
DEDUPLICATION_MS: Final = 300_000
ATTEMPTS_MAX: Final = 1_000
SOURCES_MAX: Final = 10
POLICY_LENGTH_MAX: Final = 64 * 1024

Options = dict[str, str]


class QueueOptions:
    """What SQS needs of a queue's options."""

    __slots__ = ("_options", "_values")

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options
        #: Those that were asked for: a batch asks for the same ones with each message.
        self._values: dict[str, OptionValue] = {}

    def _value(self, name: str) -> OptionValue:
        value = self._values.get(name)
        if value is None:
            option = QUEUE_OPTIONS.get(name)
            said = self._options.get(name)
            value = self._values[name] = option.default if said is None else option.parse(said)
        return value

    @property
    def is_fifo(self) -> bool:
        """Whether messages of a group come one after the other."""
        return bool(self._value("ordered.groups"))

    @property
    def knows_groups(self) -> bool:
        """Whether the queue heeds of which group a message is: it is FIFO, or fair among groups."""
        return self.is_fifo or bool(self._value("fair.groups"))

    @property
    def message_bytes_max(self) -> int:
        """The longest message."""
        return int(self._value("max.message.bytes"))

    @property
    def delay_ms_max(self) -> int:
        """The longest delay that a message may ask for."""
        return int(self._value("delay.max.ms"))

    @property
    def wait_ms(self) -> int:
        """How long to wait for a message if the request does not say."""
        return int(self._value("receive.wait.ms"))

    @property
    def visibility_ms(self) -> int:
        """How long a message is invisible if the request does not say."""
        return int(self._value("visibility.timeout.ms"))

    @property
    def in_flight_max(self) -> int:
        """Messages that may be in flight; 0: any number."""
        return int(self._value("max.in.flight"))

    @property
    def has_content_based_deduplication(self) -> bool:
        """Whether a message without a deduplication id has one by its body."""
        return bool(self._value("content.based.deduplication"))

    @property
    def deduplicates_by_group(self) -> bool:
        """Whether a deduplication id is one of a group, and not of the queue."""
        return self._value("deduplication.scope") == "group"

    @property
    def dead_letter_queue(self) -> str:
        """The queue that takes what is given up; empty: none."""
        return str(self._value("dead.letter.queue"))

    @property
    def tags(self) -> dict[str, str]:
        """Tags of the queue."""
        return read_tags(str(self._value("tags")))

    @property
    def policy(self) -> str:
        """What Policy says."""
        return str(self._value("sqs.policy"))

    def allows_source(self, name: str) -> bool:
        """Tell whether a queue may have this one for its dead letters."""
        said = str(self._value("redrive.allow.policy"))
        if not said:
            return True
        allowed = _decode_allow(said)
        match allowed.permission:
            case "allowAll":
                return True
            case "byQueue":
                return write_arn(name) in allowed.sources
            case _:
                return False

    def shown(self) -> dict[str, str]:
        """Return the attributes that options are, those that there are."""
        shown = {
            name: each.write(self._value(each.option))
            for name, each in _SIMPLE.items()
            if self.is_fifo or not each.is_fifo_only
        }
        target, attempts = self.dead_letter_queue, int(self._value("delivery.limit"))
        if target and attempts:
            policy = {"deadLetterTargetArn": write_arn(target), "maxReceiveCount": attempts}
            shown["RedrivePolicy"] = json.dumps(policy)
        for name, option in (
            ("RedriveAllowPolicy", "redrive.allow.policy"),
            ("Policy", "sqs.policy"),
        ):
            if self._value(option):
                shown[name] = str(self._value(option))
        if self.is_fifo:
            shown["FifoQueue"] = "true"
        shown["SqsManagedSseEnabled"] = "false"
        return shown


class RedrivePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Where dead letters go, and when."""

    target: str = msgspec.field(name="deadLetterTargetArn")
    attempts: int | str = msgspec.field(name="maxReceiveCount")


class AllowPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Which queues may have this one for dead letters."""

    permission: str = msgspec.field(name="redrivePermission")
    sources: tuple[str, ...] = msgspec.field(default=(), name="sourceQueueArns")


class Simple(NamedTuple):
    """An attribute that is one option."""

    option: str
    #: Returns the option's value for what a client says; None: it may not say that.
    read: Callable[[str], str | None]
    write: Callable[[OptionValue], str]
    is_fifo_only: bool = False


def _seconds(option: str, least: int, most: int) -> Simple:
    def read(said: str) -> str | None:
        seconds = _read_int(said, least, most)
        # To the engine, a lock of no time is one without an end.
        never = 1 if option == "visibility.timeout.ms" else 0
        return None if seconds is None else str(seconds * 1000 or never)

    return Simple(option, read, lambda value: str(int(value) // 1000))


def _words(option: str, words: Mapping[str, str]) -> Simple:
    def write(value: OptionValue) -> str:
        said = str(value).lower() if isinstance(value, bool) else str(value)
        return next(name for name, each in words.items() if each == said)

    return Simple(option, words.get, write, is_fifo_only=True)


def _size(said: str) -> str | None:
    found = _read_int(said, 1024, 1024 * 1024)
    return None if found is None else str(found)


_SIMPLE: Final[Mapping[str, Simple]] = {
    "DelaySeconds": _seconds("delay.ms", 0, 900),
    "MaximumMessageSize": Simple("max.message.bytes", _size, str),
    "MessageRetentionPeriod": _seconds("message.ttl.ms", 60, 14 * 24 * 3600),
    "ReceiveMessageWaitTimeSeconds": _seconds("receive.wait.ms", 0, 20),
    "VisibilityTimeout": _seconds("visibility.timeout.ms", 0, 12 * 3600),
    "ContentBasedDeduplication": _words(
        "content.based.deduplication", {"true": "true", "false": "false"}
    ),
    "DeduplicationScope": _words(
        "deduplication.scope", {"queue": "queue", "messageGroup": "group"}
    ),
    "FifoThroughputLimit": _words(
        "fifo.throughput.limit", {"perQueue": "queue", "perMessageGroupId": "group"}
    ),
}
#: What only a server can say.
_READ_ONLY: Final = (
    "QueueArn",
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
    "CreatedTimestamp",
    "LastModifiedTimestamp",
)
#: Of encryption by Amazon's keys, which there are not: what may be said all the same.
_ENCRYPTION: Final = ("KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds", "SqsManagedSseEnabled")


def new_options(name: str, attributes: Mapping[str, str], tags: Mapping[str, str]) -> Options:
    """Return the options of a new queue: Amazon's limits hold where nothing else is said.

    Raises:
        SqsError: an attribute is not known, or its value not allowed.
    """
    is_fifo = is_fifo_name(name)
    said = attributes.get("FifoQueue")
    if said is not None and (said != "true" or not is_fifo):
        raise invalid_attribute(
            "FifoQueue", said, "a FIFO queue has it true, and a name that ends with .fifo"
        )
    if is_fifo and said is None:
        raise SqsError(
            "InvalidParameterValue",
            "The name of a queue that is not FIFO can only include alphanumeric characters, "
            "hyphens, or underscores: set FifoQueue to true.",
        )
    options = {
        "message.ttl.ms": str(4 * 24 * 3600 * 1000),
        "max.in.flight": str(IN_FLIGHT_MAX),
    }
    if is_fifo:
        options |= {"ordered.groups": "true", "deduplication.ms": str(DEDUPLICATION_MS)}
    else:
        options["fair.groups"] = "true"
    if tags:
        options["tags"] = write_tags(tags)
    rest = {key: value for key, value in attributes.items() if key != "FifoQueue"}
    changes = changed_options(name, rest)
    return changed(options, changes)


def changed_options(name: str, attributes: Mapping[str, str]) -> dict[str, str | None]:
    """Return what attributes change of the options of a queue.

    Raises:
        SqsError: an attribute is not known, or its value not allowed.
    """
    changes: dict[str, str | None] = {}
    for attribute, said in attributes.items():
        changes |= _change(name, attribute, said)
    return changes


def changed(options: Mapping[str, str], changes: Mapping[str, str | None]) -> Options:
    """Return options as they are after a change."""
    after = {**options, **changes}
    return {key: value for key, value in after.items() if value is not None}


def _change(name: str, attribute: str, said: str) -> dict[str, str | None]:
    simple = _SIMPLE.get(attribute)
    if simple is not None and (is_fifo_name(name) or not simple.is_fifo_only):
        value = simple.read(said)
        if value is None:
            raise invalid_attribute(attribute, said)
        return {simple.option: value}
    match attribute:
        case "RedrivePolicy":
            return _read_redrive(said)
        case "RedriveAllowPolicy":
            return {"redrive.allow.policy": _read_allow(said)}
        case "Policy":
            return {"sqs.policy": _read_policy(said)}
        case _ if attribute in _ENCRYPTION:
            if said not in ("", "false"):
                raise invalid_attribute(
                    attribute, said, "queues are not encrypted by keys of Amazon"
                )
            return {}
        case _ if (
            attribute in (*_READ_ONLY, "FifoQueue", "All") or attribute not in QUEUE_ATTRIBUTES
        ):
            raise SqsError("InvalidAttributeName", f"Unknown Attribute {attribute}.")
        case _:
            raise SqsError(
                "InvalidAttributeName", f"Unknown Attribute {attribute}: the queue is not FIFO."
            )


def invalid_attribute(name: str, said: str, why: str = "") -> SqsError:
    """Return that an attribute may not have a value."""
    reason = f" Reason: {why}." if why else ""
    return SqsError(
        "InvalidAttributeValue", f"Invalid value for the parameter {name}: {said[:200]!r}.{reason}"
    )


def _read_int(said: str, least: int, most: int) -> int | None:
    if not said.isascii() or not said.isdecimal() or len(said) > 10:
        return None
    return int(said) if least <= int(said) <= most else None


def _read_redrive(said: str) -> dict[str, str | None]:
    if not said:
        return {"dead.letter.queue": None, "delivery.limit": None}
    try:
        policy = msgspec.json.decode(said, type=RedrivePolicy)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise invalid_attribute("RedrivePolicy", said, str(error)) from None
    target = read_arn(policy.target)
    if target is None:
        raise invalid_attribute("RedrivePolicy", said, "deadLetterTargetArn is no ARN of a queue")
    attempts = _read_int(str(policy.attempts), 1, ATTEMPTS_MAX)
    if attempts is None:
        raise invalid_attribute("RedrivePolicy", said, f"maxReceiveCount is 1 to {ATTEMPTS_MAX}")
    return {"dead.letter.queue": target, "delivery.limit": str(attempts)}


def _read_allow(said: str) -> str | None:
    if not said:
        return None
    policy = _decode_allow(said)
    is_by_queue = policy.permission == "byQueue"
    if policy.permission not in ("allowAll", "denyAll", "byQueue"):
        raise invalid_attribute(
            "RedriveAllowPolicy", said, "redrivePermission is allowAll, denyAll or byQueue"
        )
    if is_by_queue != bool(policy.sources) or len(policy.sources) > SOURCES_MAX:
        raise invalid_attribute(
            "RedriveAllowPolicy", said, f"sourceQueueArns has 1 to {SOURCES_MAX}, with byQueue only"
        )
    if any(read_arn(each) is None for each in policy.sources):
        raise invalid_attribute("RedriveAllowPolicy", said, "sourceQueueArns has another thing")
    return said


def _decode_allow(said: str) -> AllowPolicy:
    try:
        return msgspec.json.decode(said, type=AllowPolicy)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise invalid_attribute("RedriveAllowPolicy", said, str(error)) from None


def _read_policy(said: str) -> str | None:
    """Return a policy that only allows: what it forbids would be allowed all the same."""
    if not said:
        return None
    try:
        found = msgspec.json.decode(said, type=dict[str, object])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise invalid_attribute("Policy", said, str(error)) from None
    statements = found.get("Statement", [])
    listed = statements if isinstance(statements, list) else [statements]
    if any(not isinstance(each, dict) or each.get("Effect") != "Allow" for each in listed):
        raise invalid_attribute(
            "Policy", said, "rules of the broker deny, and a policy is shown and not obeyed"
        )
    if len(said) > POLICY_LENGTH_MAX:
        raise invalid_attribute("Policy", said, f"it is longer than {POLICY_LENGTH_MAX}")
    return said


# -- tags


def read_tags(said: str) -> dict[str, str]:
    """Return tags as an option has them; none where it was set to something else."""
    try:
        return msgspec.json.decode(said, type=dict[str, str]) if said else {}
    except (msgspec.MsgspecError, RecursionError):
        return {}


def write_tags(tags: Mapping[str, str]) -> str:
    """Return tags as an option has them."""
    return json.dumps(dict(sorted(tags.items())), ensure_ascii=False, separators=(",", ":"))
