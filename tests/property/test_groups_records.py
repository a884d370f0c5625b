"""The offsets topic's records: what is written is read back, and nothing else is believed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.groups.errors import BadGroupRecord
from kafkaesque.groups.records import (
    GroupRecord,
    MemberRecord,
    OffsetKey,
    read_group_value,
    read_key,
    read_offset_value,
    write_group_key,
    write_group_value,
    write_offset_key,
    write_offset_value,
)
from kafkaesque.groups.results import CommittedOffset
from kafkaesque.groups.subscription import read_subscribed_topics
from kafkaesque.model.coordinator_partition import coordinator_partition, java_string_hash

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(max_size=12)
MAYBE_TEXT = st.none() | TEXT

MEMBERS = st.builds(
    MemberRecord,
    member_id=TEXT,
    instance_id=MAYBE_TEXT,
    client_id=TEXT,
    client_host=TEXT,
    rebalance_timeout_ms=INT32.filter(lambda value: value != -1),
    session_timeout_ms=INT32,
    subscription=st.binary(max_size=8),
    assignment=st.binary(max_size=8),
)
GROUPS = st.builds(
    GroupRecord,
    protocol_type=TEXT,
    generation=INT32,
    protocol_name=MAYBE_TEXT,
    leader_id=MAYBE_TEXT,
    state_since_wall_ms=INT64,
    members=st.lists(MEMBERS, max_size=3).map(tuple),
)


@st.composite
def offsets(draw: st.DrawFn) -> CommittedOffset:
    """An offset with at most one of what only some versions can carry."""
    kind = draw(st.sampled_from(["plain", "expires", "knows its topic"]))
    return CommittedOffset(
        offset=draw(INT64),
        leader_epoch=-1 if kind == "expires" else draw(INT32),
        metadata=draw(TEXT),
        commit_wall_ms=draw(INT64),
        expire_wall_ms=draw(st.integers(0, 2**63 - 1)) if kind == "expires" else -1,
        topic_id=(draw(st.binary(min_size=16, max_size=16)) if kind == "knows its topic" else None),
    )


def refuses_every_cut(data: bytes, read: object) -> None:
    assert callable(read)
    for length in range(len(data)):
        with pytest.raises(BadGroupRecord):
            read(data[:length])
    with pytest.raises(BadGroupRecord):
        read(data + b"\x00")


@given(offsets())
def test_offsets_are_read_back(committed: CommittedOffset) -> None:
    data = write_offset_value(committed)
    assert read_offset_value(data) == committed
    refuses_every_cut(data, read_offset_value)


@given(GROUPS)
def test_groups_are_read_back(group: GroupRecord) -> None:
    data = write_group_value(group)
    assert read_group_value(data) == group
    refuses_every_cut(data, read_group_value)


@given(TEXT, TEXT, INT32)
def test_keys_are_read_back(group_id: str, topic: str, partition: int) -> None:
    key = write_offset_key(group_id, topic, partition)
    assert read_key(key) == OffsetKey(group_id, topic, partition)
    refuses_every_cut(key, read_key)
    refuses_every_cut(write_group_key(group_id), read_key)


@given(st.integers(0, 5), st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(version: int, rest: bytes) -> None:
    data = version.to_bytes(2, "big") + rest
    for read in (read_key, read_offset_value, read_group_value):
        try:
            read(data)
        except BadGroupRecord:
            continue


@given(GROUPS, st.data())
def test_a_changed_byte_is_read_or_refused(group: GroupRecord, data: st.DataObject) -> None:
    value = bytearray(write_group_value(group))
    position = data.draw(st.integers(0, len(value) - 1))
    value[position] ^= data.draw(st.integers(1, 255))
    try:
        read_group_value(bytes(value))
    except BadGroupRecord:
        return


@given(st.binary(max_size=60))
def test_any_metadata_is_a_subscription_or_is_not(metadata: bytes) -> None:
    topics = read_subscribed_topics(metadata)
    assert topics is None or all(isinstance(topic, str) for topic in topics)


@given(st.text(max_size=30), st.integers(1, 200))
def test_every_group_has_a_partition(group_id: str, count: int) -> None:
    assert 0 <= coordinator_partition(group_id, count) < count
    assert -(2**31) <= java_string_hash(group_id) < 2**31
