"""Incremental fetch sessions (KIP-227): what a client wants and what it was told last.

A session's partitions stay in the order in which they were asked for; those that had data go to the
end, so that with a byte limit everybody gets a turn.
"""

from collections import OrderedDict
from collections.abc import Callable

from kafkaesque.env.dice import Dice
from kafkaesque.protocols.kafka.fetch_path import FetchCall, PartitionAsked
from kafkaesque.protocols.kafka.produce_path import TopicKey

#: Partitions of all sessions together; what a client wants beyond is answered without a session.
PARTITIONS_MAX = 500_000
#: A session that was used within this time is not dropped for a new one.
SESSION_KEPT_MS = 120_000

SESSION_ID_MAX = 2**31 - 1

PartitionKey = tuple[TopicKey, int]


class SessionPartition:
    """A partition of a session: the wish, and the state that the client knows."""

    __slots__ = ("asked", "high_watermark", "log_start_offset", "topic", "was_error")

    def __init__(self, topic: TopicKey, asked: PartitionAsked) -> None:
        self.topic = topic
        self.asked = asked
        self.high_watermark = -1
        self.log_start_offset = -1
        self.was_error = False


class FetchSession:
    """One client's session, or the single use of a full fetch without one (id 0)."""

    __slots__ = ("epoch", "is_incremental", "owner", "partitions", "session_id", "used_ms")

    def __init__(self, session_id: int, now_ms: int, owner: str) -> None:
        self.session_id = session_id
        #: The user who has made it, and who alone may use it.
        self.owner = owner
        #: The epoch that the next request must have.
        self.epoch = 1
        #: Whether the request under way gets changes only.
        self.is_incremental = False
        self.used_ms = now_ms
        self.partitions: OrderedDict[PartitionKey, SessionPartition] = OrderedDict()

    def update(self, call: FetchCall) -> None:
        """Take what a request adds, changes and forgets."""
        for topic, asked_partitions in call.topics:
            for asked in asked_partitions:
                known = self.partitions.get((topic, asked.partition))
                if known is None:
                    key = (topic, asked.partition)
                    self.partitions[key] = SessionPartition(topic, asked)
                else:
                    known.asked = asked
        for topic, indexes in call.forgotten:
            for index in indexes:
                self.partitions.pop((topic, index), None)

    def to_end(self, key: PartitionKey) -> None:
        """The partition has had its turn."""
        if key in self.partitions:
            self.partitions.move_to_end(key)


class SessionNotFound(Exception):
    """No session has this id (any more); the client begins anew."""


class SessionEpochWrong(Exception):
    """The client and the broker disagree on where they are; the client begins anew."""


class FetchSessions:
    """The sessions of one broker."""

    def __init__(self, dice: Dice, sessions_max: Callable[[], int]) -> None:
        """Keep at most so many, which then drop the one that was used longest ago, if it is old."""
        self._dice = dice
        self._sessions_max = sessions_max
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, call: FetchCall, now_ms: int, owner: str) -> FetchSession:
        """Return the session that a request of a user belongs to, brought up to date with it.

        Raises:
            SessionNotFound: the id is unknown, or another user's.
            SessionEpochWrong: the epoch is not the next one.
        """
        known = self._sessions.get(call.session_id)
        if known is not None and known.owner != owner:
            known = None
        if call.session_epoch <= 0:
            if known is not None:
                self._forget(call.session_id)
            session = FetchSession(0, now_ms, owner)
            session.update(call)
            if call.session_epoch == 0:
                self._maybe_keep(session, now_ms)
            return session
        if known is None:
            raise SessionNotFound
        if known.epoch != call.session_epoch:
            raise SessionEpochWrong
        known.epoch = 1 if known.epoch == SESSION_ID_MAX else known.epoch + 1
        known.is_incremental = True
        known.used_ms = now_ms
        before = len(known.partitions)
        known.update(call)
        self._partitions += len(known.partitions) - before
        self._sessions.move_to_end(known.session_id)
        if self._partitions > PARTITIONS_MAX:
            # This request is answered; with the next one the client begins anew.
            self._forget(known.session_id)
        return known

    def _forget(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= len(session.partitions)

    def _maybe_keep(self, session: FetchSession, now_ms: int) -> None:
        """Give a session its id, if there is room for it."""
        size = len(session.partitions)
        while (
            len(self._sessions) >= self._sessions_max() or self._partitions + size > PARTITIONS_MAX
        ):
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now_ms - oldest.used_ms < SESSION_KEPT_MS:
                return
            self._forget(oldest.session_id)
        session.session_id = self._new_id()
        self._sessions[session.session_id] = session
        self._partitions += size

    def _new_id(self) -> int:
        while True:
            session_id = 1 + self._dice.below(SESSION_ID_MAX)
            if session_id not in self._sessions:
                return session_id
