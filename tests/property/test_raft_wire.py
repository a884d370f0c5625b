"""Raft messages as bytes: what is written is read back, and nothing else is read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.model.ids import GroupId, NodeId, Term
from kafkaesque.raft.configuration import (
    Configuration,
    PlacedConfiguration,
    read_configuration,
    write_configuration,
)
from kafkaesque.raft.entries import EntryKind, EntryMeta, TermStart
from kafkaesque.raft.errors import MalformedRaftMessage, RaftInvariantBroken
from kafkaesque.raft.messages import (
    AnyMessage,
    AppendRequest,
    AppendResponse,
    ConfirmRequest,
    ConfirmResponse,
    NotHere,
    Readmit,
    SnapshotRequest,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from kafkaesque.raft.wire import read_message, write_message

U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
NODE = U32.map(NodeId)
TERM = U64.map(Term)
HEAD = (U32.map(GroupId), NODE, NODE, TERM)


@st.composite
def configurations(draw: st.DrawFn) -> Configuration:
    nodes = draw(st.lists(NODE, min_size=1, max_size=9, unique=True))
    voters = draw(st.integers(1, len(nodes)))
    outgoing = draw(st.lists(st.sampled_from(nodes), max_size=5, unique=True))
    return Configuration(
        voters=tuple(nodes[:voters]),
        voters_outgoing=tuple(outgoing),
        learners=tuple(nodes[voters:]),
    )


@st.composite
def entries(draw: st.DrawFn) -> EntryMeta:
    first = draw(st.integers(1, 2**63))
    data = draw(st.binary(max_size=40))
    last = first + draw(st.integers(0, 2**20))
    kind = draw(st.sampled_from(list(EntryKind)))
    return EntryMeta(first, last, draw(TERM), kind, len(data), data)


MESSAGES: st.SearchStrategy[AnyMessage] = st.one_of(
    st.builds(VoteRequest, *HEAD, U64, TERM, st.booleans(), st.booleans()),
    st.builds(VoteResponse, *HEAD, st.booleans(), st.booleans()),
    st.builds(
        AppendRequest,
        *HEAD,
        U64,
        TERM,
        U64,
        st.lists(st.builds(TermStart, TERM, U64), max_size=4).map(tuple),
        st.lists(entries(), max_size=4).map(tuple),
    ),
    st.builds(AppendResponse, *HEAD, st.booleans(), U64, U64, U64, U64, U64, TERM, U64),
    st.builds(
        SnapshotRequest,
        *HEAD,
        U64,
        TERM,
        st.builds(PlacedConfiguration, U64, configurations()),
        st.binary(max_size=40),
    ),
    st.builds(TimeoutNow, *HEAD),
    st.builds(NotHere, *HEAD),
    st.builds(Readmit, *HEAD, U64, U64),
    st.builds(ConfirmRequest, *HEAD, U64),
    st.builds(ConfirmResponse, *HEAD, U64),
)


def joined(message: AnyMessage) -> bytes:
    return b"".join(write_message(message))  # type: ignore[arg-type]


@given(MESSAGES)
def test_what_is_written_is_read_back(message: AnyMessage) -> None:
    assert read_message(joined(message)) == message


@given(MESSAGES, st.data())
def test_a_message_cut_anywhere_is_refused(message: AnyMessage, data: st.DataObject) -> None:
    whole = joined(message)
    end = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(MalformedRaftMessage):
        read_message(whole[:end])


@given(MESSAGES, st.binary(min_size=1, max_size=9))
def test_bytes_after_a_message_are_refused(message: AnyMessage, more: bytes) -> None:
    with pytest.raises(MalformedRaftMessage):
        read_message(joined(message) + more)


@given(MESSAGES, st.data())
def test_a_changed_byte_gives_a_message_or_the_one_error(
    message: AnyMessage, data: st.DataObject
) -> None:
    whole = bytearray(joined(message))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] = data.draw(st.integers(0, 255))
    try:
        read = read_message(whole)
    except MalformedRaftMessage:
        return
    assert joined(read) == whole


@given(st.binary(max_size=200))
def test_any_bytes_give_a_message_or_the_one_error(noise: bytes) -> None:
    try:
        read = read_message(noise)
    except MalformedRaftMessage:
        return
    assert joined(read) == noise


@given(configurations())
def test_a_configuration_is_read_back(configuration: Configuration) -> None:
    assert read_configuration(write_configuration(configuration)) == configuration


@given(st.binary(max_size=60))
def test_any_bytes_give_a_configuration_or_the_one_error(noise: bytes) -> None:
    try:
        read = read_configuration(noise)
    except MalformedRaftMessage:
        return
    assert write_configuration(read) == noise


def test_payloads_are_neither_copied_when_written_nor_when_read() -> None:
    data = bytearray(b"payload")
    head = (GroupId(1), NodeId(1), NodeId(2), Term(1))
    entry = EntryMeta(1, 1, Term(1), EntryKind.DATA, 7, data)
    buffers = write_message(AppendRequest(*head, 0, Term(0), 0, (), (entry,)))
    assert any(buffer is data for buffer in buffers)
    received = bytearray(b"".join(buffers))  # type: ignore[arg-type]
    message = read_message(received)
    assert isinstance(message, AppendRequest)
    received[received.index(b"payload")] = ord("P")
    assert message.entries[0].data == b"Payload"


def test_an_entry_that_is_not_as_long_as_it_says_is_not_written() -> None:
    head = (GroupId(1), NodeId(1), NodeId(2), Term(1))
    entry = EntryMeta(1, 1, Term(1), EntryKind.DATA, 8, b"payload")
    with pytest.raises(RaftInvariantBroken):
        write_message(AppendRequest(*head, 0, Term(0), 0, (), (entry,)))


def test_a_number_that_does_not_fit_is_not_written() -> None:
    with pytest.raises(RaftInvariantBroken):
        write_message(TimeoutNow(GroupId(2**32), NodeId(1), NodeId(2), Term(1)))
