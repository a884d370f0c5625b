"""What the core and its parts do not put up with."""

from __future__ import annotations

from typing import Any

import pytest

from kafkaesque.model.errors import ConfigError
from kafkaesque.model.ids import NodeId, Term
from kafkaesque.raft.config import RaftConfig
from kafkaesque.raft.configuration import (
    Configuration,
    ConfigurationTable,
    PlacedConfiguration,
    read_configuration,
    write_configuration,
)
from kafkaesque.raft.entries import EntryKind, EntryMeta, HardState, Proposal
from kafkaesque.raft.errors import MalformedRaftMessage, RaftInvariantBroken
from kafkaesque.raft.messages import AppendRequest, SnapshotRequest
from kafkaesque.raft.progress import PeerProgress, ProgressState
from kafkaesque.raft.ready import Replicate, Role
from tests.unit.raft.harness import GROUP, Cluster, snapshot_to_send

CONFIGURATION = Configuration(voters=(NodeId(1), NodeId(2)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"election_ticks": 0}, "election_ticks must be at least 1, not 0"),
        ({"inflight_messages_max": -1}, "inflight_messages_max must be at least 1"),
        ({"append_bytes_max": 9, "inflight_bytes_max": 8}, "must not exceed inflight_bytes_max"),
    ],
    ids=["zero", "negative", "contradiction"],
)
def test_a_dial_out_of_range_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        RaftConfig(**options)


def test_a_transition_that_does_not_exist_is_reported() -> None:
    cluster = Cluster(2)
    cluster.elect(1)
    with pytest.raises(RaftInvariantBroken, match=r"LEADER -> Role\.CANDIDATE"):
        cluster[1]._turn(Role.CANDIDATE)
    with pytest.raises(RaftInvariantBroken, match="term 1 -> 0"):
        cluster[1]._set_hard_state(Term(0), None)


def test_a_transition_of_a_peer_that_does_not_exist_is_reported() -> None:
    peer = PeerProgress(NodeId(2), 1, 0, is_alive=True)
    peer.turn(ProgressState.SNAPSHOT, 1)
    with pytest.raises(RaftInvariantBroken, match="SNAPSHOT"):
        peer.turn(ProgressState.REPLICATE, 1)


def test_a_sync_beyond_the_log_is_reported() -> None:
    cluster = Cluster(1)
    cluster.elect(1)
    with pytest.raises(RaftInvariantBroken, match="synced up to 9, but the log ends at 1"):
        cluster[1].on_synced(9, 0)


def test_an_entry_without_width_is_reported() -> None:
    cluster = Cluster(1)
    cluster.elect(1)
    with pytest.raises(RaftInvariantBroken, match="width 0"):
        cluster[1].propose([Proposal(0, 0, b"")])
    assert cluster[1].log.last_index == 1


def lazy_leader_with_work() -> tuple[Cluster, Replicate]:
    cluster = Cluster(2, is_lazy=True)
    cluster.elect(1)
    cluster.propose(1)
    work = cluster.members[NodeId(1)].work.popleft()
    assert isinstance(work, Replicate)
    return cluster, work


def test_entries_that_were_not_asked_for_are_reported() -> None:
    cluster, work = lazy_leader_with_work()
    wrong = EntryMeta(9, 9, Term(1), EntryKind.DATA, 1, b"x")
    with pytest.raises(RaftInvariantBroken, match="asked for entries from 2 to 2, got 9 to 9"):
        cluster[1].fill(work, [wrong])


def test_entries_that_cannot_be_read_are_asked_for_again_by_the_retry() -> None:
    cluster, work = lazy_leader_with_work()
    assert cluster[1].fill(work, []) is None
    assert not cluster.is_quiet(1)
    cluster.tick(1, times=5)
    cluster.flow()
    assert cluster[1].commit_index == 2


def test_work_for_a_peer_that_was_lost_since_is_void() -> None:
    cluster, work = lazy_leader_with_work()
    entry = cluster.members[NodeId(1)].live.entries[-1]
    cluster[1].on_peer_lost(NodeId(2))
    cluster[1].on_peer_seen(NodeId(2))
    assert cluster[1].fill(work, [entry]) is None
    cluster.settle(1)
    cluster.flow()
    assert cluster[1].commit_index == 2


def test_a_snapshot_of_what_is_not_committed_is_reported() -> None:
    cluster, work = snapshot_to_send()
    with pytest.raises(RaftInvariantBroken, match="a snapshot at 99"):
        cluster[1].fill_snapshot(work, 99, b"")


def test_a_follower_takes_nothing_while_it_installs_a_snapshot() -> None:
    cluster = Cluster(2, is_lazy=True)
    placed = PlacedConfiguration(3, CONFIGURATION)
    snapshot = SnapshotRequest(GROUP, NodeId(1), NodeId(2), Term(1), 5, Term(1), placed, b"")
    core = cluster[2]
    core.step(snapshot)
    ready = core.take_ready()
    assert ready is not None
    assert ready.install_snapshot is snapshot
    core.step(snapshot)
    core.step(_append(5, 1))
    assert core.take_ready() is None
    with pytest.raises(RaftInvariantBroken, match="a snapshot at 6 was installed"):
        core.on_snapshot_installed(6, Term(1))


def _append(prev_index: int, prev_term: int) -> AppendRequest:
    head = (GROUP, NodeId(1), NodeId(2), Term(1))
    return AppendRequest(*head, prev_index, Term(prev_term), 0, (), ())


def test_a_hard_state_older_than_the_log_is_reported() -> None:
    cluster = Cluster(1, start=False)
    cluster.given_log(1, 1, 2, term=1)
    with pytest.raises(RaftInvariantBroken, match="the log ends with term 2"):
        cluster.start(1)


def test_configurations_must_be_there_and_in_order() -> None:
    with pytest.raises(RaftInvariantBroken, match="without any"):
        ConfigurationTable([])
    placed = [PlacedConfiguration(2, CONFIGURATION), PlacedConfiguration(2, CONFIGURATION)]
    with pytest.raises(RaftInvariantBroken, match="out of order"):
        ConfigurationTable(placed)


def test_a_configuration_of_another_format_is_refused() -> None:
    data = bytearray(write_configuration(CONFIGURATION))
    data[0] = 9
    with pytest.raises(MalformedRaftMessage, match="version 9"):
        read_configuration(data)


def test_a_report_on_another_hard_state_changes_nothing() -> None:
    cluster = Cluster(1)
    cluster[1].campaign()
    cluster[1].on_hard_state_synced(Term(0), None)
    assert not cluster.leads(1)
    cluster[1].on_hard_state_synced(*HardState(Term(1), NodeId(1)))
    assert cluster.leads(1)
