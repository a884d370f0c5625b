"""A queue in which very much waits: its memory, its first message, its restart and its disk.

    python -m bench.waiting_queue [--messages 1000000] [--behind 2000000] [--size 100]

One broker, a process of its own. First `--messages` messages are put and wait. Printed are the
broker's memory for each, what they take on the disk, and the time in which one message is taken.
Then the broker is killed (`kill -9`) and started, several times: measured is from the start of its
process until it has given out a message. Last, in a queue of its own, a message at the head is
locked again and again and never settled, while `--behind` messages are put and settled behind it.
Printed is the disk's space against what lives, and how long after the last settlement the log was
still cleaned. Messages that are missing, or too many, end it with an error.

Space is what `du` counts: blocks, those included that the write-ahead log has reserved. Memory has
the cache of what the logs end with, of at most 32 MiB, and buffers of the puts: a broker that has
just been started has neither, so its figure says what a waiting message costs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.processes import BrokerProcess
from bench.queue_wire import TIMEOUT_MS, Link, Refused, batch_of, claims_of, create_queue
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.messages.delete_queue_request import DeleteQueueRequest
from kafkaesque.protocols.kafka.messages.describe_queues_request import (
    DescribeQueuesRequest,
    QueueName,
)
from kafkaesque.protocols.kafka.messages.put_messages_request import PutMessagesRequest
from kafkaesque.protocols.kafka.messages.settle_messages_request import (
    Claim,
    SettleMessagesRequest,
)
from kafkaesque.protocols.kafka.messages.take_messages_request import TakeMessagesRequest
from tests.clients.cluster import KafkaesqueCluster

WAITING: Final = "waiting"
POISONED: Final = "poisoned"
BATCH: Final = 1_000
CONNECTIONS: Final = 4
TAKES: Final = 100
STARTS: Final = 3
MIB: Final = 1024 * 1024
BYTES_MAX: Final = 16 * MIB
#: What is taken and not settled is there again after this.
LOCK_MS: Final = 10_000
#: A broker that has been started is asked again after this, and given up after so long.
AGAIN_S: Final = 0.002
START_S_MAX: Final = 300.0
#: The disk is looked at so often, ...
LOOK_S: Final = 0.1
#: ... and nothing more is cleaned when it has not shrunk for so long: the cleaner rests for 15 s.
QUIET_S: Final = 45.0
#: All that is put behind the head is settled so long after the last was put.
SETTLED_S_MAX: Final = 120.0
#: The log of a queue that was deleted is gone after so long.
REMOVED_S_MAX: Final = 120.0


class Space(NamedTuple):
    """What is used of a disk, in bytes."""

    wal: int
    logs: int

    @property
    def total(self) -> int:
        return self.wal + self.logs

    def __str__(self) -> str:
        return f"{self.total / MIB:,.1f} MiB ({self.logs / MIB:,.1f} without the write-ahead log)"


def used(data: Path) -> Space:
    """Return what a broker's data take on the disk."""
    wal = used_bytes(data / "wal")
    return Space(wal, max(0, used_bytes(data) - wal))


def used_bytes(directory: Path) -> int:
    """Return what a directory takes on the disk, as `du` counts."""
    total = 0
    for home, _, names in os.walk(directory):
        for name in names:
            try:
                total += Path(home, name).stat().st_blocks * 512
            except FileNotFoundError:
                pass  # It has just been removed.
    return total


def batches_of(count: int) -> Iterator[int]:
    """Yield the sizes of the batches that make so many messages."""
    while count > 0:
        yield min(BATCH, count)
        count -= BATCH


def shares_of(count: int) -> list[int]:
    """Return how many of these messages each connection has."""
    return [count // CONNECTIONS + (at < count % CONNECTIONS) for at in range(CONNECTIONS)]


def fill(address: str, queue: str, count: int, size: int) -> float:
    """Put messages over several connections; return the seconds until all are acknowledged."""

    def put(share: int) -> None:
        link, request = Link(address), put_request(queue, BATCH, size)
        for batch in batches_of(share):
            same = request if batch == BATCH else put_request(queue, batch, size)
            link.ask(ApiKey.PUT_MESSAGES, same)

    begun_s = time.monotonic()
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        list(pool.map(put, shares_of(count)))
    return time.monotonic() - begun_s


def put_request(queue: str, count: int, size: int) -> PutMessagesRequest:
    return PutMessagesRequest("/", queue, TIMEOUT_MS, batch_of(count, size))


def take(link: Link, queue: str, count: int = 1, wait_ms: int = 0) -> Any:
    """Ask for messages; its `records` are None if there are none."""
    request = TakeMessagesRequest("/", queue, 0, count, BYTES_MAX, LOCK_MS, wait_ms)
    return link.ask(ApiKey.TAKE_MESSAGES, request)


def settle(link: Link, queue: str, claims: Sequence[Claim]) -> int:
    """Settle messages; return how many were."""
    if not claims:
        return 0
    request = SettleMessagesRequest("/", queue, 0, claims, timeout_ms=TIMEOUT_MS)
    stale = link.ask(ApiKey.SETTLE_MESSAGES, request).stale
    return _length(claims) - _length(stale)


def _length(claims: Sequence[Any]) -> int:
    return sum(each.end_offset - each.first_offset for each in claims)


def check_counts(link: Link, queue: str, wanted: int) -> None:
    """See that so many messages live.

    Raises:
        SystemExit: they are more or fewer.
    """
    request = DescribeQueuesRequest([QueueName("/", queue)], True, TIMEOUT_MS)
    (shown,) = link.ask(ApiKey.DESCRIBE_QUEUES, request).queues
    counts = {each.name: each.count for each in shown.counts}
    found = sum(counts[each] for each in ("ready", "delayed", "in_flight"))
    if found != wanted:
        raise SystemExit(f"queue {queue!r} should have {wanted:,} messages: {counts}")


# -- what waits


class Filled(NamedTuple):
    """What is known of the filled queue."""

    left: int
    #: The broker's memory, in bytes, before it was filled.
    empty_rss: int


def measure_waiting(broker: BrokerProcess, data: Path, count: int, size: int) -> Filled:
    """Fill a queue and take a few messages."""
    link = Link(broker.address)
    create_queue(link, WAITING, {})
    # What the first batch brings into memory is not its own.
    fill(broker.address, WAITING, BATCH, size)
    before, disk_before = broker.rss_bytes(), used(data)
    more = count - BATCH
    seconds = fill(broker.address, WAITING, more, size)
    after, disk = broker.rss_bytes(), used(data)
    check_counts(link, WAITING, count)
    print(f"put: {more / seconds:,.0f} messages/s of {size} bytes in batches of {BATCH:,}")
    print(
        f"memory: {before / MIB:.1f} MiB before, {after / MIB:.1f} MiB with {count:,} messages "
        f"waiting: {(after - before) / more:.1f} bytes a message"
    )
    lives, logs = more * record_bytes(size), disk.logs - disk_before.logs
    print(
        f"disk: {disk}; for {lives / MIB:,.1f} MiB of messages came {logs / MIB:,.1f} MiB of logs: "
        f"{logs / lives:.2f} times",
        flush=True,
    )
    takes = [time_take(link) for _ in range(TAKES)]
    print(
        f"take of one message: {1000 * statistics.median(takes):.2f} ms in the median, "
        f"{1000 * max(takes):.2f} ms at most, of {len(takes)}",
        flush=True,
    )
    check_counts(link, WAITING, count - len(takes))
    return Filled(count - len(takes), before)


def record_bytes(size: int) -> float:
    """Return what a message of a whole batch takes in the log."""
    return len(batch_of(BATCH, size)) / BATCH


def time_take(link: Link) -> float:
    """Take a message and settle it; return the seconds that the take took."""
    begun_s = time.monotonic()
    taken = take(link, WAITING)
    seconds = time.monotonic() - begun_s
    if taken.records is None or settle(link, WAITING, claims_of(taken)) != 1:
        raise SystemExit("no message was there at once, or it could not be settled")
    return seconds


# -- after a kill


def measure_starts(broker: BrokerProcess, filled: Filled) -> None:
    """Kill the broker, and start it again, several times."""
    times = []
    for _ in range(STARTS):
        broker.kill()
        begun_s = time.monotonic()
        broker.start()
        link = first_message(broker, begun_s)
        times.append(time.monotonic() - begun_s)
        check_counts(link, WAITING, filled.left)
    print(
        f"start after kill -9 until a message is taken: {statistics.median(times):.2f} s in the "
        f"median, {max(times):.2f} s at most, of {STARTS}"
    )
    more = broker.rss_bytes() - filled.empty_rss
    print(
        f"memory: {broker.rss_bytes() / MIB:.1f} MiB after such a start with {filled.left:,} "
        f"messages waiting: {more / filled.left:.1f} bytes a message",
        flush=True,
    )


def first_message(broker: BrokerProcess, begun_s: float) -> Link:
    """Ask until there is a message; it stays locked."""
    while time.monotonic() - begun_s < START_S_MAX:
        broker.raise_if_ended()
        try:
            link = Link(broker.address)
            if take(link, WAITING, wait_ms=1_000).records is not None:
                return link
        except (OSError, Refused):
            time.sleep(AGAIN_S)
    raise SystemExit(f"no message was given out within {START_S_MAX:g} s:\n{broker.log_tail()}")


# -- behind a message that stays


class DiskWatch:
    """Looks at a broker's data all the time, on a thread."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._is_over = threading.Event()
        self.now = self.most = used(data)
        #: When the logs took less than before, the last time.
        self._shrunk_s = 0.0
        self._thread = threading.Thread(target=self._go_on, daemon=True)
        self._thread.start()

    def _go_on(self) -> None:
        while not self._is_over.wait(LOOK_S):
            before, self.now = self.now, used(self._data)
            self.most = max(self.most, self.now, key=lambda each: each.total)
            if self.now.logs < before.logs:
                self._shrunk_s = time.monotonic()

    def wait_until_quiet(self, since_s: float) -> float:
        """Wait until the logs shrink no more; return for how long it went on after `since_s`."""
        while time.monotonic() - max(since_s, self._shrunk_s) < QUIET_S:
            time.sleep(LOOK_S)
        return max(0.0, self._shrunk_s - since_s)

    def close(self) -> None:
        """Look no more."""
        self._is_over.set()
        self._thread.join()


class Behind:
    """Puts and settles messages behind one that nobody settles."""

    def __init__(self, address: str, size: int) -> None:
        self._address = address
        self._size = size
        self._lock = threading.Lock()
        self._settled = 0
        self.given = 1
        link = Link(address)
        create_queue(link, POISONED, {})
        link.ask(ApiKey.PUT_MESSAGES, put_request(POISONED, 1, size))
        (claim,) = claims_of(take(link, POISONED, wait_ms=TIMEOUT_MS))
        self._head: int = claim.first_offset

    def run(self, count: int) -> float:
        """Put and settle so many; return the seconds that it took."""
        begun_s = time.monotonic()
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            list(pool.map(self._put_and_settle, shares_of(count)))
        link, put_s = Link(self._address), time.monotonic()
        while self._settled < count:
            if time.monotonic() - put_s > SETTLED_S_MAX:
                raise SystemExit(f"{self._settled:,} of {count:,} messages were settled")
            self._take_and_settle(link, 500)
        if self._settled > count:
            raise SystemExit(f"{self._settled:,} messages were settled, and {count:,} put")
        seconds = time.monotonic() - begun_s
        check_counts(link, POISONED, 1)
        return seconds

    def _put_and_settle(self, share: int) -> None:
        link, request = Link(self._address), put_request(POISONED, BATCH, self._size)
        for batch in batches_of(share):
            same = request if batch == BATCH else put_request(POISONED, batch, self._size)
            link.ask(ApiKey.PUT_MESSAGES, same)
            self._take_and_settle(link, 0)

    def _take_and_settle(self, link: Link, wait_ms: int) -> None:
        taken = take(link, POISONED, BATCH, wait_ms)
        if taken.records is None:
            return
        claims = claims_of(taken)
        others = list(beside(claims, self._head))
        count = settle(link, POISONED, others)
        with self._lock:
            self._settled += count
            self.given += _length(claims) > _length(others)


def beside(claims: Sequence[Claim], offset: int) -> Iterator[Claim]:
    """Yield claims of all messages but one."""
    for each in claims:
        if each.first_offset <= offset < each.end_offset:
            parts = ((each.first_offset, offset), (offset + 1, each.end_offset))
            yield from (Claim(*part, each.attempt) for part in parts if part[0] < part[1])
        else:
            yield each


def measure_behind(broker: BrokerProcess, data: Path, count: int, size: int) -> None:
    """Put and settle messages behind one that stays, and look at the disk."""
    before, memory = used(data), broker.rss_bytes()
    behind, watch = Behind(broker.address, size), DiskWatch(data)
    seconds = behind.run(count)
    ended_s, at_end = time.monotonic(), used(data)
    lag_s = watch.wait_until_quiet(ended_s)
    watch.close()
    check_counts(Link(broker.address), POISONED, 1)
    lives, now = len(batch_of(1, size)), watch.now
    print(
        f"behind a head that stays (given out {behind.given} times): {count / seconds:,.0f} "
        f"messages/s put and settled, {count * record_bytes(size) / MIB:,.1f} MiB in all"
    )
    print(f"memory: {memory / MIB:.1f} MiB before, {broker.rss_bytes() / MIB:.1f} MiB after")
    print(f"disk before: {before}")
    print(f"disk at most: {watch.most}")
    print(f"disk at the last settlement: {at_end}")
    print(f"disk in the end: {now}; the logs shrank until {lag_s:.1f} s after the last settlement")
    print(
        f"what lives: {lives:,} bytes, and on the disk {now.total:,}: {now.total / lives:,.0f} "
        f"times as many, or twice as many and {(now.total - 2 * lives) / MIB:,.1f} MiB",
        flush=True,
    )


def remove(link: Link, queue: str, data: Path) -> None:
    """Delete the only queue, and wait until its log is gone."""
    link.ask(ApiKey.DELETE_QUEUE, DeleteQueueRequest("/", queue, TIMEOUT_MS))
    begun_s = time.monotonic()
    while any(data.glob("__queue-*")) or any(data.glob("*.deleted")):
        if time.monotonic() - begun_s > REMOVED_S_MAX:
            raise SystemExit(f"the log of a deleted queue is still there after {REMOVED_S_MAX:g} s")
        time.sleep(LOOK_S)


def main(arguments: Sequence[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench.waiting_queue", description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--behind", type=int, default=2_000_000)
    parser.add_argument("--size", type=int, default=100)
    options = parser.parse_args(arguments)
    if options.messages < 2 * BATCH or options.behind < 1 or options.size < 1:
        parser.error(f"at least {2 * BATCH:,} messages wait, and one of at least a byte follows")
    with (
        tempfile.TemporaryDirectory() as directory,
        KafkaesqueCluster(brokers=1, directory=Path(directory)) as cluster,
    ):
        (broker,) = cluster.brokers
        data = broker.log_path.parent / "data"
        filled = measure_waiting(broker, data, options.messages, options.size)
        measure_starts(broker, filled)
        remove(Link(broker.address), WAITING, data)
        measure_behind(broker, data, options.behind, options.size)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
