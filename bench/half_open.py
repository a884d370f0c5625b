"""Handshakes that never end, and those who are let in meanwhile: `python -m bench.half_open`.

10,000 connections send the first bytes of a TLS greeting and nothing more. Before, during and
after, one client asks small requests over TLS, and others connect. Printed are their times, and the
broker's resident memory. Whatever the broker closes is opened again, so that the pressure stays.
"""

from __future__ import annotations

import argparse
import selectors
import socket
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.processes import BrokerProcess
from bench.tls import Way, ask, running

#: A record of a handshake, TLS 1.0 as its version, 512 bytes long: of which no byte follows.
_BEGINNING: Final = b"\x16\x03\x01\x02\x00\x01"
#: Addresses of this machine: nobody may open so many connections from one.
_SOURCES: Final = 250


class Strangers(threading.Thread):
    """Keeps a number of handshakes open that never end."""

    def __init__(self, port: int, count: int) -> None:
        super().__init__(daemon=True)
        self._port, self._count = port, count
        self._selector = selectors.DefaultSelector()
        self._is_over = threading.Event()
        #: How many the broker has closed, and how many were turned away at once.
        self.closed = self.refused = 0

    @property
    def standing(self) -> int:
        return len(self._selector.get_map())

    def run(self) -> None:
        number = 0
        while not self._is_over.is_set():
            while self.standing < self._count and not self._is_over.is_set():
                self._open(number)
                number += 1
                if number % 50 == 0:
                    self._look(0.0)
            self._look(0.05)
        for key in list(self._selector.get_map().values()):
            self._drop(key.fileobj)  # type: ignore[arg-type]

    def _open(self, number: int) -> None:
        sock = socket.socket()
        try:
            sock.bind((f"127.0.1.{1 + number % _SOURCES}", 0))
            sock.connect(("127.0.0.1", self._port))
            sock.sendall(_BEGINNING)
        except OSError:
            self.refused += 1
            sock.close()
            time.sleep(0.001)
            return
        sock.setblocking(False)
        self._selector.register(sock, selectors.EVENT_READ)

    def _look(self, wait_s: float) -> None:
        for key, _ in self._selector.select(wait_s):
            self.closed += 1
            self._drop(key.fileobj)  # type: ignore[arg-type]

    def _drop(self, sock: socket.socket) -> None:
        self._selector.unregister(sock)
        sock.close()

    def end(self) -> None:
        """Close all of them."""
        self._is_over.set()
        self.join()


def look(what: str, broker: BrokerProcess, way: Way, requests: int, connections: int) -> None:
    """Ask and connect, and print how long it took."""
    times = sorted(ask(way, requests))
    begun = time.monotonic()
    for _ in range(connections):
        way.connect().close()
    rate = connections / (time.monotonic() - begun)
    middle, late = times[len(times) // 2], times[len(times) * 99 // 100]
    print(
        f"{what:8} small requests p50 {middle * 1e6:6.0f} us, p99 {late * 1e6:6.0f} us; "
        f"{rate:6.0f} connections/s; {broker.rss_bytes() / 2**20:6.1f} MiB"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=10_000, help="of handshakes that never end")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--connections", type=int, default=500)
    given = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory(prefix="bench-half-open-") as folder,
        running(Path(folder)) as (broker, ways),
    ):
        way = ways[1]
        ask(way, given.requests)
        look("before", broker, way, given.requests, given.connections)
        strangers = Strangers(way.port, given.count)
        strangers.start()
        try:
            until = time.monotonic() + 60
            while strangers.standing + strangers.closed < given.count:
                if time.monotonic() > until:
                    raise SystemExit("so many connections could not be opened in a minute")
                time.sleep(0.05)
            look("during", broker, way, given.requests, given.connections)
            most = broker.rss_peak_bytes() / 2**20
            print(
                f"{'':8} {strangers.standing:,} stand half-open, {strangers.closed:,} were closed, "
                f"{strangers.refused:,} turned away; {most:.1f} MiB at most"
            )
        finally:
            strangers.end()
        look("after", broker, way, given.requests, given.connections)


if __name__ == "__main__":
    main()
