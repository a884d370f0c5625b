"""What queues cost three brokers in which nothing happens, and consumers that wait.

    .venv/bin/python -m bench.idle_queues [--queues 10000] [--polls 10000] [--seconds 30]
        [--option NAME=VALUE]...

Three figures of the same cluster: empty, with the queues, and with the queues and consumers that
wait for messages, each on a connection of its own (a take that waits for 20 s, and is asked again).
Of each are printed the messages between the brokers (as `bench.partitions` counts them), the share
of a core that a broker takes, and its memory; then what a queue and a waiting consumer cost.
Everything runs on this machine; the processor time is that of the brokers alone.
"""

from __future__ import annotations

import argparse
import selectors
import shutil
import socket
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from bench.ours import Kafkaesque
from bench.partitions import BROKERS, Idle, measure_idle
from bench.processes import allow_files
from bench.queue_wire import TIMEOUT_MS, Link
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.frames import write_request
from kafkaesque.protocols.kafka.messages.create_queue_request import CreateQueueRequest, SetOption
from kafkaesque.protocols.kafka.messages.describe_queues_request import DescribeQueuesRequest
from kafkaesque.protocols.kafka.messages.take_messages_request import TakeMessagesRequest

WAIT_MS = 20_000
MAKERS = 8
LED_S_MAX = 600.0
#: Connections that are opened before the answers are looked at.
OPENED_AT_ONCE = 200
#: Files that the client, or a broker, has beside these connections.
SPARE_FILES = 8_192
COLUMNS = ("", "messages/s between brokers", "B/s", "% of a core a broker", "MiB a broker")


def name_of(number: int) -> str:
    """Return what a queue is called."""
    return f"idle-{number}"


def create(cluster: Kafkaesque, count: int, options: Sequence[str]) -> float:
    """Make the queues; return the seconds until all of them have a leader."""
    begun_s = time.monotonic()
    chosen = [SetOption(name, value) for name, _, value in (o.partition("=") for o in options)]
    here = threading.local()

    def make(number: int) -> None:
        if not hasattr(here, "link"):
            here.link = Link(cluster.brokers[number % BROKERS].address)
        request = CreateQueueRequest("/", name_of(number), options=chosen, timeout_ms=TIMEOUT_MS)
        here.link.ask(ApiKey.CREATE_QUEUE, request)

    with ThreadPoolExecutor(MAKERS) as pool:
        for _ in pool.map(make, range(count)):
            pass
    link = Link(cluster.brokers[0].address)
    while time.monotonic() - begun_s < LED_S_MAX:
        request = DescribeQueuesRequest(None, False, TIMEOUT_MS)
        found = link.ask(ApiKey.DESCRIBE_QUEUES, request).queues
        if sum(each.leader_id >= 0 for each in found) >= count:
            return time.monotonic() - begun_s
        time.sleep(0.5)
    raise SystemExit(f"not all queues have a leader after {LED_S_MAX:g} s")


class Polls:
    """Consumers that wait, on a thread; one connection for each."""

    def __init__(self, cluster: Kafkaesque, count: int, queues: int) -> None:
        self._selector = selectors.DefaultSelector()
        self._is_over = False
        self._is_broken = False
        self.answers = 0
        for number in range(count):
            host, _, port = cluster.brokers[number % BROKERS].address.rpartition(":")
            connected = socket.create_connection((host, int(port)))
            take = TakeMessagesRequest("/", name_of(number % queues), 0, 1, 1024, wait_ms=WAIT_MS)
            frame = write_request(ApiKey.TAKE_MESSAGES, 0, 1, "bench", take)
            connected.sendall(frame)
            self._selector.register(connected, selectors.EVENT_READ, frame)
            if number % OPENED_AT_ONCE == 0:
                time.sleep(0.01)
        self._thread = threading.Thread(target=self._go_on, daemon=True)
        self._thread.start()

    def _go_on(self) -> None:
        while not self._is_over:
            for key, _ in self._selector.select(0.2):
                connected: socket.socket = key.fileobj  # type: ignore[assignment]
                if not connected.recv(64 * 1024):
                    # A thread that raises SystemExit ends without a word.
                    self._is_broken = True
                    return
                self.answers += 1
                # Empty answers are short: they come whole.
                connected.sendall(key.data)

    def close(self) -> None:
        """Wait no more.

        Raises:
            SystemExit: a broker has closed a connection, so what was measured is not what it says.
        """
        self._is_over = True
        self._thread.join()
        if self._is_broken:
            raise SystemExit("a broker has closed a connection that waits")
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]


def show(what: str, idle: Idle) -> None:
    """Print a row."""
    figures = (idle.messages_per_s, idle.bytes_per_s, idle.core_percent, idle.resident_mib)
    cells = [f"{each:,.3g}" if each < 100 else f"{each:,.0f}" for each in figures]
    print(f"| {what} | {' | '.join(cells)} |", flush=True)


def main(arguments: Sequence[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench.idle_queues", description=__doc__)
    parser.add_argument("--queues", type=int, default=10_000)
    parser.add_argument("--polls", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE")
    options = parser.parse_args(arguments)
    if shutil.which("ss") is None:
        print("bench.idle_queues needs ss (Debian package iproute2)", file=sys.stderr)
        return 2
    allow_files(options.polls + SPARE_FILES)
    with Kafkaesque(BROKERS) as cluster:
        print(f"| {' | '.join(COLUMNS)} |")
        print("|---" * len(COLUMNS) + "|", flush=True)
        empty = measure_idle(cluster, options.seconds)
        show("empty", empty)
        created_s = create(cluster, options.queues, options.option)
        queues = measure_idle(cluster, options.seconds)
        show(f"{options.queues:,} queues", queues)
        polls = Polls(cluster, options.polls, options.queues)
        waiting = measure_idle(cluster, options.seconds)
        polls.close()
        show(f"and {options.polls:,} polls", waiting)
    queue_kib = 1024 * (queues.resident_mib - empty.resident_mib) * BROKERS / options.queues
    poll_kib = 1024 * (waiting.resident_mib - queues.resident_mib) * BROKERS / options.polls
    print(f"made in {created_s:.0f} s")
    print(
        f"a queue takes {queue_kib:.1f} KiB in all brokers together, a waiting poll {poll_kib:.1f}"
    )
    more = waiting.core_percent - queues.core_percent
    print(
        f"traffic between brokers: {queues.messages_per_s / max(1e-9, empty.messages_per_s):.2f} "
        f"times that of the empty cluster; the polls take {BROKERS * more:.2f}% of a core in all "
        f"brokers together ({polls.answers} answers)"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
