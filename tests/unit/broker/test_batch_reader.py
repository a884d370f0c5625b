"""A pass over a log gives all that is there, also where the log changes on the way."""

import dataclasses
from collections.abc import Callable

import pytest

from kafkaesque.broker.partitions.batch_reader import BatchReader
from kafkaesque.model.batch import BatchHeader
from kafkaesque.model.ids import Offset
from kafkaesque.storage.group_log import GroupLog
from tests.unit.storage.helpers import SMALL, World, add

NO_CACHE = dataclasses.replace(SMALL, cache_bytes_max=0, index_cache_bytes_max=0)
END = 6
#: Reads that a pass is done with.
READS_MAX = 20


def passed(reads: int, change: Callable[[GroupLog], object]) -> tuple[list[int], GroupLog]:
    """Return the offsets that a pass gives if the log changes after so many reads."""
    world = World(NO_CACHE)
    log = world.log()
    for _ in range(END + 2):
        log.segments.roll_next = True
        add(log, 1)
    world.commit()
    world.disk.is_cold = True
    found: list[int] = []
    ends: list[Exception | None] = []

    def on_batch(header: BatchHeader, data: memoryview) -> None:
        found.append(header.base_offset)

    reader = BatchReader(
        log=log,
        disk=world.disk,
        position=Offset(0),
        end=Offset(END),
        on_batch=on_batch,
        on_done=ends.append,
    )
    reader.start()
    for _ in range(reads):
        world.clock.turn()
        world.disk.complete(1)
    change(log)
    world.store.submit()
    world.disk.settle()
    assert ends == [None]
    return found, log


@pytest.mark.parametrize("reads", range(READS_MAX))
def test_what_retention_takes_is_passed_over_and_no_more(reads: int) -> None:
    def change(log: GroupLog) -> None:
        log.advance_start(3)

    found, _ = passed(reads, change)
    assert found == sorted(set(found))
    assert {3, 4, 5} <= set(found)


@pytest.mark.parametrize("reads", range(READS_MAX))
def test_a_cut_behind_the_end_of_the_pass_takes_nothing_from_it(reads: int) -> None:
    found, log = passed(reads, lambda log: log.truncate_to(END + 1))
    assert log.end_offset == END + 1
    assert found == list(range(END))
