"""What is ended by its name, group or transactional id: dry runs, refusals and what is audited."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkaesque.access.audit import AuditEvent
from kafkaesque.broker.audit import Audit
from kafkaesque.broker.coordinators.share_groups import ShareGroups
from kafkaesque.broker.doors import Doors
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.events import DeleteGroups
from kafkaesque.groups.share.group import JOINS, ShareHeartbeat, ShareHeartbeatResult
from kafkaesque.model.errors import LeaderNotAvailable, RequestRefused, RequestTimedOut
from kafkaesque.transactions.errors import TransactionError
from kafkaesque.transactions.events import ForceAbort
from tests.unit.admin.api_ground import CHANGE, ApiGround
from tests.unit.admin.test_api import commit
from tests.unit.admin.test_api_coordinators import at_coordinator
from tests.unit.admin.test_api_ending import begin, coordinator, leader

ABORT = "/transactions/shop/abort"


@pytest.fixture
def ground() -> ApiGround:
    made = ApiGround(46)
    made.create("orders", 3)
    return made


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> list[AuditEvent]:
    events: list[AuditEvent] = []
    monkeypatch.setattr(Audit, "note", lambda _, event: events.append(event))
    return events


def told_of(noted: list[AuditEvent]) -> list[tuple[str, str, str, str]]:
    return [(e.operation, e.resource_type, e.resource, str(e.outcome)) for e in noted]


def heartbeat(ground: ApiGround, epoch: int) -> None:
    """Be the member of a share group, or leave it."""

    def step(doors: Doors, on_result: Callable[[Any], None]) -> None:
        doors.groups.when_found(["readers"], lambda: None)
        asked = ShareHeartbeat("readers", "me", epoch, None, frozenset({"orders"}), "app", "host")
        on_result(doors.groups.share.heartbeat(asked))

    assert isinstance(at_coordinator(ground, step), ShareHeartbeatResult)


# -- what is audited


def hold_up(
    ground: ApiGround, monkeypatch: pytest.MonkeyPatch, doors: Any, kind: type, ms: int
) -> None:
    """Have a coordinator take its time."""
    real, clock = doors.step, ground.cluster.brokers["b1"].doors.clock

    def step(key: str, event: Any, on_result: Any) -> None:
        if isinstance(event, kind):
            clock.call_later(ms, lambda: real(key, event, on_result))
        else:
            real(key, event, on_result)

    monkeypatch.setattr(doors, "step", step)


def group_coordinator(ground: ApiGround, group: str) -> tuple[str, Doors]:
    where = ground.cluster.brokers["b1"].doors.groups.find(group)
    name, doors, _ = leader(ground, where)
    return name, doors


@pytest.mark.parametrize("is_far", [True, False], ids=["elsewhere", "here"])
@pytest.mark.parametrize(
    ("ms", "status", "outcome"), [(5_000, 200, "done"), (20_000, 504, "unknown")]
)
def test_a_deletion_has_ten_seconds_and_is_audited(
    ground: ApiGround,
    noted: list[AuditEvent],
    monkeypatch: pytest.MonkeyPatch,
    is_far: bool,
    ms: int,
    status: int,
    outcome: str,
) -> None:
    commit(ground, "team", ("orders", 0, 0))
    here, doors = group_coordinator(ground, "team")
    hold_up(ground, monkeypatch, doors.groups, DeleteGroups, ms)
    host = next(e for e in ("b1", "b2", "b3") if (e != here) is is_far)
    noted.clear()
    told = ground.ask("DELETE", "/groups/team", None, host)
    assert told.status == status, told
    assert told_of(noted) == [("delete-group", "group", "team", outcome)]
    if status == 504:
        assert "it may be done all the same" in told.json["message"]


@pytest.mark.parametrize(
    ("ms", "status", "outcome"), [(5_000, 200, "done"), (20_000, 504, "unknown")]
)
def test_an_abort_has_ten_seconds_and_is_audited(
    ground: ApiGround,
    noted: list[AuditEvent],
    monkeypatch: pytest.MonkeyPatch,
    ms: int,
    status: int,
    outcome: str,
) -> None:
    begin(ground, "shop", 0)
    here, doors, _ = coordinator(ground, "shop")
    hold_up(ground, monkeypatch, doors.transactions, ForceAbort, ms)
    host = next(each for each in ("b1", "b2", "b3") if each != here)
    noted.clear()
    assert ground.ask("POST", ABORT, None, host, dry_run="true").status == 200
    assert noted == []
    assert ground.ask("POST", ABORT, None, host).status == status
    assert told_of(noted) == [("abort-transaction", "transactional-id", "shop", outcome)]


@pytest.mark.parametrize(
    ("refusal", "status", "outcomes"),
    [(RequestTimedOut("late"), 504, ["unknown"]), (LeaderNotAvailable("moved"), 503, [])],
)
def test_a_refusal_is_known_unless_it_says_that_time_was_up(
    ground: ApiGround,
    noted: list[AuditEvent],
    monkeypatch: pytest.MonkeyPatch,
    refusal: RequestRefused,
    status: int,
    outcomes: list[str],
) -> None:
    begin(ground, "shop", 0)
    here, doors, _ = coordinator(ground, "shop")

    def step(*_: object) -> None:
        raise refusal

    monkeypatch.setattr(doors.transactions, "step", step)
    host = next(each for each in ("b1", "b2", "b3") if each != here)
    noted.clear()
    assert ground.ask("POST", ABORT, None, host).status == status
    assert [each[-1] for each in told_of(noted)] == outcomes


def test_a_coordinator_that_dies_may_have_done_it(
    ground: ApiGround, noted: list[AuditEvent], monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(ground, "shop", 0)
    here, doors, _ = coordinator(ground, "shop")
    asked: list[object] = []
    monkeypatch.setattr(doors.transactions, "step", lambda *words: asked.append(words))
    host = next(each for each in ("b1", "b2", "b3") if each != here)
    browser, begun_ms = ground.browser(host), ground.cluster.brokers[host].doors.clock.now_ms()
    browser.begin("POST", f"/api/v1{ABORT}", CHANGE, None)
    ground.run_until(lambda: bool(asked))
    noted.clear()
    ground.world.machines[here].kill()
    ground.run_until(lambda: browser.is_done)
    # Its link has broken, long before time was up.
    assert ground.cluster.brokers[host].doors.clock.now_ms() - begun_ms < 9_000
    assert browser.status == 504
    assert ("abort-transaction", "transactional-id", "shop", "unknown") in told_of(noted)


def test_what_is_refused_has_changed_nothing(ground: ApiGround, noted: list[AuditEvent]) -> None:
    begin(ground, "shop", 0)
    commit(ground, "team", ("orders", 0, 0))
    noted.clear()
    assert ground.ask("POST", ABORT.replace("shop", "nobody")).status == 404
    assert ground.ask("DELETE", "/groups/nobody").status == 404
    assert noted == []


def test_a_coordinator_that_is_none_any_more_may_have_done_it(
    ground: ApiGround, noted: list[AuditEvent], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took the request, and lost its leadership before that was committed."""
    begin(ground, "shop", 0)
    commit(ground, "team", ("orders", 0, 0))
    _, of_ids, _ = coordinator(ground, "shop")
    _, of_groups = group_coordinator(ground, "team")

    def deposed(error: object) -> Callable[[str, object, Callable[[object], None]], None]:
        return lambda key, event, on_result: on_result(error)

    monkeypatch.setattr(of_ids.transactions, "step", deposed(TransactionError.NOT_COORDINATOR))
    monkeypatch.setattr(of_groups.groups, "step", deposed(GroupError.NOT_COORDINATOR))
    noted.clear()
    assert ground.ask("POST", ABORT, None, "b2").status == 504
    assert ground.ask("DELETE", "/groups/team", None, "b2").status == 504
    assert [each[-1] for each in told_of(noted)] == ["unknown", "unknown"]


def test_a_share_group_whose_deletion_nobody_confirms_is_audited(
    ground: ApiGround, noted: list[AuditEvent], monkeypatch: pytest.MonkeyPatch
) -> None:
    heartbeat(ground, JOINS)
    error = GroupError.COORDINATOR_NOT_AVAILABLE
    monkeypatch.setattr(ShareGroups, "delete", lambda _, group, done: done(error))
    noted.clear()
    assert ground.ask("DELETE", "/groups/readers", None, "b2").status == 504
    assert told_of(noted) == [("delete-group", "group", "readers", "unknown")]
