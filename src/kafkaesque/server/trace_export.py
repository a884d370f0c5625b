"""Sends spans to a collector, by OTLP over HTTP, as JSON; from a thread of its own.

Theory of operation. The broker's loop puts spans into the tracer's ring, and never waits. Once a
second this thread takes what is there, at most `SPANS_MAX` to a request, and posts it. What a
collector does not take is lost, and counted: the ring goes on meanwhile, and a broker is no place
to keep spans. After a failure it waits longer, up to `PAUSE_S_MAX`. Failures are reported when they
begin and when they end.
"""

import threading
from collections.abc import Callable, Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from kafkaesque import __version__
from kafkaesque.broker.tracer import Span, Tracer

SPANS_MAX: Final = 512
PAUSE_S: Final = 1.0
PAUSE_S_MAX: Final = 15.0
TIMEOUT_S: Final = 5.0
#: Of an answer as much is read.
ANSWER_BYTES_MAX: Final = 64 * 1024
_OK: Final = range(200, 300)
#: The broker answers its producer (opentelemetry.proto.trace.v1.Span.SpanKind).
_KIND_SERVER: Final = 2
_SCOPE: Final = "kafkaesque"
_HEADERS: Final = {"Content-Type": "application/json", "User-Agent": f"kafkaesque/{__version__}"}


class TraceExport:
    """The spans of one broker on their way out."""

    def __init__(
        self,
        *,
        endpoint: str,
        tracer: Tracer,
        node: int,
        cluster_id: str,
        report: Callable[[str], None],
        report_warning: Callable[[str], None],
    ) -> None:
        self._endpoint: Final = endpoint
        self._tracer: Final = tracer
        self._resource: Final = _resource(node, cluster_id)
        self._report: Final = report
        self._report_warning: Final = report_warning
        self._is_over: Final = threading.Event()
        self._thread: Final = threading.Thread(target=self._run, name="traces", daemon=True)
        self._has_failed = False

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def stop(self) -> None:
        """Send no more; what is in the ring is lost."""
        self._is_over.set()

    def reload(self) -> None:
        """There is no file to read again."""

    def _run(self) -> None:
        pause_s = PAUSE_S
        while not self._is_over.wait(pause_s):
            pause_s = PAUSE_S
            while spans := self._tracer.take(SPANS_MAX):
                if not self._send(spans):
                    self._tracer.lost += len(spans)
                    pause_s = PAUSE_S_MAX if self._has_failed else PAUSE_S
                    self._has_failed = True
                    break

    def _send(self, spans: Sequence[Span]) -> bool:
        """Post spans; tell whether they were taken."""
        try:
            status = post(self._endpoint, encode(self._resource, spans))
        except (OSError, HTTPException) as error:
            self._note_failure(f"{type(error).__name__}: {error}")
            return False
        if status not in _OK:
            self._note_failure(f"it answers {status}")
            return False
        if self._has_failed:
            self._has_failed = False
            self._report(f"spans are taken again at {self._endpoint}")
        return True

    def _note_failure(self, why: str) -> None:
        if not self._has_failed:
            self._report_warning(f"spans are lost: {self._endpoint} does not take them: {why}")


def post(endpoint: str, body: bytes) -> int:
    """Return the status of the answer.

    Raises:
        OSError, HTTPException: there was none.
    """
    where = urlsplit(endpoint)
    kind = HTTPSConnection if where.scheme == "https" else HTTPConnection
    connection = kind(where.hostname or "", where.port, timeout=TIMEOUT_S)
    try:
        connection.request("POST", where.path or "/v1/traces", body, _HEADERS)
        answer = connection.getresponse()
        answer.read(ANSWER_BYTES_MAX)
    finally:
        connection.close()
    return answer.status


def encode(resource: dict[str, Any], spans: Sequence[Span]) -> bytes:
    """Return an ExportTraceServiceRequest in OTLP's JSON: ids in hex, long numbers as text."""
    scope = {"name": _SCOPE, "version": __version__}
    scoped = {"scope": scope, "spans": [_span(each) for each in spans]}
    return msgspec.json.encode({"resourceSpans": [{"resource": resource, "scopeSpans": [scoped]}]})


def _resource(node: int, cluster_id: str) -> dict[str, Any]:
    return {
        "attributes": [
            _text("service.name", "kafkaesque"),
            _text("service.namespace", cluster_id),
            _text("service.instance.id", str(node)),
            _text("service.version", __version__),
        ]
    }


def _span(span: Span) -> dict[str, Any]:
    attributes = [
        _text("messaging.system", "kafkaesque"),
        _text("messaging.operation.name", span.operation),
        _text("messaging.destination.name", span.where.topic),
        _text("messaging.destination.partition.id", str(span.where.partition)),
        {"key": "messaging.kafka.offset", "value": {"intValue": str(span.offset)}},
    ]
    if span.client_id:
        attributes.append(_text("messaging.client.id", span.client_id))
    return {
        "traceId": span.context.trace_id.hex(),
        "spanId": span.span_id.hex(),
        "parentSpanId": span.context.parent_id.hex(),
        "traceState": span.context.state,
        "name": span.name,
        "kind": _KIND_SERVER,
        "startTimeUnixNano": str(span.begin_ns),
        "endTimeUnixNano": str(span.end_ns),
        "attributes": attributes,
    }


def _text(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}
