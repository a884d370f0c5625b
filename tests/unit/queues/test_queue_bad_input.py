"""What clients do wrong, or for too long: the right answer, bounded memory, and nothing is lost."""

import gc
import subprocess
import sys
import tracemalloc
from itertools import pairwise

import pytest

from bench.queues import Queue
from kafkaesque.queues.policy import Overflow, Policy
from kafkaesque.queues.requests import Claim, Done, Extend, GiveBack, Reject, Verdict
from tests.unit.queues.queue_host import PLAIN, Message, QueueHost

LOCK_MS = 1_000
COUNT = 4_000


#: Where a queue keeps what it knows. Threads that other tests have left go on elsewhere.
ROOMS = [tracemalloc.Filter(True, f"*/kafkaesque/{room}/*") for room in ("queues", "tables")]


def _held() -> tracemalloc.Snapshot:
    gc.collect()
    return tracemalloc.take_snapshot().filter_traces(ROOMS)


def _growth(before: tracemalloc.Snapshot, after: tracemalloc.Snapshot) -> tuple[int, list[str]]:
    """Return by how many bytes more is held, and where the most of it comes from."""
    changes = after.compare_to(before, "lineno")
    return sum(each.size_diff for each in changes), [str(each) for each in changes[:5]]


def test_a_consumer_that_never_acknowledges_takes_no_memory_with_time() -> None:
    """What it holds comes again, to whoever asks, as often as it likes."""
    queue = Queue(Policy(lock_ms=LOCK_MS))
    queue.arrive(COUNT, lambda _: None)

    def hold_all() -> None:
        taken = 0
        while claims := queue.take(500):
            taken += sum(end - first for first, end, _ in claims)
        assert taken == COUNT
        queue.pass_time(LOCK_MS + 1)
        queue.settle_down()

    tracemalloc.start()
    try:
        held = []
        for _ in range(4):
            for _ in range(4):
                hold_all()
            held.append(_held())
    finally:
        tracemalloc.stop()
    # What is remembered once, such as a cache, grows once.
    grown, where = min(_growth(before, after) for before, after in pairwise(held))
    assert grown < COUNT, where
    assert queue.table.state.ready_count == COUNT
    assert queue.table.state.attempts[0] == 16


def test_a_consumer_that_never_acknowledges_has_no_more_than_the_limit() -> None:
    host = QueueHost(policy=Policy(lock_ms=0, in_flight_max=10))
    host.put(*[PLAIN] * 100)
    assert len(host.take_offsets(1_000)) == 10
    assert host.take_offsets(1_000) == []
    assert host.table.state.ready_count == 90


def test_what_is_claimed_and_was_never_had_changes_nothing() -> None:
    host = QueueHost(policy=Policy(lock_ms=LOCK_MS, dead_letters_to="dead"))
    host.put(PLAIN, PLAIN, PLAIN)
    (taken,) = host.take(1)
    forged = [
        Claim(1, 2, 1),
        Claim(taken.first, taken.end, taken.attempt + 1),
        Claim(taken.first, taken.end, 0),
        Claim(500, 600, 1),
        Claim(-5, -4, 1),
        Claim(2, 1, 1),
    ]
    state = host.table.state
    for claim in forged:
        for kind, fields in ((GiveBack, {}), (Reject, {}), (Extend, {"lock_ms": 5})):
            host.ask(kind, claims=(claim,), **fields)
        host.settle(claim)
        assert (state.live.count, state.flight_count, state.ready_count) == (3, 1, 2), claim
    assert not host.moves
    assert host.settle(taken) == Done()
    assert state.live.count == 2


def test_a_publisher_that_never_stops_is_refused_and_nothing_is_lost() -> None:
    policy = Policy(messages_max=50, overflow=Overflow.REJECT)
    host = QueueHost(policy=policy)
    refused = 0
    for _ in range(20):
        admissions = host.table.admit([b""] * 10, [1] * 10, host.instant)
        admitted = [each for each in admissions if each.verdict is Verdict.ADMITTED]
        refused += len(admissions) - len(admitted)
        if admitted:
            host.put(*[PLAIN] * len(admitted))
    assert (host.table.state.ready_count, refused) == (50, 150)
    assert host.take_offsets(100) == sorted(host.table.state.live.offsets())


def test_ids_that_never_end_are_bounded_and_publishers_are_told() -> None:
    host = QueueHost(policy=Policy(deduplication_ms=60_000, deduplication_count=5))
    for number in range(5):
        identity = b"%016d" % number
        assert host.table.admit([identity], [1], host.instant)[0].verdict is Verdict.ADMITTED
        host.put(Message(identity=identity))
    assert host.table.admit([b"%016d" % 9], [1], host.instant)[0].verdict is Verdict.FULL
    assert host.table.admit([b"%016d" % 3], [1], host.instant)[0].verdict is Verdict.DUPLICATE
    host.pass_time(120_001)
    assert host.table.admit([b"%016d" % 9], [1], host.instant)[0].verdict is Verdict.ADMITTED


#: Prints the bytes of memory that a million messages take, each of a group of its own, and whether
#: one group that is held stops any other one.
MILLION_GROUPS = """
from bench.queues import Queue, each_in_its_group
from kafkaesque.queues.policy import Policy

def resident():
    lines = open("/proc/self/status").read().splitlines()
    return 1024 * int(next(l for l in lines if l.startswith("VmRSS")).split()[1])

queue = Queue(Policy(is_ordered=True, lock_ms=1_000))
before = resident()
queue.arrive(1_000_000, each_in_its_group)
print((resident() - before) / 1_000_000)
(poison,) = queue.take(1)
# A second message of the group that is held waits; those of others are given out.
again = each_in_its_group(poison.first)
queue.arrive(1, lambda offset: again._replace(offset=offset))
taken = [o for _ in range(40) for c in queue.take(500) for o in range(c.first, c.end)]
assert len(set(taken)) == 20_000 and poison.first not in taken
assert queue.table.state.live.count == 1_000_001
"""


@pytest.mark.extended
def test_a_million_groups_take_their_few_bytes_and_one_of_them_stops_only_itself() -> None:
    command = [sys.executable, "-c", MILLION_GROUPS]
    printed = subprocess.check_output(command, text=True, timeout=300)
    assert 0 < float(printed) <= 24
