"""What the handlers of one table share."""

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from types import MappingProxyType

from kafkaesque.groups.config import GroupConfig
from kafkaesque.groups.consumer.config import ConsumerTimes
from kafkaesque.groups.consumer.expressions import Expressions
from kafkaesque.groups.consumer.group import ConsumerGroup
from kafkaesque.groups.consumer.leftovers import Leftovers, tombstones
from kafkaesque.groups.consumer.records import ConsumerGroupKey, KeyKind
from kafkaesque.groups.consumer.topics import TopicCatalog
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.group import Group
from kafkaesque.groups.offsets import OffsetStore
from kafkaesque.groups.pending_offsets import PendingOffsets
from kafkaesque.groups.results import AppendInTransaction, Result, Work
from kafkaesque.tables.core import TableContext
from kafkaesque.tables.log_table import Append, LogRecord, RequestToken, Respond, WriteToken
from kafkaesque.tables.timers import TimerQueue
from kafkaesque.tables.write_queue import WriteQueue


class TimerKind(Enum):
    """What a deadline is for."""

    #: The first members of a group gather.
    INITIAL_JOIN = "initial join"
    #: All members are to join again.
    JOIN = "join"
    #: All members are to ask for their assignment.
    SYNC = "sync"
    #: A member is to show that it lives, or a pending one to join.
    SESSION = "session"
    #: A member of a group of the new kind is to show that it lives.
    CONSUMER_SESSION = "consumer session"
    #: Such a member is to give up what it was told to.
    REVOCATION = "revocation"
    #: A classic member of such a group is to join again.
    CLASSIC_JOIN = "classic join"
    #: It is to ask for its assignment.
    CLASSIC_SYNC = "classic sync"


#: Those of members of groups of the new kind.
CONSUMER_TIMERS = (
    TimerKind.CONSUMER_SESSION,
    TimerKind.REVOCATION,
    TimerKind.CLASSIC_JOIN,
    TimerKind.CLASSIC_SYNC,
)

#: Group, purpose, member (for sessions).
TimerKey = tuple[str, TimerKind, str]


class Context(TableContext[GroupError, Work]):
    """State and ways out of one table."""

    __slots__ = (
        "config",
        "consumer_groups",
        "default_times",
        "expressions",
        "groups",
        "knows_topics",
        "leftovers",
        "offsets",
        "pending",
        "timers",
        "times",
        "topics",
    )

    def __init__(
        self, config: GroupConfig, times: Mapping[str, ConsumerTimes] = MappingProxyType({})
    ) -> None:
        late = GroupError.COORDINATOR_NOT_AVAILABLE
        super().__init__(WriteQueue(timeout_ms=config.write_timeout_ms, late=late))
        self.config = config
        #: Of groups of the new kind that nothing was set for, and what was set for the others.
        self.default_times = config.consumer.times
        self.times = times
        #: The classic ones. An id is in one of the two at most.
        self.groups: dict[str, Group] = {}
        self.consumer_groups: dict[str, ConsumerGroup] = {}
        self.leftovers = Leftovers()
        self.topics = TopicCatalog()
        #: Whether anybody has said which there are.
        self.knows_topics = False
        self.expressions = Expressions()
        self.offsets = OffsetStore()
        self.pending = PendingOffsets()
        self.timers: TimerQueue[TimerKey] = TimerQueue()

    def times_of(self, group_id: str) -> ConsumerTimes:
        """Return what a group of the new kind goes by at the moment."""
        return self.times.get(group_id, self.default_times)

    def respond(self, token: RequestToken, result: Result) -> None:
        """Answer a request."""
        self.ready.append(Respond(token, result))

    def append(self, records: Sequence[LogRecord], follows: WriteToken | None = None) -> WriteToken:
        """Have records written; what comes of it is hung on `writes`.

        They are not written if the write fails that they follow, which was asked for just before.
        """
        token = self.writes.open(self.now.now_ms)
        self.ready.append(Append(token, tuple(records), follows))
        return token

    def parts(self, records: Sequence[LogRecord]) -> Iterator[slice]:
        """Yield the parts in which records are to be written that may be cut into several."""
        start = size = 0
        for position, record in enumerate(records):
            added = len(record.key) + len(record.value or b"")
            count = position - start
            is_full = count >= self.config.records_per_write_max
            if count and (is_full or size + added > self.config.write_bytes_max):
                yield slice(start, position)
                start, size = position, 0
            size += added
        if start < len(records):
            yield slice(start, len(records))

    def write_off(
        self,
        group_id: str,
        keys: Mapping[ConsumerGroupKey, None] = MappingProxyType({}),
        follows: WriteToken | None = None,
    ) -> None:
        """Have records of a group of the new kind deleted, and what is left of earlier ones.

        What cannot be deleted now is kept for the next call, or for the next write of a new group
        of that name. Nothing is deleted if the write fails that this follows.
        """
        wanted = {**self.leftovers.take(group_id), **keys}
        if group_id in self.groups:
            # Its record is its own by now.
            wanted.pop(ConsumerGroupKey(KeyKind.CLASSIC_GROUP), None)
        order, records = tombstones(group_id, wanted)
        for part in self.parts(records):
            follows = self._write_off_part(group_id, order[part], records[part], follows)

    def _write_off_part(
        self,
        group_id: str,
        keys: list[ConsumerGroupKey],
        records: list[LogRecord],
        follows: WriteToken | None,
    ) -> WriteToken:
        token = self.append(records, follows)

        def on_written(error: GroupError) -> None:
            if error is not GroupError.NONE:
                self.leftovers.add(group_id, keys)

        self.writes.then(token, on_written)
        return token

    def append_in_transaction(
        self, records: Sequence[LogRecord], producer_id: int, producer_epoch: int
    ) -> WriteToken:
        """Have records written as part of a producer's transaction."""
        token = self.writes.open(self.now.now_ms)
        self.ready.append(AppendInTransaction(token, tuple(records), producer_id, producer_epoch))
        return token

    @property
    def is_full(self) -> bool:
        """Whether there are as many groups as there may be."""
        return self.group_count >= self.config.groups_max

    @property
    def group_count(self) -> int:
        """How many groups there are, of both kinds."""
        return len(self.groups) + len(self.consumer_groups)

    @property
    def is_over_bound(self) -> bool:
        """Whether no further write may be asked for by choice."""
        return len(self.writes) >= self.config.writes_in_flight_max

    def schedule(self, group: Group, kind: TimerKind, delay_ms: int, member_id: str = "") -> None:
        """Set a deadline of a group, which is never now: clients may ask for zero and less."""
        deadline_ms = self.now.now_ms + max(delay_ms, 1)
        self.timers.schedule((group.group_id, kind, member_id), deadline_ms)

    def cancel(self, group: Group, kind: TimerKind, member_id: str = "") -> None:
        """Forget a deadline of a group."""
        self.timers.cancel((group.group_id, kind, member_id))

    def cancel_all(self, group: Group) -> None:
        """Forget all deadlines of a group."""
        for kind in (TimerKind.INITIAL_JOIN, TimerKind.JOIN, TimerKind.SYNC):
            self.cancel(group, kind)
        for member_id in (*group.members, *group.pending_joins):
            self.cancel(group, TimerKind.SESSION, member_id)
