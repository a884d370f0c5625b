"""Somebody who publishes by lines, and never repeats what may be there already."""

import json
import re
from typing import Final

from kafkaesque.sim.text.client import TextClient
from kafkaesque.sim.text.link import Answer
from kafkaesque.sim.text.observations import TextObservations

PAUSE_MS: Final = 120
#: Lines that are sent without waiting, at most, and one in how many turns has any more than one.
LINES_MAX: Final = 4
MORE_ONE_IN: Final = 3
#: One in so many messages is none, and has to be refused.
WRONG_ONE_IN: Final = 20
KEYS: Final = 12

_PLACED: Final = re.compile(r"OK (\S+) (\d+) (\d+)")
#: Of these it is said that nothing was appended, and that nothing will be.
_REFUSED: Final = ("ERROR the message is not in ", "ERROR there is no topic ")
_NOT_CREATED: Final = " was not created"
_DOUBTFUL: Final = "ERROR it is not known whether the message is in "
_NO_MESSAGE: Final = 'ERROR a message has Header, Key and Body, and no field "Strange"'


class _Message:
    """Something to be published."""

    def __init__(self, value: bytes, line: str, *, is_wrong: bool) -> None:
        self.value: Final = value
        self.line: Final = line
        #: Whether the line is none that can be carried out.
        self.is_wrong: Final = is_wrong


class TextPublisher:
    """Publishes numbered messages, with keys and without, until it is stopped."""

    def __init__(self, client: TextClient, name: str, observations: TextObservations) -> None:
        self.is_stopped = False
        self._client: Final = client
        self._name: Final = name
        self._observations: Final = observations
        self._number = 0
        self._messages: list[_Message] = []
        self._due = 0
        client.env.clock.call_soon(self._next)

    @property
    def is_idle(self) -> bool:
        """Whether the outcome of everything is known, as far as anybody knows it."""
        return self._due == 0

    def _next(self) -> None:
        if self.is_stopped:
            return
        dice = self._client.env.dice
        count = 1 if dice.below(MORE_ONE_IN) else 1 + dice.below(LINES_MAX)
        self._messages = [self._make_message() for _ in range(count)]
        self._due = count
        self._client.ask_all([each.line for each in self._messages], self._receive)

    def _make_message(self) -> _Message:
        dice, topic = self._client.env.dice, self._client.topic
        value = f"{self._name}/-/{self._number}"
        self._number += 1
        shape = dice.below(4)
        # A number is a key, too.
        key = dice.below(KEYS) if shape == 1 else f"key-{dice.below(KEYS)}"
        fields: dict[str, object] = {"Body": value}
        if shape < 3:
            fields["Key"] = key
        if shape == 2:
            fields["Header"] = {"from": self._name}
        is_wrong = dice.below(WRONG_ONE_IN) == 0
        if is_wrong:
            fields["Strange"] = 1
        is_plain = shape == 3 and not is_wrong
        text = value if is_plain else json.dumps(fields)
        sent_key = None if shape == 3 else str(key).encode()
        self._observations.note_published(value.encode(), sent_key)
        return _Message(value.encode(), f"PUBS {topic} {text}", is_wrong=is_wrong)

    def _receive(self, place: int, answer: Answer | None) -> None:
        message = self._messages[place]
        if answer is None:
            self._observations.note_doubtful(message.value)
        else:
            self._judge(message, answer)
        self._due -= 1
        if self._due == 0:
            self._client.rest(self._next, PAUSE_MS * len(self._messages))

    def _judge(self, message: _Message, answer: Answer) -> None:
        observations, last = self._observations, answer.last
        placed = _PLACED.fullmatch(last)
        if message.is_wrong:
            observations.note_refused(message.value, last)
            if not last.startswith(_NO_MESSAGE):
                self._note_bad(message, answer)
        elif placed is not None and placed[1] == self._client.topic:
            observations.note_placed(message.value, int(placed[2]), int(placed[3]))
        elif last.startswith(_REFUSED) or _NOT_CREATED in last:
            observations.note_refused(message.value, last)
        else:
            observations.note_doubtful(message.value)
            if not last.startswith(_DOUBTFUL):
                self._note_bad(message, answer)
        if answer.lines:
            self._note_bad(message, answer)

    def _note_bad(self, message: _Message, answer: Answer) -> None:
        shown = [*answer.lines, answer.last]
        self._observations.note_anomaly(f"bad answer: {shown} to {message.line!r}")
