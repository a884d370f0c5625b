"""The doctor's diagnosis where too few replicas are in sync, from facts that are made up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kafkaesque.cli.commands.doctor import _show
from kafkaesque.cli.doctor.checks import diagnose
from kafkaesque.cli.doctor.facts import Facts
from kafkaesque.cli.doctor.findings import Limits, Severity
from kafkaesque.cli.moving_replicas import Move, Where
from tests.unit.cli.made_up_facts import (
    checks_of,
    closed,
    facts,
    partition,
    recovery,
    reformed,
    view,
)
from tests.unit.project.test_documentation import ROOT

ALTER = "kafkaesque topic alter orders --config min.insync.replicas="


def wanting(
    count: int,
    in_sync: Sequence[int],
    replicas: Sequence[int] = (1, 2, 3),
    move: Move | None = None,
) -> Facts:
    """Have orders-1 need so many replicas in sync for acks=all."""
    found = facts(view({"orders-1": partition(replicas=replicas, in_sync=in_sync)}))
    moves = {} if move is None else {Where("orders", 1): move}
    topics = {"orders": {"min.insync.replicas": str(count)}}
    return replace(found, topics=topics, moves=moves)


def test_partitions_that_refuse_acks_all_are_critical_and_it_is_said_what_helps() -> None:
    found = checks_of(closed(wanting(3, [1, 2]), 3))
    finding = found["under-min-insync"]
    assert finding.severity is Severity.CRITICAL
    assert finding.what == "acks=all is refused by 1 partition: orders-1"
    assert finding.cause == (
        "orders-1 has 2 of 3 replicas in sync, and min.insync.replicas is 3: broker 3 is down"
    )
    note = "(what is acknowledged then may be on 2 brokers only)"
    assert finding.command == f"start broker 3; or {ALTER}2    {note}"
    assert finding.names == ["orders-1"]
    # Who is up and behind is not to be started.
    finding = checks_of(wanting(2, [1]))["under-min-insync"]
    assert finding.cause.endswith(": broker 2 is out of sync, broker 3 is out of sync")
    assert finding.command.startswith(f"see the finding for brokers 2, 3; or {ALTER}1    (")


@pytest.mark.parametrize(
    ("count", "in_sync", "replicas"),
    [(2, [1, 2], [1, 2, 3]), (1, [1], [1, 2, 3]), (3, [1, 2], [1, 2]), (9, [1], [1])],
)
def test_nothing_is_refused_with_enough_in_sync_or_all_that_there_are(
    count: int, in_sync: Sequence[int], replicas: Sequence[int]
) -> None:
    assert "under-min-insync" not in checks_of(wanting(count, in_sync, replicas))


def test_a_partition_without_a_leader_is_told_once() -> None:
    lost = facts(view({"orders-1": partition(leader=-1, in_sync=[1])}))
    topics = {"orders": {"min.insync.replicas": "3"}}
    found = checks_of(replace(closed(closed(lost, 2), 3), topics=topics))
    assert found["leaderless"].names == ["orders-1"]
    assert "under-min-insync" not in found


def test_of_many_topics_the_first_is_proposed_and_the_others_are_counted() -> None:
    found = closed(wanting(3, [1, 2]), 3)
    seen = view(
        {
            "late-0": partition(in_sync=[1, 2]),
            "late-1": partition(in_sync=[1]),
            "orders-1": partition(in_sync=[1, 2]),
        }
    )
    topics = {name: {"min.insync.replicas": "3"} for name in ("late", "orders")}
    finding = checks_of(replace(found, view=seen, topics=topics))["under-min-insync"]
    assert finding.what == "acks=all is refused by 3 partitions: late-0, late-1, orders-1"
    # What lets all partitions of the topic go on.
    assert finding.cause.startswith("late-1 has 1 of 3 replicas in sync")
    note = "(what is acknowledged then may be on 1 broker only; the same for 1 other topic)"
    alter = "kafkaesque topic alter late --config min.insync.replicas=1"
    assert finding.command == f"start broker 3; or {alter}    {note}"


#: Of brokers 1, 2 and 3 to 4, 1 and 2.
UNDER_WAY = Move(replicas=[4, 1, 2, 3], adding=[4], removing=[3])


def four(found: Facts) -> Facts:
    """Have broker 4 be up."""
    fourth = replace(found.brokers[0], id=4, address="h:4")
    return replace(found, brokers=[*found.brokers, fourth])


def test_a_move_that_waits_for_replicas_in_sync_is_told_with_what_lets_it_go_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = closed(four(wanting(3, [1, 2], UNDER_WAY.replicas, UNDER_WAY)), 3)
    checks = checks_of(found)
    finding = checks["move-waits"]
    assert finding.severity is Severity.WARNING
    assert finding.what == (
        "1 partition cannot be moved with fewer replicas in sync than min.insync.replicas: orders-1"
    )
    assert finding.cause == (
        "orders-1 has 2 of 3 replicas in sync, and min.insync.replicas is 3: broker 3 is down; "
        "a move has to be committed like a record"
    )
    assert finding.command == f"{ALTER}2    (or start broker 3)"
    assert checks["under-min-insync"].names == ["orders-1"]
    _show(found, diagnose(found, Limits()))
    assert "not a problem" not in capsys.readouterr().out
    goes_on = replace(found, topics={"orders": {"min.insync.replicas": "2"}})
    assert not {"move-waits", "under-min-insync"} & set(checks_of(goes_on))
    _show(goes_on, diagnose(goes_on, Limits()))
    assert "moves in progress (not a problem):\n    replicas move" in capsys.readouterr().out


def test_a_move_to_fewer_replicas_waits_for_as_many_of_them_as_are_to_be_in_sync() -> None:
    shrinking = Move(replicas=[1, 2, 3, 4], adding=[], removing=[4])
    found = closed(four(wanting(3, [1, 2, 4], shrinking.replicas, shrinking)), 3)
    checks = checks_of(found)
    assert "under-min-insync" not in checks
    assert checks["move-waits"].cause.startswith("orders-1 has 2 of 3 replicas in sync")
    assert checks["move-waits"].command.startswith(f"{ALTER}2 ")


def test_new_replicas_that_are_all_in_sync_are_enough() -> None:
    """The change is committed, and that is not written down yet."""
    away = Move(replicas=[3, 4, 1, 2], adding=[3, 4], removing=[1, 2])
    found = four(wanting(2, [3, 4], away.replicas, away))
    assert not {"move-waits", "under-min-insync"} & set(checks_of(found))
    assert "under-min-insync" in checks_of(four(wanting(2, [3], away.replicas, away)))


def test_what_was_formed_anew_of_fewer_is_moved_by_these() -> None:
    found = closed(four(wanting(3, [1, 2], UNDER_WAY.replicas, UNDER_WAY)), 3)
    checks = checks_of(reformed(found, [1, 2]))
    assert "under-min-insync" in checks
    assert "move-waits" not in checks
    # Who founded it is not known before that is decided.
    begun = replace(recovery(1_000), partition=1, voters=[])
    assert "move-waits" in checks_of(replace(found, recoveries=[begun]))


def test_the_documentation_has_the_finding_with_its_level() -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    assert "| `under-min-insync` | critical |" in page
