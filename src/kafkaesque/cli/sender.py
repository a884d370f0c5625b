"""Publishes messages to one topic, and knows what became of each."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.message_format import Outgoing
from kafkaesque.cli.screen import counted
from kafkaesque.cli.topic_name import check_collision
from kafkaesque.cli.wait_teller import WaitTeller

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message
    from confluent_kafka.admin import AdminClient

    from kafkaesque.cli.kafka import Connection

#: Creation takes a moment; a switch that forbids it looks the same until this is over.
CREATION_TIMEOUT_S = 3.0
FLUSH_STEP_S = 0.2
QUEUE_WAIT_S = 0.1
POLL_S = 0.1
#: What librdkafka allows for `message.max.bytes`, and what it takes into one batch by itself.
CLIENT_BYTES_MIN = 1000
CLIENT_BYTES_MAX = 1_000_000_000
BATCH_BYTES_MAX = 1_000_000

#: What the cluster says of a topic that it is about to create.
_WHILE_CREATED = ("UNKNOWN_TOPIC_OR_PART", "LEADER_NOT_AVAILABLE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where messages go, and what is the same for all of them."""

    topic: str
    shared: Outgoing
    #: Whether a message may name its partition.
    keeps_partitions: bool
    #: What one message is called in errors: a line of a file, or an argument.
    unit: str


class Sender:
    """Publishes to one topic and counts what became of it."""

    def __init__(
        self,
        connection: "Connection",
        target: Target,
        settings: dict[str, Any],
        note: Callable[[str], None],
    ) -> None:
        """Wait for the topic, which may have to be created.

        Raises:
            CommandFailed: it is not there, or has no such partition.
        """
        self.failed = 0
        #: The first message that was refused, counted from 1, and why.
        self.first_error: tuple[int, KafkaError] | None = None
        self._sent = 0
        self._target = target
        self._connection = connection
        admin = connection.admin()
        self._partitions = wait_for_topic(connection, admin, target.topic)
        if target.shared.partition is not None:
            self._check_partition(target.shared.partition)
        options = _options(connection.bootstrap, target.topic)
        self._needs_keys = "compact" in options.get("cleanup.policy", "")
        limits = _limits(options.get("max.message.bytes"))
        self._producer = connection.producer({**settings, **limits})
        self._teller = WaitTeller(
            note, connection, self._producer, [target.topic], "acknowledgement"
        )

    @property
    def acknowledged(self) -> int:
        """Messages that were sent and neither failed nor still wait."""
        return self._sent - self.failed - len(self._producer)

    def send_all(self, messages: Iterable[Outgoing]) -> CommandFailed | KeyboardInterrupt | None:
        """Send and wait for all acknowledgements; return what has ended it before its time.

        A message that cannot be sent ends it; what came before it is still delivered.
        """
        try:
            for number, message in enumerate(messages, start=1):
                self._send(number, message)
                self._producer.poll(0)
            self._flush()
        except KeyboardInterrupt as interrupt:
            self._producer.flush(FLUSH_STEP_S)
            return interrupt
        except CommandFailed as failure:
            try:
                self._flush()
            except KeyboardInterrupt:
                pass
            return failure
        return None

    def failure(self) -> CommandFailed | None:
        """Return what to say of the messages that the cluster has refused."""
        if self.first_error is None:
            return None
        from kafkaesque.cli.kafka import explain
        from kafkaesque.cli.missing_rules import on_topic

        number, error = self.first_error
        topic = self._target.topic
        failure = explain(error, f"topic {topic}", on_topic("write", topic))
        failure.message = f"{self._target.unit} {number}: {failure.message}"
        if self.failed > 1:
            failure.message += f"; {counted(self.failed, 'message')} not published in total"
        return failure

    def _flush(self) -> None:
        self._teller.moved()
        while self._producer.flush(FLUSH_STEP_S):
            self._teller.maybe_tell()

    def _send(self, number: int, message: Outgoing) -> None:
        from confluent_kafka import KafkaException

        target, shared = self._target, self._target.shared
        optional: dict[str, Any] = {}
        partition = message.partition if target.keeps_partitions else shared.partition
        if partition is not None:
            optional["partition"] = partition
        if message.timestamp_ms is not None:
            optional["timestamp"] = message.timestamp_ms
        headers = [*message.headers, *shared.headers]
        key = shared.key if message.key is None else message.key
        try:
            if target.keeps_partitions and partition is not None:
                self._check_partition(partition)
            if key is None and self._needs_keys:
                # The broker would refuse it, with all that is in its batch.
                raise CommandFailed(
                    f"topic {target.topic} is compacted: its messages need a key",
                    hint="--key KEY, for all messages, or --key-separator :, for lines with a key",
                )
            self._produce(
                value=message.value,
                key=key,
                headers=headers or None,
                on_delivery=partial(self._on_delivery, number),
                **optional,
            )
        except KafkaException as raised:
            from kafkaesque.cli.kafka import explain_raised

            failure = explain_raised(raised, f"topic {target.topic}")
            failure.message = f"{target.unit} {number}: {failure.message}"
            raise failure from None
        except CommandFailed as failure:
            failure.message = f"{target.unit} {number}: {failure.message}"
            raise
        self._sent += 1

    def _produce(self, **message: Any) -> None:
        while True:
            try:
                self._producer.produce(self._target.topic, **message)
                return
            except BufferError:
                # Full: as fast as the brokers take it, and no faster.
                self._producer.poll(QUEUE_WAIT_S)
                self._teller.maybe_tell()

    def _check_partition(self, partition: int) -> None:
        if partition not in self._partitions:
            raise CommandFailed(
                f"topic {self._target.topic} has no partition {partition}:"
                f" it has 0 to {max(self._partitions)}"
            )

    def _on_delivery(self, number: int, error: "KafkaError | None", _: "Message") -> None:
        self._teller.moved()
        if error is not None:
            self.failed += 1
            self.first_error = self.first_error or (number, error)


def wait_for_topic(connection: "Connection", client: "AdminClient", topic: str) -> set[int]:
    """Return the topic's partitions once it is there; asking creates it, where that is allowed.

    Raises:
        CommandFailed: it is not there.
    """
    from kafkaesque.cli.kafka import explain
    from kafkaesque.cli.missing_rules import check_rule, on_topic

    deadline = time.monotonic() + CREATION_TIMEOUT_S
    is_name_checked = False
    while True:
        found = connection.metadata(client, topic).topics[topic]
        error = found.error
        if error is None and found.partitions:
            return set(found.partitions)
        is_over = time.monotonic() > deadline
        if error is not None and not is_name_checked:
            # A broker that refuses the name may say no more than that there is no such topic.
            check_collision(topic, connection.metadata(client).topics)
            is_name_checked = True
        if error is not None and (is_over or error.name() not in _WHILE_CREATED):
            check_rule(error.code(), connection.bootstrap, on_topic("write", topic))
            failure = explain(error, f"topic {topic}")
            failure.hint = f"kafkaesque topic create {topic}"
            raise failure
        time.sleep(POLL_S)


def _options(bootstrap: str, topic: str) -> Mapping[str, str]:
    """Return the topic's options, if the cluster says them."""
    from kafkaesque.cli.config_requests import read_values
    from kafkaesque.cli.config_target import Target as ConfigTarget

    try:
        found = read_values(bootstrap, ConfigTarget(topic=topic, broker=None))
    except CommandFailed:
        return {}
    return {row.option: row.value for row in found if row.value is not None}


def _limits(accepted: str | None) -> dict[str, Any]:
    """Return librdkafka's settings for a topic that takes batches of so many bytes.

    It would refuse what the topic takes, and send many small messages as one batch that is too
    large, because unlike Kafka's own client it never divides what was refused.
    """
    if accepted is None or not accepted.isdecimal():
        return {}
    max_message_bytes = int(accepted)
    return {
        "message.max.bytes": min(max(max_message_bytes, CLIENT_BYTES_MIN), CLIENT_BYTES_MAX),
        "batch.size": min(max(max_message_bytes, 1), BATCH_BYTES_MAX),
    }
