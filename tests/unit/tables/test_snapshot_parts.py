"""Snapshots in several parts: begun and not finished, and without their beginning."""

from kafkaesque.model.batch import read_batch_header
from kafkaesque.model.ids import Offset
from kafkaesque.tables.log_table import Instant, RequestToken
from kafkaesque.tables.logged import Logged, LoggedKind, write_logged
from tests.unit.tables.locks import Acquire, LockTable

TABLE = 1


def full_state() -> bytes:
    table = LockTable(TABLE)
    table.lead(Instant(1, 1))
    (first,) = table.snapshot_parts()
    table.on_logged(first, Offset(0), Offset(1))
    table.decide(Acquire(token=RequestToken(1), name="a", owner="me", ms=50), Instant(1, 1))
    logged = table.turn()
    assert logged is not None
    table.on_logged(logged, Offset(1), Offset(2))
    return table.snapshot()[1]


def parts(state: bytes) -> list[Logged]:
    half = len(state) // 2
    return [
        Logged(
            kind=LoggedKind.SNAPSHOT,
            table=TABLE,
            lock_ms=1,
            wall_ms=1,
            parts_before=number,
            parts_left=1 - number,
            part=part,
        )
        for number, part in enumerate((state[:half], state[half:]))
    ]


def feed(table: LockTable, logged: Logged) -> None:
    data = write_logged(logged)
    table.apply(read_batch_header(data), data, table.end_offset, logged)


def test_a_snapshot_that_was_not_finished_is_no_part_of_the_next() -> None:
    state, table = full_state(), LockTable(TABLE)
    first, second = parts(state)
    for part in (first, first, second):
        feed(table, part)
    table.commit(Offset(3))
    assert table.snapshot()[1] == state
    assert table.start_held_at() == 1


def test_a_snapshot_without_its_beginning_is_none() -> None:
    state, table = full_state(), LockTable(TABLE)
    first, second = parts(state)
    feed(table, second)
    assert not table.is_based
    feed(table, first)
    feed(table, second)
    assert table.snapshot()[1] == state


def test_a_table_that_began_with_a_snapshot_in_the_midst_is_loaded_again_when_that_is_cut() -> None:
    """An older snapshot may be in the log: to say that there is none would be to lose the state."""
    state, table = full_state(), LockTable(TABLE)
    table.begin_at(Offset(10), Offset(3))
    for part in parts(state):
        feed(table, part)
    assert table.snapshot()[1] == state
    # Until the snapshot is committed, the older one is needed.
    assert table.start_held_at() == 3
    assert not table.cut(Offset(11))
    assert not table.is_based
    assert table.end_offset == 0
    table.begin_at(Offset(10), Offset(3))
    for part in parts(state):
        feed(table, part)
    table.commit(Offset(12))
    assert table.start_held_at() == 10
    assert table.cut(Offset(12))


def test_what_was_begun_is_known_again_after_a_cut() -> None:
    state, table = full_state(), LockTable(TABLE)
    first, second = parts(state)
    feed(table, first)
    feed(table, first)
    assert table.cut(Offset(1))
    feed(table, second)
    assert table.is_based
    assert table.snapshot()[1] == state
