"""A broker with many queues dies and starts: how long that takes, and how long its loop stands.

    .venv/bin/python -m bench.queue_restart [--queues 100] [--messages 1000] [--starts 3]

makes the queues on one broker, puts messages one at a time, takes and settles each, kills the
broker with `kill -9`, and starts it again. No message is left: all that a start has to read is what
the queues have decided. Printed are, of each start, the seconds until `/health/ready` says so and
the longest time meanwhile in which the broker's loop answered nobody (`/health/live` is asked all
the time); and what the queues' logs take on the disk.

`--checkout DIR` measures the brokers of another checkout, which has a .venv of its own.
"""

from __future__ import annotations

import argparse
import http.client
import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from bench.ours import Kafkaesque, of_checkout
from bench.processes import BrokerProcess
from bench.queue_wire import TIMEOUT_MS, Link, batch_of, claims_of, create_queue
from kafkaesque.cli.broker_ports import unused_ports
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.messages.put_messages_request import PutMessagesRequest
from kafkaesque.protocols.kafka.messages.settle_messages_request import SettleMessagesRequest
from kafkaesque.protocols.kafka.messages.take_messages_request import TakeMessagesRequest

MIB: Final = 1024 * 1024
BYTES_MAX: Final = 1024 * 1024
MESSAGE_BYTES: Final = 100
#: Queues that are filled at the same time.
CONNECTIONS: Final = 50
START_S_MAX: Final = 300.0
#: The loop is asked so often whether it answers.
LOOK_S: Final = 0.01


def fill(address: str, name: str, messages: int) -> None:
    """Put, take and settle messages, one after the other."""
    link = Link(address)
    create_queue(link, name, {})
    put = PutMessagesRequest("/", name, TIMEOUT_MS, batch_of(1, MESSAGE_BYTES))
    take = TakeMessagesRequest("/", name, 0, 1, BYTES_MAX, wait_ms=TIMEOUT_MS)
    for _ in range(messages):
        link.ask(ApiKey.PUT_MESSAGES, put)
        claims = claims_of(link.ask(ApiKey.TAKE_MESSAGES, take))
        settle = SettleMessagesRequest("/", name, 0, claims, timeout_ms=TIMEOUT_MS)
        link.ask(ApiKey.SETTLE_MESSAGES, settle)


def fill_all(address: str, queues: int, messages: int) -> float:
    """Fill all queues; return the seconds that it took."""
    begun_s = time.monotonic()
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        names = [f"small-{number}" for number in range(queues)]
        for _ in pool.map(lambda name: fill(address, name, messages), names):
            pass
    return time.monotonic() - begun_s


def log_bytes(data: Path) -> int:
    """Return what the queues' logs take."""
    found = data.glob("__queue-*/*.log")
    return sum(each.stat().st_size for each in found)


class Admin:
    """A connection to the admin port, which is made as soon as somebody listens."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START_S_MAX)

    def ask(self, path: str) -> int | None:
        """Return the status that is answered; None where nobody listens yet."""
        try:
            self._connection.request("GET", path)
            answer = self._connection.getresponse()
            answer.read()
        except (ConnectionError, http.client.HTTPException):
            self._connection.close()
            return None
        return answer.status

    def close(self) -> None:
        self._connection.close()


def restart(broker: BrokerProcess, port: int) -> tuple[float, float]:
    """Kill a broker and start it; return the seconds until it is ready, and of its longest pause.

    Raises:
        SystemExit: it does not become ready.
    """
    broker.kill()
    begun_s = time.monotonic()
    broker.start()
    admin, pause_s = Admin(port), 0.0
    while time.monotonic() - begun_s < START_S_MAX:
        broker.raise_if_ended()
        asked_s = time.monotonic()
        if admin.ask("/health/live") is not None:
            pause_s = max(pause_s, time.monotonic() - asked_s)
            if admin.ask("/health/ready") == 200:
                admin.close()
                return time.monotonic() - begun_s, pause_s
        time.sleep(LOOK_S)
    raise SystemExit(f"not ready within {START_S_MAX:g} s:\n{broker.log_tail()}")


def main(arguments: Sequence[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench.queue_restart", description=__doc__)
    parser.add_argument("--queues", type=int, default=100)
    parser.add_argument("--messages", type=int, default=1000)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--checkout", type=Path)
    options = parser.parse_args(arguments)
    kind = Kafkaesque if options.checkout is None else of_checkout(options.checkout)
    (port,) = unused_ports(1)
    section = f'\n[[listener]]\nprotocol = "admin"\nport = {port}\n'
    with kind(1, sections=lambda _: section) as cluster:
        (broker,) = cluster.brokers
        filled_s = fill_all(broker.address, options.queues, options.messages)
        count = options.queues * options.messages
        print(f"{count:,} messages put, taken and settled in {filled_s:.0f} s", flush=True)
        data = broker.log_path.parent / "data"
        found = [restart(broker, port) for _ in range(options.starts)]
        ready, pauses = zip(*found, strict=True)
        print(f"logs of {options.queues} queues: {log_bytes(data) / MIB:.1f} MiB")
    print(
        f"start after kill -9 until ready: {statistics.median(ready):.2f} s in the median, "
        f"{max(ready):.2f} s at most, of {len(found)}; longest pause of the loop: "
        f"{1000 * statistics.median(pauses):.0f} ms in the median, {1000 * max(pauses):.0f} at most"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
