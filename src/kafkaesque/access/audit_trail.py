"""What is to be written to the audit log: counted where it repeats, and bounded.

Theory of operation. Who guesses passwords or asks for what is forbidden could fill the log. So of
log-ins and refusals that are alike, the first is passed on at once and the others of the same
minute are counted, and come as one event when the minute is over. What is different in a minute is
bounded, too: beyond that it is counted by user, and then all together. Failures do not use up the
room of successes. Changes of the metadata and use of keys come one by one: each has cost a commit
of the controllers. Changes of data (`DataChange`) are counted, too, each kind with room of its own.

What is passed on waits until it is taken. Where that takes too long, it is dropped, and counted;
log-ins and refusals first, so that nobody hides a change behind them.
"""

from collections import deque
from collections.abc import Collection
from typing import Final

import msgspec

from kafkaesque.access.audit import AuditEvent, AuditKind, DataChange, Outcome, bounded

WINDOW_MS: Final = 60_000
#: Different log-ins that failed, and different refusals, in one window; then as many users.
DISTINCT_MAX: Final = 50
#: Different log-ins that succeeded, and different changes of data of one kind: nobody gets there by
#: guessing.
SUCCESSES_MAX: Final = 500
#: Events that wait to be taken, and how many of them may be log-ins and refusals.
EVENTS_MAX: Final = 10_000
COUNTED_EVENTS_MAX: Final = 8_000
#: Stands for the names of what was counted together.
OTHERS: Final = "(others)"

_COUNTED: Final = (AuditKind.LOG_IN, AuditKind.REFUSAL)
_DATA_CHANGES: Final = frozenset(DataChange)
#: What makes two of them alike.
_Likeness = tuple[object, ...]


class AuditTrail:
    """One for each broker; it is told all, and keeps what is asked for."""

    __slots__ = (
        "_counted",
        "_distinct",
        "_dropped",
        "_repeats",
        "_waiting",
        "_waiting_counted",
        "_window_begun_ms",
        "dropped",
        "kinds",
        "noted",
    )

    def __init__(self, kinds: Collection[AuditKind]) -> None:
        self.kinds: Final = frozenset(kinds)
        self._waiting: Final[deque[AuditEvent]] = deque()
        self._waiting_counted = 0
        #: Of this window: what was passed on already, and how often it has come since.
        self._repeats: dict[_Likeness, AuditEvent] = {}
        self._counted: dict[_Likeness, int] = {}
        self._distinct: dict[_Likeness, int] = {}
        self._window_begun_ms: int | None = None
        #: Since that was told the last time.
        self._dropped: dict[AuditKind, int] = {}
        #: Since the start: by kind what was told, and how much had no room.
        self.noted: Final[dict[AuditKind, int]] = {}
        self.dropped = 0

    def __len__(self) -> int:
        """How many events wait to be taken."""
        return len(self._waiting)

    def note(self, event: AuditEvent, now_ms: int) -> None:
        """Something has happened; `now_ms` is of a clock that never goes back."""
        if event.kind not in self.kinds:
            return
        self.noted[event.kind] = self.noted.get(event.kind, 0) + 1
        event = bounded(event)
        if not _is_counted(event):
            self._pass_on(event)
            return
        if self._window_begun_ms is None:
            self._window_begun_ms = now_ms
        self._count(event)

    def _count(self, event: AuditEvent) -> None:
        """Pass the first of its like on, count the others; where there are too many, together."""
        for form, is_first_passed_on in (
            (event, True),
            (_without_resource(event), False),
            (_without_names(event), False),
        ):
            likeness = _likeness(form)
            if likeness in self._repeats:
                self._repeat(likeness, form)
                return
            if self._has_room(form, is_first_passed_on):
                self._repeats[likeness], self._counted[likeness] = form, 0
                if is_first_passed_on:
                    self._pass_on(form)
                else:
                    self._repeat(likeness, form)
                return

    def _has_room(self, form: AuditEvent, is_whole: bool) -> bool:
        if form.principal == OTHERS:
            return True
        # Whoever commits offsets hides no deletion behind them.
        change = form.operation if form.kind is AuditKind.CHANGE else ""
        of = (form.kind, change, form.outcome, is_whole)
        count = self._distinct.get(of, 0)
        is_earned = form.outcome is Outcome.SUCCEEDED or form.kind is AuditKind.CHANGE
        most = SUCCESSES_MAX if is_earned else DISTINCT_MAX
        self._distinct[of] = count + (count < most)
        return count < most

    def _repeat(self, likeness: _Likeness, event: AuditEvent) -> None:
        count = self._counted[likeness] + 1
        self._counted[likeness] = count
        began_ms = event.at_ms if count == 1 else self._repeats[likeness].at_ms
        self._repeats[likeness] = msgspec.structs.replace(
            event, at_ms=began_ms, until_ms=event.at_ms
        )

    def _end_window(self) -> None:
        repeats, self._repeats = self._repeats, {}
        counted, self._counted = self._counted, {}
        self._distinct = {}
        self._window_begun_ms = None
        for likeness, count in counted.items():
            if count:
                self._pass_on(msgspec.structs.replace(repeats[likeness], count=count))

    def _pass_on(self, event: AuditEvent) -> None:
        is_counted = _is_counted(event)
        if len(self._waiting) >= EVENTS_MAX or (
            is_counted and self._waiting_counted >= COUNTED_EVENTS_MAX
        ):
            self.dropped += event.count
            self._dropped[event.kind] = self._dropped.get(event.kind, 0) + event.count
            return
        self._waiting.append(event)
        self._waiting_counted += is_counted

    def take(self, now_ms: int, wall_ms: int, *, is_last: bool = False) -> list[AuditEvent]:
        """Return what is to be written now, in order, and forget it.

        Args:
            is_last: whether what is counted comes as well, although its window goes on.
        """
        begun_ms = self._window_begun_ms
        if begun_ms is not None and (is_last or now_ms - begun_ms >= WINDOW_MS):
            self._end_window()
        taken = list(self._waiting)
        self._waiting.clear()
        self._waiting_counted = 0
        if self._dropped:
            dropped, self._dropped = self._dropped, {}
            taken.append(
                AuditEvent(
                    at_ms=wall_ms,
                    kind=AuditKind.DROPPED,
                    count=sum(dropped.values()),
                    because="too many events waited to be written",
                    detail={kind.value: str(count) for kind, count in dropped.items()},
                )
            )
        return taken


def _is_counted(event: AuditEvent) -> bool:
    return event.kind in _COUNTED or event.operation in _DATA_CHANGES


def _without_resource(event: AuditEvent) -> AuditEvent:
    is_change = event.kind is AuditKind.CHANGE
    most = SUCCESSES_MAX if is_change else DISTINCT_MAX
    return AuditEvent(
        at_ms=event.at_ms,
        kind=event.kind,
        principal=event.principal,
        operation=event.operation if is_change else "",
        outcome=event.outcome,
        resource=OTHERS,
        because=f"more than {most} different ones within {WINDOW_MS // 1000} seconds",
    )


def _without_names(event: AuditEvent) -> AuditEvent:
    return msgspec.structs.replace(_without_resource(event), principal=OTHERS)


def _likeness(event: AuditEvent) -> _Likeness:
    return (
        event.kind,
        event.outcome,
        event.principal,
        event.host,
        event.listener,
        event.mechanism,
        event.operation,
        event.resource_type,
        event.resource,
        event.because,
    )
