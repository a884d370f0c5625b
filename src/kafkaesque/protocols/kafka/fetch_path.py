"""Fetch, written by hand: the request as slots and tuples, the response without copying records.

Reading relies on what generated readers rely on: a slice past the end leaves `pos` behind the end
of the frame, from where every further read raises, and the last check refuses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any, Final

from kafkaesque.protocols.kafka.produce_path import NodeEndpoint, TopicKey, node_endpoints_tags
from kafkaesque.protocols.kafka.wire import (
    ELEMENTS_MAX,
    MALFORMED,
    TAGS_MAX,
    Buffer,
    bad_count,
    bad_length,
    bad_tag,
    bad_tags,
    cut_short,
    length_tail,
    read_uvarint,
    skip_tags,
    tag_section,
    text_length_tail,
    uvarint,
    wrong_length,
)

#: First version in which topics are named by their ids.
TOPIC_ID_FROM: Final = 13
_FLEXIBLE_FROM: Final = 12
_LOG_START_FROM: Final = 5
_SESSION_FROM: Final = 7
_LEADER_EPOCH_FROM: Final = 9
_RACK_FROM: Final = 11
_REPLICA_STATE_FROM: Final = 15
_ENDPOINTS_FROM: Final = 16
_REPLICA_STATE_TAG: Final = 1

#: What a request without a session says of it: version 6 and before, or a client that wants none.
SESSION_ID_NONE: Final = 0
SESSION_EPOCH_FINAL: Final = -1

_read_short = Struct(">h").unpack_from
_read_int = Struct(">i").unpack_from
_read_head_v4 = Struct(">iiiib").unpack_from
_read_session = Struct(">ii").unpack_from
_read_partition_v4 = Struct(">iqi").unpack_from
_read_partition_v5 = Struct(">iqqi").unpack_from
_read_partition_v9 = Struct(">iiqqi").unpack_from
_read_partition_v12 = Struct(">iiqiqiB").unpack_from
_read_head_v12 = Struct(">iiiibiiB").unpack_from
_read_head_v15 = Struct(">iiibiiB").unpack_from


class PartitionAsked:
    """From where, and how much, a client wants of one partition; -1 is "not said"."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "last_fetched_epoch",
        "log_start_offset",
        "partition",
        "partition_max_bytes",
    )

    def __init__(
        self,
        partition: int,
        current_leader_epoch: int,
        fetch_offset: int,
        last_fetched_epoch: int,
        log_start_offset: int,
        partition_max_bytes: int,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.partition_max_bytes = partition_max_bytes


class FetchCall:
    """A Fetch request; in an incremental session, only what changed since the last one."""

    __slots__ = (
        "forgotten",
        "isolation_level",
        "max_bytes",
        "max_wait_ms",
        "min_bytes",
        "rack_id",
        "replica_id",
        "session_epoch",
        "session_id",
        "topics",
    )

    def __init__(
        self,
        replica_id: int,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation_level: int,
        session_id: int,
        session_epoch: int,
    ) -> None:
        self.replica_id = replica_id
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation_level = isolation_level
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.topics: list[tuple[TopicKey, list[PartitionAsked]]] = []
        self.forgotten: list[tuple[TopicKey, list[int]]] = []
        self.rack_id = ""


def read_fetch_request(frame: memoryview, pos: int, api_version: int) -> FetchCall:
    """Returns the request whose body starts at `pos`; the version is one that is supported.

    Raises:
        MalformedRequest: the body is not what it claims to be.
    """
    try:
        if api_version >= _FLEXIBLE_FROM:
            call, pos = _read_compact(frame, pos, api_version)
        else:
            call, pos = _read_legacy(frame, pos, api_version)
    except MALFORMED as error:
        raise cut_short("FetchRequest") from error
    if pos > len(frame):
        raise wrong_length("FetchRequest", pos, len(frame))
    return call


def _read_compact(buf: memoryview, pos: int, api_version: int) -> tuple[FetchCall, int]:
    by_id = api_version >= TOPIC_ID_FROM
    if api_version >= _REPLICA_STATE_FROM:
        *head, n = _read_head_v15(buf, pos)
        pos += 22
        call = FetchCall(-1, *head)
    else:
        *head, n = _read_head_v12(buf, pos)
        pos += 26
        call = FetchCall(*head)
    left = ELEMENTS_MAX
    if n != 1:
        pos, left = _read_topics(buf, pos, n, by_id, call, left)
    n = buf[pos]
    pos += 1
    if n != 1:
        pos = _read_forgotten(buf, pos, n, by_id, call, left)
    n = buf[pos]
    pos += 1
    if not 0 < n < 128:
        n, pos = text_length_tail(buf, pos, n)
    if n > 1:
        call.rack_id = str(buf[pos : (pos := pos + n - 1)], "utf-8")
    n = buf[pos]
    pos += 1
    if n:
        pos = _read_tags(buf, pos, n, call, api_version)
    return call, pos


def _read_topic_key(buf: memoryview, pos: int, by_id: bool) -> tuple[TopicKey, int]:
    if by_id:
        return bytes(buf[pos : pos + 16]), pos + 16
    n = buf[pos]
    pos += 1
    if not 0 < n < 128:
        n, pos = text_length_tail(buf, pos, n)
    return str(buf[pos : (pos := pos + n - 1)], "utf-8"), pos


def _read_topics(
    buf: memoryview, pos: int, n: int, by_id: bool, call: FetchCall, left: int
) -> tuple[int, int]:
    """Reads topics whose count's first byte is `n`; returns (position, elements still allowed)."""
    end = len(buf)
    if not 0 < n < 128:
        n, pos = length_tail(buf, pos, n)
    if (left := left - n + 1) < 0 or n > end - pos:
        bad_count(n)
    for _ in range(n - 1):
        topic, pos = _read_topic_key(buf, pos, by_id)
        n = buf[pos]
        pos += 1
        if not 0 < n < 128:
            n, pos = length_tail(buf, pos, n)
        if (left := left - n + 1) < 0 or n > end - pos:
            bad_count(n)
        asked: list[PartitionAsked] = []
        for _ in range(n - 1):
            index, epoch, offset, last_epoch, start, size, n = _read_partition_v12(buf, pos)
            pos += 33
            if n:
                pos = skip_tags(buf, pos, n)
            asked.append(PartitionAsked(index, epoch, offset, last_epoch, start, size))
        call.topics.append((topic, asked))
        n = buf[pos]
        pos += 1
        if n:
            pos = skip_tags(buf, pos, n)
    return pos, left


def _read_forgotten(
    buf: memoryview, pos: int, n: int, by_id: bool, call: FetchCall, left: int
) -> int:
    """Reads the partitions to forget, whose count's first byte is `n`."""
    end = len(buf)
    if not 0 < n < 128:
        n, pos = length_tail(buf, pos, n)
    if (left := left - n + 1) < 0 or n > end - pos:
        bad_count(n)
    for _ in range(n - 1):
        topic, pos = _read_topic_key(buf, pos, by_id)
        n = buf[pos]
        pos += 1
        if not 0 < n < 128:
            n, pos = length_tail(buf, pos, n)
        if (left := left - n + 1) < 0 or (n - 1) * 4 > end - pos:
            bad_count(n)
        call.forgotten.append((topic, list(Struct(f">{n - 1}i").unpack_from(buf, pos))))
        pos += 4 * (n - 1)
        n = buf[pos]
        pos += 1
        if n:
            pos = skip_tags(buf, pos, n)
    return pos


def _read_tags(buf: memoryview, pos: int, n: int, call: FetchCall, api_version: int) -> int:
    """Takes the replica's id from the tagged fields; the others concern brokers of Kafka only."""
    if n > TAGS_MAX:
        bad_tags(n)
    for _ in range(n):
        tag, pos = read_uvarint(buf, pos)
        size, pos = read_uvarint(buf, pos)
        stop = pos + size
        if tag == _REPLICA_STATE_TAG and api_version >= _REPLICA_STATE_FROM:
            call.replica_id = _read_int(buf, pos)[0]
            n = buf[pos + 12]
            if (skip_tags(buf, pos + 13, n) if n else pos + 13) != stop:
                bad_tag(tag)
        pos = stop
    return pos


def _read_legacy(buf: memoryview, pos: int, api_version: int) -> tuple[FetchCall, int]:
    end = len(buf)
    session_id, session_epoch = SESSION_ID_NONE, SESSION_EPOCH_FINAL
    replica_id, max_wait_ms, min_bytes, max_bytes, isolation = _read_head_v4(buf, pos)
    pos += 17
    if api_version >= _SESSION_FROM:
        session_id, session_epoch = _read_session(buf, pos)
        pos += 8
    call = FetchCall(
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation, session_id, session_epoch
    )
    n = _read_int(buf, pos)[0]
    pos += 4
    if not 0 <= n <= end - pos or (left := ELEMENTS_MAX - n) < 0:
        bad_count(n)
    for _ in range(n):
        topic, pos = _read_legacy_text(buf, pos)
        n = _read_int(buf, pos)[0]
        pos += 4
        if not 0 <= n <= end - pos or (left := left - n) < 0:
            bad_count(n)
        asked: list[PartitionAsked] = []
        for _ in range(n):
            partition, pos = _read_legacy_partition(buf, pos, api_version)
            asked.append(partition)
        call.topics.append((topic, asked))
    if api_version >= _SESSION_FROM:
        pos = _read_legacy_forgotten(buf, pos, call, left)
    if api_version >= _RACK_FROM:
        call.rack_id, pos = _read_legacy_text(buf, pos)
    return call, pos


def _read_legacy_text(buf: memoryview, pos: int) -> tuple[str, int]:
    n = _read_short(buf, pos)[0]
    pos += 2
    if n < 0:
        bad_length(n)
    return str(buf[pos : (pos := pos + n)], "utf-8"), pos


def _read_legacy_partition(
    buf: memoryview, pos: int, api_version: int
) -> tuple[PartitionAsked, int]:
    if api_version >= _LEADER_EPOCH_FROM:
        index, epoch, offset, log_start, bytes_max = _read_partition_v9(buf, pos)
        return PartitionAsked(index, epoch, offset, -1, log_start, bytes_max), pos + 28
    if api_version >= _LOG_START_FROM:
        index, offset, log_start, bytes_max = _read_partition_v5(buf, pos)
        return PartitionAsked(index, -1, offset, -1, log_start, bytes_max), pos + 24
    index, offset, bytes_max = _read_partition_v4(buf, pos)
    return PartitionAsked(index, -1, offset, -1, -1, bytes_max), pos + 16


def _read_legacy_forgotten(buf: memoryview, pos: int, call: FetchCall, left: int) -> int:
    end = len(buf)
    n = _read_int(buf, pos)[0]
    pos += 4
    if not 0 <= n <= end - pos or (left := left - n) < 0:
        bad_count(n)
    for _ in range(n):
        topic, pos = _read_legacy_text(buf, pos)
        n = _read_int(buf, pos)[0]
        pos += 4
        if not 0 <= n * 4 <= end - pos or (left := left - n) < 0:
            bad_count(n)
        call.forgotten.append((topic, list(Struct(f">{n}i").unpack_from(buf, pos))))
        pos += 4 * n
    return pos


class PartitionFetched:
    """What one partition answers; `records` is whatever the sender of the frame understands."""

    __slots__ = (
        "aborted",
        "diverging_epoch",
        "error_code",
        "high_watermark",
        "index",
        "last_stable_offset",
        "leader",
        "log_start_offset",
        "preferred_read_replica",
        "records",
        "records_bytes",
    )

    def __init__(
        self,
        index: int,
        error_code: int,
        high_watermark: int,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        records: Any = None,
        records_bytes: int = 0,
        aborted: Sequence[tuple[int, int]] | None = None,
        preferred_read_replica: int = -1,
        leader: tuple[int, int] | None = None,
        diverging_epoch: tuple[int, int] | None = None,
    ) -> None:
        """Holds the answer.

        `records` becomes a part of the frame as it is, and `records_bytes` is how much of the frame
        it takes; with 0 it is left out. `aborted` are (producer id, first offset); `leader` is
        (broker, leader epoch) where a client should go instead, and `diverging_epoch` is (epoch,
        end offset), both told from version 12 on.
        """
        self.index = index
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.records = records
        self.records_bytes = records_bytes
        self.aborted = aborted
        self.preferred_read_replica = preferred_read_replica
        self.leader = leader
        self.diverging_epoch = diverging_epoch


_write_frame_head = Struct(">ii").pack
_write_int = Struct(">i").pack
_write_short = Struct(">h").pack
_write_two_longs = Struct(">qq").pack
_write_two_ints = Struct(">ii").pack
_write_int_and_long = Struct(">iq").pack
_write_head_compact = Struct(">xihi").pack
#: A partition without aborted transactions, up to the preferred read replica.
_write_plain_compact = Struct(">ihqqqxi").pack
_write_partition = Struct(">ihqqq").pack
_write_partition_v4 = Struct(">ihqq").pack


def write_fetch_response(
    api_version: int,
    correlation_id: int,
    topics: Sequence[tuple[TopicKey, Sequence[PartitionFetched]]],
    session_id: int = SESSION_ID_NONE,
    error_code: int = 0,
    throttle_time_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> tuple[list[Any], int]:
    """Returns the parts of a frame, its length prefix included, and their bytes together.

    Parts are bytes and, between them and untouched, the `records` of the partitions. Topics are
    named as in the request: by id from version 13 on.
    """
    parts: list[Any] = [b""]
    pending = bytearray()
    records_bytes = 0
    flexible = api_version >= _FLEXIBLE_FROM
    if flexible:
        pending += _write_head_compact(throttle_time_ms, error_code, session_id)
        pending += uvarint(len(topics) + 1)
    else:
        pending += _write_int(throttle_time_ms)
        if api_version >= _SESSION_FROM:
            pending += _write_short(error_code) + _write_int(session_id)
        pending += _write_int(len(topics))
    small_bytes = 0
    for topic, partitions in topics:
        pending += _topic_head(topic, len(partitions), flexible)
        for p in partitions:
            head = _compact_partition(p) if flexible else _legacy_partition(p, api_version)
            pending += head
            if p.records_bytes:
                small_bytes += len(pending)
                records_bytes += p.records_bytes
                parts.append(bytes(pending))
                parts.append(p.records)
                pending.clear()
            if flexible:
                plain = p.leader is None and p.diverging_epoch is None
                pending += b"\x00" if plain else _partition_tags(p)
        if flexible:
            pending += b"\x00"
    if flexible:
        named = node_endpoints if api_version >= _ENDPOINTS_FROM else ()
        pending += node_endpoints_tags(named) if named else b"\x00"
    total = small_bytes + len(pending) + records_bytes
    if pending:
        parts.append(bytes(pending))
    head = _write_frame_head(total + 4, correlation_id)
    parts[0] = head
    if len(parts) > 1:
        parts[0:2] = [head + parts[1]]
    return parts, total + len(head)


def _topic_head(topic: TopicKey, partitions: int, flexible: bool) -> bytes:
    """Returns the topic's name or id, and the number of its partitions."""
    if flexible:
        if isinstance(topic, bytes):
            return topic + uvarint(partitions + 1)
        name = topic.encode()
        return uvarint(len(name) + 1) + name + uvarint(partitions + 1)
    name = topic if isinstance(topic, bytes) else topic.encode()
    return _write_short(len(name)) + name + _write_int(partitions)


def _compact_partition(p: PartitionFetched) -> bytes:
    """Returns a partition up to the length of its records."""
    n = p.records_bytes + 1
    if p.aborted is None:
        return _write_plain_compact(
            p.index,
            p.error_code,
            p.high_watermark,
            p.last_stable_offset,
            p.log_start_offset,
            p.preferred_read_replica,
        ) + uvarint(n)
    parts = [
        _write_partition(
            p.index, p.error_code, p.high_watermark, p.last_stable_offset, p.log_start_offset
        ),
        uvarint(len(p.aborted) + 1),
    ]
    parts += [_write_two_longs(*transaction) + b"\x00" for transaction in p.aborted]
    parts += [_write_int(p.preferred_read_replica), uvarint(n)]
    return b"".join(parts)


def _legacy_partition(p: PartitionFetched, api_version: int) -> bytes:
    """Returns a partition of version 4 to 11 up to the length of its records."""
    parts = [
        _write_partition(
            p.index, p.error_code, p.high_watermark, p.last_stable_offset, p.log_start_offset
        )
        if api_version >= _LOG_START_FROM
        else _write_partition_v4(p.index, p.error_code, p.high_watermark, p.last_stable_offset)
    ]
    if p.aborted is None:
        parts.append(_write_int(-1))
    else:
        parts.append(_write_int(len(p.aborted)))
        parts += [_write_two_longs(*transaction) for transaction in p.aborted]
    if api_version >= _RACK_FROM:
        parts.append(_write_int(p.preferred_read_replica))
    parts.append(_write_int(p.records_bytes))
    return b"".join(parts)


def _partition_tags(p: PartitionFetched) -> bytes:
    tags: list[tuple[int, list[Buffer]]] = []
    if p.diverging_epoch is not None:
        tags.append((0, [_write_int_and_long(*p.diverging_epoch), b"\x00"]))
    if p.leader is not None:
        tags.append((1, [_write_two_ints(*p.leader), b"\x00"]))
    return b"".join(tag_section(tags))
