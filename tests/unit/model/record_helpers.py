"""What the tests of record batches share: both kernels, and records to put into batches."""

import shutil
import struct

import pytest
from hypothesis import strategies as st

from kafkaesque.model.batch import CHECKED_START, HEADER
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.checksum import crc32c
from kafkaesque.model.compression import Codec
from kafkaesque.model.kernel import load_kernel
from kafkaesque.model.records import Record


def kernel_names() -> list[str]:
    """Both kernels; the compiled one may only be missing where nothing can be compiled."""
    try:
        load_kernel("compiled")
    except ImportError:
        if not any(shutil.which(name) for name in ("cc", "gcc", "clang")):
            return ["python"]
    return ["compiled", "python"]


both_kernels = pytest.mark.parametrize("kernel_name", kernel_names())
all_codecs = pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name.lower())

#: A limit that no test's batch comes near.
PLENTY = 1 << 24

NOW_MS = 1_700_000_000_000

header_names = st.text(max_size=8)
contents = st.none() | st.binary(max_size=40)
headers = st.lists(st.tuples(header_names, contents), max_size=3).map(tuple)
near_times = st.integers(NOW_MS - 2**40, NOW_MS + 2**40)
#: Any two of these are less than 2**63 apart.
wide_times = st.integers(-(2**62), 2**62 - 1)


@st.composite
def record_lists(
    draw: st.DrawFn,
    *,
    sparse: bool = False,
    times: st.SearchStrategy[int] = near_times | wide_times,
    size_max: int = 12,
) -> list[Record]:
    """Records with offsets from 0 without gaps, or, if `sparse`, as compaction leaves them."""
    count = draw(st.integers(1, size_max))
    offset = draw(st.integers(0, 2**62)) if sparse else 0
    records = []
    for _ in range(count):
        record = Record(offset, draw(times), draw(contents), draw(contents), draw(headers))
        records.append(record)
        offset += draw(st.integers(1, 2**20)) if sparse else 1
    return records


def sample_records(count: int = 3) -> list[Record]:
    """A few records with everything in them that a record may have."""
    kinds = [
        (b"key", b"value", (("name", b"content"), ("none", None))),
        (None, b"\x00" * 200, ()),
        (b"", None, (("", b""),)),
    ]
    return [Record(row, NOW_MS + row, *kinds[row % len(kinds)]) for row in range(count)]


def sample_batch(codec: Codec = Codec.NONE, count: int = 3) -> bytearray:
    return encode_batch(sample_records(count), BatchOptions(codec=codec))


def patched(batch: bytes | bytearray, form: str, at: int, value: int) -> bytearray:
    """Return the batch with a field changed and the checksum made right again."""
    changed = bytearray(batch)
    struct.pack_into(form, changed, at, value)
    return resealed(changed)


def resealed(batch: bytes | bytearray) -> bytearray:
    """Return the batch with length and checksum made right."""
    changed = bytearray(batch)
    struct.pack_into(">i", changed, 8, len(changed) - 12)
    struct.pack_into(">I", changed, 17, crc32c(memoryview(changed)[CHECKED_START:]))
    return changed


def raw_batch(payload: bytes, count: int, attributes: int = 0) -> bytearray:
    """Return a batch around a payload that need not be one; the checksum is right."""
    head = HEADER.pack(
        0, 0, -1, 2, 0, attributes, max(count - 1, 0), NOW_MS, NOW_MS, -1, -1, -1, count
    )
    return resealed(head + payload)
