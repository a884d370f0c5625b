"""Compaction against a dictionary: any batches, codecs, producers, transactions, several runs."""

import dataclasses
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.model.batch import read_batch_header, scan_batches
from kafkaesque.model.batch_encoder import BatchOptions, MarkerType, encode_batch
from kafkaesque.model.compression import Codec
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.storage.compaction_plan import (
    NO_HORIZON,
    CompactionOptions,
)
from kafkaesque.storage.group_log import GroupLog
from tests.unit.storage.compacting import (
    CONFIG,
    AbortedTransaction,
    append,
    batches_of,
    checkpoint,
    plan_for,
    put_marker,
    run,
)
from tests.unit.storage.helpers import TIME_MS, World

RETENTION_MS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One batch to be appended, or one run."""

    pairs: tuple[tuple[int, int | None], ...]
    codec: Codec
    producer: int | None
    transactional: bool
    #: Ends the producer's transaction after it, this way.
    end: MarkerType | None
    append_time: bool
    headers: bool
    gap_ms: int
    #: Compacts afterwards, with this much room for keys.
    run_key_bytes: int | None
    rolls: bool


steps = st.builds(
    Step,
    pairs=st.lists(
        st.tuples(st.integers(0, 6), st.none() | st.integers(0, 40)), min_size=1, max_size=5
    ).map(tuple),
    codec=st.sampled_from(list(Codec)),
    producer=st.none() | st.integers(1, 3),
    transactional=st.booleans(),
    end=st.none() | st.sampled_from(list(MarkerType)),
    append_time=st.booleans(),
    headers=st.booleans(),
    gap_ms=st.sampled_from([0, 1, 400, 1000]),
    run_key_bytes=st.none() | st.sampled_from([300, 900, 1 << 20]),
    rolls=st.booleans(),
)


@dataclass
class Model:
    """What was written, whole, and which of it counts."""

    #: Per offset the record, for those with a key that is not a marker's.
    records: dict[int, Record] = field(default_factory=dict)
    markers: dict[int, int] = field(default_factory=dict)
    aborted: list[AbortedTransaction] = field(default_factory=list)
    #: Per producer the first offset of its open transaction.
    open: dict[int, int] = field(default_factory=dict)
    producers: dict[int, int] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)

    def end(self, producer: int, kind: MarkerType, offset: int) -> None:
        first = self.open.pop(producer)
        self.markers[offset] = producer
        if kind is MarkerType.ABORT:
            self.aborted.append(AbortedTransaction(producer, first, offset))
            self.gone.update(
                at for at in range(first, offset) if self.producer_at.get(at) == producer
            )

    producer_at: dict[int, int] = field(default_factory=dict)

    def table(self, end: int) -> dict[bytes, tuple[int, bytes | None]]:
        """Return per key the last record before an offset that counts, tombstones included."""
        found: dict[bytes, tuple[int, bytes | None]] = {}
        for offset, record in self.records.items():
            if offset < end and offset not in self.gone:
                assert record.key is not None
                found[record.key] = offset, record.value
        return found


def write(log: GroupLog, model: Model, step: Step, now_ms: int) -> None:
    """Append a step's batch, and the end of its transaction."""
    headers = (("name", b"value"), ("name", None)) if step.headers else ()
    records = [
        Record(at, now_ms + at, b"key %d" % key, None if size is None else b"v" * size, headers)
        for at, (key, size) in enumerate(step.pairs)
    ]
    producer = step.producer
    transactional = step.transactional and producer is not None
    if producer in model.open and not transactional:
        producer = None
    options = BatchOptions(
        codec=step.codec,
        producer_id=-1 if producer is None else producer,
        producer_epoch=-1 if producer is None else 0,
        base_sequence=-1 if producer is None else 10,
        transactional=transactional,
        append_time_ms=now_ms if step.append_time else None,
    )
    base = append(log, encode_batch(records, options), len(records))
    for record in records:
        offset = base + record.offset
        time = now_ms if step.append_time else record.timestamp_ms
        model.records[offset] = record._replace(offset=offset, timestamp_ms=time)
        if transactional and producer is not None:
            model.producer_at[offset] = producer
    if producer is not None:
        model.producers[producer] = base + len(records) - 1
    if transactional and producer is not None:
        model.open.setdefault(producer, base)
        if step.end is not None:
            model.end(producer, step.end, put_marker(log, producer, step.end))


def check(log: GroupLog, model: Model, now_ms: int) -> None:
    """See that nothing is missing that counts, and that what is there is what was written."""
    wanted = model.table(log.end_offset)
    found: dict[bytes | None, tuple[int, bytes | None]] = {}
    seen_producers: set[tuple[int, int]] = set()
    at = 0
    for data in batches_of(log):
        header = read_batch_header(data)
        assert scan_batches(data, walk=True).end == len(data)
        assert header.base_offset >= at
        at = header.next_offset
        seen_producers.add((header.producer_id, header.last_offset))
        if header.is_control:
            assert header.base_offset in model.markers
            continue
        for record in decode_batch(data, 1 << 20):
            assert record == model.records[record.offset]
            if record.offset not in model.gone:
                found[record.key] = record.offset, record.value
    for key, (offset, value) in wanted.items():
        if value is not None:
            assert found.get(key) == (offset, value)
        else:
            assert key not in found or found[key][1] is None
    for producer, last in model.producers.items():
        assert (producer, last) in seen_producers


def check_clean(log: GroupLog, model: Model, end: int, limit: int) -> None:
    """See that before `end` every key stands once, and nothing aborted."""
    offsets: dict[bytes | None, int] = {}
    for data in batches_of(log):
        header = read_batch_header(data)
        if header.is_control or header.base_offset >= end:
            continue
        for record in decode_batch(data, 1 << 20):
            assert record.offset not in model.gone or record.offset >= limit
            assert record.key not in offsets
            offsets[record.key] = record.offset


@given(st.lists(steps, min_size=1, max_size=25), st.booleans())
def test_compaction_keeps_the_table(script: list[Step], crashes: bool) -> None:
    world = World(CONFIG)
    log = world.log()
    model = Model()
    now_ms = TIME_MS
    for step in script:
        now_ms += step.gap_ms
        write(log, model, step, now_ms)
        if step.rolls:
            log.segments.roll_next = True
        if step.run_key_bytes is None:
            continue
        compact_once(world, log, model, step.run_key_bytes, now_ms)
        if crashes:
            world.power_cut()
            log = world.log()
        check(log, model, now_ms)
    # In the end all goes that may, once its time has come.
    for producer in list(model.open):
        model.end(producer, MarkerType.ABORT, put_marker(log, producer, MarkerType.ABORT))
    log.segments.roll_next = True
    write(log, model, dataclasses.replace(LAST), now_ms)
    model.producers.clear()
    for _ in range(3):
        compact_once(world, log, model, 1 << 20, now_ms)
        check(log, model, now_ms)
        now_ms += RETENTION_MS
    check_bare(log, model)


LAST = Step(
    pairs=((99, 1),), codec=Codec.NONE, producer=None, transactional=False, end=None,
    append_time=False, headers=False, gap_ms=0, run_key_bytes=None, rolls=False,
)  # fmt: skip


def compact_once(world: World, log: GroupLog, model: Model, key_bytes: int, now_ms: int) -> None:
    """Make a run up to the last stable offset, if one is due."""
    checkpoint(world)
    limit = min([*model.open.values(), int(log.end_offset)])
    options = CompactionOptions(
        dirty_ratio_min=0.0,
        delete_retention_ms=RETENTION_MS,
        segment_bytes_max=1500,
        index_interval_bytes=1,
        key_bytes_max=key_bytes,
    )
    plan = plan_for(
        log,
        limit_offset=limit,
        now_ms=now_ms,
        options=options,
        aborted=model.aborted,
        producers=model.producers,
    )
    behind = [d for d in batches_of(log) if read_batch_header(d).base_offset >= limit]
    result = run(world, log, plan)
    after = [d for d in batches_of(log) if read_batch_header(d).base_offset >= limit]
    assert behind == after
    if result is not None:
        assert log.clean_state[:2] == (result.end_offset, result.horizon_ms)
        check_clean(log, model, result.end_offset, limit)


def check_bare(log: GroupLog, model: Model) -> None:
    """See that only the table is left, and the markers of transactions of which something is."""
    wanted = {offset for offset, value in model.table(log.end_offset).values() if value is not None}
    found: set[int] = set()
    left_of: set[int] = set()
    for data in batches_of(log):
        header = read_batch_header(data)
        if header.is_control:
            assert header.producer_id in left_of
            left_of.discard(header.producer_id)
            continue
        if header.is_transactional:
            left_of.add(header.producer_id)
        found.update(record.offset for record in decode_batch(data, 1 << 20))
    assert found == wanted
    assert log.clean_state.horizon_ms == NO_HORIZON
