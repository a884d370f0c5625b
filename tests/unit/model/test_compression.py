import gzip
import random
import subprocess
import sys
import tracemalloc

import cramjam
import lz4.frame
import pytest
import zstandard

from kafkaesque.model.compression import STREAM_COUNT_MAX, Codec, compress, decompress
from kafkaesque.model.record_errors import (
    CorruptBatch,
    DecompressionTooLarge,
    UnknownCompression,
)
from tests.unit.model.record_helpers import PLENTY, all_codecs

_dice = random.Random(1)
#: Compresses by about a factor of ten, and takes several blocks of each codec.
TEXT = b"".join(bytes([_dice.randrange(8)]) * _dice.randrange(40) for _ in range(20_000))
PAYLOADS = [b"", b"a", TEXT, bytes(300_000), _dice.randbytes(100_000)]

compressing = pytest.mark.parametrize(
    "codec", list(Codec)[1:], ids=lambda codec: codec.name.lower()
)


@all_codecs
def test_what_is_compressed_comes_back(codec: Codec) -> None:
    for payload in PAYLOADS:
        packed = compress(codec, memoryview(payload))
        assert type(packed) is bytes
        for given in (packed, bytearray(packed), memoryview(packed)):
            assert decompress(codec, given, len(payload)) == payload


@all_codecs
def test_one_byte_more_than_the_limit_is_too_much(codec: Codec) -> None:
    for payload in PAYLOADS[1:]:
        with pytest.raises(DecompressionTooLarge) as raised:
            decompress(codec, compress(codec, payload), len(payload) - 1, at=17)
        assert raised.value.at == 17


@compressing
def test_cuts_and_additions_are_corruption(codec: Codec) -> None:
    packed = compress(codec, TEXT)
    for cut in range(0, len(packed), len(packed) // 200):
        # An xerial stream without a block is an empty one.
        if (codec, cut) != (Codec.SNAPPY, 16):
            with pytest.raises(CorruptBatch):
                decompress(codec, packed[:cut], PLENTY)
    with pytest.raises(CorruptBatch, match=codec.name.lower()):
        decompress(codec, packed + b"x", PLENTY)


@compressing
def test_empty_input_is_corruption(codec: Codec) -> None:
    with pytest.raises(CorruptBatch):
        decompress(codec, b"", PLENTY)


@compressing
def test_a_bomb_takes_no_more_memory_than_the_limit(codec: Codec) -> None:
    bomb = compress(codec, bytes(100_000_000))
    limit = 2_000_000
    decompress(codec, compress(codec, TEXT), PLENTY)  # so that imports are not measured
    tracemalloc.start()
    try:
        with pytest.raises(DecompressionTooLarge):
            decompress(codec, bomb, limit)
        assert tracemalloc.get_traced_memory()[1] < 12_000_000
    finally:
        tracemalloc.stop()


def test_a_zstd_bomb_made_of_repeated_bytes_is_stopped_early() -> None:
    # A frame without content size, window 128 KiB, blocks of one byte repeated 128 KiB times.
    block = ((128 * 1024 << 3) | (1 << 1)).to_bytes(3, "little") + b"x"
    frame = b"\x28\xb5\x2f\xfd\x00" + bytes([7 << 3]) + block * 200_000
    tracemalloc.start()
    try:
        with pytest.raises(DecompressionTooLarge):
            decompress(Codec.ZSTD, frame, 1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_claimed_sizes_are_not_believed() -> None:
    for claimed in (2**32 - 1, 2**31, 10**6):
        varint = b""
        rest = claimed
        while rest > 0x7F:
            varint += bytes([rest & 0x7F | 0x80])
            rest >>= 7
        with pytest.raises(CorruptBatch):
            decompress(Codec.SNAPPY, varint + bytes([rest]) + b"\x00a", 2**33)
    frame = zstandard.ZstdCompressor().compress(b"hello")
    lying = frame[:5] + b"\xff" + frame[6:]  # the one-byte content size of a small frame
    with pytest.raises(CorruptBatch):
        decompress(Codec.ZSTD, lying, PLENTY)


def test_streams_of_other_writers_are_read() -> None:
    raw = bytes(cramjam.snappy.compress_raw(TEXT))
    assert decompress(Codec.SNAPPY, raw, PLENTY) == TEXT
    blocks = compress(Codec.SNAPPY, TEXT)
    assert decompress(Codec.SNAPPY, blocks + blocks, PLENTY) == TEXT * 2
    assert decompress(Codec.GZIP, gzip.compress(TEXT) * 2, PLENTY) == TEXT * 2
    for options in ({}, {"block_linked": False}, {"content_checksum": True, "store_size": False}):
        assert decompress(Codec.LZ4, lz4.frame.compress(TEXT, **options), PLENTY) == TEXT
    streamed = zstandard.ZstdCompressor(level=1, write_checksum=True).compressobj()
    frame = streamed.compress(TEXT) + streamed.flush()
    assert decompress(Codec.ZSTD, frame, PLENTY) == TEXT
    assert decompress(Codec.ZSTD, frame + frame, PLENTY) == TEXT * 2


def test_other_readers_read_our_streams() -> None:
    assert gzip.decompress(compress(Codec.GZIP, TEXT)) == TEXT
    assert lz4.frame.decompress(compress(Codec.LZ4, TEXT)) == TEXT
    assert zstandard.ZstdDecompressor().decompress(compress(Codec.ZSTD, TEXT)) == TEXT
    # Java's reader refuses blocks that depend on one another.
    assert lz4.frame.get_frame_info(compress(Codec.LZ4, TEXT))["block_linked"] is False


@compressing
def test_the_number_of_streams_is_bounded(codec: Codec) -> None:
    one = compress(codec, b"a")
    assert decompress(codec, one * STREAM_COUNT_MAX, PLENTY) == b"a" * STREAM_COUNT_MAX
    with pytest.raises(CorruptBatch, match="streams"):
        decompress(codec, one * (STREAM_COUNT_MAX + 1), PLENTY)


@pytest.mark.parametrize("codec", [-1, 5, 7], ids=str)
def test_unknown_codecs(codec: int) -> None:
    with pytest.raises(UnknownCompression):
        compress(codec, b"")
    with pytest.raises(UnknownCompression):
        decompress(codec, b"", 1)


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    heavy = "{'zstandard', 'cramjam', 'lz4', 'isal', 'argparse', 'email', 'importlib.metadata'}"
    code = f"import sys, kafkaesque.model.batch_encoder; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=90
    )
    assert done.stdout == "[]\n"
