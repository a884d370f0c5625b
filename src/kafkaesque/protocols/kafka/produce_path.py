"""Produce, written by hand: the request as tuples over the frame, the response in few packs.

Reading relies on what generated readers rely on: a slice past the end leaves `pos` behind the end
of the frame, from where every further read raises, and the last check refuses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from kafkaesque.protocols.kafka.wire import (
    ELEMENTS_MAX,
    MALFORMED,
    UVARINTS,
    Buffer,
    bad_count,
    bad_length,
    cut_short,
    length_tail,
    skip_tags,
    tag_section,
    text_length_tail,
    text_tail,
    uvarint,
    uvarint_tail,
    wrong_length,
)

#: First version in which topics are named by their ids.
TOPIC_ID_FROM: Final = 13
#: First version whose answers name the records at fault (KIP-467).
RECORD_ERRORS_FROM: Final = 8
_FLEXIBLE_FROM: Final = 9

#: A topic's name, or from version 13 on its id.
TopicKey = str | bytes

_read_short = Struct(">h").unpack_from
_read_int = Struct(">i").unpack_from
_read_two_ints = Struct(">ii").unpack_from
_read_head = Struct(">hii").unpack_from
_read_compact_head = Struct(">hiB").unpack_from
_read_compact_partition = Struct(">iB").unpack_from
#: Null transactional id, acks, timeout, number of topics plus one, length of the name plus one.
_read_usual_head = Struct(">BhiBB").unpack_from
#: Number of partitions plus one, index, first byte of the records' length plus one.
_read_usual_partition = Struct(">BiB").unpack_from
#: Both, with a topic's id between them.
_read_usual_by_id = Struct(">BhiB16sBiB").unpack_from
_USUAL_BY_ID_BYTES: Final = 30


class ProduceCall:
    """A Produce request; records are slices of the frame that it was read from."""

    __slots__ = ("acks", "timeout_ms", "topics", "transactional_id")

    def __init__(
        self,
        transactional_id: str | None,
        acks: int,
        timeout_ms: int,
        topics: list[tuple[TopicKey, list[tuple[int, memoryview | None]]]],
    ) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topics = topics


def read_produce_request(frame: memoryview, pos: int, api_version: int) -> ProduceCall:
    """Returns the request whose body starts at `pos`; the version is one that is supported.

    Raises:
        MalformedRequest: the body is not what it claims to be.
    """
    try:
        if api_version >= _FLEXIBLE_FROM:
            by_id = api_version >= TOPIC_ID_FROM
            usual = _read_usual_id(frame, pos) if by_id else _read_usual_name(frame, pos)
            if usual is not None:
                return usual
            call, pos = _read_compact(frame, pos, by_id)
        else:
            call, pos = _read_legacy(frame, pos)
    except MALFORMED as error:
        raise cut_short("ProduceRequest") from error
    if pos > len(frame):
        raise wrong_length("ProduceRequest", pos, len(frame))
    return call


def _read_usual_name(buf: memoryview, pos: int) -> ProduceCall | None:
    """Reads one batch for one partition, outside of a transaction: most requests are just that.

    Returns None, for the general reader to decide, where anything at all is different.
    """
    null, acks, timeout_ms, topics, n = _read_usual_head(buf, pos)
    if null or topics != 2 or not 0 < n < 128:
        return None
    at = pos + 9
    pos = at + n - 1
    if len(buf) < pos + 6:
        return None
    partitions, index, first = _read_usual_partition(buf, pos)
    if partitions != 2 or first < 128:
        return None
    n, start = uvarint_tail(buf, pos + 6, first)
    stop = start + n - 1
    # Partition, topic and request end with a byte each that says "no tagged fields".
    if n < 128 or stop + 3 != len(buf) or buf[stop] or buf[stop + 1] or buf[stop + 2]:
        return None
    name = str(buf[at:pos], "utf-8")
    return ProduceCall(None, acks, timeout_ms, [(name, [(index, buf[start:stop])])])


def _read_usual_id(buf: memoryview, pos: int) -> ProduceCall | None:
    """Does the same for a topic that is named by its id."""
    if len(buf) < pos + _USUAL_BY_ID_BYTES:
        return None
    head = _read_usual_by_id(buf, pos)
    null, acks, timeout_ms, topics, topic_id, partitions, index, first = head
    if null or topics != 2 or partitions != 2 or first < 128:
        return None
    n, start = uvarint_tail(buf, pos + _USUAL_BY_ID_BYTES, first)
    stop = start + n - 1
    if n < 128 or stop + 3 != len(buf) or buf[stop] or buf[stop + 1] or buf[stop + 2]:
        return None
    return ProduceCall(None, acks, timeout_ms, [(topic_id, [(index, buf[start:stop])])])


def _read_compact(buf: memoryview, pos: int, by_id: bool) -> tuple[ProduceCall, int]:
    end = len(buf)
    n = buf[pos]
    pos += 1
    if n > 127:
        n, pos = text_tail(buf, pos, n)
    transactional_id = None if n == 0 else str(buf[pos : (pos := pos + n - 1)], "utf-8")
    acks, timeout_ms, n = _read_compact_head(buf, pos)
    pos += 7
    if not 0 < n < 128:
        n, pos = length_tail(buf, pos, n)
    if (left := ELEMENTS_MAX - n + 1) < 0 or n > end - pos:
        bad_count(n)
    topics: list[tuple[TopicKey, list[tuple[int, memoryview | None]]]] = []
    for _ in range(n - 1):
        topic: TopicKey
        if by_id:
            topic = bytes(buf[pos : (pos := pos + 16)])
        else:
            n = buf[pos]
            pos += 1
            if not 0 < n < 128:
                n, pos = text_length_tail(buf, pos, n)
            topic = str(buf[pos : (pos := pos + n - 1)], "utf-8")
        n = buf[pos]
        pos += 1
        if not 0 < n < 128:
            n, pos = length_tail(buf, pos, n)
        if (left := left - n + 1) < 0 or n > end - pos:
            bad_count(n)
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in range(n - 1):
            index, n = _read_compact_partition(buf, pos)
            pos += 5
            if n > 127:
                n, pos = uvarint_tail(buf, pos, n)
            partitions.append((index, buf[pos : (pos := pos + n - 1)] if n else None))
            n = buf[pos]
            pos += 1
            if n:
                pos = skip_tags(buf, pos, n)
        n = buf[pos]
        pos += 1
        if n:
            pos = skip_tags(buf, pos, n)
        topics.append((topic, partitions))
    n = buf[pos]
    pos += 1
    if n:
        pos = skip_tags(buf, pos, n)
    return ProduceCall(transactional_id, acks, timeout_ms, topics), pos


def _read_legacy(buf: memoryview, pos: int) -> tuple[ProduceCall, int]:
    end = len(buf)
    n = _read_short(buf, pos)[0]
    pos += 2
    if n < -1:
        bad_length(n)
    transactional_id = None if n < 0 else str(buf[pos : (pos := pos + n)], "utf-8")
    acks, timeout_ms, n = _read_head(buf, pos)
    pos += 10
    if not 0 <= n <= end - pos or (left := ELEMENTS_MAX - n) < 0:
        bad_count(n)
    topics: list[tuple[TopicKey, list[tuple[int, memoryview | None]]]] = []
    for _ in range(n):
        n = _read_short(buf, pos)[0]
        pos += 2
        if n < 0:
            bad_length(n)
        topic = str(buf[pos : (pos := pos + n)], "utf-8")
        n = _read_int(buf, pos)[0]
        pos += 4
        if not 0 <= n <= end - pos or (left := left - n) < 0:
            bad_count(n)
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in range(n):
            index, n = _read_two_ints(buf, pos)
            pos += 8
            if n < -1:
                bad_length(n)
            partitions.append((index, buf[pos : (pos := pos + n)] if n >= 0 else None))
        topics.append((topic, partitions))
    return ProduceCall(transactional_id, acks, timeout_ms, topics), pos


class PartitionProduced:
    """What became of one partition's records."""

    __slots__ = (
        "base_offset",
        "error_code",
        "error_message",
        "index",
        "leader",
        "log_append_time_ms",
        "log_start_offset",
        "record_errors",
    )

    def __init__(
        self,
        index: int,
        error_code: int,
        base_offset: int,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
        error_message: str | None = None,
        record_errors: Sequence[tuple[int, str | None]] = (),
        leader: tuple[int, int] | None = None,
    ) -> None:
        """Holds the outcome; offset and times are -1 where there are none.

        `record_errors` are (place of the record in its batch, reason); `leader` is (broker, leader
        epoch) where a client should go instead, told from version 10 on.
        """
        self.index = index
        self.error_code = error_code
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.error_message = error_message
        self.record_errors = record_errors
        self.leader = leader


#: (broker id, host, port, rack)
NodeEndpoint = tuple[int, str, int, str | None]

_ENDPOINTS_FROM: Final = 10
_LOG_START_FROM: Final = 5

#: No record errors, no message, no tagged fields.
_PLAIN_END: Final = b"\x01\x00\x00"

_write_frame_head = Struct(">ii").pack
_write_plain = Struct(">ihqqq3s").pack
_write_partition = Struct(">ihqqq").pack
_write_partition_v3 = Struct(">ihqq").pack
_write_two_ints = Struct(">ii").pack
_write_int = Struct(">i").pack
#: Length, correlation id, no tagged fields, number of topics plus one; then follows the topic.
_write_one_head = Struct(">iiBB").pack
#: Number of partitions plus one, the partition, no tagged fields of the topic, throttle time, no
#: tagged fields of the response.
_write_one_tail = Struct(">BihqqqIiB").pack
#: What both write, the length itself not counted.
_ONE_BYTES: Final = 46
#: `_PLAIN_END`, and no tagged fields of the topic.
_PLAIN_TOPIC_END: Final = 0x01_00_00_00
_write_short = Struct(">h").pack


def write_produce_response(
    api_version: int,
    correlation_id: int,
    topics: Sequence[tuple[TopicKey, Sequence[PartitionProduced]]],
    throttle_time_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> bytes:
    """Returns the whole frame, its length prefix included.

    Topics are named as in the request: by id from version 13 on. `node_endpoints` says where the
    leaders in `topics` are to be found.
    """
    parts: list[Buffer] = [b""]
    if api_version < _FLEXIBLE_FROM:
        _write_legacy(parts, api_version, topics, throttle_time_ms)
    else:
        append = parts.append
        append(b"\x00" + uvarint(len(topics) + 1))
        for topic, partitions in topics:
            if isinstance(topic, str):
                name = topic.encode()
                append(uvarint(len(name) + 1))
                append(name)
            else:
                append(topic)
            n = len(partitions) + 1
            append(UVARINTS[n] if n < 128 else uvarint(n))
            for p in partitions:
                plain = p.error_message is None and p.leader is None and not p.record_errors
                append(
                    _write_plain(
                        p.index,
                        p.error_code,
                        p.base_offset,
                        p.log_append_time_ms,
                        p.log_start_offset,
                        _PLAIN_END,
                    )
                    if plain
                    else _compact_partition(p, api_version)
                )
            append(b"\x00")
        append(_write_int(throttle_time_ms))
        append(_endpoints_tag(node_endpoints) if api_version >= _ENDPOINTS_FROM else b"\x00")
    parts[0] = _write_frame_head(sum(map(len, parts)) + 4, correlation_id)
    return b"".join(parts)


def write_one_produced(
    api_version: int,
    correlation_id: int,
    topic: TopicKey,
    index: int,
    base_offset: int,
    log_append_time_ms: int,
    log_start_offset: int,
) -> bytes:
    """Returns what `write_produce_response` does for a single batch that was appended."""
    if api_version < _FLEXIBLE_FROM:
        produced = PartitionProduced(index, 0, base_offset, log_append_time_ms, log_start_offset)
        return write_produce_response(api_version, correlation_id, [(topic, [produced])])
    if isinstance(topic, str):
        name = topic.encode()
        topic = uvarint(len(name) + 1) + name
    return (
        _write_one_head(_ONE_BYTES + len(topic), correlation_id, 0, 2)
        + topic
        + _write_one_tail(
            2, index, 0, base_offset, log_append_time_ms, log_start_offset, _PLAIN_TOPIC_END, 0, 0
        )
    )


def compact_text(text: str | None) -> bytes:
    """Returns a compact nullable string."""
    if text is None:
        return b"\x00"
    data = text.encode()
    return uvarint(len(data) + 1) + data


def _legacy_text(text: str | None) -> bytes:
    if text is None:
        return b"\xff\xff"
    data = text.encode()
    return _write_short(len(data)) + data


def _compact_partition(p: PartitionProduced, api_version: int) -> bytes:
    """Returns a partition that has more to say than an offset."""
    parts: list[Buffer] = [
        _write_partition(
            p.index, p.error_code, p.base_offset, p.log_append_time_ms, p.log_start_offset
        ),
        uvarint(len(p.record_errors) + 1),
    ]
    for place, reason in p.record_errors:
        parts.append(_write_int(place) + compact_text(reason) + b"\x00")
    parts.append(compact_text(p.error_message))
    if p.leader is None or api_version < _ENDPOINTS_FROM:
        parts.append(b"\x00")
    else:
        parts += tag_section([(0, [_write_two_ints(*p.leader), b"\x00"])])
    return b"".join(parts)


def _endpoints_tag(node_endpoints: Sequence[NodeEndpoint]) -> bytes:
    return node_endpoints_tags(node_endpoints) if node_endpoints else b"\x00"


def node_endpoints_tags(node_endpoints: Sequence[NodeEndpoint]) -> bytes:
    """Returns the tag section of a response whose tag 0 says where the leaders are."""
    parts: list[Buffer] = [uvarint(len(node_endpoints) + 1)]
    for node_id, host, port, rack in node_endpoints:
        parts += (_write_int(node_id), compact_text(host), _write_int(port), compact_text(rack))
        parts.append(b"\x00")
    return b"".join(tag_section([(0, parts)]))


def _write_legacy(
    parts: list[Buffer],
    api_version: int,
    topics: Sequence[tuple[TopicKey, Sequence[PartitionProduced]]],
    throttle_time_ms: int,
) -> None:
    """Appends the body of a response of version 3 to 8."""
    append = parts.append
    append(_write_int(len(topics)))
    for topic, partitions in topics:
        name = topic.encode() if isinstance(topic, str) else topic
        append(_write_short(len(name)) + name + _write_int(len(partitions)))
        for p in partitions:
            if api_version < _LOG_START_FROM:
                append(
                    _write_partition_v3(p.index, p.error_code, p.base_offset, p.log_append_time_ms)
                )
                continue
            append(
                _write_partition(
                    p.index, p.error_code, p.base_offset, p.log_append_time_ms, p.log_start_offset
                )
            )
            if api_version >= RECORD_ERRORS_FROM:
                append(_write_int(len(p.record_errors)))
                for place, reason in p.record_errors:
                    append(_write_int(place) + _legacy_text(reason))
                append(_legacy_text(p.error_message))
    append(_write_int(throttle_time_ms))
