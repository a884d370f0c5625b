"""The bytes of a group's messages.

A message is a fixed head (type, group, sender, receiver, term), then the fields of its type, then,
for an append, its term starts and its entries: each an entry head and its payload. All numbers are
big-endian and unsigned. Payloads are neither copied when written nor when read. The length of the
whole is the frame's business.
"""

import struct
from collections.abc import Callable

from kafkaesque.env.disk import Buffer
from kafkaesque.model.ids import GroupId, NodeId, Term
from kafkaesque.raft.configuration import (
    PlacedConfiguration,
    read_configuration,
    write_configuration,
)
from kafkaesque.raft.entries import EntryKind, EntryMeta, Payload, TermStart
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

_HEAD = struct.Struct(">BIIIQ")
_VOTE_REQUEST = struct.Struct(">QQB")
_VOTE_RESPONSE = struct.Struct(">B")
#: The counts of term starts and of entries have two bytes: there are never more than 65,535.
_APPEND_REQUEST = struct.Struct(">QQQQHH")
_TERM_START = struct.Struct(">QQ")
_ENTRY = struct.Struct(">QQQBI")
_APPEND_RESPONSE = struct.Struct(">BQQQQQQ")
_AMNESIA = struct.Struct(">Q")
_SNAPSHOT_REQUEST = struct.Struct(">QQQHQ")
_READMIT = struct.Struct(">QQ")
_ROUND = struct.Struct(">Q")

_FLAG_PRE = 1
_FLAG_TRANSFER = 2
_FLAG_GRANTED = 2
_FLAG_REJECTED = 1
_FLAG_AMNESIAC = 2

_TYPE_VOTE_REQUEST = 1
_TYPE_VOTE_RESPONSE = 2
_TYPE_APPEND_REQUEST = 3
_TYPE_APPEND_RESPONSE = 4
_TYPE_SNAPSHOT_REQUEST = 5
_TYPE_TIMEOUT_NOW = 6
_TYPE_NOT_HERE = 7
_TYPE_READMIT = 8
_TYPE_CONFIRM_REQUEST = 9
_TYPE_CONFIRM_RESPONSE = 10

_Head = tuple[GroupId, NodeId, NodeId, Term]


def write_message(message: AnyMessage) -> list[Payload]:
    """Return the message as buffers to be sent one after the other; payloads are not copied.

    Raises:
        RaftInvariantBroken: a number does not fit, or an entry is not as long as it says.
    """
    try:
        return _write(message)
    except struct.error as error:
        raise RaftInvariantBroken(f"a message that cannot be written: {message}") from error


def _write(message: AnyMessage) -> list[Payload]:
    match message:
        case AppendRequest():
            return _write_append_request(message)
        case AppendResponse():
            return _write_append_response(message)
        case VoteRequest():
            flags = message.pre * _FLAG_PRE | message.is_transfer * _FLAG_TRANSFER
            fields = _VOTE_REQUEST.pack(message.last_index, message.last_term, flags)
            return [_head(_TYPE_VOTE_REQUEST, message) + fields]
        case VoteResponse():
            flags = message.pre * _FLAG_PRE | message.granted * _FLAG_GRANTED
            return [_head(_TYPE_VOTE_RESPONSE, message) + _VOTE_RESPONSE.pack(flags)]
        case SnapshotRequest():
            placed = message.configuration
            configuration = write_configuration(placed.configuration)
            fields = _SNAPSHOT_REQUEST.pack(
                message.last_index,
                message.last_term,
                placed.index,
                len(configuration),
                len(message.data),
            )
            head = _head(_TYPE_SNAPSHOT_REQUEST, message)
            return [head + fields + configuration, message.data]
        case TimeoutNow():
            return [_head(_TYPE_TIMEOUT_NOW, message)]
        case NotHere():
            return [_head(_TYPE_NOT_HERE, message)]
        case Readmit():
            fields = _READMIT.pack(message.amnesia, message.index)
            return [_head(_TYPE_READMIT, message) + fields]
        case ConfirmRequest():
            return [_head(_TYPE_CONFIRM_REQUEST, message) + _ROUND.pack(message.round)]
        case ConfirmResponse():
            return [_head(_TYPE_CONFIRM_RESPONSE, message) + _ROUND.pack(message.round)]


def _head(kind: int, message: AnyMessage) -> bytes:
    return _HEAD.pack(kind, message.group, message.sender, message.to, message.term)


def _write_append_response(message: AppendResponse) -> list[Payload]:
    amnesia = message.amnesia
    fields = _APPEND_RESPONSE.pack(
        message.rejected * _FLAG_REJECTED | (_FLAG_AMNESIAC if amnesia else 0),
        message.prev_index,
        message.matched_index,
        message.synced_index,
        message.commit_index,
        message.hint_index,
        message.hint_term,
    )
    if amnesia:
        fields += _AMNESIA.pack(amnesia)
    return [_head(_TYPE_APPEND_RESPONSE, message) + fields]


def _write_append_request(message: AppendRequest) -> list[Payload]:
    starts, entries = message.term_starts, message.entries
    head = bytearray(_head(_TYPE_APPEND_REQUEST, message))
    head += _APPEND_REQUEST.pack(
        message.prev_index,
        message.prev_term,
        message.commit_index,
        message.everywhere_index,
        len(starts),
        len(entries),
    )
    for term, first_index in starts:
        head += _TERM_START.pack(term, first_index)
    buffers: list[Payload] = []
    for entry in entries:
        size_bytes = entry.size_bytes
        if len(entry.data) != size_bytes:
            raise RaftInvariantBroken(f"an entry of {size_bytes} bytes has {len(entry.data)}")
        head += _ENTRY.pack(entry.first_index, entry.last_index, entry.term, entry.kind, size_bytes)
        if size_bytes:
            buffers += (head, entry.data)
            head = bytearray()
    if head:
        buffers.append(head)
    return buffers


def read_message(buffer: Buffer) -> AnyMessage:
    """Return the message that these bytes are; payloads are views into them.

    Raises:
        MalformedRaftMessage: they are not exactly one message.
    """
    view = memoryview(buffer)
    if len(view) < _HEAD.size:
        raise MalformedRaftMessage(f"a message of {len(view)} bytes is too short")
    kind, group, sender, to, term = _HEAD.unpack_from(view)
    reader = _READERS.get(kind)
    if reader is None:
        raise MalformedRaftMessage(f"there is no message of type {kind}")
    head = (GroupId(group), NodeId(sender), NodeId(to), Term(term))
    try:
        message, end = reader(head, view, _HEAD.size)
    except struct.error as error:
        raise MalformedRaftMessage(f"a message of type {kind} is too short") from error
    if end != len(view):
        raise MalformedRaftMessage(f"{len(view) - end} bytes after a message of type {kind}")
    return message


def _read_vote_request(head: _Head, view: memoryview, at: int) -> tuple[AnyMessage, int]:
    last_index, last_term, flags = _VOTE_REQUEST.unpack_from(view, at)
    _check_flags(flags, _FLAG_PRE | _FLAG_TRANSFER)
    pre, is_transfer = bool(flags & _FLAG_PRE), bool(flags & _FLAG_TRANSFER)
    message = VoteRequest(*head, last_index, last_term, pre, is_transfer)
    return message, at + _VOTE_REQUEST.size


def _read_vote_response(head: _Head, view: memoryview, at: int) -> tuple[AnyMessage, int]:
    (flags,) = _VOTE_RESPONSE.unpack_from(view, at)
    _check_flags(flags, _FLAG_PRE | _FLAG_GRANTED)
    message = VoteResponse(*head, bool(flags & _FLAG_PRE), bool(flags & _FLAG_GRANTED))
    return message, at + _VOTE_RESPONSE.size


def _check_flags(flags: int, known: int) -> None:
    if flags & ~known:
        raise MalformedRaftMessage(f"unknown flags {flags:#x}")


def _read_append_request(head: _Head, view: memoryview, at: int) -> tuple[AnyMessage, int]:
    prev, prev_term, commit, everywhere, starts, count = _APPEND_REQUEST.unpack_from(view, at)
    at += _APPEND_REQUEST.size
    term_starts = []
    for _ in range(starts):
        term_starts.append(TermStart(*_TERM_START.unpack_from(view, at)))
        at += _TERM_START.size
    entries = []
    for _ in range(count):
        first_index, last_index, term, kind, size_bytes = _ENTRY.unpack_from(view, at)
        at += _ENTRY.size
        end = at + size_bytes
        if end > len(view):
            raise MalformedRaftMessage(f"an entry of {size_bytes} bytes is cut off")
        known = _KINDS.get(kind)
        if known is None or not 0 < first_index <= last_index:
            raise MalformedRaftMessage(f"an entry of kind {kind}, {first_index} to {last_index}")
        entries.append(EntryMeta(first_index, last_index, term, known, size_bytes, view[at:end]))
        at = end
    message = AppendRequest(
        *head, prev, prev_term, commit, tuple(term_starts), tuple(entries), everywhere
    )
    return message, at


def _read_append_response(head: _Head, view: memoryview, at: int) -> tuple[AnyMessage, int]:
    flags, *numbers = _APPEND_RESPONSE.unpack_from(view, at)
    _check_flags(flags, _FLAG_REJECTED | _FLAG_AMNESIAC)
    at += _APPEND_RESPONSE.size
    amnesia = 0
    if flags & _FLAG_AMNESIAC:
        (amnesia,) = _AMNESIA.unpack_from(view, at)
        at += _AMNESIA.size
        if not amnesia:
            raise MalformedRaftMessage("a loss without a number")
    prev, matched, synced, commit, hint_index, hint_term = numbers
    rejected = bool(flags & _FLAG_REJECTED)
    message = AppendResponse(
        *head, rejected, prev, matched, synced, commit, hint_index, Term(hint_term), amnesia
    )
    return message, at


def _read_snapshot_request(head: _Head, view: memoryview, at: int) -> tuple[AnyMessage, int]:
    last_index, last_term, index, configuration_bytes, data_bytes = _SNAPSHOT_REQUEST.unpack_from(
        view, at
    )
    at += _SNAPSHOT_REQUEST.size
    middle = at + configuration_bytes
    end = middle + data_bytes
    if end > len(view):
        raise MalformedRaftMessage(f"a snapshot of {data_bytes} bytes is cut off")
    placed = PlacedConfiguration(index, read_configuration(view[at:middle]))
    message = SnapshotRequest(*head, last_index, last_term, placed, view[middle:end])
    return message, end


def _read_timeout_now(head: _Head, view: memoryview, at: int) -> tuple[AnyMessage, int]:
    return TimeoutNow(*head), at


def _read_not_here(head: _Head, view: memoryview, at: int) -> tuple[AnyMessage, int]:
    return NotHere(*head), at


def _read_readmit(head: _Head, view: memoryview, at: int) -> tuple[AnyMessage, int]:
    amnesia, index = _READMIT.unpack_from(view, at)
    return Readmit(*head, amnesia, index), at + _READMIT.size


def _read_confirm_request(head: _Head, view: memoryview, at: int) -> tuple[AnyMessage, int]:
    return ConfirmRequest(*head, *_ROUND.unpack_from(view, at)), at + _ROUND.size


def _read_confirm_response(head: _Head, view: memoryview, at: int) -> tuple[AnyMessage, int]:
    return ConfirmResponse(*head, *_ROUND.unpack_from(view, at)), at + _ROUND.size


_KINDS = {int(kind): kind for kind in EntryKind}

_READERS: dict[int, Callable[[_Head, memoryview, int], tuple[AnyMessage, int]]] = {
    _TYPE_VOTE_REQUEST: _read_vote_request,
    _TYPE_VOTE_RESPONSE: _read_vote_response,
    _TYPE_APPEND_REQUEST: _read_append_request,
    _TYPE_APPEND_RESPONSE: _read_append_response,
    _TYPE_SNAPSHOT_REQUEST: _read_snapshot_request,
    _TYPE_TIMEOUT_NOW: _read_timeout_now,
    _TYPE_NOT_HERE: _read_not_here,
    _TYPE_READMIT: _read_readmit,
    _TYPE_CONFIRM_REQUEST: _read_confirm_request,
    _TYPE_CONFIRM_RESPONSE: _read_confirm_response,
}
