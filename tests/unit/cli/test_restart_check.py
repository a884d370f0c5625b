"""When the next broker of a rolling restart may be stopped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkaesque.cli.doctor.facts import Facts
from kafkaesque.cli.doctor.restart_check import reasons_to_wait
from kafkaesque.cli.moving_replicas import Move, Where
from tests.unit.cli.made_up_facts import admin, facts, partition, view, with_broker


def test_it_may_where_everything_is_in_sync_everywhere() -> None:
    assert reasons_to_wait(facts(), 3) == []


def test_it_may_while_replicas_move() -> None:
    seen = view({"orders-1": partition(replicas=[3, 1, 2], in_sync=[1, 2])})
    under_way = {Where("orders", 1): Move(replicas=[3, 1, 2], adding=[3], removing=[])}
    assert reasons_to_wait(replace(facts(seen), moves=under_way), 3) == []
    behind = view({"orders-1": partition(replicas=[3, 1, 2], in_sync=[1])})
    assert reasons_to_wait(replace(facts(behind), moves=under_way), 3)


CASES: dict[str, tuple[Facts, str]] = {
    "a broker is down": (
        with_broker(facts(), 2, problem="timed out", view=None, disk=None, admin=None),
        "broker 2 does not answer: timed out",
    ),
    "a broker that holds replicas is not heard of": (
        replace(facts(), brokers=facts().brokers[:2]),
        "broker 3 does not answer: nobody hears of it",
    ),
    "fewer brokers than were asked for": (facts(), "3 brokers of 4 are known"),
    "a broker is not ready": (
        with_broker(facts(), 2, admin=replace(admin(), reasons=["because"])),
        "broker 2 is not ready: because",
    ),
    "only the broker that was just started knows of a missing replica": (
        with_broker(facts(), 3, view=view({"orders-1": partition(in_sync=[1, 2])})),
        "1 partition without a leader or with replicas that are not in sync, as broker 3 sees it: "
        "orders-1",
    ),
    "a partition has no leader": (
        facts(view({"orders-1": partition(leader=-1)})),
        "as broker 1 sees it: orders-1",
    ),
    "a copy is offline": (
        facts(view({"orders-1": partition(offline=[2])})),
        "as broker 1 sees it: orders-1",
    ),
    "a broker does not hear of another": (
        with_broker(facts(), 3, view=replace(view(), brokers={2: "h:2", 3: "h:3"})),
        "broker 3 does not hear of 1",
    ),
}


@pytest.mark.parametrize("what", CASES)
def test_it_may_not_where(what: str) -> None:
    found, sentence = CASES[what]
    reasons = reasons_to_wait(found, 4 if "asked for" in what else 3)
    assert len(reasons) == 1
    assert sentence in reasons[0]
