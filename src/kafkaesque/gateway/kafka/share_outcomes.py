"""What is answered for one partition of a share session."""

from collections.abc import Sequence

from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.records import Record
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages import share_fetch_response as fetching


class Outcome:
    """What is answered for one partition."""

    __slots__ = ("acknowledge_code", "code", "leader", "messages")

    def __init__(self) -> None:
        self.code = ErrorCode.NONE
        self.acknowledge_code = ErrorCode.NONE
        self.messages: list[q.QueueMessage] = []
        self.leader: tuple[int, int] | None = None


def partition_data(index: int, outcome: Outcome) -> fetching.PartitionData:
    """Return the answer of a ShareFetch."""
    leader = outcome.leader or (-1, -1)
    messages = outcome.messages
    return fetching.PartitionData(
        partition_index=index,
        error_code=outcome.code,
        error_message=None,
        acknowledge_error_code=outcome.acknowledge_code,
        acknowledge_error_message=None,
        current_leader=fetching.LeaderIdAndEpoch(*leader),
        records=_batch(messages) if messages else b"",
        acquired_records=_acquired(messages),
    )


def _batch(messages: Sequence[q.QueueMessage]) -> bytearray:
    records = [
        Record(each.offset, each.timestamp_ms, each.key, each.value, each.headers)
        for each in messages
    ]
    return encode_batch(records)


def _acquired(messages: Sequence[q.QueueMessage]) -> list[fetching.AcquiredRecords]:
    """Return runs of offsets that lie together and were given out equally often."""
    found: list[fetching.AcquiredRecords] = []
    for each in messages:
        count = min(each.failures + 1, 2**15 - 1)
        last = found[-1] if found else None
        if last and last.last_offset == each.offset - 1 and last.delivery_count == count:
            last.last_offset = each.offset
        else:
            found.append(fetching.AcquiredRecords(each.offset, each.offset, count))
    return found
