"""Somebody with telnet: one connection at a time, to the next broker where one does not answer."""

from collections.abc import Callable, Sequence
from typing import Final

from kafkaesque.env import Env
from kafkaesque.env.network import Address
from kafkaesque.sim.clients.bursts import rest_ms
from kafkaesque.sim.clients.kafka_client import RESTING_TIMES
from kafkaesque.sim.text.link import Answer, OnAnswer, TextLink

RETRY_MS: Final = 100
#: How long an answer may take: less than a broker tries, mostly, or more than that.
PATIENCE_MS: Final = (1_500, 4_000, 35_000)
#: Somebody says goodbye, and goes to another broker, after one of so many turns.
QUITS_ONE_IN: Final = 16


class TextClient:
    """What publishers and readers share."""

    def __init__(
        self,
        env: Env,
        bootstrap: Sequence[Address],
        topic: str,
        note_anomaly: Callable[[str], None],
    ) -> None:
        self.env: Final = env
        self.topic: Final = topic
        self.note_anomaly: Final = note_anomaly
        self._bootstrap: Final = bootstrap
        self._place = env.dice.below(len(bootstrap))
        self._link: TextLink | None = None
        self._patience_ms = PATIENCE_MS[0]

    def ask(self, line: str, on_answer: OnAnswer) -> None:
        """Send one line; see `ask_all`."""
        self.ask_all([line], lambda _, answer: on_answer(answer))

    def ask_all(
        self, lines: Sequence[str], on_answer: Callable[[int, Answer | None], None]
    ) -> None:
        """Send lines by one connection, without waiting; `on_answer` gets each one's place, too."""
        link = self._open_link()
        for place, line in enumerate(lines):
            self._ask(link, line, place, on_answer)

    def _ask(
        self,
        link: TextLink,
        line: str,
        place: int,
        on_answer: Callable[[int, Answer | None], None],
    ) -> None:
        link.ask(line, self._patience_ms, lambda answer: on_answer(place, answer))

    def _open_link(self) -> TextLink:
        link = self._link
        if link is not None and not link.is_closed:
            if self.env.dice.below(QUITS_ONE_IN):
                return link
            self._quit(link)
        dice = self.env.dice
        self._place = (self._place + 1) % len(self._bootstrap)
        self._patience_ms = PATIENCE_MS[dice.below(len(PATIENCE_MS))]
        link = TextLink(self.env, self._bootstrap[self._place], self.note_anomaly)
        self._link = link
        return link

    def _quit(self, link: TextLink) -> None:
        def receive(answer: Answer | None) -> None:
            if answer is not None and answer.last != "OK goodbye":
                self.note_anomaly(f"bad answer: {answer.last!r} from {link.address} to QUIT")
            link.close()

        link.ask("QUIT", self._patience_ms, receive)

    def rest(self, act: Callable[[], None], ms: int) -> None:
        """Begin the next piece of work after a pause; where clients rest, when they go on."""
        self.env.clock.call_later(rest_ms(self.env) + ms // 2 + self.env.dice.below(ms), act)

    def later(self, act: Callable[[], None]) -> None:
        """Try again after a moment, which is longer in a rest."""
        ms = RETRY_MS * (RESTING_TIMES if rest_ms(self.env) else 1)
        self.env.clock.call_later(ms // 2 + self.env.dice.below(ms), act)
