"""`/series` and `/live`: the newest samples of all brokers, at once or as they come.

Theory of operation. As long as somebody listens, a `LiveHub` asks all brokers once in two seconds
for the samples that it has not seen, for all listeners together, and keeps the events of the last
quarter of an hour. A listener is a cursor over them. A client that reads slowly falls behind, and
what it misses for too long it is told to read anew; one that comes back says where it was. So
neither many nor slow clients cost more than the network does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from kafkaesque.admin.api.calls import Call
from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.fan_out import Gathered
from kafkaesque.admin.api.numbers import Unsigned
from kafkaesque.admin.api.part_pages import SERIES, SeriesAnswer, SeriesQuestion
from kafkaesque.admin.api.values import View
from kafkaesque.admin.http import Outlet
from kafkaesque.admin.series import COARSE_STEP_MS, COUNTERS, KINDS, NAMES, STEP_MS
from kafkaesque.env.clock import Timer
from kafkaesque.model.errors import InvalidRequest
from kafkaesque.model.ids import NodeId

#: One for each tab that somebody looks at; the port has 100 connections in all.
LISTENERS_MAX: Final = 40
POLL_MS: Final = 2_000
#: A quarter of an hour.
EVENTS_MAX: Final = 450

#: No number of an event has more digits.
DIGITS_MAX: Final = 18

Names = Annotated[str, msgspec.Meta(max_length=1_000)]


class SeriesQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which samples."""

    #: Names of series with commas between; empty: all.
    names: Names = ""
    #: Only samples after this time; 0: all that there are.
    after: Unsigned = 0
    #: In ms: from 10,000 on, those of six hours; below, those of a quarter of an hour.
    step: Annotated[int, msgspec.Meta(ge=STEP_MS, le=COARSE_STEP_MS)] = STEP_MS


class SeriesInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a series is."""

    name: str
    #: It only grows; if it falls, the broker was restarted.
    is_counter: bool
    unit: str
    doc: str


class BrokerSeries(msgspec.Struct, frozen=True, kw_only=True):
    """A broker's samples: times, and for each series the values at these times."""

    broker: int
    step_ms: int
    at: list[int]
    values: dict[str, list[float]]


class SeriesView(View, frozen=True, kw_only=True):
    """Samples of all brokers; counters are as they are, so that rates can be derived."""

    series: list[SeriesInfo]
    brokers: list[BrokerSeries]


class LiveEvent(msgspec.Struct, frozen=True, kw_only=True):
    """New samples; the `data` of an event of `/live`."""

    at: int
    brokers: list[BrokerSeries]
    #: Brokers that did not answer, with the reasons.
    missing: dict[str, str]


class LiveQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which series are wanted."""

    #: Names of series with commas between; empty: all.
    names: Names = ""


def read_names(text: str) -> list[str]:
    """Return names of series.

    Raises:
        InvalidRequest: there is no series of that name.
    """
    names = list(dict.fromkeys(each for each in text.split(",") if each)) or list(NAMES)
    strange = [name for name in names if name not in NAMES]
    if strange:
        raise InvalidRequest(f"there is no series {strange[0]!r}; there are {', '.join(NAMES)}")
    return names


class PlotPages:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._hub = LiveHub(context)

    def stop(self) -> None:
        """Ask nobody any more."""
        self._hub.stop()

    def show_series(self, call: Call[SeriesQuery, None]) -> None:
        """Gather samples of all brokers."""
        names = read_names(call.query.names)
        question = SeriesQuestion(names=names, after=call.query.after, step_ms=call.query.step)

        def on_gathered(gathered: Gathered[SeriesAnswer]) -> None:
            call.answer(
                SeriesView(
                    as_of=self._context.now(),
                    seen_by=self._context.node,
                    sources=gathered.sources,
                    series=[
                        SeriesInfo(
                            name=kind.name,
                            is_counter=kind.name in COUNTERS,
                            unit=kind.unit,
                            doc=kind.doc,
                        )
                        for kind in KINDS
                        if kind.name in names
                    ],
                    brokers=[
                        _broker_series(node, names, answer)
                        for node, answer in gathered.answers.items()
                    ],
                )
            )

        self._context.fan_out.ask_all(SERIES, question, on_gathered)

    def listen(self, call: Call[LiveQuery, None]) -> None:
        """Send samples as they come, from where the client was if it says so."""
        names = read_names(call.query.names)
        if self._hub.is_full:
            call.refuse(429, "TooManyListeners", f"{LISTENERS_MAX} tabs are listening already")
            return
        seen = call.request.headers.get("last-event-id", "")
        call.stream("text/event-stream", lambda outlet: self._hub.join(outlet, names, seen))


class LiveHub:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._listeners: set[_Listener] = set()
        self._events: deque[LiveEvent] = deque(maxlen=EVENTS_MAX)
        #: The number of the next event; numbers begin at the time of the hub's start, so that a
        #: client of the process before does not go on in the middle of other ones.
        self._next = context.now()
        self._seen_ms: dict[NodeId, int] = {}
        self._timer: Timer | None = None
        self._is_asking = False

    @property
    def is_full(self) -> bool:
        """Whether there are as many listeners as may be."""
        return len(self._listeners) >= LISTENERS_MAX

    def stop(self) -> None:
        """Ask nobody any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def join(self, outlet: Outlet, names: Sequence[str], seen: str) -> _Listener:
        """Return a new listener, which goes on after the event that its client has seen."""
        begin = self._next
        if seen:
            is_kept = seen.isascii() and seen.isdigit() and len(seen) <= DIGITS_MAX
            after = int(seen) + 1 if is_kept else -1
            # One that is not kept any more begins with a gap.
            begin = after if after <= self._next else -1
        listener = _Listener(self, outlet, names, begin)
        self._listeners.add(listener)
        if self._timer is None:
            self._on_timer()
        return listener

    def leave(self, listener: _Listener) -> None:
        """A listener is gone; with the last one nobody is asked any more."""
        self._listeners.discard(listener)
        if not self._listeners:
            self.stop()
            self._seen_ms.clear()

    @property
    def oldest(self) -> int:
        """The number of the first event that is kept."""
        return self._next - len(self._events)

    @property
    def next(self) -> int:
        """The number that the next event will have."""
        return self._next

    def event(self, number: int) -> LiveEvent:
        """Return an event that is kept."""
        return self._events[number - self.oldest]

    def _on_timer(self) -> None:
        self._timer = self._context.doors.clock.call_later(POLL_MS, self._on_timer)
        if self._is_asking:
            return
        self._is_asking = True
        after = self._context.now() - POLL_MS
        questions = {
            node: SeriesQuestion(
                names=list(NAMES), after=self._seen_ms.get(node, after), step_ms=STEP_MS
            )
            for node in self._context.fan_out.all_brokers()
        }
        self._context.fan_out.ask(SERIES, questions, self._on_gathered)

    def _on_gathered(self, gathered: Gathered[SeriesAnswer]) -> None:
        self._is_asking = False
        for node, answer in gathered.answers.items():
            if answer.at:
                self._seen_ms[node] = answer.at[-1]
        self._events.append(
            LiveEvent(
                at=self._context.now(),
                brokers=[
                    _broker_series(node, NAMES, answer) for node, answer in gathered.answers.items()
                ],
                missing={
                    str(each.broker): each.missing for each in gathered.sources if each.missing
                },
            )
        )
        self._next += 1
        for listener in list(self._listeners):
            listener.on_room()


class _Listener:
    """One client; see `Source`."""

    def __init__(self, hub: LiveHub, outlet: Outlet, names: Sequence[str], begin: int) -> None:
        self._hub = hub
        self._outlet = outlet
        self._names = names
        self._next = begin
        self._is_greeted = False

    def on_room(self) -> None:
        """See `Source`."""
        if not self._is_greeted:
            # A browser tries again after so long.
            self._is_greeted = True
            self._outlet.write(b"retry: 2000\n\n")
        if self._next < self._hub.oldest:
            # What is missing it reads as a whole, up to here.
            self._next = self._hub.next
            self._outlet.write(b"event: gap\ndata: {}\n\n")
        while self._outlet.has_room and self._next < self._hub.next:
            self._outlet.write(self._write(self._next, self._hub.event(self._next)))
            self._next += 1

    def on_gone(self) -> None:
        """See `Source`."""
        self._hub.leave(self)

    def _write(self, number: int, event: LiveEvent) -> bytes:
        wanted = LiveEvent(
            at=event.at,
            missing=event.missing,
            brokers=[
                BrokerSeries(
                    broker=each.broker,
                    step_ms=each.step_ms,
                    at=each.at,
                    values={name: each.values[name] for name in self._names},
                )
                for each in event.brokers
            ],
        )
        data = msgspec.json.encode(wanted)
        return b"id: %d\nevent: samples\ndata: %b\n\n" % (number, data)


def _broker_series(node: NodeId, names: Sequence[str], answer: SeriesAnswer) -> BrokerSeries:
    return BrokerSeries(
        broker=node,
        step_ms=answer.step_ms,
        at=answer.at,
        values=dict(zip(names, answer.values, strict=True)),
    )
