"""The readers of one broker, and who is subscribed there to what consumers are pushed to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafkaesque.gateway.nats.jetstream.configs import NS_PER_MS, ConsumerConfig
from kafkaesque.gateway.nats.jetstream.errors import ApiCode, ApiError
from kafkaesque.gateway.nats.jetstream.office import Entitled, Office
from kafkaesque.gateway.nats.jetstream.reader import Reader
from kafkaesque.gateway.nats.jetstream.sinks import PullSink, PushSink, Sink
from kafkaesque.gateway.nats.jetstream.streams import Stream, key_of

#: Of one broker.
READERS_MAX: Final = 10_000


class Readers:
    """See the module."""

    __slots__ = ("_by_name", "_office")

    def __init__(self, office: Office) -> None:
        self._office: Final = office
        self._by_name: Final[dict[tuple[str, str], Reader]] = {}

    def look(self, stream: str, name: str) -> Reader | None:
        """Return a reader, if there is one of the name."""
        return self._by_name.get((stream, name))

    def all(self, stream: str) -> Iterator[Reader]:
        """Return those of a stream."""
        for (of, _), reader in sorted(self._by_name.items()):
            if of == stream:
                yield reader

    def make(self, stream: Stream, config: ConsumerConfig, maker: Entitled) -> Reader:
        """Return a new reader, in place of one of the same name; it has not begun.

        It ends when its maker may not read the stream any more.

        Raises:
            ApiError: there are too many.
        """
        key = (stream.name, config.name or "")
        before = self._by_name.get(key)
        if before is not None:
            before.end()
        if len(self._by_name) >= READERS_MAX:
            raise ApiError(ApiCode.CONSUMER_CREATE, "this server has too many consumers")
        reader = Reader(self._office, stream, config, maker, self._forget)
        reader.sink = self._sink_of(reader, config)
        self._by_name[key] = reader
        return reader

    def change(self, reader: Reader, config: ConsumerConfig) -> None:
        """Let a reader go on where it is with another configuration."""
        subject = config.deliver_subject
        sink = reader.sink
        if sink is not None and subject != reader.config.deliver_subject:
            sink.end(409, "Consumer Deleted")
            reader.sink = self._sink_of(reader, config)
        reader.change(config)

    def _sink_of(self, reader: Reader, config: ConsumerConfig) -> Sink:
        clock = self._office.doors.clock
        if not config.deliver_subject:
            return PullSink(clock, self._office.send)
        return PushSink(
            clock=clock,
            send=self._office.send,
            name=f"{reader.stream.name}.{reader.name}",
            subject=config.deliver_subject,
            has_flow_control=bool(config.flow_control),
            beat_ms=(config.idle_heartbeat or 0) // NS_PER_MS,
            is_wanted=self.is_wanted,
            go_on=reader.go_on,
        )

    def is_wanted(self, subject: str) -> bool:
        """Tell whether anybody is subscribed to a subject."""
        key = key_of(subject)
        return key is not None and self._office.doors.live.wants(key)

    def _forget(self, reader: Reader) -> None:
        key = (reader.stream.name, reader.name)
        if self._by_name.get(key) is reader:
            del self._by_name[key]

    def on_flow(self, subject: str) -> None:
        """A client has read what it was sent before."""
        words = subject.split(".")
        reader = self.look(words[2], words[3]) if len(words) > 3 else None
        if reader is not None and isinstance(reader.sink, PushSink):
            reader.sink.on_flow(subject)
