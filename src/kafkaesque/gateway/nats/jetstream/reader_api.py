"""Requests about consumers that acknowledge nothing and are not durable: a broker's readers."""

from __future__ import annotations

from typing import Final

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.gateway.nats.jetstream.configs import ConsumerConfig
from kafkaesque.gateway.nats.jetstream.errors import ApiCode, ApiError
from kafkaesque.gateway.nats.jetstream.office import Entitled, NobodyListens, Office, Request
from kafkaesque.gateway.nats.jetstream.pauses import shown_consumer, shown_pause
from kafkaesque.gateway.nats.jetstream.pulling import PullRequest
from kafkaesque.gateway.nats.jetstream.reader import Reader
from kafkaesque.gateway.nats.jetstream.readers import Readers
from kafkaesque.gateway.nats.jetstream.sinks import PullSink
from kafkaesque.gateway.nats.jetstream.streams import Stream
from kafkaesque.gateway.nats.jetstream.times import rfc3339


class ReaderApi:
    """See the module."""

    __slots__ = ("_office", "readers")

    def __init__(self, office: Office) -> None:
        self._office: Final = office
        self.readers: Final = Readers(office)

    def create(self, request: Request, stream: Stream, config: ConsumerConfig) -> None:
        """Make a reader, and let it begin."""

        def on_read(is_read: bool) -> None:
            if not is_read:
                request.fail("consumer_create", ApiError(ApiCode.NOT_AVAILABLE))
                return
            try:
                reader = self.readers.make(stream, config, _reader_of(request, stream))
                reader.begin()
            except ApiError as error:
                request.fail("consumer_create", error)
                return
            request.answer("consumer_create", **self.info_of(reader))

        stream.log.catch_up(on_read)

    def change(self, request: Request, reader: Reader, config: ConsumerConfig) -> None:
        """Let a reader go on as something else."""
        self.readers.change(reader, config)
        reader.stream.log.catch_up(
            lambda _: request.answer("consumer_create", **self.info_of(reader))
        )

    def say_info(self, request: Request, reader: Reader) -> None:
        """Answer with what a reader is."""
        reader.stream.log.catch_up(
            lambda _: request.answer("consumer_info", **self.info_of(reader))
        )

    def info_of(self, reader: Reader) -> dict[str, object]:
        """Return what a reader is, as JetStream says it."""
        at = {"consumer_seq": reader.consumer_sequence, "stream_seq": reader.stream_sequence}
        sink = reader.sink
        return {
            "stream_name": reader.stream.name,
            "name": reader.name,
            "created": rfc3339(reader.created_ms),
            "config": shown_consumer(reader.config),
            "delivered": at,
            "ack_floor": at,
            "num_ack_pending": 0,
            "num_redelivered": 0,
            "num_waiting": len(sink) if isinstance(sink, PullSink) else 0,
            "num_pending": reader.pending,
            "push_bound": self.readers.is_wanted(reader.config.deliver_subject or ""),
            **shown_pause(reader.config, self._office.doors.clock.wall_ms()),
            "ts": rfc3339(self._office.doors.clock.wall_ms()),
        }

    def pull(self, request: Request, reader: Reader, wanted: PullRequest) -> None:
        """Send a client what it asks for."""
        sink = reader.sink
        if not isinstance(sink, PullSink):
            raise NobodyListens

        def on_read(_: bool) -> None:
            sink.add(_reader_of(request, reader.stream), request.reply, wanted)
            reader.go_on()
            if not reader.pending:
                sink.on_empty()

        reader.stream.log.catch_up(on_read)


def _reader_of(request: Request, stream: Stream) -> Entitled:
    return Entitled(request.requester, Operation.READ, ResourceType.TOPIC, stream.name)
