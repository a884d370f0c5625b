"""Sets of offsets, columns and timetables against the plainest of models."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.model.errors import InvariantBroken
from kafkaesque.queues.ages import Ages
from kafkaesque.queues.column import Column
from kafkaesque.queues.deduplication import Identities
from kafkaesque.queues.offset_set import OffsetSet
from kafkaesque.queues.runs import BadDecision, Reader, Run, Writer, runs_of
from kafkaesque.queues.timetable import Timetable

#: Near the borders of blocks.
OFFSETS = st.sampled_from([0, 1, 2, 254, 255, 256, 257, 4_095, 4_096, 4_097, 8_191, 8_192, 90_000])
LENGTHS = st.sampled_from([1, 2, 3, 255, 256, 300, 4_096, 9_000])


@given(st.lists(st.tuples(OFFSETS, LENGTHS, st.booleans()), max_size=12))
def test_a_set_of_offsets_is_a_set(steps: list[tuple[int, int, bool]]) -> None:
    offsets, model = OffsetSet(), set[int]()
    for first, length, is_added in steps:
        some = set(range(first, first + length))
        change = offsets.add if is_added else offsets.remove
        if some & model if is_added else not some <= model:
            # What it refuses may be done in part: it is the end of the broker.
            return
        change(first, first + length)
        model = model | some if is_added else model - some
        assert offsets.count == len(model)
        assert offsets.first() == min(model, default=None)
        assert tuple(offsets.runs()) == runs_of(sorted(model))
        start = first + length // 2
        assert tuple(offsets.runs(start)) == runs_of(sorted(o for o in model if o >= start))
        run = offsets.first_run(300)
        expected = next(iter(runs_of(sorted(model))), None)
        assert run == (expected and Run(expected.first, min(expected.end, expected.first + 300)))
        assert offsets.has_all(first, first + length) == (some <= model)
        assert (first in offsets) == (first in model)
        for end in (first + 1, first + length // 2, first + length + 5_000):
            assert offsets.count_between(start, end) == len(model.intersection(range(start, end)))
    writer, again = Writer(), OffsetSet()
    offsets.write(writer)
    again.read(Reader(bytes(writer.data)))
    assert tuple(again.runs()) == tuple(offsets.runs())
    assert again.count == offsets.count


def test_a_set_refuses_what_is_there_already_and_what_is_not() -> None:
    offsets = OffsetSet()
    offsets.add(0, 10)
    with pytest.raises(InvariantBroken, match="twice"):
        offsets.add(9, 11)
    with pytest.raises(InvariantBroken, match="not there"):
        offsets.remove(20, 21)


def test_blocks_that_come_and_go_leave_nothing_behind() -> None:
    offsets = OffsetSet()
    offsets.add(0, 1)
    for _ in range(10_000):
        offsets.add(50_000, 50_001)
        offsets.remove(50_000, 50_001)
    assert len(offsets._order) < 100


@given(
    st.sampled_from("BIQ"),
    st.lists(st.tuples(OFFSETS, LENGTHS, st.integers(0, 255)), max_size=12),
)
def test_a_column_is_a_dict(typecode: str, steps: list[tuple[int, int, int]]) -> None:
    column, model = Column(typecode), dict[int, int]()
    for first, length, value in steps:
        end = first + length
        if value > 200:
            values = [(value + place) % 3 for place in range(length)]
            column.put(first, values)
        elif value:
            column.fill(first, end, value)
            values = [value] * length
        else:
            column.clear(first, end)
            values = [0] * length
        model.update(zip(range(first, end), values, strict=True))
        assert column.values(first, end) == values
        assert dict(column.items()) == {o: each for o, each in model.items() if each}
        assert bool(column) == any(model.values())
    writer, again, other = Writer(), Column(typecode), Writer()
    column.write(writer)
    again.read(Reader(bytes(writer.data)))
    again.write(other)
    assert other.data == writer.data, "equal columns give equal bytes, however they came to be"
    assert dict(again.items()) == dict(column.items())


#: Around the borders of buckets, near and far.
TIMES = st.sampled_from([1, 5, 65_535, 65_536, 65_537, 4_194_303, 4_194_304, 9_000_000, 10**10])


@given(st.lists(st.tuples(st.sampled_from("sscp"), st.integers(0, 300), TIMES), max_size=40))
def test_a_timetable_says_what_is_due_in_order(steps: list[tuple[str, int, int]]) -> None:
    timetable, model, past = Timetable(), dict[int, int](), 0
    for what, offset, time_ms in steps:
        match what:
            case "s":
                if offset not in model:
                    timetable.set(offset, offset + 1, time_ms)
                    model[offset] = time_ms
            case "c":
                timetable.change(offset, 0)
                model.pop(offset, None)
            case "p":
                past = max(past, time_ms)
                due = timetable.pop_due(past, 1_000)
                assert due == sorted((t, o) for o, t in model.items() if t <= past)
                for _, each in due:
                    timetable.change(each, 0)
                    del model[each]
        assert timetable.count == len(model)
        assert timetable.next_due_ms() == min(model.values(), default=None)
        assert dict(timetable.items()) == model


def test_what_is_due_comes_once_until_it_is_entered_anew() -> None:
    timetable = Timetable()
    timetable.set(3, 6, 50)
    assert timetable.pop_due(50, 2) == [(50, 3), (50, 4)]
    assert timetable.pop_due(50, 2) == [(50, 5)]
    assert timetable.pop_due(50, 2) == []
    timetable.enter_anew()
    assert timetable.pop_due(50, 9) == [(50, 3), (50, 4), (50, 5)]


def test_entries_out_of_date_are_bounded() -> None:
    timetable = Timetable()
    for time_ms in range(1, 20_000):
        timetable.change(7, time_ms)
    for offset in range(100_000):
        timetable.set(offset + 10, offset + 11, 30_000 + offset)
        timetable.clear(offset + 10, offset + 11)
    assert timetable._entries < 25_000


@given(st.lists(st.tuples(st.integers(1, 3_000), st.integers(0, 2_000)), max_size=60))
def test_nothing_is_older_than_it_is(arrivals: list[tuple[int, int]]) -> None:
    ages, offset, wall_ms = Ages(), 0, 1_000
    truth: list[tuple[int, int]] = []
    for count, later_ms in arrivals:
        wall_ms += later_ms
        ages.note(offset, wall_ms, 0)
        truth.append((offset, wall_ms))
        offset += count
    for first, arrived_ms in truth:
        assert ages.arrived_ms(first) >= arrived_ms
        assert ages.arrived_by(arrived_ms - 1, offset) <= first


def test_ages_stay_few_and_can_be_taken_back() -> None:
    ages, undo = Ages(), []
    for number in range(100_000):
        before = ages.note(number, number * 1_000 + 1, 0)
        if number >= 99_000 and before is not None:
            undo.append(before)
        if number == 98_999:
            writer = Writer()
            ages.write(writer)
    assert len(ages._entries.firsts) <= 4_097
    assert 0 <= ages.arrived_ms(50_000) - 50_000_001 < 100_000
    for each in reversed(undo):
        ages.take_back(each)
    after = Writer()
    ages.write(after)
    assert after.data == writer.data


def test_identities_are_remembered_for_the_window_and_not_much_longer() -> None:
    identities = Identities()
    identities.begin(1_000, 800)
    identities.note(b"a", 1)
    assert identities.find(b"a", 1_799, 800) == 1
    assert identities.find(b"a", 1_900, 800) is None
    identities.begin(1_950, 800)
    identities.note(b"b", 2)
    assert identities.count == 1


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)), max_size=20))
def test_runs_are_read_as_they_were_written(pairs: list[tuple[int, int]]) -> None:
    at, runs = 0, []
    for gap, length in pairs:
        runs.append(Run(at + gap, at + gap + length))
        at += gap + length
    writer = Writer()
    writer.runs(runs)
    assert Reader(bytes(writer.data)).runs() == tuple(runs)


@given(st.binary(max_size=40))
def test_bytes_that_are_no_runs_are_refused(data: bytes) -> None:
    try:
        Reader(data).runs()
    except BadDecision:
        pass
