"""A topic is measured when its leaders serve it, not when they are only named."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bench.contest import wait_until_served

METADATA, NOT_LEADER = 3, 6


class YoungLeader:
    """A broker that is named as a leader, and says so itself only when it was asked often enough.

    Apache Kafka's answer so for some milliseconds after a topic was created.
    """

    def __init__(self, refusals: int) -> None:
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.server.getsockname()[1]
        self.refusals = refusals
        self.served: list[int] = []

    def run(self) -> None:
        while True:
            try:
                connection, _ = self.server.accept()
            except OSError:
                return
            with connection:
                (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
                request = connection.recv(size, socket.MSG_WAITALL)
                answer = struct.pack(">i", 1) + self.answer(request)
                connection.sendall(struct.pack(">i", len(answer)) + answer)

    def answer(self, request: bytes) -> bytes:
        if struct.unpack_from(">h", request)[0] == METADATA:
            broker = (
                struct.pack(">ii", 1, 1) + text("127.0.0.1") + struct.pack(">ih", self.port, -1)
            )
            partitions = b"".join(struct.pack(">hiiii", 0, n, 1, 0, 0) for n in range(2))
            topic = struct.pack(">ih", 1, 0) + text("t") + struct.pack(">bi", 0, 2) + partitions
            return broker + struct.pack(">i", 1) + topic
        (partition,) = struct.unpack_from(">i", request, len(request) - 12)
        error = 0
        if self.refusals:
            self.refusals -= 1
            error = NOT_LEADER
        else:
            self.served.append(partition)
        return struct.pack(">i", 1) + text("t") + struct.pack(">iihqq", 1, partition, error, -1, 0)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


@contextmanager
def leader(refusals: int) -> Iterator[YoungLeader]:
    broker = YoungLeader(refusals)
    thread = threading.Thread(target=broker.run)
    thread.start()
    try:
        yield broker
    finally:
        broker.server.shutdown(socket.SHUT_RDWR)
        broker.server.close()
        thread.join()


def test_a_leader_that_does_not_know_it_yet_is_asked_again() -> None:
    with leader(refusals=3) as broker:
        wait_until_served(broker.port, "t", 2, timeout_s=60)
        assert broker.refusals == 0
        assert broker.served == [0, 1]


def test_a_leader_that_never_serves_is_given_up() -> None:
    sentence = "t-0 is not served after 0 s: t-0: error 6"
    with leader(refusals=10**9) as broker, pytest.raises(TimeoutError, match=sentence):
        wait_until_served(broker.port, "t", 2, timeout_s=0.1)
