"""Brokers that have not noticed yet who is gone are asked again, before anybody believes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kafkaesque.cli.doctor import probe
from kafkaesque.cli.doctor.facts import BrokerFacts, Facts, View
from kafkaesque.cli.doctor.out_of_date import is_out_of_date
from tests.unit.cli.made_up_facts import (
    admin,
    broker,
    closed,
    facts,
    partition,
    view,
    with_broker,
    without_controller,
)


def led(leader: int, in_sync: Sequence[int], replicas: Sequence[int] = (1, 2, 3)) -> View:
    return view({"orders-0": partition(leader=leader, in_sync=in_sync, replicas=replicas)})


def gone(seen: View, *numbers: int) -> Facts:
    found = facts(seen)
    for number in numbers:
        found = closed(found, number)
    return found


@pytest.mark.parametrize(
    ("seen", "numbers", "expected"),
    [
        (led(1, [1, 2, 3]), [], False),
        (led(1, [1, 2, 3]), [3], False),  # a majority is there: it leads on
        (led(3, [1, 2, 3]), [3], True),  # it does not answer
        (led(1, [1, 2, 3]), [2, 3], True),  # it is about to step down
        (led(-1, [1, 2, 3]), [2, 3], False),  # it has
        (led(1, [1]), [2, 3], False),  # it goes on alone
        (led(1, [1, 2], replicas=[1, 2]), [2], True),
        (led(1, [1], replicas=[1, 2]), [2], False),
    ],
)
def test_a_leader_that_cannot_go_on_leading_is_not_believed(
    seen: View, numbers: list[int], expected: bool
) -> None:
    assert is_out_of_date(gone(seen, *numbers)) == expected


def test_a_controller_that_cannot_go_on_leading_is_not_believed() -> None:
    votes = replace(admin(), controllers=(1, 2, 3))
    alone = with_broker(gone(led(-1, []), 2, 3), 1, admin=votes)
    assert is_out_of_date(alone)
    assert not is_out_of_date(with_broker(gone(led(1, [1, 2]), 3), 1, admin=votes))
    assert not is_out_of_date(without_controller(1, of=gone(led(-1, []), 2, 3)))
    # One that lets no clients in, and says so itself, is not gone.
    assert not is_out_of_date(closed(facts(led(3, [1, 2, 3])), 3, admin=admin()))


def test_who_has_not_noticed_is_asked_again_and_who_hangs_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    news = [led(3, [1, 2, 3]), led(3, [1, 2, 3]), led(2, [1, 2, 3])]

    def look_at_broker(number: int, address: str) -> BrokerFacts:
        asked.append(number)
        if number == 3:
            return BrokerFacts(id=3, address=address, problem="no answer", hangs=True)
        return broker(number, news[asked.count(number) - 1])

    monkeypatch.setattr(probe, "SETTLE_S", 0.0)
    monkeypatch.setattr(probe, "look_at_broker", look_at_broker)
    monkeypatch.setattr(probe, "find_admin_ports", lambda _: {})
    monkeypatch.setattr(probe, "read_moving", lambda *_: {})
    monkeypatch.setattr(probe, "_first_view", lambda _: (news[0], dict(news[0].brokers), True))
    found = probe.look("h:1")
    assert {each.leader for each in found.view.partitions.values()} == {2}
    assert sorted(asked) == [1, 1, 1, 2, 2, 2, 3]

    # It may stay so, as where only this machine does not reach it.
    asked.clear()
    news[2:] = [news[0]] * 20
    found = probe.look("h:1")
    assert {each.leader for each in found.view.partitions.values()} == {3}
    assert asked.count(1) == 1 + probe.SETTLE_TRIES_MAX
