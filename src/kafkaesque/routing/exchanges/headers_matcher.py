"""How a headers exchange finds its bindings.

Theory of operation. A binding demands pairs of a header's name and value; a pair without a value
demands only that the header is there. Bindings that demand all pairs are found by one of these, the
one that the fewest bindings were found by when it was added, and the others are compared then.
Bindings that are content with any pair are found by each.
"""

from collections.abc import Iterable, Iterator
from decimal import Decimal

from kafkaesque.routing.exchanges.kinds import FILTER, MATCH, MATCH_WORDS, TRANSFORMATION
from kafkaesque.routing.exchanges.records import Arguments, Destination
from kafkaesque.routing.message import RoutedMessage
from kafkaesque.routing.subscribers import Subscribers, with_one, without

#: (name, type of the value, the value); and for headers that only have to be there: (name,)
_Pair = tuple[object, ...]


class HeadersMatcher:
    """A message goes where its headers are what the binding's arguments demand."""

    __slots__ = ("_always", "_by_pair", "_demands")
    goes_by_keys = False

    def __init__(self) -> None:
        self._by_pair: dict[_Pair, Subscribers] = {}
        #: Whether a binding demands all, and what.
        self._demands: dict[int, tuple[bool, tuple[tuple[str, object], ...]]] = {}
        #: Bindings that demand all of nothing.
        self._always: dict[int, None] = {}

    def add(self, row: int, destination: Destination, key: str, arguments: Arguments) -> None:
        is_all, demands = read_demands(arguments)
        pairs = [_pair(name, value) for name, value in demands]
        if is_all and not demands:
            self._always[row] = None
            return
        self._demands[row] = (is_all, demands)
        for pair in (min(pairs, key=self._count),) if is_all else pairs:
            self._put(pair, row)

    def remove(self, row: int, destination: Destination, key: str, arguments: Arguments) -> None:
        for name, value in read_demands(arguments)[1]:
            self._take(_pair(name, value), row)
        self._always.pop(row, None)
        self._demands.pop(row, None)

    def rows(self, keys: object, message: RoutedMessage) -> Iterable[int]:
        yield from self._always
        headers = message.headers
        for row in self._candidates(headers):
            is_all, demands = self._demands[row]
            met = (_is_met(headers, name, value) for name, value in demands)
            if all(met) if is_all else any(met):
                yield row

    def _candidates(self, headers: Arguments) -> Iterator[int]:
        by_pair = self._by_pair
        for name, value in headers.items():
            for pair in ((name,), _pair(name, comparable(value))):
                found = by_pair.get(pair)
                if found is not None:
                    yield from (found,) if isinstance(found, int) else found

    def _count(self, pair: _Pair) -> int:
        found = self._by_pair.get(pair, ())
        return 1 if isinstance(found, int) else len(found)

    def _put(self, pair: _Pair, row: int) -> None:
        found = with_one(self._by_pair.get(pair), row)
        if found is not None:
            self._by_pair[pair] = found

    def _take(self, pair: _Pair, row: int) -> None:
        found = self._by_pair.get(pair)
        if found is None:
            return
        _, left = without(found, row)
        if left is None:
            del self._by_pair[pair]
        else:
            self._by_pair[pair] = left


def read_demands(arguments: Arguments) -> tuple[bool, tuple[tuple[str, object], ...]]:
    """Return whether all have to be met, and what a binding demands; None stands for any value."""
    is_all, with_x = MATCH_WORDS[str(arguments.get(MATCH, "all"))]
    demands = [
        (name, comparable(value))
        for name, value in arguments.items()
        if name not in (MATCH, FILTER, TRANSFORMATION) and (with_x or not name.startswith("x-"))
    ]
    return is_all, tuple(demands)


def comparable(value: object) -> object:
    """Return the value of a header, or of an argument, as they are compared.

    Arguments were written down and read again, where decimals are texts. Bytes are the text that
    they are, as in RabbitMQ.
    """
    match value:
        case bool() | str():
            return value
        case bytes() | bytearray() | memoryview():
            return bytes(value).decode(errors="surrogateescape")
        case int():
            return int(value)
        case Decimal():
            return str(value)
        case list():
            return [comparable(each) for each in value]
        case dict():
            return {name: comparable(each) for name, each in value.items()}
        case _:
            return value


def _pair(name: str, value: object) -> _Pair:
    """Return what a pair is found by."""
    if value is None:
        return (name,)
    try:
        hash(value)
    except TypeError:
        # A list or a table: compared when the name has been found.
        return (name,)
    return name, type(value), value


def _is_met(headers: Arguments, name: str, value: object) -> bool:
    if name not in headers:
        return False
    found = comparable(headers[name])
    return value is None or (type(found) is type(value) and found == value)
