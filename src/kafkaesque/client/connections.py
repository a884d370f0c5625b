"""Connections to whichever brokers can be reached, each for one request at a time.

Theory of operation. An operation takes a connection, asks on it, and gives it back. A request that
waits has its connection for itself, as answers on one come in the order of requests. Any broker
serves any queue, so the client stays with one broker until that one fails; then the others are
tried in order: first those that it was told of, then those that brokers have named since.
"""

import random
import ssl
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kafkaesque import __version__
from kafkaesque.client.addresses import Address
from kafkaesque.client.config import CONNECT_TIMEOUT_S, ClientConfig
from kafkaesque.client.errors import (
    BrokerNotTrusted,
    BrokerUnavailable,
    Closed,
    KafkaesqueError,
    NotABroker,
)
from kafkaesque.client.framing import AnswerReader
from kafkaesque.client.log_in import log_in_steps
from kafkaesque.client.steps import Connect, Exchange, Sleep, Steps, Wire
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.errors import MalformedRequest
from kafkaesque.protocols.kafka.frames import write_request
from kafkaesque.protocols.kafka.messages.api_versions_request import ApiVersionsRequest
from kafkaesque.protocols.kafka.messages.metadata_request import MetadataRequest
from kafkaesque.protocols.kafka.wire import Message

#: Brokers that are remembered, beside those that the client was told of.
LEARNT_MAX: Final = 100
#: Between two rounds through all brokers; it doubles up to the longest.
AGAIN_S_MIN: Final = 0.05
AGAIN_S_MAX: Final = 1.0
#: So long a new connection may take to answer its first requests.
GREETING_TIMEOUT_S: Final = 5.0
#: Brokers are asked who the others are so often.
LEARN_S: Final = 60.0
#: Of the time for which a broker believes a log-in; it ends connections that live longer.
_LIFE_SHARE: Final = 0.85
_METADATA_VERSION: Final = 9
_API_VERSIONS_VERSION: Final = 3
#: Brokers of ours alone have it.
_OUR_FEATURE: Final = "kafkaesque.metadata.version"
_CORRELATION_ID: Final = 1
_SOFTWARE_NAME: Final = "kafkaesque-python"

#: What ends a connection: it is of no use afterwards.
BROKEN: Final = (OSError, EOFError, MalformedRequest)


@dataclass(slots=True)
class Link:
    """An open connection, logged in."""

    wire: Wire
    address: Address
    #: On the monotonic clock; None: for ever.
    ends_at_s: float | None


def exchange(
    link_wire: Wire, client_id: str, api: tuple[int, int], request: Message, timeout_s: float
) -> Steps[Any]:
    """Ask on a connection, and return the answer; raises what `BROKEN` names."""
    key, version = api
    reader = AnswerReader()
    frame = write_request(key, version, _CORRELATION_ID, client_id, request)
    yield Exchange(link_wire, frame, reader, timeout_s)
    return reader.message(key, version)


class Connections:
    """All connections of one client."""

    __slots__ = ("_addresses", "_config", "_idle", "_is_closed", "_learnt_at_s", "_monotonic")

    def __init__(
        self, config: ClientConfig, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._config = config
        self._monotonic = monotonic
        told = list(config.addresses)
        # So that clients that are told the same do not all ask the same broker.
        random.shuffle(told)
        #: In the order in which they are tried. Replaced, never changed: threads may look at it.
        self._addresses = tuple(told)
        #: Ended by the operation that put one too many. Appending and popping are atomic.
        self._idle: deque[Link] = deque()
        self._learnt_at_s = -LEARN_S
        self._is_closed = False

    def close(self) -> None:
        """Close all connections that nobody uses, and let no others be opened."""
        self._is_closed = True
        while self._idle:
            self._pop().close()

    def _pop(self) -> Wire:
        return self._idle.pop().wire

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The brokers that are known, in the order in which they are tried."""
        return self._addresses

    def take(self, deadline_s: float) -> Steps[Link]:
        """Return a connection, which is the caller's until `give_back` or `drop`.

        Raises:
            BrokerUnavailable: no broker could be reached in time.
            LogInRefused, BrokerNotTrusted, NotABroker: it makes no sense to try again.
            Closed: the client is closed.
        """
        again_s = AGAIN_S_MIN
        while True:
            if self._is_closed:
                raise Closed("the client is closed")
            link = self._idle_link()
            if link is not None:
                return link
            troubles: list[str] = []
            for address in self._addresses:
                left_s = deadline_s - self._monotonic()
                if left_s <= 0:
                    troubles.append("time is up")
                    break
                try:
                    return (yield from self._open(address, left_s))
                except ssl.SSLCertVerificationError as error:
                    raise BrokerNotTrusted(
                        f"the certificate of {address} is not to be trusted: {error.verify_message}"
                    ) from None
                except BROKEN as error:
                    troubles.append(f"{address} ({_why(error)})")
                    self._put_last(address)
            if self._monotonic() + again_s >= deadline_s:
                raise BrokerUnavailable(f"no broker could be reached: {', '.join(troubles)}")
            yield Sleep(again_s)
            again_s = min(2 * again_s, AGAIN_S_MAX)

    def give_back(self, link: Link) -> None:
        """Keep a connection for the next one who needs one."""
        self._idle.append(link)
        if self._is_closed or len(self._idle) > self._config.connections_max:
            self._pop().close()

    def drop(self, link: Link) -> None:
        """A connection broke: close it, and try its broker after all others."""
        link.wire.close()
        self._put_last(link.address)

    def ask(
        self, link: Link, api: tuple[int, int], request: Message, timeout_s: float
    ) -> Steps[Any]:
        """Ask on a connection that was taken, and return the answer; raises what `BROKEN` names."""
        return exchange(link.wire, self._config.client_id, api, request, timeout_s)

    # -- opening

    def _idle_link(self) -> Link | None:
        while True:
            try:
                link = self._idle.pop()
            except IndexError:
                return None
            is_old = link.ends_at_s is not None and self._monotonic() >= link.ends_at_s
            if not is_old and not link.wire.is_stale():
                return link
            link.wire.close()

    def _put_last(self, address: Address) -> None:
        others = [each for each in self._addresses if each != address]
        if len(others) < len(self._addresses):
            self._addresses = (*others, address)

    def _open(self, address: Address, timeout_s: float) -> Steps[Link]:
        wire: Wire = yield Connect(address, min(timeout_s, CONNECT_TIMEOUT_S))
        try:
            return (yield from self._greet(wire, address, min(timeout_s, GREETING_TIMEOUT_S)))
        except BaseException:
            wire.close()
            raise

    def _greet(self, wire: Wire, address: Address, timeout_s: float) -> Steps[Link]:
        def ask(key: int, version: int, request: Message) -> Steps[Any]:
            return exchange(wire, self._config.client_id, (key, version), request, timeout_s)

        greeting = ApiVersionsRequest(_SOFTWARE_NAME, __version__)
        try:
            known = yield from ask(ApiKey.API_VERSIONS, _API_VERSIONS_VERSION, greeting)
        except MalformedRequest as error:
            raise NotABroker(f"{address} does not answer as a broker does: {error}") from None
        # The keys of our APIs are not in the answer, so that no other client meets them.
        if all(each.name != _OUR_FEATURE for each in known.supported_features):
            raise NotABroker(f"{address} is a broker of Kafka's and has no queues")
        life_ms = 0
        if self._config.log_in is not None:
            asking = log_in_steps(self._config.log_in)
            try:
                step = next(asking)
                while True:
                    step = asking.send((yield from ask(*step)))
            except StopIteration as stop:
                life_ms = stop.value
        if self._monotonic() - self._learnt_at_s >= LEARN_S:
            yield from self._learn(ask)
        ends_at_s = self._monotonic() + _LIFE_SHARE * life_ms / 1000 if life_ms else None
        return Link(wire, address, ends_at_s)

    def _learn(self, ask: Callable[[int, int, Message], Steps[Any]]) -> Steps[None]:
        """Ask who the other brokers are."""
        request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
        answer = yield from ask(ApiKey.METADATA, _METADATA_VERSION, request)
        named = {Address(each.host, each.port) for each in answer.brokers}
        known = [each for each in self._addresses if each in self._config.addresses]
        learnt = sorted(named.difference(known))[:LEARNT_MAX]
        self._addresses = (*known, *learnt)
        self._learnt_at_s = self._monotonic()


def _why(error: BaseException) -> str:
    if isinstance(error, EOFError):
        return "it closed the connection"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, KafkaesqueError):
        return str(error)
    said = getattr(error, "strerror", None)
    return (said or str(error) or type(error).__name__).lower()
