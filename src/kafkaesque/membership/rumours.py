"""Rumours: entries that are told on, for as long as somebody is likely not to have heard them.

Theory of operation. What is news here becomes a rumour, and rides along on frames, as many as there
is room for: standings before facts, and of each the least told first. When it is given up is one of
the variants of rumour mongering (Demers et al. 1987, "Epidemic algorithms for replicated database
maintenance", section 1.4):

- blind: every telling counts; with feedback: only one to somebody who knew it already;
- counter: after `k` that count; coin: with probability 1/`k` after each that counts.

With feedback and coin a part s of the members never hears of it, with s = e^-((k+1)(1-s)). Repair
(`membership.repair`) tells them.

A cluster's brokers use the blind counter: a bounded number of tellings whatever the others answer,
and no answers. As in SWIM (Das, Gupta, Motivala 2002, section 4.1) the number grows with the
logarithm of the members'.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kafkaesque.env.dice import Dice
from kafkaesque.membership.entries import Entry, Key, Member
from kafkaesque.membership.wire import write_entry
from kafkaesque.model.errors import ConfigError

#: Whatever the variant, a rumour is given up after so many tellings: nobody may ever answer.
TELLINGS_MAX: Final = 255
#: Rumours that are passed over because they are too long for what is left of a frame.
MISFITS_MAX: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Interest:
    """When a rumour is given up.

    Raises:
        ConfigError: `k` is out of range.
    """

    feedback: bool = False
    coin: bool = False
    k: int

    def __post_init__(self) -> None:
        if not 1 <= self.k <= TELLINGS_MAX:
            raise ConfigError(f"membership: k must be from 1 to {TELLINGS_MAX}, not {self.k}")


class _Rumour:
    """An entry that is told on."""

    __slots__ = ("_written", "counted", "entry", "told")

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self._written: bytes | None = None
        #: Tellings, and those that count towards giving it up.
        self.told = 0
        self.counted = 0

    def write(self, at_hand: Callable[[Entry], Entry]) -> bytes:
        """Return the entry as it is to be written now."""
        if self._written is not None:
            return self._written
        now = at_hand(self.entry)
        written = write_entry(now)
        if not now.is_tombstone:
            self._written = written  # the age of others grows
        return written


class _Shelf:
    """Rumours of one kind, the least told first, of those the one that has waited longest."""

    __slots__ = ("levels",)

    def __init__(self) -> None:
        self.levels: Final[list[dict[Key, _Rumour]]] = [{}]

    def put(self, key: Key, rumour: _Rumour) -> None:
        while len(self.levels) <= rumour.told:
            self.levels.append({})
        self.levels[rumour.told][key] = rumour

    def take_out(self, key: Key, rumour: _Rumour) -> None:
        del self.levels[rumour.told][key]

    def most_told(self) -> Key | None:
        for level in reversed(self.levels):
            for key in level:
                return key
        return None


class RumourBoard:
    """The rumours that one member tells on."""

    __slots__ = ("_dice", "_facts", "_interest", "_members", "_rumours", "_rumours_max")

    def __init__(self, interest: Callable[[], Interest], dice: Dice, rumours_max: int) -> None:
        """`interest` is asked at each telling: it may depend on how many members there are."""
        self._interest: Final = interest
        self._dice: Final = dice
        self._rumours_max: Final = rumours_max
        self._rumours: Final[dict[Key, _Rumour]] = {}
        self._members: Final = _Shelf()
        self._facts: Final = _Shelf()

    def __len__(self) -> int:
        return len(self._rumours)

    def __contains__(self, key: Key) -> bool:
        return key in self._rumours

    def tell(self, entry: Entry) -> None:
        """Begin to tell an entry on, in place of what was told of its key.

        Above the bound the most told fact is given up for it, or else the most told standing.
        """
        self.drop(entry.key)
        if len(self._rumours) >= self._rumours_max:
            most_told = self._facts.most_told() or self._members.most_told()
            if most_told is not None:
                self.drop(most_told)
        rumour = _Rumour(entry)
        self._rumours[entry.key] = rumour
        self._shelf(entry).put(entry.key, rumour)

    def drop(self, key: Key) -> None:
        """Tell nothing of this key any more; harmless if nothing is told of it."""
        rumour = self._rumours.pop(key, None)
        if rumour is not None:
            self._shelf(rumour.entry).take_out(key, rumour)

    def choose(
        self, room_bytes: int, entries_max: int, at_hand: Callable[[Entry], Entry]
    ) -> list[tuple[Entry, bytes]]:
        """Return rumours to be told to one member now, as they are written; it counts as telling.

        `at_hand` returns an entry as it is to be written at this time.
        """
        chosen: list[tuple[Entry, bytes]] = []
        misfits = 0
        for shelf in (self._members, self._facts):
            for level in shelf.levels:
                for rumour in level.values():
                    if len(chosen) >= entries_max or misfits >= MISFITS_MAX:
                        break
                    written = rumour.write(at_hand)
                    if len(written) > room_bytes:
                        misfits += 1
                        continue
                    room_bytes -= len(written)
                    chosen.append((rumour.entry, written))
        interest = self._interest()
        for entry, _ in chosen:
            self._on_told(entry.key, interest)
        return chosen

    def _on_told(self, key: Key, interest: Interest) -> None:
        rumour = self._rumours[key]
        shelf = self._shelf(rumour.entry)
        shelf.take_out(key, rumour)
        rumour.told += 1
        if not interest.feedback and self._counts(rumour, interest):
            del self._rumours[key]
        elif rumour.told >= TELLINGS_MAX:
            del self._rumours[key]
        else:
            shelf.put(key, rumour)

    def on_known(self, key: Key, version: int) -> None:
        """Somebody who was told this version knew it already, or a newer one."""
        rumour = self._rumours.get(key)
        interest = self._interest()
        if rumour is None or rumour.entry.version != version or not interest.feedback:
            return
        if self._counts(rumour, interest):
            self.drop(key)

    def _counts(self, rumour: _Rumour, interest: Interest) -> bool:
        """Count a telling and say whether it was the last one."""
        if interest.coin:
            return self._dice.below(interest.k) == 0
        rumour.counted += 1
        return rumour.counted >= interest.k

    def _shelf(self, entry: Entry) -> _Shelf:
        return self._members if isinstance(entry, Member) else self._facts
