"""Finds the subscribers of a name among a million filters with wildcards.

Theory of operation. The index is a dict by the filters' text. Filters are looked up alike that have
wildcards at the same levels: that is their *shape* (`shapes.py`). To match, the name is masked by
each shape that could match a name of its length, and the text that comes out is looked up: about
0.3 µs for each shape, whatever the number of filters. Clients use few shapes: everybody who asks
for `sensors/<id>/#` has the same one.

Shapes beyond the first `ALWAYS_MAX` are looked up only if there is a hint that they have a filter
with two of the name's words (`shape_hints.py`). Filters that have no shape, or would add one more
than `SHAPES_MAX`, are looked at for every name, many at a time (`filter_rows.py`). They stay there
until they are removed, even if there is a place for their shape later.

What was found for a name is kept for the `CACHED_NAMES_MAX` names that were asked for last, until
a filter is added or removed.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from kafkaesque.routing.filter_rows import FilterRows
from kafkaesque.routing.names import MQTT, FilterLevels, NameFilter, NameKey
from kafkaesque.routing.shape_hints import NUMBERS_MAX, Anchor, Anchors, ShapeHints
from kafkaesque.routing.shapes import WILDCARDS, Mask, Shape, has_shape, pattern_of, text_of
from kafkaesque.routing.subscribers import SUBSCRIBER_MAX, Subscribers, with_one, without

#: Shapes; filters of further ones are in rows.
SHAPES_MAX = NUMBERS_MAX
#: Shapes that are looked up for each name of their length, without a hint.
ALWAYS_MAX = 32
#: Shapes of which a filter may match a name in several ways: each takes a look-up.
FLOATING_MAX = 8
#: For names of more levels it is found out each time which shapes may match.
PLANNED_LEVELS_MAX = 256
#: Names whose subscribers are remembered.
CACHED_NAMES_MAX = 1024
#: More subscribers than these of one name are found anew each time: to send to them takes longer.
CACHED_SUBSCRIBERS_MAX = 256


class _Plan(NamedTuple):
    """What is looked up for names of one length."""

    masks: list[Mask]
    #: Shapes that have more than one text for a name.
    floating: list[Shape]
    anchors: list[Anchor]


class NameIndex:
    """Filters, and the numbers of who has said each."""

    __slots__ = (
        "_always",
        "_anchors",
        "_cached",
        "_count",
        "_filters",
        "_floating",
        "_hinted",
        "_hints",
        "_plans",
        "_rows",
        "_shapes",
    )

    def __init__(self) -> None:
        #: A filter's text -> its subscribers.
        self._filters: dict[str, Subscribers] = {}
        #: By pattern.
        self._shapes: dict[str, Shape] = {}
        #: Those that are looked up without a hint, in the order in which they came.
        self._always: dict[str, Shape] = {}
        #: The others, by number; made when there is one.
        self._hinted: dict[int, Shape] = {}
        self._hints: ShapeHints | None = None
        self._anchors = Anchors()
        #: How many shapes have several texts for a name.
        self._floating = 0
        #: Length of a name, negative if that begins with `$` -> what to look up.
        self._plans: dict[int, _Plan] = {}
        #: Filters for whose shape there is no place.
        self._rows = FilterRows()
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
        text = text_of(levels, skips_dollar)
        before = self._filters.get(text)
        if before is None:
            shape = self._shape(levels, skips_dollar)
            if shape is None:
                self._rows.add(text, levels, skips_dollar)
            else:
                self._use(shape, levels)
        after = with_one(before, subscriber)
        if after is None:
            return False
        self._filters[text] = after
        return True

    def remove(self, name_filter: NameFilter, subscriber: int) -> bool:
        """Remove a subscriber; say whether it had said this filter."""
        levels, skips_dollar = _words(name_filter), name_filter.skips_dollar
        text = text_of(levels, skips_dollar)
        before = self._filters.get(text)
        if before is None:
            return False
        was_there, after = without(before, subscriber)
        if after is not None:
            self._filters[text] = after
        else:
            del self._filters[text]
            if text in self._rows:
                self._rows.remove(text, levels, skips_dollar)
            else:
                self._release(self._shapes[pattern_of(levels, skips_dollar)], levels)
        if was_there:
            self._count -= 1
            self._cached.cache_clear()
        return was_there

    def match(self, key: NameKey) -> Sequence[int]:
        """Return who is to have a message of this name, each once, ascending."""
        few = self._cached(key)
        return few if few is not None else self.find(key)

    def texts(self) -> Iterable[str]:
        """Return the texts by which filters are kept."""
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
        masks, floating, anchors = plan
        joined, filters = "/".join, self._filters.get
        parts = (*WILDCARDS, *words)
        found = [each for mask in masks if (each := filters(joined(mask(parts)))) is not None]
        if anchors and self._hints is not None:
            hinted = [self._hinted[each] for each in self._hints.find(words, anchors)]
            floating = [*floating, *(s for s in hinted if s.may_match(count, begins_with_dollar))]
        for shape in floating:
            texts = shape.texts(parts) if shape.mask is None else (joined(shape.mask(parts)),)
            found += [each for text in texts if (each := filters(text)) is not None]
        if self._rows:
            found += [self._filters[text] for text in self._rows.find(words, begins_with_dollar)]
        return found

    # -- shapes

    def _plan(self, count: int, begins_with_dollar: bool) -> _Plan:
        """Return what to look up for a name of so many levels, and remember it if these are few."""
        always = [
            each for each in self._always.values() if each.may_match(count, begins_with_dollar)
        ]
        anchors = (
            each.anchor
            for each in self._hinted.values()
            if each.anchor is not None and each.may_match(count, begins_with_dollar)
        )
        plan = _Plan(
            masks=[each.mask for each in always if each.mask is not None],
            floating=[each for each in always if each.mask is None],
            anchors=list(dict.fromkeys(anchors)),
        )
        if count <= PLANNED_LEVELS_MAX:
            self._plans[-count if begins_with_dollar else count] = plan
        return plan

    def _shape(self, levels: FilterLevels, skips_dollar: bool) -> Shape | None:
        """Return a filter's shape, which is made if there is none; None: there is no place."""
        pattern = pattern_of(levels, skips_dollar)
        shape = self._shapes.get(pattern)
        if shape is not None:
            return shape
        if len(self._shapes) >= SHAPES_MAX or not has_shape(pattern):
            return None
        shape = Shape(pattern)
        if shape.mask is None:
            if self._floating >= FLOATING_MAX:
                return None
            self._floating += 1
        self._anchors.note(levels, shape.words_at)
        if len(self._always) < ALWAYS_MAX or not shape.words_at:
            self._always[pattern] = shape
        else:
            shape.anchor = self._anchors.use(shape.words_at)
            shape.number = next(each for each in range(SHAPES_MAX) if each not in self._hinted)
            self._hinted[shape.number] = shape
        self._shapes[pattern] = shape
        self._plans.clear()
        return shape

    def _use(self, shape: Shape, levels: FilterLevels) -> None:
        """Count a filter."""
        shape.uses += 1
        if shape.anchor is not None:
            if self._hints is None:
                self._hints = ShapeHints()
            self._hints.add(levels, shape.anchor, shape.number)

    def _release(self, shape: Shape, levels: FilterLevels) -> None:
        """Count a filter less."""
        if shape.anchor is not None and self._hints is not None:
            self._hints.remove(levels, shape.anchor, shape.number)
        shape.uses -= 1
        if shape.uses:
            return
        del self._shapes[shape.pattern]
        self._plans.clear()
        self._floating -= shape.mask is None
        if shape.anchor is None:
            del self._always[shape.pattern]
            return
        self._anchors.release(shape.anchor)
        del self._hinted[shape.number]
        if not self._hinted:
            self._hints = None


def _words(name_filter: NameFilter) -> FilterLevels:
    """Return the levels with each text as it is in a name's key."""
    write = MQTT.write_level
    return tuple(
        write(level, 2) if isinstance(level, str) else level for level in name_filter.levels
    )


def _only_word(key: NameKey) -> str:
    """Return the level of a name of one level as it is written among others."""
    return MQTT.write_level(MQTT.read_level(key, 1), 2)


def _union(found: list[Subscribers]) -> Sequence[int]:
    if len(found) == 1:
        only = found[0]
        return (only,) if isinstance(only, int) else only[:]
    return sorted(set(chain.from_iterable((e,) if isinstance(e, int) else e for e in found)))
