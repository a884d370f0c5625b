"""Share sessions: what one member of a share group reads at this broker, and has from it.

A session has partitions that are read; some that were asked for and cannot be read here yet, which
is tried again with each fetch, since clients name a partition once; and some that the member reads
no more, as long as it has records of them that it has not acknowledged. When a session ends, or its
connection is gone, everything is given back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from kafkaesque.broker.doors import Doors
from kafkaesque.gateway.kafka.share_partitions import SharePartition
from kafkaesque.groups.consumer.topics import TopicIdPartition
from kafkaesque.model.ids import TopicId

#: Sessions of one broker, as Kafka has it by default.
SESSIONS_MAX: Final = 2_000
#: Of them, those of one user, so that no user keeps out the others. It does not count where nobody
#: logs in.
SESSIONS_PER_USER_MAX: Final = 500
#: Partitions of one session that cannot be read yet; more are refused, and not tried again.
UNOPENED_MAX: Final = 10_000
#: Sessions that a connection remembers, also if they are ended.
NAMED_MIN: Final = 64
EPOCH_MAX: Final = 2**31 - 1


class Member(NamedTuple):
    """Whose a session is: nobody else's who says the same group and member."""

    #: Empty where nobody logs in.
    principal: str
    group_id: str
    member_id: str


class ShareSession:
    """One member's session."""

    __slots__ = (
        "_next",
        "_waiting",
        "epoch",
        "forbidden",
        "forgotten",
        "is_closed",
        "partitions",
        "rights_as_of",
        "unopened",
    )

    def __init__(self) -> None:
        self.is_closed = False
        #: Of the next request.
        self.epoch = 1
        #: Topics that its user may not read by the rules of then, which ones `rights_as_of` says.
        self.forbidden: frozenset[TopicId] = frozenset()
        self.rights_as_of: tuple[object, ...] | None = None
        self.partitions: dict[TopicIdPartition, SharePartition] = {}
        #: What the member wants to read and cannot read here yet.
        self.unopened: dict[TopicIdPartition, None] = {}
        #: What it reads no more and has records of.
        self.forgotten: dict[TopicIdPartition, SharePartition] = {}
        self._waiting: Callable[[], None] | None = None
        self._next = 0

    def advance(self) -> None:
        """A request of the session was taken."""
        self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1

    @property
    def topic_ids(self) -> set[TopicId]:
        """The topics that it reads or has records of."""
        return {key.topic_id for key in (*self.partitions, *self.forgotten)}

    def forbid(self, topics: frozenset[TopicId]) -> None:
        """Give back what the member has of topics that its user may not read any more."""
        self.forbidden = topics
        for key, partition in list(self.partitions.items()):
            if key.topic_id in topics:
                self.partitions[key] = partition.renewed()
        for key in [each for each in self.forgotten if each.topic_id in topics]:
            self.forgotten.pop(key).close()

    def want(self, key: TopicIdPartition) -> None:
        """The member reads a partition from now on; it is to be opened with `open`."""
        if key not in self.partitions:
            self.unopened[key] = None

    def open(self, key: TopicIdPartition, doors: Doors, log_id: TopicId) -> None:
        """Read a partition by its cursor; what the member has of it stays its own."""
        self.unopened.pop(key, None)
        partition = self.forgotten.pop(key, None)
        if partition is not None and partition.log_id == log_id:
            partition.resume()
        else:
            if partition is not None:
                partition.close()
            partition = SharePartition(doors, log_id, key.partition, self.wake)
        self.partitions[key] = partition

    def forget(self, key: TopicIdPartition) -> None:
        """Read a partition no more; what the member has of it can still be acknowledged."""
        self.unopened.pop(key, None)
        partition = self.partitions.pop(key, None)
        if partition is None:
            return
        if partition.acquired or partition.settling:
            partition.forget()
            self.forgotten[key] = partition
        else:
            partition.close()

    def close_settled(self) -> None:
        """Let go of forgotten partitions of which the member has nothing any more."""
        for key, partition in list(self.forgotten.items()):
            if not partition.acquired and not partition.settling:
                del self.forgotten[key]
                partition.close()

    def find(self, key: TopicIdPartition) -> SharePartition | None:
        """Return a partition of which the member may have records."""
        return self.partitions.get(key) or self.forgotten.get(key)

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
        for partition in (*self.partitions.values(), *self.forgotten.values()):
            partition.close()
        self.partitions.clear()
        self.forgotten.clear()
        self.unopened.clear()


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
