"""Numbers of messages in a queue of several partitions, and which partition a message goes to.

Whoever sees a queue as a whole names a message by one number: the partition in its upper bits, and
the offset below. So a message of the first partition, or of the only one, has its offset for its
number. All numbers are below 2**53, which every language has exactly.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from kafkaesque.broker.requests.queue_requests import QueueMessage
from kafkaesque.model.batch import read_batch_header
from kafkaesque.model.kernel_types import Headers
from kafkaesque.model.message_headers import GROUP, IDENTITY, IDENTITY_BYTES, PREFIX
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.queues.arrival import group_of
from kafkaesque.queues.requests import Claim

#: A partition has fewer messages than 2**47 in its life: at 100,000 per second, in 44 years.
_SHIFT: Final = 47
_MASK: Final = (1 << _SHIFT) - 1
_MARK: Final = PREFIX.encode()
_BYTES_MAX: Final = 64 * 1024 * 1024


def whole_number(partition: int, offset: int) -> int:
    """Return the number of a message."""
    return partition << _SHIFT | offset


def part_of(number: int) -> tuple[int, int]:
    """Return the partition and the offset of a message; they need not exist."""
    return number >> _SHIFT, number & _MASK


def whole_claim(partition: int, claim: Claim) -> Claim:
    """Return a partition's claim as one on the whole queue."""
    first = whole_number(partition, claim.first)
    return Claim(first, first + claim.end - claim.first, claim.attempt)


def whole_message(partition: int, message: QueueMessage) -> QueueMessage:
    """Return a message of a partition as one of the whole queue."""
    return replace(message, offset=whole_number(partition, message.offset))


def claims_by_partition(claims: Iterable[Claim]) -> dict[int, list[Claim]]:
    """Return what is claimed of each partition; a claim never reaches over two."""
    found: dict[int, list[Claim]] = {}
    for claim in claims:
        partition, offset = part_of(claim.first)
        part = Claim(offset, offset + claim.end - claim.first, claim.attempt)
        found.setdefault(partition, []).append(part)
    return found


def partition_for(headers: Headers, count: int, otherwise: int) -> int:
    """Return the partition that a message goes to: by its group, by its id, or `otherwise`.

    The queue's options do not count, because they may change: what was put again has to come to
    where it was.
    """
    identity = b""
    for name, value in headers:
        if name == GROUP and value:
            return group_of(value) % count
        if name == IDENTITY and value is not None and len(value) == IDENTITY_BYTES:
            identity = value
    return group_of(identity) % count if identity else otherwise


class Share(NamedTuple):
    """What one partition gets of a batch: which messages, and these."""

    places: Sequence[int]
    records: Sequence[Record]


def shares_of(batch: bytes | bytearray, count: int, otherwise: int) -> dict[int, Share]:
    """Return what each partition gets of a batch, in order; nothing: all goes to `otherwise`.

    Raises:
        RecordError: the batch is damaged.
    """
    if _MARK not in batch:
        return {}
    header = read_batch_header(batch)
    if header.is_compressed or header.is_control or header.producer_id >= 0:
        # The leader refuses it.
        return {}
    found: dict[int, list[tuple[int, Record]]] = {}
    for place, record in enumerate(decode_batch(batch, _BYTES_MAX)):
        partition = partition_for(record.headers, count, otherwise)
        found.setdefault(partition, []).append((place, record))
    return {
        partition: Share(
            [place for place, _ in some],
            [record._replace(offset=number) for number, (_, record) in enumerate(some)],
        )
        for partition, some in sorted(found.items())
    }
