"""Which consumers there are: queues over a stream's topic, with the option `nats.consumer`.

What a consumer has been given, how often, and what is acknowledged is the queue's to know: its
leader commits it. So any broker serves any consumer, and any broker's death leaves it as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST, QueueName
from kafkaesque.broker.options.nats import CONSUMER
from kafkaesque.broker.options.queues import SOURCE_START, SOURCE_TOPIC
from kafkaesque.gateway.nats.jetstream.configs import ConsumerConfig, read_config, write_config
from kafkaesque.gateway.nats.jetstream.errors import ApiCode, ApiError
from kafkaesque.gateway.nats.jetstream.pauses import paused_ms
from kafkaesque.model.ids import TopicId
from kafkaesque.routing.errors import BadName
from kafkaesque.routing.names import NATS, NameFilter

_PREFIX: Final = "nats/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """A consumer that the cluster keeps."""

    stream: str
    name: str
    config: ConsumerConfig
    queue: QueueState
    filters: tuple[NameFilter, ...]

    @property
    def log_id(self) -> TopicId:
        """Where its queue is asked for."""
        return self.queue.topic_id

    @property
    def needs_ack(self) -> bool:
        """Whether a message is to be acknowledged."""
        return self.config.ack_policy != "none"

    def wants(self, subject: str) -> bool:
        """Tell whether a message of this subject is for it."""
        if not self.filters:
            return True
        name = NATS.read_name(subject)
        return any(each.matches(name) for each in self.filters)


def queue_name(stream: str, consumer: str) -> QueueName:
    """Return what a consumer's queue is called."""
    return QueueName(DEFAULT_VHOST, f"{_PREFIX}{stream}/{consumer}")


class Consumers:
    """The consumers of the cluster, as far as this broker has heard."""

    __slots__ = ("_doors", "_read")

    def __init__(self, doors: Doors) -> None:
        self._doors: Final = doors
        #: By the queue's log: what it was created as, and what that means.
        self._read: Final[dict[TopicId, tuple[str, Consumer]]] = {}

    def look(self, stream: str, name: str) -> Consumer | None:
        """Return a consumer, if there is one of the name."""
        queues = self._doors.cluster.state.queues_by_vhost.get(DEFAULT_VHOST, {})
        queue = queues.get(queue_name(stream, name).name)
        return None if queue is None else self._of(queue)

    def find(self, stream: str, name: str) -> Consumer:
        """Return a consumer.

        Raises:
            ApiError: there is none of the name.
        """
        found = self.look(stream, name)
        if found is None:
            raise ApiError(ApiCode.CONSUMER_NOT_FOUND)
        return found

    def paused_ms(self, consumer: Consumer) -> int:
        """Return for how long a consumer gives out nothing, by what is known of it now."""
        return paused_ms(self.now(consumer).config, self._doors.clock.wall_ms())

    def now(self, consumer: Consumer) -> Consumer:
        """Return what a consumer is now; one that is gone is what it was."""
        found = self.look(consumer.stream, consumer.name)
        return consumer if found is None or found.log_id != consumer.log_id else found

    def all(self, stream: str = "") -> Iterator[Consumer]:
        """Return those of a stream, or of all, by their names."""
        prefix = f"{_PREFIX}{stream}/" if stream else _PREFIX
        queues = self._doors.cluster.state.queues_by_vhost.get(DEFAULT_VHOST, {})
        for name in sorted(each for each in queues if each.startswith(prefix)):
            found = self._of(queues[name])
            if found is not None:
                yield found

    def _of(self, queue: QueueState) -> Consumer | None:
        text = queue.options.get(CONSUMER, "")
        if not text:
            return None
        before = self._read.get(queue.topic_id)
        if before is not None and before[0] == text:
            return before[1]
        stream, slash, name = queue.queue.name.removeprefix(_PREFIX).partition("/")
        try:
            config = read_config(text.encode(), ConsumerConfig)
            filters = tuple(NATS.read_filter(each) for each in config.filters)
        except (ApiError, BadName):
            # Whoever may change the queue may have written anything.
            return None
        if not slash:
            return None
        made = Consumer(stream=stream, name=name, config=config, queue=queue, filters=filters)
        self._read[queue.topic_id] = (text, made)
        return made


def queue_options(stream: str, config: ConsumerConfig) -> dict[str, str]:
    """Return the options of the queue that a consumer is."""
    is_new = config.deliver_policy == "new"
    options = {
        CONSUMER: write_config(config),
        SOURCE_TOPIC: stream,
        SOURCE_START: "latest" if is_new else "earliest",
        "visibility.timeout.ms": str(config.ack_wait_ms),
        # What is given up stays in the stream, and does not come again.
        "undeliverable": "drop",
    }
    if config.max_deliver is not None and config.max_deliver > 0:
        options["delivery.limit"] = str(config.max_deliver)
    if config.ack_pending_max:
        options["max.in.flight"] = str(config.ack_pending_max)
    return options


def changed_options(config: ConsumerConfig) -> dict[str, str | None]:
    """Return what of a queue changes with its consumer."""
    options = queue_options("", config)
    del options[SOURCE_TOPIC], options[SOURCE_START]
    changes: dict[str, str | None] = {"delivery.limit": None, "max.in.flight": None}
    changes.update(options)
    return changes
