"""Share sessions: what one member of a share group reads at this broker, and has from it.

Theory of operation. For each partition of a session at most one question for records is open at the
cursor, which waits there. What comes is kept until the member's next fetch, which may be the one
that waits now. So a member is told of records as they come, whichever partition they are of, and a
session that is given up gives back what was not handed out. A record is acknowledged by its offset;
the session remembers which attempt the member has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.commands import Done
from kafkaesque.groups.consumer.topics import TopicIdPartition
from kafkaesque.model.errors import RequestRefused, UnknownConsumer
from kafkaesque.model.ids import TopicId

#: Sessions of one broker, as Kafka has it by default.
SESSIONS_MAX: Final = 2_000
#: Of them, those of one user, so that no user keeps out the others. It does not count where nobody
#: logs in.
SESSIONS_PER_USER_MAX: Final = 500
TIMEOUT_MS: Final = 30_000
#: A question for records is answered so long after its wait at the latest.
ANSWER_MS: Final = 10_000
#: Sessions that a connection remembers, also if they are ended.
NAMED_MIN: Final = 64
EPOCH_MAX: Final = 2**31 - 1


class Member(NamedTuple):
    """Whose a session is: nobody else's who says the same group and member."""

    #: Empty where nobody logs in.
    principal: str
    group_id: str
    member_id: str


class SharePartition:
    """One partition of a session."""

    __slots__ = (
        "_doors",
        "_is_asking",
        "_is_attached",
        "_is_closed",
        "_on_records",
        "acquired",
        "consumer",
        "log_id",
        "number",
        "ready",
        "refusal",
    )

    def __init__(
        self, doors: Doors, log_id: TopicId, number: int, on_records: Callable[[], None]
    ) -> None:
        self._doors = doors
        self._on_records = on_records
        self.log_id = log_id
        self.number = number
        self.consumer = doors.queues.new_consumer()
        #: What has come and was not handed out.
        self.ready: list[q.QueueMessage] = []
        #: What the member has: the attempt by offset.
        self.acquired: dict[int, int] = {}
        #: Why the last question was not answered with records.
        self.refusal: RequestRefused | None = None
        self._is_asking = False
        self._is_attached = False
        self._is_closed = False

    def ask(self, records_max: int, bytes_max: int, wait_ms: int) -> None:
        """Have records brought, unless a question is open or something is there already."""
        if self._is_asking or self.ready or self._is_closed:
            return
        self._is_asking = True
        self.refusal = None
        if self._is_attached:
            self._take(records_max, bytes_max, wait_ms)
            return

        def on_attached(outcome: q.AttachedConsumer | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                self._end(outcome)
                return
            self._is_attached = True
            if self._is_closed:
                self._detach()
            else:
                self._take(records_max, bytes_max, wait_ms)

        attach = q.AttachConsumer(log_id=self.log_id, partition=self.number, consumer=self.consumer)
        self._doors.queues.ask(attach, q.AttachedConsumer, TIMEOUT_MS, on_attached)

    def _take(self, records_max: int, bytes_max: int, wait_ms: int) -> None:
        take = q.TakeMessages(
            log_id=self.log_id,
            partition=self.number,
            consumer=self.consumer,
            messages_max=records_max,
            bytes_max=bytes_max,
            wait_ms=wait_ms,
        )

        def on_taken(outcome: q.TakenMessages | RequestRefused) -> None:
            if isinstance(outcome, UnknownConsumer):
                # The cursor has another leader. What the member has, it has.
                self._is_attached = False
                self._end(None)
            elif isinstance(outcome, RequestRefused):
                self._end(outcome)
            else:
                self.ready += outcome.messages
                self._end(None)

        self._doors.queues.ask(take, q.TakenMessages, wait_ms + ANSWER_MS, on_taken)

    def _end(self, refusal: RequestRefused | None) -> None:
        self._is_asking = False
        self.refusal = refusal
        if self._is_closed:
            # What was taken for nobody is given back with the consumer.
            self._detach()
        else:
            self._on_records()

    def hand_out(self, count_max: int) -> list[q.QueueMessage]:
        """Return records that the member has from now on."""
        given, self.ready = self.ready[:count_max], self.ready[count_max:]
        self.acquired.update((each.offset, each.attempt) for each in given)
        return given

    def renewed(self) -> SharePartition:
        """Return what begins anew in its place; see `close`."""
        self.close()
        return SharePartition(self._doors, self.log_id, self.number, self._on_records)

    def close(self) -> None:
        """Give back all that the member has, and what it was not handed."""
        self._is_closed = True
        if self._is_attached:
            # At once: a question that waits ends by that.
            self._detach()

    def _detach(self) -> None:
        detach = q.DetachConsumer(log_id=self.log_id, partition=self.number, consumer=self.consumer)
        self._doors.queues.ask(detach, Done, TIMEOUT_MS, lambda _: None)


class ShareSession:
    """One member's session."""

    __slots__ = (
        "_next",
        "_waiting",
        "epoch",
        "forbidden",
        "is_closed",
        "partitions",
        "rights_as_of",
    )

    def __init__(self) -> None:
        self.is_closed = False
        #: Of the next request.
        self.epoch = 1
        #: Topics that its user may not read by the rules of then, which ones `rights_as_of` says.
        self.forbidden: frozenset[TopicId] = frozenset()
        self.rights_as_of: tuple[object, ...] | None = None
        self.partitions: dict[TopicIdPartition, SharePartition] = {}
        self._waiting: Callable[[], None] | None = None
        self._next = 0

    def advance(self) -> None:
        """A request of the session was taken."""
        self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1

    def forbid(self, topics: frozenset[TopicId]) -> None:
        """Give back what the member has of topics that its user may not read any more."""
        self.forbidden = topics
        for key, partition in list(self.partitions.items()):
            if key.topic_id in topics:
                self.partitions[key] = partition.renewed()

    def wait(self, on_records: Callable[[], None]) -> None:
        """Call when a partition has records, or its question is at its end."""
        self._waiting = on_records

    def wake(self) -> None:
        """Something has come."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting()

    def in_turn(self) -> Iterable[tuple[TopicIdPartition, SharePartition]]:
        """Return the partitions, beginning with another one each time."""
        items = list(self.partitions.items())
        if items:
            self._next = (self._next + 1) % len(items)
        return items[self._next :] + items[: self._next]

    def close(self) -> None:
        """Give back everything."""
        self.is_closed = True
        self._waiting = None
        for partition in self.partitions.values():
            partition.close()
        self.partitions.clear()


class ShareSessions:
    """The share sessions of one broker."""

    __slots__ = ("_counts", "_sessions")

    def __init__(self) -> None:
        self._sessions: dict[Member, ShareSession] = {}
        #: By user; only of those that have any.
        self._counts: Counter[str] = Counter()

    def find(self, member: Member) -> ShareSession | None:
        """Return a member's session."""
        return self._sessions.get(member)

    def make(self, member: Member) -> ShareSession | None:
        """Begin a session in place of the one that there is; None: there are too many."""
        self.end(member)
        user = member.principal
        if len(self._sessions) >= SESSIONS_MAX:
            return None
        if user and self._counts[user] >= SESSIONS_PER_USER_MAX:
            return None
        self._counts[user] += 1
        session = self._sessions[member] = ShareSession()
        return session

    def end(self, member: Member, session: ShareSession | None = None) -> None:
        """End a session, if it is still that one."""
        found = self._sessions.get(member)
        if found is not None and session in (None, found):
            del self._sessions[member]
            self._counts[member.principal] -= 1
            if not self._counts[member.principal]:
                del self._counts[member.principal]
            found.close()


class ConnectedSessions:
    """The sessions of one connection: they end with it."""

    __slots__ = ("_named", "_sessions", "_swept_at")

    def __init__(self, sessions: ShareSessions) -> None:
        self._sessions = sessions
        self._named: dict[Member, ShareSession] = {}
        #: Ended ones are forgotten when there are so many.
        self._swept_at = NAMED_MIN

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._named)

    def note(self, member: Member, session: ShareSession) -> None:
        """A session was begun over this connection."""
        if len(self._named) >= self._swept_at:
            # Else whoever begins and ends one after the other fills the memory.
            self._named = {m: each for m, each in self._named.items() if not each.is_closed}
            self._swept_at = max(NAMED_MIN, 2 * len(self._named))
        self._named[member] = session

    def close(self) -> None:
        """The connection is gone."""
        for member, session in self._named.items():
            self._sessions.end(member, session)
        self._named.clear()
