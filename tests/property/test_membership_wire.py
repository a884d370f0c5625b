"""Members' packets and frames as bytes: what is written is read back, and nothing else is read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.env.network import Address
from kafkaesque.membership import messages
from kafkaesque.membership.entries import (
    INCARNATION_MAX,
    NODE_MAX,
    Accusation,
    Entry,
    Fact,
    Member,
    MemberState,
)
from kafkaesque.membership.errors import FrameRefused, MalformedPacket
from kafkaesque.membership.seal import Keyring
from kafkaesque.membership.wire import (
    digest_bytes,
    key_bytes,
    read_packet,
    write_digest,
    write_entry,
    write_key,
    write_message,
    write_packet,
)
from kafkaesque.model.ids import NodeId

U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
NODES = st.integers(0, NODE_MAX).map(NodeId)
HOSTS = st.from_regex(r"[a-z0-9.:\-é]{1,60}", fullmatch=True)
ADDRESSES = st.builds(Address, HOSTS, st.integers(1, 65_535))
NAMES = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=48)
KEYS = st.tuples(NODES, st.one_of(st.just(""), NAMES))
MODES = st.sampled_from(messages.SyncMode)


@st.composite
def members(draw: st.DrawFn) -> Member:
    life = draw(st.integers(1, INCARNATION_MAX))
    incarnation = draw(st.integers(life, INCARNATION_MAX))
    state = draw(st.sampled_from(MemberState))
    accusers: tuple[Accusation, ...] = ()
    if state is MemberState.SUSPECT:
        nodes = draw(st.lists(NODES, min_size=1, max_size=4, unique=True))
        accusers = tuple(Accusation(node, draw(st.booleans())) for node in sorted(nodes))
    age_s = draw(U32) if state >= MemberState.DEAD else 0
    return Member(draw(NODES), draw(ADDRESSES), life, incarnation, state, accusers, age_s)


@st.composite
def facts(draw: st.DrawFn) -> Fact:
    value = draw(
        st.one_of(
            st.none(),
            st.integers(-(2**63), 2**63 - 1),
            st.floats(allow_nan=False, allow_infinity=False),
            st.text(max_size=60),
            st.binary(max_size=255),
        )
    )
    return Fact(draw(NODES), draw(NAMES), draw(U64), value, draw(U32) if value is None else 0)


ENTRIES: st.SearchStrategy[Entry] = st.one_of(members(), facts())
MESSAGES: st.SearchStrategy[messages.Message] = st.one_of(
    st.builds(messages.Ping, U64),
    st.builds(messages.Ack, U64),
    st.builds(messages.ProbeRequest, U64, NODES, ADDRESSES),
    st.builds(messages.ProbeResult, U64, st.sampled_from(messages.Outcome)),
    st.builds(messages.Gossip, U64, st.booleans()),
    st.builds(messages.GossipAnswer, U64, st.integers(0, 2**256 - 1)),
    st.builds(messages.Join),
    st.builds(messages.Welcome),
    st.builds(messages.Sync, MODES, U64),
    st.builds(
        messages.SyncBuckets,
        MODES,
        st.binary(min_size=messages.BUCKETS, max_size=messages.BUCKETS).map(tuple),
    ),
    st.builds(
        messages.SyncDigest,
        MODES,
        st.sets(st.integers(0, messages.BUCKETS - 1), max_size=9).map(
            lambda each: tuple(sorted(each))
        ),
        st.lists(st.builds(messages.Digest, KEYS, U64), max_size=5),
    ),
    st.builds(messages.SyncWant, st.lists(KEYS, max_size=5)),
    st.builds(messages.SyncDelta),
    st.builds(messages.Outdated, st.integers(1, INCARNATION_MAX)),
)
PACKETS = st.builds(messages.Packet, MESSAGES, st.lists(ENTRIES, max_size=4))


def written(packet: messages.Packet) -> bytes:
    return write_packet(write_message(packet.message), [write_entry(e) for e in packet.entries])


@given(PACKETS)
def test_what_is_written_is_read_back(packet: messages.Packet) -> None:
    assert read_packet(written(packet)) == packet


@given(PACKETS, st.data())
def test_a_packet_cut_anywhere_is_refused(packet: messages.Packet, data: st.DataObject) -> None:
    whole = written(packet)
    end = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(MalformedPacket):
        read_packet(whole[:end])


@given(PACKETS, st.binary(min_size=1, max_size=9))
def test_bytes_after_a_packet_are_refused(packet: messages.Packet, more: bytes) -> None:
    with pytest.raises(MalformedPacket):
        read_packet(written(packet) + more)


@given(PACKETS, st.data())
def test_a_changed_byte_gives_a_packet_or_the_one_error(
    packet: messages.Packet, data: st.DataObject
) -> None:
    whole = bytearray(written(packet))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] = data.draw(st.integers(0, 255))
    try:
        read = read_packet(whole)
    except MalformedPacket:
        return
    assert written(read) == whole


@given(st.binary(max_size=200))
def test_any_bytes_give_a_packet_or_the_one_error(noise: bytes) -> None:
    try:
        read = read_packet(noise)
    except MalformedPacket:
        return
    assert written(read) == noise


@given(KEYS, U64)
def test_keys_and_digests_are_as_long_as_is_said(key: tuple[NodeId, str], version: int) -> None:
    assert key_bytes(key) == len(write_key(key))
    assert digest_bytes(messages.Digest(key, version)) == len(
        write_digest(messages.Digest(key, version))
    )


KEYRING = Keyring("a cluster", [b"0123456789abcdef"])


@given(NODES, NODES, st.integers(1, INCARNATION_MAX), U64, st.binary(max_size=60), st.data())
def test_a_frame_is_opened_as_it_was_sealed_and_not_when_a_bit_has_changed(
    sender: NodeId, receiver: NodeId, life: int, number: int, packet: bytes, data: st.DataObject
) -> None:
    frame = KEYRING.seal(sender, receiver, life, number, packet)
    assert KEYRING.open(frame) == (sender, receiver, life, number, packet)
    hurt = bytearray(frame)
    hurt[data.draw(st.integers(0, len(frame) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(FrameRefused):
        KEYRING.open(bytes(hurt))


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_as_a_frame(noise: bytes) -> None:
    with pytest.raises(FrameRefused):
        KEYRING.open(noise)
