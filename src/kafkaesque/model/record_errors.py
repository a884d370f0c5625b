"""What can be wrong with bytes that claim to be record batches, and the words for it.

The kernel and its pure-Python twin report a `Fault` and a position; `record_error` makes the
exception, so that both say the same about the same bytes.
"""

from enum import IntEnum
from typing import NoReturn

from kafkaesque.model.errors import MessageTooLarge, RequestRefused


class RecordError(RequestRefused, ValueError):
    """Base of the errors in this module; `at` is the byte at which the bad batch begins."""

    def __init__(self, message: str, at: int = 0) -> None:
        super().__init__(message)
        self.at = at


class CorruptBatch(RecordError):
    """The bytes are not what their writer wrote: wrong checksum, impossible length, bad codec data.

    Kafka's answer to a client: CORRUPT_MESSAGE.
    """


class IncompleteBatch(CorruptBatch):
    """The buffer ends before the batch does: a torn tail, or a fetch answer cut at its limit."""


class BatchSealed(RecordError):
    """The records are ciphertext, and were to be read without opening them first."""


class SealDamaged(CorruptBatch):
    """A sealed batch does not open: it was changed, moved, or sealed for another place."""


class KeyShredded(RecordError):
    """The key that has sealed a batch was removed, so that nobody can read it any more.

    Kafka's answer to a client: CORRUPT_MESSAGE, at which clients give up. `version` is the key's.
    """

    def __init__(self, message: str, at: int = 0, version: int = 0) -> None:
        super().__init__(message, at)
        self.version = version


class UnsupportedMagic(RecordError):
    """A message set of format v0 or v1.

    Kafka 4's answer to a client: INVALID_RECORD.
    """


class InvalidRecord(RecordError):
    """The checksum is right and the content is not: its writer made a mistake.

    Kafka's answer to a client: INVALID_RECORD. Where only some records of a batch are at fault,
    `places` are theirs, from 0 on, and `fault` is what each of them is told (KIP-467). There may be
    more: `places` is bounded by whoever looked.
    """

    fault = ""

    def __init__(self, message: str, at: int = 0, places: tuple[int, ...] = ()) -> None:
        super().__init__(message, at)
        self.places = places


class KeysMissing(InvalidRecord):
    """Records of a compacted topic have no key."""

    fault = "a record of a compacted topic needs a key"


class InvalidTimestamp(InvalidRecord):
    """Times that the topic does not allow, or the bit that says that the broker gave the times.

    Kafka's answer to a client: INVALID_TIMESTAMP.
    """

    fault = (
        "its time is further from the broker's than message.timestamp.before.max.ms and "
        "message.timestamp.after.max.ms allow"
    )


class UnknownCompression(RecordError):
    """The attributes name a codec that does not exist.

    Kafka's answer to a client: UNSUPPORTED_COMPRESSION_TYPE.
    """


class BatchTooLarge(RecordError, MessageTooLarge):
    """The batch says that it is longer than the limit.

    Kafka's answer to a client: MESSAGE_TOO_LARGE.
    """


class DecompressionTooLarge(RecordError):
    """The records take more than the limit when they are decompressed.

    Kafka has no such limit; MESSAGE_TOO_LARGE says it best.
    """


class Fault(IntEnum):
    """What the kernel found; the kernel's constants are these numbers."""

    NONE = 0
    INCOMPLETE = 1
    LENGTH = 2
    LEGACY_MAGIC = 3
    MAGIC = 4
    TOO_LARGE = 5
    CHECKSUM = 6
    CODEC = 7
    RESERVED_BITS = 8
    CONTROL_BIT = 9
    HORIZON_BIT = 10
    APPEND_TIME_BIT = 11
    COUNT = 12
    BASE_OFFSET = 13
    PRODUCER = 14
    RECORD_LENGTH = 15
    RECORD_VARINT = 16
    RECORD_KEY = 17
    RECORD_VALUE = 18
    RECORD_HEADERS = 19
    RECORD_REST = 20
    OFFSET_DELTA = 21
    TIMESTAMP_DELTA = 22
    TRAILING = 23


_FAULTS: dict[int, tuple[type[RecordError], str]] = {
    Fault.INCOMPLETE: (IncompleteBatch, "the bytes end before the batch does"),
    Fault.LENGTH: (CorruptBatch, "its length is impossible"),
    Fault.LEGACY_MAGIC: (UnsupportedMagic, "message formats v0 and v1 are not supported"),
    Fault.MAGIC: (CorruptBatch, "its magic byte is not 2"),
    Fault.TOO_LARGE: (BatchTooLarge, "it is larger than the limit"),
    Fault.CHECKSUM: (CorruptBatch, "its CRC-32C does not match its bytes"),
    Fault.CODEC: (UnknownCompression, "its compression codec does not exist"),
    Fault.RESERVED_BITS: (InvalidRecord, "reserved attribute bits are set"),
    Fault.CONTROL_BIT: (InvalidRecord, "clients may not write control records"),
    Fault.HORIZON_BIT: (InvalidRecord, "clients may not set a delete horizon"),
    Fault.APPEND_TIME_BIT: (InvalidTimestamp, "clients may not set the log-append-time bit"),
    Fault.COUNT: (InvalidRecord, "record count and last offset delta do not fit"),
    Fault.BASE_OFFSET: (CorruptBatch, "its offsets are not possible"),
    Fault.PRODUCER: (InvalidRecord, "producer id, epoch and sequence do not fit"),
    Fault.RECORD_LENGTH: (InvalidRecord, "a record's length is not possible"),
    Fault.RECORD_VARINT: (InvalidRecord, "a varint is too long or cut off"),
    Fault.RECORD_KEY: (InvalidRecord, "a key's length is not possible"),
    Fault.RECORD_VALUE: (InvalidRecord, "a value's length is not possible"),
    Fault.RECORD_HEADERS: (InvalidRecord, "a record's headers are broken"),
    Fault.RECORD_REST: (InvalidRecord, "a record does not end where its length says"),
    Fault.OFFSET_DELTA: (InvalidRecord, "a record's offset is out of sequence"),
    Fault.TIMESTAMP_DELTA: (InvalidRecord, "a timestamp does not fit in 64 bits"),
    Fault.TRAILING: (InvalidRecord, "bytes follow the last record"),
}


def record_error(fault: int, at: int = 0) -> RecordError:
    """Return the exception for a fault of the batch that begins at byte `at`."""
    kind, text = _FAULTS[fault]
    return kind(f"record batch at byte {at}: {text}", at)


def fail(fault: int, at: int = 0) -> NoReturn:
    """Raise the exception for a fault of the batch that begins at byte `at`."""
    raise record_error(fault, at)
