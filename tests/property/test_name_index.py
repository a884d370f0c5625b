"""The index of names finds what a plain matcher finds, whatever was added and removed before."""

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafkaesque.routing import name_index
from kafkaesque.routing.edges import Edges
from kafkaesque.routing.name_index import NameIndex
from kafkaesque.routing.names import Levels, NameFilter, key_of_levels
from tests.property.routing_names import filters, matches, names, plain_names

subscribers = st.integers(0, 5)


class NameIndexMachine(RuleBasedStateMachine):
    """Adds, removes and looks up, beside a set of pairs."""

    @initialize(shapes_max=st.sampled_from([0, 1, 3, 64]))
    def begin(self, shapes_max: int) -> None:
        self.patched = patch.object(name_index, "SHAPES_MAX", shapes_max)
        self.patched.start()
        self.index = NameIndex()
        self.pairs: set[tuple[NameFilter, int]] = set()

    def teardown(self) -> None:
        if hasattr(self, "patched"):
            self.patched.stop()

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
)
def test_many_filters_at_once(name_filters: list[NameFilter], looked_up: list[Levels]) -> None:
    index = NameIndex()
    for number, name_filter in enumerate(name_filters):
        assert index.add(name_filter, number)
    for name in looked_up:
        wanted = [n for n, each in enumerate(name_filters) if matches(each, name)]
        assert list(index.match(key_of_levels(name))) == wanted


@given(name_filters=st.lists(filters(), max_size=30, unique=True))
def test_a_tree_that_was_emptied_has_nothing_left(name_filters: list[NameFilter]) -> None:
    edges = Edges()
    for name_filter in name_filters:
        edges.add(name_filter.levels, name_filter.skips_dollar, 1)
    for name_filter in name_filters:
        assert edges.remove(name_filter.levels, name_filter.skips_dollar, 1)
    assert edges.edge_count == 0
    assert not edges
