"""The index of names finds what a plain matcher finds, whatever was added and removed before."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafkaesque.routing import filter_rows, name_index, shape_hints
from kafkaesque.routing.name_index import NameIndex
from kafkaesque.routing.names import Levels, NameFilter, NameKey, key_of_levels
from kafkaesque.routing.shape_hints import ShapeHints
from tests.property.routing_names import (
    filter_texts,
    filters,
    matches,
    names,
    plain_names,
)

subscribers = st.integers(0, 5)
#: Shapes at most, those that are looked up without a hint, and those with several texts for a name.
bounds = st.tuples(
    st.sampled_from([0, 1, 3, 64]), st.sampled_from([0, 1, 3, 64]), st.sampled_from([0, 1, 64])
)


@contextmanager
def patched_bounds(values: tuple[int, int, int]) -> Iterator[None]:
    shapes_max, always_max, floating_max = values
    with (
        patch.object(name_index, "SHAPES_MAX", shapes_max),
        patch.object(name_index, "ALWAYS_MAX", always_max),
        patch.object(name_index, "FLOATING_MAX", floating_max),
        patch.object(filter_rows, "BLOCK_ROWS", 4),
    ):
        yield


class NameIndexMachine(RuleBasedStateMachine):
    """Adds, removes and looks up, beside a set of pairs."""

    @initialize(bounds=bounds)
    def begin(self, bounds: tuple[int, int, int]) -> None:
        self.patched = patched_bounds(bounds)
        self.patched.__enter__()
        self.index = NameIndex()
        self.pairs: set[tuple[NameFilter, int]] = set()

    def teardown(self) -> None:
        if hasattr(self, "patched"):
            self.patched.__exit__(None, None, None)

    @rule(name_filter=filters(), subscriber=subscribers)
    def add(self, name_filter: NameFilter, subscriber: int) -> None:
        pair = (name_filter, subscriber)
        assert self.index.add(name_filter, subscriber) == (pair not in self.pairs)
        self.pairs.add(pair)

    @rule(data=st.data())
    def remove_one(self, data: st.DataObject) -> None:
        if self.pairs:
            pair = data.draw(st.sampled_from(sorted(self.pairs, key=repr)))
            assert self.index.remove(*pair)
            self.pairs.remove(pair)

    @rule(name_filter=filters(), subscriber=subscribers)
    def remove_any(self, name_filter: NameFilter, subscriber: int) -> None:
        pair = (name_filter, subscriber)
        assert self.index.remove(name_filter, subscriber) == (pair in self.pairs)
        self.pairs.discard(pair)

    @rule(name=st.one_of(names, plain_names))
    def match(self, name: Levels) -> None:
        wanted = {number for each, number in self.pairs if matches(each, name)}
        for _ in range(2):  # the second time from the cache
            assert list(self.index.match(key_of_levels(name))) == sorted(wanted)

    @invariant()
    def count(self) -> None:
        if hasattr(self, "index"):
            assert len(self.index) == len(self.pairs)


TestNameIndex = NameIndexMachine.TestCase


@given(
    name_filters=st.lists(filters(), max_size=30),
    looked_up=st.lists(st.one_of(names, plain_names), min_size=1, max_size=10),
    bounds=bounds,
)
def test_many_filters_at_once(
    name_filters: list[NameFilter], looked_up: list[Levels], bounds: tuple[int, int, int]
) -> None:
    with patched_bounds(bounds):
        index = NameIndex()
        for number, name_filter in enumerate(name_filters):
            assert index.add(name_filter, number)
        for name in looked_up:
            wanted = [n for n, each in enumerate(name_filters) if matches(each, name)]
            assert list(index.match(key_of_levels(name))) == wanted


@given(
    texts=st.lists(filter_texts(), min_size=1, max_size=40),
    looked_up=st.lists(
        st.lists(st.sampled_from("abc"), min_size=1, max_size=8).map("/".join),
        min_size=1,
        max_size=10,
    ),
    bounds=bounds,
)
def test_what_clients_of_all_protocols_write(
    texts: list[NameFilter], looked_up: list[NameKey], bounds: tuple[int, int, int]
) -> None:
    with patched_bounds(bounds):
        index = NameIndex()
        for number, each in enumerate(texts):
            index.add(each, number)
        for removed in (0, len(texts) // 2):
            for number in range(removed):
                index.remove(texts[number], number)
            for key in looked_up:
                name = tuple(key.split("/"))
                wanted = [n for n, each in enumerate(texts) if n >= removed and matches(each, name)]
                assert list(index.match(key)) == wanted


class ShapeHintsMachine(RuleBasedStateMachine):
    """Enters filters and takes them out, beside a count of them; buckets are soon too many."""

    ANCHORS = ((0, 0, 1), (0, 1, 2), (1, 2, 3), (-2, -1, 4))

    @initialize(entries_max=st.sampled_from([1, 2, 32]), count_max=st.sampled_from([1, 2, 9]))
    def begin(self, entries_max: int, count_max: int) -> None:
        self.patches = [
            patch.object(shape_hints, "BUCKET_ENTRIES_MAX", entries_max),
            patch.object(shape_hints, "_COUNT_MAX", count_max),
            patch.object(shape_hints, "_FIRST_BITS", 1),
            patch.object(shape_hints, "_KEY_MASK", (1 << 17) - 1),
        ]
        for each in self.patches:
            each.start()
        self.hints = ShapeHints()
        self.entered: Counter[tuple[tuple[str, ...], int]] = Counter()

    def teardown(self) -> None:
        for each in getattr(self, "patches", ()):
            each.stop()

    def anchor(self, number: int) -> tuple[int, int, int]:
        return self.ANCHORS[number % len(self.ANCHORS)]

    @rule(
        words=st.lists(st.integers(0, 30).map(str), min_size=3, max_size=3).map(tuple),
        numbers=st.lists(st.integers(0, 9), min_size=1, max_size=20),
    )
    def add(self, words: tuple[str, ...], numbers: list[int]) -> None:
        for number in numbers:
            self.hints.add(words, self.anchor(number), number)
            self.entered[words, number] += 1

    @rule(data=st.data(), count=st.integers(1, 9))
    def remove(self, data: st.DataObject, count: int) -> None:
        for _ in range(min(count, self.entered.total())):
            words, number = data.draw(st.sampled_from(sorted(self.entered)))
            self.hints.remove(words, self.anchor(number), number)
            self.entered[words, number] -= 1
            self.entered += Counter()

    @invariant()
    def nothing_is_missing(self) -> None:
        if not hasattr(self, "hints"):
            return
        for words, number in self.entered:
            assert number in self.hints.find(words, [self.anchor(number)])
        if not self.entered:
            assert len(self.hints) == 0
            assert not self.hints.find(("1", "2", "3"), self.ANCHORS)


TestShapeHints = ShapeHintsMachine.TestCase
