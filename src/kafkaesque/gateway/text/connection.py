"""A person's connection: lines in, answers out in the same order.

Theory of operation. Lines wait in a queue and are carried out one after the other: the next begins
when the answer to the one before is complete. Nothing is begun while something stands against it,
and nothing is read either (`chassis/link.py`), nor while many lines wait. When the client ends its
side, the lines that it has sent are still carried out; one without its ending is not, because
nobody knows what would have followed.
"""

from collections import deque
from collections.abc import Callable

from kafkaesque.broker.metadata.client_quotas import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE
from kafkaesque.chassis.link import ClientConnection, Shared
from kafkaesque.gateway.text.authorization import is_for_strangers
from kafkaesque.gateway.text.held import Held
from kafkaesque.gateway.text.log_in import LOGIN_MS_MAX, log_in
from kafkaesque.gateway.text.reply import Reply
from kafkaesque.protocols.text.answers import (
    write_bad_command,
    write_error,
    write_ok,
    write_too_long,
    write_unfinished,
)
from kafkaesque.protocols.text.commands import Auth, Command, Consume, Publish, Quit, read_command
from kafkaesque.protocols.text.errors import BadCommand
from kafkaesque.protocols.text.examples import AUTH, HELP
from kafkaesque.protocols.text.lines import LINE_BYTES_MAX, LineReader, Mark
from kafkaesque.protocols.text.queue_commands import Get, Put

#: With so many lines, or so many bytes in them, that wait, no more are read.
WAITING_LINES_MAX = 64
WAITING_BYTES_MAX = LINE_BYTES_MAX
#: Lines of one client that are carried out before others have their turn.
LINES_PER_TURN_MAX = 32


class TextConnection(ClientConnection):
    """One client; the reply to the line that is being carried out is the connection itself."""

    __slots__ = (
        "_do",
        "_has_ended",
        "_is_busy",
        "_is_consuming",
        "_is_running",
        "_lines",
        "_waiting",
        "_waiting_bytes",
        "held",
    )

    def __init__(
        self, carry_out: Callable[[Command, Reply], None], held: Held, shared: Shared
    ) -> None:
        """`carry_out` does what a line asks for, and ends the reply once, now or later."""
        super().__init__(shared)
        self._do = carry_out
        #: See `Reply`.
        self.held = held
        self._lines = LineReader()
        self._waiting: deque[bytes | Mark] = deque()
        self._waiting_bytes = 0
        #: Whether a line is being carried out whose answer is not complete.
        self._is_busy = False
        self._is_running = False
        #: Whether what is written now was consumed, for the quota on that.
        self._is_consuming = False
        #: Whether the client has ended its side, or said that it wants to.
        self._has_ended = False

    # -- from the network

    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        """See `ConnectionHandler`."""
        if self._has_ended or self.speaks_http(data) or self.exceeds_login(len(data)):
            return
        self._take(self._lines.feed(data))

    def on_eof(self) -> None:
        """The client has sent all that it will; it may still read."""
        if not self._has_ended:
            self._take([*self._lines.finish(), Mark.END])

    def on_writable(self) -> None:
        """See `ConnectionHandler`."""
        self.note_activity()
        self.go_on()

    # -- from the chassis

    def on_opened(self) -> None:
        """See `ClientConnection`."""
        if self.needs_login:
            self.expect(LOGIN_MS_MAX)

    def go_on(self) -> None:
        """See `ClientConnection`."""
        self._run()

    def is_full(self) -> bool:
        """See `ClientConnection`."""
        return len(self._waiting) >= WAITING_LINES_MAX or self._waiting_bytes >= WAITING_BYTES_MAX

    def has_room(self) -> bool:
        """See `ClientConnection`."""
        return not self.is_full()

    def is_busy(self) -> bool:
        """See `ClientConnection`."""
        return self._is_busy

    def on_idle(self) -> None:
        """Nothing was said, or nothing read, for long."""
        connection = self.connection
        if connection is None:
            return
        if connection.unsent_bytes():
            connection.abort()
        else:
            connection.write((write_error("no input for too long; goodbye", HELP),))
            connection.close()

    def on_gone(self) -> None:
        """See `ClientConnection`."""
        self._waiting.clear()
        # Who takes its leave has not failed.
        self.held.close(is_failed=not self._has_ended)

    # -- lines

    def _take(self, lines: list[bytes | Mark]) -> None:
        """Queue lines; only whole ones are a sign of life."""
        if lines:
            self.note_activity()
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
        while self._waiting and not self._is_busy and self.may_begin:
            if left == 0:
                self.give_way()
                break
            left -= 1
            line = self._waiting.popleft()
            self._waiting_bytes -= _size(line)
            self._carry_out(line)
        self._is_running = False
        self.maybe_pause()
        self.maybe_resume()

    def _carry_out(self, line: bytes | Mark) -> None:
        self._is_busy = True
        self.shared.meter.requests += 1
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
        elif isinstance(command, Auth):
            log_in(self, self, command)
        elif self.needs_login and not is_for_strangers(command):
            self.end(write_error("log in first", AUTH))
        else:
            if self.is_guarded and self.login is None and not self.needs_login:
                self.note_no_login()
            self._is_consuming = isinstance(command, Consume | Get)
            if isinstance(command, Publish | Put):
                self.charge(PRODUCER_BYTE_RATE, len(line))
            self._do(command, self)

    def _quit(self, farewell: bytes) -> None:
        self._has_ended = True
        self._waiting.clear()
        self.end(farewell)
        if self.connection is not None:
            self.connection.close()

    # -- Reply

    @property
    def is_wanted(self) -> bool:
        """See `Reply`."""
        return self.connection is not None

    def write(self, lines: bytes) -> None:
        """See `Reply`."""
        if self.connection is not None and lines:
            self.connection.write((lines,))
            if self._is_consuming:
                self.charge(CONSUMER_BYTE_RATE, len(lines))

    def end(self, lines: bytes) -> None:
        """See `Reply`."""
        self.write(lines)
        self.note_activity()
        self._is_busy = self._is_consuming = False
        self._run()


def _size(line: bytes | Mark) -> int:
    return 0 if isinstance(line, Mark) else len(line)
