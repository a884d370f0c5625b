"""Reads for somebody who wants few names, beside one who reads everything and chooses."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.broker.partitions import few_names, key_indexes
from kafkaesque.broker.partitions.few_names import FewNames, Passed
from kafkaesque.broker.partitions.key_indexes import KeyIndexes
from kafkaesque.env.disk import BlockingDisk, File, FileRange
from kafkaesque.model.batch import scan_batches
from kafkaesque.model.batch_encoder import BatchOptions, MarkerType
from kafkaesque.model.errors import DiskFailed, NotLeader, RequestRefused, StorageFailed
from kafkaesque.model.ids import Offset
from kafkaesque.model.records import decode_batch
from kafkaesque.routing.subject_filters import SubjectFilters, read_filters, write_filters
from kafkaesque.storage import key_index_builder
from tests.unit.storage.compacting import (
    CONFIG,
    batches_of,
    checkpoint,
    close_segment,
    plan_for,
    put,
    put_marker,
    run,
)
from tests.unit.storage.helpers import World

KEYS = [None, b"", b"s.a", b"s.b", b"s.c.d", b"t%", b"\xff", b"s.%2E"]
FILTERS = [("s.a",), ("s.*",), ("s.>",), ("t.x",), ("s.a", "s.c.*"), ("s",), ("nobody",), ("s.%",)]


class Steps:
    """Work in steps on the disk of a test; one step each time the disk settles."""

    def __init__(
        self,
        pending: Any,
        steps: Generator[Any, None, Any],
        on_step: Callable[[Any], None],
        on_done: Callable[[Any, Exception | None], None],
    ) -> None:
        self._pending = pending
        self._steps = steps
        self._on_step = on_step
        self._on_done = on_done
        self.go_on()

    def go_on(self) -> None:
        self._pending.append(self._step)

    def stop(self) -> None:
        self._steps.close()
        self._pending.append(lambda: self._on_done(None, None))

    def _step(self) -> None:
        try:
            step = next(self._steps)
        except StopIteration as stop:
            self._on_done(stop.value, None)
        except Exception as error:
            self._on_done(None, error)
        else:
            self._on_step(step)


class Leader:
    """A partition as far as such reads look at one, on a disk in memory."""

    def __init__(self, seed: int) -> None:
        self.world = World(CONFIG, seed)
        self.term = 1
        self.is_leader = True
        self.partition = SimpleNamespace(
            name="topic1-0",
            sealing=SimpleNamespace(has_keys=False),
            check_leader=self.check_leader,
            read_now=self.read_now,
            read_later=self.read_later,
        )
        self.open()

    def open(self) -> None:
        self.partition.log = self.log = self.world.log()
        disk = self.world.disk

        def run_steps(
            work: Callable[[BlockingDisk, Any], Generator[Any, None, Any]],
            argument: Any,
            on_step: Callable[[Any], None],
            on_done: Callable[[Any, Exception | None], None],
        ) -> Steps:
            return Steps(disk.pending, work(disk, argument), on_step, on_done)

        cast(Any, disk).run_steps = run_steps
        clock = self.world.clock
        self.indexes = KeyIndexes(clock, disk, self.world.store.statistics, 0)
        self.few = FewNames(clock, disk, self.indexes)

    def check_leader(self) -> None:
        if not self.is_leader:
            raise NotLeader("another one")

    def read_now(self, offset: Offset, bytes_max: int, end: Offset) -> list[FileRange] | None:
        return self.log.locate(offset, bytes_max, end)

    def read_later(self, offset: Offset, bytes_max: int, on_done: Any, end: Offset) -> None:
        self.log.locate_async(offset, bytes_max, end, on_done)

    def settle(self) -> None:
        """Let everything come to rest, indexes that are being made, too."""
        while self.turn():
            pass

    def turn(self) -> bool:
        had_turn = self.world.clock.turn()
        pending = self.world.disk.pending
        for _ in range(len(pending)):
            pending.popleft()()
            had_turn = True
        return had_turn

    def ask(
        self, names: tuple[bytes, ...], offset: int, end: int, bytes_max: int
    ) -> list[Passed | RequestRefused]:
        found: list[Passed | RequestRefused] = []
        partition: Any = self.partition
        self.few.read(partition, names, Offset(offset), Offset(end), bytes_max, found.append)
        return found

    def read(
        self, names: tuple[bytes, ...], offset: int, end: int, change: Callable[[], None]
    ) -> list[int]:
        """Return the offsets of what is wanted, as a cursor finds them."""
        found: list[int] = []
        wanted = read_filters(names)
        refusals = 0
        while offset < end:
            answers = self.ask(names, offset, end, random.Random(offset).choice([1, 300, 5_000]))
            change()
            while not answers:
                assert self.turn()
            (answer,) = answers
            if isinstance(answer, RequestRefused):
                refusals += 1
                assert refusals < 20
                offset = max(offset, self.log.start_offset)
                continue
            begin = offset
            records, next_offset = answer
            assert offset <= next_offset <= end
            if not records:
                offset = max(next_offset, self.log.start_offset)
                records = self.plain(offset, end)
                next_offset = Offset(end) if not records else next_offset
            for batch in scan_batches(records).batches:
                assert batch.next_offset <= end
                next_offset = max(next_offset, Offset(batch.next_offset))
                found += wanted_of(records, batch.at, wanted, offset)
            assert next_offset > begin
            offset = next_offset
        return found

    def plain(self, offset: int, end: int) -> bytes:
        ranges = self.log.locate_blocking(offset, 300, end)
        return b"".join(r.file.read_blocking(r.position, r.length) for r in ranges)

    def wanted(self, names: tuple[bytes, ...], offset: int, end: int) -> list[int]:
        """Return the same of somebody who reads everything."""
        found: list[int] = []
        for data in batches_of(self.log):
            found += wanted_of(data, 0, read_filters(names), offset)
        return [each for each in found if each < end]

    # -- what happens to the log

    def put(self, dice: random.Random) -> None:
        pairs = [(dice.choice(KEYS), b"v" * dice.randrange(80)) for _ in range(dice.randint(1, 3))]
        put(self.log, pairs, term=self.term)

    def transact(self, dice: random.Random) -> None:
        producer = BatchOptions(
            producer_id=7, producer_epoch=0, base_sequence=0, transactional=True
        )
        put(self.log, [(dice.choice(KEYS), b"v")], term=self.term, options=producer)
        put_marker(self.log, 7, dice.choice(list(MarkerType)))

    def close_segment(self, dice: random.Random) -> None:
        close_segment(self.world, self.log)

    def compact(self, dice: random.Random) -> None:
        checkpoint(self.world)
        run(self.world, self.log, plan_for(self.log))

    def cut(self, dice: random.Random) -> None:
        """Lose the end, and have other records there, under another leader."""
        ends = [scan_batches(each).batches[0].next_offset for each in batches_of(self.log)]
        if ends and self.log.start_offset <= (end := dice.choice(ends)) <= self.log.end_offset:
            self.log.truncate_to(self.log.index_of_offset(end - 1))
            self.world.commit()
        self.term += 1
        for _ in range(dice.randrange(8)):
            self.put(dice)

    def retain(self, dice: random.Random) -> None:
        self.log.advance_start(dice.randint(self.log.start_offset, self.log.end_offset))
        self.world.commit()

    def die(self, dice: random.Random) -> None:
        self.world.commit()
        self.settle()
        dice.choice([self.world.power_cut, self.world.kill])()
        self.open()

    def damage(self, dice: random.Random) -> None:
        """Change a byte of an index."""
        directory = self.log.identity.directory
        names = [each for each in self.world.disk.list_dir(directory) if each.endswith(".keys")]
        if names:
            data = self.world.disk.inode(f"{directory}/{dice.choice(names)}").data
            if data:
                data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        # Nobody looks at a file again whose answer is known.
        self.indexes = KeyIndexes(self.world.clock, self.world.disk, self.world.store.statistics, 0)
        self.few = FewNames(self.world.clock, self.world.disk, self.indexes)


CHANGES = [
    Leader.put,
    Leader.put,
    Leader.put,
    Leader.put,
    Leader.transact,
    Leader.close_segment,
    Leader.compact,
    Leader.cut,
    Leader.retain,
    Leader.die,
    Leader.damage,
]
#: What may happen while somebody reads: what is before the reader's end stays committed.
MEANWHILE = [Leader.put, Leader.close_segment, Leader.compact, Leader.damage]


@given(st.integers(0, 2**32), st.lists(st.sampled_from(CHANGES), max_size=25))
def test_nothing_is_passed_over_that_is_wanted(
    seed: int, changes: list[Callable[[Leader, random.Random], None]]
) -> None:
    dice = random.Random(seed)
    leader = Leader(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_index_builder, "BLOCK_BYTES", dice.choice([1, 200, 1_000]))
        for change in changes:
            change(leader, dice)
            if dice.random() < 0.3:
                check(leader, dice)
        check(leader, dice)
        check(leader, dice)


def check(leader: Leader, dice: random.Random) -> None:
    leader.world.commit()
    names = write_filters(dice.choice(FILTERS), "s")
    log = leader.log
    offset = dice.randint(log.start_offset, log.end_offset)
    batches = [scan_batches(each).batches[0] for each in batches_of(log)]
    end = max([each.next_offset for each in batches if dice.random() < 0.8], default=0)
    before = leader.wanted(names, offset, end)

    def change() -> None:
        for _ in range(dice.randrange(3)):
            leader.turn()
        if dice.random() < 0.2:
            dice.choice(MEANWHILE)(leader, dice)

    found = leader.read(names, offset, end, change)
    assert found == sorted(set(found))
    assert set(leader.wanted(names, offset, end)) <= set(found) <= set(before)
    if dice.random() < 0.7:
        leader.settle()


def wanted_of(records: bytes, at: int, wanted: SubjectFilters, offset: int) -> list[int]:
    batch = scan_batches(records[at:]).batches[0]
    if batch.is_control:
        return []
    return [
        record.offset
        for record in decode_batch(records, 1 << 20, at=at)
        if record.offset >= offset and wanted.may_want(record.key)
    ]


# -- case by case


def filled(segments: int = 3) -> Leader:
    """A log of closed segments, the keys of which nobody wants but of the second."""
    leader = Leader(0)
    for number in range(segments):
        for _ in range(3):
            put(leader.log, [(b"wanted" if number == 1 else b"other", b"v")])
        close_segment(leader.world, leader.log)
    return leader


NAMES = write_filters(("wanted",), "s")


def passed(leader: Leader, offset: int = 0, end: int = 12) -> Passed:
    found = leader.ask(NAMES, offset, end, 5_000)
    leader.settle()
    (answer,) = found
    assert isinstance(answer, Passed)
    return answer


def test_the_first_read_has_indexes_made_of_what_follows() -> None:
    leader = filled()
    statistics = leader.world.store.statistics
    assert passed(leader) == (b"", 0)
    assert (statistics.key_indexes_built, statistics.records_passed_over) == (3, 0)
    # The key `last` begins each segment but the first, and is nobody's.
    end = leader.log.end_offset
    answer = passed(leader, end=end)
    offsets = [each.base_offset for each in scan_batches(answer.records).batches]
    assert set(range(4, 7)) <= set(offsets) <= set(range(3, 8))
    assert answer.next_offset == leader.log.segments.segments[-1].base_offset
    assert statistics.records_passed_over > 3


def test_so_many_segments_are_looked_at_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_indexes, "AHEAD_MAX", 1)
    leader = filled(5)
    passed(leader)
    assert leader.world.store.statistics.key_indexes_built == 2


def test_what_may_not_be_read_yet_is_not_passed_over() -> None:
    leader = filled()
    passed(leader)
    answer = passed(leader, end=2)
    assert answer == (b"", 2)
    # Within a run that has something wanted, it is the ordinary read that says how far it goes.
    assert passed(leader, offset=4, end=5) == (b"", 4)


def test_an_index_of_what_was_there_before_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the base, the end and the size of its segment, and another leader's last batch."""
    monkeypatch.setattr(key_index_builder, "BLOCK_BYTES", 1)
    leader = Leader(0)
    other, wanted = [(b"others", b"v")], [(b"wanted", b"v")]
    for pairs in (other, other, wanted):
        put(leader.log, pairs, term=1)
    close_segment(leader.world, leader.log)
    segment = leader.log.segments.segments[0]
    passed(leader)
    data = bytes(leader.world.disk.inode(segment.key_index_path).data)
    size = segment.size
    leader.log.truncate_to(leader.log.index_of_offset(0))
    leader.world.commit()
    for pairs in (wanted, other):
        put(leader.log, pairs, term=2)
    close_segment(leader.world, leader.log)
    assert leader.log.segments.segments[0].size == size
    file = leader.world.disk.open(segment.key_index_path, create=True)
    file.write_at(0, [data])
    file.close()
    assert passed(leader) == (b"", 0), "it is not believed, and another one is made"
    (batch,) = scan_batches(passed(leader, end=3).records).batches
    assert batch.base_offset == 1


def test_nothing_is_left_out_of_a_topic_with_keys_to_seal_with() -> None:
    leader = filled()
    leader.partition.sealing.has_keys = True
    assert passed(leader) == (b"", 0)
    assert passed(leader) == (b"", 0)
    assert leader.world.store.statistics.key_indexes_built == 0


def test_who_leads_no_more_says_so() -> None:
    leader = filled()
    found = leader.ask(NAMES, 0, 12, 5_000)
    assert not found
    leader.is_leader = False
    leader.settle()
    passed_over = leader.ask(NAMES, 0, 12, 5_000)
    leader.settle()
    (refusal,) = passed_over
    assert isinstance(refusal, NotLeader)


def test_a_segment_that_has_no_index_is_not_tried_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leader = filled(1)
    segment = leader.log.segments.segments[0]
    leader.world.disk.inode(segment.path).data[65] ^= 1
    built: list[int] = []

    def build(*_: Any) -> Generator[int, None, bool]:
        built.append(1)
        yield from ()
        return False

    monkeypatch.setattr(key_indexes, "build_key_index", build)
    for _ in range(3):
        assert passed(leader) == (b"", 0)
    assert len(built) == 1
    leader.world.clock.monotonic_ms += key_indexes.FAILED_AGAIN_MS
    for _ in range(3):
        assert passed(leader) == (b"", 0)
    assert len(built) == 2, "but later: there may have been no space"


def test_answers_are_kept_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = filled()
    passed(leader)
    monkeypatch.setattr(key_indexes, "KEPT_MAX", 2)
    for number in range(5):
        answer = leader.ask(write_filters((f"n{number}",), "s"), 0, 12, 5_000)
        leader.settle()
        assert answer
    assert len(leader.indexes._kept) == 2
    assert leader.indexes._kept_bytes == sum(
        key_indexes._bytes_of(names, answer) for (_, names), answer in leader.indexes._kept.items()
    )


def test_the_names_that_answers_are_kept_for_count(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = filled()
    passed(leader)
    monkeypatch.setattr(key_indexes, "KEPT_BYTES_MAX", 100_000)
    for number in range(10):
        many = tuple(f"n{number}.{each}" for each in range(500))
        leader.ask(write_filters(many, "s"), 0, 12, 5_000)
        leader.settle()
    kept = {names for _, names in leader.indexes._kept}
    assert 0 < sum(len(name) for names in kept for name in names) < 100_000
    assert len(leader.indexes._kept) < 5


def test_who_asks_beyond_the_bound_reads_the_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = filled()
    passed(leader)
    leader.indexes.stop()
    monkeypatch.setattr(key_indexes, "QUESTIONS_MAX", 0)
    found = leader.ask(write_filters(("other",), "s"), 0, 12, 5_000)
    assert not found
    leader.settle()
    assert found == [(b"", 0)]


def test_no_more_is_made_when_the_broker_stops() -> None:
    leader = filled()
    found = leader.ask(NAMES, 0, 12, 5_000)
    while not found:
        leader.turn()
    leader.indexes.stop()
    leader.settle()
    assert leader.world.store.statistics.key_indexes_built == 0
    files = leader.world.disk.list_dir(leader.log.identity.directory)
    assert not [each for each in files if ".keys" in each]


def test_an_index_that_is_asked_for_while_it_is_made_is_made_once() -> None:
    leader = filled()
    first = leader.ask(NAMES, 0, 12, 5_000)
    while not first:
        leader.turn()
    assert leader.world.store.statistics.key_indexes_built == 0
    assert passed(leader) == (b"", 0)
    assert leader.world.store.statistics.key_indexes_built == 3


def test_a_read_that_takes_long_ends_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = filled(5)
    passed(leader)
    clock, find_out = leader.world.clock, leader.indexes.find_out

    def find_out_slowly(*question: Any) -> None:
        clock.monotonic_ms += few_names.READ_MS_MAX * 2 // 3
        find_out(*question)

    monkeypatch.setattr(leader.indexes, "find_out", find_out_slowly)
    found = leader.ask(write_filters(("nobody",), "s"), 0, leader.log.end_offset, 5_000)
    leader.settle()
    assert found == [(b"", leader.log.segments.segments[2].base_offset)]


@pytest.mark.parametrize("what", ["opened", "read"])
def test_a_segment_that_cannot_be_read_is_an_answer(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a callback raises would stop the broker."""
    leader = filled()
    passed(leader)
    segment = leader.log.segments.segments[1]
    passed(leader)
    disk, open_file, read = leader.world.disk, leader.world.disk.open, leader.world.disk.read

    def refuse(*_: object) -> bytes:
        raise DiskFailed("planted")

    def open_another(path: str, *, create: bool = False) -> File:
        if path == segment.path and what == "opened":
            refuse()
        file = open_file(path, create=create)
        if path == segment.path:
            monkeypatch.setattr(file, "read_cached", refuse)
        return file

    def read_another(file: File, position: int, length: int, on_done: Callable[..., None]) -> None:
        if file.path == segment.path:
            disk.pending.append(lambda: on_done(DiskFailed("planted")))
        else:
            read(file, position, length, on_done)

    monkeypatch.setattr(disk, "open", open_another)
    monkeypatch.setattr(disk, "read", read_another)
    leader.log.pool.drop(segment.path)
    found = leader.ask(NAMES, 0, leader.log.end_offset, 5_000)
    leader.settle()
    (refusal,) = found
    assert isinstance(refusal, StorageFailed), found
