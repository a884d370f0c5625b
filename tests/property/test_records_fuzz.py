"""Bytes from anywhere: only the typed errors appear, and both kernels say the same."""

import struct
from collections.abc import Callable
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.model import kernel
from kafkaesque.model.batch import check_batches, read_batch_header, scan_batches
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.compression import Codec, compress, decompress
from kafkaesque.model.kernel import use_kernel
from kafkaesque.model.record_errors import RecordError
from kafkaesque.model.records import Record, decode_batch, decode_columns
from tests.unit.model.record_helpers import (
    PLENTY,
    kernel_names,
    raw_batch,
    record_lists,
    resealed,
    sample_batch,
)

#: Far more than any example's records take, and little enough to be allocated at every example.
CAP = 1 << 20
INTERESTING = [0, 1, -1, 2, 4, 60, 61, 2**15, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)]

codecs = st.sampled_from(list(Codec))
int64s = st.sampled_from(INTERESTING) | st.integers(-(2**63), 2**63 - 1)


def outcome(call: Callable[[], Any]) -> Any:
    """Return what a call returns, or which typed error it raises; any other error is a defect."""
    try:
        return call()
    except RecordError as error:
        return type(error), str(error), error.at


def agreed(call: Callable[[], Any]) -> Any:
    """Return the outcome, which is the same on both kernels."""
    outcomes = []
    for name in kernel_names():
        with use_kernel(name):
            outcomes.append(outcome(call))
    assert all(found == outcomes[0] for found in outcomes), outcomes
    return outcomes[0]


def everything_agrees(buffer: bytes | bytearray) -> None:
    agreed(lambda: check_batches(buffer, CAP))
    agreed(lambda: check_batches(buffer, CAP, decompressed_bytes_max=CAP))
    agreed(lambda: scan_batches(buffer))
    agreed(lambda: scan_batches(buffer, walk=True, bytes_max=CAP))
    agreed(lambda: decode_batch(buffer, CAP))
    agreed(lambda: decode_columns(buffer, CAP)[1:])
    outcome(lambda: read_batch_header(buffer))


@st.composite
def mutated_batches(draw: st.DrawFn) -> bytearray:
    """A batch with a few bytes changed, taken out or put in; mostly with a right checksum."""
    records = draw(record_lists(sparse=draw(st.booleans()), size_max=4))
    batch = encode_batch(records, BatchOptions(codec=draw(codecs)))
    for _ in range(draw(st.integers(1, 4))):
        # Half of the changes hit the records, where a checksum made right again lets them through.
        at = draw(
            st.integers(0, len(batch) - 1) | st.integers(min(61, len(batch) - 1), len(batch) - 1)
        )
        kind = draw(st.integers(0, 3))
        if kind == 0:
            batch[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == 1:
            batch[at] = draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
        elif kind == 2 and len(batch) > 62:
            del batch[at : at + draw(st.integers(1, 4))]
        else:
            batch[at:at] = draw(st.binary(min_size=1, max_size=4))
        if len(batch) < 62:
            break
    return resealed(batch) if len(batch) > 61 and draw(st.integers(0, 3)) else batch


@given(mutated_batches())
def test_mutated_batches(buffer: bytearray) -> None:
    everything_agrees(buffer)


@given(
    records=record_lists(size_max=3),
    codec=codecs,
    field=st.sampled_from(
        [
            *[(">q", 0), (">i", 8), (">i", 12), (">b", 16), (">h", 21), (">i", 23), (">q", 27)],
            *[(">q", 35), (">q", 43), (">h", 51), (">i", 53), (">i", 57)],
        ]
    ),
    value=int64s,
    reseal=st.booleans(),
)
def test_every_header_field_with_any_value(
    records: list[Record], codec: Codec, field: tuple[str, int], value: int, reseal: bool
) -> None:
    form, at = field
    batch = encode_batch(records, BatchOptions(codec=codec))
    if reseal:
        batch = resealed(batch)
    bits = 8 * struct.calcsize(form)
    struct.pack_into(form, batch, at, (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1))
    everything_agrees(resealed(batch) if reseal and at != 8 else batch)


@given(st.binary(max_size=200))
def test_any_bytes(buffer: bytes) -> None:
    everything_agrees(buffer)


@given(payload=st.binary(max_size=100), count=st.integers(0, 15), codec=codecs)
def test_any_payload_in_a_good_frame(payload: bytes, count: int, codec: Codec) -> None:
    everything_agrees(raw_batch(payload, count, codec))


@given(codec=codecs, data=st.data())
def test_every_cut(codec: Codec, data: st.DataObject) -> None:
    batch = encode_batch(data.draw(record_lists(size_max=3)), BatchOptions(codec=codec))
    cut = batch[: data.draw(st.integers(0, len(batch) - 1))]
    everything_agrees(cut)
    if len(cut) > 61:
        everything_agrees(resealed(cut))


@given(
    payload=st.binary(max_size=60),
    count=int64s,
    base_offset=int64s,
    last_delta=int64s,
    base_time=int64s,
    append_time=st.none() | int64s,
)
def test_the_kernel_itself_with_any_numbers(
    payload: bytes,
    count: int,
    base_offset: int,
    last_delta: int,
    base_time: int,
    append_time: int | None,
) -> None:
    numbers = (count, base_offset, last_delta, base_time, append_time, 7)
    kernel_agrees(payload, *numbers)
    kernel_agrees(bytes(sample_batch()[61:]), 3, *numbers[1:])


def kernel_agrees(
    payload: bytes,
    count: int,
    base_offset: int,
    last_delta: int,
    base_time: int,
    append_time: int | None,
    at: int,
) -> None:
    def decoding(columns: bool) -> Any:
        decode = kernel.active.decode_columns if columns else kernel.active.decode_records
        return decode(payload, count, base_offset, last_delta, base_time, append_time, at)

    def walking(produced: bool) -> int:
        return kernel.active.walk_records(payload, count, last_delta, base_time, produced, at)

    for flag in (False, True):
        agreed(partial(decoding, flag))
        agreed(partial(walking, flag))
    agreed(lambda: kernel.active.read_headers(payload, len(payload) // 2, count))


@given(codec=codecs, data=st.data())
def test_broken_compressed_data(codec: Codec, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, data.draw(st.binary(max_size=300))))
    for _ in range(data.draw(st.integers(1, 4))):
        if packed:
            packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    found = outcome(lambda: decompress(codec, packed, CAP))
    assert isinstance(found, bytes | tuple)
    outcome(lambda: decompress(codec, data.draw(st.binary(max_size=60)), PLENTY))
