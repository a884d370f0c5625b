"""The part of a record batch's header that storage looks at (KIP-98, format v2)."""

from struct import Struct
from typing import NamedTuple

from kafkaesque.env.disk import Buffer

#: Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base and maximal
#: timestamp.
HEADER = Struct(">qiiBIhiqq")
#: The whole header, up to the record count.
HEADER_BYTES = 61
#: What the length field does not count.
LENGTH_OVERHEAD = 12
MAGIC = 2


class BatchPlace(NamedTuple):
    """What a walk over headers sees of a batch."""

    base_offset: int
    last_offset: int
    term: int
    size_bytes: int
    max_timestamp: int


def read_place(data: Buffer, at: int) -> BatchPlace | None:
    """Return the batch that begins at `at`, or None if no header can be there.

    The checksum is not looked at: this is for bytes that were checked before.
    """
    base, length, term, magic, _, _, delta, _, latest = HEADER.unpack_from(data, at)
    if magic != MAGIC or length < HEADER_BYTES - LENGTH_OVERHEAD or base < 0 or delta < 0:
        return None
    return BatchPlace(base, base + delta, term, length + LENGTH_OVERHEAD, latest)
