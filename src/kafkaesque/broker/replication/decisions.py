"""What the groups on a broker decide, counted and told in the log: one line for each decision."""

from collections.abc import Callable, Sequence

from kafkaesque.broker.activity import Activity
from kafkaesque.model.ids import NodeId
from kafkaesque.model.log_line import LogLine
from kafkaesque.raft.ready import Role


class Decisions:
    """Hears of them from all replicas of a broker; `name` is topic and partition."""

    __slots__ = ("_activity", "_report")

    def __init__(self, activity: Activity, report: Callable[[str], None]) -> None:
        self._activity = activity
        self._report = report

    def on_role(
        self, name: str, role: Role, term: int, *, was_leading: bool, leader: NodeId | None
    ) -> None:
        """A replica has another role, or the same one in another term."""
        if role is Role.CANDIDATE:
            self._activity.elections_begun += 1
        elif role is Role.LEADER:
            self._activity.elections_won += 1
            sentence = f"{name}: this broker leads in term {term}"
            self._report(LogLine("election.won", sentence, partition=name, term=term))
        if was_leading and role is not Role.LEADER:
            self._activity.leaderships_lost += 1
            who = "the leader is not known" if leader is None else f"broker {leader} leads"
            sentence = f"{name}: this broker no longer leads; in term {term} {who}"
            self._report(
                LogLine("leadership.lost", sentence, partition=name, term=term, leader=leader)
            )

    def on_in_sync(
        self, name: str, term: int, before: Sequence[NodeId], now: Sequence[NodeId], voters: int
    ) -> None:
        """A leader's in-sync set has changed; `before` is empty early in its term."""
        if not before:
            return
        for node in sorted(set(before) - set(now)):
            self._activity.in_sync_shrinks += 1
            self._tell_in_sync("isr.shrunk", f"broker {node} is out of", name, term, now, voters)
        for node in sorted(set(now) - set(before)):
            self._activity.in_sync_expands += 1
            self._tell_in_sync("isr.expanded", f"broker {node} is in", name, term, now, voters)

    def _tell_in_sync(
        self, event: str, who: str, name: str, term: int, now: Sequence[NodeId], voters: int
    ) -> None:
        left = ",".join(map(str, sorted(now)))
        sentence = f"{name}: {who} sync; in sync are {left}, of {voters} replicas"
        self._report(LogLine(event, sentence, partition=name, term=term, in_sync=left))

    def on_truncated(self, name: str, term: int, end_offset: int) -> None:
        """A follower has given up the end of its log."""
        self._activity.truncations += 1
        sentence = (
            f"{name}: truncated to offset {end_offset}: what came after differs from the log of "
            f"the leader of term {term}"
        )
        self._report(
            LogLine("log.truncated", sentence, partition=name, term=term, offset=end_offset)
        )

    def on_readmitted(self, name: str, term: int, *, may_vote: bool) -> None:
        """A replica that had lost its log, or has never had one, has it."""
        sentence = f"{name}: this broker has its copy{' again, and may vote' if may_vote else ''}"
        self._report(LogLine("replica.readmitted", sentence, partition=name, term=term))


def committed_lost(name: str, term: int, end_offset: int, count: int) -> LogLine:
    """Return what is told of committed records that a replica had and its leader has not."""
    sentence = (
        f"{name}: {count} record(s) from offset {end_offset} on had been acknowledged, and are "
        f"lost: the topic has, or had, write.caching, and the leader of term {term} and a majority "
        "of the replicas do not have them: they lost power before these were synced"
    )
    return LogLine(
        "records.lost", sentence, partition=name, term=term, offset=end_offset, count=count
    )
