"""What the handlers of one table share."""

from collections.abc import Sequence
from enum import Enum

from kafkaesque.groups.config import GroupConfig
from kafkaesque.groups.events import Instant, RequestToken, WriteToken
from kafkaesque.groups.group import Group
from kafkaesque.groups.offsets import OffsetStore
from kafkaesque.groups.results import Append, LogRecord, Respond, Result, Work
from kafkaesque.groups.timers import TimerQueue
from kafkaesque.groups.writes import WriteQueue


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


#: Group, purpose, member (for sessions).
TimerKey = tuple[str, TimerKind, str]


class Context:
    """State and ways out of one table."""

    __slots__ = ("config", "groups", "now", "offsets", "ready", "timers", "writes")

    def __init__(self, config: GroupConfig) -> None:
        self.config = config
        self.now = Instant(0, 0)
        self.groups: dict[str, Group] = {}
        self.offsets = OffsetStore()
        self.timers: TimerQueue[TimerKey] = TimerQueue()
        self.writes = WriteQueue(config.write_timeout_ms)
        self.ready: list[Work] = []

    def respond(self, token: RequestToken, result: Result) -> None:
        """Answer a request."""
        self.ready.append(Respond(token, result))

    def append(self, records: Sequence[LogRecord]) -> WriteToken:
        """Have records written; what follows from it is hung on `writes`."""
        token = self.writes.open(self.now.now_ms)
        self.ready.append(Append(token, tuple(records)))
        return token

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

    def is_current(self, group: Group) -> bool:
        """Whether this very group is (still) the one of its name."""
        return self.groups.get(group.group_id) is group
