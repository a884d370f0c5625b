"""Somebody who reads by lines, and keeps the offsets: no failure makes this one miss a message."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final

from kafkaesque.sim.text.answers import Consumed, read_consumed, read_start, write_start
from kafkaesque.sim.text.client import TextClient
from kafkaesque.sim.text.link import Answer
from kafkaesque.sim.text.observations import TextObservations

PAUSE_MS: Final = 150
#: A broker may not have heard of the topic, or may not reach a partition's leader.
REFUSED: Final = ("ERROR there is no topic ", "ERROR the offsets of group ")
UNREADABLE: Final = " cannot be read: "


def subscription_line(topic: str, group: str) -> str:
    """Return the line that asks for a subscription to all partitions."""
    return f"SUBS {topic} {group}"


def read_subscribed(answer: Answer, group: str) -> str | None:
    """Return the subscription's id; None if there is none in it."""
    ok, _, subscription_id = answer.last.partition(" ")
    is_id = ok == "OK" and subscription_id.startswith(f"{group}/all/")
    return subscription_id if is_id and " " not in subscription_id else None


def is_refusal(answer: Answer) -> bool:
    """Tell whether an ERROR is one that may come while something is wrong."""
    return answer.last.startswith(REFUSED) or UNREADABLE in answer.last


def note_shown(
    observations: TextObservations,
    who: str,
    positions: Mapping[int, int],
    consumed: Consumed,
) -> dict[int, int]:
    """Note the messages that were shown from these positions on; return the ones after them."""
    found = dict(positions)
    for partition, position in positions.items():
        shown = consumed.of(partition)
        spans = [(each.offset, each.offset) for each in shown]
        observations.note_polled(who, partition, position, spans)
        for each in shown:
            observations.note_read(who, partition, each.offset, each.value, each.key)
            found[partition] = max(found[partition], each.offset + 1)
    if consumed.partitions != sorted(consumed.partitions):
        observations.note_anomaly(f"bad answer: {who} was shown {consumed.partitions}")
    return found


def follow_on(positions: Mapping[int, int], consumed: Consumed) -> bool:
    """Tell whether what was shown follows these positions without any gap.

    What a machine with a damaged disk leads may come with wrong offsets, and nobody says who led.
    """
    return all(
        [each.offset for each in consumed.of(partition)]
        == list(range(position, position + len(consumed.of(partition))))
        for partition, position in positions.items()
    )


class Subscriber(ABC):
    """Subscribes until a broker has said which subscription that is, and consumes by it then."""

    def __init__(self, client: TextClient) -> None:
        self._client: Final = client
        #: Good at every broker, for as long as it is known.
        self._subscription_id = ""

    def _subscribe(self, group: str) -> None:
        line = subscription_line(self._client.topic, group)
        self._client.ask(line, lambda answer: self._on_subscribed(group, answer))

    def _on_subscribed(self, group: str, answer: Answer | None) -> None:
        found = None if answer is None else read_subscribed(answer, group)
        if found is None:
            if answer is not None and not is_refusal(answer):
                self._note_bad(answer)
            self._client.later(lambda: self._subscribe(group))
            return
        self._subscription_id = found
        self._consume()

    @abstractmethod
    def _consume(self) -> None:
        """Ask for messages."""

    @abstractmethod
    def _note_bad(self, answer: Answer) -> None:
        """Note an answer that no broker should give."""


class TextReader(Subscriber):
    """Follows all partitions, from the first message on."""

    def __init__(
        self, client: TextClient, name: str, observations: TextObservations, *, is_wary: bool
    ) -> None:
        """With `is_wary` a machine may give out anything; who gets that asks again."""
        super().__init__(client)
        self.is_stopped = False
        self.positions: dict[int, int] = dict.fromkeys(range(observations.partitions), 0)
        self._name: Final = name
        self._observations: Final = observations
        self._is_wary: Final = is_wary
        client.env.clock.call_soon(lambda: self._subscribe(name))

    def _consume(self) -> None:
        if not self.is_stopped:
            start = write_start(self.positions)
            line = f"CONS {self._client.topic} {self._subscription_id} {start}"
            self._client.ask(line, self._on_consumed)

    def _on_consumed(self, answer: Answer | None) -> None:
        if answer is None or is_refusal(answer):
            self._client.later(self._consume)
            return
        consumed = read_consumed(answer, self._client.topic, self._subscription_id)
        start = None if consumed is None else read_start(consumed.start, list(self.positions))
        if consumed is None or start is None:
            self._note_bad(answer)
            self._client.later(self._consume)
        elif self._is_wary and not follow_on(self.positions, consumed):
            self._client.later(self._consume)
        else:
            self._take(consumed, start)

    def _take(self, consumed: Consumed, start: Mapping[int, int]) -> None:
        positions = note_shown(self._observations, self._name, self.positions, consumed)
        for partition, position in positions.items():
            told = start[partition]
            if told < position:
                self._observations.note_anomaly(
                    f"non-monotonic poll: {self._name} got {position - 1} of partition "
                    f"{partition}, and is to go on at {told}"
                )
            elif told > position and not self._is_wary:
                # As if the next answer were to begin there.
                spans = [(told, told)]
                self._observations.note_polled(self._name, partition, position, spans)
            positions[partition] = position if self._is_wary else max(position, told)
        self.positions = positions
        if consumed.messages:
            self._client.env.clock.call_soon(self._consume)
        else:
            self._client.rest(self._consume, PAUSE_MS)

    def _note_bad(self, answer: Answer) -> None:
        self._observations.note_anomaly(f"bad answer: {answer.last!r} to {self._name}")
