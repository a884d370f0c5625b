"""The anomalies that no history shows are noticed where they happen: each has a test here.

*Stuck client* and *stuck replica*, *lost commit*, *client error*, *broker ended*, *unnoticed
damage*; what they are is in docs/chaos.md.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from itertools import repeat
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, Message, TopicPartition

from bench.chaos import run as chaos_run
from bench.chaos.clients import Client, IdempotentProducer, Member
from bench.chaos.ground import Ground
from bench.chaos.history import History, Where, make_value
from bench.chaos.machine import _CONTROL, Machine
from bench.chaos.run import Options, Run
from bench.kills.wire import PartitionView
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.ids import Index, Offset, Term
from kafkaesque.model.records import Record
from kafkaesque.storage.checkpoint import CHECKPOINT, write_checkpoint
from kafkaesque.storage.entries import HardState, LogIdentity, LogStart
from kafkaesque.storage.log_snapshot import LogSnapshot, SegmentSummary, write_snapshot
from tests.waiting import eventually

PLAIN: Where = ("plain", 0)
NOBODY_LISTENS = "127.0.0.1:1"
WAIT_S_MAX = 60.0


def names_of(anomalies: list[str]) -> list[str]:
    return [anomaly.partition(":")[0] for anomaly in anomalies]


# -- what a client does not come to an end with


class Idle(Client):
    """Ends when it is let go, whoever tells it to stop."""

    def __init__(self, history: History) -> None:
        super().__init__("idle0", NOBODY_LISTENS, history)
        self.let_go = threading.Event()

    def work(self) -> None:
        self.let_go.wait(WAIT_S_MAX)

    def describe(self) -> str:
        return "it waits for what never comes"


class LoadOf:
    """A load of one writer and one reader."""

    def __init__(self, writer: Client, reader: Client) -> None:
        self._writer, self._reader = writer, reader
        #: What progress says, one after the other.
        self.settled: Iterator[int] = repeat(0)
        for client in (writer, reader):
            client.start()

    def stop_writing(self) -> None:
        self._writer.stop()

    def writing(self) -> list[Client]:
        return [each for each in (self._writer,) if each.is_alive()]

    def progress(self) -> int:
        return next(self.settled)

    def read_to(self, _: dict[Where, int]) -> None:
        self._reader.stop()

    def reading(self) -> list[Client]:
        return [each for each in (self._reader,) if each.is_alive()]


@pytest.fixture
def calm_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """A run after its last fault, without brokers, that waits for a moment only."""
    options = Options(
        seed=1,
        brokers=1,
        plan=[],
        duration_ms=0,
        directory=tmp_path,
        has_network=False,
        interposer=None,
        has_spare=False,
    )
    run = Run(options, say=lambda _: None)
    run._machines = {}
    run._ground = Ground(
        {}, None, spare=None, departure=None, reassign=lambda _: None, seed=1, say=lambda _: None
    )
    monkeypatch.setattr(chaos_run, "end_offsets", lambda *_: {PLAIN: 0})
    monkeypatch.setattr(chaos_run, "STUCK_S", 0.05)
    monkeypatch.setattr(chaos_run, "SETTLE_S_MAX", 0.05)
    yield run
    run._journal.close()


@pytest.mark.parametrize("is_writer", [True, False])
def test_a_client_that_does_not_come_to_an_end_is_stuck(calm_run: Run, is_writer: bool) -> None:
    stuck, ending = Idle(calm_run.history), Idle(calm_run.history)
    ending.let_go.set()
    load: Any = LoadOf(stuck, ending) if is_writer else LoadOf(ending, stuck)
    try:
        calm_run._bring_to_an_end(load)
    finally:
        stuck.let_go.set()
    who = "writers" if is_writer else "readers"
    assert calm_run.history.anomalies == [
        f"stuck client: {who} have not come to an end after 0 s",
        "stuck client: idle0: it waits for what never comes",
    ]
    stuck.join(WAIT_S_MAX)


def test_clients_that_empty_queues_have_their_time(calm_run: Run) -> None:
    slow, ending = Idle(calm_run.history), Idle(calm_run.history)
    ending.let_go.set()
    load = LoadOf(slow, ending)

    def settle() -> Iterator[int]:
        yield from range(5)
        slow.let_go.set()
        slow.join(WAIT_S_MAX)
        yield 5

    load.settled = settle()
    calm_run._bring_to_an_end(cast(Any, load))
    assert calm_run.history.anomalies == []


def test_clients_that_come_to_an_end_are_not_stuck(calm_run: Run) -> None:
    first, second = Idle(calm_run.history), Idle(calm_run.history)
    for client in (first, second):
        client.let_go.set()
    load: Any = LoadOf(first, second)
    calm_run._bring_to_an_end(load)
    assert calm_run.history.anomalies == []


def test_a_replica_that_does_not_get_in_sync_is_stuck(
    calm_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind = PartitionView(leader=1, epoch=3, replicas=frozenset({1, 2}), in_sync=frozenset({1}))
    monkeypatch.setattr(calm_run, "_views", lambda: [{PLAIN: behind}])
    calm_run._settle()
    assert names_of(calm_run.history.anomalies) == ["stuck replica"]
    assert calm_run.report.anomalies == ["stuck replica: plain-0: 1@3[1]"]


# -- what clients are told


class Refusal:
    """An error of the client library that it does not recover from."""

    def name(self) -> str:
        return "_FATAL"

    def fatal(self) -> bool:
        return True


def test_a_producer_that_is_of_no_use_any_more_is_an_anomaly() -> None:
    history = History()
    producer = IdempotentProducer(
        "producer0", NOBODY_LISTENS, history, places=[PLAIN], per_second=1, seed=1
    )
    refusal: Any = Refusal()
    producer._on_error(refusal)
    assert names_of(history.anomalies) == ["client error"]


def test_a_client_that_raises_is_an_anomaly() -> None:
    class Raising(Idle):
        def work(self) -> None:
            raise RuntimeError("no more")

    history = History()
    client = Raising(history)
    client.start()
    client.join(WAIT_S_MAX)
    assert history.anomalies == ["client error: idle0: RuntimeError('no more')"]


def member_after(*, committed: int, error: KafkaError | None = None) -> Member:
    """A member that gets a partition after the group was told how its commit went."""
    history: Any = History()
    member = Member(
        "classic0",
        NOBODY_LISTENS,
        history,
        group="classic",
        topics=["plain"],
        is_committed=False,
        options={},
    )
    history.send("p", PLAIN)
    nobody: Any = None
    member._on_commit(error, [TopicPartition(*PLAIN, committed)])
    member._on_assign(nobody, [TopicPartition(*PLAIN)])
    return member


def give(member: Member, offset: int) -> list[str]:
    """Give a member a record; return the names of the anomalies then."""
    message = Message(topic=PLAIN[0], partition=PLAIN[1], offset=offset, value=make_value(0, 10))
    member._take(message, poll=1)
    return names_of(member.history.anomalies)


def test_a_member_that_begins_before_the_commit_of_its_group_is_an_anomaly() -> None:
    assert give(member_after(committed=5), 4) == ["lost commit"]


def test_a_member_that_begins_at_the_commit_of_its_group_is_none() -> None:
    assert give(member_after(committed=5), 5) == []
    refused = KafkaError(KafkaError.ILLEGAL_GENERATION)
    assert give(member_after(committed=5, error=refused), 4) == []


# -- what a machine does


def machine_at(home: Path, *enter: str) -> tuple[Machine, list[str], list[str]]:
    """A machine, what it says, and its anomalies."""
    said: list[str] = []
    anomalies: list[str] = []
    machine = Machine(
        "1",
        home=home,
        address="127.0.0.1",
        port=1,
        enter=enter,
        interposer=None,
        say=said.append,
        anomaly=anomalies.append,
    )
    machine.disk.mkdir()
    return machine, said, anomalies


def tick_until(machine: Machine, is_so: Callable[[], bool]) -> None:
    def is_done() -> bool:
        machine.tick()
        return is_so()

    eventually(is_done, "the machine has noticed", seconds=WAIT_S_MAX, pause_s=0.005)


def end_by_itself(machine: Machine, fault: str) -> None:
    """Let a program run that ends at once, with something wrong at the disk or not."""
    machine.start()
    if fault == "reads":
        page = machine.control
        page.failing["reads"] = True
        # The library that is loaded before the C library counts there what it has let fail.
        page._page[_CONTROL.size - 4 : _CONTROL.size] = (1).to_bytes(4, sys.byteorder)
        assert page.failures == 1
    elif fault == "space":
        machine._was_full = True
    tick_until(machine, lambda: machine.own_ends > 0)
    machine.kill()
    assert machine.own_ends == 1


@pytest.mark.parametrize(("fault", "names"), [("", ["broker ended"]), ("reads", []), ("space", [])])
def test_a_broker_that_ends_though_its_disk_is_well_is_an_anomaly(
    tmp_path: Path, fault: str, names: list[str]
) -> None:
    machine, _, anomalies = machine_at(tmp_path, "true")
    end_by_itself(machine, fault)
    assert names_of(anomalies) == names


def write_two_segments(machine: Machine, *, is_checkpointed: bool) -> None:
    """Give a machine a closed segment, and one that is not."""
    partition = machine.data / "plain-0"
    partition.mkdir(parents=True)
    batch = bytes(encode_batch([Record(n, 0, None, b"v" * 100, ()) for n in range(20)]))
    (partition / f"{0:020}.log").write_bytes(batch)
    (partition / f"{20:020}.log").write_bytes(b"")
    size = len(batch) if is_checkpointed else 0
    snapshot = LogSnapshot(
        identity=LogIdentity(group=1, topic="plain", partition=0, topic_id=bytes(16)),
        hard_state=HardState(term=Term(1), vote=None),
        start=LogStart(
            start_offset=Offset(0), prev_index=Index(0), prev_term=Term(0), marks_before=0
        ),
        marks=(),
        spans=(),
        last_index=0,
        commit_hint=0,
        write_caching=False,
        absorb=False,
        segments=(SegmentSummary(base_offset=0, size_bytes=size, max_timestamp=0, created_ms=0),),
    )
    checkpoint = write_checkpoint(wal_first=1, is_clean=False, lines=[write_snapshot(snapshot)])
    (machine.data / CHECKPOINT).write_bytes(checkpoint)


@pytest.mark.parametrize(
    ("is_checkpointed", "status", "names", "is_cured"),
    [
        (True, 4, [], True),
        (True, 0, ["unnoticed damage"], True),
        # The write-ahead log still has it: the start makes it good, and has to.
        (False, 0, [], False),
        (False, 4, [], True),
        (False, 1, ["unnoticed damage"], True),
    ],
)
@pytest.mark.parametrize("kind", ["bit flip", "truncation"])
def test_damage_that_log_verify_does_not_find_is_an_anomaly(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    is_checkpointed: bool,
    status: int,
    names: list[str],
    is_cured: bool,
) -> None:
    machine, _, anomalies = machine_at(tmp_path, "true")
    started = threading.Event()
    monkeypatch.setattr(machine, "start", started.set)
    write_two_segments(machine, is_checkpointed=is_checkpointed)
    verify = tmp_path / "verify"
    verify.write_text(f"#!/bin/sh\nexit {status}\n")
    verify.chmod(0o700)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", str(verify))
        assert machine.damage(kind, Random(1)) is not None
    tick_until(machine, started.is_set)
    assert names_of(anomalies) == names
    machine.cure()
    assert (machine.data / "plain-0").exists() is not is_cured
