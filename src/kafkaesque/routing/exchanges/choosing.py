"""Exchanges that choose one of their bindings: by hash, or by lot."""

import math
from bisect import insort
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import NamedTuple

from kafkaesque.env.dice import Dice
from kafkaesque.routing.exchanges.kinds import HASH_HEADER, HASH_PROPERTY, read_weight
from kafkaesque.routing.exchanges.records import Arguments, Destination
from kafkaesque.routing.message import RoutedMessage

_MASK = 2**64 - 1
#: Odd, with bits that are spread; what they are does not matter otherwise.
_FACTORS = (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93)


def _digest(text: str) -> int:
    raw = text.encode(errors="surrogateescape")
    return int.from_bytes(blake2b(raw, digest_size=8).digest(), "big")


class _Hashed:
    """What is hashed: the routing key, a header or a property, as the exchange's arguments say."""

    __slots__ = ("_header", "_property", "goes_by_keys")

    def __init__(self, arguments: Arguments) -> None:
        header, name = arguments.get(HASH_HEADER), arguments.get(HASH_PROPERTY)
        self._header = str(header) if header is not None else None
        self._property = str(name) if name is not None else None
        self.goes_by_keys = header is None and name is None

    def _hash(self, message: RoutedMessage) -> int:
        if self._header is not None:
            return _digest(_text(message.headers.get(self._header)))
        if self._property is not None:
            return _digest(_text(message.properties.get(self._property)))
        return _digest(message.key)


def _kind_of(destination: Destination) -> int:
    return 2 if destination.is_topic else int(destination.is_exchange)


def _text(value: object) -> str:
    """Return what is hashed of a value; messages without it all go the same way."""
    if isinstance(value, int):
        # AMQP's timestamps are whole numbers, too, and are shown otherwise.
        return str(int(value))
    return value if isinstance(value, str) else "" if value is None else repr(value)


class _Member(NamedTuple):
    destination: Destination
    key: str
    row: int
    seed: int
    weight: int


class ConsistentHashMatcher(_Hashed):
    """Each binding gets a part of all hashes that is as large as its key, a number, says.

    The binding with the least weighted hash is chosen (rendezvous hashing; Thaler and Ravishankar,
    1998, with logarithmic weights), so that one binding more or less moves no message between the
    others. All brokers choose alike.
    """

    __slots__ = ("_members",)

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self._members: list[_Member] = []

    def add(self, row: int, destination: Destination, key: str, arguments: Arguments) -> None:
        weight = read_weight(key)
        # In an order that does not depend on who was bound first.
        seed = _digest(f"{_kind_of(destination)}{destination.name}")
        insort(self._members, _Member(destination, key, row, seed, weight))

    def remove(self, row: int, destination: Destination, key: str, arguments: Arguments) -> None:
        self._members = [each for each in self._members if each.row != row]

    def rows(self, keys: object, message: RoutedMessage) -> Iterable[int]:
        if not self._members:
            return ()
        hashed = self._hash(message)
        best_row, best = -1, math.inf
        for member in self._members:
            mixed = (hashed ^ member.seed) * _FACTORS[0] & _MASK
            mixed = (mixed ^ mixed >> 32) * _FACTORS[1] & _MASK
            score = -math.log(((mixed ^ mixed >> 32) + 1) / 2**64) / member.weight
            if score < best:
                best_row, best = member.row, score
        return (best_row,)


class ModulusHashMatcher(_Hashed):
    """The hash modulo the number of bindings chooses; one binding more moves nearly everything."""

    __slots__ = ("_members",)

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self._members: list[tuple[Destination, str, int]] = []

    def add(self, row: int, destination: Destination, key: str, arguments: Arguments) -> None:
        insort(self._members, (destination, key, row))

    def remove(self, row: int, destination: Destination, key: str, arguments: Arguments) -> None:
        self._members.remove((destination, key, row))

    def rows(self, keys: object, message: RoutedMessage) -> Iterable[int]:
        if not self._members:
            return ()
        return (self._members[self._hash(message) % len(self._members)][2],)


class RandomMatcher:
    """A lot chooses."""

    __slots__ = ("_destinations", "_dice", "_is_local", "_rows")
    goes_by_keys = False

    def __init__(self, dice: Dice, is_local: Callable[[str], bool] | None = None) -> None:
        """Choose among queues for which `is_local` is true, if there are any among the bindings."""
        self._dice = dice
        self._is_local = is_local
        self._rows: list[int] = []
        self._destinations: list[Destination] = []

    def add(self, row: int, destination: Destination, key: str, arguments: Arguments) -> None:
        self._rows.append(row)
        self._destinations.append(destination)

    def remove(self, row: int, destination: Destination, key: str, arguments: Arguments) -> None:
        at = self._rows.index(row)
        del self._rows[at], self._destinations[at]

    def rows(self, keys: object, message: RoutedMessage) -> Iterable[int]:
        rows = self._rows
        if self._is_local is not None:
            local = [
                row
                for row, each in zip(rows, self._destinations, strict=True)
                if not each.is_exchange and not each.is_topic and self._is_local(each.name)
            ]
            rows = local or rows
        if not rows:
            return ()
        return (rows[self._dice.below(len(rows))],)
