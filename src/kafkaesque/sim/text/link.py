"""A person's connection on a simulated machine: lines out, answers back in the same order."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from kafkaesque.env import Env
from kafkaesque.env.clock import Timer
from kafkaesque.env.network import Address, Connection, Framing, ListenOptions

_ENDING: Final = b"\r\n"
#: What may come unasked: the broker hangs up.
_FAREWELL: Final = "ERROR nothing was said for too long"


class Answer:
    """All lines of an answer; the last one begins with OK or ERROR."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines: Final = list(lines[:-1])
        self.last: Final = lines[-1]

    @property
    def is_ok(self) -> bool:
        """Whether it is what was asked for."""
        return self.last.startswith("OK")


#: Gets the answer, or None if there is none: then nobody knows what has become of the line.
OnAnswer = Callable[[Answer | None], None]


class TextLink:
    """A connection to one broker."""

    def __init__(self, env: Env, address: Address, note_anomaly: Callable[[str], None]) -> None:
        self.address: Final = address
        self.is_closed = False
        self._env: Final = env
        self._note_anomaly: Final = note_anomaly
        self._connection: Connection | None = None
        self._waiting: deque[tuple[OnAnswer, Timer]] = deque()
        self._unsent: list[bytes] = []
        self._rest = b""
        self._lines: list[str] = []
        options = ListenOptions(framing=Framing.STREAM)
        env.network.connect(address, options, self, lambda _: self.close())

    def ask(self, line: str, patience_ms: int, on_answer: OnAnswer) -> None:
        """Send a line; if its answer takes longer than this, give up all that are on their way."""
        if self.is_closed:
            self._env.clock.call_soon(lambda: on_answer(None))
            return
        timer = self._env.clock.call_later(patience_ms, self.close)
        self._waiting.append((on_answer, timer))
        data = line.encode() + _ENDING
        if self._connection is None:
            self._unsent.append(data)
        else:
            self._connection.write([data])

    def close(self) -> None:
        """Give up; whoever waits gets None."""
        if self.is_closed:
            return
        self.is_closed = True
        if self._connection is not None:
            self._connection.abort()
        waiting, self._waiting = self._waiting, deque()
        for on_answer, timer in waiting:
            timer.cancel()
            on_answer(None)

    # -- from the network

    def on_open(self, connection: Connection) -> None:
        """See `ConnectionHandler`."""
        if self.is_closed:
            connection.abort()
            return
        self._connection = connection
        if self._unsent:
            connection.write(self._unsent)
            self._unsent = []

    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        """See `ConnectionHandler`."""
        if self.is_closed:
            return
        *lines, self._rest = (self._rest + bytes(data)).split(_ENDING)
        for line in lines:
            text = line.decode()
            self._lines.append(text)
            if text.startswith(("OK", "ERROR")) and not self.is_closed:
                answer = Answer(self._lines)
                self._lines = []
                self._give(answer)

    def _give(self, answer: Answer) -> None:
        if self._waiting:
            on_answer, timer = self._waiting.popleft()
            timer.cancel()
            on_answer(answer)
        elif not answer.last.startswith(_FAREWELL):
            self._note_anomaly(f"bad answer: {answer.last!r} from {self.address} to nothing")

    def on_writable(self) -> None:
        """See `ConnectionHandler`."""

    def on_close(self, error: Exception | None) -> None:
        """See `ConnectionHandler`."""
        self.close()
