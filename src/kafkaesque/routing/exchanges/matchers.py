"""How each type of exchange finds the bindings that a message matches.

A binding is a row: a small number that its exchange gave it. Matchers know rows, keys and
arguments, and nothing of where bindings lead.
"""

from array import array
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

from kafkaesque.env.dice import Dice
from kafkaesque.routing.exchanges.choosing import (
    ConsistentHashMatcher,
    ModulusHashMatcher,
    RandomMatcher,
)
from kafkaesque.routing.exchanges.headers_matcher import HeadersMatcher
from kafkaesque.routing.exchanges.kinds import Kind, matching_kind
from kafkaesque.routing.exchanges.records import Arguments, Destination
from kafkaesque.routing.message import RoutedMessage
from kafkaesque.routing.name_index import NameIndex
from kafkaesque.routing.names import AMQP, key_of_routing_key
from kafkaesque.routing.subscribers import Subscribers, with_one, without

Keys = Sequence[str]


class Matcher(Protocol):
    """The bindings of one exchange."""

    #: Whether nothing but a message's keys decides, and always in the same way.
    goes_by_keys: bool

    def add(self, row: int, destination: Destination, key: str, arguments: Arguments) -> None:
        """Take a binding in."""

    def remove(self, row: int, destination: Destination, key: str, arguments: Arguments) -> None:
        """Take it out; key and arguments are those that it was added with."""

    def rows(self, keys: Keys, message: RoutedMessage) -> Iterable[int]:
        """Return the rows that a message matches, each at least once."""


class DirectMatcher:
    """A message goes where one of its keys is the binding's key."""

    __slots__ = ("_by_key",)
    goes_by_keys = True

    def __init__(self) -> None:
        self._by_key: dict[str, Subscribers] = {}

    def add(self, row: int, destination: Destination, key: str, arguments: Arguments) -> None:
        found = with_one(self._by_key.get(key), row)
        if found is not None:
            self._by_key[key] = found

    def remove(self, row: int, destination: Destination, key: str, arguments: Arguments) -> None:
        _, left = without(self._by_key[key], row)
        if left is None:
            del self._by_key[key]
        else:
            self._by_key[key] = left

    def rows(self, keys: Keys, message: RoutedMessage) -> Iterable[int]:
        if len(keys) == 1:
            found = self._by_key.get(keys[0], ())
            return (found,) if isinstance(found, int) else found
        rows: list[int] = []
        for key in keys:
            found = self._by_key.get(key, ())
            rows += (found,) if isinstance(found, int) else found
        return rows


class FanoutMatcher:
    """A message goes everywhere."""

    __slots__ = ("_rows",)
    goes_by_keys = True

    def __init__(self) -> None:
        self._rows: dict[int, None] = {}

    def add(self, row: int, destination: Destination, key: str, arguments: Arguments) -> None:
        self._rows[row] = None

    def remove(self, row: int, destination: Destination, key: str, arguments: Arguments) -> None:
        del self._rows[row]

    def rows(self, keys: Keys, message: RoutedMessage) -> Iterable[int]:
        return self._rows


class TopicMatcher:
    """A message goes where one of its keys matches the binding's key as a filter.

    The empty key has no words, where a name without text has one level that is empty: it is matched
    by filters that want no word, and not by the index.
    """

    __slots__ = ("_index", "_wordless")
    goes_by_keys = True

    def __init__(self) -> None:
        self._index = NameIndex()
        #: The rows that the empty key matches.
        self._wordless: dict[int, None] = {}

    def add(self, row: int, destination: Destination, key: str, arguments: Arguments) -> None:
        self._index.add(AMQP.read_filter(key), row)
        if matches_empty_key(key):
            self._wordless[row] = None

    def remove(self, row: int, destination: Destination, key: str, arguments: Arguments) -> None:
        self._index.remove(AMQP.read_filter(key), row)
        self._wordless.pop(row, None)

    def rows(self, keys: Keys, message: RoutedMessage) -> Iterable[int]:
        if len(keys) == 1:
            return self._rows_of(keys[0])
        rows = array("I")
        for key in keys:
            rows.extend(self._rows_of(key))
        return rows

    def _rows_of(self, key: str) -> Collection[int]:
        return self._index.match(key_of_routing_key(key)) if key else self._wordless


def matches_empty_key(key: str) -> bool:
    """Tell whether a topic exchange's binding with a key matches the routing key without text."""
    return not key or all(word == AMQP.many for word in key.split(AMQP.separator))


def new_matcher(
    kind: Kind, arguments: Arguments, dice: Dice, is_local: Callable[[str], bool]
) -> Matcher:
    """Return a matcher without bindings for an exchange of this kind.

    `is_local` tells of a queue's name whether this broker leads it.
    """
    match matching_kind(kind, arguments):
        case Kind.DIRECT:
            return DirectMatcher()
        case Kind.FANOUT:
            return FanoutMatcher()
        case Kind.TOPIC:
            return TopicMatcher()
        case Kind.CONSISTENT_HASH:
            return ConsistentHashMatcher(arguments)
        case Kind.MODULUS_HASH:
            return ModulusHashMatcher(arguments)
        case Kind.RANDOM:
            return RandomMatcher(dice)
        case Kind.LOCAL_RANDOM:
            return RandomMatcher(dice, is_local)
        case _:
            return HeadersMatcher()
