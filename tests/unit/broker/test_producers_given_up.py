"""What a log has said of producers outlasts the records that said it: kills, power cuts, copies."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafkaesque.broker.partitions import producers as partition_producers
from kafkaesque.broker.partitions.producers import PartitionProducers
from kafkaesque.broker.replication.replica import AppendedBatch
from kafkaesque.model.batch import assign_offsets, read_batch_header
from kafkaesque.model.batch_encoder import BatchOptions, EndMarker, MarkerType, encode_end_marker
from kafkaesque.model.errors import DiskFailed, InvariantBroken, OutOfOrderSequence
from kafkaesque.model.ids import Offset, Term
from kafkaesque.storage.entries import EntryKind, LogEntry
from kafkaesque.storage.group_log import GroupLog
from kafkaesque.transactions.producer_state import ProducerStateConfig
from tests.unit.storage.helpers import TIME_MS, World, add, batch

P = 7
BATCHES = 8
SYNCED = "topic1-0/producer-state.synced"


class Place:
    """A partition's log and its producers on one disk, without a group around them."""

    def __init__(self, seed: int = 0, *, write_caching: bool = False) -> None:
        self.world = World(seed=seed)
        self.write_caching = write_caching
        self.sequence = 0
        self.open()

    def open(self) -> None:
        self.log: GroupLog = self.world.log(write_caching=self.write_caching)
        self.producers = PartitionProducers(
            ProducerStateConfig(producer_expiration_ms=2**60),
            self.world.clock.wall_ms,
            self.world.disk,
        )
        self.producers.restore(self.log)

    def kill(self) -> None:
        self.world.clock.soon.clear()
        self.world.disk = self.world.disk.kill()
        self.world.open()
        self.open()

    def cut_power(self) -> None:
        self.world.power_cut()
        self.open()

    # -- what comes into the log

    def take(self, entry: LogEntry) -> None:
        header = read_batch_header(entry.data)
        appended = AppendedBatch(Offset(header.base_offset), Offset(header.next_offset), entry.data)
        self.producers.on_appended([appended])

    def write(
        self, count: int = 1, *, is_transactional: bool = False, producer_id: int = P
    ) -> None:
        for _ in range(count):
            options = BatchOptions(
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=self.sequence,
                transactional=is_transactional,
            )
            self.sequence += 1
            self.take(add(self.log, 1, options=options))

    def abort(self, producer_id: int = P) -> None:
        data = encode_end_marker(
            EndMarker(type=MarkerType.ABORT, coordinator_epoch=0),
            producer_id=producer_id,
            producer_epoch=0,
            timestamp_ms=TIME_MS,
        )
        assign_offsets(data, 0, self.log.end_offset, 1)
        index = self.log.last_index + 1
        entry = LogEntry(EntryKind.DATA, index, index, Term(1), bytes(data))
        self.log.append([entry])
        self.take(entry)

    def commit(self) -> None:
        self.world.commit()
        self.producers.on_committed(self.log.end_offset)
        self.log.save_commit_hint(self.log.last_index)

    # -- what goes

    def cover(self) -> list[bool]:
        done: list[bool] = []
        self.producers.cover(self.log, self.log.end_offset, done.append)
        return done

    def give_up(self, start: int) -> None:
        """Does what the broker does."""
        if not self.producers.is_covered(Offset(start)):
            done = self.cover()
            self.world.disk.settle()
            assert done == [True]
        assert self.producers.is_covered(Offset(start))
        self.log.advance_start(start)
        self.world.commit()

    # -- what is known

    @property
    def last_sequence(self) -> int | None:
        found = {each.producer_id: each.last_sequence for each in self.producers.describe()}
        return found.get(P)

    def is_duplicate(self, sequence: int) -> bool:
        options = BatchOptions(producer_id=P, producer_epoch=0, base_sequence=sequence)
        return self.producers.check(read_batch_header(batch(0, 1, options=options))) is not None

    def aborted(self) -> list[tuple[int, int]]:
        return self.producers.aborted_between(self.log.start_offset, self.log.end_offset)[1]


def written() -> Place:
    place = Place()
    place.write(BATCHES)
    place.commit()
    return place


@pytest.mark.parametrize("how", [Place.kill, Place.cut_power])
def test_a_producer_whose_batches_are_all_given_up_is_known(how: Callable[[Place], None]) -> None:
    place = written()
    place.give_up(BATCHES)
    how(place)
    assert place.log.start_offset == place.log.end_offset == BATCHES
    assert place.last_sequence == BATCHES - 1
    assert place.is_duplicate(BATCHES - 2)
    with pytest.raises(OutOfOrderSequence):
        place.is_duplicate(BATCHES + 1)


def test_nothing_is_written_where_no_producer_is_known() -> None:
    place = Place()
    place.take(add(place.log, 1))
    place.commit()
    assert place.producers.is_covered(Offset(1))


@pytest.mark.parametrize("seed", range(20))
def test_what_is_saved_later_without_a_sync_takes_nothing_away(seed: int) -> None:
    place = Place(seed)
    place.write(BATCHES)
    place.commit()
    place.give_up(BATCHES)
    place.write(3)
    place.commit()
    place.producers.save(place.log, place.log.end_offset)
    place.cut_power()
    assert place.last_sequence == place.sequence - 1
    assert place.producers.is_covered(Offset(BATCHES))
    assert not place.producers.is_covered(Offset(BATCHES + 1))


def _steps(place: Place) -> Iterator[int]:
    """Gives up what is there, call by call of the disk; yields what is given up by then."""
    for _ in range(3):
        place.write(4)
        place.commit()
        start = place.log.end_offset
        done = place.cover()
        while not done:
            yield place.sequence
            if not place.world.disk.complete(1):
                assert place.world.clock.turn()
        assert done == [True]
        place.log.advance_start(start)
        yield place.sequence
        place.world.commit()
        yield place.sequence


@pytest.mark.parametrize("how", [Place.kill, Place.cut_power])
@pytest.mark.parametrize("seed", range(6))
def test_at_no_moment_is_a_producer_forgotten(seed: int, how: Callable[[Place], None]) -> None:
    count = sum(1 for _ in _steps(Place()))
    assert count > 10
    for moment in range(count):
        place = Place(seed)
        for number, known in enumerate(_steps(place)):
            sequence = known
            if number == moment:
                break
        how(place)
        assert place.last_sequence == sequence - 1, moment
        # And from there on as before.
        place.write()
        place.commit()
        place.give_up(place.log.end_offset)
        how(place)
        assert place.last_sequence == sequence, moment


def test_a_full_disk_keeps_no_records_and_is_looked_at_again() -> None:
    place = written()
    place.world.disk.capacity = 0
    assert place.cover() == [True]
    assert place.producers.is_covered(Offset(BATCHES))
    place.world.disk.capacity = None
    place.log.advance_start(BATCHES)
    place.world.commit()
    place.producers.maybe_save(place.log, place.log.end_offset)
    place.world.disk.settle()
    place.kill()
    assert place.last_sequence == BATCHES - 1


def test_what_could_not_be_synced_covers_nothing_and_is_written_anew() -> None:
    place = written()
    place.world.disk.fail_syncs = True
    done = place.cover()
    place.world.disk.complete()
    assert done == [False]
    assert not place.producers.is_covered(Offset(1))
    place.world.disk.fail_syncs = False
    place.give_up(BATCHES)
    place.cut_power()
    assert place.last_sequence == BATCHES - 1


def test_a_hole_at_the_logs_end_is_no_obstacle() -> None:
    """Compaction leaves them, and a copy may have come to the end of one only."""
    place = written()
    place.producers.on_committed(Offset(BATCHES + 3))
    place.producers.save(place.log, Offset(BATCHES + 3))
    place.producers.on_committed(Offset(BATCHES + 6))
    done: list[bool] = []
    place.producers.cover(place.log, Offset(BATCHES + 6), done.append)
    place.world.disk.settle()
    assert done == [True]
    assert place.producers.is_covered(Offset(BATCHES + 6))


def test_what_a_kill_has_left_half_written_is_no_part_of_the_next() -> None:
    place = written()
    file = place.world.disk.open(f"{SYNCED}.new", create=True)
    file.write_at(0, [bytes(100_000)])
    file.close()
    place.give_up(BATCHES)
    place.cut_power()
    assert place.last_sequence == BATCHES - 1


def test_a_state_from_before_the_start_is_none() -> None:
    """What came between is not known: by it the producer's next batch would be out of order."""
    place = written()
    place.producers.save(place.log, place.log.end_offset)
    place.write(4)
    place.commit()
    place.log.advance_start(place.log.end_offset)
    place.world.commit()
    place.kill()
    assert place.producers.describe() == []


def test_of_two_at_a_time_the_later_one_counts() -> None:
    place = written()
    first = place.cover()
    second = place.cover()
    place.world.disk.settle()
    assert (first, second) == ([False], [True])
    place.give_up(BATCHES)
    place.kill()
    assert place.last_sequence == BATCHES - 1


def test_of_a_log_that_was_deleted_meanwhile_nothing_is_left() -> None:
    place = written()
    done = place.cover()
    place.world.store.delete_log(place.log)
    place.world.disk.settle()
    assert done == [False]
    assert not place.world.failures
    place.open()
    assert place.producers.describe() == []


def test_aborted_transactions_are_read_again_though_the_producers_are_not() -> None:
    """The file of the aborted ones is never synced: the log from its start on says it again."""
    place = Place()
    place.write(4)
    for _ in range(3):
        place.write(2, is_transactional=True)
        place.abort()
    place.commit()
    place.give_up(8)
    expected = [(P, 7), (P, 10)]
    assert place.aborted() == expected
    place.world.disk.remove("topic1-0/aborted-transactions")
    place.kill()
    # What is left of the second transaction is its last batch and its marker; or not even that.
    assert place.aborted() in ([(P, 8), (P, 10)], expected[1:])
    assert place.last_sequence == place.sequence - 1
    place.give_up(place.log.end_offset)
    place.kill()
    assert (place.aborted(), place.last_sequence) == ([], place.sequence - 1)


# -- copies


def leader() -> Place:
    """Returns one whose log begins at 10; the transaction from 8 on is aborted at 11."""
    place = Place()
    place.write(8)
    place.write(3, is_transactional=True, producer_id=P + 1)
    place.abort(P + 1)
    place.write(4)
    place.commit()
    place.give_up(10)
    return place


def adopted(source: Place, *, write_caching: bool = False) -> Place:
    """Returns a follower that has begun at the leader's start and has nothing of its log yet."""
    state = source.producers.write_state(source.log.end_offset)
    place = Place(write_caching=write_caching)
    done: list[bool] = []
    place.producers.adopt(state, Offset(10), lambda: done.append(True))
    place.world.disk.settle()
    assert done == [True]
    place.log.reset_to(start_offset=10, index=10, term=Term(1))
    place.world.commit()
    return place


def send(source: Place, place: Place, at: int) -> None:
    """Brings the leader's batch at an offset into the follower's log."""
    (piece,) = source.log.locate_blocking(Offset(at), 1, source.log.end_offset)
    data = piece.file.read_blocking(piece.position, piece.length)
    index = place.log.last_index + 1
    entry = LogEntry(EntryKind.DATA, index, index, Term(1), data)
    place.log.append([entry])
    place.take(entry)


def replicate(source: Place, place: Place, first: int, last: int) -> None:
    for at in range(first, last):
        send(source, place, at)
        place.commit()


def nothing(_: Place) -> None:
    """Happens."""


@pytest.mark.parametrize("how", [nothing, Place.kill, Place.cut_power])
@pytest.mark.parametrize("moment", [10, 11, 12, 14, 16])
def test_a_copy_knows_what_the_leader_knows(how: Callable[[Place], None], moment: int) -> None:
    source = leader()
    end = source.log.end_offset
    assert end == 16
    place = adopted(source)
    replicate(source, place, 10, moment)
    how(place)
    replicate(source, place, moment, end)
    place.producers.on_leading(place.log.end_offset)
    for _ in range(2):
        assert sorted(place.producers.describe()) == sorted(source.producers.describe())
        assert place.aborted() == [(P + 1, 10)]
        assert place.producers.first_unstable_offset == source.producers.first_unstable_offset
        # And so after a stop in good order.
        place.producers.save(place.log, place.log.end_offset)
        place.kill()


def test_committed_readers_of_a_copy_on_its_way_get_nothing_aborted() -> None:
    source = leader()
    place = adopted(source)
    replicate(source, place, 10, 11)
    assert place.producers.first_unstable_offset == 10, "its end has not come yet"
    replicate(source, place, 11, 12)
    assert place.producers.first_unstable_offset > 12
    assert place.aborted() == [(P + 1, 10)]


def test_a_copy_moves_its_start_on_its_way() -> None:
    source = leader()
    place = adopted(source)
    replicate(source, place, 10, 12)
    place.give_up(12)
    place.cut_power()
    done: list[bool] = []
    place.producers.cover(place.log, place.log.end_offset, done.append)
    place.world.disk.settle()
    assert done == [True]
    place.cut_power()
    replicate(source, place, 12, 16)
    assert sorted(place.producers.describe()) == sorted(source.producers.describe())


def test_nothing_of_old_leaders_is_as_it_was() -> None:
    """Brokers of an earlier version send nothing, and bytes that cannot be read are as much."""
    source = leader()
    for state in (b"", b"what"):
        place = Place()
        done: list[bool] = []
        place.producers.adopt(state, Offset(10), lambda done=done: done.append(True))  # type: ignore[misc]
        assert done == [True]
        place.log.reset_to(start_offset=10, index=10, term=Term(1))
        place.world.commit()
        replicate(source, place, 10, 16)
        assert place.last_sequence == source.last_sequence
        assert place.aborted() == [(P + 1, 10)]


def test_who_leads_before_it_has_all_believes_its_log_only() -> None:
    """Then what was committed is lost, and sequence numbers of lost batches are not to count."""
    source = leader()
    place = adopted(source)
    replicate(source, place, 10, 13)
    place.producers.on_leading(place.log.end_offset)
    for _ in range(2):
        assert place.last_sequence == 11
        assert place.aborted() == [(P + 1, 10)]
        place.world.disk.settle()
        place.kill()
    place.sequence = 12
    place.write()
    place.commit()
    assert place.last_sequence == 12


def test_a_cut_of_what_was_committed_is_believed() -> None:
    source = leader()
    place = adopted(source)
    replicate(source, place, 10, 12)
    place.producers.truncate(Offset(12))
    assert place.last_sequence == source.last_sequence, "nothing but marks was cut"
    index = place.log.last_index
    send(source, place, 12)
    place.log.truncate_to(index)
    place.producers.truncate(Offset(12))
    assert place.last_sequence is None


def test_where_the_page_cache_is_enough_a_file_ahead_of_the_log_counts_for_nothing() -> None:
    """Batches are acknowledged that a power cut takes, and others come to their offsets."""
    place = Place(write_caching=True)
    place.write(BATCHES)
    place.commit()
    done = place.cover()
    place.world.disk.settle()
    assert done == [True]
    place.log.truncate_to(place.log.last_index - 4)
    place.world.commit()
    for _ in range(2):
        place.open()
        assert place.last_sequence == BATCHES - 5
        place.world.disk.settle()
        # Others come to where the lost ones were.
        place.sequence = 0
        place.write(6, producer_id=P + 1)
        place.commit()


@pytest.mark.parametrize("is_covered", [False, True])
@pytest.mark.parametrize("how", ["in time", "leading", "cut again", "too much", "damaged"])
def test_a_log_that_is_cut_behind_what_was_committed_is_read_anew(
    how: str, is_covered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without waiting, unless this replica is to lead, or too much comes meanwhile."""
    place = Place(write_caching=True)
    place.write(BATCHES)
    place.abort()
    place.commit()
    if is_covered:
        place.cover()
        place.world.disk.settle()
    kept = 4
    if how == "damaged":

        def fail(*asked: Any) -> None:
            asked[-1](DiskFailed("no"))

        monkeypatch.setattr(place.world.disk, "read", fail)
    cut(place, kept)
    if how == "damaged":
        assert place.last_sequence is None
        return
    assert place.producers.before_compaction(kept) is None
    assert place.cover() == [False]
    assert not place.producers.is_covered(Offset(1))
    assert place.producers.first_unstable_offset <= kept
    if how == "cut again":
        place.write(1, producer_id=P + 1)
        kept = 2
        cut(place, kept)
    if how == "too much":
        monkeypatch.setattr(partition_producers, "QUEUED_MAX", 3)
    place.sequence = kept
    place.write(3)
    place.producers.on_committed(Offset(kept + 2))
    if how == "leading":
        place.producers.on_leading(place.log.end_offset)
    elif how != "too much":
        place.world.disk.settle()
    assert place.last_sequence == kept + 2
    assert place.aborted() == []
    place.producers.truncate(Offset(kept + 2))
    assert place.last_sequence == kept + 1
    place.abort()
    place.commit()
    assert place.producers.before_compaction(kept) is not None


def test_what_was_committed_is_not_cut_where_all_is_synced() -> None:
    place = Place()
    place.write(2)
    place.commit()
    place.log.truncate_to(1)
    with pytest.raises(InvariantBroken, match="2 is committed"):
        place.producers.truncate(Offset(1))


def cut(place: Place, end: int) -> None:
    place.log.truncate_to(end)
    place.producers.truncate(Offset(end))


def test_while_a_state_is_taken_over_nothing_else_is_made_durable() -> None:
    source = leader()
    place = Place()
    done: list[bool] = []
    state = source.producers.write_state(source.log.end_offset)
    place.producers.adopt(state, Offset(10), lambda: done.append(True))
    assert place.cover() == [False]
    assert not place.producers.is_covered(Offset(1))
    assert not done
    place.world.disk.settle()
    assert done == [True]
    assert place.producers.is_covered(Offset(16))
