"""Interest across brokers: what is confirmed is never missed, however links come and go."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kafkaesque.model.errors import InvariantBroken, OverBound
from kafkaesque.routing import interest
from kafkaesque.routing.interest import InterestNews, OwnInterest, PeerInterest, Wanted
from kafkaesque.routing.names import AMQP, MQTT, NameFilter, key_of_levels

BROKER, TOLD_MAX = 7, 3
GROUPS = ("", "", "g", "h")
NAMES = [
    tuple(levels)
    for levels in ("a", "b", "ab", "ba", "aa", "abc", "aab", "bab", ("$s", "a"), ("$s",))
]
FILTERS = [
    MQTT.read_filter(text) for text in ("a", "a/b", "a/+", "+/b", "#", "a/b/c", "$s/#", "b/#")
]
FILTERS += [AMQP.read_filter("#.b"), AMQP.read_filter("a.#.b")]


class InterestMachine(RuleBasedStateMachine):
    """One broker's subscribers, and another broker that hears of them over a link."""

    def __init__(self) -> None:
        super().__init__()
        self.own = OwnInterest(TOLD_MAX)
        self.peer = PeerInterest()
        self.link: deque[InterestNews] = deque()
        #: What the other broker was sent over this link.
        self.sent: int | None = None
        #: Subscriptions, with the numbers that they wait for.
        self.subscriptions: list[tuple[Wanted, int]] = []

    @rule(name_filter=st.sampled_from(FILTERS), group=st.sampled_from(GROUPS))
    def subscribe(self, name_filter: NameFilter, group: str = "") -> None:
        wanted = Wanted(name_filter, group)
        self.subscriptions.append((wanted, self.own.add(name_filter, group)))

    @precondition(lambda self: self.subscriptions)
    @rule(data=st.data())
    def unsubscribe(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(self.subscriptions) - 1))
        wanted, _ = self.subscriptions.pop(at)
        self.own.remove(wanted.name_filter, wanted.group)

    @rule()
    def narrow(self) -> None:
        self.own.narrow()

    @rule()
    def tell(self) -> None:
        self.link.extend(self.own.news_since(self.sent))
        self.sent = self.own.number

    @precondition(lambda self: self.link)
    @rule()
    def hear(self) -> None:
        number = self.peer.apply(BROKER, self.link.popleft())
        assert number is not None
        self.own.on_confirmed(1, number)

    @rule()
    def tell_and_hear_all(self) -> None:
        self.tell()
        while self.link:
            self.hear()

    @rule(name_filters=st.lists(st.sampled_from(FILTERS), min_size=2, max_size=6))
    def subscribe_and_confirm(self, name_filters: list[NameFilter]) -> None:
        for each in name_filters:
            self.subscribe(each)
        self.tell_and_hear_all()

    @rule()
    def cut_the_link(self) -> None:
        self.link.clear()
        self.sent = None
        self.own.on_lost(1)

    @rule()
    def the_other_broker_restarts(self) -> None:
        self.cut_the_link()
        self.peer = PeerInterest()

    @invariant()
    def what_is_told_has_a_bound(self) -> None:
        assert sum(not each.group for each in self.own._told) <= TOLD_MAX

    @invariant()
    def what_is_confirmed_is_wanted(self) -> None:
        confirmed = self.own.confirmed((1,))
        for wanted, number in self.subscriptions:
            if number > confirmed:
                continue
            for name in NAMES:
                if not wanted.name_filter.matches(name):
                    continue
                key = key_of_levels(name)
                if wanted.group:
                    assert self.peer.groups(key)[wanted.group] == [BROKER]
                else:
                    assert list(self.peer.wanted_by(key)) == [BROKER]

    @invariant()
    def when_all_is_heard_no_more_is_wanted_than_is_told(self) -> None:
        if self.link or self.sent != self.own.number:
            return
        for name in NAMES:
            key = key_of_levels(name)
            told = [each for each in self.own._told if each.name_filter.matches(name)]
            assert bool(self.peer.wanted_by(key)) == any(not each.group for each in told)
            assert set(self.peer.groups(key)) == {each.group for each in told if each.group}


InterestMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestInterest = InterestMachine.TestCase


def test_a_subscription_that_is_covered_waits_for_nothing_new() -> None:
    own = OwnInterest()
    first = own.add(FILTERS[0])
    own.add(FILTERS[1])
    assert own.add(FILTERS[0]) == first == 1
    own.on_confirmed(1, first)
    assert own.confirmed((1,)) == 1
    assert own.confirmed((1, 2)) == 0
    assert own.confirmed(()) == own.number == 2


def test_few_filters_are_told_as_they_are_again() -> None:
    own = OwnInterest(2)
    for each in FILTERS[:4]:
        own.add(each)
    assert set(own._told) != {Wanted(each) for each in FILTERS[:4]}
    for each in FILTERS[:2]:
        own.remove(each)
    own.narrow()
    assert set(own._told) == {Wanted(each) for each in FILTERS[2:4]}


def test_filters_are_all_looked_at_only_when_they_are_half_as_many() -> None:
    own = OwnInterest(4)
    made = [MQTT.read_filter(f"a/{number}/x") for number in range(64)]
    for each in made:
        own.add(each)
    assert {str(each.name_filter.levels[0]) for each in own._told} == {"a"}
    assert len(own._told) == 1
    number = own.number
    for each in made[:31]:
        own.remove(each)
    own.narrow()
    assert own._most == 64
    own.remove(made[31])
    own.narrow()
    assert own._most == 32
    assert own.number == number
    for each in made[32:60]:
        own.remove(each)
    own.narrow()
    assert set(own._told) == {Wanted(each) for each in made[60:]}


def test_a_gap_is_noticed_and_repeats_change_nothing() -> None:
    own, peer = OwnInterest(), PeerInterest()
    assert own.news_since(0) == []
    own.add(FILTERS[0])
    whole = own.news_since(None)
    own.add(FILTERS[1])
    own.add(FILTERS[2])
    second, third = own.news_since(1)
    assert peer.apply(BROKER, second) is None
    assert peer.apply(BROKER, whole[0]) == 1
    assert peer.apply(BROKER, third) is None
    assert peer.apply(BROKER, second) == 2
    assert peer.apply(BROKER, second) == 2
    assert peer.apply(BROKER, third) == 3
    peer.forget(BROKER)
    assert not peer.wanted_by(key_of_levels(("a",)))
    assert peer.apply(BROKER, third) is None


def test_what_nobody_has_added_cannot_be_removed() -> None:
    with pytest.raises(InvariantBroken):
        OwnInterest().remove(FILTERS[0])


def test_filters_of_groups_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interest, "GROUPED_FILTERS_MAX", 2)
    own = OwnInterest(2)
    for each in FILTERS[:2]:
        own.add(each, "g")
        own.add(each)
    with pytest.raises(OverBound):
        own.add(FILTERS[2], "g")
    assert own.add(FILTERS[0], "g") == 1
    own.remove(FILTERS[1], "g")
    own.add(FILTERS[2], "h")
    assert {each for each in own._told if each.group} == {
        Wanted(FILTERS[0], "g"),
        Wanted(FILTERS[2], "h"),
    }


def test_a_broker_has_a_group_until_the_last_of_its_filters_is_gone() -> None:
    own, peer = OwnInterest(), PeerInterest()
    own.add(FILTERS[0], "g")
    own.add(FILTERS[2], "g")
    own.add(FILTERS[0], "h")
    for news in own.news_since(None):
        peer.apply(BROKER, news)
        peer.apply(3, news)
    key = key_of_levels(("a",))
    assert peer.groups(key) == {"g": [BROKER, 3], "h": [BROKER, 3]}
    peer.forget(3)
    number = own.number
    own.remove(FILTERS[0], "g")
    for news in own.news_since(number):
        peer.apply(BROKER, news)
    assert peer.groups(key) == {"h": [BROKER]}
    assert peer.groups(key_of_levels(("a", "b"))) == {"g": [BROKER]}
    assert peer.knows(BROKER)
    assert not peer.knows(3)
