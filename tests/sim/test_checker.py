"""The simulator can fail: brokers with a planted bug are found out.

`test_polls_and_sends` has those of polls and sends, `test_transactions` those of transactions;
`test_observations` shows the checker histories that were made up.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.partitions.log_reader import LogReader
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.replication.raft_replica import Replica
from kafkaesque.broker.upkeep.log_starts import LogStarts, OnDone
from kafkaesque.env.disk import File, FileRange
from kafkaesque.model.batch import CHECKED_START
from kafkaesque.model.checksum import crc32c
from kafkaesque.model.errors import DiskFailed
from kafkaesque.model.ids import CONTROLLER_GROUP, GroupId
from kafkaesque.raft.configuration import Ballot
from kafkaesque.raft.core import RaftCore
from kafkaesque.raft.entries import EntryKind, EntryMeta
from kafkaesque.raft.leadership import Leadership
from kafkaesque.sim.disk import SimDisk
from kafkaesque.sim.faults import Fault
from kafkaesque.sim.runner import SimOptions, run_seed
from kafkaesque.storage.group_log import GroupLog


def _anomalies(options: SimOptions, seeds: range) -> list[str]:
    found: list[str] = []
    for seed in seeds:
        found += run_seed(seed, options).anomalies
        if found:
            break
    return found


@pytest.mark.extended
def test_a_broker_that_does_not_sync_loses_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    sync = SimDisk.sync

    def lying(
        self: SimDisk,
        files: Sequence[File],
        on_done: Callable[[DiskFailed | None], None],
        directories: Sequence[str] = (),
    ) -> None:
        sync(self, [], on_done)

    monkeypatch.setattr(SimDisk, "sync", lying)
    options = SimOptions(kinds=("power cut",), between_ms=1_000, all_one_in=1)
    found = _anomalies(options, range(5))
    assert found, "acknowledged and not synced, and nobody noticed"


@pytest.mark.extended
def test_a_leader_that_acknowledges_before_the_commit_loses_writes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer_later = Partition._answer_later

    def at_once(self: Partition, acks: int, *arguments: Any) -> None:
        answer_later(self, 0, *arguments)

    monkeypatch.setattr(Partition, "_answer_later", at_once)
    # Else its producers would be refused from then on, because something is missing.
    monkeypatch.setattr(Partition, "_known_duplicate", lambda self, batch: None)
    options = SimOptions(kinds=("block",), between_ms=500, duration_ms=5_000)
    found = _anomalies(options, range(10))
    assert any(what.startswith("events: lost write") for what in found), found


def test_a_follower_that_changes_what_it_copies_diverges(monkeypatch: pytest.MonkeyPatch) -> None:
    append = Replica._append

    def changed(self: Replica, entries: Sequence[EntryMeta]) -> bool:
        if not self.is_leader and self.group != CONTROLLER_GROUP:
            entries = [_with_another_value(entry) for entry in entries]
        return append(self, entries)

    monkeypatch.setattr(Replica, "_append", changed)
    options = SimOptions(kinds=("delay",), between_ms=200, duration_ms=500, partitions=1)
    found = _anomalies(options, range(1))
    assert any(what.startswith("divergence") for what in found), found


def _with_another_value(entry: EntryMeta) -> EntryMeta:
    """Return an entry with one bit of its last value flipped, and the right checksum again."""
    if entry.kind is not EntryKind.DATA:
        return entry
    assert not isinstance(entry.data, FileRange)
    batch = bytearray(entry.data)
    batch[-2] ^= 1
    struct.pack_into(">I", batch, CHECKED_START - 4, crc32c(memoryview(batch)[CHECKED_START:]))
    return replace(entry, data=batch)


def test_a_broker_that_forgets_producers_doubles_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Partition, "_known_duplicate", lambda self, batch: None)
    options = SimOptions(kinds=("kill", "reset", "block"), between_ms=500)
    found = _anomalies(options, range(20))
    assert any(what.startswith("events: duplicate") for what in found), found


@pytest.mark.extended
def test_a_broker_that_commits_alone_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    commit = RaftCore.on_synced

    def commits_alone(self: RaftCore, last_index: int, generation: int) -> None:
        commit(self, last_index, generation)
        if self.is_leader and self.log.commit_index < self.log.synced_index:
            self.log.commit_index = self.log.synced_index
            self._outbox.commit(self.log.commit_index)

    monkeypatch.setattr(RaftCore, "on_synced", commits_alone)
    options = SimOptions(kinds=("kill", "block", "power cut"), between_ms=500)
    # One seed of four shows it; this is where the first one is, as long as histories stay.
    assert _anomalies(options, range(7, 27)), "committed without a majority, and nobody noticed"


def test_a_broker_that_reads_past_the_high_watermark_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def read_all(self: Partition, offset: int, bytes_max: int) -> object:
        log: GroupLog = self.log
        return log.locate(offset, bytes_max, log.end_offset)

    monkeypatch.setattr(Partition, "read_now", read_all)
    options = SimOptions(kinds=("block", "slow disk"), between_ms=500)
    # Most fetches wait at the high watermark; one that finds more is enough.
    monkeypatch.setattr(Partition, "last_stable_offset", property(lambda self: 0))
    found = _anomalies(options, range(20))
    assert any("high watermark" in what for what in found), found


def test_a_coordinator_that_reads_too_little_loses_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    load = LogReader.__init__

    def short(self: LogReader, **arguments: Any) -> None:
        arguments["end"] = max(0, arguments["end"] - 5)
        load(self, **arguments)

    monkeypatch.setattr(LogReader, "__init__", short)
    options = SimOptions(kinds=("kill",), between_ms=700, activities=("commits",))
    found = _anomalies(options, range(5))
    assert any("lost commit" in what for what in found), found


@pytest.mark.extended
def test_deletions_that_only_the_leader_knows_are_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    def alone(
        self: LogStarts, partition: Partition, start: int, timeout_ms: int, on_done: OnDone
    ) -> None:
        self.give_up(partition.state.group, start, timeout_ms, on_done)

    monkeypatch.setattr(LogStarts, "delete", alone)
    monkeypatch.setattr(LogStarts, "on_leader_report", lambda self, report: None)
    options = SimOptions(kinds=("kill",), between_ms=700, activities=("deletions",))
    found = _anomalies(options, range(5))
    assert any("undeleted" in what or "starts differ" in what for what in found), found


def test_a_deletion_that_takes_too_much_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    give_up = LogStarts.give_up

    def give_up_more(
        self: LogStarts, group: GroupId, start: int, timeout_ms: int, on_done: OnDone
    ) -> None:
        give_up(self, group, start + 20, timeout_ms, on_done)

    monkeypatch.setattr(LogStarts, "give_up", give_up_more)
    options = SimOptions(kinds=("pause",), duration_ms=4_000, activities=("deletions",))
    found = _anomalies(options, range(5))
    assert any("overdeleted" in what for what in found), found


def test_members_that_need_no_majority_give_a_term_two_leaders(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Ballot, "is_won", property(lambda self: True))
    found = _anomalies(SimOptions(kinds=("block",), between_ms=700), range(5))
    assert any("two leaders" in what or "both lead" in what for what in found), found


#: b1 and b2 acknowledge while b3 is away; then b3 meets an empty b2, without b1.
EMPTY_MEETS_STALE = (
    Fault(kind="absence", targets=("b3",), begin_ms=1_000, end_ms=5_000),
    Fault(kind="absence", targets=("b1",), begin_ms=4_000, end_ms=9_000),
    Fault(kind="lost disk", targets=("b2",), begin_ms=4_000, end_ms=5_000),
)


@pytest.mark.extended
def test_a_broker_that_votes_with_an_empty_disk_loses_writes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    report = run_seed(1, SimOptions(), EMPTY_MEETS_STALE)
    assert report.ok, report.anomalies
    monkeypatch.setattr(GroupLog, "save_amnesia", lambda self, amnesia: None)
    report = run_seed(1, SimOptions(), EMPTY_MEETS_STALE)
    # What readers have read already is gone, and so is what producers go on from.
    assert any("out of range" in what for what in report.anomalies), report.anomalies[:9]


@pytest.mark.extended
def test_a_leader_that_never_repeats_itself_gets_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Leadership, "_tick_peer", lambda self, peer: None)
    monkeypatch.setattr(Leadership, "on_peer_seen", lambda self, node: None)
    options = SimOptions(kinds=("block",), between_ms=700)
    found = _anomalies(options, range(5))
    assert any("stuck" in what for what in found), found


@pytest.mark.extended
def test_a_snapshot_that_leaves_something_out_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    read = ClusterState.read_snapshot

    def forgetful(payload: bytes | memoryview) -> ClusterState:
        state = read(payload)
        state.next_producer_id = 0
        return state

    monkeypatch.setattr(ClusterState, "read_snapshot", staticmethod(forgetful))
    options = SimOptions(kinds=("kill",), between_ms=3_000, snapshot_records=3)
    found = _anomalies(options, range(5))
    assert any("metadata" in what or "producer id" in what for what in found), found
