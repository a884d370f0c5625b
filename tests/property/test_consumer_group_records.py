"""Records of groups of the new kind: what is written is read back, and nothing else is believed."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.groups.consumer.records import (
    ConsumerGroupKey,
    GroupEpoch,
    KeyKind,
    read_consumer_key,
    read_current,
    read_expression,
    read_group_epoch,
    read_member,
    read_partitions,
    read_target_epoch,
    write_consumer_key,
    write_current,
    write_expression,
    write_group_epoch,
    write_member,
    write_partitions,
    write_target_epoch,
)
from kafkaesque.groups.consumer.states import (
    ClassicMember,
    CurrentAssignment,
    MemberMetadata,
    MemberState,
    ResolvedExpression,
)
from kafkaesque.groups.consumer.topics import TopicIdPartition
from kafkaesque.groups.errors import BadGroupRecord
from kafkaesque.groups.events import JoinProtocol
from kafkaesque.groups.records import read_key
from kafkaesque.model.ids import TopicId

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(max_size=12)
MAYBE_TEXT = st.none() | TEXT
TEXTS = st.lists(TEXT, max_size=4).map(tuple)
TOPIC_IDS = st.binary(min_size=16, max_size=16).map(TopicId)
PARTITIONS = st.frozensets(
    st.builds(TopicIdPartition, st.sampled_from([TopicId(b"a" * 16), TopicId(b"b" * 16)]), INT32)
    | st.builds(TopicIdPartition, TOPIC_IDS, INT32),
    max_size=6,
)
MEMBERS = st.builds(
    MemberMetadata,
    instance_id=MAYBE_TEXT,
    rack_id=MAYBE_TEXT,
    client_id=TEXT,
    client_host=TEXT,
    topic_names=TEXTS,
    topic_expression=MAYBE_TEXT,
    rebalance_timeout_ms=INT32,
    assignor=MAYBE_TEXT,
    classic=st.none()
    | st.builds(
        ClassicMember,
        session_timeout_ms=INT32,
        protocols=st.lists(st.builds(JoinProtocol, TEXT, st.binary(max_size=8)), max_size=2).map(
            tuple
        ),
    ),
)
CURRENTS = st.builds(
    CurrentAssignment,
    epoch=INT32,
    previous_epoch=INT32,
    state=st.sampled_from(MemberState),
    assigned=PARTITIONS,
    pending_revocation=PARTITIONS,
)
EXPRESSIONS = st.builds(ResolvedExpression, topic_names=TEXTS, version=INT64, wall_ms=INT64)
EPOCHS = st.builds(GroupEpoch, INT32, INT64)

Codec = tuple[Callable[[Any], bytes], Callable[[bytes], Any]]
#: Of each kind of value: how it is drawn, written and read.
VALUES: list[tuple[st.SearchStrategy[Any], Callable[[Any], bytes], Callable[[bytes], Any]]] = [
    (EPOCHS, write_group_epoch, read_group_epoch),
    (INT32, write_target_epoch, read_target_epoch),
    (MEMBERS, write_member, read_member),
    (PARTITIONS, write_partitions, read_partitions),
    (CURRENTS, write_current, read_current),
    (EXPRESSIONS, write_expression, read_expression),
]
KINDS = ["group", "target", "member", "member's target", "where a member is", "expression"]


@pytest.mark.parametrize(("drawn", "write", "read"), VALUES, ids=KINDS)
@given(data=st.data())
def test_values_are_read_back_and_no_part_of_one_is(
    drawn: Any, write: Any, read: Any, data: st.DataObject
) -> None:
    value = data.draw(drawn)
    written = write(value)
    assert read(written) == value
    for length in range(len(written)):
        with pytest.raises(BadGroupRecord):
            read(written[:length])
    with pytest.raises(BadGroupRecord):
        read(written + b"\x00")


@pytest.mark.parametrize(("drawn", "write", "read"), VALUES, ids=KINDS)
@given(data=st.data())
def test_a_changed_byte_is_read_or_refused(
    drawn: Any, write: Any, read: Any, data: st.DataObject
) -> None:
    written = bytearray(write(data.draw(drawn)))
    position = data.draw(st.integers(0, len(written) - 1))
    written[position] ^= data.draw(st.integers(1, 255))
    try:
        read(bytes(written))
    except BadGroupRecord:
        return


@given(st.integers(0, 17), st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(version: int, rest: bytes) -> None:
    data = version.to_bytes(2, "big") + rest
    for read in (read_consumer_key, *(read for _, _, read in VALUES)):
        try:
            read(data)
        except BadGroupRecord:
            continue


@given(TEXT, st.sampled_from(KeyKind), TEXT)
def test_keys_are_read_back(group_id: str, kind: KeyKind, name: str) -> None:
    is_named = kind not in (KeyKind.GROUP, KeyKind.TARGET, KeyKind.CLASSIC_GROUP)
    key = ConsumerGroupKey(kind, name if is_named else "")
    written = write_consumer_key(group_id, key)
    if kind is KeyKind.CLASSIC_GROUP:
        assert read_consumer_key(written) is None
        assert read_key(written) == (group_id,)
        return
    assert read_key(written) is None, "to the classic groups it is another kind's"
    assert read_consumer_key(written) == (group_id, key)
    for length in range(2, len(written)):
        with pytest.raises(BadGroupRecord):
            read_consumer_key(written[:length])


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (write_consumer_key("g", ConsumerGroupKey(KeyKind.GROUP)), "0003000167"),
        (write_consumer_key("g", ConsumerGroupKey(KeyKind.MEMBER, "m")), "000500016700016d"),
        (write_consumer_key("g", ConsumerGroupKey(KeyKind.TARGET)), "0006000167"),
        (write_consumer_key("g", ConsumerGroupKey(KeyKind.TARGET_MEMBER, "m")), "000700016700016d"),
        (write_consumer_key("g", ConsumerGroupKey(KeyKind.CURRENT, "m")), "000800016700016d"),
        (write_consumer_key("g", ConsumerGroupKey(KeyKind.EXPRESSION, "a")), "0010000167000161"),
        (write_group_epoch(GroupEpoch(5)), "00000000000500"),
        (write_group_epoch(GroupEpoch(5, 1)), "0000000000050100080000000000000001"),
        (write_target_epoch(5), "00000000000500"),
        (
            write_member(MemberMetadata(client_id="c", topic_names=("t",), assignor="x")),
            "0000000002630102027400ffffffff027800",
        ),
        (
            write_partitions(frozenset({TopicIdPartition(TopicId(b"t" * 16), 1)})),
            "000002" + "74" * 16 + "02000000010000",
        ),
        (
            write_current(CurrentAssignment(epoch=3, previous_epoch=2)),
            "0000000000030000000200010100",
        ),
        (
            write_expression(ResolvedExpression(topic_names=("t",), version=1, wall_ms=2)),
            "00000202740000000000000001000000000000000200",
        ),
    ],
    ids=range(13),
)
def test_records_have_kafkas_form(written: bytes, expected: str) -> None:
    assert written.hex() == expected


def test_partitions_of_topics_as_kafka_stored_them_before_4_1_are_passed_over() -> None:
    assert read_consumer_key(bytes.fromhex("0004000167")) is None
    assert read_key(bytes.fromhex("0004000167")) is None


def test_a_member_that_speaks_the_classic_protocol_says_so_in_a_tagged_field() -> None:
    classic = ClassicMember(session_timeout_ms=6000, protocols=(JoinProtocol("r", b"m"),))
    member = bytearray(write_member(MemberMetadata()))
    # It is there, a session timeout, one protocol of a name and metadata, no tags in either.
    member[-1:] = bytes.fromhex("01000c0100001770020272026d0000")
    assert bytes(member) == write_member(MemberMetadata(classic=classic))
    nothing = bytearray(write_member(MemberMetadata()))
    nothing[-1:] = bytes.fromhex("010001ff")
    assert read_member(bytes(nothing)) == MemberMetadata()
