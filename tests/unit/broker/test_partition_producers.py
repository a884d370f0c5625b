"""Producers' sequence numbers, read again from the headers of a log that may be damaged."""

import pytest

from kafkaesque.broker.partition_producers import PartitionProducers
from kafkaesque.model.batch_encoder import BatchOptions
from kafkaesque.storage.errors import StorageCorrupt
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


@pytest.mark.parametrize("at", [8, 11, 16], ids=["much too long", "too long", "no batch"])
@pytest.mark.parametrize("batch", [2, BATCHES - 1])
def test_a_damaged_header_is_damage_to_the_log(at: int, batch: int) -> None:
    """Whoever opens the partition leaves it to other replicas then, and goes on."""
    world, size = written()
    path = world.log().segments.segments[0].path
    world.disk.inode(path).data[batch * size + at] ^= 0x40
    with pytest.raises(StorageCorrupt, match=path):
        replay(world)
