"""A person's connection on a simulated machine: lines out, answers back in the same order."""

from collections.abc import Callable, Sequence
from typing import Final

from kafkaesque.env import Env
from kafkaesque.env.network import Address, Framing, ListenOptions
from kafkaesque.sim.ordered_link import OrderedLink

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


class TextLink(OrderedLink[Answer]):
    """A connection to one broker."""

    def __init__(self, env: Env, address: Address, note_anomaly: Callable[[str], None]) -> None:
        super().__init__(env, address, ListenOptions(framing=Framing.STREAM))
        self._note_anomaly: Final = note_anomaly
        self._rest = b""
        self._lines: list[str] = []

    def ask(self, line: str, patience_ms: int, on_answer: OnAnswer) -> None:
        """Send a line; if its answer takes longer than this, give up all that are on their way."""
        if self.is_closed:
            self._env.clock.call_soon(lambda: on_answer(None))
            return
        self._send(line.encode() + _ENDING, patience_ms, on_answer)

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
            self._answer(answer)
        elif not answer.last.startswith(_FAREWELL):
            self._note_anomaly(f"bad answer: {answer.last!r} from {self.address} to nothing")
