"""`/traces`: what brokers noted of traced messages, newest first, and one trace as a waterfall.

Each broker keeps its newest spans (`broker/tracer.py`); a trace is put together when it is asked
for. What has left a broker's ring is a collector's to keep.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kafkaesque.access.operations import CLUSTER_NAME, Operation, ResourceType
from kafkaesque.admin.api.calls import Call, NoQuery, Route
from kafkaesque.admin.api.client_session_part import plain
from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.fan_out import Gathered, PartPage, PartServer
from kafkaesque.admin.api.paging import ListQuery, sort_field, take_page, wants
from kafkaesque.admin.api.part_list import Keys
from kafkaesque.admin.api.values import Listing, View
from kafkaesque.broker.tracer import Span

#: Spans of one trace that are shown.
SPANS_MAX: Final = 1_000
_NS_PER_US: Final = 1_000


class TracesQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Spans of which trace, in hex; None: of all."""

    trace: str | None = None


class SpanRow(msgspec.Struct, frozen=True, array_like=True):
    """A span as its broker keeps it."""

    trace: str
    span: str
    parent: str
    operation: str
    begin_us: int
    duration_us: int
    topic: str
    partition: int
    offset: int
    client_id: str


class TracesAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Spans of a broker."""

    #: Whether it looks for traces at all.
    is_on: bool
    spans: list[SpanRow]


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """A trace in a list, as far as brokers have a part in it."""

    #: In hex, as in `traceparent`.
    trace: str
    begin_at: int
    #: From the first span's begin to the last one's end.
    duration_us: int
    spans: int
    topics: list[str]
    brokers: list[int]


class TraceList(Listing, frozen=True, kw_only=True):
    """Traces of which brokers still have spans."""

    items: list[Trace]
    #: Brokers that have answered and do not look for traces.
    off: list[int]


class TraceSpan(msgspec.Struct, frozen=True, kw_only=True):
    """Something that took its time."""

    span: str
    #: The span of the program that has sent the message.
    parent: str
    #: `append`: until the message was committed. `deliver`: from then until a consumer went on.
    operation: str
    broker: int
    #: From the begin of the trace's first span.
    begin_us: int
    duration_us: int
    topic: str
    partition: int
    offset: int
    #: What the consumer calls itself; empty to those who may not see the cluster's clients.
    client_id: str


class TraceView(View, frozen=True, kw_only=True):
    """One trace."""

    trace: str
    begin_at: int
    duration_us: int
    #: In the order of their begin, up to 1,000.
    spans: list[TraceSpan]


TRACES: Final = PartPage(name="traces", question=TracesQuestion, answer=TracesAnswer)
_KEYS: Final[Keys] = {
    "trace": lambda each: each.trace,
    "begin_at": lambda each: each.begin_at,
    "duration_us": lambda each: each.duration_us,
    "spans": lambda each: each.spans,
}
#: A span, and whose it is.
Told = list[tuple[int, SpanRow]]


def register(context: Context, server: PartServer) -> None:
    """Have this part served."""
    server.register(TRACES, lambda question, done: done(_answer(context, question)))


def _answer(context: Context, question: TracesQuestion) -> TracesAnswer:
    tracer = context.doors.activity.tracer
    if tracer is None:
        return TracesAnswer(is_on=False, spans=[])
    rows = [_row(each) for each in tracer.newest()]
    wanted = question.trace
    return TracesAnswer(
        is_on=True, spans=[each for each in rows if wanted is None or each.trace == wanted]
    )


def _row(span: Span) -> SpanRow:
    return SpanRow(
        span.context.trace_id.hex(),
        span.span_id.hex(),
        span.context.parent_id.hex(),
        span.operation,
        span.begin_ns // _NS_PER_US,
        (span.end_ns - span.begin_ns) // _NS_PER_US,
        span.where.topic,
        span.where.partition,
        span.offset,
        plain(span.client_id),
    )


class TracePages:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def list_traces(self, call: Call[ListQuery, None]) -> None:
        """List traces; the newest first, unless something else is asked for."""
        query = call.query
        sort_field(query, _KEYS, "-begin_at")

        def on_gathered(gathered: Gathered[TracesAnswer]) -> None:
            by_trace: dict[str, Told] = {}
            for each in _seen(call, gathered):
                by_trace.setdefault(each[1].trace, []).append(each)
            found = [_trace(name, spans) for name, spans in by_trace.items()]
            chosen = [each for each in found if wants(query, " ".join([each.trace, *each.topics]))]
            page = take_page(chosen, query, _KEYS, "-begin_at")
            call.answer(
                TraceList(
                    as_of=self._context.now(),
                    seen_by=self._context.node,
                    sources=gathered.sources,
                    total=page.total,
                    next=page.next,
                    items=page.items,
                    off=[node for node, told in gathered.answers.items() if not told.is_on],
                )
            )

        self._context.fan_out.ask_all(
            TRACES, TracesQuestion(), lambda told: call.guard(lambda: on_gathered(told))
        )

    def show_trace(self, call: Call[NoQuery, None]) -> None:
        """Show the spans of one trace, of all brokers."""
        name = call.params["trace"].lower()

        def on_gathered(gathered: Gathered[TracesAnswer]) -> None:
            found = sorted(_seen(call, gathered), key=lambda each: each[1].begin_us)
            if not found:
                what = f"no broker has a span of trace {name!r}, or not any more"
                call.refuse(404, "UnknownTrace", what)
                return
            whole = _trace(name, found)
            begin_us = found[0][1].begin_us
            call.answer(
                TraceView(
                    as_of=self._context.now(),
                    seen_by=self._context.node,
                    sources=gathered.sources,
                    trace=name,
                    begin_at=whole.begin_at,
                    duration_us=whole.duration_us,
                    spans=[_span(node, each, begin_us) for node, each in found[:SPANS_MAX]],
                )
            )

        self._context.fan_out.ask_all(TRACES, TracesQuestion(trace=name), on_gathered)


def _seen(call: Call[Any, None], gathered: Gathered[TracesAnswer]) -> Told:
    """Return the spans of topics that the client may see; as `/connections` names who consumes."""
    sees_clients = call.could(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    return [
        (node, each if sees_clients else msgspec.structs.replace(each, client_id=""))
        for node, answer in gathered.answers.items()
        for each in answer.spans
        if call.sees(ResourceType.TOPIC, each.topic)
    ]


def _trace(name: str, spans: Told) -> Trace:
    begin_us = min(each.begin_us for _, each in spans)
    return Trace(
        trace=name,
        begin_at=begin_us // 1_000,
        duration_us=max(each.begin_us + each.duration_us for _, each in spans) - begin_us,
        spans=len(spans),
        topics=sorted({each.topic for _, each in spans}),
        brokers=sorted({node for node, _ in spans}),
    )


def _span(node: int, row: SpanRow, begin_us: int) -> TraceSpan:
    return TraceSpan(
        span=row.span,
        parent=row.parent,
        operation=row.operation,
        broker=node,
        begin_us=row.begin_us - begin_us,
        duration_us=row.duration_us,
        topic=row.topic,
        partition=row.partition,
        offset=row.offset,
        client_id=row.client_id,
    )


def trace_routes(pages: TracePages) -> list[Route]:
    """Return the operations on traces."""
    return [
        Route(
            method="GET",
            path="/traces",
            name="listTraces",
            summary="Traces of which brokers still have spans, newest first",
            handle=pages.list_traces,
            query=ListQuery,
            result=TraceList,
        ),
        Route(
            method="GET",
            path="/traces/{trace}",
            name="showTrace",
            summary="The spans of one trace, of all brokers",
            handle=pages.show_trace,
            result=TraceView,
        ),
    ]
