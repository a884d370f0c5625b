"""What a queue's engine costs: memory for each message that waits, and time for what is asked.

    python -m bench.queues [--messages 1000000]

One process, no broker: the table is driven as a partition drives it, and everything is committed at
once. Memory is what the allocator gives out (tracemalloc), so it is the same on every machine;
times are those of the processor.
"""

import argparse
import gc
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import kafkaesque
from kafkaesque.model.ids import Offset
from kafkaesque.queues import requests as r
from kafkaesque.queues.arrival import Arrival, Details, group_of
from kafkaesque.queues.policy import Policy
from kafkaesque.queues.runs import Run
from kafkaesque.queues.table import QueueTable
from kafkaesque.tables.log_table import Instant, RequestToken, Respond

WALL_MS = 1_700_000_000_000
BATCH = 64
DAY_MS = 86_400_000


class Queue:
    """A cursor over a log that only says what arrives: its engine, and nothing around it."""

    def __init__(self, policy: Policy) -> None:
        self.table = QueueTable(1, has_own_log=False)
        self.now = Instant(1_000, WALL_MS)
        self.end = self.arrived = self.tokens = 0
        self.decided_bytes = 0
        self.answers: dict[int, r.Answer] = {}
        self.table.lead(self.now)
        self._log_snapshot()
        self.turn()
        self.ask(r.Configure, policy=policy)

    def ask(self, kind: Callable[..., r.Request], **fields: object) -> r.Answer | None:
        self.tokens += 1
        self.table.decide(kind(token=RequestToken(self.tokens), **fields), self.now)
        self.turn()
        return self.answers.pop(self.tokens, None)

    def turn(self) -> None:
        logged = self.table.turn()
        if logged is not None:
            self.decided_bytes += sum(map(len, logged.decisions))
            self.table.on_logged(logged, Offset(self.end), Offset(self.end + 1))
            self.end += 1
            self._log_snapshot()
        self.table.commit(Offset(self.end))
        for effect in (*self.table.take_ready(), *self.table.take_unconfirmed()):
            if isinstance(effect, Respond):
                self.answers[effect.token] = effect.result

    def _log_snapshot(self) -> None:
        for part in self.table.snapshot_parts():
            self.table.on_logged(part, Offset(self.end), Offset(self.end + 1))
            self.end += 1

    def settle_down(self) -> int:
        """Do what is due until nothing is; return how many turns that took."""
        turns = 0
        while (due_ms := self.table.next_deadline_ms()) is not None and due_ms <= self.now.now_ms:
            self.table.tick(self.now)
            self.turn()
            turns += 1
        return turns

    def arrive(self, count: int, details: Callable[[int], Details | None]) -> None:
        for first in range(self.arrived, self.arrived + count, BATCH):
            run = Run(first, min(first + BATCH, self.arrived + count))
            found = tuple(each for offset in range(*run) if (each := details(offset)))
            arrival = Arrival(runs=(run,), wall_ms=self.now.wall_ms, sizes=(1024,), details=found)
            self.ask(r.Arrived, arrival=arrival)
        self.arrived += count

    def take(self, count: int) -> tuple[r.Claim, ...]:
        answer = self.ask(r.Take, messages_max=count)
        return answer.claims if isinstance(answer, r.Taken) else ()

    def pass_time(self, ms: int) -> None:
        self.now = Instant(self.now.now_ms + ms, self.now.wall_ms + ms)


def plain(offset: int) -> Details | None:
    return None


def with_priority(offset: int) -> Details:
    return Details(offset, priority=offset * 7 % 32)


def soon(offset: int) -> Details:
    return Details(offset, not_before_ms=WALL_MS + 60_000 + offset * 7_919 % 900_000)


def in_months(offset: int) -> Details:
    return Details(offset, not_before_ms=WALL_MS + DAY_MS + offset * 7_919_317 % (90 * DAY_MS))


def in_few_groups(offset: int) -> Details:
    return Details(offset, group=group_of(b"%d" % (offset % 1_000)))


def each_in_its_group(offset: int) -> Details:
    return Details(offset, group=group_of(b"%d" % offset))


KINDS: dict[str, tuple[Policy, Callable[[int], Details | None]]] = {
    "plain": (Policy(), plain),
    "32 priorities": (Policy(priorities=32), with_priority),
    "delayed, to 15 minutes": (Policy(), soon),
    "delayed, to 90 days": (Policy(), in_months),
    "1,000 groups": (Policy(is_ordered=True), in_few_groups),
    "a group each": (Policy(is_ordered=True), each_in_its_group),
}


#: What a queue keeps is made by code that lies there, or here.
OURS = tuple(
    tracemalloc.Filter(True, each) for each in (f"{Path(kafkaesque.__file__).parent}/*", __file__)
)


def bytes_each(kind: str, count: int) -> float:
    """Return the memory that each message takes that waits."""
    policy, details = KINDS[kind]
    queue = Queue(policy)
    gc.collect()
    tracemalloc.start()
    queue.arrive(count, details)
    queue.settle_down()
    queue.table.take_ready()
    queue.answers.clear()
    gc.collect()
    taken = tracemalloc.take_snapshot()
    tracemalloc.stop()
    # Other threads of the process take memory as well.
    ours = taken.filter_traces(OURS)
    return sum(trace.size for trace in ours.traces) / count


def first_ms(kind: str, count: int) -> float:
    """Return how long the first message takes from being asked for, of so many that wait."""
    policy, details = KINDS[kind]
    queue = Queue(policy)
    queue.arrive(count, details)
    if "delayed" in kind:
        queue.arrive(1, plain)
    queue.settle_down()
    with timed() as ms:
        claims = queue.take(1)
    assert claims
    return ms[0]


@contextmanager
def timed() -> Iterator[list[float]]:
    """Give the milliseconds of a core that something takes."""
    ms: list[float] = []
    begin = time.process_time()
    yield ms
    ms.append((time.process_time() - begin) * 1_000)


def round_trip_us(count: int, each: int) -> tuple[float, float]:
    """Return microseconds, and bytes of decisions, for each message put, taken and settled."""
    queue = Queue(Policy())
    queue.decided_bytes = 0
    begin = time.process_time()
    for _ in range(count // each):
        run = Run(queue.arrived, queue.arrived + each)
        arrival = Arrival(runs=(run,), wall_ms=queue.now.wall_ms, sizes=(1024,))
        queue.ask(r.Arrived, arrival=arrival)
        queue.arrived += each
        queue.ask(r.Settle, claims=queue.take(each))
    return (time.process_time() - begin) / count * 1e6, queue.decided_bytes / count


def poison_ms(count: int) -> tuple[float, int]:
    """Return the slowest turn, and the turns, until others get a message behind a held group."""
    queue = Queue(Policy(is_ordered=True))
    poison = group_of(b"poison")
    queue.arrive(count, lambda offset: Details(offset, group=poison))
    queue.arrive(1, lambda offset: Details(offset, group=group_of(b"other")))
    queue.take(1)
    queue.ask(r.Take, wait_ms=60_000)
    token, slowest, turns = queue.tokens, 0.0, 0
    while token not in queue.answers:
        with timed() as ms:
            queue.table.tick(queue.now)
            queue.turn()
        slowest, turns = max(slowest, ms[0]), turns + 1
    return slowest, turns


def steps_of(count: int) -> dict[str, tuple[float, int]]:
    """Return what is done to many messages at once: the slowest turn, and how many turns."""
    found: dict[str, tuple[float, int]] = {}

    def measure(name: str, queue: Queue, begin: Callable[[], object]) -> None:
        slowest, turns = 0.0, 0
        with timed() as ms:
            begin()
        slowest = ms[0]
        while (due := queue.table.next_deadline_ms()) is not None and due <= queue.now.now_ms:
            with timed() as ms:
                queue.table.tick(queue.now)
                queue.turn()
            slowest, turns = max(slowest, ms[0]), turns + 1
        found[name] = slowest, turns + 1

    queue = Queue(Policy())
    queue.arrive(count, soon)
    queue.pass_time(2_000_000)
    measure("delays end", queue, lambda: None)
    measure(
        "a limit of 10 is set",
        queue,
        lambda: queue.ask(r.Configure, policy=Policy(messages_max=10)),
    )
    queue = Queue(Policy(priorities=32))
    queue.arrive(count, with_priority)
    measure("purged, 32 priorities", queue, lambda: queue.ask(r.Purge))
    queue = Queue(Policy())
    queue.arrive(count, plain)
    queue.pass_time(10_000)
    measure(
        "a time to live is set", queue, lambda: queue.ask(r.Configure, policy=Policy(ttl_ms=5_000))
    )
    queue = Queue(Policy())
    queue.arrive(count, plain)
    taken = 0
    while taken < min(count, 120_000):
        taken += sum(claim.end - claim.first for claim in queue.take(4_096))
    queue.pass_time(40_000)
    measure(f"{taken:,} locks end", queue, lambda: None)
    return found


def snapshot_ms(kind: str, count: int) -> tuple[int, float, float]:
    """Return the bytes of a snapshot, and the milliseconds to write and to read it."""
    policy, details = KINDS[kind]
    queue = Queue(policy)
    queue.arrive(count, details)
    queue.settle_down()
    with timed() as write:
        offset, state = queue.table.snapshot()
    with timed() as read:
        QueueTable(1).install(offset, state, 0, 0)
    return len(state), write[0], read[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=1_000_000)
    count = parser.parse_args().messages
    print(f"{count:,} messages that wait:")
    for kind in KINDS:
        length, write, read = snapshot_ms(kind, count)
        print(
            f"  {kind:24} {bytes_each(kind, count):6.2f} bytes each; first after"
            f" {first_ms(kind, count):5.2f} ms; snapshot {length:,} bytes,"
            f" {write:.0f} ms to write, {read:.0f} ms to read"
        )
    for each in (64, 8, 1):
        us, logged = round_trip_us(64_000, each)
        print(f"put, taken, settled, {each:2} at a time: {us:5.2f} us and {logged:.2f} bytes each")
    slowest, turns = poison_ms(count)
    print(f"behind a held group: {turns} turns, the slowest {slowest:.1f} ms")
    for name, (slowest, turns) in steps_of(count).items():
        print(f"{name}: {turns} turns, the slowest {slowest:.1f} ms")


if __name__ == "__main__":
    main()
