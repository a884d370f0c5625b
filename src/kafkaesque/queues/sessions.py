"""Who is attached to a queue, on its leader.

Attachment and credit are soft: after a change of leader each session attaches again. What outlives
the leader is the number of a session that was given messages, so that those in flight are its own.
Sessions that do not come back within the policy's grace are gone.

A session may be exclusive: then it is attached alone. After a change of leader the first that
attaches counts; one that does not go with it is refused, and has to give up.

Where one session at a time is active, nobody is before those are back, or gone, that had messages
under the leader before: others would overtake these.

A session that is leaving is given nothing, and stands in nobody's way. What it has in flight stays
its own until it is detached.
"""

from collections import Counter
from typing import NamedTuple

from kafkaesque.queues.context import Context
from kafkaesque.queues.decisions import CloseSession, OpenSession
from kafkaesque.queues.policy import Sharing

#: Sessions that may be attached to one queue.
SESSIONS_MAX = 100_000


class _Attached(NamedTuple):
    priority: int
    is_exclusive: bool


class Sessions:
    """See the module."""

    __slots__ = (
        "_active",
        "_attached",
        "_context",
        "_grace_until_ms",
        "_leaving",
        "_numbers",
        "_priorities",
    )

    def __init__(self, context: Context) -> None:
        self._context = context
        self._numbers = {name: number for number, name in context.state.sessions.items()}
        #: In the order of attachment.
        self._attached: dict[bytes, _Attached] = {}
        self._leaving: set[bytes] = set()
        self._active: bytes | None = None
        #: How many are attached, by priority.
        self._priorities: Counter[int] = Counter()
        self._grace_until_ms: int | None = None
        if self._numbers:
            self._grace_until_ms = context.now.now_ms + context.state.policy.grace_ms

    def __contains__(self, session: bytes) -> bool:
        return session in self._attached

    def __len__(self) -> int:
        return len(self._attached)

    @property
    def absent(self) -> list[bytes]:
        """Those that were given messages before this leader, and have not come back yet."""
        if self._grace_until_ms is None:
            return []
        known = self._attached.keys() | self._leaving
        return [each for each in self._numbers if each not in known]

    @property
    def is_full(self) -> bool:
        """Whether no more may attach."""
        return len(self._attached) + len(self._leaving) >= SESSIONS_MAX

    @property
    def active(self) -> bytes | None:
        """The one that is given messages, where only one is: until it is gone."""
        return self._active

    @property
    def are_ranked(self) -> bool:
        """Whether some come before others."""
        return len(self._priorities) > 1

    def priority_of(self, session: bytes | None) -> int:
        """Return a session's priority; 0 of nobody's."""
        found = None if session is None else self._attached.get(session)
        return 0 if found is None else found.priority

    def is_active(self, session: bytes) -> bool:
        """Whether a session may be given messages."""
        if session not in self._attached:
            return False
        return self._context.state.policy.sharing is Sharing.ALL or session == self.active

    def attach(self, session: bytes, *, priority: int = 0, is_exclusive: bool = False) -> bool:
        """Take a session; False: it, or another, has to have the queue for itself."""
        if session in self._attached:
            return True
        if self._context.state.policy.sharing is Sharing.EXCLUSIVE:
            if any(other != session for other in self._others()):
                return False
        if self._attached and (is_exclusive or self._has_exclusive()):
            return False
        self._leaving.discard(session)
        self._attached[session] = _Attached(priority, is_exclusive)
        self._priorities[priority] += 1
        if self._active is None and (session in self._numbers or not self._is_one_awaited()):
            self._active = session
        return True

    def leave(self, session: bytes) -> None:
        """Keep a session for what it has in flight alone."""
        self._forget(session)
        self._leaving.add(session)

    def _has_exclusive(self) -> bool:
        return len(self._attached) == 1 and next(iter(self._attached.values())).is_exclusive

    def number_of(self, session: bytes | None) -> int | None:
        """Return a session's number, if it was given messages; 0 for nobody's."""
        return 0 if session is None else self._numbers.get(session)

    def open(self, session: bytes | None) -> int:
        """Return a session's number; it is given one if it has none."""
        if session is None:
            return 0
        number = self._numbers.get(session)
        if number is None:
            number = self._context.state.session_last + 1
            self._context.decide(OpenSession(number, session))
            self._numbers[session] = number
        return number

    def detach(self, session: bytes, *, is_failed: bool) -> None:
        """Let a session be gone, and what it has be had by others."""
        self._forget(session)
        self._leaving.discard(session)
        number = self._numbers.pop(session, None)
        if number is None:
            return
        owned = self._context.state.owned.get(number)
        if owned is not None:
            staged = self._context.state.staged
            offsets = [offset for offset in owned.offsets() if offset not in staged]
            self._context.give_back(offsets, is_failed=is_failed, to_tail=False, delay_ms=None)
        if number not in self._context.state.owned:
            self._context.decide(CloseSession(number))

    def _forget(self, session: bytes) -> None:
        found = self._attached.pop(session, None)
        if found is None:
            return
        self._priorities[found.priority] -= 1
        if not self._priorities[found.priority]:
            del self._priorities[found.priority]
        if session == self._active:
            self._active = None
            self._choose()

    def _choose(self) -> None:
        """Let the first of the highest priority be active, if nobody is."""
        if self._active is None and self._attached and not self._is_one_awaited():
            highest = max(self._priorities)
            self._active = next(
                name for name, each in self._attached.items() if each.priority == highest
            )

    def _is_one_awaited(self) -> bool:
        """Whether one has to be active, and an absent one has messages before the others."""
        state = self._context.state
        if state.policy.sharing is not Sharing.SINGLE_ACTIVE:
            return False
        return any(self._numbers[each] in state.owned for each in self.absent)

    def close_left(self) -> None:
        """Close sessions that are gone, now that no transaction is to settle what they had."""
        state = self._context.state
        for number, session in list(state.sessions.items()):
            if self._numbers.get(session) == number:
                continue
            owned = state.owned.get(number)
            if owned is not None:
                offsets = [offset for offset in owned.offsets() if offset not in state.staged]
                self._context.give_back(offsets, is_failed=True, to_tail=False, delay_ms=None)
            if number not in state.owned:
                self._context.decide(CloseSession(number))

    def end_grace(self) -> None:
        """Let those be gone that have not come back; then another one may be active."""
        self._let_go()
        self._choose()

    def _let_go(self) -> None:
        if self._grace_until_ms is None or self._grace_until_ms > self._context.now.now_ms:
            return
        absent, self._grace_until_ms = self.absent, None
        for session in absent:
            self.detach(session, is_failed=True)

    def next_deadline_ms(self) -> int | None:
        """Return when grace ends, or None."""
        return self._grace_until_ms

    def _others(self) -> list[bytes]:
        """Return who has the queue: attached, or not back yet."""
        is_grace = self._grace_until_ms is not None
        return [*self._attached, *(self._numbers if is_grace else ())]
