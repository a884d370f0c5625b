"""What a group's state machine sees of the group: its replica on this broker, and what happens.

`kafkaesque.broker.replication.raft_driver` implements `Replica`; partitions and the controller
implement `ReplicaListener`. All calls to a listener come between the turns of the loop, in the
order in which things happened, and never inside a call that the listener itself makes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from kafkaesque.env.disk import Buffer
from kafkaesque.model.ids import NodeId, Offset


@dataclass(slots=True)
class AppendedBatch:
    """A record batch that has come into this replica's log; it may still be cut off again.

    Treat as immutable; not frozen, as every produce makes one.
    """

    base_offset: Offset
    next_offset: Offset
    data: Buffer


class Appended(NamedTuple):
    """Where a proposed batch went."""

    base_offset: Offset
    next_offset: Offset
    term: int


class ReplicaListener(Protocol):
    """A state machine fed by a group."""

    def on_leading(self, term: int) -> None:
        """This replica leads from here on; nothing of an earlier term is committed later."""

    def on_following(self, term: int, leader: NodeId | None) -> None:
        """This replica does not lead, in this term."""

    def on_appended(self, batches: Sequence[AppendedBatch]) -> None:
        """Batches are in the log (buffered), in order, on the leader and on followers."""

    def on_truncated(self, end_offset: Offset) -> None:
        """What was appended from this offset on is gone.

        It had not been committed, unless the topic has, or had, `write.caching`.
        """

    def on_start_capped(self, end_offset: Offset) -> None:
        """The log was to start where it has yet to grow to; it starts at its end for now.

        What lies between may never come.
        """

    def on_durable(self, end_offset: Offset) -> None:
        """What is before this offset is as durable here as the topic asks for."""

    def on_committed(self, high_watermark: Offset) -> None:
        """What is before this offset is committed and will never be cut off; see `on_truncated`."""

    def on_failed(self, error: Exception) -> None:
        """The disk below the log failed: nothing more is appended or acknowledged here."""

    def write_snapshot(self, start_offset: Offset) -> tuple[Offset, bytes]:
        """Return what a new replica must know besides the log, and where its log is to begin.

        That is at `start_offset`, where this one begins, or where the state ends if that is later.
        """

    def on_snapshot(
        self, payload: bytes, term: int, start_offset: Offset, install: Callable[[], None]
    ) -> None:
        """This replica is too far behind: its log is about to be emptied and to begin here.

        The leader of `term` says so.

        Take the leader's state, then call `install`, at once or when the state is durable.
        """
