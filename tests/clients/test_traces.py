"""Spans of traced messages, as a collector gets them by OTLP over HTTP."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.clients.cluster import KafkaesqueCluster
from tests.waiting import eventually

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
Settings = dict[str, str | int | float | bool]
#: In OTLP's JSON, ids are in hex; in that of all other protocol buffers, bytes are in base64.
_ID = re.compile(r'"(traceId|spanId|parentSpanId)":"([0-9a-f]+)"')


class Collector:
    """Takes what is posted, and understands it by OpenTelemetry's own definitions."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        self.paths: set[str] = set()
        self.status = 200
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"])).decode()
                assert self.headers["content-type"] == "application/json"
                if collector.status == 200:
                    collector.paths.add(self.path)
                    plain = _ID.sub(_to_base64, body)
                    collector.requests.append(json_format.Parse(plain, ExportTraceServiceRequest()))
                self.send_response(collector.status)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    @property
    def spans(self) -> list[Span]:
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def named(self, name: str) -> list[Span]:
        return [each for each in self.spans if each.name == name]

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _to_base64(found: re.Match[str]) -> str:
    return (
        json.dumps(found[1]) + ":" + json.dumps(base64.b64encode(bytes.fromhex(found[2])).decode())
    )


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


def _attributes(span: Span) -> dict[str, object]:
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


def test_a_collector_is_sent_what_became_of_a_traced_message(
    tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = f"http://127.0.0.1:{collector.port}/v1/traces"
    monkeypatch.setenv("KAFKAESQUE_TRACING_ENDPOINT", endpoint)
    with KafkaesqueCluster(1, directory=tmp_path) as cluster:
        servers: Settings = {"bootstrap.servers": cluster.bootstrap_servers}
        new = NewTopic("orders", num_partitions=1, replication_factor=1)
        admin = AdminClient(servers)
        admin.create_topics([new])["orders"].result(30)
        producer = Producer({**servers, "compression.type": "lz4", "linger.ms": 50})
        context = f"00-{TRACE}-{PARENT}-01".encode()
        producer.produce("orders", b"not traced")
        producer.produce(
            "orders", b"traced", headers=[("traceparent", context), ("tracestate", b"a=1")]
        )
        producer.produce("orders", b"not sampled", headers=[("traceparent", context[:-1] + b"0")])
        assert producer.flush(30) == 0
        consumer = Consumer(
            {
                **servers,
                "group.id": "billing",
                "client.id": "billing-7",
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe(["orders"])
        values = [message.value() for message in consumer.consume(3, 30)]
        assert values == [b"not traced", b"traced", b"not sampled"]
        eventually(lambda: len(collector.named("deliver orders")) == 1, "it is told as given out")
        consumer.close()
        (kept,) = collector.named("append orders")
        (given,) = collector.named("deliver orders")
        assert len(collector.spans) == 2
        for each in (kept, given):
            assert (each.trace_id.hex(), each.parent_span_id.hex()) == (TRACE, PARENT)
            assert (each.kind, each.trace_state) == (Span.SPAN_KIND_SERVER, "a=1")
            assert each.end_time_unix_nano >= each.start_time_unix_nano > 10**18
            told = _attributes(each)
            assert told["messaging.destination.name"] == "orders"
            assert told["messaging.destination.partition.id"] == "0"
            assert told["messaging.kafka.offset"] == 1
        assert kept.span_id != given.span_id
        assert _attributes(given)["messaging.client.id"] == "billing-7"
        assert collector.paths == {"/v1/traces"}
        resource = {
            each.key: each.value.string_value
            for each in collector.requests[0].resource_spans[0].resource.attributes
        }
        assert (resource["service.name"], resource["service.instance.id"]) == ("kafkaesque", "1")


def test_a_collector_that_takes_nothing_holds_nobody_up(
    tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector.status = 503
    endpoint = f"http://127.0.0.1:{collector.port}/v1/traces"
    monkeypatch.setenv("KAFKAESQUE_TRACING_ENDPOINT", endpoint)
    with KafkaesqueCluster(1, directory=tmp_path) as cluster:
        servers: Settings = {"bootstrap.servers": cluster.bootstrap_servers}
        producer = Producer(servers)

        def publish() -> None:
            context = f"00-{TRACE}-{PARENT}-01".encode()
            producer.produce("bills", b"x", headers=[("traceparent", context)])
            assert producer.flush(30) == 0

        new = NewTopic("bills", num_partitions=1, replication_factor=1)
        admin = AdminClient(servers)
        admin.create_topics([new])["bills"].result(30)
        publish()
        log = cluster.brokers[0].log_path
        eventually(lambda: "spans are lost" in log.read_text(), "the loss is reported")
        collector.status = 200
        publish()
        eventually(lambda: bool(collector.named("append bills")), "spans come again", seconds=60)
