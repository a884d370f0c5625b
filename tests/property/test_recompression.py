"""A batch with another codec: everything but its length, its codec and its checksum stays."""

from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.model.batch import Attribute, BatchHeader, check_batches, read_payload
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.compression import Codec
from kafkaesque.model.recompression import Compression, recompress
from kafkaesque.model.records import Record, decode_batch

names = st.text(max_size=5).filter(lambda name: all(not 0xD800 <= ord(c) < 0xE000 for c in name))
rows = st.tuples(
    st.integers(-(2**40), 2**40),
    st.none() | st.binary(max_size=70),
    st.none() | st.binary(max_size=300),
    st.lists(st.tuples(names, st.none() | st.binary(max_size=5)), max_size=2).map(tuple),
)
wanted = st.one_of(
    st.sampled_from(Codec).map(Compression),
    st.builds(Compression, st.just(Codec.GZIP), st.just(-1) | st.integers(1, 9)),
    st.builds(Compression, st.just(Codec.LZ4), st.integers(1, 17)),
    st.builds(Compression, st.just(Codec.ZSTD), st.integers(-100, 12)),
)
BYTES_MAX = 1 << 20


def rest(header: BatchHeader) -> BatchHeader:
    """Return what has to stay."""
    attributes = header.attributes & ~Attribute.CODEC_MASK
    return header._replace(attributes=attributes, batch_length=0, crc=0)


@given(
    st.lists(rows, min_size=1, max_size=12),
    st.sampled_from(Codec),
    wanted,
    st.booleans(),
    st.none() | st.integers(0, 2**31 - 1),
)
def test_records_and_what_the_producer_says_stay(
    script: list[tuple[int, bytes, bytes, tuple[tuple[str, bytes], ...]]],
    codec: Codec,
    compression: Compression,
    transactional: bool,
    sequence: int | None,
) -> None:
    records = [Record(offset, *fields) for offset, fields in enumerate(script)]
    options = BatchOptions(codec=codec)
    if sequence is not None:
        options = BatchOptions(
            codec=codec,
            producer_id=2**40,
            producer_epoch=3,
            base_sequence=sequence,
            transactional=transactional,
        )
    data = encode_batch(records, options)
    (header,) = check_batches(data, BYTES_MAX, decompressed_bytes_max=BYTES_MAX)
    made, said = recompress(header, read_payload(data, header, BYTES_MAX), compression)
    # What a producer may send, with the right checksum.
    (found,) = check_batches(made, BYTES_MAX, decompressed_bytes_max=BYTES_MAX)
    assert found == said
    assert found.codec is compression.codec
    assert rest(found) == rest(header)
    assert decode_batch(made, BYTES_MAX) == records
