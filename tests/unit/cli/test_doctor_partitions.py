"""The doctor's diagnosis of partitions, from facts that are made up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kafkaesque.cli.doctor.checks import diagnose
from kafkaesque.cli.doctor.facts import Facts
from kafkaesque.cli.doctor.findings import Limits
from kafkaesque.cli.moving_replicas import Move, Where
from tests.unit.cli.made_up_facts import (
    admin,
    checks_of,
    closed,
    facts,
    leaderless,
    partition,
    recovery,
    reformed,
    view,
    with_broker,
    with_copy_anew,
    without_controller,
)
from tests.unit.project.test_documentation import ROOT


def test_a_recovery_that_ends_soon_or_has_ended_is_no_finding() -> None:
    found = replace(facts(), recoveries=[recovery(29_000), recovery()])
    assert diagnose(found, Limits()) == []


def test_who_keeps_a_partition_from_being_formed_anew_is_named() -> None:
    down = with_broker(facts(), 3, problem="refused", view=None, disk=None, admin=None)
    finding = checks_of(replace(down, recoveries=[recovery(60_000, told=[1])]))["recovery-waits"]
    assert finding.what == "1 partition could not be recovered for 60 s: orders-0"
    assert "broker 3 may have records that the others do not, and is down" in finding.cause
    assert "broker 2 lost the data" in finding.cause
    elect = "kafkaesque topic elect orders --partition 0 --unclean"
    note = "(gives up acknowledged records that only broker 3 may have)"
    assert finding.command == f"start broker 3; if that cannot be: {elect}    {note}"


MOVING = Move(replicas=[4, 1, 2], adding=[4], removing=[])


def test_replicas_that_move_are_no_finding() -> None:
    seen = view({"orders-1": partition(replicas=[3, 1, 2], in_sync=[1, 2])})
    under_way = {Where("orders", 1): Move(replicas=[3, 1, 2], adding=[3], removing=[2])}
    assert diagnose(replace(facts(seen), moves=under_way), Limits()) == []
    assert "under-replicated" in checks_of(facts(seen))


def test_a_move_to_a_broker_that_is_down_is_told_with_what_ends_it() -> None:
    seen = view({"orders-1": partition(replicas=[4, 1, 2], in_sync=[1, 2])})
    found = replace(facts(seen), moves={Where("orders", 1): MOVING})
    checks = checks_of(found)
    assert sorted(checks) == ["broker-down", "move-waits"]
    finding = checks["move-waits"]
    assert finding.what == "1 partition cannot be moved to broker 4: orders-1"
    assert finding.command == "start broker 4, or kafkaesque topic reassign orders --cancel"
    assert "| `move-waits` | warning |" in (ROOT / "docs" / "operations.md").read_text()


def test_who_is_missing_for_a_leader_is_named() -> None:
    lost = partition(leader=-1, in_sync=[])
    found = with_broker(
        facts(view({"orders-1": lost})), 3, problem="refused", view=None, disk=None, admin=None
    )
    finding = checks_of(found)["leaderless"]
    assert "broker 3" in finding.cause
    assert finding.command == "start broker 3"
    assert finding.names == ["orders-1"]


def test_of_two_replicas_the_one_that_has_all_goes_on_alone_and_it_is_said_when() -> None:
    finding = checks_of(with_copy_anew(leaderless([1, 2]), 2))["leaderless"]
    assert "broker 2 lost the data with a disk" in finding.cause
    assert "take over alone 36 s after the leader was lost (four times broker.se" in finding.cause
    assert finding.command == "kafkaesque doctor    (again, in 36 s)"
    slow = with_broker(leaderless([1, 2]), 1, options={"broker.session.timeout.ms": "20000"})
    finding = checks_of(closed(slow, 2))["leaderless"]
    assert "without broker 2 there is no majority of their replicas" in finding.cause
    assert "take over alone 20 s after the leader was lost (broker.session.timeout.ms)" in (
        finding.cause
    )
    assert finding.command == "start broker 2"


def test_too_few_replicas_do_not_go_on_alone() -> None:
    finding = checks_of(with_copy_anew(leaderless([1, 2, 3]), 2, 3))["leaderless"]
    assert "brokers 2, 3 lost the data" in finding.cause
    assert "alone" not in finding.cause
    assert finding.command == "kafkaesque topic elect orders --partition 1 --unclean"
    moving = {Where("orders", 1): Move(replicas=[1, 2], adding=[2], removing=[])}
    found = replace(with_copy_anew(leaderless([1, 2]), 2), moves=moving)
    assert "alone" not in checks_of(found)["leaderless"].cause
    assert (
        "alone"
        not in checks_of(without_controller(1, 3, of=closed(leaderless([1, 2]), 2)))[
            "leaderless"
        ].cause
    )


@pytest.mark.parametrize("told", [None, [2]])
def test_a_replica_that_was_away_when_it_was_formed_anew_is_not_said_to_have_all(
    told: Sequence[int] | None,
) -> None:
    finding = checks_of(reformed(closed(leaderless([1, 2]), 1), [1], told))["leaderless"]
    may_miss = "broker 1 may have acknowledged records that the other replicas do not have"
    assert may_miss in finding.cause
    assert "every acknowledged message" not in finding.cause
    assert ("only if they have caught up since" in finding.cause) == (told is None)
    assert ("and it is not enough" in finding.cause) == (told is not None)
    elect = "kafkaesque topic elect orders --partition 1 --unclean"
    note = "(gives up acknowledged records that only broker 1 may have)"
    assert finding.command == f"start broker 1; if that cannot be: {elect}    {note}"


def test_who_was_there_when_it_was_formed_anew_goes_on_alone_again() -> None:
    finding = checks_of(reformed(closed(leaderless([1, 2]), 2), [1]))["leaderless"]
    assert "the replicas that are left have every acknowledged message" in finding.cause
    assert finding.command == "start broker 2"
    # Of three voters two may go on, of which one was there.
    found = checks_of(reformed(closed(leaderless([1, 2, 3]), 1), [1, 2]))
    assert "may have" not in found["leaderless"].cause
    found = checks_of(reformed(closed(closed(leaderless([1, 2, 3]), 1), 2), [1, 2]))
    assert "brokers 1, 2 may have acknowledged records" in found["leaderless"].cause


def many_leaderless(*counts: tuple[str, int]) -> Facts:
    """Return topics without leaders, of which brokers 2 and 3 have lost all that they had."""
    lost = partition(leader=-1, in_sync=[])
    names = [f"{topic}-{number}" for topic, count in counts for number in range(count)]
    found = facts(view(dict.fromkeys(names, lost)))
    for node in (2, 3):
        found = with_broker(found, node, admin=replace(admin(), copied=names))
    return found


def test_a_command_for_each_topic_heals_all_that_are_named_and_users_come_first() -> None:
    finding = checks_of(many_leaderless(("__consumer_offsets", 30), ("prices", 1)))["leaderless"]
    assert finding.what == (
        "31 partitions without a leader, neither written nor read: 1 of prices, "
        "30 of __consumer_offsets"
    )
    assert finding.command == (
        "kafkaesque topic elect prices --partition 0 --unclean; "
        "kafkaesque topic elect __consumer_offsets --unclean"
    )
    assert finding.names[0] == "prices-0"
    few = checks_of(many_leaderless(("__consumer_offsets", 1), ("prices", 2)))["leaderless"]
    assert few.what.endswith(": prices-0, prices-1, __consumer_offsets-0")


def test_what_waits_to_be_formed_anew_is_healed_by_a_command_for_each_topic() -> None:
    waiting = [
        replace(recovery(60_000, told=[1]), topic=topic, partition=number)
        for topic in ("__consumer_offsets", "prices")
        for number in range(2)
    ]
    finding = checks_of(replace(facts(), recoveries=waiting))["recovery-waits"]
    assert finding.what.endswith("prices-0, prices-1, __consumer_offsets-0, __consumer_offsets-1")
    assert finding.command == (
        "kafkaesque topic elect prices --unclean; "
        "kafkaesque topic elect __consumer_offsets --unclean"
    )


def test_every_topic_of_which_all_is_lost_is_to_be_created_anew() -> None:
    found = many_leaderless(("__consumer_offsets", 2), ("prices", 1))
    names = [str(name) for name in found.view.partitions if name.topic != "orders"]
    found = with_broker(found, 1, admin=replace(admin(), copied=names))
    assert checks_of(found)["leaderless"].command == (
        "kafkaesque topic delete prices, and create it again; "
        "kafkaesque topic delete __consumer_offsets, and create it again"
    )


def test_before_replicas_have_had_time_to_tell_it_is_not_said_that_they_wait() -> None:
    found = reformed(closed(leaderless([1, 2]), 1), [1], [])
    young = replace(found, recoveries=[replace(found.recoveries[0], open_ms=1_000)])
    assert "only if they have caught up since" in checks_of(young)["leaderless"].cause


def test_who_has_not_told_is_named_where_the_others_do_not_go_on() -> None:
    finding = checks_of(reformed(closed(leaderless([1, 2]), 1), [], [2]))["leaderless"]
    assert "broker 1 may have acknowledged records" in finding.cause
    assert "and it is not enough" in finding.cause
    assert "every acknowledged message" not in finding.cause


def test_who_is_no_replica_any_more_is_not_blamed_for_an_old_formation() -> None:
    # Formed anew with brokers 2 and 4, and moved since.
    found = reformed(closed(closed(leaderless([1, 2, 3]), 1), 2), [2, 4])
    finding = checks_of(found)["leaderless"]
    assert finding.cause == "without brokers 1, 2 there is no majority of their replicas"
    assert finding.command == "start brokers 1, 2"
    found = reformed(closed(leaderless([1, 2]), 1), [3])
    finding = checks_of(found)["leaderless"]
    assert "broker 3" not in finding.cause
    assert "the replicas that are left have every acknowledged message" in finding.cause
    # The page may be older than the metadata.
    late = reformed(closed(leaderless([1, 2]), 1), [3], told=[2])
    known = replace(late.recoveries[0], replicas=[1, 2, 3])
    finding = checks_of(replace(late, recoveries=[known]))["leaderless"]
    assert "broker 1 may have acknowledged records" in finding.cause


def test_what_was_formed_anew_with_a_disk_that_is_lost_is_not_waited_for() -> None:
    found = reformed(with_copy_anew(leaderless([1, 2]), 1), [1], [2])
    finding = checks_of(found)["leaderless"]
    assert finding.cause == ("broker 1 lost the data with a disk, and cannot vote without a copy")
    assert finding.command == "kafkaesque topic elect orders --partition 1 --unclean"


def test_where_all_copies_are_lost_no_election_is_proposed() -> None:
    found = with_copy_anew(leaderless([1]), 1)
    finding = checks_of(found)["leaderless"]
    assert finding.cause == "the only copy is lost: broker 1 lost the data with a disk"
    assert finding.command == (
        "kafkaesque topic delete orders, and create it again    "
        "(it has 1 other partition: copy their messages first)"
    )
    finding = checks_of(with_copy_anew(leaderless([1, 2]), 1, 2))["leaderless"]
    assert finding.cause == "all copies are lost: brokers 1, 2 lost the data with a disk"
    # What its broker waits for does not come: that is told once.
    waits = replace(
        admin(), copied=["orders-1"], reasons=["orders-1: being copied from other replicas"]
    )
    assert not {"broker-not-ready"} & set(checks_of(with_broker(leaderless([1]), 1, admin=waits)))
    assert "broker-not-ready" in checks_of(with_broker(leaderless([1, 2]), 1, admin=waits))
    # One that cannot be asked may have something.
    finding = checks_of(closed(with_copy_anew(leaderless([1, 2]), 1), 2))["leaderless"]
    assert "without broker 2 there is no majority" in finding.cause
    assert "broker 1 lost the data with a disk" in finding.cause
    assert finding.command.startswith(
        "start broker 2; if their disks are lost, too: kafkaesque topic delete orders, and create"
    )
    # While it waits to be recovered the same is said.
    waiting = replace(recovery(60_000), partition=1, replicas=[1])
    finding = checks_of(replace(found, recoveries=[waiting]))["recovery-waits"]
    assert finding.command.startswith("kafkaesque topic delete orders, and create it again    (")


def test_where_nobody_tells_what_it_has_an_election_is_not_all_that_is_proposed() -> None:
    waiting = replace(recovery(60_000), partition=1, replicas=[1])
    elect = "kafkaesque topic elect orders --partition 1 --unclean"
    anew = "if the disks of all its replicas are lost: kafkaesque topic delete orders, and create"
    # Its admin port is off: what it has cannot be seen.
    unseen = with_broker(leaderless([1]), 1, admin=None)
    finding = checks_of(replace(unseen, recoveries=[waiting]))["recovery-waits"]
    assert finding.command.startswith(f"{elect}; {anew} it again")
    # Of two, one is empty and the other one away.
    both = replace(waiting, replicas=[1, 2])
    found = closed(with_copy_anew(leaderless([1, 2]), 1), 2)
    finding = checks_of(replace(found, recoveries=[both]))["recovery-waits"]
    assert finding.command.startswith(f"start broker 2; {anew} it again")
    # What one has told is enough for an election.
    known = replace(waiting, topic="late", replicas=[1, 2], told=[1])
    findings = [
        each
        for each in diagnose(replace(unseen, recoveries=[known, waiting]), Limits())
        if each.check == "recovery-waits"
    ]
    assert [each.names for each in findings] == [["late-1"], ["orders-1"]]
    assert "delete" not in findings[0].command


def test_where_formations_cannot_be_seen_nobody_is_said_to_have_all() -> None:
    found = replace(closed(leaderless([1, 2]), 2), has_unseen_recoveries=True)
    finding = checks_of(found)["leaderless"]
    assert "if they have every acknowledged message, which only the admin ports" in finding.cause
    assert finding.command == "start broker 2"
    finding = checks_of(replace(reformed(found, [1]), has_unseen_recoveries=True))["leaderless"]
    assert "the replicas that are left have every acknowledged message" in finding.cause


def test_a_replica_that_runs_is_not_among_those_without_which_there_is_no_majority() -> None:
    starting = replace(admin(), reasons=["broker 2 has not caught up with the metadata"])
    two = closed(leaderless([1, 2, 3]), 2, admin=starting)
    finding = checks_of(closed(closed(two, 1), 3))["leaderless"]
    assert "without brokers 1, 3 there is no majority of their replicas" in finding.cause
    assert finding.command == "start brokers 1, 3"
    finding = checks_of(closed(two, 1))["leaderless"]
    wanted = "there is a majority only with broker 2, which runs but accepts no clients"
    assert finding.cause == wanted
    assert finding.command == "see the finding for broker 2, which is running"
