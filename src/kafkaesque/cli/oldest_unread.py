"""The oldest record that a group has not processed, in each of many partitions.

A fetch of little more than one batch tells it. Whatever is no record for a consumer is passed over:
transactions' markers, and with `committed_only` also what was aborted.
"""

import heapq
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

from kafkaesque.cli.addresses import parse_addresses
from kafkaesque.cli.kafka_request import Exchange
from kafkaesque.model.batch import scan_batches
from kafkaesque.model.record_errors import RecordError
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.errors import MalformedRequest
from kafkaesque.protocols.kafka.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
)
from kafkaesque.protocols.kafka.messages.fetch_response import AbortedTransaction

#: The last version that names topics and not their ids.
_FETCH_VERSION = 12
_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1
#: What one answer is about: a broker gives its first batch whole, however long that is.
FETCH_BYTES: Final = 16 * 1024
#: So many fetches find a record behind markers and aborted ones, or it stays unknown.
FETCHES_MAX: Final = 16
LEADERS_AT_ONCE_MAX: Final = 16
#: What one batch may take when it is decompressed.
DECOMPRESSED_BYTES_MAX: Final = 1 << 28

Partition = tuple[str, int]


class Unread(NamedTuple):
    """What a group has before it in one partition: the offsets from `first` to before `end`."""

    topic: str
    partition: int
    first: int
    end: int


class Oldest(NamedTuple):
    """The oldest record there; both are None where no record is left in that range."""

    offset: int | None
    #: Milliseconds since 1970, as `message.timestamp.type` has it; None where there is none.
    timestamp_ms: int | None


NOTHING: Final = Oldest(None, None)


def find_oldest(
    unread: Mapping[str, Sequence[Unread]], *, committed_only: bool
) -> dict[Partition, Oldest]:
    """Return the oldest unread record of each partition, which are given by leader's address.

    Leaders are asked at the same time, each for one partition after the other. A partition whose
    leader does not answer, or answers with an error, is not in the result.
    """
    found: dict[Partition, Oldest] = {}
    with ThreadPoolExecutor(max_workers=LEADERS_AT_ONCE_MAX) as workers:
        asked = [
            workers.submit(_ask_leader, address, wanted, committed_only)
            for address, wanted in unread.items()
        ]
        for each in asked:
            found.update(each.result())
    return found


def _ask_leader(
    address: str, wanted: Sequence[Unread], committed_only: bool
) -> dict[Partition, Oldest]:
    found: dict[Partition, Oldest] = {}
    ((host, port),) = parse_addresses(address)
    try:
        with Exchange(host, port) as leader:
            for each in wanted:
                oldest = _find(leader, each, committed_only)
                if oldest is not None:
                    found[each.topic, each.partition] = oldest
    except (OSError, EOFError, MalformedRequest):
        # Its partitions that are not found yet stay unknown.
        pass
    return found


def _find(leader: Exchange, unread: Unread, committed_only: bool) -> Oldest | None:
    at = unread.first
    for _ in range(FETCHES_MAX):
        answer = _fetch(leader, unread, at, committed_only)
        if answer is None or not answer.records:
            return None
        aborted = answer.aborted_transactions or () if committed_only else ()
        try:
            record, following = first_record(answer.records, at, aborted)
        except RecordError:
            return None
        if record is not None and record.offset < unread.end:
            time_ms = record.timestamp_ms
            return Oldest(record.offset, time_ms if time_ms >= 0 else None)
        if record is not None or following >= unread.end:
            return NOTHING
        if following <= at:
            return None
        at = following
    return None


def _fetch(leader: Exchange, unread: Unread, at: int, committed_only: bool) -> Any:
    """Return what a leader says of a partition from an offset on; None is an error."""
    wanted = FetchPartition(
        partition=unread.partition, fetch_offset=at, partition_max_bytes=FETCH_BYTES
    )
    request = FetchRequest(
        max_bytes=FETCH_BYTES,
        isolation_level=_READ_COMMITTED if committed_only else _READ_UNCOMMITTED,
        topics=[FetchTopic(topic=unread.topic, partitions=[wanted])],
    )
    answer = leader.ask(ApiKey.FETCH, _FETCH_VERSION, request)
    if answer.error_code or not answer.responses:
        return None
    (found,) = answer.responses[0].partitions
    return None if found.error_code else found


def first_record(
    records: Any, first: int, aborted: Sequence[AbortedTransaction]
) -> tuple[Record | None, int]:
    """Return the first record from an offset on that a consumer gets, and the offset behind it.

    Without one, it is the offset behind the batches that are whole. `aborted` are the transactions
    of which records are passed over.

    Raises:
        RecordError: a batch is broken.
    """
    begun = [(each.first_offset, each.producer_id) for each in aborted]
    heapq.heapify(begun)
    passed_over: set[int] = set()
    following = first
    for batch in scan_batches(records).batches:
        while begun and begun[0][0] <= batch.last_offset:
            passed_over.add(heapq.heappop(begun)[1])
        if batch.is_control:
            # The end of a transaction; one that begins later stands for itself.
            passed_over.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in passed_over):
            for record in decode_batch(records, DECOMPRESSED_BYTES_MAX, at=batch.at):
                if record.offset >= first:
                    return record, record.offset + 1
        following = max(following, batch.next_offset)
    return None, following


def by_leader(
    unread: Sequence[Unread], leaders: Mapping[Partition, str]
) -> dict[str, list[Unread]]:
    """Return the partitions by the address of their leader; those without one are left out."""
    found: defaultdict[str, list[Unread]] = defaultdict(list)
    for each in unread:
        address = leaders.get((each.topic, each.partition))
        if address is not None:
            found[address].append(each)
    return dict(found)
