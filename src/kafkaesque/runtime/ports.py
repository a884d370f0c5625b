"""What a connection needs of the machine below it.

The real machine's sockets, poller, loop and threads have these methods; so have the simulated
machine's, which is how the simulator runs the very code that runs on a real one.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from kafkaesque.env.clock import Timer
from kafkaesque.env.disk import Buffer


class Socket(Protocol):
    """A connected socket that never blocks: it raises `BlockingIOError` instead."""

    def fileno(self) -> int: ...
    def recv_into(self, buffer: memoryview, /) -> int: ...
    def send(self, data: Buffer, flags: int = 0, /) -> int: ...
    def sendmsg(self, buffers: Sequence[Buffer], ancdata: tuple[()], flags: int, /) -> int: ...
    def shutdown(self, how: int, /) -> None: ...
    def setsockopt(self, level: int, option: int, value: bytes, /) -> None: ...
    def getsockopt(self, level: int, option: int, /) -> int: ...
    def getsockname(self) -> tuple[str, int]: ...
    def close(self) -> None: ...


class Poll(Protocol):
    """Calls back with the events of watched descriptors, for as long as they last."""

    def add(self, fd: int, mask: int, on_events: Callable[[int], None]) -> None: ...
    def change(self, fd: int, mask: int) -> None: ...
    def remove(self, fd: int) -> None: ...


class Loop(Protocol):
    """The turn of the event loop, and time in seconds."""

    def call_soon(self, callback: Callable[[], None], /) -> object: ...
    def call_last(self, callback: Callable[[], None], /) -> object: ...
    def call_later(self, delay: float, callback: Callable[[], None], /) -> Timer: ...


class Workers(Protocol):
    """Threads for what may block."""

    def submit(
        self, work: Callable[[], object], on_done: Callable[[object, Exception | None], None]
    ) -> None: ...


class RangeFile(Protocol):
    """A file whose ranges can be sent."""

    @property
    def path(self) -> str: ...

    def read_nowait(self, position: int, length: int) -> bytearray | None:
        """Return the bytes if nothing waits for the device; fewer only at the end."""

    def read_into(self, room: memoryview, position: int, *, may_wait: bool) -> int | None:
        """Read into a buffer what there is, and return how much, 0 at the end of the file.

        None if the device would be waited for, and may not be.
        """

    def is_cached(self, position: int, length: int, step_bytes: int) -> bool:
        """Tell whether it is likely that reading waits for nothing."""

    def read_blocking(self, position: int, length: int) -> bytes:
        """Return the bytes; may wait."""

    def touch(self, position: int, end: int) -> None:
        """Bring the bytes into memory; may wait."""

    def send_to(self, sock: Socket, position: int, length: int) -> int:
        """Send without a copy; return how much the socket took, 0 at the end of the file."""
