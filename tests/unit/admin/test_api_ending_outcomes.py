"""What is ended by its name, group or transactional id: dry runs, refusals and what is audited."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkaesque.access.audit import AuditEvent
from kafkaesque.broker.audit import Audit
from kafkaesque.broker.coordinators.share_groups import ShareGroups
from kafkaesque.broker.coordinators.transaction_leaders import TransactionLeaders
from kafkaesque.broker.doors import Doors
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.events import DeleteGroups
from kafkaesque.groups.share.group import JOINS, LEAVES, ShareHeartbeat, ShareHeartbeatResult
from kafkaesque.model.errors import LeaderNotAvailable, RequestRefused, RequestTimedOut
from kafkaesque.transactions.errors import TransactionError
from kafkaesque.transactions.events import EndTransaction, ForceAbort
from tests.unit.admin.api_ground import CHANGE, ApiGround
from tests.unit.admin.test_api import commit
from tests.unit.admin.test_api_coordinators import at_coordinator
from tests.unit.admin.test_api_ending import begin, coordinator, leader, write

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


# -- dry runs


def test_what_is_being_loaded_is_not_said_to_be_absent(
    ground: ApiGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(ground, "shop", 0)
    assert ground.ask("POST", ABORT, None, "b2", dry_run="true").status == 200
    _, doors, log = coordinator(ground, "shop")
    host = doors.transactions.coordinators._by_group[log.state.group]
    monkeypatch.setattr(host, "is_loaded", False)
    told = ground.ask("POST", ABORT, None, "b2", dry_run="true")
    assert (told.status, told.json["error"]) == (503, "CoordinatorNotAvailable")
    assert ground.ask("POST", ABORT, None, "b2").status == 503
    monkeypatch.setattr(host, "is_loaded", True)
    nobody = ABORT.replace("shop", "nobody")
    assert ground.ask("POST", nobody, None, "b2", dry_run="true").status == 404


@pytest.mark.parametrize("is_commit", [True, False], ids=["commits", "aborts"])
def test_what_ends_already_is_not_aborted(
    ground: ApiGround, monkeypatch: pytest.MonkeyPatch, is_commit: bool
) -> None:
    known = begin(ground, "shop", 0)
    write(ground, 0, known.producer_id, known.producer_epoch)
    # Its markers are not written.
    monkeypatch.setattr(TransactionLeaders, "write_marker", lambda *_: None)

    def end(doors: Any, on_result: Callable[[Any], None]) -> None:
        event = EndTransaction(
            token=doors.transactions.next_token(),
            connection=1,
            transactional_id="shop",
            producer_id=known.producer_id,
            producer_epoch=known.producer_epoch,
            is_commit=is_commit,
            learns_epoch=False,
        )
        doors.transactions.step("shop", event, on_result)

    at_coordinator(ground, end)
    (listed,) = ground.get("/transactions")["items"]
    assert listed["state"] == ("PrepareCommit" if is_commit else "PrepareAbort")
    for words in ({"dry_run": "true"}, {}):
        told = ground.ask("POST", ABORT, None, "b2", **words)
        assert (told.status, told.json["error"]) == (409, "Busy")


def heartbeat(ground: ApiGround, epoch: int) -> None:
    """Be the member of a share group, or leave it."""

    def step(doors: Doors, on_result: Callable[[Any], None]) -> None:
        doors.groups.when_found(["readers"], lambda: None)
        asked = ShareHeartbeat("readers", "me", epoch, None, frozenset({"orders"}), "app", "host")
        on_result(doors.groups.share.heartbeat(asked))

    assert isinstance(at_coordinator(ground, step), ShareHeartbeatResult)


def test_a_share_group_is_deleted_with_its_cursors(ground: ApiGround) -> None:
    heartbeat(ground, JOINS)
    doors = ground.cluster.brokers["b1"].doors
    ground.run_until(lambda: any(e.vhost.endswith("readers") for e in doors.cluster.state.queues))
    told = ground.ask("DELETE", "/groups/readers", None, "b2", dry_run="true")
    assert told.status == 200, told
    assert told.json["what"].endswith("but it has 1 member, to be stopped first")
    assert ground.ask("DELETE", "/groups/readers", None, "b3").status == 409
    heartbeat(ground, LEAVES)
    told = ground.ask("DELETE", "/groups/readers", None, "b1", dry_run="true")
    assert told.json["what"] == "group readers would be deleted, with cursors of 1 topic"
    assert ground.ask("DELETE", "/groups/readers", None, "b3").status == 200
    told = ground.ask("DELETE", "/groups/readers", None, "b2", dry_run="true")
    assert (told.status, told.json["error"]) == (404, "UnknownGroup")


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
