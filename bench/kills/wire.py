"""What the kill run asks brokers over a plain socket: who leads what, and "do you acknowledge".

Client libraries retry, cache and wait by themselves; here each question goes to one broker, once,
so that what is timed is the broker. The messages (Metadata v7, Produce v7) are laid out by hand, so
that a mistake in our own codec cannot hide in both ends.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.wire import Answer, exchange, write_text
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.records import Record

_PRODUCE, _METADATA, _VERSION = 0, 3, 7


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """What one broker says about one partition; a leader of -1 is "nobody that I know"."""

    leader: int
    epoch: int
    replicas: frozenset[int]
    in_sync: frozenset[int]


#: By topic and partition.
View = dict[tuple[str, int], PartitionView]


class BrokerProbe:
    """One connection to one broker; it is opened when needed and again after an error."""

    def __init__(self, port: int, timeout_s: float, host: str = "127.0.0.1") -> None:
        self._host = host
        self._port = port
        self._timeout_s = timeout_s
        self._socket: socket.socket | None = None
        self._correlation = 0

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _ask(self, api: int, body: bytes) -> Answer:
        """Return the answer's body; raises OSError, and closes, when there is none in time."""
        self._correlation += 1
        try:
            if self._socket is None:
                self._socket = socket.create_connection(
                    (self._host, self._port), timeout=self._timeout_s
                )
            return exchange(self._socket, api, _VERSION, body, "kills", self._correlation)
        except OSError:
            self.close()
            raise

    def metadata(self, topics: Sequence[str]) -> View:
        """Return what the broker knows of the topics' partitions."""
        body = (
            struct.pack(">i", len(topics)) + b"".join(write_text(topic) for topic in topics) + b"\0"
        )
        answer = self._ask(_METADATA, body)
        answer.number("i")
        for _ in range(answer.number("i")):
            answer.number("i"), answer.text(), answer.number("i"), answer.text()
        answer.text(), answer.number("i")
        view: View = {}
        for _ in range(answer.number("i")):
            answer.number("h")
            topic = answer.text()
            answer.number("b")
            for _ in range(answer.number("i")):
                answer.number("h")
                partition, leader, epoch = (answer.number("i") for _ in range(3))
                replicas, in_sync, _ = (answer.nodes() for _ in range(3))
                view[topic, partition] = PartitionView(
                    leader=leader, epoch=epoch, replicas=replicas, in_sync=in_sync
                )
        return view

    def produce(self, topic: str, partition: int, value: bytes) -> tuple[int, int]:
        """Send one record with acks=all; return the error code and the offset it got."""
        batch = encode_batch([Record(0, time.time_ns() // 1_000_000, b"probe", value, ())])
        body = (
            struct.pack(">hhi", -1, -1, int(self._timeout_s * 1000))
            + struct.pack(">i", 1)
            + write_text(topic)
            + struct.pack(">iii", 1, partition, len(batch))
            + batch
        )
        answer = self._ask(_PRODUCE, body)
        answer.number("i"), answer.text(), answer.number("i"), answer.number("i")
        return answer.number("h"), answer.number("q")
