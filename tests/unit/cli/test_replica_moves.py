"""Moves of replicas as the command line follows them: nothing is said to be done too soon."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from kafkaesque.cli import replica_moves
from kafkaesque.cli.app import app
from kafkaesque.cli.exit_codes import FAILED, TIMED_OUT
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.long_wait import LongWait
from kafkaesque.cli.moving_replicas import Move, Where, missing_in_sync, sentences
from kafkaesque.cli.replica_moves import Layout, await_moves, same_nodes
from kafkaesque.cli.screen import Screen
from kafkaesque.model.ids import NodeId
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kafkaesque.protocols.kafka.messages.elect_leaders_request import ElectLeadersRequest
from kafkaesque.protocols.kafka.messages.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

ORDERS = Where("orders", 0)


def layout(placed: dict[Where, list[int]], moving: dict[Where, Move] | None = None) -> Layout:
    return Layout(
        racks={NodeId(node): None for node in (1, 2, 3)},
        placed={where: tuple(map(NodeId, nodes)) for where, nodes in placed.items()},
        moving=moving or {},
    )


def move(origin: Sequence[int], target: Sequence[int]) -> Move:
    return Move(
        replicas=[*target, *(node for node in origin if node not in target)],
        adding=[node for node in target if node not in origin],
        removing=[node for node in origin if node not in target],
    )


class Cluster:
    """Answers with one layout after the other, and with the last one from then on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: Layout | CommandFailed) -> None:
        self.asked: list[object] = []
        self.requested: list[dict[Where, Sequence[int] | None]] = []
        self.idle: list[Where] = []
        self.elections: list[ElectLeadersRequest] = []
        self.outcome = ElectLeadersResponse()
        self._answers = itertools.chain(answers, itertools.repeat(answers[-1]))
        monkeypatch.setattr(replica_moves, "POLL_S", 0.001)
        monkeypatch.setattr(replica_moves, "read_layout", self.read_layout)
        monkeypatch.setattr(replica_moves, "request_moves", self.request_moves)
        monkeypatch.setattr(replica_moves, "ask", self.ask)

    def read_layout(self, _: str) -> Layout:
        answer = next(self._answers)
        self.asked.append(answer)
        if isinstance(answer, CommandFailed):
            raise answer
        return answer

    def request_moves(
        self, _: str, moves: dict[Where, Sequence[int] | None], *, is_idle_well: bool = False
    ) -> list[Where]:
        self.requested.append(dict(moves))
        return self.idle

    def ask(self, _: str, key: int, __: int, request: object, **___: float) -> ElectLeadersResponse:
        assert key == ApiKey.ELECT_LEADERS
        assert isinstance(request, ElectLeadersRequest)
        self.elections.append(request)
        return self.outcome


BEFORE = layout({ORDERS: [1, 2]})
UNDER_WAY = layout({ORDERS: [2, 3, 1]}, {ORDERS: move([1, 2], [2, 3])})
AFTER = layout({ORDERS: [2, 3]})


def test_what_is_not_listed_and_not_there_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that is behind lists nothing and has the replicas where they were."""
    cluster = Cluster(monkeypatch, BEFORE, BEFORE, UNDER_WAY, AFTER)
    await_moves(Screen(), "-", {ORDERS: same_nodes([3, 2])}, 10)
    assert cluster.asked == [BEFORE, BEFORE, UNDER_WAY, AFTER]


def test_replicas_that_are_there_and_move_on_are_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(monkeypatch, layout({ORDERS: [2, 3]}, {ORDERS: move([3], [2])}), AFTER)
    await_moves(Screen(), "-", {ORDERS: same_nodes([2, 3])}, 10)
    assert len(cluster.asked) == 2


def test_a_topic_that_is_deleted_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    Cluster(monkeypatch, UNDER_WAY, layout({}))
    await_moves(Screen(), "-", {ORDERS: same_nodes([2, 3])}, 10)


def test_a_wait_goes_on_while_a_controller_is_elected_and_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nobody = CommandFailed("nobody leads")
    Cluster(monkeypatch, UNDER_WAY, nobody, nobody, AFTER)
    await_moves(Screen(), "-", {ORDERS: same_nodes([2, 3])}, 10)
    Cluster(monkeypatch, UNDER_WAY, nobody)
    monkeypatch.setattr(replica_moves, "SILENCE_S_MAX", 0.01)
    with pytest.raises(CommandFailed, match="nobody leads"):
        await_moves(Screen(), "-", {ORDERS: same_nodes([2, 3])}, 10)


def test_what_takes_too_long_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    Cluster(monkeypatch, UNDER_WAY)
    with pytest.raises(CommandFailed, match="orders-0; the moves continue") as failure:
        await_moves(Screen(), "-", {ORDERS: same_nodes([2, 3])}, 0)
    assert failure.value.exit_code == TIMED_OUT
    assert "fewer replicas are in sync than min.insync.replicas: kafkaesque doctor" in str(
        failure.value
    )
    # What is left of a time that was asked for is no round number.
    with pytest.raises(CommandFailed, match=r"still on the move after 0\.1 s: orders-0"):
        await_moves(Screen(), "-", {ORDERS: same_nodes([2, 3])}, 0.0987654)


def test_a_drain_is_done_when_nothing_is_left_also_of_new_topics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late = Where("late", 0)
    with_late = layout({ORDERS: [2, 3], late: [1]})
    cluster = Cluster(
        monkeypatch, BEFORE, UNDER_WAY, AFTER, with_late, layout({ORDERS: [2, 3], late: [3]})
    )
    done = CliRunner().invoke(app, ["cluster", "drain", "1"])
    assert done.exit_code == 0, done.output
    assert done.stdout == "broker 1 holds no replicas any more: 2 partitions moved\n"
    assert [list(each) for each in cluster.requested] == [[ORDERS], [late]]


def test_a_drain_that_is_behind_topics_all_the_time_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    new = [layout({Where("t", number): [1]}) for number in range(40)]
    Cluster(monkeypatch, *new)
    done = CliRunner().invoke(app, ["cluster", "drain", "1"])
    assert done.exit_code == TIMED_OUT
    assert "gets new replicas as fast as they are moved away" in done.stderr


def test_a_cancel_with_nothing_to_cancel_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, BEFORE)
    cluster.idle = [ORDERS]
    done = CliRunner().invoke(app, ["topic", "reassign", "orders", "--cancel"])
    assert done.exit_code == 0
    assert done.stdout == "no replica of orders moves: there is nothing to cancel\n"


def test_a_cancel_is_done_when_the_new_replicas_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    other = Where("orders", 1)
    still = layout({ORDERS: [2, 3, 1], other: [1]}, {ORDERS: move([1, 2], [2, 3])})
    Cluster(monkeypatch, still, still, layout({ORDERS: [1, 2, 3], other: [1]}), BEFORE)
    done = CliRunner().invoke(app, ["topic", "reassign", "orders", "--cancel"])
    assert done.stdout == "the replicas of orders are where they were: 2 partitions\n"


def test_an_election_that_nobody_is_there_for_says_what_is_left_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Cluster(monkeypatch, BEFORE)
    refused = {ORDERS: "reports came from: no broker"}
    monkeypatch.setattr(replica_moves, "elect_leaders", lambda *_, **__: ([], refused))
    done = CliRunner().invoke(app, ["topic", "elect", "orders", "--unclean", "--yes"])
    assert done.exit_code == 1
    again = "try:   kafkaesque doctor, and then once more"
    anew = "kafkaesque topic delete orders, and create it again"
    assert f"{again}; if the disks of all its replicas are lost: {anew}" in done.stderr
    done = CliRunner().invoke(app, ["topic", "elect", "orders"])
    assert done.stderr.endswith(f"{again}\n")


LED = layout({Where("t", number): [1, 2, 3] for number in range(6)})
LED = replace(
    LED,
    led={
        Where("t", 0): (NodeId(1), [1, 2]),
        Where("t", 1): (NodeId(2), [1, 2]),
        Where("t", 2): (NodeId(2), [2, 3]),  # the preferred one is not in sync
        Where("t", 3): (NodeId(3), [1, 3]),
        Where("t", 4): (NodeId(3), [1, 2, 3]),
    },
    racks={NodeId(1): None, NodeId(2): None, NodeId(3): None},
)


def test_a_dry_run_changes_no_leader_and_shows_which_would_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(monkeypatch, LED)
    words = ["cluster", "rebalance", "--leaders", "--dry-run"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0
    assert done.stdout == "PARTITION\tLEADER\tTARGET\nt-1\t2\t1\nt-3\t3\t1\nt-4\t3\t1\n"
    assert done.stderr == "3 leaders would change\n"
    done = CliRunner().invoke(app, [*words, "--json"])
    assert json.loads(done.stdout)[0] == {"partition": "t-1", "leader": 2, "target": 1}
    done = CliRunner().invoke(app, ["cluster", "rebalance", "--dry-run"])
    assert " would change, too: kafkaesque cluster rebalance --leaders --dry-run" in done.stderr
    assert (cluster.requested, cluster.elections) == ([], [])
    # Whose broker is down cannot lead.
    Cluster(monkeypatch, replace(LED, racks={NodeId(2): None, NodeId(3): None}))
    assert CliRunner().invoke(app, words).stderr == "0 leaders would change\n"


def test_leaders_that_are_not_elected_are_told_and_no_success(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(monkeypatch, LED)
    results = [
        PartitionResult(0, ErrorCode.NONE, None),
        PartitionResult(1, ErrorCode.ELECTION_NOT_NEEDED, "it leads"),
        PartitionResult(2, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "broker 1 is not alive"),
        PartitionResult(3, ErrorCode.REQUEST_TIMED_OUT, None),
    ]
    cluster.outcome.replica_election_results = [ReplicaElectionResult("t", results)]
    words = ["cluster", "rebalance", "--leaders"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    assert done.stdout == "0 partitions moved, 1 leader changed\n"
    assert "error: t-2: broker 1 is not alive (and 1 more)\n" in done.stderr
    refused = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)["refused"]
    assert refused == {"t-2": "broker 1 is not alive", "t-3": "REQUEST_TIMED_OUT"}
    assert CliRunner().invoke(app, ["topic", "elect", "t"]).exit_code == 1
    cluster.outcome.error_code = ErrorCode.NOT_CONTROLLER
    for asked in (words, ["topic", "elect", "t"]):
        done = CliRunner().invoke(app, asked)
        assert done.exit_code == 1
        assert "no leader is elected: NOT_CONTROLLER" in done.stderr


def test_where_no_controller_leads_nothing_is_said_to_be_even(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Cluster(monkeypatch, CommandFailed("it is not known which replicas move"))
    for words in (["--leaders"], ["--leaders", "--dry-run"], []):
        done = CliRunner().invoke(app, ["cluster", "rebalance", *words])
        assert done.exit_code == 1
        assert done.stdout == ""


@pytest.mark.parametrize(
    "words",
    [["elect"], ["reassign", "--replicas", "1,2"], ["reassign", "--cancel"]],
    ids=lambda words: words[-1],
)
def test_a_partition_or_topic_that_there_is_not_is_named(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(monkeypatch, LED)
    done = CliRunner().invoke(app, ["topic", *words, "t", "-p", "1", "-p", "9"])
    assert done.exit_code == 1
    assert done.stderr.startswith("error: topic t has no partition 9: it has 0 to 5\n")
    done = CliRunner().invoke(app, ["topic", *words, "u"])
    assert done.stderr.startswith("error: topic u does not exist\n")
    assert (cluster.requested, cluster.elections) == ([], [])


def test_who_names_a_broker_that_there_is_not_is_told_where_brokers_are_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    part = ReassignablePartitionResponse(
        0, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "there is no broker 9"
    )
    answer = AlterPartitionReassignmentsResponse(
        responses=[ReassignableTopicResponse("orders", [part])]
    )
    monkeypatch.setattr(replica_moves, "ask", lambda *_: answer)
    with pytest.raises(CommandFailed, match="orders-0: there is no broker 9") as failure:
        replica_moves.request_moves("-", {ORDERS: [1, 9]})
    assert "kafkaesque cluster status" in failure.value.hint


def test_a_broker_that_there_is_not_is_the_same_failure_to_drain_as_to_remove(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Cluster(monkeypatch, BEFORE)
    done = CliRunner().invoke(app, ["cluster", "drain", "9"])
    assert done.exit_code == FAILED
    assert "there is no broker 9; there are 1,2,3" in done.stderr


def test_moves_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    Cluster(monkeypatch, UNDER_WAY)
    for words in (["orders"], []):
        done = CliRunner().invoke(app, ["topic", "reassign", *words, "--list"])
        assert done.stdout == "# moves\nPARTITION\tFROM\tTO\norders-0\t2,1\t2,3\n"
    done = CliRunner().invoke(app, ["topic", "reassign", "orders", "--list", "-p", "1", "--json"])
    assert (done.stdout, done.stderr) == ("[]\n", "no replica moves\n")


@pytest.mark.parametrize(
    "words", [["orders"], ["orders", "--list", "--cancel"], ["--cancel"], ["--replicas", "1"]]
)
def test_what_makes_no_sense_is_refused(words: list[str]) -> None:
    assert CliRunner().invoke(app, ["topic", "reassign", *words]).exit_code == 2


CASES = {
    "settled, and all in sync": ([1, 2], [2, 1], None, []),
    "settled, and one behind": ([1, 2], [1], None, [2]),
    "moving, and the old ones in sync": ([3, 4, 1, 2], [1, 2], move([1, 2], [3, 4]), []),
    "moving, and an old one behind": ([3, 4, 1, 2], [1], move([1, 2], [3, 4]), [2]),
    "moved, and that is not written down": ([3, 4, 1, 2], [3, 4], move([1, 2], [3, 4]), []),
    "moved, and a new one is behind": ([3, 4, 1, 2], [3], move([1, 2], [3, 4]), [1, 2]),
}


@pytest.mark.parametrize("case", CASES)
def test_replicas_that_are_on_their_way_are_not_missing(case: str) -> None:
    replicas, in_sync, under_way, missing = CASES[case]
    assert missing_in_sync(replicas, in_sync, under_way) == missing


def test_moves_are_told_in_few_sentences() -> None:
    many = {Where("t", number): move([1], [number + 2]) for number in range(12)}
    same = {Where("u", number): move([1, 2], [2, 3]) for number in range(20)}
    (sentence,) = sentences(same)
    assert sentence.startswith("replicas move from brokers 2, 1 to brokers 2, 3: u-0, u-1, ")
    assert sentence.endswith(" and 12 more")
    assert len(sentences(many)) == 9
    assert "and 4 more" in sentences(many)[-1]


def test_a_long_wait_is_told_again_and_again_and_not_after_its_end() -> None:
    lines: list[str] = []
    enough = threading.Event()

    def note(line: str) -> None:
        lines.append(line)
        if len(lines) == 3:
            enough.set()

    with LongWait(note, "the moon", again_s=0.001) as wait:
        assert enough.wait(90)
        wait.what = ""
    assert not any(each.name == "long-wait" for each in threading.enumerate())
    assert all(line.startswith("still waiting for the moon (") for line in lines)


def test_a_short_wait_is_not_told() -> None:
    lines: list[str] = []
    with LongWait(lines.append, "the moon", again_s=3600):
        pass
    assert not lines
