"""The doctor's diagnosis, from facts that are made up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from kafkaesque.broker.peers.greeting import explain
from kafkaesque.broker.peers.messages import Denial
from kafkaesque.cli.doctor.admin_port import read_metrics
from kafkaesque.cli.doctor.checks import CHECKS, diagnose
from kafkaesque.cli.doctor.facts import (
    BrokerFacts,
    Facts,
    GroupFacts,
    PartitionName,
    View,
    most_agreed,
)
from kafkaesque.cli.doctor.findings import Limits, Severity
from kafkaesque.cli.moving_replicas import Move, Where
from kafkaesque.cli.quorum import Quorum
from tests.unit.cli.made_up_facts import (
    FAILED,
    GB,
    admin,
    broker,
    checks_of,
    closed,
    disk,
    facts,
    partition,
    quorum,
    recovery,
    view,
    with_broker,
    without_controller,
)
from tests.unit.project.test_documentation import ROOT

MISSING = "controllers-missing"


def test_a_healthy_cluster_has_no_findings() -> None:
    assert diagnose(facts(), Limits()) == []


def test_one_of_five_controllers_may_be_missed_and_one_of_three_not() -> None:
    assert not checks_of(replace(facts(), quorum=quorum(3)))
    (warning,) = diagnose(replace(facts(), quorum=quorum(5, 4)), Limits())
    assert warning.severity is Severity.WARNING
    assert warning.what == "of 5 controllers broker 4 is down; 1 more may fail"
    assert warning.command.startswith("start broker 4; or, if broker 4 is gone for good: kafka")
    assert "cluster controllers remove 4" in warning.command
    (critical,) = diagnose(replace(facts(), quorum=quorum(3, 3)), Limits())
    assert critical.severity is Severity.CRITICAL
    assert "remove" not in critical.command  # it runs


def test_a_broker_that_is_down_says_nothing() -> None:
    for problem in ("connection refused", "no answer", "no such host"):
        cause = checks_of(closed(facts(), 3, problem=problem))["broker-down"].cause
        assert cause == f"a connection to it fails: {problem}"


def test_a_broker_that_could_vote_instead_is_named() -> None:
    gone = closed(facts(), 3)
    assert "add BROKER && " in checks_of(replace(gone, quorum=quorum(3, 3)))[MISSING].command
    wide = replace(gone, brokers=[*gone.brokers, broker(4), broker(5)], quorum=quorum(3, 3))
    wanted = "controllers add {} && kafkaesque cluster controllers remove 3"
    assert wanted.format(4) in checks_of(wide)[MISSING].command
    unready = replace(admin(), reasons=["orders-0: not opened yet"])
    for unfit in (
        closed(wide, 4),
        with_broker(wide, 4, admin=unready),
        with_broker(wide, 4, admin=FAILED),
    ):
        assert wanted.format(5) in checks_of(unfit)[MISSING].command


def test_a_controller_that_runs_is_not_to_be_started() -> None:
    (cut,) = diagnose(replace(facts(), quorum=quorum(3, 2)), Limits())
    assert cut.what.startswith("of 3 controllers broker 2 runs but cannot reach the leading one")
    assert cut.command.startswith("check the network between the peer ports of broker 2")
    hanging = closed(facts(), 2, problem="no answer", hangs=True)
    found = checks_of(replace(hanging, quorum=quorum(3, 2)))["controllers-missing"]
    assert "broker 2 hangs" in found.what
    assert found.command == "see the finding for broker 2, which is running"
    full = closed(facts(), 2, admin=FAILED)
    found = checks_of(replace(full, quorum=quorum(3, 2)))["controllers-missing"]
    assert "broker 2 has given up its disk" in found.what
    assert found.command == "see the finding for broker 2, which is running"
    members = [replace(each, is_up=True) for each in quorum(3, 2).members]
    late = replace(facts(), quorum=Quorum(leader=1, term=3, members=members))
    found = checks_of(late)["controllers-missing"]
    assert "broker 2 is behind" in found.what
    assert found.command.startswith("kafkaesque doctor    (again")


def test_without_a_majority_of_controllers_that_is_said_and_no_network_is_blamed() -> None:
    alone = closed(closed(facts(), 2), 3, problem="no answer", hangs=True)
    wide = replace(alone, brokers=[*alone.brokers, broker(4), broker(5)], registered=range(1, 6))
    found = checks_of(without_controller(1, 4, 5, of=wide))
    assert set(found) == {"broker-down", "broker-hangs", "controllers-missing"}
    finding = found["controllers-missing"]
    assert finding.severity is Severity.CRITICAL
    wanted = "none of the controllers 1, 2, 3 leads: broker 2 is down, broker 3 hangs"
    assert finding.what == wanted
    assert finding.cause.endswith("changed; 2 of 3 have to be up")
    assert finding.command == "start broker 2; see the finding for broker 3, which is running"
    assert finding.names == ["2", "3"]


@pytest.mark.parametrize("denial", list(Denial))
def test_who_is_turned_away_is_not_told_to_wait(denial: Denial) -> None:
    reason = f"broker 1 turns this broker away: {explain(denial)}"
    found = closed(facts(), 3, admin=replace(admin(), reasons=[reason]))
    finding = checks_of(found)["broker-not-ready"]
    assert finding.cause == reason
    assert "curl" not in finding.command
    option = "cluster.secret.file" if "secret" in reason else "cluster.id"
    asked = {Denial.OUTDATED: "timedatectl", Denial.ID_IN_USE: "ps axo"}.get(denial, option)
    assert asked in finding.command
    if denial is Denial.ID_IN_USE:
        return
    assert finding.command.endswith("start it: kafkaesque broker --config broker-3.toml")


def test_controllers_that_are_up_and_have_no_leader_do_not_reach_one_another() -> None:
    found = checks_of(without_controller(1, 2, 3))
    assert set(found) == {"controllers-missing"}
    assert found["controllers-missing"].what == "none of the controllers 1, 2, 3 leads"
    assert "peer ports" in found["controllers-missing"].command


def test_a_controller_that_has_lost_its_majority_is_not_believed_in_because_others_do() -> None:
    # Brokers 4 and 5 are no controllers, hear of broker 1 still, and go on naming it.
    alone = closed(closed(facts(), 2), 3)
    wide = replace(alone, brokers=[*alone.brokers, broker(4), broker(5)], registered=range(1, 6))
    lost = without_controller(1, of=wide)
    found = checks_of(lost)
    assert set(found) == {"broker-down", "controllers-missing"}
    assert found["controllers-missing"].what.endswith(": broker 2 is down, broker 3 is down")
    assert "remove" not in found["broker-down"].command
    assert lost.controller is None


def test_a_controller_that_is_down_is_not_to_be_removed() -> None:
    seen = view({"orders-0": partition(replicas=[1, 2], in_sync=[1, 2])})
    told = replace(admin(), controllers=(1, 2, 3))
    found = checks_of(with_broker(closed(facts(seen), 3), 1, admin=told))
    assert "remove" not in found["broker-down"].command


def test_one_broker_that_knows_no_controller_disagrees_with_the_others() -> None:
    found = checks_of(without_controller(3))
    assert set(found) == {"brokers-disagree", "broker-not-ready"}
    assert "broker 1 says 1, broker 2 says 1, broker 3 says none" in found["brokers-disagree"].cause
    assert without_controller(3).controller == 1
    assert without_controller(1, 2, 3).controller is None


CASES: Mapping[str, Facts] = {
    "controllers-missing": replace(facts(), quorum=quorum(3, 2)),
    "recovery-waits": replace(facts(), recoveries=[recovery(31_000, told=[1])]),
    "broker-down": with_broker(
        facts(), 2, problem="connection refused", view=None, disk=None, admin=None
    ),
    "broker-hangs": with_broker(
        facts(), 2, problem="no answer", hangs=True, view=None, disk=None, admin=None
    ),
    "broker-not-ready": with_broker(facts(), 2, admin=replace(admin(), reasons=["because"])),
    "brokers-disagree": with_broker(facts(), 2, view=view(controller=3)),
    "leaderless": facts(view({"orders-1": partition(leader=-1, in_sync=[])})),
    "under-replicated": facts(view({"orders-1": partition(in_sync=[1, 3])})),
    "damaged-replica": facts(view({"orders-1": partition(offline=[2])})),
    "disk-full": with_broker(
        facts(view({"orders-1": partition(in_sync=[1, 3], offline=[2])})),
        2,
        admin=replace(
            admin(kafkaesque_appends_refused=1), reasons=["broker 2 takes no records: only 5"]
        ),
    ),
    "disk-failed": with_broker(facts(), 2, disk=disk(GB, has_failed=True)),
    "disk-fills": with_broker(facts(), 2, disk=disk(10 * GB)),
    "clocks-apart": with_broker(facts(), 2, admin=admin(ahead_s=-3.0)),
    "open-files": with_broker(facts(), 2, admin=admin(process_max_fds=1024)),
    "versions-differ": with_broker(facts(), 2, admin=replace(admin(), version="2")),
    "group-lags": replace(
        facts(), groups=[GroupFacts(name="g", messages=5, seconds=400.0, members=0)]
    ),
    "transaction-hangs": with_broker(facts(), 2, hanging=["billing-1"]),
    "min-insync": replace(facts(), topics={"orders": {"min.insync.replicas": "3"}}),
    "write-caching": replace(facts(), topics={"orders": {"write.caching": "true"}}),
    "unclean-election": replace(
        facts(), topics={"orders": {"unclean.leader.election.enable": "true"}}
    ),
    "single-replica": facts(view({"one-0": partition(replicas=[1], in_sync=[1])})),
    "unsafe-defaults": with_broker(
        facts(),
        2,
        options={"auto.create.topics.enable": "true", "default.replication.factor": "1"},
    ),
    "temporary-directory": with_broker(facts(), 2, disk=disk(50 * GB, directory="/tmp/x")),
}


@pytest.mark.parametrize("check", CASES)
def test_each_trouble_is_one_finding_with_its_cause_and_command(check: str) -> None:
    (finding,) = diagnose(CASES[check], Limits())
    assert finding.check == check
    assert finding.cause
    assert finding.command
    assert finding.names


def test_what_was_formed_anew_is_told_in_words() -> None:
    assert recovery().state == "recovered at 2026-11-18 11:06:40 UTC (unclean)"
    lost = "unclean at 2026-11-18 11:06:40 UTC: records from offset 100 on given up; 7 known"
    assert recovery().lost == lost
    assert recovery(5_000, [2, 3]).state == "recovering for 5 s; answers from: 2,3"
    assert replace(recovery(), unclean_at_ms=None).lost is None


@pytest.mark.parametrize(("count", "wanted", "proposed"), [(2, 2, 1), (3, 3, 2), (2, 4, 1)])
def test_what_is_proposed_for_min_insync_is_less_than_the_replicas(
    count: int, wanted: int, proposed: int
) -> None:
    replicas = range(1, count + 1)
    seen = view({"orders-0": partition(replicas=replicas, in_sync=replicas)})
    topics = {"orders": {"min.insync.replicas": str(wanted)}}
    command = checks_of(replace(facts(seen), topics=topics))["min-insync"].command
    alter = f"kafkaesque topic alter orders --config min.insync.replicas={proposed}"
    assert command.split("    ")[0] == alter
    # It costs something where nothing is between one and all.
    assert ("on one disk" in command) == (count == 2)


def test_copies_that_are_being_made_do_not_count_for_min_insync() -> None:
    seen = view({"orders-0": partition(replicas=[3, 1, 2], in_sync=[1, 2])})
    topics = {"orders": {"min.insync.replicas": "2"}}
    found = replace(facts(seen), topics=topics)
    under_way = {Where("orders", 0): Move(replicas=[3, 1, 2], adding=[3], removing=[1])}
    assert "min-insync" not in checks_of(found)
    assert "min-insync" in checks_of(replace(found, moves=under_way))
    # A move that is taken back: what it has brought is to go again.
    taken_back = {Where("orders", 0): Move(replicas=[3, 1, 2], adding=[], removing=[3])}
    assert "min-insync" in checks_of(replace(found, moves=taken_back))


def test_one_broker_alone_is_a_finding() -> None:
    alone = View(
        cluster_id="c",
        controller=1,
        brokers={1: "h:1"},
        partitions={PartitionName("t", 0): partition(replicas=[1], in_sync=[1])},
    )
    found = Facts(view=alone, brokers=[broker(1, alone)])
    assert list(checks_of(found)) == ["single-broker"]


def test_every_finding_has_its_row_in_the_documentation_with_its_level() -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    # Rows of findings have a level; causes that `why` names may be called the same.
    rows = [line for line in page.splitlines() if line.startswith("| `") and line.count("|") > 3]
    for check, found in CASES.items():
        (row,) = (line for line in rows if f"`{check}`" in line.split("|")[1])
        (finding,) = diagnose(found, Limits())
        assert finding.severity.value in row.split("|")[2]


def test_a_broker_that_only_the_replicas_name_is_down() -> None:
    seen = view({"orders-1": partition(replicas=[1, 2, 4], in_sync=[1, 2])})
    found = checks_of(facts(seen))
    assert found["broker-down"].names == ["4"]
    assert found["under-replicated"].cause == "it is down"


def test_a_broker_that_only_its_admin_port_tells_of_is_not_to_be_started() -> None:
    found = checks_of(closed(facts(view({"orders-1": partition(in_sync=[1, 2])})), 3, admin=FAILED))
    assert list(found) == ["disk-failed", "under-replicated"]
    assert "No space left" in found["disk-failed"].cause
    assert "stop its process, which still runs" in found["disk-failed"].command
    assert found["under-replicated"].command == "see the finding for broker 3, which is running"


def test_a_broker_that_is_starting_is_not_to_be_started_again() -> None:
    starting = replace(admin(), reasons=["broker 3 is not registered with the controller yet"])
    (finding,) = diagnose(closed(facts(), 3, admin=starting), Limits())
    assert finding.check == "broker-not-ready"
    assert "accepts no clients" in finding.what


def test_who_hangs_is_not_to_be_started_and_who_is_down_is() -> None:
    lost = facts(view({"orders-1": partition(leader=-1, in_sync=[])}))
    found = checks_of(closed(closed(lost, 2), 3, problem="no answer", hangs=True))
    assert found["broker-down"].names == ["2"]
    assert "kafkaesque broker --config broker-2.toml" in found["broker-down"].command
    assert "if it ends at once, the last lines of its log say why" in found["broker-down"].command
    section = found["broker-down"].command.split('"')[1]
    assert f"\n## {section}\n" in (ROOT / "docs" / "operations.md").read_text()
    assert found["broker-hangs"].names == ["3"]
    assert "-CONT" in found["broker-hangs"].command
    assert "--config" not in found["broker-hangs"].command
    wanted = "start broker 2; see the finding for broker 3, which is running"
    assert found["leaderless"].command == wanted


def test_a_broker_that_holds_nothing_is_down_until_it_is_removed() -> None:
    found = replace(facts(), registered=[1, 2, 3, 4])
    (finding,) = diagnose(found, Limits())
    assert (finding.check, finding.names) == ("broker-down", ["4"])
    assert finding.command.endswith("kafkaesque cluster remove 4")
    (other,) = diagnose(closed(found, 3), Limits())[:1]
    assert "cluster remove" not in other.command
    voting = checks_of(replace(found, quorum=quorum(4, 4)))
    assert "cluster remove" not in voting["broker-down"].command


def test_a_copy_that_is_offline_is_told_with_its_file_and_what_helps() -> None:
    damaged = {"orders-0": "orders-0/00000.log has only 3 of 9 bytes: stop this broker"}
    hurt = with_broker(facts(), 2, admin=replace(admin(), damaged=damaged))
    finding = checks_of(hurt)["damaged-replica"]
    assert finding.what == "broker 2 cannot fully read its copy of orders-0"
    assert finding.cause == f"orders-0: {damaged['orders-0']}"
    assert finding.command.startswith("stop broker 2, move orders-0 out of /srv/data, start it")


def test_a_damaged_copy_is_one_finding_and_other_troubles_of_its_broker_are_told() -> None:
    damaged = {"orders-1": "orders-1/00000.log has only 3 of 9 bytes"}
    reasons = [f"orders-1 is offline on this broker: {damaged['orders-1']}"]
    seen = view({"orders-1": partition(in_sync=[1, 3], offline=[2])})
    hurt = replace(admin(), damaged=damaged, reasons=reasons)
    found = with_broker(facts(seen), 2, admin=hurt)
    assert [each.check for each in diagnose(found, Limits())] == ["damaged-replica"]
    also = view({"orders-1": partition(in_sync=[1, 3]), "orders-2": partition(in_sync=[1, 3])})
    late = replace(hurt, reasons=[*reasons, "orders-2: not opened yet"])
    checks = checks_of(with_broker(facts(also), 2, admin=late))
    assert set(checks) == {"damaged-replica", "under-replicated", "broker-not-ready"}
    assert checks["under-replicated"].names == ["orders-2"]
    assert checks["broker-not-ready"].cause == "orders-2: not opened yet"


def test_a_disk_that_is_nearly_full_is_critical() -> None:
    found = checks_of(with_broker(facts(), 2, disk=disk(4 * GB)))
    assert found["disk-fills"].severity is Severity.CRITICAL
    assert not checks_of(with_broker(facts(), 2, disk=disk(16 * GB)))
    # A small disk may have much left of it and little all the same.
    small = replace(disk(120 << 20), total_bytes=420 << 20)
    finding = checks_of(with_broker(facts(), 2, disk=small))["disk-fills"]
    assert finding.severity is Severity.CRITICAL
    assert "has 125.8 MB left, 28.6 %" in finding.what
    assert "with less than 64 MiB free that broker takes no records" in finding.cause
    enough = replace(small, free_bytes=130 << 20)
    assert not checks_of(with_broker(facts(), 2, disk=enough))


def test_a_clock_counts_only_beyond_the_error_of_measuring() -> None:
    unsure = admin(ahead_s=3.0, error_s=2.5)
    assert not checks_of(with_broker(facts(), 2, admin=unsure))
    assert not checks_of(with_broker(facts(), 2, admin=admin(ahead_s=0.9)))
    finding = checks_of(with_broker(facts(), 2, admin=admin(ahead_s=3.0)))["clocks-apart"]
    assert finding.names == ["2"]


def test_the_clocks_that_are_named_are_the_few_that_are_wrong() -> None:
    found = with_broker(facts(), 1, admin=admin(ahead_s=-120.0))
    finding = checks_of(found)["clocks-apart"]
    assert finding.what.endswith("broker 1's by 120.0 s behind")
    assert "its machine" in finding.command
    found = with_broker(found, 3, admin=admin(ahead_s=60.0))
    finding = checks_of(found)["clocks-apart"]
    assert finding.names == ["1", "3"]
    assert finding.what.endswith("broker 1's by 120.0 s behind, broker 3's by 60.0 s ahead")
    both = replace(facts(), brokers=[broker(1), broker(2)])
    finding = checks_of(with_broker(both, 1, admin=admin(ahead_s=5.0)))["clocks-apart"]
    assert finding.what == "the clock of broker 1 is 5.0 s ahead of that of broker 2"
    assert sorted(finding.names) == ["1", "2"]


def cut_off(number: int) -> View:
    """Return what a broker sees that hears of no other: itself in the controller's place."""
    others = [node for node in (1, 2, 3) if node != number]
    return view({"orders-0": partition(leader=-1, offline=others)}, controller=number)


def test_what_a_broker_that_is_cut_off_says_of_others_is_not_believed() -> None:
    healthy = view({"orders-0": partition(leader=2)}, controller=2)
    brokers = [broker(1, cut_off(1)), broker(2, healthy), broker(3, healthy)]
    seen = most_agreed([each.view for each in brokers if each.view is not None])
    assert seen == healthy
    found = checks_of(Facts(view=seen, brokers=brokers))
    assert set(found) == {"brokers-disagree"}
    # Nor where nobody else could be asked for the whole.
    found = checks_of(Facts(view=cut_off(1), brokers=brokers))
    assert "damaged-replica" not in found
    assert "leaderless" not in found


def test_a_broker_that_names_a_controller_of_which_it_does_not_hear_knows_none() -> None:
    healthy = view(controller=2)
    beyond = replace(healthy, brokers={1: "h:1"})
    brokers = [broker(1, beyond), broker(2, healthy), broker(3, healthy)]
    assert [each.controller for each in brokers] == [None, 2, 2]
    assert most_agreed([beyond, beyond, healthy, healthy, healthy]) == healthy
    (finding,) = checks_of(Facts(view=healthy, brokers=brokers)).values()
    assert finding.what == "brokers disagree on the controller"


def test_of_views_that_agree_on_the_controller_the_one_with_most_leaders_counts() -> None:
    late = view({"orders-0": partition(leader=-1)})
    assert most_agreed([late, view(), late]) == view()


def test_brokers_that_disagree_on_a_leader_are_told_apart() -> None:
    other = view({"orders-0": partition(leader=2)})
    finding = checks_of(with_broker(facts(), 3, view=other))["brokers-disagree"]
    assert "orders-0" in finding.what
    assert "broker 3 says 2" in finding.cause


def test_a_group_that_is_not_late_yet_is_no_finding() -> None:
    group = GroupFacts(name="g", messages=5, seconds=100.0, members=2)
    assert not checks_of(replace(facts(), groups=[group]))
    assert "group-lags" in checks_of(replace(facts(), groups=[group]), Limits(lag_s=60))


def test_critical_findings_come_first() -> None:
    found = with_broker(CASES["under-replicated"], 2, disk=disk(GB, has_failed=True))
    assert [each.severity for each in diagnose(found, Limits())] == [
        Severity.CRITICAL,
        Severity.WARNING,
    ]


def test_every_check_copes_with_a_broker_that_says_nothing() -> None:
    silent = BrokerFacts(id=2, address="h:2", problem="connection refused")
    found = replace(facts(), brokers=[broker(1), silent, broker(3)])
    assert [each.check for each in diagnose(found, Limits())] == ["broker-down"]
    assert len(CHECKS) == 16


def test_a_metrics_page_is_read() -> None:
    page = (
        "# HELP kafkaesque_broker_info x\n"
        'kafkaesque_broker_info{broker="1",version="0.1.0"} 1\n'
        "process_max_fds 1024\nnonsense\n"
    )
    metrics, version = read_metrics(page)
    assert version == "0.1.0"
    assert metrics["process_max_fds"] == 1024
