"""What is measured: one function per measure, which runs the sides of a contest in turns."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import product

from bench.contest import Case, Contest, Figures, Side, topic_of, wait_for_leaders
from bench.load import Load, run_load
from bench.processes import (
    BrokerProcess,
    ask_end_offset,
    ask_metadata,
    wait_until_ready,
    wait_until_serving,
)
from bench.processor_time import tree_seconds
from bench.shares import measure_shares
from bench.transactions import measure_transactions

MIB = 1024 * 1024
PARTITIONS = 6
SIZES = {"100 B": 100, "1 KB": 1000, "16 KB": 16_000}
RATE = 5000
# librdkafka's default; and none, so that a message is a request of its own as long as that holds.
LINGERS_MS = (5, 0)
DEPTHS = (1, 64)
IDLE_PARTITIONS = 1000
READY_TIMEOUT_S = 300.0
MEMORY_SAMPLE_INTERVAL_S = 0.1
SETTLE_S = 3.0
SETTLE_MANY_S = 20.0
WARM_UP_SECONDS = 10.0
FAILOVER_RATE = 2000
FAILOVER_KILL_AFTER_S = 2.0
# Apache Kafka notices after 9 seconds that a broker is gone (broker.session.timeout.ms).
FAILOVER_SECONDS = 20.0


def _plural(brokers: int) -> str:
    return "1 broker" if brokers == 1 else f"{brokers} brokers"


def _sync(sync: bool) -> str:
    return "sync" if sync else "no sync"


def measure_throughput(contest: Contest) -> None:
    """Produce as fast as one client can, then read all of it back from the start."""
    quick = contest.settings.quick
    sizes = {"1 KB": 1000} if quick else SIZES
    for brokers in (1, 3):
        with contest.clusters(brokers) as sides:
            _warm_up(contest, sides)
            for acks, sync, (name, size) in product(
                ("all",) if quick else ("all", "1"), (False, True), sizes.items()
            ):
                detail = f"{name}, acks={acks}, {_sync(sync)}, {_plural(brokers)}"
                turn = partial(_throughput, contest, detail, size, acks, sync)
                contest.take_turns(sides, turn)


def _throughput(
    contest: Contest, detail: str, size: int, acks: str, sync: bool, side: Side
) -> Figures:
    settings = contest.settings
    with topic_of(side, partitions=PARTITIONS, sync=sync) as topic:
        produced = run_load(
            "produce",
            side.bootstrap_servers,
            topic,
            size=size,
            acks=acks,
            seconds=settings.seconds,
            bytes=settings.bytes_max,
        )
        messages = int(produced["messages"])
        if produced["failed"]:
            contest.note(f"{side.name}, {detail}: {produced['failed']:.0f} messages not delivered")
        consumed = run_load("consume", side.bootstrap_servers, topic, messages=messages)
    produce = Case(measure="produce", detail=detail, unit="MB/s", higher_is_better=True)
    fetch = Case(measure="fetch", detail=detail, unit="MB/s", higher_is_better=True)
    return {
        produce: messages * size / produced["seconds"] / 1e6,
        fetch: consumed["bytes"] / consumed["seconds"] / 1e6,
    }


def _warm_up(contest: Contest, sides: list[Side]) -> None:
    """Let the peer's just-in-time compiler see every path before anything is counted."""
    seconds = contest.settings.seconds if contest.settings.quick else WARM_UP_SECONDS
    for side in sides:
        with topic_of(side, partitions=PARTITIONS, sync=False) as topic:
            servers = side.bootstrap_servers
            produced = run_load("produce", servers, topic, acks="all", seconds=seconds)
            run_load("consume", servers, topic, messages=int(produced["messages"]))
            run_load("requests", servers, topic, size=100, acks="all", seconds=seconds)


def measure_latency(contest: Contest) -> None:
    """End-to-end latency at a fixed rate, from when a message was due until it was consumed."""
    for brokers in (1, 3):
        with contest.clusters(brokers) as sides:
            _warm_up(contest, sides)
            for sync, linger_ms in product((False, True), LINGERS_MS):
                load = f"{RATE:,} messages/s of 100 B, linger {linger_ms} ms"
                detail = f"{load}, acks=all, {_sync(sync)}, {_plural(brokers)}"
                turn = partial(_latency, contest, detail, linger_ms, sync)
                contest.take_turns(sides, turn)


def _latency(contest: Contest, detail: str, linger_ms: int, sync: bool, side: Side) -> Figures:
    with topic_of(side, partitions=PARTITIONS, sync=sync) as topic:
        found = run_load(
            "latency",
            side.bootstrap_servers,
            topic,
            size=100,
            rate=RATE,
            seconds=contest.settings.seconds,
            warmup=RATE,
            producer_acks="all",
            producer_linger_ms=linger_ms,
        )
    return {
        Case(
            measure=f"end-to-end latency {name}", detail=detail, unit="ms", higher_is_better=False
        ): found[key]
        for name, key in (("p50", "p50_ms"), ("p99", "p99_ms"), ("p99.9", "p999_ms"))
    }


def measure_requests(contest: Contest) -> None:
    """Produce requests of one small message each, one or 64 of them in flight."""
    for brokers in (1, 3):
        with contest.clusters(brokers) as sides:
            _warm_up(contest, sides)
            for sync, depth in product((False, True), DEPTHS):
                detail = f"depth {depth}, 100 B, acks=all, {_sync(sync)}, {_plural(brokers)}"
                contest.take_turns(sides, partial(_requests, contest, detail, depth, sync))


def _requests(contest: Contest, detail: str, depth: int, sync: bool, side: Side) -> Figures:
    with topic_of(side, partitions=1, sync=sync) as topic:
        before = sum(tree_seconds(broker.pid) for broker in side.brokers)
        found = run_load(
            "requests",
            side.bootstrap_servers,
            topic,
            size=100,
            acks="all",
            depth=depth,
            seconds=contest.settings.seconds,
            warmup=100,
        )
        used = sum(tree_seconds(broker.pid) for broker in side.brokers) - before
    case = partial(Case, detail=detail)
    rate = case(measure="small produces", unit="requests/s", higher_is_better=True)
    cost = case(measure="processor for one", unit="µs", higher_is_better=False)
    # The few that warm up are in the cost, and are not counted.
    return {
        rate: found["requests"] / found["seconds"],
        cost: used / found["requests"] * 1e6,
    }


def measure_startup(contest: Contest) -> None:
    """From the start of the process until it answers Metadata with itself as the controller."""
    contest.take_turns_anew(1, _startup)


def _startup(side: Side) -> Figures:
    (broker,) = side.brokers
    start = time.monotonic()
    broker.start()
    ready = wait_until_ready(broker, brokers=1, timeout_s=READY_TIMEOUT_S)
    case = Case(measure="start-up", detail="1 broker, empty", unit="s", higher_is_better=False)
    return {case: ready - start}


def measure_memory(contest: Contest) -> None:
    """Resident memory of the broker process: idle, and the most while it is under load."""
    contest.take_turns_anew(1, partial(_memory, contest))


def _memory(contest: Contest, side: Side) -> Figures:
    (broker,) = side.brokers
    broker.start()
    wait_until_ready(broker, brokers=1, timeout_s=READY_TIMEOUT_S)
    time.sleep(SETTLE_S)
    idle = broker.rss_bytes()
    with topic_of(side, partitions=PARTITIONS, sync=None) as topic, _sampled(broker) as samples:
        produced = run_load(
            "produce", side.bootstrap_servers, topic, acks="all", seconds=contest.settings.seconds
        )
        run_load("consume", side.bootstrap_servers, topic, messages=int(produced["messages"]))
    case = partial(Case, measure="resident memory", unit="MiB", higher_is_better=False)
    return {
        case(detail="1 broker, idle"): idle / MIB,
        case(detail="1 broker, the most under 1 KB load"): max(samples) / MIB,
    }


@contextmanager
def _sampled(broker: BrokerProcess) -> Iterator[list[int]]:
    """Collect the broker's resident memory while the block runs."""
    samples = [broker.rss_bytes()]
    is_over = threading.Event()

    def sample() -> None:
        while not is_over.wait(MEMORY_SAMPLE_INTERVAL_S):
            samples.append(broker.rss_bytes())

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield samples
    finally:
        is_over.set()
        thread.join()


def measure_idle(contest: Contest) -> None:
    """Processor time of a broker with many partitions in which nothing happens."""
    contest.take_turns_anew(1, partial(_idle, contest))


def _idle(contest: Contest, side: Side) -> Figures:
    (broker,) = side.brokers
    broker.start()
    wait_until_ready(broker, brokers=1, timeout_s=READY_TIMEOUT_S)
    with topic_of(side, partitions=IDLE_PARTITIONS, sync=None):
        time.sleep(SETTLE_MANY_S)
        before, start = broker.cpu_seconds(), time.monotonic()
        time.sleep(max(contest.settings.seconds, SETTLE_S))
        used = (broker.cpu_seconds() - before) / (time.monotonic() - start)
    case = partial(Case, measure="idle processor use", higher_is_better=False)
    return {
        case(detail=f"{IDLE_PARTITIONS:,} partitions, 1 broker", unit="% of a core"): used * 100
    }


def measure_recovery(contest: Contest) -> None:
    """After kill -9, from the start of the process until every partition is served to its end."""
    contest.take_turns_anew(1, partial(_recovery, contest))


def _recovery(contest: Contest, side: Side) -> Figures:
    (broker,) = side.brokers
    broker.start()
    wait_until_ready(broker, brokers=1, timeout_s=READY_TIMEOUT_S)
    size = contest.settings.recovery_bytes
    with topic_of(side, partitions=PARTITIONS, sync=None) as topic:
        options = {"acks": "all", "bytes": size, "seconds": READY_TIMEOUT_S}
        run_load("produce", side.bootstrap_servers, topic, **options)
        ends = {each: ask_end_offset(broker.port, topic, each) for each in range(PARTITIONS)}
        broker.kill()
        start = time.monotonic()
        broker.start()
        serving = wait_until_serving(broker, topic, ends, timeout_s=READY_TIMEOUT_S)
    detail = f"after kill -9, {size / 1e9:g} GB written, process start included, 1 broker"
    case = Case(measure="recovery", detail=detail, unit="s/GB", higher_is_better=False)
    return {case: (serving - start) / (size / 1e9)}


def measure_failover(contest: Contest) -> None:
    """The longest time without an acknowledgement when the leader under load is killed."""
    contest.take_turns_anew(3, partial(_failover, contest))


def _failover(contest: Contest, side: Side) -> Figures:
    side.start()
    with topic_of(side, partitions=1, sync=None, options={"min.insync.replicas": "2"}) as topic:
        leader = wait_for_leaders(side, topic, 1)[topic, 0]
        addresses = ask_metadata(side.brokers[0].port).brokers
        (victim,) = [each for each in side.brokers if each.address == addresses[leader]]
        load = Load(
            "failover",
            side.bootstrap_servers,
            topic,
            {
                "size": 100,
                "rate": FAILOVER_RATE,
                "seconds": FAILOVER_SECONDS,
                "producer.enable.idempotence": "true",
                "producer.linger.ms": 0,
            },
        )
        load.wait_until_started()
        time.sleep(FAILOVER_KILL_AFTER_S)
        victim.kill()
        found = load.result()
        # So that what follows, deleting the topic, meets a whole cluster again.
        victim.start()
        side.wait_until_ready()
    for name in ("failed", "lost", "duplicated"):
        if found[name]:
            contest.note(f"{side.name}, failover: {found[name]:.0f} messages {name}")
    detail = f"kill -9 of the leader, {FAILOVER_RATE:,} messages/s, acks=all, defaults, 3 brokers"
    case = partial(Case, detail=detail, higher_is_better=False)
    return {
        case(measure="longest time without an acknowledgement", unit="s"): found["gap_ms"] / 1000,
        case(measure="acknowledged messages lost", unit="messages"): found["lost"],
        case(measure="messages duplicated", unit="messages"): found["duplicated"],
    }


MEASURES: Mapping[str, Callable[[Contest], None]] = {
    "startup": measure_startup,
    "memory": measure_memory,
    "idle": measure_idle,
    "requests": measure_requests,
    "latency": measure_latency,
    "throughput": measure_throughput,
    "transactions": measure_transactions,
    "shares": measure_shares,
    "recovery": measure_recovery,
    "failover": measure_failover,
}
