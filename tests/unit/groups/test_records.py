"""The offsets topic's records, against the bytes that Apache Kafka 4.3.1 writes for the same."""

import pytest

from kafkaesque.groups.errors import BadGroupRecord
from kafkaesque.groups.records import (
    GroupKey,
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
from kafkaesque.model.errors import InvariantBroken

UUID = bytes(range(0x10, 0x20))

OFFSET_KEY = "0001 0002 6777 0003 746f70 00000007"
GROUP_KEY = "0002 0002 6777"
OFFSET = "0000000000000105"
EPOCH = "00000009"
META = "0002 6d64"
COMMIT_MS = "000001234567890a"
EXPIRE_MS = "0000012345678911"

MEMBER = MemberRecord(
    member_id="m1",
    instance_id="i1",
    client_id="c",
    client_host="/h",
    rebalance_timeout_ms=60_000,
    session_timeout_ms=10_000,
    subscription=b"\x01\x02",
    assignment=b"\x03",
)
GROUP = GroupRecord(
    protocol_type="consumer",
    generation=5,
    protocol_name="range",
    leader_id="m1",
    state_since_wall_ms=0x01234567890A,
    members=(MEMBER,),
)
HEAD = "0008 636f6e73756d6572 00000005 0005 72616e6765 0002 6d31"


def raw(text: str) -> bytes:
    return bytes.fromhex(text)


def test_keys() -> None:
    assert write_offset_key("gw", "top", 7) == raw(OFFSET_KEY)
    assert write_group_key("gw") == raw(GROUP_KEY)
    assert read_key(raw(OFFSET_KEY)) == OffsetKey("gw", "top", 7)
    assert read_key(raw(OFFSET_KEY.replace("0001", "0000", 1))) == OffsetKey("gw", "top", 7)
    assert read_key(raw(GROUP_KEY)) == GroupKey("gw")


def test_keys_of_other_kinds_of_groups_are_passed_over() -> None:
    for version in range(3, 20):
        assert read_key(version.to_bytes(2, "big") + b"whatever") is None


@pytest.mark.parametrize(
    ("text", "leader_epoch", "expire_wall_ms", "topic_id"),
    [
        (f"0000 {OFFSET} {META} {COMMIT_MS}", -1, -1, None),
        (f"0001 {OFFSET} {META} {COMMIT_MS} {EXPIRE_MS}", -1, 0x012345678911, None),
        (f"0002 {OFFSET} {META} {COMMIT_MS}", -1, -1, None),
        (f"0003 {OFFSET} {EPOCH} {META} {COMMIT_MS}", 9, -1, None),
        (f"0004 {OFFSET} {EPOCH} 03 6d64 {COMMIT_MS} 00", 9, -1, None),
        (f"0004 {OFFSET} {EPOCH} 03 6d64 {COMMIT_MS} 01 00 10 {UUID.hex()}", 9, -1, UUID),
        (f"0004 {OFFSET} {EPOCH} 03 6d64 {COMMIT_MS} 01 05 02 ffff", 9, -1, None),
    ],
    ids=["v0", "v1", "v2", "v3", "v4", "v4-topic-id", "v4-unknown-tag"],
)
def test_offsets_of_every_version(
    text: str, leader_epoch: int, expire_wall_ms: int, topic_id: bytes | None
) -> None:
    expected = CommittedOffset(
        offset=0x105,
        leader_epoch=leader_epoch,
        metadata="md",
        commit_wall_ms=0x01234567890A,
        expire_wall_ms=expire_wall_ms,
        topic_id=topic_id,
    )
    assert read_offset_value(raw(text)) == expected
    if text[:4] == "0001" or (text[:4] == "0003" or topic_id is not None):
        assert write_offset_value(expected) == raw(text)


def test_an_offset_that_was_committed_by_name_says_so() -> None:
    text = f"0004 {OFFSET} {EPOCH} 03 6d64 {COMMIT_MS} 02 00 10 {UUID.hex()} 904e 00"
    committed = read_offset_value(raw(text))
    assert (committed.topic_id, committed.is_by_name) == (UUID, True)
    assert write_offset_value(committed) == raw(text)


@pytest.mark.parametrize(
    ("text", "since_ms", "instance_id", "rebalance_ms"),
    [
        (
            f"0000 {HEAD} 00000001 0002 6d31 0001 63 0002 2f68 00002710 00000002 0102 00000001 03",
            -1,
            None,
            10_000,
        ),
        (
            f"0001 {HEAD} 00000001 0002 6d31 0001 63 0002 2f68"
            " 0000ea60 00002710 00000002 0102 00000001 03",
            -1,
            None,
            60_000,
        ),
        (
            f"0002 {HEAD} {COMMIT_MS} 00000001 0002 6d31 0001 63 0002 2f68"
            " 0000ea60 00002710 00000002 0102 00000001 03",
            0x01234567890A,
            None,
            60_000,
        ),
        (
            f"0003 {HEAD} {COMMIT_MS} 00000001 0002 6d31 0002 6931 0001 63 0002 2f68"
            " 0000ea60 00002710 00000002 0102 00000001 03",
            0x01234567890A,
            "i1",
            60_000,
        ),
        (
            "0004 09 636f6e73756d6572 00000005 06 72616e6765 03 6d31"
            f" {COMMIT_MS} 02 03 6d31 03 6931 02 63 03 2f68"
            " 0000ea60 00002710 03 0102 02 03 00 00",
            0x01234567890A,
            "i1",
            60_000,
        ),
    ],
    ids=["v0", "v1", "v2", "v3", "v4"],
)
def test_groups_of_every_version(
    text: str, since_ms: int, instance_id: str | None, rebalance_ms: int
) -> None:
    group = read_group_value(raw(text))
    assert group.state_since_wall_ms == since_ms
    (member,) = group.members
    assert (member.instance_id, member.rebalance_timeout_ms) == (instance_id, rebalance_ms)
    assert (group.protocol_type, group.generation) == ("consumer", 5)
    assert (group.protocol_name, group.leader_id) == ("range", "m1")
    assert (member.member_id, member.client_id, member.client_host) == ("m1", "c", "/h")
    assert (member.session_timeout_ms, member.subscription, member.assignment) == (
        10_000,
        b"\x01\x02",
        b"\x03",
    )
    if text[:4] == "0003":
        assert group == GROUP
        assert write_group_value(group) == raw(text)


def test_an_empty_group_has_neither_protocol_nor_leader() -> None:
    empty = GroupRecord(
        protocol_type="consumer",
        generation=6,
        protocol_name=None,
        leader_id=None,
        state_since_wall_ms=-1,
    )
    text = "0003 0008 636f6e73756d6572 00000006 ffff ffff ffffffffffffffff 00000000"
    assert write_group_value(empty) == raw(text)
    assert read_group_value(raw(text)) == empty


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        "ffff",
        "0005",
        f"0003 {OFFSET} {EPOCH} ffff {COMMIT_MS}",
        f"0003 {OFFSET} {EPOCH} fffe {COMMIT_MS}",
        f"0003 {OFFSET} {EPOCH} 7fff {COMMIT_MS}",
        f"0003 {OFFSET} {EPOCH} 0001 ff {COMMIT_MS}",
        f"0003 {OFFSET} {EPOCH} {META} {COMMIT_MS} 00",
        f"0004 {OFFSET} {EPOCH} 00 {COMMIT_MS} 00",
        f"0004 {OFFSET} {EPOCH} ffffffff0f {COMMIT_MS} 00",
        f"0004 {OFFSET} {EPOCH} ffffffffff {COMMIT_MS} 00",
        f"0004 {OFFSET} {EPOCH} ffffffff7f {COMMIT_MS} 00",
        f"0004 {OFFSET} {EPOCH} 03 6d64 {COMMIT_MS} 01 00 0f {UUID[1:].hex()}",
        f"0004 {OFFSET} {EPOCH} 03 6d64 {COMMIT_MS} 02 01 00 01 00",
        f"0004 {OFFSET} {EPOCH} 03 6d64 {COMMIT_MS} ffffffff0f",
    ],
    ids=range(16),
)
def test_bad_offsets_are_refused(text: str) -> None:
    with pytest.raises(BadGroupRecord):
        read_offset_value(raw(text))


@pytest.mark.parametrize(
    "text",
    [
        f"0003 {HEAD} {COMMIT_MS} ffffffff",
        f"0003 {HEAD} {COMMIT_MS} 7fffffff",
        f"0003 {HEAD} {COMMIT_MS} 00000001",
        f"0004 01 00000005 00 00 {COMMIT_MS} 00 00",
        f"0003 {HEAD} {COMMIT_MS} 00000001 0002 6d31 ffff 0001 63 0002 2f68"
        " 0000ea60 00002710 ffffffff 00000001 03",
    ],
    ids=range(5),
)
def test_bad_groups_are_refused(text: str) -> None:
    with pytest.raises(BadGroupRecord):
        read_group_value(raw(text))


def test_what_cannot_be_written_is_our_own_mistake() -> None:
    with pytest.raises(InvariantBroken):
        write_group_key("x" * 32_768)
    assert read_key(write_group_key("x" * 32_767)) == GroupKey("x" * 32_767)
    with pytest.raises(InvariantBroken):
        write_offset_value(CommittedOffset(offset=1, topic_id=b"short"))
