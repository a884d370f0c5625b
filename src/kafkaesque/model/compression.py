"""The codecs of record batches, with a limit on what decompression gives.

A claimed size is never believed: output grows only with what really comes out of the codec, and
stops one byte after the limit. The libraries are imported at first use, because zstandard and
cramjam take a broker's start 20 ms and most of its batches pass through as they are.
"""

import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import Protocol, TypeVar, cast

from kafkaesque.model.buffers import Buffer
from kafkaesque.model.record_errors import (
    CorruptBatch,
    DecompressionTooLarge,
    UnknownCompression,
)


class Codec(IntEnum):
    """Kafka's numbers for the compression of a batch."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


#: gzip members, lz4 frames, zstd frames or xerial streams in one batch; writers make one.
STREAM_COUNT_MAX = 16
#: Output that is asked for at once, at most.
STEP_BYTES_MAX = 1 << 20
#: Uncompressed bytes in a block of xerial-framed snappy, as Java's writer makes them.
XERIAL_BLOCK_BYTES = 32 * 1024
XERIAL_MAGIC = b"\x82SNAPPY\x00"
#: Magic, version and oldest version that can read it.
_XERIAL_HEADER = XERIAL_MAGIC + (1).to_bytes(4, "big") * 2
#: What snappy can reach: 64 bytes copied by an element of three.
SNAPPY_RATIO_MAX = 22
ZSTD_LEVEL = 3
#: What zstd can reach: a block of 128 KiB from four bytes.
_ZSTD_RATIO_BITS = 15
#: Input that is given to zstd at once, at least; 8 MiB may come of it.
_ZSTD_STEP_BYTES = 256
GZIP_LEVEL = 1
#: Kafka's number for a fast lz4; any other is one of the high compressor's.
LZ4_FAST_LEVEL = 9
_LZ4_HIGH_MIN, _LZ4_HIGH_MAX = 3, 16
#: A deflate window of 32 KiB, with gzip's header and trailer.
_GZIP_WINDOW_BITS = 31

_T = TypeVar("_T")


class _TooLarge(Exception):
    """More output than the limit."""


class _Broken(Exception):
    """Not what the codec's writer makes."""


def compress(codec: int, payload: Buffer) -> bytes:
    """Return the payload as the codec writes it, readable by every Kafka client.

    Raises:
        UnknownCompression: there is no such codec.
    """
    return _of(_COMPRESS, codec)(payload)


def compress_at(codec: int, payload: Buffer, level: int) -> bytes:
    """Do the same at one of Kafka's levels (KIP-390); snappy and no codec at all have none.

    Raises:
        UnknownCompression: there is no such codec.
    """
    write = _COMPRESS_AT.get(codec)
    return compress(codec, payload) if write is None else write(payload, level)


def decompress(codec: int, payload: Buffer, bytes_max: int, *, at: int = 0) -> bytes:
    """Return what was compressed, if it is at most `bytes_max`; `at` names the batch in errors.

    Memory stays below about twice `bytes_max`, whatever the payload says.

    Raises:
        UnknownCompression: there is no such codec.
        DecompressionTooLarge: it is more than `bytes_max`.
        CorruptBatch: it is not, or not only, one whole compressed payload.
    """
    read = _of(_DECOMPRESS, codec)
    try:
        return read(payload, bytes_max)
    except _TooLarge:
        raise DecompressionTooLarge(
            f"record batch at byte {at}: more than {bytes_max} bytes when decompressed", at
        ) from None
    except _Broken as broken:
        name = Codec(codec).name.lower()
        raise CorruptBatch(f"record batch at byte {at}: bad {name} data: {broken}", at) from None


def decompress_quickly(codec: int, payload: Buffer, bytes_max: int) -> bytes | None:
    """Return what `decompress` would, or None if that is more than `bytes_max` or an error.

    It takes no longer than `bytes_max` takes, whatever the payload is.

    Raises:
        UnknownCompression: there is no such codec.
    """
    read = _zstd_quickly if codec == Codec.ZSTD else _of(_DECOMPRESS, codec)
    try:
        return read(payload, bytes_max)
    except (_TooLarge, _Broken):
        return None


def _of(table: tuple[_T, ...], codec: int) -> _T:
    if not 0 <= codec < len(table):
        raise UnknownCompression(f"there is no compression codec {codec}")
    return table[codec]


class _Output:
    """Decompressed parts, up to a limit."""

    __slots__ = ("_parts", "room")

    def __init__(self, bytes_max: int) -> None:
        self._parts: list[bytes] = []
        #: Bytes that may still come.
        self.room = bytes_max

    @property
    def step(self) -> int:
        """How much to ask for next: one byte more than fits tells that there is too much."""
        return min(self.room + 1, STEP_BYTES_MAX)

    def add(self, part: bytes) -> None:
        self.room -= len(part)
        if self.room < 0:
            raise _TooLarge
        if part:
            self._parts.append(part)

    def join(self) -> bytes:
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)


class _Stream(Protocol):
    """How the gzip and lz4 libraries decompress a stream in steps."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes | None: ...

    def decompress(self, data: Buffer, max_length: int) -> bytes: ...


def _read_streams(
    new_stream: Callable[[], _Stream], payload: Buffer, out: _Output, error: type[Exception]
) -> bytes:
    rest: Buffer = payload
    for _ in range(STREAM_COUNT_MAX):
        stream = new_stream()
        try:
            out.add(stream.decompress(rest, out.step))
            while not stream.eof:
                if stream.needs_input:
                    raise _Broken("it is cut off")
                out.add(stream.decompress(b"", out.step))
        except error as reason:
            raise _Broken(str(reason)) from None
        rest = stream.unused_data or b""
        if not rest:
            return out.join()
    raise _Broken(f"more than {STREAM_COUNT_MAX} streams")


def _read_none(payload: Buffer, bytes_max: int) -> bytes:
    if len(payload) > bytes_max:
        raise _TooLarge
    return bytes(payload)


def _write_gzip(payload: Buffer) -> bytes:
    from isal import igzip_lib

    return igzip_lib.compress(payload, level=GZIP_LEVEL, flag=igzip_lib.COMP_GZIP)


def _write_gzip_at(payload: Buffer, level: int) -> bytes:
    """Write with zlib, whose levels these are: the faster library has others."""
    stream = zlib.compressobj(level, zlib.DEFLATED, _GZIP_WINDOW_BITS)
    return stream.compress(payload) + stream.flush()


def _read_gzip(payload: Buffer, bytes_max: int) -> bytes:
    from isal import igzip_lib

    def new_stream() -> _Stream:
        return igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)

    # The library's stub takes the exception for an instance.
    error = cast(type[Exception], igzip_lib.error)
    return _read_streams(new_stream, payload, _Output(bytes_max), error)


def _write_lz4(payload: Buffer) -> bytes:
    import lz4.frame

    # Java's reader refuses blocks that refer to earlier ones.
    written: bytes = lz4.frame.compress(payload, block_linked=False, store_size=False)
    return written


def _write_lz4_at(payload: Buffer, level: int) -> bytes:
    import lz4.frame

    if level == LZ4_FAST_LEVEL:
        return _write_lz4(payload)
    high = min(max(level, _LZ4_HIGH_MIN), _LZ4_HIGH_MAX)
    written: bytes = lz4.frame.compress(
        payload, compression_level=high, block_linked=False, store_size=False
    )
    return written


def _read_lz4(payload: Buffer, bytes_max: int) -> bytes:
    import lz4.frame

    return _read_streams(lz4.frame.LZ4FrameDecompressor, payload, _Output(bytes_max), RuntimeError)


def _write_zstd(payload: Buffer) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(payload)


def _write_zstd_at(payload: Buffer, level: int) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=level).compress(payload)


def _read_zstd(payload: Buffer, bytes_max: int) -> bytes:
    """Feed zstd so little at a time that what comes of it is bounded: it knows no output limit."""
    import zstandard

    out = _Output(bytes_max)
    view = memoryview(payload)
    at, streams = 0, 0
    while at < len(view) or not streams:
        if streams == STREAM_COUNT_MAX:
            raise _Broken(f"more than {STREAM_COUNT_MAX} streams")
        streams += 1
        stream = zstandard.ZstdDecompressor().decompressobj()
        while not stream.eof:
            part = view[at : at + max(_ZSTD_STEP_BYTES, out.room >> _ZSTD_RATIO_BITS)]
            if not part:
                raise _Broken("it is cut off")
            try:
                out.add(stream.decompress(part))
            except zstandard.ZstdError as reason:
                raise _Broken(str(reason)) from None
            at += len(part)
        at -= len(stream.unused_data)
    return out.join()


def _zstd_quickly(payload: Buffer, bytes_max: int) -> bytes:
    """Read one whole frame at once: here zstd knows a limit, unless a frame names its own size."""
    import zstandard

    try:
        if zstandard.frame_content_size(payload) > bytes_max:
            raise _TooLarge
        return zstandard.ZstdDecompressor().decompress(
            payload, max_output_size=bytes_max, allow_extra_data=False
        )
    except zstandard.ZstdError as reason:
        raise _Broken(str(reason)) from None


def _write_snappy(payload: Buffer) -> bytes:
    from cramjam import snappy

    view = memoryview(payload)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), XERIAL_BLOCK_BYTES):
        block = bytes(snappy.compress_raw(view[start : start + XERIAL_BLOCK_BYTES]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _read_snappy(payload: Buffer, bytes_max: int) -> bytes:
    """Read blocks in the framing of xerial's snappy-java, or one raw block, which some write."""
    out = _Output(bytes_max)
    view = memoryview(payload)
    if view[:8] != XERIAL_MAGIC:
        out.add(_read_snappy_block(view, out.room))
        return out.join()
    at, streams = 0, 0
    while at < len(view):
        if view[at : at + 8] == XERIAL_MAGIC:
            at += len(_XERIAL_HEADER)
            streams += 1
            if streams > STREAM_COUNT_MAX:
                raise _Broken(f"more than {STREAM_COUNT_MAX} streams")
            continue
        length = int.from_bytes(view[at : at + 4], "big")
        block = view[at + 4 : at + 4 + length]
        if len(block) < length or not length:
            raise _Broken("it is cut off")
        out.add(_read_snappy_block(block, out.room))
        at += 4 + length
    if at > len(view):
        raise _Broken("it is cut off")
    return out.join()


def _read_snappy_block(block: memoryview, room: int) -> bytes:
    """Decompress one block, whose claimed size is only believed if it can be true and fits."""
    from cramjam import DecompressionError, snappy

    try:
        claimed = snappy.decompress_raw_len(block)
        if claimed > len(block) * SNAPPY_RATIO_MAX:
            raise _Broken("its size is not possible")
        if claimed > room:
            raise _TooLarge
        return bytes(snappy.decompress_raw(block))
    except DecompressionError as reason:
        raise _Broken(str(reason)) from None


_COMPRESS: tuple[Callable[[Buffer], bytes], ...] = (
    bytes,
    _write_gzip,
    _write_snappy,
    _write_lz4,
    _write_zstd,
)
_COMPRESS_AT: dict[int, Callable[[Buffer, int], bytes]] = {
    Codec.GZIP: _write_gzip_at,
    Codec.LZ4: _write_lz4_at,
    Codec.ZSTD: _write_zstd_at,
}
_DECOMPRESS: tuple[Callable[[Buffer, int], bytes], ...] = (
    _read_none,
    _read_gzip,
    _read_snappy,
    _read_lz4,
    _read_zstd,
)
