"""Replicas in several brokers' directories, compared offline."""

import dataclasses

import pytest

from kafkaesque.env.disk import Disk
from kafkaesque.model.batch_encoder import BatchOptions
from kafkaesque.model.ids import Index, Term
from kafkaesque.storage.entries import EntryKind, LogEntry
from kafkaesque.storage.group_log import GroupLog
from kafkaesque.storage.offline import DumpedBatch, Severity, dump_segment, verify
from kafkaesque.storage.replica_comparison import Difference, compare, find_replicas
from tests.unit.storage.helpers import SMALL, World, add, batch, mark

#: So small that the brokers below close their segments at different offsets.
CONFIGS = [
    dataclasses.replace(SMALL, segment_bytes_max=bytes_max) for bytes_max in (4096, 3000, 2048)
]


class Trio:
    """Three brokers, each with its disk and a copy of the partition `topic1-0`."""

    def __init__(self, config_of: int | None = None) -> None:
        self.worlds = [World(CONFIGS[at if config_of is None else config_of]) for at in range(3)]

    @property
    def logs(self) -> list[GroupLog]:
        return [world.log() for world in self.worlds]

    def add(self, term: int = 1, count: int = 2, *, to: tuple[int, ...] = (0, 1, 2)) -> None:
        for at in to:
            add(self.logs[at], term, count, value=b"v" * 50)

    def close(self, *, committed: int | None = None) -> None:
        """Close in good order; `committed` is the index up to which all know it."""
        for world in self.worlds:
            log = world.log()
            log.save_commit_hint(log.last_index if committed is None else committed)
            world.commit()
            world.close()

    def differences(self, *, is_compacted: bool = False) -> list[Difference]:
        disks: dict[str, Disk] = {str(at): world.disk for at, world in enumerate(self.worlds)}
        (replicas,) = find_replicas(disks)
        return list(compare(replicas, is_compacted=is_compacted))

    def batches(self, at: int) -> list[tuple[str, DumpedBatch]]:
        disk = self.worlds[at].disk
        return [
            (f"topic1-0/{name}", item)
            for name in disk.list_dir("topic1-0")
            if name.endswith(".log")
            for item in dump_segment(disk, f"topic1-0/{name}")
            if isinstance(item, DumpedBatch)
        ]

    def rewrite(self, at: int, offset: int, value: bytes) -> str:
        """Put a whole and good batch of the same size in the place of another; return the file."""
        path, found = next(
            each for each in self.batches(at) if each[1].header.base_offset == offset
        )
        epoch = found.header.partition_leader_epoch
        data = batch(offset, epoch, found.header.record_count, value=value)
        assert len(data) == len(found.data)
        content = self.worlds[at].disk.inode(path).data
        content[found.position : found.position + len(data)] = data
        return path


def test_equal_replicas_are_equal_whatever_their_segments() -> None:
    trio = Trio()
    for _ in range(60):
        trio.add()
    trio.close()
    assert len({len(world.disk.list_dir("topic1-0")) for world in trio.worlds}) > 1
    assert trio.differences() == []


def test_the_shortest_and_the_latest_start_bound_what_is_compared() -> None:
    trio = Trio(config_of=2)
    for _ in range(40):
        trio.add()
    for _ in range(5):
        trio.add(to=(0, 1))
    trio.add(to=(1,))
    for world in trio.worlds:
        world.commit()
    log = trio.logs[1]
    log.advance_start(log.end_offset // 2)
    trio.close()
    assert [at for at in range(3) if trio.batches(at)[0][1].header.base_offset > 0] == [1]
    assert trio.differences() == []


@pytest.mark.parametrize("odd", [0, 1, 2])
def test_a_batch_with_a_good_checksum_that_the_others_do_not_have_is_damage(odd: int) -> None:
    trio = Trio()
    for _ in range(60):
        trio.add()
    trio.close()
    path = trio.rewrite(odd, 50, b"w" * 50)
    assert list(verify(trio.worlds[odd].disk)) == [], "it cannot be seen on one broker alone"
    ((broker, finding),) = trio.differences()
    assert (broker, finding.path, finding.severity) == (str(odd), path, Severity.ERROR)
    assert "offset 50 has other bytes" in finding.message


def test_between_two_brokers_the_difference_is_found_too() -> None:
    trio = Trio()
    for _ in range(10):
        trio.add()
    trio.close()
    trio.worlds.pop()
    trio.rewrite(1, 4, b"w" * 50)
    ((_, finding),) = trio.differences()
    assert "offset 4 has other bytes" in finding.message


def test_every_replica_that_is_odd_is_told_about_once() -> None:
    trio = Trio()
    for _ in range(10):
        trio.add()
    trio.close()
    trio.rewrite(0, 4, b"w" * 50)
    trio.rewrite(0, 8, b"w" * 50)
    trio.rewrite(2, 10, b"w" * 50)
    found = [(broker, finding.message.split(" has ")[0]) for broker, finding in trio.differences()]
    assert found == [("0", "the batch of offset 4"), ("2", "the batch of offset 10")]


@pytest.mark.parametrize("committed", [False, True])
def test_another_epoch_is_damage_only_where_it_is_known_to_be_committed(committed: bool) -> None:
    trio = Trio()
    trio.add()
    trio.add()
    for at, term in ((0, 2), (1, 3), (2, 3)):
        mark(trio.logs[at], term)
        trio.add(term, to=(at,))
    trio.close(committed=None if committed else 4)
    ((broker, finding),) = trio.differences()
    assert broker == "0"
    assert finding.severity is (Severity.ERROR if committed else Severity.NOTE)
    assert "offset 4 has epoch 2, and 3 in" in finding.message


def leave_out(trio: Trio, at: int) -> None:
    """Append after a hole of two offsets, as a compacted log has them."""
    log = trio.logs[at]
    first = log.last_index + 3
    data = batch(log.end_offset + 2, 1, 2, value=b"v" * 50)
    log.append([LogEntry(EntryKind.DATA, first, first + 1, Term(1), data)])


def test_what_one_replica_does_not_have_is_damage_unless_it_is_compacted() -> None:
    trio = Trio()
    trio.add()
    trio.add(to=(0, 2))
    leave_out(trio, 1)
    trio.add(to=(0, 2))
    trio.add()
    trio.close()
    ((broker, finding),) = trio.differences()
    assert (broker, finding.severity) == ("1", Severity.ERROR)
    assert "offset 2 is missing" in finding.message
    assert trio.differences(is_compacted=True) == []


def test_compacted_batches_may_have_fewer_records_but_not_others() -> None:
    trio = Trio()
    trio.add(count=3)
    trio.close()
    assert trio.differences(is_compacted=True) == []
    trio.rewrite(1, 0, b"w" * 50)
    assert len(trio.differences(is_compacted=True)) == 1

    fewer = Trio()
    # The last offset stays where it was when the last record goes.
    options = BatchOptions(last_offset=2)
    for at, count in ((0, 3), (1, 3), (2, 2)):
        data = batch(0, 1, count, options=options)
        fewer.logs[at].append([LogEntry(EntryKind.DATA, Index(1), Index(3), Term(1), data)])
    fewer.close()
    assert len(fewer.differences()) == 1
    assert fewer.differences(is_compacted=True) == []


def test_partitions_of_other_clusters_and_other_topics_of_the_name_are_no_replicas() -> None:
    trio = Trio()
    trio.add()
    trio.close()
    disks = {str(at): world.disk for at, world in enumerate(trio.worlds)}
    meta = trio.worlds[0].disk.inode("meta.json").data
    meta[:] = meta.replace(b'"cluster"', b'"another"')
    (replicas,) = find_replicas(disks)
    assert [each.broker for each in replicas.replicas] == ["1", "2"]
    meta = trio.worlds[1].disk.inode("topic1-0/partition.metadata").data
    meta[:] = meta.replace(b"000102", b"ff0102")
    assert find_replicas(disks) == []
