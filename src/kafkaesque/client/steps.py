"""What the client's core asks of the world: four effects, which the two drivers carry out.

Theory of operation. Whatever the client does is a generator. It yields an effect when it needs the
network or time, and goes on with what came of it: a value, or an error that is thrown into it. A
driver carries effects out, with blocking sockets or with asyncio. So both clients do the same, and
a test can be a driver, too.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from kafkaesque.client.addresses import Address
from kafkaesque.client.framing import AnswerReader

T = TypeVar("T")


class Wire(Protocol):
    """A connection that is open."""

    def is_stale(self) -> bool:
        """Tell whether the other end has closed it, or said something that nobody asked for."""

    def close(self) -> None:
        """Close it, without waiting for anything."""


@dataclass(frozen=True, slots=True)
class Connect:
    """Open a connection, with TLS if the client has it. Result: a `Wire`; or `OSError`."""

    address: Address
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Exchange:
    """Send bytes, and feed the reader until it has an answer. Result: None.

    Errors: `OSError`, `EOFError` if the other end closes, and what the reader raises.
    """

    wire: Wire
    data: bytes
    reader: AnswerReader
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Sleep:
    """Let time pass. Result: None."""

    seconds: float


Effect = Connect | Exchange | Sleep
#: Something that the client does, and what comes of it.
Steps = Generator[Effect, Any, T]
