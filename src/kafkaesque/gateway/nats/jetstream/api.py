"""JetStream's requests, by their subjects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kafkaesque.broker.doors import Doors
from kafkaesque.gateway.nats.jetstream.consumer_api import ConsumerApi
from kafkaesque.gateway.nats.jetstream.copying import Copying
from kafkaesque.gateway.nats.jetstream.delivering import Delivering
from kafkaesque.gateway.nats.jetstream.errors import ApiCode, ApiError
from kafkaesque.gateway.nats.jetstream.message_api import MessageApi
from kafkaesque.gateway.nats.jetstream.office import (
    NobodyListens,
    Office,
    Outgoing,
    Request,
    Requester,
)
from kafkaesque.gateway.nats.jetstream.pause_api import PauseApi
from kafkaesque.gateway.nats.jetstream.pushing import Pushing
from kafkaesque.gateway.nats.jetstream.reader_api import ReaderApi
from kafkaesque.gateway.nats.jetstream.settling import Settling
from kafkaesque.gateway.nats.jetstream.storing import Storing
from kafkaesque.gateway.nats.jetstream.stream_api import StreamApi
from kafkaesque.gateway.nats.jetstream.streams import Stream
from kafkaesque.gateway.nats.jetstream.subjects import ACK_PREFIX, API_PREFIX, FLOW_PREFIX, read_ack
from kafkaesque.gateway.nats.jetstream.sweeping import Sweeping
from kafkaesque.routing.names import NameKey

Handler = Callable[[Request], None]
#: Operations have at most so many tokens, and so many behind them.
_OPERATION_TOKENS_MAX: Final = 3


class JetStream:
    """One broker's JetStream."""

    __slots__ = (
        "_consumer_api",
        "_handlers",
        "_office",
        "_readers",
        "_settling",
        "_storing",
        "copying",
        "pushing",
        "sweeping",
    )

    def __init__(self, doors: Doors, send: Outgoing) -> None:
        self._office: Final = Office(doors, send)
        self._storing: Final = Storing(self._office)
        self._settling: Final = Settling(self._office)
        delivering = Delivering(self._office, self._settling)
        #: Is told who subscribes.
        self.pushing: Final = Pushing(self._office, delivering)
        #: Is begun and ended with the broker's ports.
        self.sweeping: Final = Sweeping(self._office)
        #: The same.
        self.copying: Final = Copying(self._office)
        reader_api = ReaderApi(self._office)
        self._readers: Final = reader_api.readers
        self._consumer_api: Final = ConsumerApi(self._office, delivering, self.pushing, reader_api)
        self._handlers: Final[Mapping[str, tuple[str, Handler]]] = {
            "INFO": ("account_info", self._account_info),
            **StreamApi(self._office, self.copying).handlers,
            **MessageApi(self._office).handlers,
            **self._consumer_api.handlers,
            **PauseApi(self._office, reader_api.readers).handlers,
        }

    # -- publishing

    def stream_of(self, key: NameKey) -> Stream | None:
        """Return the stream that stores what is published to a subject."""
        return self._office.streams.of_subject(key)

    def store(
        self, stream: Stream, subject: str, reply: str, headers: bytes, payload: bytes
    ) -> None:
        """Store what was published to a subject of a stream."""
        self._storing.store(stream, subject, reply, headers, payload)

    # -- requests

    def take(self, requester: Requester, subject: str, reply: str, payload: bytes) -> bool:
        """Take what was published to a subject of JetStream; False: nothing listens there."""
        if subject.startswith(API_PREFIX):
            return self._take_request(requester, subject[len(API_PREFIX) :], reply, payload)
        if subject.startswith(ACK_PREFIX):
            return self._take_ack(requester, subject, reply, payload)
        if subject.startswith(FLOW_PREFIX):
            self._readers.on_flow(subject)
            self.pushing.on_flow(subject)
            return True
        return False

    def _take_request(self, requester: Requester, subject: str, reply: str, payload: bytes) -> bool:
        tokens = subject.split(".")
        for count in range(min(_OPERATION_TOKENS_MAX, len(tokens)), 0, -1):
            found = self._handlers.get(".".join(tokens[:count]))
            if found is not None:
                request = Request(self._office, requester, tokens[count:], reply, payload)
                return self._handle(request, *found)
        return False

    def _handle(self, request: Request, kind: str, handler: Handler) -> bool:
        """Do what is asked; False: nobody is there to do it."""
        try:
            handler(request)
        except NobodyListens:
            return False
        except ApiError as error:
            request.fail(kind, error)
        except ValueError:
            # There are other tokens than the operation has.
            request.fail(kind, ApiError(ApiCode.BAD_REQUEST))
        return True

    def _account_info(self, request: Request) -> None:
        streams = self._office.streams.all()
        request.answer(
            "account_info",
            memory=0,
            storage=sum(each.log.view.byte_count for each in streams),
            streams=len(streams),
            consumers=sum(1 for _ in self._office.consumers.all()),
            limits={
                "max_memory": -1,
                "max_storage": -1,
                "max_streams": -1,
                "max_consumers": -1,
                "max_ack_pending": -1,
                "memory_max_stream_bytes": -1,
                "storage_max_stream_bytes": -1,
                "max_bytes_required": False,
            },
            api={"total": 0, "errors": 0},
        )

    # -- acknowledgements

    def _take_ack(self, requester: Requester, subject: str, reply: str, payload: bytes) -> bool:
        token = read_ack(subject)
        consumer = None if token is None else self._office.consumers.look(token[0], token[1])
        if token is None or consumer is None:
            return False
        is_next = payload.startswith(b"+NXT")

        def confirm(is_settled: bool) -> None:
            if is_settled:
                self._office.send(reply, payload=b"")

        on_done = confirm if reply and not is_next else None
        self._settling.take(requester, consumer, token, payload, on_done)
        stream = self._office.streams.look(token.stream)
        if is_next and stream is not None:
            request = Request(self._office, requester, [], reply, payload)
            self._consumer_api.pull(request, stream, consumer, payload[4:])
        return True
