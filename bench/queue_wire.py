"""Queues through a broker's own port: messages put, taken and settled, 64 at a time.

`python -m bench.queue_wire [--seconds 10] [--brokers 1] [--put 4] [--take 4] [--batch 64]
[--bytes 1024] [--option transient=true]` prints messages a second and the broker's processor time
for each message. The clients are of this file: they reuse one batch of records, so that they cost
little.
"""

from __future__ import annotations

import argparse
import socket
import struct
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.processes import cpu_seconds
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.frames import read_response, write_request
from kafkaesque.protocols.kafka.messages.create_queue_request import CreateQueueRequest, SetOption
from kafkaesque.protocols.kafka.messages.put_messages_request import PutMessagesRequest
from kafkaesque.protocols.kafka.messages.settle_messages_request import (
    Claim,
    SettleMessagesRequest,
)
from kafkaesque.protocols.kafka.messages.take_messages_request import TakeMessagesRequest
from tests.clients.cluster import KafkaesqueCluster

QUEUE = "bench"
TIMEOUT_MS = 30_000
_LENGTH = struct.Struct(">i")


class Refused(SystemExit):
    """The broker has refused a request, or closed the connection."""


class Link:
    """One connection, one request after the other."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation = 0

    def ask(self, key: ApiKey, message: Any) -> Any:
        """Return the answer.

        Raises:
            Refused: there is none, or it is an error.
            OSError: the connection is broken.
        """
        self._correlation += 1
        self._socket.sendall(write_request(key, 0, self._correlation, "bench", message))
        (length,) = _LENGTH.unpack(self._read(4))
        answer = read_response(memoryview(self._read(length)), key, 0)[1]
        if answer.error_code:
            raise Refused(f"{key.name}: {answer.error_code} {answer.error_message}")
        return answer

    def _read(self, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            piece = self._socket.recv(length - len(data))
            if not piece:
                raise Refused("the broker has closed the connection")
            data += piece
        return bytes(data)


class Counts:
    """What the clients have done."""

    def __init__(self) -> None:
        self.put = self.settled = 0
        self.is_over = False


def batch_of(count: int, size: int) -> bytearray:
    """Return so many messages with bodies of so many bytes, to be put again and again."""
    return encode_batch([Record(at, 0, None, bytes(size), ()) for at in range(count)])


def create_queue(link: Link, queue: str, options: Mapping[str, str]) -> None:
    """Make a queue."""
    chosen = [SetOption(name, value) for name, value in options.items()]
    request = CreateQueueRequest("/", queue, options=chosen, timeout_ms=TIMEOUT_MS)
    link.ask(ApiKey.CREATE_QUEUE, request)


def put(address: str, counts: Counts, batch: int, size: int) -> None:
    """Put messages until it is over."""
    link = Link(address)
    request = PutMessagesRequest("/", QUEUE, TIMEOUT_MS, batch_of(batch, size))
    while not counts.is_over:
        if counts.put - counts.settled > 200 * batch:
            time.sleep(0.001)
            continue
        link.ask(ApiKey.PUT_MESSAGES, request)
        counts.put += batch


def take(address: str, counts: Counts, batch: int) -> None:
    """Take messages and settle them until it is over."""
    link = Link(address)
    request = TakeMessagesRequest("/", QUEUE, 0, batch, 64 * 1024 * 1024, wait_ms=500)
    while not counts.is_over:
        taken = link.ask(ApiKey.TAKE_MESSAGES, request)
        if taken.records is None:
            continue
        settle = SettleMessagesRequest("/", QUEUE, 0, claims_of(taken), timeout_ms=TIMEOUT_MS)
        link.ask(ApiKey.SETTLE_MESSAGES, settle)
        counts.settled += len(taken.attempts)


def claims_of(taken: Any) -> list[Claim]:
    """Return what settles the messages of an answer that has some."""
    # The batch says where its records are: its first offset, and how many follow.
    first, delta = struct.unpack_from(">q15xi", taken.records)
    attempts = taken.attempts
    if delta == len(attempts) - 1 and len(set(attempts)) == 1:
        return [Claim(first, first + len(attempts), attempts[0])]
    records = decode_batch(taken.records, 1 << 30)
    return [
        Claim(record.offset, record.offset + 1, attempt)
        for record, attempt in zip(records, taken.attempts, strict=True)
    ]


def run(arguments: argparse.Namespace) -> None:
    """Run it, and print what was measured."""
    with (
        tempfile.TemporaryDirectory() as directory,
        KafkaesqueCluster(brokers=arguments.brokers, directory=Path(directory)) as cluster,
    ):
        addresses = [each.address for each in cluster.brokers]
        options = dict(each.split("=", 1) for each in arguments.option)
        create_queue(Link(addresses[0]), QUEUE, options)
        time.sleep(1.0)
        counts = Counts()
        with ThreadPoolExecutor(arguments.put + arguments.take) as pool:
            working = [
                pool.submit(
                    put, addresses[at % len(addresses)], counts, arguments.batch, arguments.bytes
                )
                for at in range(arguments.put)
            ]
            working += [
                pool.submit(take, addresses[at % len(addresses)], counts, arguments.batch)
                for at in range(arguments.take)
            ]
            try:
                time.sleep(2.0)
                before = [cpu_seconds(each.pid) for each in cluster.brokers]
                settled, begun = counts.settled, time.monotonic()
                time.sleep(arguments.seconds)
                seconds = time.monotonic() - begun
                count = counts.settled - settled
                used = [
                    cpu_seconds(each.pid) - at
                    for each, at in zip(cluster.brokers, before, strict=True)
                ]
            finally:
                counts.is_over = True
            # With fewer connections than asked for, nothing was measured.
            for each in working:
                each.result()
    shown = ", ".join(f"{1e6 * each / max(1, count):.1f}" for each in used)
    print(
        f"{count / seconds:,.0f} messages of {arguments.bytes} bytes a second were put, taken and "
        f"settled; processor time of each broker for one: {shown} µs"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--brokers", type=int, default=1)
    parser.add_argument("--put", type=int, default=4)
    parser.add_argument("--take", type=int, default=4)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--bytes", type=int, default=1024)
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE")
    run(parser.parse_args())


if __name__ == "__main__":
    main()
