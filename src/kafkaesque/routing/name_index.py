"""Finds the subscribers of a name among a million filters with wildcards.

Theory of operation. A filter's *shape* is how many levels it has, which of them are wildcards, and
whether it goes on for many. Clients use few shapes: everybody who asks for `sensors/<id>/#` has the
same one. The index is a dict by the filters' text. To match, the name is masked by each shape that
could match a name of its length, and the text that comes out is looked up: about 0.3 µs for each
shape, whatever the number of filters.

Shapes are counted per length of name. A filter that would add one more than `SHAPES_MAX` there goes
to the tree in `edges.py`, and so do filters with a wildcard for many levels that is not the last.
Filters stay where they are put first, so a filter is searched in both places when it is removed.

What was found for a name is kept for the `CACHED_NAMES_MAX` names that were asked for last, until
a filter is added or removed.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

from kafkaesque.routing.edges import Edges
from kafkaesque.routing.names import MANY, MQTT, ONE, FilterLevels, NameFilter, NameKey
from kafkaesque.routing.subscribers import SUBSCRIBER_MAX, Subscribers, with_one, without

#: Shapes that are looked up for one name; further ones are in the tree.
SHAPES_MAX = 64
#: For names of more levels it is found out each time which shapes may match.
PLANNED_LEVELS_MAX = 256
#: Names whose subscribers are remembered.
CACHED_NAMES_MAX = 1024
#: More subscribers than these of one name are found anew each time: to send to them takes longer.
CACHED_SUBSCRIBERS_MAX = 256

#: How wildcards are written in a filter's text: ONE, MANY, and the same as a first level that does
#: not pass over `$`. No level's own text has the characters `+` and `#`.
_WILDCARDS = ("+", "#", "+$+", "+$#")
_ONE_PART = 0
_MANY_PART = 1
_WITH_DOLLAR_PARTS = 2

#: Picks the words of a filter's text.
_Mask = Callable[[tuple[str, ...]], tuple[str, ...]]


class _Shape(NamedTuple):
    """What filters have in common that are looked up alike."""

    #: How many levels it has, without the MANY at its end.
    length: int
    #: Which of these are wildcards.
    ones: tuple[int, ...]
    has_many: bool
    skips_dollar: bool


class NameIndex:
    """Filters, and the numbers of who has said each."""

    __slots__ = (
        "_cached",
        "_count",
        "_edges",
        "_filters",
        "_plans",
        "_shapes",
    )

    def __init__(self) -> None:
        #: A filter's text -> its subscribers.
        self._filters: dict[str, Subscribers] = {}
        #: How many filters have a shape.
        self._shapes: dict[_Shape, int] = {}
        #: Length of a name, negative if that begins with `$` -> what to look up.
        self._plans: dict[int, list[_Mask]] = {}
        self._edges = Edges()
        self._count = 0
        self._cached = lru_cache(CACHED_NAMES_MAX)(self._find_few)

    def __len__(self) -> int:
        """How many pairs of a filter and a subscriber there are."""
        return self._count

    def add(self, name_filter: NameFilter, subscriber: int) -> bool:
        """Add a subscriber, from 0 to `SUBSCRIBER_MAX`; say whether the filter is new to it."""
        if not 0 <= subscriber <= SUBSCRIBER_MAX:
            raise ValueError(f"subscriber {subscriber} is not from 0 to {SUBSCRIBER_MAX}")
        levels = _words(name_filter)
        is_new = self._add(levels, name_filter.skips_dollar, subscriber)
        if is_new:
            self._count += 1
            self._cached.cache_clear()
        return is_new

    def _add(self, levels: FilterLevels, skips_dollar: bool, subscriber: int) -> bool:
        if MANY in levels[:-1]:
            return self._edges.add(levels, skips_dollar, subscriber)
        text = _text(levels, skips_dollar)
        before = self._filters.get(text)
        if before is None:
            shape = _shape_of(levels, skips_dollar)
            # A filter of this shape may have been put into the tree when there was no place here.
            if shape not in self._shapes and not self._has_place(shape):
                return self._edges.add(levels, skips_dollar, subscriber)
            if self._edges and self._edges.has(levels, skips_dollar):
                return self._edges.add(levels, skips_dollar, subscriber)
            self._use(shape)
        after = with_one(before, subscriber)
        if after is None:
            return False
        self._filters[text] = after
        return True

    def remove(self, name_filter: NameFilter, subscriber: int) -> bool:
        """Remove a subscriber; say whether it had said this filter."""
        levels, skips_dollar = _words(name_filter), name_filter.skips_dollar
        text = _text(levels, skips_dollar)
        before = self._filters.get(text)
        if before is None:
            was_there = self._edges.remove(levels, skips_dollar, subscriber)
        else:
            was_there, after = without(before, subscriber)
            if after is not None:
                self._filters[text] = after
            else:
                del self._filters[text]
                self._release(_shape_of(levels, skips_dollar))
        if was_there:
            self._count -= 1
            self._cached.cache_clear()
        return was_there

    def match(self, key: NameKey) -> Sequence[int]:
        """Return who is to have a message of this name, each once, ascending."""
        few = self._cached(key)
        return few if few is not None else self.find(key)

    def texts(self) -> Iterable[str]:
        """Return the texts by which filters are kept, apart from those in the tree."""
        return self._filters.keys()

    # -- matching

    def _find_few(self, key: NameKey) -> tuple[int, ...] | None:
        """Return the same as `find`; None: they are too many to be remembered."""
        found = self._filters_of(key)
        if not found:
            return ()
        if (
            sum(1 if isinstance(each, int) else len(each) for each in found)
            > CACHED_SUBSCRIBERS_MAX
        ):
            return None
        return tuple(_union(found))

    def find(self, key: NameKey) -> Sequence[int]:
        """Return the same as `match`, which remembers nothing of it."""
        return _union(self._filters_of(key))

    def _filters_of(self, key: NameKey) -> list[Subscribers]:
        """Return the subscribers of each filter that matches."""
        words = key.split("/")
        count = len(words)
        if count == 1 and key[:1] == "%":
            words = [_only_word(key)]
        begins_with_dollar = key[:1] == "$"
        plan = self._plans.get(-count if begins_with_dollar else count)
        if plan is None:
            plan = self._plan(count, begins_with_dollar)
        joined, filters = "/".join, self._filters.get
        parts = (*words, *_WILDCARDS)
        found = [each for mask in plan if (each := filters(joined(mask(parts)))) is not None]
        if self._edges:
            found += self._edges.find(words, begins_with_dollar)
        return found

    # -- shapes

    def _plan(self, count: int, begins_with_dollar: bool) -> list[_Mask]:
        """Return the masks for a name of so many levels, and remember them if these are few."""
        plan = [
            _mask(shape, count)
            for shape in self._shapes
            if _may_match(shape, count) and not (shape.skips_dollar and begins_with_dollar)
        ]
        if count <= PLANNED_LEVELS_MAX:
            self._plans[-count if begins_with_dollar else count] = plan
        return plan

    def _has_place(self, new: _Shape) -> bool:
        """Tell whether no name would be looked up by too many shapes."""
        longest = max((shape.length for shape in self._shapes), default=0)
        last = max(new.length, longest) if new.has_many else new.length
        return all(
            sum(_may_match(shape, count) for shape in self._shapes) < SHAPES_MAX
            for count in range(new.length, last + 1)
        )

    def _use(self, shape: _Shape) -> None:
        uses = self._shapes.get(shape, 0)
        self._shapes[shape] = uses + 1
        if not uses:
            self._plans.clear()

    def _release(self, shape: _Shape) -> None:
        self._shapes[shape] -= 1
        if not self._shapes[shape]:
            del self._shapes[shape]
            self._plans.clear()


def _may_match(shape: _Shape, count: int) -> bool:
    return shape.length == count or (shape.has_many and shape.length < count)


def _mask(shape: _Shape, count: int) -> _Mask:
    """Return what picks the words of a filter's text from a name's words and `_WILDCARDS`."""
    picked = list(range(shape.length))
    for at in shape.ones:
        picked[at] = count + _ONE_PART
    if shape.has_many:
        picked.append(count + _MANY_PART)
    if not shape.skips_dollar and picked[0] >= count:
        picked[0] += _WITH_DOLLAR_PARTS
    if len(picked) == 1:
        # `itemgetter` would give the word itself, and not a tuple of it.
        only = picked[0]
        return lambda parts: (parts[only],)
    return itemgetter(*picked)


def _words(name_filter: NameFilter) -> FilterLevels:
    """Return the levels with each text as it is in a name's key."""
    write = MQTT.write_level
    return tuple(
        write(level, 2) if isinstance(level, str) else level for level in name_filter.levels
    )


def _only_word(key: NameKey) -> str:
    """Return the level of a name of one level as it is written among others."""
    return MQTT.write_level(MQTT.read_level(key, 1), 2)


def _text(levels: FilterLevels, skips_dollar: bool) -> str:
    words = [level if isinstance(level, str) else _WILDCARDS[level is MANY] for level in levels]
    if not skips_dollar and not isinstance(levels[0], str):
        words[0] = _WILDCARDS[_WITH_DOLLAR_PARTS + (levels[0] is MANY)]
    return "/".join(words)


def _shape_of(levels: FilterLevels, skips_dollar: bool) -> _Shape:
    has_many = levels[-1] is MANY
    head = levels[:-1] if has_many else levels
    ones = tuple(at for at, level in enumerate(head) if level is ONE)
    return _Shape(len(head), ones, has_many, skips_dollar)


def _union(found: list[Subscribers]) -> Sequence[int]:
    if len(found) == 1:
        only = found[0]
        return (only,) if isinstance(only, int) else only[:]
    return sorted(set(chain.from_iterable((e,) if isinstance(e, int) else e for e in found)))
