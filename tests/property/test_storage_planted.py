"""The storage machine must find mistakes that are put in on purpose, or it proves nothing."""

import random
from collections.abc import Callable

import pytest

from kafkaesque.env.disk import File
from kafkaesque.model.errors import KafkaesqueError
from kafkaesque.storage import wal_format
from kafkaesque.storage.checkpointer import Checkpointer
from kafkaesque.storage.group_log import GroupLog
from kafkaesque.storage.positions import LogPositions
from kafkaesque.storage.recovery import Recovery
from kafkaesque.storage.segment_table import SegmentTable
from kafkaesque.storage.wal import WriteAheadLog
from kafkaesque.storage.wal_format import WalReader
from tests.property.test_storage_machine import CRASHES, GROUPS, StorageMachine
from tests.unit.storage.memory_disk import MemoryDisk

Patch = Callable[[pytest.MonkeyPatch], None]


def checkpoint_without_segment_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Checkpointer, "_sync_segments", Checkpointer._sync_directories)


def checkpoint_without_name_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Checkpointer, "_sync_directories", Checkpointer._encode)


def wal_directory_not_synced(patch: pytest.MonkeyPatch) -> None:
    write, prepare = WriteAheadLog.write, WriteAheadLog.prepare
    patch.setattr(WriteAheadLog, "write", lambda self, number: (write(self, number)[0], ()))
    patch.setattr(WriteAheadLog, "prepare", lambda self: (prepare(self)[0], ()))


def files_cut_before_the_record_is_durable(patch: pytest.MonkeyPatch) -> None:
    real = GroupLog._hold

    def hold(self: GroupLog, end: int) -> None:
        real(self, end)
        for _, segments in self._doomed:
            for segment in segments:
                self.segments.remove_files(segment.paths())
        self._settle()

    patch.setattr(GroupLog, "_hold", hold)


def old_records_believed(patch: pytest.MonkeyPatch) -> None:
    class NoSalt:
        @staticmethod
        def pack(number: int, position: int) -> bytes:
            return b""

    patch.setattr(wal_format, "SALT", NoSalt)
    # Lives begin with block 0, so numbers alone do not tell old from new.
    patch.setattr(WalReader, "newer_block_after", lambda self, position, number: None)


def checkpoint_rename_not_settled(patch: pytest.MonkeyPatch) -> None:
    real = MemoryDisk.sync_blocking

    def sync_blocking(self: MemoryDisk, files: list[File], directories: list[str] = []) -> None:  # noqa: B006
        if files or directories != ["."]:
            real(self, files, directories)

    patch.setattr(MemoryDisk, "sync_blocking", sync_blocking)


def marks_forgotten_by_checkpoints(patch: pytest.MonkeyPatch) -> None:
    real = LogPositions.freeze
    patch.setattr(LogPositions, "freeze", lambda self: real(self)._replace(marks=()))


def hard_state_not_logged(patch: pytest.MonkeyPatch) -> None:
    real = GroupLog._queue

    def queue(self: GroupLog, kind: int, **fields: object) -> None:
        if kind != wal_format.RecordKind.HARD_STATE:
            real(self, kind, **fields)  # type: ignore[arg-type]

    patch.setattr(GroupLog, "_queue", queue)


def recovery_not_synced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Recovery, "_sync_all", lambda self: None)


def tail_not_cut(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SegmentTable, "apply_cut", lambda self, cut: None)


PLANTED = [
    checkpoint_without_segment_sync,
    checkpoint_without_name_sync,
    wal_directory_not_synced,
    files_cut_before_the_record_is_durable,
    old_records_believed,
    checkpoint_rename_not_settled,
    marks_forgotten_by_checkpoints,
    hard_state_not_logged,
    recovery_not_synced,
    tail_not_cut,
]


#: A right store survives them all; each mistake is found by one of them.
SEEDS = range(400)
STEPS = 50


def walk(seed: int) -> None:
    """Let the storage machine do things at random."""
    rng = random.Random(seed)
    machine = StorageMachine()
    machine.begin(seed)
    for _ in range(STEPS):
        group = rng.choice(GROUPS)
        actions: list[tuple[int, Callable[[], None]]] = [
            (6, lambda: machine.append(group, rng.choices("ddddnc", k=rng.randint(1, 5)))),  # noqa: B023
            (3, lambda: machine.truncate(group, rng.randint(1, 5), 0)),  # noqa: B023
            (1, lambda: machine.advance_start(group, rng.random())),  # noqa: B023
            (1, lambda: machine.reset(group, rng.randint(0, 20), rng.randint(0, 3))),  # noqa: B023
            (1, lambda: machine.save_hard_state(group, rng.choice([None, 1, 2]))),  # noqa: B023
            (5, machine.submit),
            (6, lambda: machine.go_on(rng.randint(1, 4))),
            (2, machine.settle),
            (1, machine.checkpoint),
            (2, lambda: machine.crash(rng.choice(CRASHES))),
            (3, lambda: machine.read(group, False)),  # noqa: B023
        ]
        rng.choices([action for _, action in actions], [weight for weight, _ in actions])[0]()
        machine.agree()


def walk_all() -> None:
    for seed in SEEDS:
        walk(seed)


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    walk_all()


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_planted_mistake_is_found(plant: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, KafkaesqueError)):
        walk_all()
