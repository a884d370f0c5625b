"""What a leader knows of one peer's log.

Theory of operation. PROBE: it is not known where the logs agree; one message at a time is out.
REPLICATE: they agree up to `next_index` - 1 if all that was sent arrives, so appends follow one
another without waiting, up to the in-flight bounds. SNAPSHOT: the peer needs what the leader's log
no longer has; appends wait until it is there.
"""

from enum import Enum

from kafkaesque.model.ids import NodeId
from kafkaesque.raft.errors import RaftInvariantBroken


class ProgressState(Enum):
    """How entries go to a peer."""

    PROBE = "probe"
    REPLICATE = "replicate"
    SNAPSHOT = "snapshot"


_TRANSITIONS = {
    ProgressState.PROBE: (ProgressState.PROBE, ProgressState.REPLICATE, ProgressState.SNAPSHOT),
    ProgressState.REPLICATE: (ProgressState.PROBE, ProgressState.SNAPSHOT),
    ProgressState.SNAPSHOT: (ProgressState.PROBE,),
}

#: Before any tick: a peer that has never been caught up.
NEVER_TICK = -(2**62)


class PeerProgress:
    """One peer (or the leader itself, of which only `synced_index` is used)."""

    __slots__ = (
        "amnesia",
        "awaits_answer",
        "caught_up_tick",
        "goal_index",
        "goal_tick",
        "heard_tick",
        "inflight",
        "inflight_bytes",
        "is_absent",
        "is_alive",
        "is_due",
        "is_in_sync",
        "is_readmit_due",
        "next_index",
        "node",
        "peer_commit_index",
        "readmit_index",
        "sent_commit_index",
        "sent_tick",
        "state",
        "synced_index",
        "work",
    )

    def __init__(self, node: NodeId, next_index: int, tick: int, *, is_alive: bool) -> None:
        self.node = node
        self.state = ProgressState.PROBE
        #: The next entry to send starts here or, over a hole, after.
        self.next_index = next_index
        #: Agrees with the leader's log and is durable there.
        self.synced_index = 0
        #: What the peer said it knows to be committed, and what it was last told.
        self.peer_commit_index = 0
        self.sent_commit_index = 0
        #: The driver's word on the peer's process.
        self.is_alive = is_alive
        #: Its process lives, but has said that the group is not there.
        self.is_absent = False
        #: Listed by the leader as having something to be sent.
        self.is_due = False
        #: The `Replicate` or `SendSnapshot` that is with the driver. At most one; whatever else
        #: comes back is from before the peer was lost or left.
        self.work: object | None = None
        #: Something was sent at `sent_tick` and nothing was heard since.
        self.awaits_answer = False
        self.sent_tick = tick
        #: When it last answered; never, too, if it was lost or not there since.
        self.heard_tick = NEVER_TICK
        #: (last index, bytes) of appends that are not known to be durable there.
        self.inflight: list[tuple[int, int]] = []
        self.inflight_bytes = 0
        #: At `caught_up_tick` it last had all that the leader had; `goal_index` was all that the
        #: leader had at `goal_tick`, so reaching it proves a later `caught_up_tick`.
        self.caught_up_tick = NEVER_TICK
        self.goal_index = 0
        self.goal_tick = tick
        self.is_in_sync = False
        #: The number of a loss that the peer is not over; it does not count meanwhile.
        self.amnesia = 0
        #: The first index that the leader has given away since it knows of that loss.
        self.readmit_index = 0
        #: The peer has told of its loss, and was not answered yet.
        self.is_readmit_due = False

    def turn(self, state: ProgressState, next_index: int) -> None:
        """Change the state; whatever was in flight no longer counts.

        Raises:
            RaftInvariantBroken: this transition does not exist.
        """
        if state not in _TRANSITIONS[self.state]:
            raise RaftInvariantBroken(f"peer {self.node}: {self.state} -> {state}")
        self.state = state
        self.next_index = next_index
        self.inflight.clear()
        self.inflight_bytes = 0
        self.awaits_answer = False

    def on_sent(self, last_index: int, size_bytes: int, tick: int) -> None:
        """Count an append with entries as on its way."""
        if self.state is ProgressState.REPLICATE:
            self.inflight.append((last_index, size_bytes))
            self.inflight_bytes += size_bytes
            self.next_index = last_index + 1
        self.awaits_answer = True
        self.sent_tick = tick

    def on_synced(self, index: int) -> None:
        """Take the peer's word that it has everything up to `index`."""
        if index > self.synced_index:
            self.synced_index = index
            inflight = self.inflight
            if inflight and inflight[-1][0] <= index:
                inflight.clear()
                self.inflight_bytes = 0
            while inflight and inflight[0][0] <= index:
                self.inflight_bytes -= inflight.pop(0)[1]

    def note_caught_up(self, last_index: int, tick: int) -> None:
        """Move `caught_up_tick` on, if the peer has what the leader had at some later tick."""
        if self.synced_index >= last_index:
            self.caught_up_tick = tick
        elif self.synced_index >= self.goal_index:
            self.caught_up_tick = self.goal_tick
        else:
            return
        self.goal_index = last_index
        self.goal_tick = tick
