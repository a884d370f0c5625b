"""A person's connection: lines in, answers out in the same order.

Theory of operation. Lines wait in a queue and are carried out one after the other: the next begins
when the answer to the one before is complete. Nothing is begun while answers pile up because the
client does not read them, or while the broker has more to sync than it should; and when many lines
wait, nothing more is read from the connection. So a client can be as quick as it likes, and memory
stays bounded. When the client ends its side, the lines that it has sent are still carried out; one
without its ending is not, because nobody knows what would have followed.
"""

from collections import deque
from typing import TYPE_CHECKING

from kafkaesque.env.network import Connection
from kafkaesque.protocols.text.answers import (
    write_bad_command,
    write_error,
    write_ok,
    write_too_long,
    write_unfinished,
)
from kafkaesque.protocols.text.commands import Quit, read_command
from kafkaesque.protocols.text.errors import BadCommand
from kafkaesque.protocols.text.examples import HELP
from kafkaesque.protocols.text.lines import LINE_BYTES_MAX, LineReader, Mark

if TYPE_CHECKING:
    from kafkaesque.gateway.text.gateway import TextGateway

#: With so many lines, or so many bytes in them, that wait, no more are read.
WAITING_LINES_MAX = 64
WAITING_BYTES_MAX = LINE_BYTES_MAX
#: With so many bytes of answers unread, no more lines are carried out.
UNSENT_BYTES_MAX = 1024 * 1024
#: Lines of one client that are carried out before others have their turn.
LINES_PER_TURN_MAX = 32


class TextConnection:
    """One client; the reply to the line that is being carried out is the connection itself."""

    __slots__ = (
        "_connection",
        "_gateway",
        "_has_ended",
        "_is_busy",
        "_is_later",
        "_is_paused",
        "_is_running",
        "_lines",
        "_waiting",
        "_waiting_bytes",
        "active_ms",
    )

    def __init__(self, gateway: "TextGateway") -> None:
        self._gateway = gateway
        self._connection: Connection | None = None
        self._lines = LineReader()
        self._waiting: deque[bytes | Mark] = deque()
        self._waiting_bytes = 0
        #: Whether a line is being carried out whose answer is not complete.
        self._is_busy = False
        self._is_running = False
        #: Whether `_run` is going to be called anyway.
        self._is_later = False
        self._is_paused = False
        #: Whether the client has ended its side, or said that it wants to.
        self._has_ended = False
        self.active_ms = 0

    # -- from the network

    def on_open(self, connection: Connection) -> None:
        """See `ConnectionHandler`."""
        self._connection = connection
        self._gateway.connections[id(self)] = self
        self._note_activity()

    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        """See `ConnectionHandler`."""
        if not self._has_ended:
            self._take(self._lines.feed(data))

    def on_eof(self) -> None:
        """The client has sent all that it will; it may still read."""
        if not self._has_ended:
            self._take([*self._lines.finish(), Mark.END])

    def on_writable(self) -> None:
        """See `ConnectionHandler`."""
        self._note_activity()
        self._run()

    def on_close(self, error: Exception | None) -> None:
        """See `ConnectionHandler`."""
        self._connection = None
        self._waiting.clear()
        self._gateway.connections.pop(id(self), None)

    # -- from the gateway

    def on_idle(self) -> None:
        """Nothing was said, or nothing read, for long."""
        connection = self._connection
        if connection is None:
            return
        if connection.unsent_bytes():
            connection.abort()
        else:
            connection.write((write_error("no input for too long; goodbye", HELP),))
            connection.close()

    def close(self) -> None:
        """The broker stops."""
        if self._connection is not None:
            self._connection.close()

    def _note_activity(self) -> None:
        self.active_ms = self._gateway.clock.now_ms()

    # -- lines

    def _take(self, lines: list[bytes | Mark]) -> None:
        """Queue lines; only whole ones are a sign of life."""
        if lines:
            self._note_activity()
        for line in lines:
            if line:
                self._waiting.append(line)
                self._waiting_bytes += _size(line)
        self._run()

    def _run(self) -> None:
        """Carry out what waits, as far as that is possible now."""
        if self._is_running:
            return
        self._is_running = True
        left = LINES_PER_TURN_MAX
        while self._waiting and not self._is_busy and self._may_begin():
            if left == 0:
                self._run_later()
                break
            left -= 1
            line = self._waiting.popleft()
            self._waiting_bytes -= _size(line)
            self._carry_out(line)
        self._is_running = False
        self._pause_or_resume()

    def _may_begin(self) -> bool:
        if self._connection is None:
            return False
        if self._connection.unsent_bytes() > UNSENT_BYTES_MAX:
            # `on_writable` comes.
            return False
        if self._gateway.is_overloaded():
            if not self._is_later:
                self._is_later = True
                self._gateway.call_when_relieved(self._run_now)
            return False
        return True

    def _run_later(self) -> None:
        if not self._is_later:
            self._is_later = True
            self._gateway.clock.call_soon(self._run_now)

    def _run_now(self) -> None:
        self._is_later = False
        self._run()

    def _carry_out(self, line: bytes | Mark) -> None:
        self._is_busy = True
        if line is Mark.TOO_LONG:
            self.end(write_too_long())
            return
        if line is Mark.UNFINISHED:
            self.end(write_unfinished())
            return
        if isinstance(line, Mark):
            self._quit(b"")
            return
        try:
            command = read_command(line)
        except BadCommand as error:
            self.end(write_bad_command(error))
            return
        if command is None:
            self._is_busy = False
        elif isinstance(command, Quit):
            self._quit(write_ok("goodbye"))
        else:
            self._gateway.carry_out(command, self)

    def _quit(self, farewell: bytes) -> None:
        self._has_ended = True
        self._waiting.clear()
        self.end(farewell)
        if self._connection is not None:
            self._connection.close()

    def _pause_or_resume(self) -> None:
        connection = self._connection
        if connection is None:
            return
        is_full = (
            len(self._waiting) >= WAITING_LINES_MAX or self._waiting_bytes >= WAITING_BYTES_MAX
        )
        if is_full and not self._is_paused:
            self._is_paused = True
            connection.pause_reading()
        elif self._is_paused and not is_full:
            self._is_paused = False
            connection.resume_reading()

    # -- Reply

    @property
    def is_wanted(self) -> bool:
        """See `Reply`."""
        return self._connection is not None

    def write(self, lines: bytes) -> None:
        """See `Reply`."""
        if self._connection is not None and lines:
            self._connection.write((lines,))

    def end(self, lines: bytes) -> None:
        """See `Reply`."""
        self.write(lines)
        self._note_activity()
        self._is_busy = False
        self._run()


def _size(line: bytes | Mark) -> int:
    return 0 if isinstance(line, Mark) else len(line)
