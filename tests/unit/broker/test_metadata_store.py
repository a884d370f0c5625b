"""The snapshots of the metadata on a broker's disk."""

import random
from types import SimpleNamespace
from typing import cast

import pytest

from kafkaesque.broker.controller.controller import Controller
from kafkaesque.broker.controller.metadata_store import MetadataStore, load_snapshot
from kafkaesque.broker.replication.raft_replica import Replica
from kafkaesque.env import Env
from kafkaesque.model.ids import Offset
from kafkaesque.storage.log_store import LogStore
from tests.unit.storage.memory_disk import ManualClock, MemoryDisk, PowerGone

DIRECTORY = "__cluster_metadata-0"


def make_disk() -> MemoryDisk:
    disk = MemoryDisk(ManualClock())
    disk.make_dir(DIRECTORY)
    disk.sync_blocking([], [""])
    return disk


def save_two(disk: MemoryDisk) -> list[int]:
    """Save an own snapshot and, while that is on its way, one of the leader."""
    env = cast(Env, SimpleNamespace(disk=disk))
    told: list[str] = []
    store = MetadataStore(env, cast(LogStore, None), told.append, 10)
    saved: list[int] = []
    try:
        store.save(b"own" * 1_000, Offset(5), lambda: saved.append(5))
        store.save(b"the leader's", Offset(9), lambda: saved.append(9))
        disk.settle()
    except PowerGone:
        pass
    assert told == []
    return saved


def test_snapshots_are_saved_one_after_the_other() -> None:
    disk = make_disk()
    assert save_two(disk) == [5, 9]
    assert load_snapshot(disk) == (b"the leader's", 9)
    assert disk.list_dir(DIRECTORY) == ["snapshot"]


@pytest.mark.parametrize("seed", range(4))
def test_what_was_saved_outlasts_a_power_cut_at_any_time(seed: int) -> None:
    ends = set()
    for operations in range(40):
        disk = make_disk()
        disk.writes_max = disk.writes + operations
        saved = save_two(disk)
        found = load_snapshot(disk.power_cut(random.Random(seed)))
        assert (0 if found is None else found[1]) >= max(saved, default=0)
        ends.add(len(saved))
    assert ends == {0, 1, 2}


def test_what_cannot_be_written_is_tried_again_and_takes_no_space_meanwhile() -> None:
    disk = make_disk()
    told: list[str] = []
    store = MetadataStore(
        cast(Env, SimpleNamespace(disk=disk)), cast(LogStore, None), told.append, 10
    )
    store._replica = cast(Replica, SimpleNamespace(is_closed=False))
    saved: list[int] = []
    disk.capacity = disk._used(disk.root) + 1_000
    store.save(b"own" * 1_000, Offset(5), lambda: saved.append(5))
    store.save(b"the leader's", Offset(9), lambda: saved.append(9))
    for _ in range(3):
        store.on_sweep(cast(Controller, None))
        disk.settle()
    assert len(told) == 1
    assert "cannot be written, and is tried again" in told[0]
    assert saved == []
    assert disk.list_dir(DIRECTORY) == []
    assert not [file.path for file in disk.open_files.values() if not file.is_closed]
    disk.capacity = None
    store.on_sweep(cast(Controller, None))
    store.on_sweep(cast(Controller, SimpleNamespace(applied_offset=Offset(0))))  # it is on its way
    disk.settle()
    assert saved == [5, 9]
    assert load_snapshot(disk) == (b"the leader's", 9)
    assert disk.list_dir(DIRECTORY) == ["snapshot"]
    assert len(told) == 1
