"""Sequential work per key: each account's bookings in order, all accounts at once.

    kafkaesque up --brokers 3
    python examples/sequential_per_key.py --bootstrap-server 127.0.0.1:9092

In the example there are two workers. The second joins in the middle and takes over half of the
partitions. Then the first one is killed (SIGKILL) and started again:

    bookings       60 for each of 10 accounts, each in its order
    worker killed  after 116 bookings
    results        310 by worker one
    results        300 by worker two
    done again     10

Three things together keep the order of a key:

- The producer writes records of one key to one partition, in the order in which they are sent. (An
  idempotent producer keeps the order even when it resends some of them.)
- The group gives a partition to one worker at a time. A worker that must give one back first
  finishes what it has begun there, and only then lets go; see `on_revoke`.
- A worker has lanes: threads with a queue each. A key always takes the same lane, so its records
  are processed one at a time, while other keys proceed in other lanes.

With lanes, records are not finished in the order of their offsets: 7 may be done and 5 not. A
committed offset says "all before is done", so the worker commits the lowest offset that is *not*
done. If it committed 8 as soon as 7 is done, a crash would lose 5. For each record:

    1. take it, and put it into the lane of its key
    2. do the work, in the lane
    3. write the result, and wait for the acknowledgement
    4. now the record is done: its offset no longer holds back the commit

A worker that is killed leaves records that are done and not committed. The next worker does them
again, in order, from the first that is not committed. So a key may go back a little, but never
skips: 1 2 3 4 | 3 4 5 6. A reader of the results keeps the last number of each key and ignores
everything that is not above it; then each record counts once, and in order. (`exactly_once.py`
never goes back.)
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import signal
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from multiprocessing.process import BaseProcess
from queue import Empty, SimpleQueue

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

ACCOUNTS = [f"account-{number}" for number in range(10)]
BOOKINGS = 60
PARTITIONS = 4
LANES = 4
#: Records that a worker has taken and not finished. A crash repeats not many more than these,
#: and a partition that is given back waits for no more than these.
UNDER_WAY_MAX = 40
POLL_S = 0.02
COMMIT_INTERVAL_MS = 200
#: Results of a worker to wait for before the next thing happens to it.
SOME = 20
TIMEOUT_S = 60.0


# -- the worker: a process of its own


class Progress:
    """How far the work on one partition has come."""

    def __init__(self) -> None:
        self._under_way: set[int] = set()
        self._end = 0
        #: Another worker has the partition already: this one must not finish what it has begun.
        self.is_lost = False

    def begin(self, offset: int) -> None:
        self._under_way.add(offset)
        self._end = offset + 1

    def finish(self, offset: int) -> None:
        self._under_way.discard(offset)

    @property
    def is_at_rest(self) -> bool:
        return not self._under_way

    @property
    def next_offset(self) -> int:
        """Where a successor has to begin: at the first record that is not done."""
        return min(self._under_way, default=self._end)


class Worker:
    """Does the bookings of its partitions; one thread has the clients, the lanes only work."""

    def __init__(self, bootstrap_server: str, prefix: str, name: str) -> None:
        self.is_over = threading.Event()
        self._name = name
        self._topic = f"{prefix}.bookings"
        self._results = f"{prefix}.results"
        self._lanes = [ThreadPoolExecutor(max_workers=1) for _ in range(LANES)]
        #: What the lanes have finished; the thread that owns the clients calls these.
        self._worked: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._progress: dict[int, Progress] = {}
        self._under_way = 0
        self._producer = Producer(
            {"bootstrap.servers": bootstrap_server, "enable.idempotence": True, "linger.ms": 1}
        )
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_server,
                "group.id": f"{prefix}.workers",
                # A fixed name: a worker that restarts with it gets its partitions back at once, and
                # the others are not disturbed. Without it, the group would first wait until the
                # killed one's session has timed out.
                "group.instance.id": name,
                # How soon a worker learns that another one joins.
                "heartbeat.interval.ms": 500,
                "auto.offset.reset": "earliest",
                # The client commits from time to time, but only what `store_offsets` was given.
                "enable.auto.offset.store": False,
                "auto.commit.interval.ms": COMMIT_INTERVAL_MS,
            }
        )

    def run(self) -> None:
        self._consumer.subscribe([self._topic], on_revoke=self._on_revoke, on_lost=self._on_lost)
        while not self.is_over.is_set():
            if self._under_way < UNDER_WAY_MAX:
                message = self._consumer.poll(POLL_S)
                if message is not None:
                    self._take(message)
                self._settle(0)
            else:
                self._settle(POLL_S)
            self._store(self._progress)
        self._consumer.close()

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            if error.fatal():
                raise KafkaException(error)
            return  # The client retries by itself.
        progress = self._progress.setdefault(message.partition() or 0, Progress())
        progress.begin(message.offset() or 0)
        self._under_way += 1
        # Not by CRC-32: the producer chooses partitions by it, so all keys of a partition would
        # take the same lane. Any other hash will do, since only this process uses it.
        lane = self._lanes[hash(message.key()) % LANES]
        worked = lane.submit(book, text(message.key()), text(message.value()))
        # Called in the lane, so a lane hands over its results in the order of its work.
        worked.add_done_callback(
            lambda future: self._worked.put(partial(self._write, progress, message, future))
        )

    def _write(self, progress: Progress, message: Message, worked: Future[str]) -> None:
        """Write the result; work that has failed ends the worker, and the record comes again."""
        if progress.is_lost:
            self._under_way -= 1
            return
        self._producer.produce(
            self._results,
            key=message.key(),
            value=worked.result(),
            headers={"worker": self._name, "pid": str(os.getpid())},
            on_delivery=partial(self._on_written, progress, message.offset() or 0),
        )

    def _on_written(
        self, progress: Progress, offset: int, error: KafkaError | None, _: Message
    ) -> None:
        if error is not None:
            raise KafkaException(error)
        self._under_way -= 1
        progress.finish(offset)

    def _settle(self, seconds: float) -> None:
        """Write what the lanes have done, and note what is acknowledged."""
        try:
            while True:
                self._worked.get(timeout=seconds)() if seconds else self._worked.get_nowait()()
                seconds = 0
        except Empty:
            self._producer.poll(0)

    def _store(self, partitions: dict[int, Progress]) -> None:
        """Tell the client what may be committed."""
        offsets = [
            TopicPartition(self._topic, partition, progress.next_offset)
            for partition, progress in partitions.items()
        ]
        if offsets:
            self._consumer.store_offsets(offsets=offsets)

    def _on_revoke(self, _: Consumer, revoked: list[TopicPartition]) -> None:
        """Finish what has begun, so that the next worker finds nothing under way.

        The group waits for this; what is stored here is committed before the partitions go.
        """
        mine = [each.partition for each in revoked if each.partition in self._progress]
        leaving = {partition: self._progress.pop(partition) for partition in mine}
        while not all(progress.is_at_rest for progress in leaving.values()):
            self._settle(POLL_S)
        self._store(leaving)

    def _on_lost(self, _: Consumer, lost: list[TopicPartition]) -> None:
        """The group has given them to somebody else, as this worker was silent for too long."""
        for each in lost:
            if each.partition in self._progress:
                self._progress.pop(each.partition).is_lost = True


def book(account: str, number: str) -> str:
    """Do the work: here it only takes its time, now longer and now shorter."""
    time.sleep(random.uniform(0.04, 0.12))
    return number


def work(bootstrap_server: str, prefix: str, name: str) -> None:
    worker = Worker(bootstrap_server, prefix, name)
    signal.signal(signal.SIGTERM, lambda *_: worker.is_over.set())
    worker.run()


def text(data: bytes | str | None) -> str:
    return data.decode() if isinstance(data, bytes) else data or ""


# -- the scenario


class Ledger:
    """Reads the results and counts each booking once: the last number of each account is enough."""

    def __init__(self, bootstrap_server: str, prefix: str) -> None:
        self.last = dict.fromkeys(ACCOUNTS, 0)
        self.results: Counter[str] = Counter()
        self.again = 0
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_server,
                "group.id": "unused",
                "enable.auto.commit": False,
            }
        )
        topic = f"{prefix}.results"
        partitions = [TopicPartition(topic, at, OFFSET_BEGINNING) for at in range(PARTITIONS)]
        self._consumer.assign(partitions)

    def close(self) -> None:
        self._consumer.close()

    def read_until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not holds():
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {TIMEOUT_S:.0f} s: {self.last}")
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self._count(message)

    def _count(self, message: Message) -> None:
        account, number = text(message.key()), int(text(message.value()))
        if number > self.last[account] + 1:
            raise ValueError(f"{account}: {number} comes after {self.last[account]}")
        if number == self.last[account] + 1:
            self.last[account] = number
        else:
            self.again += 1
        headers: dict[str, bytes | str | None] = dict(message.headers() or ())
        self.results[text(headers["worker"])] += 1


def main() -> None:
    arguments = parse_arguments()
    server, prefix = arguments.bootstrap_server, arguments.prefix
    admin = AdminClient({"bootstrap.servers": server})
    topics = [f"{prefix}.bookings", f"{prefix}.results"]
    for created in admin.create_topics([NewTopic(each, PARTITIONS, 3) for each in topics]).values():
        created.result()
    publish(server, topics[0])
    with closing(Ledger(server, prefix)) as ledger:
        workers = [start(server, prefix, "one")]
        try:
            ledger.read_until(lambda: ledger.results["one"] >= SOME)
            workers.append(start(server, prefix, "two"))
            ledger.read_until(lambda: ledger.results["two"] >= SOME)
            workers[0].kill()
            workers.append(start(server, prefix, "one"))
            killed_at = sum(ledger.last.values())
            ledger.read_until(lambda: all(last == BOOKINGS for last in ledger.last.values()))
        finally:
            for worker in workers:
                worker.terminate()
                worker.join(TIMEOUT_S)
    print(f"bookings       {BOOKINGS} for each of {len(ACCOUNTS)} accounts, each in its order")
    print(f"worker killed  after {killed_at} bookings")
    for name, count in sorted(ledger.results.items()):
        print(f"results        {count} by worker {name}")
    print(f"done again     {ledger.again}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Sequential work per key, with a crash.")
    server = os.environ.get("KAFKAESQUE_BOOTSTRAP_SERVER") or "127.0.0.1:9092"
    parser.add_argument("--bootstrap-server", default=server)
    unique = f"sequential-{uuid.uuid4().hex[:8]}"
    parser.add_argument("--prefix", default=unique, help="what topics and group begin with")
    return parser.parse_args()


def publish(bootstrap_server: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_server, "enable.idempotence": True})
    for number in range(1, BOOKINGS + 1):
        for account in ACCOUNTS:
            producer.produce(topic, key=account, value=str(number), on_delivery=raise_if_lost)
    producer.flush()


def raise_if_lost(error: KafkaError | None, _: Message) -> None:
    if error is not None:
        raise KafkaException(error)


def start(bootstrap_server: str, prefix: str, name: str) -> BaseProcess:
    process = multiprocessing.get_context("spawn").Process(
        target=work, args=(bootstrap_server, prefix, name), daemon=True
    )
    process.start()
    return process


if __name__ == "__main__":
    main()
