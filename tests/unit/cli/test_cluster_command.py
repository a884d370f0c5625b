"""`kafkaesque cluster status` and `wait`, with a cluster that is made up."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from kafkaesque.cli import awaited_brokers, gossip_members, kafka, quorum, recoveries
from kafkaesque.cli.app import app
from kafkaesque.cli.commands import cluster
from kafkaesque.cli.commands.cluster import BrokerRow, ClusterStatus
from kafkaesque.cli.doctor import probe
from kafkaesque.cli.doctor.facts import BrokerFacts, Facts
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.moving_replicas import Move, Where
from kafkaesque.cli.quorum import Quorum
from kafkaesque.protocols.kafka.messages.describe_quorum_response import (
    DescribeQuorumResponse,
    PartitionData,
    ReplicaState,
    TopicData,
)
from tests.unit.cli.made_up_facts import (
    admin,
    broker,
    closed,
    facts,
    partition,
    view,
    without_controller,
)
from tests.unit.cli.made_up_facts import quorum as made_up_quorum

SEEN = ClusterStatus(
    cluster_id="c",
    controller=1,
    brokers=[BrokerRow(id=n, host="h", port=n, is_controller=n == 1) for n in (1, 2, 3)],
    topics=1,
    partitions=2,
    leaderless=[],
    under_replicated=["orders-1"],
)


def run(
    monkeypatch: pytest.MonkeyPatch,
    found: Facts,
    *words: str,
    quorum_is: Quorum | None = None,
    seen: ClusterStatus = SEEN,
    code: int = 0,
) -> tuple[str, list[str]]:
    """Run a command; return its output, and which brokers were asked beside `look`."""
    asked: list[str] = []

    def read_status(bootstrap: str) -> ClusterStatus:
        asked.append(bootstrap)
        return seen

    def read_quorum(bootstrap: str) -> Quorum:
        asked.append(bootstrap)
        if quorum_is is not None:
            return quorum_is
        raise CommandFailed("the controllers are not known")

    monkeypatch.setattr(kafka, "Connection", lambda _: None)
    monkeypatch.setattr(cluster, "read_status", read_status)
    monkeypatch.setattr(probe, "look", lambda _: found)
    monkeypatch.setattr(quorum, "read_quorum", read_quorum)
    for module in (gossip_members, recoveries):
        monkeypatch.setattr(module, "read_page", lambda *_: None)
    done = CliRunner().invoke(app, ["cluster", *words, "-b", "h:1"])
    assert done.exit_code == code, done.output
    assert ("error: " in done.stderr) == (code != 0)
    return done.stdout, asked


def test_wait_counts_no_move_as_a_missing_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = view({"orders-1": partition(replicas=[3, 1, 2], in_sync=[1, 2])})
    under_way = {Where("orders", 1): Move(replicas=[3, 1, 2], adding=[3], removing=[2])}
    for words in (["wait", "--brokers", "3"], ["wait", "--brokers", "3", "--in-sync"]):
        output, _ = run(monkeypatch, replace(facts(seen), moves=under_way), *words)
        assert output.strip() == "ready: 3 brokers, 2 partitions"
    output, _ = run(monkeypatch, facts(seen), "wait", "--brokers", "3")
    assert output.strip() == "ready: 3 brokers, 2 partitions, 1 with replicas missing"


def test_status_names_no_controller_where_none_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    none = closed(without_controller(1, 2), 3, problem="no answer", hangs=True)
    output, asked = run(monkeypatch, none, "status", "--json", code=1)
    document = json.loads(output)
    assert document["controller"] == -1
    assert not any(each["is_controller"] for each in document["brokers"])
    # Who hangs is not asked again, and nobody for a controller that none has.
    assert asked == ["h:1,h:2"]
    output, _ = run(monkeypatch, none, "status", code=1)
    assert "controller\t-\n" in output
    assert "controllers\t1, 2, 3\n" in output
    document = json.loads(run(monkeypatch, facts(), "status", "--json")[0])
    assert document["controller"] == 1
    output, _ = run(monkeypatch, facts(), "status", quorum_is=made_up_quorum(3))
    rows = [line.split("\t") for line in output.splitlines() if line[:2] in ("1\t", "2\t")]
    assert [row[2] for row in rows[:2]] == ["leads", "votes"]


def test_controllers_that_hang_are_told_from_those_that_are_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hanging = closed(facts(), 3, problem="no answer", hangs=True)
    # The one that leads has not noticed yet, or takes it to be down.
    for told in (made_up_quorum(3), made_up_quorum(3, 3)):
        output, asked = run(monkeypatch, hanging, "controllers", quorum_is=told)
        assert asked == ["h:1,h:2"]
        assert output.splitlines()[1:] == [
            "1\tleads\tup\t0",
            "2\tvotes\tup\t0",
            "3\tvotes\thangs\t-",
        ]
        output, _ = run(monkeypatch, hanging, "status", "--json", quorum_is=told)
        assert [each["hangs"] for each in json.loads(output)["quorum"]["members"]] == [
            False,
            False,
            True,
        ]


def test_of_a_controller_that_is_down_nobody_says_how_far_behind_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def replica(node: int, seen_ms: int) -> ReplicaState:
        return ReplicaState(
            replica_id=node,
            log_end_offset=9,
            last_fetch_timestamp=seen_ms,
            last_caught_up_timestamp=seen_ms,
        )

    data = PartitionData(
        error_message=None,
        leader_id=1,
        high_watermark=11,
        current_voters=[replica(1, 1), replica(2, -1)],
    )
    answer = DescribeQuorumResponse(topics=[TopicData("__cluster_metadata", [data])])
    monkeypatch.setattr(quorum, "ask", lambda *_: answer)
    found = quorum.read_quorum("h:1").members
    assert [(each.state, each.behind) for each in found] == [("up", 2), ("down", None)]


def test_status_has_a_row_for_each_partition_that_is_not_well() -> None:
    status = replace(
        SEEN,
        leaderless=["a-0", "b-0"],
        under_replicated=["b-0", "c-0"],
        offline_replicas={"b-0": [1, 2], "d-0": [3]},
    )
    *_, troubles = cluster._tables(status)
    assert troubles.rows == [
        ("a-0", "no leader"),
        ("b-0", "no leader; replicas missing; offline on brokers 1, 2"),
        ("c-0", "replicas missing"),
        ("d-0", "offline on broker 3"),
    ]


def test_status_is_no_success_where_something_is_not_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for words in (["status"], ["status", "--json"]):
        run(monkeypatch, facts(), *words)  # replicas that are missing are no outage
        run(monkeypatch, facts(), *words, seen=replace(SEEN, leaderless=["orders-0"]), code=1)
        run(monkeypatch, without_controller(1, 2, 3), *words, code=1)


def lost_majority(topics: int, partitions: int) -> ClusterStatus:
    """Return a cluster in which every partition has lost its majority, its own topic included."""
    names = [f"__consumer_offsets-{number}" for number in range(50)]
    names += [f"topic-{n:03}-{number}" for n in range(topics) for number in range(partitions)]
    return replace(
        SEEN,
        topics=topics + 1,
        partitions=len(names),
        leaderless=names,
        under_replicated=names[::2],
        offline_replicas={name: [2, 3] for name in names},
    )


def test_where_a_majority_is_lost_status_says_so_by_topic_users_first() -> None:
    *_, troubles = cluster._tables(lost_majority(topics=3, partitions=12))
    said = "12 without a leader; 6 with replicas missing; offline on brokers 2, 3"
    assert troubles.rows == [
        ("12 of topic-000", said),
        ("12 of topic-001", said),
        ("12 of topic-002", said),
        (
            "50 of __consumer_offsets",
            "50 without a leader; 25 with replicas missing; offline on brokers 2, 3",
        ),
    ]
    *_, troubles = cluster._tables(lost_majority(topics=500, partitions=3))
    assert len(troubles.rows) == 21
    assert troubles.rows[-1] == ("1490 partitions of 481 more topics", "--json names each")
    assert not any("__" in str(row[0]) for row in troubles.rows)


def test_of_few_partitions_users_and_those_without_a_leader_come_first() -> None:
    status = replace(
        SEEN,
        leaderless=["__consumer_offsets-3", "b-10", "b-9"],
        under_replicated=["__consumer_offsets-1", "a-0"],
    )
    *_, troubles = cluster._tables(status)
    assert [row[0] for row in troubles.rows] == [
        "b-9",
        "b-10",
        "a-0",
        "__consumer_offsets-3",
        "__consumer_offsets-1",
    ]


def test_wait_is_for_all_brokers_that_the_cluster_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    output, _ = run(monkeypatch, facts(), "wait")
    assert output.startswith("ready: 3 brokers, ")
    # Registered, and not up; a controller, and not registered yet, as while a cluster starts.
    stopped = closed(facts(), 3)
    empty = replace(view(), partitions={})
    one = Facts(view=empty, brokers=[with_controllers(broker(1, empty), 1, 2, 3)])
    for seen, said in (
        (stopped, "2 of 3 brokers answer, and broker 3 does not"),
        (one, "1 of 3 brokers answer, and brokers 2, 3 do"),
    ):
        errors = refused(monkeypatch, seen, "wait", "--timeout", "0")
        assert said in errors
        assert "--brokers" in errors
        # Also where partitions have no leader by that.
        leaderless = replace(SEEN, leaderless=["orders-1"])
        assert said in refused(monkeypatch, seen, "wait", "--timeout", "0", status=leaderless)
        # Who says how many is not made to wait for others.
        run(monkeypatch, seen, "wait", "--brokers", "1")


def test_without_admin_ports_the_one_that_leads_says_who_the_controllers_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    empty = replace(view(), partitions={})
    alone = replace(broker(1, empty), admin=None)
    kafka_s = Facts(view=empty, brokers=[alone])
    ours = Facts(view=empty, brokers=[replace(alone, options={"admin.listener": ""})])
    monkeypatch.setattr(awaited_brokers, "read_quorum", lambda _: made_up_quorum(3))
    assert "1 of 3 brokers answer" in refused(monkeypatch, ours, "wait", "--timeout", "0")
    # Apache Kafka's controllers may be no brokers at all.
    run(monkeypatch, kafka_s, "wait")

    def fail(_: str) -> Quorum:
        raise CommandFailed("no controller leads")

    monkeypatch.setattr(awaited_brokers, "read_quorum", fail)
    assert "no controller leads" in refused(monkeypatch, ours, "wait", "--timeout", "0")


def with_controllers(found: BrokerFacts, *numbers: int) -> BrokerFacts:
    return replace(found, admin=replace(admin(), controllers=numbers))


def refused(
    monkeypatch: pytest.MonkeyPatch, found: Facts, *words: str, status: ClusterStatus = SEEN
) -> str:
    """Run a command that is not done in time; return what it says."""
    run(monkeypatch, found, *words, seen=status, code=5)
    return CliRunner().invoke(app, ["cluster", *words, "-b", "h:1"]).stderr
