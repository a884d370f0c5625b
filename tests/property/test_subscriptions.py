"""Subscriptions with an end against a list that is searched from the first to the last."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kafkaesque.model.errors import OverBound
from kafkaesque.routing.message import RoutedMessage
from kafkaesque.routing.names import Levels, NameFilter, key_of_levels
from kafkaesque.routing.selectors.selector import Selector
from kafkaesque.routing.subscriptions import Subscription, SubscriptionTable
from tests.property.routing_names import filters, matches, plain_names

ends = st.none() | st.integers(0, 40)
RED = Selector("color = 'red'")


class SubscriptionsMachine(RuleBasedStateMachine):
    """Adds, renews, removes and lets time pass."""

    def __init__(self) -> None:
        super().__init__()
        self.table = SubscriptionTable()
        self.known: dict[int, Subscription] = {}
        self.now_ms = 0

    @rule(name_filter=filters(), is_choosy=st.booleans(), end_ms=ends)
    def add(self, name_filter: NameFilter, is_choosy: bool, end_ms: int | None) -> None:
        subscription = Subscription(
            name_filter=name_filter, selector=RED if is_choosy else None, expires_ms=end_ms
        )
        number = self.table.add(subscription)
        assert number not in self.known
        self.known[number] = subscription

    @rule(number=st.integers(0, 20), end_ms=ends)
    def renew(self, number: int, end_ms: int | None) -> None:
        assert self.table.renew(number, end_ms) == (number in self.known)
        if number in self.known:
            old = self.known[number]
            self.known[number] = Subscription(
                name_filter=old.name_filter, selector=old.selector, expires_ms=end_ms
            )

    @rule(number=st.integers(0, 20))
    def remove(self, number: int) -> None:
        assert self.table.remove(number) == (number in self.known)
        self.known.pop(number, None)

    @rule(steps_ms=st.integers(0, 8))
    def pass_time(self, steps_ms: int) -> None:
        self.now_ms += steps_ms

    @rule()
    def take_expired(self) -> None:
        over = [number for number, each in self.known.items() if self.is_over(each)]
        assert sorted(self.table.take_expired(self.now_ms)) == sorted(over)
        for number in over:
            del self.known[number]

    @rule(name=plain_names, color=st.sampled_from(("red", "blue")))
    def match(self, name: Levels, color: str) -> None:
        message = RoutedMessage(headers={"color": color})
        wanted = [
            number
            for number, each in sorted(self.known.items())
            if matches(each.name_filter, name)
            and not self.is_over(each)
            and (each.selector is None or color == "red")
        ]
        assert self.table.matching(key_of_levels(name), message, self.now_ms) == wanted

    def is_over(self, subscription: Subscription) -> bool:
        return subscription.expires_ms is not None and subscription.expires_ms <= self.now_ms

    @invariant()
    def same(self) -> None:
        assert len(self.table) == len(self.known)
        known_ends = [e.expires_ms for e in self.known.values() if e.expires_ms is not None]
        assert self.table.next_end_ms == min(known_ends, default=None)


TestSubscriptions = SubscriptionsMachine.TestCase


def test_their_number_and_the_entries_of_their_ends_have_bounds() -> None:
    table = SubscriptionTable(1)
    found = Subscription(name_filter=NameFilter(levels=("a",)), expires_ms=1)
    number = table.add(found)
    assert table.get(number) == found
    with pytest.raises(OverBound, match="1 subscriptions"):
        table.add(found)
    for end_ms in range(10_000):
        table.renew(number, end_ms)
    assert len(table._ends) < 2000
    assert table.take_expired(9_999) == [number]
    assert table.add(found) != number
