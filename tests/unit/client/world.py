"""A driver for the client's steps with brokers that answer as a test says, in a time of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kafkaesque.client.addresses import Address
from kafkaesque.client.calls import Calls
from kafkaesque.client.config import ClientOptions, make_config
from kafkaesque.client.steps import Connect, Effect, Exchange, Sleep, Steps
from kafkaesque.protocols.kafka.api import read_request_header
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.frames import read_request, write_response
from kafkaesque.protocols.kafka.messages.api_versions_response import (
    ApiVersionsResponse,
    SupportedFeatureKey,
)
from kafkaesque.protocols.kafka.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
)

T = TypeVar("T")

#: Takes a request; returns the answer, or bytes in its place, or raises what the network does.
Answer = Callable[[Any], Any]

GREETING = ApiVersionsResponse(
    supported_features=[SupportedFeatureKey("kafkaesque.metadata.version", 1, 1)]
)


class FakeWire:
    """A connection to a broker of the test's."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.is_old = False
        self.is_closed = False

    def is_stale(self) -> bool:
        return self.is_old

    def close(self) -> None:
        self.is_closed = True


class FakeWorld:
    """Brokers, and the time that passes when the client sleeps or waits in vain."""

    def __init__(self, bootstrap: str = "a:1,b:2", **options: Any) -> None:
        known: ClientOptions = options  # type: ignore[assignment]
        self.now_s = 1000.0
        self.calls = Calls(make_config(bootstrap, known), lambda: self.now_s)
        self.answers: dict[int, Answer] = {
            ApiKey.API_VERSIONS: lambda _: GREETING,
            ApiKey.METADATA: lambda _: MetadataResponse(brokers=self.brokers),
        }
        self.brokers: list[MetadataResponseBroker] = []
        #: Where nobody listens.
        self.down: set[str] = set()
        self.connects: list[str] = []
        self.wires: list[FakeWire] = []
        self.sleeps: list[float] = []
        #: APIs that were asked, in order, but for greetings.
        self.asked: list[ApiKey] = []

    def run(self, steps: Steps[T]) -> T:
        """Return what steps return; raise what they raise."""
        try:
            effect = next(steps)
            while True:
                try:
                    result = self._carry_out(effect)
                except Exception as error:
                    effect = steps.throw(error)
                else:
                    effect = steps.send(result)
        except StopIteration as stop:
            done: T = stop.value
            return done

    def _carry_out(self, effect: Effect) -> Any:
        match effect:
            case Connect():
                self.connects.append(str(effect.address))
                if str(effect.address) in self.down:
                    raise ConnectionRefusedError("connection refused")
                self.wires.append(FakeWire(effect.address))
                return self.wires[-1]
            case Sleep():
                self.sleeps.append(effect.seconds)
                self.now_s += effect.seconds
                return None
            case Exchange():
                return self._exchange(effect)

    def _exchange(self, effect: Exchange) -> None:
        frame = memoryview(effect.data)[4:]
        header = read_request_header(frame)
        if header.api_key not in (ApiKey.API_VERSIONS, ApiKey.METADATA):
            self.asked.append(ApiKey(header.api_key))
        try:
            answer = self.answers[header.api_key](read_request(header, frame))
        except TimeoutError:
            self.now_s += effect.timeout_s
            raise
        if not isinstance(answer, bytes):
            answer = write_response(
                header.api_key, header.api_version, header.correlation_id, answer
            )
        while effect.reader.wanted:
            if not answer:
                raise EOFError
            # In pieces, as networks have it.
            size = min(effect.reader.wanted, 3)
            piece, answer = answer[:size], answer[size:]
            effect.reader.feed(piece)
