"""What a partition knows of producers: from a log that may be damaged, and for compaction."""

import pickle
from collections.abc import Iterator

import pytest

from kafkaesque.broker.partitions import producers as producers_module
from kafkaesque.broker.partitions.producers import PartitionProducers
from kafkaesque.broker.replication import stored_batches
from kafkaesque.model.batch import BatchHeader
from kafkaesque.model.batch_encoder import BatchOptions
from kafkaesque.storage.errors import StorageCorrupt
from kafkaesque.storage.group_log import GroupLog
from kafkaesque.transactions import producer_entries
from kafkaesque.transactions.aborted_index import AbortedTransaction
from kafkaesque.transactions.producer_state import ProducerStateConfig
from tests.unit.storage.helpers import World, add

BATCHES = 8


def replay(world: World) -> PartitionProducers:
    producers = PartitionProducers(
        ProducerStateConfig(producer_expiration_ms=1_000_000), world.clock.wall_ms, world.disk
    )
    producers.restore(world.log())
    return producers


def written() -> tuple[World, int]:
    """Return a world with one log, and the size of its batches."""
    world = World()
    log = world.log()
    for number in range(BATCHES):
        options = BatchOptions(producer_id=7, producer_epoch=0, base_sequence=number)
        size = len(add(log, 1, options=options).data)
    world.commit()
    return world, size


def test_the_headers_say_what_the_file_does_not() -> None:
    world, _ = written()
    assert replay(world)._table.end_offset == BATCHES


@pytest.mark.parametrize(
    "at",
    [3, 7, 8, 11, 16, 23, 24, 50, 55, 59],
    ids=[
        "far offset",
        "next offset",
        "much too long",
        "too long",
        "no batch",
        "another offset delta",
        "many offsets",
        "another producer",
        "another sequence",
        "another count",
    ],
)
@pytest.mark.parametrize("batch", [2, BATCHES - 1])
def test_a_damaged_header_is_damage_to_the_log(at: int, batch: int) -> None:
    """Whoever opens the partition leaves it to other replicas then, and goes on."""
    world, size = written()
    path = world.log().segments.segments[0].path
    world.disk.inode(path).data[batch * size + at] ^= 0x40
    with pytest.raises(StorageCorrupt, match=path):
        replay(world)


def test_what_tables_have_decided_is_not_read_for_producers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Queues have two such batches for each message, and no producer."""
    world = World()
    log = world.log()
    for _ in range(BATCHES):
        add(log, 1, options=BatchOptions(control=True))
    world.commit()

    def read(_: object) -> None:
        raise AssertionError("what names no producer ends no transaction")

    monkeypatch.setattr(producers_module, "_marker_in", read)
    assert replay(world)._table.end_offset == BATCHES


def test_a_log_without_producers_is_not_read_anew_from_its_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producers_module, "SAVE_INTERVAL_WITHOUT_PRODUCERS", BATCHES)
    world = World()
    log = world.log()
    for _ in range(BATCHES):
        add(log, 1)
    world.commit()
    producers = replay(world)
    producers.maybe_save(log, log.end_offset)
    add(log, 1)
    world.commit()
    world.disk.settle()
    seen = []

    def noted(of: GroupLog, offset: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        seen.append(offset)
        return stored_batches.replay(of, offset)

    monkeypatch.setattr(producers_module, "replay", noted)
    assert replay(world)._table.end_offset == BATCHES + 1
    assert seen == [BATCHES]


def test_what_compaction_is_told_is_gathered_without_a_look_at_each_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is gathered on the loop, and handed to another process while the loop waits."""
    world, _ = written()
    producers = replay(world)
    producers.on_committed(world.log().end_offset)
    for number in range(10_000):
        entry = AbortedTransaction(number % 7, 3 * number, 3 * number + 2, 3 * number + 3)
        producers._table.aborted.append(entry)

    def unpack(_: object) -> None:
        raise AssertionError("all remembered batches are looked at")

    monkeypatch.setattr(producer_entries, "remembered_batches", unpack)
    known = producers.before_compaction(15_000)
    assert known is not None
    assert known.last_offsets == {7: BATCHES - 1}
    assert [len(column) for column in known.aborted] == [5_000] * 3
    assert [column[-1] for column in known.aborted] == [4_999 % 7, 14_997, 14_999]
    assert len(pickle.dumps(known.aborted)) < 3 * 8 * 5_000 + 1_000, "as numbers, not as objects"
