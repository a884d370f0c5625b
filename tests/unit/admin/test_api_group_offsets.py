"""Where a group goes on: told before it is done, done only where nobody is at work."""

from collections.abc import Iterator
from typing import Any

import pytest

from kafkaesque.access.audit import AuditEvent
from kafkaesque.broker.audit import Audit
from tests.unit.admin.api_ground import ApiGround, text
from tests.unit.admin.test_api import commit
from tests.unit.admin.test_api_coordinators import heartbeat
from tests.unit.admin.told import Told

MINUTE_MS = 60_000
BEGIN_MS = 1_790_000_000_000


@pytest.fixture
def ground() -> Iterator[ApiGround]:
    made = ApiGround(41)
    made.create("orders", 3)
    for minute in range(5):
        made.publish("orders", 0, text(f"m{minute}", at_ms=BEGIN_MS + minute * MINUTE_MS))
    made.publish("orders", 2, text("x", at_ms=BEGIN_MS))
    commit(made, "billing", ("orders", 0, 2), ("orders", 2, 1))
    yield made
    assert made.lines == []


def reset(ground: ApiGround, *, dry: bool = True, group: str = "billing", **body: Any) -> Told:
    query = {"dry_run": "true"} if dry else {}
    body = {"topic": "orders", **body}
    return ground.ask("POST", f"/groups/{group}/offsets", body, "b2", **query)


def committed(ground: ApiGround) -> dict[int, int]:
    offsets = ground.get("/groups/billing", "b3")["offsets"]
    return {each["partition"]: each["committed"] for each in offsets}


@pytest.mark.parametrize(
    ("body", "after", "word"),
    [
        ({"to": "earliest"}, [0, 0, 0], "--to earliest"),
        ({"to": "latest"}, [5, 0, 1], "--to latest"),
        ({"to": "offset", "number": 3}, [3, 0, 1], "--to 3"),
        ({"to": "offset", "number": 10**18}, [5, 0, 1], "--to 1000000000000000000"),
        ({"to": "shift", "number": 1}, [3, 0, 1], "--shift 1"),
        ({"to": "shift", "number": -1}, [1, 0, 0], "--shift -1"),
        (
            {"to": "time", "number": BEGIN_MS + MINUTE_MS},
            [1, 0, 1],
            "--to 2026-09-21T14:14:20.000+00:00",
        ),
        ({"to": "time", "number": BEGIN_MS + 90 * MINUTE_MS}, [5, 0, 1], "--to 2026-"),
    ],
    ids=["earliest", "latest", "offset", "beyond", "on", "back", "time", "later"],
)
def test_what_would_change_is_told_and_not_done(
    ground: ApiGround, body: dict[str, Any], after: list[int], word: str
) -> None:
    told = reset(ground, **body).json
    assert [each["after"] for each in told["rows"]] == after
    assert [each["before"] for each in told["rows"]] == [2, None, 1]
    assert [each["end_offset"] for each in told["rows"]] == [5, 0, 1]
    assert told["is_dry_run"]
    assert told["command"].startswith("kafkaesque group reset-offsets billing --topic orders ")
    assert word in told["command"]
    assert committed(ground) == {0: 2, 2: 1}


def test_it_is_done_and_the_audit_log_says_so(
    ground: ApiGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[AuditEvent] = []
    monkeypatch.setattr(Audit, "note", lambda _, event: noted.append(event))
    told = reset(ground, dry=False, to="offset", number=3, partitions=[0]).json
    assert told["what"] == "group billing goes on elsewhere in 1 of 1 partition of orders"
    assert "--topic orders:0 --to 3 --execute" in told["command"]
    assert committed(ground) == {0: 3, 2: 1}
    (event,) = noted
    assert (event.operation, event.resource, event.detail) == (
        "commit-offsets",
        "billing",
        {"orders": "0=3"},
    )


def test_a_group_with_members_is_not_changed(ground: ApiGround) -> None:
    heartbeat(ground, 0)
    told = reset(ground, to="latest").json
    assert told["members"] == 1
    assert "but group billing has 1 member, who have to be stopped first" in told["what"]
    refused = reset(ground, dry=False, to="latest")
    assert (refused.status, refused.json["error"]) == (409, "GroupNotEmpty")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"to": "offset"}, 400),
        ({"to": "offset", "number": -1}, 400),
        ({"to": "time", "number": -1}, 400),
        ({"to": "earliest", "number": 1}, 400),
        ({"to": "nowhere"}, 400),
        ({"to": "latest", "partitions": [3]}, 400),
        ({"to": "latest", "partitions": []}, 400),
        ({"to": "latest", "topic": "absent"}, 404),
    ],
)
def test_what_cannot_be_is_refused(ground: ApiGround, body: dict[str, Any], status: int) -> None:
    assert reset(ground, dry=False, **body).status == status
    assert committed(ground) == {0: 2, 2: 1}


def test_there_is_no_such_group_and_a_sinks_marker_is_none(ground: ApiGround) -> None:
    told = reset(ground, group="nobody", to="latest")
    assert (told.status, told.json["error"]) == (404, "UnknownGroup")
    marker = reset(ground, group="spark-sink-7c1e-0", to="latest")
    assert marker.status == 400
    assert "marker of an exactly-once Spark sink" in marker.json["message"]


def test_a_partition_without_a_leader_stops_all_of_it() -> None:
    ground = ApiGround(42)
    ground.create("orders", 3, factor=1)
    commit(ground, "billing", *(("orders", number, 0) for number in range(3)))
    ground.kill("b3")
    told = reset(ground, dry=False, to="latest")
    assert told.status == 503
