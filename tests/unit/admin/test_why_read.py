"""A group that has read what there is, or one record, is not said to wait for anything."""

from __future__ import annotations

from typing import Any

import pytest

from kafkaesque.admin.api.part_pages import CommittedOffset, GroupAnswer
from kafkaesque.admin.api.why_links import Placed, WhyPartition
from kafkaesque.admin.api.why_reader_links import reader_links
from kafkaesque.admin.api.why_tails import is_empty_tail
from kafkaesque.broker.requests.commands import FetchResult
from tests.unit.admin.api_ground import ApiGround, text
from tests.unit.admin.test_api import commit
from tests.unit.admin.test_why import begin_transaction


def placed(*, answers: bool = True) -> Placed:
    led = WhyPartition(
        topic="t",
        partition=0,
        start_offset=0,
        high_watermark=10,
        stable_offset=10,
        end_offset=10,
        in_sync=[1],
        min_in_sync=1,
        disk_refusal=None,
        open=[],
        cleanup_policy="delete",
        retention_ms=-1,
        retention_bytes=-1,
    )
    return Placed(
        topic="t",
        partition=0,
        replicas=(1,),
        lost={},
        leader=1,
        is_recovering=False,
        led=led if answers else None,
    )


def causes(
    committed: int,
    offset: int | None,
    *,
    state: str = "Empty",
    answers: bool = True,
    is_whole: bool = True,
) -> list[str]:
    done = CommittedOffset(topic="t", partition=0, offset=committed, metadata="", at_ms=1)
    answer = GroupAnswer(state=state, kind="classic", offsets=[done])
    links = reader_links("g", answer, [placed(answers=answers)], offset, 0, is_whole=is_whole)
    return [each.name for each in links if each.state != "passed"]


@pytest.mark.parametrize("state", ["Empty", "PreparingRebalance"])
def test_nobody_has_to_consume_what_was_read(state: str) -> None:
    assert causes(10, None, state=state) == []
    assert causes(4, 3, state=state) == []
    assert causes(4, None, state=state)[0] == causes(4, 4, state=state)[0] == "members"


def test_what_was_not_looked_at_may_have_to_be_read() -> None:
    assert causes(10, None, is_whole=False) == ["members"]
    assert causes(10, None, answers=False) == ["members"]


def cause_of_the_group(ground: ApiGround) -> Any:
    return ground.get("/why/groups/g")["cause"]


def test_a_group_without_members_has_to_read_all_partitions_of_its_topics(
    ground: ApiGround,
) -> None:
    ground.create("orders", 2)
    ground.publish("orders", 0, text("a"))
    commit(ground, "g", ("orders", 0, 1))
    assert cause_of_the_group(ground) is None
    record = "/why/topics/orders/partitions/0"
    assert ground.get(record, offset=0, group="g")["cause"] is None
    ground.publish("orders", 1, text("b"))
    assert cause_of_the_group(ground) == "members"
    assert ground.get(record, offset=0, group="g")["cause"] is None


@pytest.fixture
def ground() -> ApiGround:
    return ApiGround(41)


def test_the_end_of_a_transaction_is_nothing_to_be_read(ground: ApiGround) -> None:
    ground.create("orders")
    begin_transaction(ground, "orders")
    assert ground.ask("POST", "/transactions/shop/abort").status == 200
    # Of an aborted record and the end of its transaction nothing is given to consumers.
    commit(ground, "g", ("orders", 0, 0))
    ground.run_until(lambda: ground.get("/why/producers/shop")["cause"] is None)
    assert cause_of_the_group(ground) is None
    ground.publish("orders", 0, text("a"))
    assert cause_of_the_group(ground) == "members"


def test_a_tail_that_is_not_read_to_its_end_may_hold_something() -> None:
    nothing = FetchResult(records=b"", aborted=[], last_stable_offset=9, log_start_offset=0)
    assert is_empty_tail(nothing, 9, 9)
    assert not is_empty_tail(nothing, 8, 9)
