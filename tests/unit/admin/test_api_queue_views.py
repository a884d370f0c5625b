"""Groups that read a queue which Kafka's clients see as a topic: how far they are behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkaesque.admin.census import Census, take_census
from kafkaesque.broker.requests.queue_requests import ClaimsResult, SettleMessages
from tests.unit.admin.api_ground import ApiGround
from tests.unit.admin.test_api import commit
from tests.unit.admin.test_api_coordinators import heartbeat
from tests.unit.admin.test_api_queues import take

QUEUE, VIEW, GROUP = "mails", "mails.view", "archive"


@pytest.fixture(scope="module")
def ground() -> Iterator[ApiGround]:
    made = ApiGround(43)
    made.create_queue(QUEUE, kafka_topic=VIEW)
    made.put(QUEUE, "a", "b", "c")
    # Decisions follow the messages in the log, and are nothing that a reader has still to get.
    claims = [each.claim for each in take(made, QUEUE, 2)]
    made.ask_queue(QUEUE, SettleMessages, ClaimsResult, claims=claims)
    commit(made, GROUP, (VIEW, 0, 1))
    yield made
    assert made.lines == []


def end_of(ground: ApiGround) -> int:
    """Return the offset behind the last message, as the leader's table has it."""
    (found,) = ground.get(f"/queues/{QUEUE}/messages")["items"][-1:]
    return int(found["offset"]) + 1


@pytest.mark.parametrize("host", ["b1", "b2", "b3"])
def test_a_group_has_the_lag_that_is_left_to_read(ground: ApiGround, host: str) -> None:
    end = end_of(ground)
    (row,) = ground.get("/groups", host)["items"]
    assert (row["group"], row["lag"], row["unknown"]) == (GROUP, end - 1, 0)
    seen = ground.get(f"/groups/{GROUP}", host)
    assert (seen["lag"], seen["unknown"]) == (end - 1, 0)
    (offset,) = seen["offsets"]
    assert (offset["topic"], offset["end_offset"], offset["lag"]) == (VIEW, end, end - 1)


def test_metrics_count_it_too(ground: ApiGround) -> None:
    lags: dict[str, int] = {}
    unknown = 0

    def on_done(census: Census) -> None:
        nonlocal unknown
        unknown += census.partitions_elsewhere
        lags.update({group: lag for lag, group in census.lags})

    for broker in ground.cluster.brokers.values():
        take_census(broker.doors, on_done)
    ground.run_until(lambda: bool(lags))
    assert (lags, unknown) == ({GROUP: end_of(ground) - 1}, 0)


def test_why_a_member_is_behind_is_told_of_a_queue_too() -> None:
    ground = ApiGround(44)
    ground.create_queue(QUEUE, kafka_topic=VIEW)
    ground.put(QUEUE, "a")
    joined = heartbeat(ground, 0, GROUP, VIEW)
    heartbeat(ground, joined.member_epoch, GROUP, VIEW)
    told = ground.get(f"/why/groups/{GROUP}")["links"][-1]
    assert (told["name"], told["state"]) == ("lag", "blocking")
    assert f"has {VIEW}-0 and is" in told["what"]


def test_a_group_is_told_where_to_go_on(ground: ApiGround) -> None:
    body = {"topic": VIEW, "to": "latest"}
    told = ground.ask("POST", f"/groups/{GROUP}/offsets", body, "b2")
    assert told.status == 200, told.body
    (row,) = told.json["rows"]
    assert (row["before"], row["after"]) == (1, end_of(ground))
    (seen,) = ground.get("/groups", "b3")["items"]
    assert seen["lag"] == 0
    commit(ground, GROUP, (VIEW, 0, 1))
