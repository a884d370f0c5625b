"""Whether a leader leads still, asked before what it says counts (ReadIndex, dissertation 6.4).

Theory of operation. A leader that was deposed need not know it yet: whoever reads from it then
reads the past. So it asks all its peers, in numbered *rounds*. One that answers a round had seen no
later term by then. When a majority has answered, this leader among it, nobody else had been elected
when the round was sent; so all that was committed by then is in this leader's log, and committed
there too once its own term has begun.

Those who ask within one turn share a round. One that is not answered is asked again.
"""

from collections.abc import Sequence

from kafkaesque.model.ids import NodeId
from kafkaesque.raft.progress import PeerProgress


class Confirmation:
    """The rounds of one leader in one term; numbers count from 1."""

    __slots__ = ("_answered", "asked", "confirmed", "sent", "sent_tick")

    def __init__(self) -> None:
        self._answered: dict[NodeId, int] = {}
        #: The newest round that somebody waits for, that was sent, and that a majority answered.
        self.asked = 0
        self.sent = 0
        self.confirmed = 0
        self.sent_tick = 0

    @property
    def is_due(self) -> bool:
        """Whether a round is to be sent."""
        return self.asked > self.sent

    @property
    def is_open(self) -> bool:
        """Whether somebody waits."""
        return self.asked > self.confirmed

    def ask(self) -> int:
        """Return the round whose confirmation is true of this moment."""
        if self.asked == self.sent:
            self.asked += 1
        return self.asked

    def on_sent(self, tick: int) -> None:
        """The newest round leaves, for the first time or again."""
        self.sent = self.asked
        self.sent_tick = tick

    def on_answer(self, node: NodeId, number: int) -> None:
        """A peer has answered a round."""
        if self._answered.get(node, 0) < number <= self.sent:
            self._answered[node] = number

    def count(self, halves: Sequence[Sequence[PeerProgress]], own: PeerProgress) -> bool:
        """Tell whether a majority of each half of the configuration has now answered a newer one.

        `own` stands for the leader itself, where it is a voter.
        """
        number = min(self._majority_of(half, own) for half in halves)
        if number <= self.confirmed:
            return False
        self.confirmed = number
        return True

    def _majority_of(self, half: Sequence[PeerProgress], own: PeerProgress) -> int:
        answered = [self.sent if peer is own else self._answered.get(peer.node, 0) for peer in half]
        return sorted(answered, reverse=True)[len(half) // 2]
