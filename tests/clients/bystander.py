"""A well-behaved client in a process of its own: produces and fetches in a loop, and keeps count.

`python -m tests.clients.bystander PORT TOPIC PID` speaks to one broker, whose process has that
number. For each line on its standard input it writes one line of JSON: what it has seen since the
last one. It ends with its input.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import sys
import time
from typing import Any

from bench.processes import cpu_seconds
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.protocols.kafka.api import ApiKey
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

PRODUCE_VERSION = 9
FETCH_VERSION = 12
TIMEOUT_S = 60.0
#: Between two rounds; what would keep a client waiting does so for far longer.
REST_S = 0.02
#: So often it comes on a new connection, as it has to find out whether those are accepted.
ROUNDS_PER_CONNECTION = 20
ERRORS_MAX = 10


class Bystander:
    """One client of one partition, which nobody else writes to."""

    def __init__(self, port: int, topic: str, pid: int) -> None:
        self._port = port
        self._topic = topic
        self._pid = pid
        self._socket: socket.socket | None = None
        self._offset = 0
        self._is_lost = False
        self._correlation = 0
        self.rounds = 0
        #: How long the broker has worked, at most, while one round was waited for.
        self.busiest_s = 0.0
        self.errors: list[str] = []

    def take(self) -> dict[str, Any]:
        """Return what was seen since the last call."""
        seen = {"rounds": self.rounds, "busiest_s": self.busiest_s, "errors": self.errors}
        self.rounds, self.busiest_s, self.errors = 0, 0.0, []
        return seen

    def round(self) -> None:
        """Write one record and read it again."""
        if self.rounds % ROUNDS_PER_CONNECTION == 0:
            self._hang_up()
        begun, worked_s = time.monotonic(), cpu_seconds(self._pid)
        try:
            value = f"round {self._offset}".encode()
            self._produce(value)
            self._fetch(value)
            self._offset += 1
        except (OSError, ValueError) as error:
            self._hang_up()
            self._is_lost = True
            if len(self.errors) < ERRORS_MAX:
                self.errors.append(f"at offset {self._offset}: {error!r}")
        self.rounds += 1
        # What it does in threads of its own keeps nobody waiting.
        busy_s = min(time.monotonic() - begun, cpu_seconds(self._pid) - worked_s)
        self.busiest_s = max(self.busiest_s, busy_s)

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _produce(self, value: bytes) -> None:
        batch = encode_batch([Record(0, 1, None, value, ())])
        data = TopicProduceData(
            name=self._topic, partition_data=[PartitionProduceData(index=0, records=batch)]
        )
        request = ProduceRequest(acks=-1, timeout_ms=int(TIMEOUT_S * 1000), topic_data=[data])
        answer = self._ask(ApiKey.PRODUCE, PRODUCE_VERSION, request)
        outcome = answer.responses[0].partition_responses[0]
        if self._is_lost:
            # What became of the last record is not known.
            self._offset, self._is_lost = max(self._offset, outcome.base_offset), False
        if outcome.error_code or outcome.base_offset != self._offset:
            raise ValueError(f"produced: error {outcome.error_code}, at {outcome.base_offset}")

    def _fetch(self, value: bytes) -> None:
        wanted = FetchPartition(
            partition=0,
            current_leader_epoch=-1,
            fetch_offset=self._offset,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=1 << 20,
        )
        request = FetchRequest(
            max_wait_ms=int(TIMEOUT_S * 1000),
            min_bytes=1,
            max_bytes=1 << 20,
            session_epoch=-1,
            topics=[FetchTopic(topic=self._topic, partitions=[wanted])],
        )
        answer = self._ask(ApiKey.FETCH, FETCH_VERSION, request)
        outcome = answer.responses[0].partitions[0]
        if outcome.error_code:
            raise ValueError(f"fetched: error {outcome.error_code}")
        records = decode_batch(outcome.records, 1 << 20)
        if [(record.offset, record.value) for record in records] != [(self._offset, value)]:
            raise ValueError(f"fetched: {records}")

    def _ask(self, api: int, version: int, request: Any) -> Any:
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), TIMEOUT_S)
        self._correlation += 1
        self._socket.sendall(write_request(api, version, self._correlation, "bystander", request))
        (size,) = struct.unpack(">i", self._read(4))
        correlation, answer = read_response(memoryview(self._read(size)), api, version)
        if correlation != self._correlation:
            raise ValueError(f"answer {correlation} to request {self._correlation}")
        return answer

    def _read(self, size: int) -> bytes:
        assert self._socket is not None
        parts = bytearray()
        while len(parts) < size:
            part = self._socket.recv(size - len(parts))
            if not part:
                raise ConnectionError("the broker closed the connection")
            parts += part
        return bytes(parts)


def main() -> None:
    """Go round until the input ends."""
    bystander = Bystander(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
    while True:
        bystander.round()
        if select.select([sys.stdin], [], [], REST_S)[0]:
            if not sys.stdin.readline():
                return
            if not bystander.rounds:
                bystander.round()
            sys.stdout.write(json.dumps(bystander.take()) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
