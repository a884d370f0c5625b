"""Takes that wait for long: clients are held here, and their waits stay at the queue's leader.

Theory of operation. A take that waits is a *wait* at the leader, which ends a moment (`LINGER_MS`)
after its client's time. When that time is up, the client is told here that there is nothing, and
the wait is *spare* for that moment. Whoever asks the same within it gets the spare wait, and the
leader is told, for all such waits at once, that they last longer. So clients that ask again and
again, and get nothing, hardly cost the leader anything. A spare wait that nobody asks for ends by
itself. What it is given meanwhile is given back, as not attempted.

A leader that is not told in time, or that is older than this release, ends a wait that has a
client. Then it is asked anew, for the time that is left.

A client is told here that there is nothing only while the broker that was asked leads, as far as is
known, and was asked a while ago. A leader that is deposed knows that after less than the shortest
time that is held, and refuses its waits. So the queue had nothing at some moment of the client's
wait. Else the leader's own answer is waited for. When the metadata have changed, options among
them, no wait of before is given to anybody.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from msgspec.structs import replace

from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.queues.calls import QueueCalls
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.env.clock import Clock, Timer
from kafkaesque.model.errors import LeaderNotAvailable, RequestRefused, RequestTimedOut
from kafkaesque.model.ids import NodeId, TopicId

#: Shorter waits are not held: a deposed leader has to know by then that it is.
HELD_MS_MIN: Final = 5_000
#: So long a wait lasts beyond its client's time.
LINGER_MS: Final = q.LINGER_MS
#: Leaders are told so often which waits last longer; much less than `LINGER_MS`.
EXTEND_MS: Final = 500
#: Waits that one message tells of.
EXTENDED_MAX: Final = 1_000
#: A wait is at the leader for so long at most, with all its clients.
STAY_MS_MAX: Final = 300_000
#: A question that was asked so long ago, and not refused, has reached the leader.
REACHED_MS: Final = 1_000
#: What the leader may take beyond a wait.
TIMEOUT_MS: Final = 30_000

OnTaken = Callable[[q.TakenMessages | RequestRefused], None]


class _Kind(NamedTuple):
    """Takes of one kind can have one another's waits."""

    log_id: bytes
    messages_max: int
    bytes_max: int
    lock_ms: int | None
    has_groups: bool


class _Wait:
    """A wait at the leader, and the client that it is for."""

    __slots__ = (
        "asked_ms",
        "end_ms",
        "kind",
        "known",
        "leader",
        "name",
        "on_taken",
        "stays_until_ms",
        "take",
        "timer",
        "until_ms",
    )

    def __init__(self, kind: _Kind, take: q.TakeMessages, name: q.ConsumerName) -> None:
        self.kind = kind
        self.take = take
        self.name = name
        #: None: it is spare, or over.
        self.on_taken: OnTaken | None = None
        #: Until when the client waits, and when the leader ends it.
        self.until_ms = 0
        self.end_ms = 0
        self.stays_until_ms = 0
        self.timer: Timer | None = None
        #: Who was asked, and when; None: nobody could be.
        self.leader: NodeId | None = None
        self.asked_ms = 0
        #: The metadata, and their version, by which it was asked.
        self.known: tuple[ClusterState, int] | None = None


class HeldTakes:
    """See the module."""

    __slots__ = ("_calls", "_clock", "_extended", "_is_telling", "_metadata", "_new_name", "_spare")

    def __init__(
        self,
        *,
        clock: Clock,
        metadata: MetadataView,
        calls: QueueCalls,
        new_name: Callable[[], q.ConsumerName],
    ) -> None:
        self._clock = clock
        self._metadata = metadata
        self._calls = calls
        self._new_name = new_name
        self._spare: dict[_Kind, list[_Wait]] = {}
        #: Waits of which leaders are to be told.
        self._extended: list[_Wait] = []
        self._is_telling = False

    def may_hold(self, take: q.TakeMessages) -> bool:
        """Tell whether a take is held: nobody's in particular, which waits long at one log."""
        if take.wait_ms < HELD_MS_MIN or take.consumer is not None:
            return False
        if take.lock_ms == 0:
            return False  # what a spare wait is given and cannot give back would be locked for ever
        queue = self._metadata.state.queues_by_log.get(TopicId(take.log_id))
        return queue is not None and len(queue.partitions) == 1

    def take(self, take: q.TakeMessages, timeout_ms: int, on_taken: OnTaken) -> None:
        """Take messages of a queue of one partition; `timeout_ms` is more than its wait."""
        wait_ms, now_ms = min(take.wait_ms, q.WAIT_MS_MAX), self._clock.now_ms()
        kind = _Kind(
            take.log_id, take.messages_max, take.bytes_max, take.lock_ms, take.has_groups is True
        )
        wait = self._find_spare(kind, now_ms + wait_ms)
        is_new = wait is None
        if wait is None:
            wait = _Wait(kind, take, self._new_name())
            wait.stays_until_ms = now_ms + STAY_MS_MAX
            wait.known = self._metadata.state, self._metadata.state.version
        wait.on_taken = on_taken
        wait.until_ms = now_ms + wait_ms
        wait.end_ms = wait.until_ms + LINGER_MS
        late_ms = now_ms + timeout_ms
        wait.timer = self._clock.call_later(wait_ms, partial(self._on_time, wait, late_ms))
        if is_new:
            self._ask(wait, timeout_ms)
        else:
            self._extend(wait)

    def _find_spare(self, kind: _Kind, until_ms: int) -> _Wait | None:
        found = self._spare.get(kind)
        if found is None:
            return None
        wait = found.pop()
        if not found:
            del self._spare[kind]
        state, known = self._metadata.state, wait.known
        is_known = known is not None and known[0] is state and known[1] == state.version
        # One that is not taken is in nobody's hands now: it ends at the leader.
        may_stay = is_known and until_ms < wait.stays_until_ms
        return wait if may_stay and self._is_at_leader(wait) else None

    # -- at the leader

    def _ask(self, wait: _Wait, timeout_ms: int) -> None:
        """Bring a wait to the leader; where there is none, for no longer than its client waits."""

        def on_asked(leader: NodeId) -> None:
            wait.leader, wait.asked_ms = leader, self._clock.now_ms()

        wait_ms = wait.end_ms - self._clock.now_ms()
        take = replace(wait.take, wait_ms=wait_ms, wait_name=wait.name)
        on_done, answer_ms = partial(self._on_done, wait), STAY_MS_MAX + TIMEOUT_MS
        self._calls.ask(take, q.TakenMessages, timeout_ms, on_done, on_asked, answer_ms)

    def _extend(self, wait: _Wait) -> None:
        self._extended.append(wait)
        if not self._is_telling:
            self._is_telling = True
            self._clock.call_later(EXTEND_MS, self._tell_leaders)

    def _tell_leaders(self) -> None:
        self._is_telling = False
        extended, self._extended = self._extended, []
        now_ms = self._clock.now_ms()
        by_leader: dict[NodeId, list[q.LongerWait]] = {}
        for wait in extended:
            if wait.leader is not None and wait.on_taken is not None:
                longer = q.LongerWait(wait.kind.log_id, wait.name, wait.end_ms - now_ms)
                by_leader.setdefault(wait.leader, []).append(longer)
        for leader, waits in by_leader.items():
            for first in range(0, len(waits), EXTENDED_MAX):
                request = q.ExtendWaits(waits=waits[first : first + EXTENDED_MAX])
                self._calls.extend_waits(leader, request, LINGER_MS)

    def _on_done(self, wait: _Wait, outcome: q.TakenMessages | RequestRefused) -> None:
        """A wait is over at the leader, or could not be brought there."""
        on_taken, wait.on_taken = wait.on_taken, None
        if on_taken is None:
            self._forget_spare(wait)
            if isinstance(outcome, q.TakenMessages):
                self._give_back(wait, outcome)
            return
        if wait.timer is not None:
            wait.timer.cancel()
        left_ms = wait.until_ms - self._clock.now_ms()
        if left_ms > 0 and isinstance(outcome, q.TakenMessages) and not outcome.messages:
            # It was not told in time that the wait is longer.
            again = replace(wait.take, wait_ms=max(left_ms, 1))
            self._calls.ask(again, q.TakenMessages, left_ms + TIMEOUT_MS, on_taken)
        else:
            on_taken(outcome)

    def _forget_spare(self, wait: _Wait) -> None:
        spare = self._spare.get(wait.kind)
        if spare is not None and wait in spare:
            spare.remove(wait)
            if not spare:
                del self._spare[wait.kind]

    def _give_back(self, wait: _Wait, taken: q.TakenMessages) -> None:
        if taken.messages:
            claims = [each.claim for each in taken.messages]
            release = q.ReleaseMessages(log_id=wait.kind.log_id, claims=claims)
            self._calls.ask(release, q.ClaimsResult, TIMEOUT_MS, lambda _: None)

    # -- when a client's time is up

    def _on_time(self, wait: _Wait, late_ms: int) -> None:
        on_taken, now_ms = wait.on_taken, self._clock.now_ms()
        if on_taken is None:
            return
        if self._is_at_leader(wait):
            wait.on_taken = wait.timer = None
            self._spare.setdefault(wait.kind, []).append(wait)
            on_taken(q.TakenMessages([]))
        else:
            left_ms = max(0, late_ms - now_ms)
            wait.timer = self._clock.call_later(left_ms, partial(self._refuse, wait))

    def _is_at_leader(self, wait: _Wait) -> bool:
        """Tell whether the leader of now has the wait."""
        if wait.leader is None or self._clock.now_ms() < wait.asked_ms + REACHED_MS:
            return False
        return self._calls.leads(wait.leader, TopicId(wait.kind.log_id))

    def _refuse(self, wait: _Wait) -> None:
        """The leader has said nothing; what the wait still brings is given back."""
        on_taken, wait.on_taken = wait.on_taken, None
        if on_taken is None:
            return
        if wait.leader is None:
            on_taken(LeaderNotAvailable("the queue's leader could not be reached"))
        else:
            on_taken(RequestTimedOut(f"broker {wait.leader} has not answered in time"))
