"""The doctor's diagnosis of controllers that have lost their disks, from facts that are made up."""

from __future__ import annotations

from dataclasses import replace

from kafkaesque.cli.doctor.facts import Facts
from tests.unit.cli.made_up_facts import (
    admin,
    broker,
    checks_of,
    closed,
    facts,
    leaderless,
    partition,
    quorum,
    view,
    without_controller,
)
from tests.unit.project.test_documentation import ROOT


def with_lost_disks(found: Facts, *numbers: int) -> Facts:
    """Have controllers run with empty directories: none of their ports but the admin's is open."""
    for number in numbers:
        told = replace(
            admin(kafkaesque_controller_node=-1),
            controllers=(1, 2, 3),
            reasons=[f"broker {number} has lost its disk"],
            has_lost_log=True,
        )
        found = closed(found, number, admin=told, options={"admin.listener": f"h:8{number}"})
    return found


def test_a_majority_of_controllers_without_their_log_is_said_and_what_is_left_to_do() -> None:
    lost = with_lost_disks(without_controller(3), 1, 2)
    found = checks_of(lost)
    finding = found["controllers-missing"]
    assert finding.what == (
        "none of the controllers 1, 2, 3 leads: broker 1 has lost its disk,"
        " broker 2 has lost its disk"
    )
    assert "brokers 1, 2 have lost their disks" in finding.cause
    assert "2 of 3 must have it, and only broker 3 has it" in finding.cause
    assert "have to be up" not in finding.cause
    assert finding.command.startswith(
        "stop brokers 1, 2, put their old directories back, start them    (1 of them is enough); "
    )
    assert "kafkaesque log dump DIR -p TOPIC-N --records --json | kafkaesque publish TOPIC " in (
        finding.command
    )
    section = finding.command.partition('operations.md, "')[2].partition('"')[0]
    assert f"## {section}\n" in (ROOT / "docs" / "operations.md").read_text()
    # What is said of each leads there, and not round and round.
    assert found["broker-not-ready"].cause == "broker 2 has lost its disk"
    assert found["broker-not-ready"].command.startswith("see the finding for the controllers    ")


def test_an_empty_broker_makes_no_majority_of_a_partition() -> None:
    found = checks_of(with_lost_disks(without_controller(3, of=leaderless([1, 2, 3])), 1, 2))
    finding = found["leaderless"]
    assert finding.cause == (
        "brokers 1, 2 lost the data with a disk, and cannot vote without a copy"
    )
    assert finding.command == (
        "first see the finding for brokers 1, 2, which have lost their disks"
    )
    # An election among those that are left needs no controller.
    wide = leaderless([1, 3, 4])
    wide = replace(wide, brokers=[*wide.brokers, broker(4)])
    found = checks_of(with_lost_disks(without_controller(3, 4, of=wide), 1, 2))
    assert "have elected no leader: this passes" in found["leaderless"].cause
    assert found["leaderless"].command == "kafkaesque doctor    (again)"


def test_where_enough_controllers_have_their_log_those_are_started_that_are_down() -> None:
    found = checks_of(with_lost_disks(without_controller(3, of=closed(facts(), 2)), 1))
    finding = found["controllers-missing"]
    assert finding.what.endswith(": broker 1 has lost its disk, broker 2 is down")
    assert finding.cause.endswith(
        "2 of 3 have to be up, and broker 1, which has lost its disk, cannot vote before that"
    )
    assert finding.command == "start broker 2"


def test_one_that_the_others_take_in_is_as_any_that_starts() -> None:
    seen = view({"orders-1": partition(leader=-1, in_sync=[])})
    found = checks_of(replace(with_lost_disks(facts(seen), 2), quorum=quorum(3, 2)))
    assert found["controllers-missing"].command == "see the finding for broker 2, which is running"
    assert "runs but accepts no clients" in found["controllers-missing"].what
    assert found["broker-not-ready"].command.startswith("curl ")
    assert "lost the data with a disk" not in found["leaderless"].cause
