"""Sealed batches: what comes out is what went in, and nothing else opens."""

from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.model import _kernel_py, kernel
from kafkaesque.model.batch import (
    HEADER_BYTES,
    Attribute,
    BatchHeader,
    assign_offsets,
    check_batches,
    read_batch_header,
    scan_batches,
)
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.compression import Codec
from kafkaesque.model.record_errors import (
    BatchSealed,
    Fault,
    InvalidRecord,
    KeyShredded,
    SealDamaged,
)
from kafkaesque.model.records import Record, decode_batch, decode_columns
from kafkaesque.model.sealed_batch import (
    SEAL_BYTES,
    BatchKeys,
    BatchOpener,
    BatchSealer,
    is_sealed,
    key_version,
    told_by,
)

TOPIC = bytes(range(16))
SALT = b"a salt of 16 byt"
KEYS = BatchKeys(topic_id=TOPIC, partition=3, versions={1: b"1" * 32, 2: b"2" * 32})
# The same one twice, where nothing is compiled.
KERNELS = list(dict.fromkeys([kernel.active, _kernel_py]))

records = st.lists(
    st.builds(
        Record,
        offset=st.just(0),
        timestamp_ms=st.integers(0, 2**40),
        key=st.none() | st.binary(max_size=30),
        value=st.none() | st.binary(max_size=300),
        headers=st.just(()) | st.just((("name", b"value"),)),
    ),
    min_size=1,
    max_size=8,
)
options = st.builds(
    BatchOptions,
    codec=st.sampled_from([Codec.NONE, Codec.GZIP, Codec.LZ4]),
    producer_id=st.integers(0, 2**40),
    producer_epoch=st.integers(0, 100),
    base_sequence=st.integers(0, 2**31 - 1),
    transactional=st.booleans(),
)


def batch_of(made: list[Record], chosen: BatchOptions, base_offset: int) -> bytearray:
    numbered = [each._replace(offset=offset) for offset, each in enumerate(made)]
    batch = encode_batch(numbered, chosen)
    assign_offsets(batch, 0, base_offset, 7)
    return batch


def sealed(batch: bytearray, keys: BatchKeys = KEYS) -> tuple[bytearray, BatchHeader]:
    return BatchSealer(keys, SALT).seal(batch, read_batch_header(batch))


PLAIN = batch_of([Record(0, 5, b"key", b"a value to be hidden")], BatchOptions(), 40)


@given(records, options, st.integers(0, 2**50))
def test_what_is_opened_is_what_was_sealed(
    made: list[Record], chosen: BatchOptions, base_offset: int
) -> None:
    batch = batch_of(made, chosen, base_offset)
    hidden, header = sealed(batch)
    assert len(hidden) == len(batch) + SEAL_BYTES
    assert header == read_batch_header(hidden)
    assert is_sealed(hidden)
    assert not is_sealed(batch)
    assert key_version(hidden, header) == 2
    assert BatchOpener(KEYS).open(hidden, header) == batch
    plain = read_batch_header(batch)
    changed = ("batch_length", "crc", "attributes")
    assert header._replace(**{name: getattr(plain, name) for name in changed}) == plain


@given(records, options, st.binary(min_size=1, max_size=300))
def test_what_it_tells_can_be_read_without_a_key(
    made: list[Record], chosen: BatchOptions, told: bytes
) -> None:
    batch = batch_of(made, chosen, 40)
    hidden, header = BatchSealer(KEYS, SALT).seal(batch, read_batch_header(batch), told)
    assert len(hidden) == len(batch) + SEAL_BYTES + 4 + len(told)
    assert header == read_batch_header(hidden)
    assert told_by(hidden, header) == told
    assert BatchOpener(KEYS).open(hidden, header) == batch
    silent, its_header = sealed(batch)
    both = hidden + silent
    found = scan_batches(both).batches
    assert BatchOpener(KEYS).open_all(both, found, bytearray) == batch * 2
    assert told_by(silent, its_header) == b""


@given(st.data())
def test_what_it_tells_is_authenticated(data: st.DataObject) -> None:
    hidden, _ = BatchSealer(KEYS, SALT).seal(PLAIN, read_batch_header(PLAIN), b"something told")
    place = data.draw(st.integers(HEADER_BYTES, len(hidden) - 1), label="place")
    hidden[place] ^= data.draw(st.integers(1, 255), label="change")
    with pytest.raises((SealDamaged, KeyShredded)):
        BatchOpener(KEYS).open(hidden, read_batch_header(hidden))


@pytest.mark.parametrize("tested", KERNELS)
@given(records, options)
def test_a_sealed_batch_is_a_valid_one_that_nobody_looks_into(
    tested: ModuleType, made: list[Record], chosen: BatchOptions
) -> None:
    hidden, header = sealed(batch_of(made, chosen, 0))
    for walk in (False, True):
        found, end, fault = tested.scan_batches(hidden, 0, len(hidden), 2**31 - 1, 100, False, walk)
        assert (found, end, fault) == ([tuple(header)], len(hidden), Fault.NONE)
    with pytest.raises(BatchSealed):
        decode_batch(hidden, 1 << 20)
    with pytest.raises(BatchSealed):
        decode_columns(hidden, 1 << 20)


@pytest.mark.parametrize("tested", KERNELS)
def test_no_producer_may_send_one(tested: ModuleType) -> None:
    hidden, _ = sealed(PLAIN)
    assign_offsets(hidden, 0, 0, -1)
    found, _, fault = tested.scan_batches(hidden, 0, len(hidden), 2**31 - 1, 100, True, True)
    assert not found
    assert fault == Fault.RESERVED_BITS
    with pytest.raises(InvalidRecord):
        check_batches(hidden, 1 << 20)


@given(st.data())
def test_a_changed_byte_does_not_open(data: st.DataObject) -> None:
    """Even with a checksum that fits, as whoever writes to the disk would make it."""
    hidden, _ = sealed(PLAIN)
    # All but length, magic, leader epoch and checksum, which are not covered.
    place = data.draw(
        st.sampled_from([*range(8), *range(21, 23), *range(23, len(hidden))]), label="place"
    )
    hidden[place] ^= data.draw(st.integers(1, 255), label="change")
    header = read_batch_header(hidden)
    if not header.is_sealed:
        return  # then it is garbage of a batch in the clear, and opens nothing
    with pytest.raises((SealDamaged, KeyShredded)):
        BatchOpener(KEYS).open(hidden, header)


@pytest.mark.parametrize(
    "elsewhere",
    [
        BatchKeys(topic_id=bytes(16), partition=3, versions=KEYS.versions),
        BatchKeys(topic_id=TOPIC, partition=4, versions=KEYS.versions),
        BatchKeys(topic_id=TOPIC, partition=3, versions={2: b"3" * 32}),
    ],
)
def test_it_opens_nowhere_else(elsewhere: BatchKeys) -> None:
    hidden, header = sealed(PLAIN)
    with pytest.raises(SealDamaged):
        BatchOpener(elsewhere).open(hidden, header)


def test_it_opens_at_no_other_offset() -> None:
    hidden, _ = sealed(PLAIN)
    assign_offsets(hidden, 0, 41, 7)
    with pytest.raises(SealDamaged):
        BatchOpener(KEYS).open(hidden, read_batch_header(hidden))


def test_it_may_get_another_leader_epoch() -> None:
    hidden, _ = sealed(PLAIN)
    assign_offsets(hidden, 0, 40, 8)
    assert BatchOpener(KEYS).open(hidden, read_batch_header(hidden))[:12] == PLAIN[:12]


@pytest.mark.parametrize("size", [0, 1, SEAL_BYTES - 1])
def test_one_that_is_cut_is_refused(size: int) -> None:
    cut = bytearray(sealed(PLAIN)[0][: HEADER_BYTES + size])
    cut[8:12] = (len(cut) - 12).to_bytes(4, "big")
    with pytest.raises(SealDamaged, match="cut"):
        BatchOpener(KEYS).open(cut, read_batch_header(cut))


def test_a_shredded_key_is_named() -> None:
    hidden, header = sealed(PLAIN)
    without = BatchKeys(topic_id=TOPIC, partition=3, versions={1: b"1" * 32})
    with pytest.raises(KeyShredded, match="version 2 of the topic's key") as caught:
        BatchOpener(without).open(hidden, header)
    assert caught.value.version == 2


def test_what_can_be_opened_before_it_is_given() -> None:
    old = BatchKeys(topic_id=TOPIC, partition=3, versions={1: b"1" * 32})
    data = sealed(PLAIN, old)[0] + sealed(PLAIN)[0] + PLAIN
    batches = scan_batches(data).batches
    assert BatchOpener(old).open_all(data, batches, bytearray) == PLAIN
    assert BatchOpener(KEYS).open_all(data, batches, bytearray) == PLAIN * 3
    with pytest.raises(KeyShredded):
        BatchOpener(old).open_all(data, batches[1:], bytearray)


def test_no_two_batches_of_a_sealer_have_one_nonce() -> None:
    sealer = BatchSealer(KEYS, SALT)
    header = read_batch_header(PLAIN)
    heads = {bytes(sealer.seal(PLAIN, header)[0][61 : 61 + 29]) for _ in range(100)}
    assert len(heads) == 100


def test_keys_are_not_printed() -> None:
    assert "1111" not in repr(KEYS)
    assert Attribute.SEALED == 1 << 14


def test_the_same_salt_elsewhere_is_another_key() -> None:
    """Or two partitions that draw the same salt would share nonces."""
    elsewhere = [
        BatchKeys(topic_id=TOPIC, partition=4, versions=KEYS.versions),
        BatchKeys(topic_id=bytes(16), partition=3, versions=KEYS.versions),
    ]
    bodies = {bytes(sealed(PLAIN, keys)[0][90:-16]) for keys in (KEYS, *elsewhere)}
    assert len(bodies) == 3
