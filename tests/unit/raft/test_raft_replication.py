"""How logs come to agree: appends, repair, flow control, snapshots, commitment."""

from __future__ import annotations

import pytest

from kafkaesque.model.ids import GroupId, NodeId, Term
from kafkaesque.raft.config import RaftConfig
from kafkaesque.raft.configuration import Configuration, PlacedConfiguration
from kafkaesque.raft.core import RaftCore
from kafkaesque.raft.entries import EntryKind, EntryMeta, HardState, Proposal, TermStart
from kafkaesque.raft.errors import MalformedRaftMessage, RaftInvariantBroken
from kafkaesque.raft.messages import AppendRequest, AppendResponse, SnapshotRequest
from kafkaesque.raft.progress import ProgressState
from kafkaesque.raft.ready import Replicate, SendSnapshot
from kafkaesque.raft.restored_state import RestoredState
from tests.unit.raft.disk_image import DiskImage
from tests.unit.raft.harness import GROUP, Cluster, snapshot_to_send

FIGURE_7 = {
    "a": (1, 1, 1, 4, 4, 5, 5, 6, 6),
    "b": (1, 1, 1, 4),
    "c": (1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 6),
    "d": (1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 7, 7),
    "e": (1, 1, 1, 4, 4, 4, 4),
    "f": (1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3),
}


@pytest.mark.parametrize("case", list(FIGURE_7))
def test_figure_7_every_follower_log_is_made_the_leaders(case: str) -> None:
    cluster = Cluster(3, start=False)
    cluster.given_log(1, 1, 1, 1, 4, 4, 5, 5, 6, 6, 6, term=7)
    cluster.given_log(2, 1, 1, 1, 4, 4, 5, 5, 6, 6, 6, term=7)
    cluster.given_log(3, *FIGURE_7[case], term=7)
    cluster.start(1)
    cluster.start(2)
    cluster.notice_all()
    cluster.elect(1)  # by the two of them, in term 8
    cluster.start_all()
    cluster.flow()
    assert cluster.log(3) == cluster.log(1)
    assert len(cluster.log(3)) == 11
    assert cluster[3].commit_index == 11


def test_quick_backtracking_costs_a_round_trip_per_term_not_per_entry() -> None:
    cluster = Cluster(3, start=False)
    terms = [2] * 300 + [3] * 300
    cluster.given_log(1, 1, *terms, term=6)
    cluster.given_log(2, 1, *terms, term=6)
    cluster.given_log(3, 1, *[4] * 400 + [5] * 400, term=6)
    cluster.start(1)
    cluster.start(2)
    cluster.notice_all()
    cluster.elect(1)
    cluster.start_all()
    rejections = 0
    while cluster.wire:
        message = cluster.wire[0]
        rejections += isinstance(message, AppendResponse) and message.rejected
        cluster.deliver()
    cluster.flow()
    assert cluster.log(3) == cluster.log(1)
    assert 1 <= rejections <= 4


def test_a_follower_acknowledges_only_what_it_has_synced() -> None:
    cluster = Cluster(3)
    cluster.elect(1)
    cluster.propose(1)
    cluster.sync(1)
    cluster.deliver()
    cluster.deliver()
    assert not cluster.on_wire(AppendResponse)
    assert cluster[1].commit_index == 1
    cluster.sync(2)
    [answer] = cluster.on_wire(AppendResponse)
    assert isinstance(answer, AppendResponse)
    assert answer.synced_index == 2
    cluster.deliver()
    assert cluster[1].commit_index == 2


def test_a_leader_sends_before_and_counts_itself_after_its_own_sync() -> None:
    cluster = Cluster(2)
    cluster.elect(1)
    cluster.propose(1)
    cluster.deliver()
    cluster.sync(2)
    cluster.deliver()
    assert cluster[1].commit_index == 1
    cluster.sync(1)
    assert cluster[1].commit_index == 2


def test_followers_commit_what_the_leader_has_not_synced_itself() -> None:
    cluster = Cluster(3)
    cluster.elect(1)
    cluster.propose(1)
    while cluster.wire:
        cluster.deliver()
        cluster.sync(2)
        cluster.sync(3)
    assert cluster[1].log.synced_index == 1
    assert cluster[1].commit_index == 2


def test_many_proposals_become_one_append_per_peer() -> None:
    cluster = Cluster(3)
    cluster.elect(1)
    cluster.flow()
    for _ in range(5):
        assert cluster[1].propose([]) == []
    core = cluster[1]
    proposed = [core.propose([Proposal(1, 1, b"x")]) for _ in range(5)]
    assert [entries[0].last_index for entries in proposed] == [2, 3, 4, 5, 6]
    cluster.settle(1)
    appends = cluster.on_wire(AppendRequest)
    assert [len(append.entries) for append in appends] == [5, 5]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("config", "sent"),
    [
        (RaftConfig(inflight_messages_max=3), 3),
        (RaftConfig(inflight_bytes_max=2000, append_bytes_max=1000), 2),
    ],
    ids=["messages", "bytes"],
)
def test_flow_control_bounds_what_is_in_flight(config: RaftConfig, sent: int) -> None:
    cluster = Cluster(2, config=config)
    cluster.elect(1)
    cluster.flow()
    for _ in range(10):
        cluster.propose(1, size_bytes=999)
    assert len(cluster.on_wire(AppendRequest)) == sent
    cluster.flow()
    assert cluster[1].commit_index == 11


def test_an_append_is_at_most_so_long_but_an_entry_always_fits() -> None:
    cluster = Cluster(2, config=RaftConfig(append_bytes_max=100))
    cluster.elect(1)
    cluster.crash(2)
    cluster.notice_all()
    for size_bytes in (30, 30, 500, 30):
        cluster.propose(1, size_bytes=size_bytes)
    cluster.start(2)
    cluster.notice_all()
    lengths = []
    for _ in range(50):
        while cluster.wire:
            message = cluster.wire[0]
            if isinstance(message, AppendRequest) and message.entries:
                lengths.append(len(message.entries))
            cluster.deliver()
        cluster.sync(2)
    assert lengths == [2, 1, 1]


def test_a_lost_append_is_noticed_by_the_next_one() -> None:
    cluster = Cluster(2)
    cluster.elect(1)
    cluster.propose(1)
    cluster.wire.clear()
    cluster.propose(1)
    cluster.flow()
    assert cluster[1].commit_index == 3


def test_a_lost_last_append_is_noticed_by_the_retry() -> None:
    cluster = Cluster(2)
    cluster.elect(1)
    cluster.propose(1)
    cluster.wire.clear()
    cluster.flow()
    assert not cluster.is_quiet(1)
    cluster.tick(1, times=5)
    cluster.flow()
    assert cluster[1].commit_index == 2


def test_a_lost_acknowledgement_is_noticed_by_the_retry() -> None:
    cluster = Cluster(2)
    cluster.elect(1)
    cluster.propose(1)
    cluster.deliver()
    cluster.sync(2)
    cluster.wire.clear()
    cluster.sync(1)
    cluster.tick(1, times=5)
    [probe] = cluster.wire
    assert isinstance(probe, AppendRequest)
    assert not probe.entries  # nothing is sent twice that has arrived
    cluster.flow()
    assert cluster[1].commit_index == 2


def test_followers_learn_the_commit_index_at_the_next_tick() -> None:
    cluster = Cluster(3)
    cluster.elect(1)
    cluster.propose(1)
    cluster.flow()
    assert cluster[1].commit_index == 2
    assert cluster[2].commit_index == 1
    assert not cluster.is_quiet(1)
    cluster.tick(1)
    cluster.flow()
    assert cluster[2].commit_index == 2
    assert cluster.is_quiet(1)


def test_followers_learn_the_commit_index_at_once_if_asked_to() -> None:
    cluster = Cluster(3, config=RaftConfig(tell_commit_at_once=True))
    cluster.elect(1)
    cluster.propose(1)
    cluster.flow()
    assert [cluster[node].commit_index for node in (1, 2, 3)] == [2, 2, 2]
    assert cluster.is_quiet(1)


def test_a_dead_peer_is_sent_nothing_and_does_not_keep_the_leader_awake() -> None:
    cluster = Cluster(3, config=RaftConfig(in_sync_lag_ticks=10))
    cluster.elect(1)
    cluster.crash(3)
    cluster.notice_all()
    cluster.propose(1)
    assert all(message.to != 3 for message in cluster.wire)
    for _ in range(15):
        cluster.flow()
        cluster.tick(1)
    cluster.flow()
    assert cluster.is_quiet(1)


def test_a_duplicate_or_reordered_append_changes_nothing() -> None:
    cluster = Cluster(2)
    cluster.elect(1)
    cluster.propose(1)
    cluster.propose(1)
    cluster.deliver(1)
    cluster.deliver(keep=True)
    cluster.deliver()
    cluster.flow()
    cluster.propose(1)
    cluster.flow()
    assert cluster.log(2) == cluster.log(1)
    assert cluster[1].commit_index == 4


def test_a_sync_report_from_before_a_truncation_is_void() -> None:
    cluster = Cluster(3)
    cluster.elect(1)
    cluster.cut(1)
    cluster.propose(1, width=3)
    cluster.sync_disk(1)  # synced, but the report is late
    cluster.notice_all()
    cluster.elect(2)
    cluster.propose(2, width=3)
    cluster.heal()
    cluster.notice_all()
    while cluster[1].log.last_term != 2:
        cluster.deliver()
    assert cluster[1].log.synced_index == 1
    cluster.report_synced(1)
    assert cluster[1].log.synced_index == 1
    cluster.flow()
    assert cluster.log(1) == cluster.log(2)


# --- min_insync ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("min_insync", "synced", "commits"),
    [(1, 1, True), (2, 1, True), (3, 1, False), (3, 2, True), (9, 2, True)],
)
def test_commit_needs_a_majority_and_min_insync(
    min_insync: int, synced: int, commits: bool
) -> None:
    cluster = Cluster(3)
    cluster.elect(1)
    for member in cluster.members.values():
        member.min_insync = min_insync
        member.up.set_min_insync(min_insync)
    cluster.propose(1)
    cluster.sync(1)
    while cluster.wire:
        cluster.deliver()
        for node in range(2, 2 + synced):
            cluster.sync(node)
    assert (cluster[1].commit_index == 2) is commits


def test_elections_need_only_a_majority_whatever_min_insync_is() -> None:
    cluster = Cluster(3)
    for member in cluster.members.values():
        member.min_insync = 3
        member.up.set_min_insync(3)
    cluster.crash(3)
    cluster.notice_all()
    cluster.elect(1)
    assert cluster[1].commit_index == 0
    for node in (1, 2):
        cluster.members[NodeId(node)].min_insync = 2
        cluster[node].set_min_insync(2)
        cluster.settle(node)
    assert cluster[1].commit_index == 1


# --- in sync -----------------------------------------------------------------------------------


def test_a_voter_that_lags_leaves_the_in_sync_set_and_comes_back() -> None:
    cluster = Cluster(3, config=RaftConfig(in_sync_lag_ticks=10))
    cluster.elect(1)
    assert list(cluster[1].in_sync) == [1, 2, 3]
    cluster.propose(1)
    cluster.cut(3)  # silently
    cluster.flow()
    cluster.tick(1, times=10)
    assert list(cluster[1].in_sync) == [1, 2, 3]
    cluster.tick(1)
    assert list(cluster[1].in_sync) == [1, 2]
    assert list(cluster[2].in_sync) == []
    cluster.heal()
    cluster.tick(1, times=5)
    cluster.flow()
    assert list(cluster[1].in_sync) == [1, 2, 3]


def test_a_voter_that_is_always_a_little_behind_stays_in_sync() -> None:
    cluster = Cluster(2, config=RaftConfig(in_sync_lag_ticks=10))
    cluster.elect(1)
    for _ in range(40):
        cluster.propose(1)
        cluster.tick(1)
        while len(cluster.wire) > 1:  # the last append is always still on its way
            cluster.deliver()
            cluster.sync(2)
    assert cluster[1].peers[0].synced_index < cluster[1].log.last_index
    assert list(cluster[1].in_sync) == [1, 2]


def test_a_dead_voter_leaves_the_in_sync_set_at_once() -> None:
    cluster = Cluster(3, config=RaftConfig(in_sync_lag_ticks=10))
    cluster.elect(1)
    cluster.crash(3)
    cluster.notice_all()
    assert list(cluster[1].in_sync) == [1, 2]
    cluster.tick(1)
    cluster.flow()
    assert cluster.is_quiet(1)


def test_a_dead_voter_comes_back_into_the_in_sync_set_even_if_nothing_was_written() -> None:
    cluster = Cluster(3, config=RaftConfig(in_sync_lag_ticks=10))
    cluster.elect(1)
    cluster.tick(1)
    cluster.flow()  # 3 has everything, the commit index too
    cluster.crash(3)
    cluster.notice_all()
    cluster.tick(1, times=11)
    assert list(cluster[1].in_sync) == [1, 2]
    cluster.start(3)
    cluster.notice_all()
    cluster.flow()
    assert list(cluster[1].in_sync) == [1, 2, 3]
    assert cluster.is_quiet(1)


# --- holes and the log's start -------------------------------------------------------------------


def test_a_follower_gets_a_log_with_holes() -> None:
    cluster = Cluster(3)
    cluster.elect(1)
    cluster.crash(3)
    cluster.notice_all()
    kept = [cluster.propose(1, width=4).last_index for _ in range(6)]
    cluster.flow()
    for index in (1, kept[0], kept[2], kept[3]):
        cluster.remove(1, index)
    cluster.start(3)
    cluster.notice_all()
    cluster.flow()
    assert [at for at, _, _ in cluster.log(3)] == [1, kept[1], kept[4], kept[5]]
    assert cluster[3].log.last_index == cluster[1].log.last_index


def test_term_starts_are_exact_where_compaction_took_the_terms_first_entries() -> None:
    cluster = Cluster(3)
    cluster.elect(1)
    cluster.propose(1)
    cluster.crash(3)
    cluster.notice_all()
    cluster.flow()
    for node in (2, 1, 2):
        cluster[cluster.leader or 0].transfer_leadership(NodeId(node))
        cluster.settle(cluster.leader or 0)
        cluster.flow()
        cluster.propose(node)
        cluster.flow()
    for index in range(2, cluster[2].log.last_index):
        if any(entry.last_index == index for entry in cluster.members[NodeId(2)].live.entries):
            cluster.remove(2, index)
    cluster.start(3)
    cluster.notice_all()
    cluster.flow()
    assert cluster[3].log.term_starts == cluster[2].log.term_starts
    assert len(cluster[3].log.term_starts) == 4


def test_a_peer_that_needs_what_is_gone_gets_a_snapshot() -> None:
    cluster = Cluster(3)
    cluster.elect(1)
    cluster.crash(3)
    cluster.notice_all()
    entries = [cluster.propose(1, width=5) for _ in range(5)]
    cluster.flow()
    cluster.compact(1, entries[2].last_index)
    cluster.start(3)
    cluster.notice_all()
    cluster.flow()
    assert cluster[3].log.start_index == entries[2].last_index
    assert cluster[3].log.last_index == cluster[1].log.last_index
    cluster.tick(1)
    cluster.flow()
    assert cluster[3].commit_index == cluster[1].commit_index
    assert cluster.is_quiet(1)


def test_a_lost_snapshot_is_sent_again() -> None:
    cluster = Cluster(2, config=RaftConfig(snapshot_retry_ticks=7))
    cluster.elect(1)
    last = cluster.propose(1).last_index
    cluster.flow()
    cluster.compact(1, last)
    cluster.crash(2)
    member = cluster.members[NodeId(2)]
    member.lost.append(member.durable)
    member.durable = DiskImage(member.durable.base)
    cluster.start(2)
    cluster.notice_all()
    cluster.deliver()  # the probe; it is rejected
    cluster.deliver()
    assert len(cluster.on_wire(SnapshotRequest)) == 1
    cluster.wire.clear()
    cluster.tick(1, times=6)
    assert not cluster.wire
    cluster.tick(1)
    cluster.flow()
    assert cluster[2].log.start_index == last


def test_a_snapshot_that_cannot_be_made_is_asked_for_again() -> None:
    cluster, work = snapshot_to_send(RaftConfig(snapshot_retry_ticks=7))
    cluster[1].on_snapshot_failed(work)
    cluster.tick(1, times=7)
    assert [type(item) for item in cluster.members[NodeId(1)].work] == [SendSnapshot]
    cluster.flow()
    assert cluster[3].log.last_index == cluster[1].log.last_index


def test_a_snapshot_of_what_is_already_there_is_only_acknowledged() -> None:
    cluster = Cluster(2)
    cluster.elect(1)
    last = cluster.propose(1).last_index
    cluster.flow()
    placed = cluster.members[NodeId(1)].live.base
    cluster[2].step(
        SnapshotRequest(GROUP, NodeId(1), NodeId(2), Term(1), last, Term(1), placed, b"")
    )
    cluster.settle(2)
    assert cluster[2].commit_index == last
    assert cluster[2].log.start_index == 0
    [answer] = cluster.wire
    assert isinstance(answer, AppendResponse)
    assert answer.synced_index == last


def test_work_from_before_a_change_is_void() -> None:
    cluster = Cluster(2, is_lazy=True)
    cluster.elect(1)
    entry = cluster.propose(1)
    work = cluster.members[NodeId(1)].work.popleft()
    assert isinstance(work, Replicate)
    cluster[1].resign()
    cluster.settle(1)
    assert cluster[1].fill(work, [entry]) is None


def test_a_follower_that_has_lost_what_it_acknowledged_gets_it_again() -> None:
    # Only possible with `write.caching`, where the user has chosen so.
    cluster = Cluster(3)
    cluster.elect(1)
    for _ in range(3):
        cluster.propose(1)
    cluster.flow()
    cluster.crash(3)
    member = cluster.members[NodeId(3)]
    image = member.durable
    member.lost.append(image.copy())
    image.entries, image.last_index = image.entries[:2], 2
    cluster.start(3)
    cluster.notice_all()
    cluster.flow()
    assert cluster.log(3) == cluster.log(1)
    assert cluster[1].peers[1].state is ProgressState.REPLICATE


def follower_of_five(*, is_volatile: bool) -> RaftCore:
    """Return a follower with entries 1 to 5 of term 1, all known to be committed."""
    configuration = Configuration(voters=(NodeId(1), NodeId(2), NodeId(3)))
    restored = RestoredState(
        hard_state=HardState(Term(1), None),
        term_starts=[TermStart(Term(1), 1)],
        last_index=5,
        commit_index=5,
        configurations=[PlacedConfiguration(0, configuration)],
    )
    return RaftCore(
        group=GROUP,
        node=NodeId(3),
        restored=restored,
        config=RaftConfig(),
        jitter=lambda bound: 0,
        is_volatile=is_volatile,
    )


def append_to_3(prev: tuple[int, int], *entries: EntryMeta) -> AppendRequest:
    starts = [TermStart(entry.term, entry.first_index) for entry in entries[:1]]
    head = (GROUP, NodeId(1), NodeId(3), Term(3))
    return AppendRequest(*head, prev[0], Term(prev[1]), 0, starts, entries)


def test_a_volatile_log_follows_its_leader_back_behind_its_commit_index() -> None:
    core = follower_of_five(is_volatile=True)
    core.step(append_to_3((4, 2)))
    ready = core.take_ready()
    assert ready is not None
    [no] = ready.messages
    assert isinstance(no, AppendResponse)
    assert (no.rejected, no.hint_index, no.hint_term) == (True, 4, 1)
    core.step(append_to_3((3, 1), _entry(4, 4, 3)))
    ready = core.take_ready()
    assert ready is not None
    assert (ready.truncate_to, ready.commit_index, core.commit_index) == (3, 3, 3)
    assert core.log.last_index == 4


def test_a_durable_log_does_not_follow_its_leader_behind_its_commit_index() -> None:
    core = follower_of_five(is_volatile=False)
    core.step(append_to_3((3, 1), _entry(4, 4, 3)))
    assert core.log.last_index == 5
    with pytest.raises(RaftInvariantBroken, match="has term 3 at 5, which is committed here"):
        core.step(append_to_3((3, 1), _entry(4, 4, 3), _entry(5, 6, 3)))


def test_a_log_becomes_volatile_while_its_leader_leads() -> None:
    core = follower_of_five(is_volatile=False)
    core.step(append_to_3((3, 1), _entry(4, 4, 3)))
    core.set_volatile()
    core.step(append_to_3((3, 1), _entry(4, 4, 3), _entry(5, 6, 3)))
    ready = core.take_ready()
    assert ready is not None
    assert (ready.truncate_to, core.log.last_index) == (3, 6)


def test_a_volatile_leader_passes_over_what_a_peer_goes_by_that_is_not() -> None:
    """Its broker has yet to hear of `write.caching`; then it compares."""
    cluster = Cluster(3)
    cluster.elect(1)
    leader = cluster[1]
    leader.set_volatile()
    end = leader.log.last_index
    head = (GROUP, NodeId(3), NodeId(1), leader.term)
    leader.step(AppendResponse(*head, False, 0, end + 5, end + 5, end + 5, 0, Term(0), 0))
    assert leader.is_leader
    assert leader.commit_index <= end


# --- a peer's mistakes, and ours -----------------------------------------------------------------


def _entry(first: int, last: int, term: int, kind: EntryKind = EntryKind.DATA) -> EntryMeta:
    return EntryMeta(first, last, Term(term), kind, 1, b"x")


@pytest.mark.parametrize(
    ("starts", "entries"),
    [
        ((), [_entry(2, 3, 1), _entry(3, 4, 1)]),
        ((), [_entry(4, 4, 1), _entry(2, 3, 1)]),
        ((), [_entry(2, 2, 2)]),
        (((1, 2),), [_entry(2, 2, 1)]),
        (((9, 2),), [_entry(2, 2, 9)]),
        (((2, 4),), [_entry(2, 2, 1)]),
        (((2, 3),), [_entry(2, 4, 1)]),
        ((), [_entry(1, 2, 1)]),
        ((), [_entry(2, 2, 1, EntryKind.CONFIG)]),
    ],
    ids=[
        "overlap",
        "order",
        "term-without-start",
        "term-repeats",
        "term-after-leaders",
        "start-after-the-end",
        "start-inside-an-entry",
        "entry-over-the-end",
        "configuration",
    ],
)
def test_an_append_that_contradicts_itself_is_refused_and_changes_nothing(
    starts: tuple[tuple[int, int], ...], entries: list[EntryMeta]
) -> None:
    cluster = Cluster(2)
    cluster.elect(1)
    assert cluster[2].log.last_index == 1
    core = cluster[2]
    append = AppendRequest(
        GROUP,
        NodeId(1),
        NodeId(2),
        Term(1),
        1,
        Term(1),
        0,
        tuple(TermStart(Term(term), first) for term, first in starts),
        entries,
    )
    with pytest.raises(MalformedRaftMessage):
        core.step(append)
    assert core.log.last_index == 1
    assert core.take_ready() is None


def test_a_message_for_somebody_else_is_refused() -> None:
    cluster = Cluster(2)
    for group, to in ((GROUP + 1, 1), (GROUP, 2)):
        with pytest.raises(MalformedRaftMessage):
            cluster[1].step(
                AppendRequest(GroupId(group), NodeId(2), NodeId(to), Term(1), 0, Term(0), 0, (), ())
            )


def test_a_leader_that_contradicts_what_is_committed_is_reported() -> None:
    cluster = Cluster(3)
    cluster.elect(1)
    cluster.propose(1)
    cluster.flow()
    cluster.tick(1)
    cluster.flow()
    assert cluster[2].commit_index == 2
    for prev_index, starts, entries in (
        (2, (), ()),
        (1, (TermStart(Term(2), 2),), [_entry(2, 2, 2), _entry(3, 3, 2)]),
    ):
        append = AppendRequest(
            GROUP,
            NodeId(3),
            NodeId(2),
            Term(9),
            prev_index,
            Term(2 if prev_index == 2 else 1),
            0,
            starts,
            entries,
        )
        with pytest.raises(RaftInvariantBroken, match="committed here"):
            cluster[2].step(append)


def test_an_acknowledgement_beyond_the_leaders_log_is_reported() -> None:
    cluster = Cluster(2)
    cluster.elect(1)
    answer = AppendResponse(GROUP, NodeId(2), NodeId(1), Term(1), False, 0, 5, 5, 0, 0, Term(0))
    with pytest.raises(RaftInvariantBroken, match="acknowledges 5"):
        cluster[1].step(answer)
