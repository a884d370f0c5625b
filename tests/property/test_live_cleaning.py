"""Cleaning by what a table says lives, against a set: any batches, codecs and producers."""

import dataclasses
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.model.batch import read_batch_header, scan_batches
from kafkaesque.model.batch_encoder import BatchOptions, MarkerType, encode_batch
from kafkaesque.model.compression import Codec
from kafkaesque.model.live_offsets import LiveRecords
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.queues.offset_set import OffsetSet
from kafkaesque.storage import live_plan
from kafkaesque.storage.compaction_plan import CompactionOptions
from kafkaesque.storage.group_log import GroupLog
from kafkaesque.tables.logged import CONTROL_KEY, Logged, LoggedKind, read_logged, write_logged
from tests.unit.storage.compacting import (
    CONFIG,
    AbortedTransaction,
    append,
    batches_of,
    checkpoint,
    columns_of,
    put_marker,
    run,
)
from tests.unit.storage.helpers import TIME_MS, World

OPTIONS = CompactionOptions(segment_bytes_max=1500, index_interval_bytes=1)
DECISIONS = Logged(
    kind=LoggedKind.DECISIONS, table=1, lock_ms=0, wall_ms=TIME_MS, decisions=(b"what was decided",)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One batch, what is settled after it, and whether a snapshot and a run follow."""

    count: int
    codec: Codec
    producer: int | None
    transactional: bool
    end: MarkerType | None
    #: Of the records that live, the numbers of those that are settled.
    settled: tuple[int, ...]
    decides: bool
    snapshot: bool
    runs: bool
    rolls: bool


steps = st.builds(
    Step,
    count=st.integers(1, 5),
    codec=st.sampled_from(list(Codec)),
    producer=st.none() | st.integers(1, 3),
    transactional=st.booleans(),
    end=st.none() | st.sampled_from(list(MarkerType)),
    settled=st.lists(st.integers(0, 10), max_size=6).map(tuple),
    decides=st.booleans(),
    snapshot=st.booleans(),
    runs=st.booleans(),
    rolls=st.booleans(),
)


@dataclass
class Model:
    """What was written, and what of it lives."""

    records: dict[int, Record] = field(default_factory=dict)
    live: set[int] = field(default_factory=set)
    decided: set[int] = field(default_factory=set)
    producers: dict[int, int] = field(default_factory=dict)
    #: Per producer the offsets of its open transaction.
    open: dict[int, list[int]] = field(default_factory=dict)
    aborted: list[AbortedTransaction] = field(default_factory=list)
    #: The newest snapshot: its offset, and what lives by it.
    snapshot: tuple[int, frozenset[int]] = (0, frozenset())
    #: Nothing that is dead by a snapshot is left before this offset.
    clean_end: int = 0
    clean_live: frozenset[int] = frozenset()


def write(log: GroupLog, model: Model, step: Step) -> None:
    producer, transactional = step.producer, step.transactional and step.producer is not None
    if producer in model.open and not transactional:
        producer = None
    records = [Record(at, TIME_MS + at, None, b"v" * 20, ()) for at in range(step.count)]
    options = BatchOptions(
        codec=step.codec,
        producer_id=-1 if producer is None else producer,
        producer_epoch=-1 if producer is None else 0,
        base_sequence=-1 if producer is None else 10,
        transactional=transactional,
    )
    base = append(log, encode_batch(records, options), step.count)
    new = [base + at for at in range(step.count)]
    model.records.update({o: r._replace(offset=o) for o, r in zip(new, records, strict=True)})
    if producer is not None:
        model.producers[producer] = new[-1]
    if transactional and producer is not None:
        model.open.setdefault(producer, []).extend(new)
        if step.end is not None:
            end(log, model, producer, step.end)
    else:
        model.live.update(new)


def end(log: GroupLog, model: Model, producer: int, kind: MarkerType) -> None:
    offsets = model.open.pop(producer)
    marker = put_marker(log, producer, kind)
    if kind is MarkerType.ABORT:
        model.aborted.append(AbortedTransaction(producer, offsets[0], marker))
    else:
        model.live.update(offsets)


def follow(log: GroupLog, model: Model, step: Step) -> None:
    living = sorted(model.live)
    model.live.difference_update(living[at] for at in step.settled if at < len(living))
    if step.decides:
        model.decided.add(append(log, write_logged(DECISIONS), 1))
    if step.snapshot:
        offset = append(log, write_logged(DECISIONS), 1)
        model.decided.add(offset)
        # What is in an open transaction may come to live yet.
        model.snapshot = offset, frozenset(model.live.union(*model.open.values()))
    if step.rolls:
        log.segments.roll_next = True


def clean(world: World, log: GroupLog, model: Model) -> None:
    """Make a run up to the last stable offset, if one is due."""
    checkpoint(world)
    snapshot, named = model.snapshot
    offsets = OffsetSet()
    for offset in named:
        offsets.add(offset, offset + 1)
    limit = min([int(log.end_offset), *(first[0] for first in model.open.values())])
    plan = log.live_plan(
        LiveRecords(end_offset=snapshot, offsets=offsets, control_key=CONTROL_KEY),
        now_wall_ms=TIME_MS,
        limit_offset=limit,
        everywhere_offset=snapshot,
        options=OPTIONS,
    )
    if plan is None:
        return
    aborted = columns_of(model.aborted)
    plan = dataclasses.replace(plan, aborted=aborted, producers=model.producers)
    behind = [d for d in batches_of(log) if read_batch_header(d).base_offset >= plan.end_offset]
    result = run(world, log, plan)
    assert result is not None
    assert result.end_offset <= min(snapshot, limit)
    assert behind == [
        d for d in batches_of(log) if read_batch_header(d).base_offset >= plan.end_offset
    ]
    model.clean_end, model.clean_live = result.end_offset, named
    here = {offset for offset in named if offset < result.end_offset}
    assert log.clean_state.live_count == len(here)


def check(log: GroupLog, model: Model) -> None:
    found: dict[int, Record] = {}
    decided: set[int] = set()
    last: set[tuple[int, int]] = set()
    at = 0
    for data in batches_of(log):
        header = read_batch_header(data)
        assert scan_batches(data, walk=True).end == len(data)
        assert header.base_offset >= at
        at = header.next_offset
        last.add((header.producer_id, header.last_offset))
        if read_logged(header, data) is not None:
            decided.add(header.base_offset)
        elif not header.is_control:
            found.update({record.offset: record for record in decode_batch(data, 1 << 20)})
    assert all(found[offset] == model.records[offset] for offset in found)
    assert model.live <= found.keys(), "what lives is gone"
    left = {offset for offset in found if offset < model.clean_end}
    assert left <= model.clean_live, "what is dead is left"
    assert decided == {offset for offset in model.decided if offset >= model.clean_end}
    assert last.issuperset(model.producers.items())


@given(st.lists(steps, min_size=1, max_size=25), st.booleans())
def test_what_lives_stays_and_all_else_goes(script: list[Step], crashes: bool) -> None:
    world = World(CONFIG)
    log, model = world.log(), Model()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live_plan, "FREED_BYTES_MIN", 1)
        patch.setattr(live_plan, "DEAD_RATIO_MIN", 0.0)
        for step in script:
            write(log, model, step)
            follow(log, model, step)
            if not step.runs:
                continue
            clean(world, log, model)
            if crashes:
                world.power_cut()
                log = world.log()
            check(log, model)
