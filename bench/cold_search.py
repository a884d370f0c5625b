"""A search over a topic that is not in memory: its rate, and how long others wait meanwhile.

    .venv/bin/python -m bench.cold_search [--gigabytes 10] [--seconds 20] [--partitions 4]
        [--codec none|lz4|zstd] [--json]

One broker writes a topic of records of 200 bytes. Its segments are synced and dropped from the page
cache, so that the search has to read them from the device. The search finds nothing, so it looks at
all of them. Probes beside it produce and
fetch one small record on other topics: 200 times a second where nothing waits for the device, so
that they wait only for the broker's loop, and 20 times where an acknowledgement waits for a sync.
They run once before the search and once during it; a produce counts from when it was due. What the
kernel says that the broker has read from the device tells that the topic was cold. The client's
processes share the machine's cores with the broker.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import struct
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from confluent_kafka.admin import AdminClient, NewTopic

from bench.processes import BrokerProcess, cpu_seconds, rss_bytes, rss_peak_bytes, wait_until_ready
from bench.queue_wire import Link
from bench.search import value_of
from kafkaesque.cli.broker_ports import unused_ports
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.compression import Codec
from kafkaesque.model.records import Record
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.frames import read_response, write_request
from kafkaesque.protocols.kafka.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
)
from kafkaesque.protocols.kafka.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.clients.cluster import broker_command

COLD, CACHED, SYNCED = "cold", "cached", "synced"
#: Probes on each topic. A device that is busy needs time for a sync.
RATES_PER_S = {CACHED: 200, SYNCED: 20}
KINDS = ("fetch", f"produce, {CACHED}", f"produce, {SYNCED}")
BATCH_RECORDS = 500
#: Batches of different content, which are written in turn.
BATCHES = 16
#: Requests on their way while the topic is written.
WINDOW = 8
READY_S = 60.0
SEARCH_S = 120
PRODUCE_VERSION, FETCH_VERSION = 9, 11
_LENGTH = struct.Struct(">i")
_FILE = """\
[broker]
id = 1
cluster.id = "a-cluster-of-the-benchmark"
data = "{data}"
kafka.port = {kafka}
peer.port = {peer}
text.port = 0
admin.port = {admin}
log.level = "warning"

[controllers]
1 = "127.0.0.1:{peer}"
"""


class Wire(Link):
    """One connection on which requests may follow one another unanswered."""

    def send(self, key: ApiKey, version: int, message: Any) -> None:
        """Send a request."""
        self._correlation += 1
        self._socket.sendall(write_request(key, version, self._correlation, "bench", message))

    def receive(self, key: ApiKey, version: int) -> Any:
        """Return the next answer."""
        (length,) = _LENGTH.unpack(self._read(4))
        return read_response(memoryview(self._read(length)), key, version)[1]


def produce_request(topic: str, partition: int, records: bytes) -> ProduceRequest:
    """Return a request that appends one batch."""
    data = PartitionProduceData(index=partition, records=memoryview(records))
    return ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )


def fetch_request(topic: str, offset: int) -> FetchRequest:
    """Return a request that reads what there is."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=4096)
    return FetchRequest(
        max_wait_ms=0, max_bytes=4096, topics=[FetchTopic(topic=topic, partitions=[partition])]
    )


def batches(codec: Codec) -> list[bytes]:
    """Return what is written."""
    made, options = [], BatchOptions(codec=codec)
    for number in range(BATCHES):
        records = [
            Record(at, 1_790_000_000_000, b"key", value_of(number * BATCH_RECORDS + at))
            for at in range(BATCH_RECORDS)
        ]
        made.append(bytes(encode_batch(records, options)))
    return made


def fill(address: str, partitions: int, size: int, codec: Codec) -> int:
    """Write so many bytes of batches; return how many records that are."""
    wire, made = Wire(address), batches(codec)
    asked = answered = written = 0

    def take_one() -> None:
        nonlocal answered
        answer = wire.receive(ApiKey.PRODUCE, PRODUCE_VERSION)
        error = answer.responses[0].partition_responses[0].error_code
        if error:
            raise SystemExit(f"a batch is refused: {error}")
        answered += 1

    while written < size:
        batch = made[asked % BATCHES]
        wire.send(ApiKey.PRODUCE, PRODUCE_VERSION, produce_request(COLD, asked % partitions, batch))
        asked, written = asked + 1, written + len(batch)
        if asked - answered >= WINDOW:
            take_one()
    while answered < asked:
        take_one()
    return asked * BATCH_RECORDS


def drop_from_memory(data: Path) -> None:
    """Sync the topic's files and have the kernel forget their pages."""
    os.sync()
    for path in data.glob(f"{COLD}-*/*"):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def device_bytes(pid: int) -> int:
    """Return what a process has had read from the device so far."""
    for line in Path(f"/proc/{pid}/io").read_text().splitlines():
        if line.startswith("read_bytes:"):
            return int(line.split()[1])
    raise SystemExit("the kernel does not count what is read")


class Probe:
    """Small requests in a steady rhythm, on a thread for each topic."""

    def __init__(self, address: str) -> None:
        #: Milliseconds of each request, by what was done.
        self.found: dict[str, list[float]] = {each: [] for each in KINDS}
        self._address = address
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=each) for each in RATES_PER_S.items()
        ]
        for each in self._threads:
            each.start()

    def end(self) -> None:
        """Stop, and wait until it has."""
        self._is_over.set()
        for each in self._threads:
            each.join()

    def _run(self, topic: str, rate: int) -> None:
        wire = Wire(self._address)
        batch = bytes(encode_batch([Record(0, 1_790_000_000_000, None, bytes(100))]))
        due = time.perf_counter()
        while not self._is_over.is_set():
            due += 1 / rate
            time.sleep(max(0.0, due - time.perf_counter()))
            wire.send(ApiKey.PRODUCE, PRODUCE_VERSION, produce_request(topic, 0, batch))
            answer = wire.receive(ApiKey.PRODUCE, PRODUCE_VERSION)
            done = time.perf_counter()
            self.found[f"produce, {topic}"].append((done - due) * 1000)
            if topic == SYNCED:
                continue
            offset = answer.responses[0].partition_responses[0].base_offset
            wire.send(ApiKey.FETCH, FETCH_VERSION, fetch_request(topic, offset))
            wire.receive(ApiKey.FETCH, FETCH_VERSION)
            self.found["fetch"].append((time.perf_counter() - done) * 1000)


def forget_peak(pid: int) -> None:
    """Let the highest memory of a process count from now on (`clear_refs` of /proc)."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def search(port: int, wanted: dict[str, object]) -> Iterator[dict[str, Any]]:
    """Search all of the topic, with as many requests as that takes; yield each request's end."""
    positions: dict[str, int] = {}
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SEARCH_S + 60)
        body = {"topic": COLD, "filter": wanted, "positions": positions, "seconds": SEARCH_S}
        headers = {"x-kafkaesque-request": "bench", "Content-Type": "application/json"}
        connection.request("POST", "/api/v1/search", json.dumps(body), headers)
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise SystemExit(f"the search is refused: {answer.read()!r}")
        last: dict[str, Any] = {}
        for line in answer:
            last = msgspec.json.decode(line)
        connection.close()
        if last.get("missing"):
            raise SystemExit(f"not all was searched: {last['missing']}")
        yield last
        if last["reason"] != "time":
            return
        positions = last["positions"]


def row(name: str, found: list[float]) -> str:
    """Return a row of latencies."""
    ordered = sorted(found)
    p50, p99 = (ordered[int(len(ordered) * part)] for part in (0.5, 0.99))
    return f"{name:<36}{len(found):>8,}{p50:>9.2f}{p99:>9.2f}{ordered[-1]:>9.2f}"


def start(home: Path) -> tuple[BrokerProcess, int]:
    """Start a broker; return it with its admin port."""
    kafka, peer, admin = unused_ports(3)
    path = home / "broker.toml"
    path.write_text(_FILE.format(data=home / "data", kafka=kafka, peer=peer, admin=admin))
    broker = BrokerProcess(broker_command(path), log_path=home / "broker.log", port=kafka)
    broker.start()
    wait_until_ready(broker, brokers=1, timeout_s=READY_S)
    return broker, admin


def measure(broker: BrokerProcess, port: int, data: Path, asked: argparse.Namespace) -> None:
    """Write the topic, search it, and print."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    caching = {"write.caching": "true"}
    topics = [
        NewTopic(COLD, asked.partitions, 1, config=caching),
        NewTopic(CACHED, 1, 1, config=caching),
        NewTopic(SYNCED, 1, 1),
    ]
    for done in admin.create_topics(topics).values():
        done.result()
    begun = time.monotonic()
    records = fill(
        broker.address, asked.partitions, int(asked.gigabytes * 1e9), Codec[asked.codec.upper()]
    )
    print(f"{records:,} records written in {time.monotonic() - begun:.0f} s", flush=True)
    drop_from_memory(data)

    alone = Probe(broker.address)
    time.sleep(asked.seconds)
    alone.end()
    forget_peak(broker.pid)
    memory, read, cpu = rss_bytes(broker.pid), device_bytes(broker.pid), cpu_seconds(broker.pid)
    wanted: dict[str, object] = {"contains": "zzzzzz"}
    if asked.json:
        wanted = {"json_path": "order.size", "json_value": "-1"}
    beside = Probe(broker.address)
    begun, searched, size = time.monotonic(), 0, 0
    try:
        for end in search(port, wanted):
            searched, size = searched + end["records"], size + end["bytes"]
            assert not end["matches"]
    finally:
        beside.end()
    took = time.monotonic() - begun
    assert searched == records
    cold = device_bytes(broker.pid) - read
    print(
        f"searched in {took:.1f} s: {size / took / 1e6:,.0f} MB/s, {searched / took / 1e6:.2f} M "
        f"records/s; {cold / size:.0%} of it read from the device; "
        f"{(cpu_seconds(broker.pid) - cpu) / took:.2f} cores of the broker\n"
        f"memory of the broker: {memory / 2**20:.0f} MiB before, "
        f"{rss_peak_bytes(broker.pid) / 2**20:.0f} MiB at most\n"
        f"\n{'latency, ms':<36}{'requests':>8}{'p50':>9}{'p99':>9}{'max':>9}"
    )
    for kind in KINDS:
        print(row(f"{kind}, alone", alone.found[kind]))
        print(row(f"{kind}, beside the search", beside.found[kind]))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=10)
    parser.add_argument("--seconds", type=float, default=20, help="of the probe alone")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--codec", default="none", choices=["none", "lz4", "zstd"])
    parser.add_argument("--json", action="store_true", help="search by a JSON path")
    parser.add_argument("--directory", type=Path, help="where the topic is written")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.directory) as directory:
        broker, port = start(Path(directory))
        try:
            measure(broker, port, Path(directory) / "data", asked)
        finally:
            broker.kill()


if __name__ == "__main__":
    main()
