"""Which streams this broker copies messages into: those with origins whose logs it leads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafkaesque.broker.metadata.cluster_state import TopicState
from kafkaesque.broker.options.encryption import is_encrypted
from kafkaesque.env.clock import Timer
from kafkaesque.gateway.nats.jetstream.copier import Copier, origin_key
from kafkaesque.gateway.nats.jetstream.errors import ApiError
from kafkaesque.gateway.nats.jetstream.office import Office
from kafkaesque.gateway.nats.jetstream.origins import sources_of
from kafkaesque.gateway.nats.jetstream.sources import StreamSource
from kafkaesque.gateway.nats.jetstream.streams import Stream

#: So often a broker looks what it is to copy.
SWEEP_MS: Final = 250


class Copying:
    """See the module."""

    __slots__ = ("_copiers", "_office", "_timer")

    def __init__(self, office: Office) -> None:
        self._office: Final = office
        #: By the stream, and what its records call the origin.
        self._copiers: Final[dict[tuple[str, bytes], Copier]] = {}
        self._timer: Timer | None = None

    def begin(self) -> None:
        """Look from time to time; harmless if that was begun."""
        if self._timer is None:
            self._timer = self._office.doors.clock.call_later(SWEEP_MS, self._sweep)

    def end(self) -> None:
        """Copy nothing more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for each in self._copiers.values():
            each.end()
        self._copiers.clear()

    def error_of(self, stream: Stream, origin: bytes) -> ApiError | None:
        """Return why a stream does not go on with an origin, if this broker copies and knows."""
        found = self._copiers.get((stream.name, origin))
        return None if found is None else found.error

    def _sweep(self) -> None:
        self._timer = self._office.doors.clock.call_later(SWEEP_MS, self._sweep)
        wanted = {
            (stream.name, origin_key(topic, partition, source)): (stream, source, topic, partition)
            for stream in self._led()
            for source, topic, partition in origins_of(self._office, stream)
        }
        for key, copier in list(self._copiers.items()):
            # A stream that was changed has another log.
            if key not in wanted or wanted[key][0] is not copier.stream:
                copier.end()
                del self._copiers[key]
        for key, what in wanted.items():
            if key not in self._copiers:
                made = self._copiers[key] = Copier(self._office, *what)
                made.begin()

    def _led(self) -> Iterator[Stream]:
        cluster = self._office.doors.cluster
        for stream in self._office.streams.with_origins():
            if cluster.leaders.leader(stream.topic.partitions[0].group) == cluster.node:
                yield stream


def origins_of(office: Office, stream: Stream) -> Iterator[tuple[StreamSource, TopicState, int]]:
    """Yield what a stream has messages from, as far as it is there and may be read.

    A mirror of a topic with several partitions has nothing: they have no sequences together. What
    is encrypted is not copied: it would be in the clear.
    """
    state = office.doors.cluster.state
    for source in sources_of(stream.config):
        topic = state.topics.get(source.name)
        if topic is None or topic.is_internal or is_encrypted(topic.configs):
            continue
        if stream.config.mirror is None or len(topic.partitions) == 1:
            for partition in range(len(topic.partitions)):
                yield source, topic, partition
