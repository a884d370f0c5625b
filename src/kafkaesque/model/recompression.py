"""Another codec for a batch: nothing else of it changes but its length and its checksum."""

from typing import NamedTuple

from kafkaesque.model import batch as layout
from kafkaesque.model import compression
from kafkaesque.model.batch import HEADER, LENGTH_OVERHEAD, Attribute, BatchHeader
from kafkaesque.model.buffers import Buffer
from kafkaesque.model.checksum import crc32c
from kafkaesque.model.compression import Codec


class Compression(NamedTuple):
    """How batches are to be compressed."""

    codec: Codec
    #: One of Kafka's; None where the codec has none.
    level: int | None = None


def recompress(
    batch: BatchHeader, payload: Buffer, wanted: Compression
) -> tuple[bytearray, BatchHeader]:
    """Return a batch with another codec, and its header; its checksum is set.

    `payload` is what `read_payload` gave. The records keep their bytes, and so their offsets,
    timestamps and headers; what the producer says of itself stays, too.
    """
    codec, level = wanted
    if level is None:
        packed = compression.compress(codec, payload)
    else:
        packed = compression.compress_at(codec, payload, level)
    out = bytearray(layout.HEADER_BYTES) + packed
    made = batch._replace(
        at=0,
        batch_length=len(out) - LENGTH_OVERHEAD,
        attributes=batch.attributes & ~Attribute.CODEC_MASK | codec,
        crc=0,
    )
    HEADER.pack_into(out, 0, *made[1:-1])
    checksum = crc32c(memoryview(out)[layout.CHECKED_START :])
    out[layout.MAGIC_END : layout.CHECKED_START] = checksum.to_bytes(4, "big")
    return out, made._replace(crc=checksum)
