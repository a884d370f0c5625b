"""The paper's figure 8, and proof that the harness sees a core that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkaesque.model.ids import NodeId, Term
from kafkaesque.raft.config import RaftConfig
from kafkaesque.raft.configuration import Configuration
from kafkaesque.raft.confirmation import Confirmation
from kafkaesque.raft.elector import Elector
from kafkaesque.raft.errors import RaftInvariantBroken
from kafkaesque.raft.follower_log import FollowerLog
from kafkaesque.raft.leadership import Leadership
from kafkaesque.raft.log_outline import LogOutline
from kafkaesque.raft.messages import (
    Readmit,
    VoteRequest,
    VoteResponse,
)
from kafkaesque.raft.progress import PeerProgress
from kafkaesque.raft.restored_state import RestoredState
from tests.unit.raft.checker import Violation
from tests.unit.raft.disk_image import DiskImage
from tests.unit.raft.harness import GROUP, Cluster
from tests.unit.raft.seeded import SeededRun

SEEDS_MAX = 1_500


def figure_8() -> Cluster:
    """Play figure 8 from (c): an entry of term 2 gets on a majority under the leader of term 4."""
    cluster = Cluster(
        5, start=False, config=RaftConfig(inflight_messages_max=1, append_bytes_max=1)
    )
    cluster.given_log(1, 1, 2, term=3)
    cluster.given_log(2, 1, 2, term=3)
    cluster.given_log(3, 1, term=3)
    cluster.given_log(4, 1, term=3)
    cluster.given_log(5, 1, 3, term=3)
    for node in (1, 2, 3, 4):
        cluster.start(node)
    cluster.notice_all()
    cluster[1].campaign()
    cluster.settle(1)
    while not cluster.leads(1):
        for node in (1, 2, 3, 4):
            cluster.sync(node)
        cluster.deliver()
    cluster.cut(4)
    cluster.sync(1)
    s1 = cluster.members[NodeId(1)]
    # S2 and S3 have the old entry and S1 knows it; S3 has nothing of S1's own term yet.
    while any(peer.synced_index < 2 for peer in s1.up.peers[:2]):
        cluster.sync(2)
        cluster.sync(3)
        cluster.deliver()
    assert s1.up.peers[1].synced_index == 2
    assert sum(m.durable.has(2, Term(2)) for m in cluster.members.values()) == 3
    return cluster


def test_figure_8_an_old_terms_entry_is_not_committed_by_counting_replicas() -> None:
    cluster = figure_8()
    assert cluster[1].commit_index == 0
    cluster.crash(1)
    cluster.heal()
    cluster.start(5)
    cluster.notice_all()
    cluster.wire.clear()
    cluster.elect(5)  # (d): S5 may still overwrite it, with the votes of S3 and S4
    assert cluster.log(2)[1] == (2, 3, "3.2")


def test_figure_8_e_once_an_entry_of_its_own_term_is_committed_so_is_the_old_one() -> None:
    cluster = figure_8()
    cluster.flow()
    cluster.tick(1, times=5)
    cluster.flow()
    assert cluster[1].commit_index == 3
    cluster.crash(1)
    cluster.heal()
    cluster.start(5)
    cluster.notice_all()
    cluster[5].campaign()
    cluster.settle(5)
    cluster.flow()
    assert cluster.leader != 5
    cluster.elect(2)
    assert cluster.log(5)[1] == (2, 2, "2.2")


# --- planted bugs: each must be seen -------------------------------------------------------------

Patch = Callable[[pytest.MonkeyPatch], None]


def commit_an_old_terms_entry_by_counting(patch: pytest.MonkeyPatch) -> None:
    original = Leadership.advance_commit

    def wrong(self: Leadership) -> bool:
        self._term_first_index = 0
        return original(self)

    patch.setattr(Leadership, "advance_commit", wrong)


def acknowledge_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    original = FollowerLog.answer

    def wrong(self: FollowerLog, leader: NodeId, term: Term) -> None:
        self._log.synced_index = self._log.last_index
        original(self, leader, term)

    patch.setattr(FollowerLog, "answer", wrong)


def count_the_leader_before_its_sync(patch: pytest.MonkeyPatch) -> None:
    original = Leadership.advance_commit

    def wrong(self: Leadership) -> bool:
        self._own.synced_index = self._log.last_index
        return original(self)

    patch.setattr(Leadership, "advance_commit", wrong)


def vote_twice_in_a_term(patch: pytest.MonkeyPatch) -> None:
    original = Elector._on_vote_request

    def wrong(self: Elector, message: VoteRequest) -> None:
        self._vote = None
        original(self, message)

    patch.setattr(Elector, "_on_vote_request", wrong)


def give_a_vote_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    original = Elector._answer_vote

    def wrong(self: Elector, request: VoteRequest, *, granted: bool) -> None:
        self._is_hard_state_synced = True
        original(self, request, granted=granted)

    patch.setattr(Elector, "_answer_vote", wrong)


def forget_the_vote_at_a_restart(patch: pytest.MonkeyPatch) -> None:
    original = DiskImage.restored

    def wrong(self: DiskImage) -> RestoredState:
        self.hard_state = self.hard_state._replace(vote=None)
        return original(self)

    patch.setattr(DiskImage, "restored", wrong)


def vote_for_an_older_log(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogOutline, "is_at_least", lambda *_: True)


def believe_a_sync_report_from_before_a_truncation(patch: pytest.MonkeyPatch) -> None:
    original = LogOutline.truncate

    def wrong(self: LogOutline, last_index: int) -> None:
        generation = self.generation
        original(self, last_index)
        self.generation = generation

    patch.setattr(LogOutline, "truncate", wrong)


def keep_what_differs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogOutline, "first_difference", lambda *_: None)


def decide_with_half_of_a_joint_configuration(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Configuration, "halves", property(lambda self: (self.voters,)))
    wrong: Any = Cluster._check_commit

    def checked(self: Cluster, member: Any, index: int) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(
                Configuration,
                "halves",
                property(lambda c: tuple(half for half in (c.voters, c.voters_outgoing) if half)),
            )
            wrong(self, member, index)

    patch.setattr(Cluster, "_check_commit", checked)


def ignore_min_insync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leadership, "_with_quorum", lambda self, half: (half, len(half) // 2 + 1))


def vote_after_losing_everything(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Elector, "amnesia", property(lambda self: 0))


def readmit_who_is_still_a_voter(patch: pytest.MonkeyPatch) -> None:
    original = Leadership._on_amnesia

    def wrong(self: Leadership, peer: PeerProgress, amnesia: int) -> None:
        original(self, peer, amnesia)
        if amnesia:
            self._outbox.send(Readmit(self._group, self._node, peer.node, self._term, amnesia, 0))

    patch.setattr(Leadership, "_on_amnesia", wrong)


def change_the_members_by_leaps(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Configuration, "joined_with", lambda self, target: target)


def take_a_quorum_for_everybody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leadership, "everywhere_index", property(lambda self: self._log.commit_index))


def leave_the_dead_out_of_everybody(patch: pytest.MonkeyPatch) -> None:
    def wrong(self: Leadership) -> int:
        living = [peer.synced_index for peer in self.peers if peer.is_alive]
        return min([self._own.synced_index, *living])

    patch.setattr(Leadership, "everywhere_index", property(wrong))


@pytest.mark.parametrize(
    "plant",
    [
        acknowledge_before_the_sync,
        pytest.param(believe_a_sync_report_from_before_a_truncation, marks=pytest.mark.extended),
        change_the_members_by_leaps,
        count_the_leader_before_its_sync,
        decide_with_half_of_a_joint_configuration,
        give_a_vote_before_it_is_durable,
        ignore_min_insync,
        keep_what_differs,
        leave_the_dead_out_of_everybody,
        take_a_quorum_for_everybody,
        vote_after_losing_everything,
        vote_for_an_older_log,
        vote_twice_in_a_term,
    ],
    ids=lambda plant: plant.__name__,
)
def test_a_planted_bug_is_seen(plant: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    for seed in range(SEEDS_MAX):
        try:
            SeededRun(seed).run(steps=600)
        except (Violation, RaftInvariantBroken):
            return
    pytest.fail(f"{SEEDS_MAX} runs did not see it")


def test_a_leader_that_takes_silence_for_consent_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Confirmation, "_majority_of", lambda self, half, own: self.sent)
    for seed in range(SEEDS_MAX):
        try:
            SeededRun(seed, reads=True).run(steps=600)
        except Violation:
            return
    pytest.fail(f"{SEEDS_MAX} runs did not see it")


def test_who_is_readmitted_too_early_lets_an_old_log_win(monkeypatch: pytest.MonkeyPatch) -> None:
    readmit_who_is_still_a_voter(monkeypatch)
    cluster = Cluster(3)
    cluster.elect(1)
    cluster.flow()
    cluster.cut(3)
    cluster.notice_all()
    cluster.propose(1)
    cluster.flow()  # on 1 and 2, and so committed
    cluster.lose_disk(2)
    cluster.notice_all()
    cluster.start(2)
    cluster.notice_all()
    while cluster[2].amnesia:  # 2 hears of 1, and gets nothing yet
        cluster.sync(1)
        cluster.sync(2)
        cluster.deliver()
    cluster.crash(1)
    cluster.heal()
    cluster.wire.clear()
    cluster.notice_all()
    with pytest.raises(Violation, match="leader completeness"):
        cluster.elect(3)


def asked_by_two_candidates_of_one_term() -> Cluster:
    """Let a voter crash and restart between two candidates' requests in the same term."""
    cluster = Cluster(3)
    for candidate in (1, 3):
        request = VoteRequest(
            GROUP, NodeId(candidate), NodeId(2), Term(5), 0, Term(0), False, False
        )
        cluster[2].step(request)
        cluster.settle(2)
        cluster.sync(2)
        cluster.crash(2)
        cluster.start(2)
    return cluster


def test_one_vote_per_term_survives_a_restart() -> None:
    answers = asked_by_two_candidates_of_one_term().on_wire(VoteResponse)
    assert [(m.to, m.granted) for m in answers if isinstance(m, VoteResponse)] == [
        (1, True),
        (3, False),
    ]


def test_a_vote_that_is_forgotten_at_a_restart_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_the_vote_at_a_restart(monkeypatch)
    with pytest.raises(Violation, match="node 2 votes twice in term 5"):
        asked_by_two_candidates_of_one_term()


def test_a_planted_bug_is_seen_in_figure_8(monkeypatch: pytest.MonkeyPatch) -> None:
    commit_an_old_terms_entry_by_counting(monkeypatch)
    cluster = figure_8()
    cluster.crash(1)
    cluster.heal()
    cluster.start(5)
    cluster.notice_all()
    cluster.wire.clear()
    with pytest.raises(Violation, match="leader completeness"):
        cluster.elect(5)
