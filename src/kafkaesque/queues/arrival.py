"""Messages as they arrive: what a queue has to know of them, and where records say it.

A plain message says nothing, and costs nothing. What others say stands in headers of their
records: see `model.message_headers`.
"""

from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

from kafkaesque.model.batch import HEADER_BYTES, BatchHeader
from kafkaesque.model.buffers import Buffer
from kafkaesque.model.log_reference import read_reference
from kafkaesque.model.message_headers import (
    DELAY,
    GROUP,
    IDENTITY,
    IDENTITY_BYTES,
    NOT_AFTER,
    NOT_BEFORE,
    PREFIX,
    PRIORITY,
    TIME_TO_LIVE,
)
from kafkaesque.model.record_errors import CorruptBatch
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.model.sealed_batch import told_by
from kafkaesque.queues.runs import BadDecision, Reader, Run, Writer, runs_of

#: Longer batches are read for each queue.
_REMEMBERED_BYTES_MAX = 1024 * 1024
_MARK = PREFIX.encode()
_DURATIONS = (DELAY.encode(), TIME_TO_LIVE.encode())
#: Times beyond this are taken for it: the year 10889.
_TIME_MAX = 2**48 - 1
_BATCH_BYTES_MAX = 64 * 1024 * 1024


class Details(NamedTuple):
    """What a message says of itself that is not plain."""

    offset: int
    priority: int = 0
    #: A hash of the group's name that is never 0; 0: no group.
    group: int = 0
    not_before_ms: int = 0
    not_after_ms: int = 0
    identity: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """Messages that came together."""

    runs: tuple[Run, ...]
    #: The wall's time, by whoever wrote the log.
    wall_ms: int
    #: Bytes of the messages, one after the other: as many as there are, or one for all of them.
    sizes: tuple[int, ...]
    #: Of those that say something, rising.
    details: tuple[Details, ...] = ()


def group_of(name: bytes) -> int:
    """Return the number of a group: 64 bits of a hash that spreads well and is never 0."""
    # FNV-1a, then the finisher of MurmurHash3, as published: hash() differs between processes.
    code = 0xCBF29CE484222325
    for byte in name:
        code = (code ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    code = (code ^ code >> 33) * 0xFF51AFD7ED558CCD & 0xFFFFFFFFFFFFFFFF
    code = (code ^ code >> 33) * 0xC4CEB9FE1A85EC53 & 0xFFFFFFFFFFFFFFFF
    return code ^ code >> 33 or 1


def arrival_of(
    header: BatchHeader, data: Buffer, base_offset: int, wall_ms_min: int = 0
) -> Arrival:
    """Return what arrives with a batch of records, at its time, or at `wall_ms_min` if it is later.

    Of a sealed batch it is what its leader has told beside it, see `told_of`.

    Raises:
        RecordError: the batch is damaged.
    """
    wall_ms = max(wall_ms_min, header.max_timestamp_ms)
    if header.is_sealed:
        return arrival_told(header, told_by(data, header._replace(at=0)), base_offset, wall_ms)
    if _is_plain(header, data):
        return _plain(header, base_offset, wall_ms)
    shift = base_offset - header.base_offset
    offsets, sizes, details = [], [], []
    for record in decode_batch(data, _BATCH_BYTES_MAX):
        offset = record.offset + shift
        offsets.append(offset)
        sizes.append(counted_size_of(record))
        found = _details_of(offset, record.headers, wall_ms)
        if found != Details(offset):
            details.append(found)
    return Arrival(
        runs=runs_of(offsets), wall_ms=wall_ms, sizes=tuple(sizes), details=tuple(details)
    )


def counted_size_of(record: Record) -> int:
    """Return how many bytes a message counts for, wherever its body stands."""
    reference = None if record.value else read_reference(record.headers)
    if reference is not None:
        return reference.size_bytes
    return len(record.key or b"") + len(record.value or b"")


def told_of(header: BatchHeader, data: Buffer, wall_ms_min: int) -> bytes:
    """Return what followers have to know of a batch that is about to be sealed; empty: it is plain.

    Offsets in it count from the batch's first one.

    Raises:
        RecordError: the batch is damaged.
    """
    if _is_plain(header, data):
        return b""
    writer = Writer()
    write_arrival(arrival_of(header, data, 0, wall_ms_min), writer)
    return bytes(writer.data)


def arrival_told(
    header: BatchHeader, told: bytes, base_offset: int, wall_ms_min: int = 0
) -> Arrival:
    """Return what arrives with a sealed batch, of which its leader has told this.

    Raises:
        CorruptBatch: it has told nonsense.
    """
    wall_ms = max(wall_ms_min, header.max_timestamp_ms)
    if not told:
        return _plain(header, base_offset, wall_ms)
    try:
        found = read_arrival(Reader(told))
    except BadDecision as error:
        raise CorruptBatch(f"the sealed batch at offset {base_offset} tells nonsense") from error
    return _moved(found, base_offset, max(wall_ms, found.wall_ms))


def _moved(arrival: Arrival, by: int, wall_ms: int) -> Arrival:
    """Return what arrives so many offsets later, and then."""
    return Arrival(
        runs=tuple(Run(first + by, end + by) for first, end in arrival.runs),
        wall_ms=wall_ms,
        sizes=arrival.sizes,
        details=tuple(each._replace(offset=each.offset + by) for each in arrival.details),
    )


class Arrivals:
    """Reads what arrives; a batch that many queues get, one after the other, is read once."""

    __slots__ = ("_arrival", "_base_offset", "_is_timed", "_payload", "_said")

    def __init__(self) -> None:
        self._arrival: Arrival | None = None
        self._base_offset = 0
        #: All that it was made of.
        self._said: tuple[int, ...] = ()
        self._payload = b""
        #: Whether it may depend on the time.
        self._is_timed = False

    def read(
        self, header: BatchHeader, data: Buffer, base_offset: int, wall_ms_min: int
    ) -> Arrival:
        """Return what arrives with a batch, as `arrival_of` does.

        Raises: as `arrival_of`.
        """
        # Of what is compressed it cannot be seen whether it depends on the time.
        is_closed = header.is_sealed or header.is_compressed
        if is_closed or header.size_bytes > _REMEMBERED_BYTES_MAX or _is_plain(header, data):
            return arrival_of(header, data, base_offset, wall_ms_min)
        wall_ms = max(wall_ms_min, header.max_timestamp_ms)
        said = (header.attributes, header.record_count, header.last_offset_delta)
        # The data begins with the batch, wherever the batch began in what was read of the log.
        payload = bytes(memoryview(data)[HEADER_BYTES : header.size_bytes])
        last = self._arrival
        is_same = last is not None and said == self._said and payload == self._payload
        if last is None or not is_same or (self._is_timed and wall_ms != last.wall_ms):
            self._arrival = last = arrival_of(header, data, base_offset, wall_ms_min)
            self._base_offset, self._said, self._payload = base_offset, said, payload
            self._is_timed = any(each in payload for each in _DURATIONS)
            return last
        return _moved(last, base_offset - self._base_offset, wall_ms)


def _is_plain(header: BatchHeader, data: Buffer) -> bool:
    """Tell whether the header says all that there is to know of a batch in the clear."""
    is_whole = header.record_count == header.last_offset_delta + 1
    if not is_whole or header.is_compressed:
        return False
    # All that is appended here comes as a bytearray: it need not be copied.
    found = data if isinstance(data, bytes | bytearray) else bytes(data)
    return _MARK not in found


def _plain(header: BatchHeader, base_offset: int, wall_ms: int) -> Arrival:
    size = (header.size_bytes + header.record_count - 1) // max(header.record_count, 1)
    run = Run(base_offset, base_offset + header.record_count)
    return Arrival(runs=(run,), wall_ms=wall_ms, sizes=(size,))


def identity_of(said: bytes) -> bytes:
    """Return the sixteen bytes by which a message with an id of any length is known."""
    return sha256(said).digest()[:IDENTITY_BYTES]


def headers_of(
    *,
    priority: int = 0,
    group: bytes = b"",
    not_before_ms: int = 0,
    not_after_ms: int = 0,
    identity: bytes = b"",
    delay_ms: int = 0,
    time_to_live_ms: int = 0,
) -> tuple[tuple[str, bytes | None], ...]:
    """Return the headers that say this of a message; what is 0 or empty is not said."""
    numbers = (
        (PRIORITY, priority),
        (NOT_BEFORE, not_before_ms),
        (NOT_AFTER, not_after_ms),
        (DELAY, delay_ms),
        (TIME_TO_LIVE, time_to_live_ms),
    )
    said = [(name, b"%d" % number) for name, number in numbers if number]
    said += [(name, value) for name, value in ((GROUP, group), (IDENTITY, identity)) if value]
    return tuple(said)


def _details_of(
    offset: int, headers: tuple[tuple[str, bytes | None], ...], wall_ms: int
) -> Details:
    """Return what headers say; what cannot be understood says nothing."""
    said = {name: value for name, value in headers if value and name.startswith(PREFIX)}
    group, identity = said.get(GROUP), said.get(IDENTITY, b"")
    return Details(
        offset=offset,
        priority=_number(said.get(PRIORITY), 255),
        group=group_of(group) if group else 0,
        not_before_ms=_time(said.get(NOT_BEFORE), said.get(DELAY), wall_ms),
        not_after_ms=_time(said.get(NOT_AFTER), said.get(TIME_TO_LIVE), wall_ms),
        identity=identity if len(identity) == IDENTITY_BYTES else b"",
    )


def _time(moment: bytes | None, duration: bytes | None, wall_ms: int) -> int:
    """Return when something happens; 0: it is not said. What is absolute counts first."""
    found = _number(moment, _TIME_MAX)
    lasting = 0 if found else _number(duration, _TIME_MAX)
    return min(wall_ms + lasting, _TIME_MAX) if lasting else found


def _number(said: bytes | None, most: int) -> int:
    if said is None or not said.isdigit() or len(said) > 18:
        return 0
    return min(int(said), most)


def write_arrival(arrival: Arrival, writer: Writer) -> None:
    """Write an arrival."""
    writer.runs(arrival.runs)
    writer.number(arrival.wall_ms)
    writer.number(len(arrival.sizes))
    for size in arrival.sizes:
        writer.number(size)
    writer.number(len(arrival.details))
    before = 0
    for each in arrival.details:
        writer.number(each.offset - before)
        before = each.offset
        for number in each[1:5]:
            writer.number(number)
        writer.bytes(each.identity)


def read_arrival(reader: Reader) -> Arrival:
    """Read what `write_arrival` wrote.

    Raises:
        BadDecision: it is not an arrival.
    """
    runs, wall_ms = reader.runs(), reader.number()
    sizes = tuple(reader.number() for _ in range(reader.count()))
    if len(sizes) not in (1, sum(end - first for first, end in runs)):
        raise BadDecision(f"{len(sizes)} sizes of messages")
    details, offset = [], 0
    for _ in range(reader.count()):
        offset += reader.number()
        priority, group, not_before_ms, not_after_ms = (reader.number() for _ in range(4))
        details.append(
            Details(offset, priority, group, not_before_ms, not_after_ms, reader.bytes())
        )
    return Arrival(runs=runs, wall_ms=wall_ms, sizes=sizes, details=tuple(details))
