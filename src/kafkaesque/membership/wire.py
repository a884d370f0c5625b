"""The bytes of a packet.

A packet is the type of its message, the message's fields, the number of entries, and the entries.
All numbers are big-endian; there is exactly one way to write a packet.
"""

import math
import struct
from collections.abc import Sequence
from enum import IntEnum

from kafkaesque.env.disk import Buffer
from kafkaesque.env.network import Address
from kafkaesque.membership.entries import (
    ACCUSERS_MAX,
    HOST_BYTES_MAX,
    INCARNATION_MAX,
    NAME_BYTES_MAX,
    NODE_MAX,
    VALUE_BYTES_MAX,
    Accusation,
    Entry,
    Fact,
    Key,
    Member,
    MemberState,
    Value,
)
from kafkaesque.membership.errors import MalformedPacket, MembershipInvariantBroken
from kafkaesque.membership.messages import (
    BUCKETS,
    Ack,
    Digest,
    Gossip,
    GossipAnswer,
    Join,
    Message,
    Outcome,
    Outdated,
    Packet,
    Ping,
    ProbeRequest,
    ProbeResult,
    Sync,
    SyncBuckets,
    SyncDelta,
    SyncDigest,
    SyncMode,
    SyncWant,
    Welcome,
)
from kafkaesque.model.ids import NodeId

#: Entries of one packet; their number is one byte.
ENTRIES_MAX = 255
#: Bytes of a packet without fields and without entries.
PACKET_BYTES_MIN = 2
#: What `SyncBuckets` takes, the longest message of a fixed length, without entries.
BUCKETS_BYTES = PACKET_BYTES_MIN + 1 + 4 * BUCKETS
#: What `SyncDigest` takes before its digests, and `SyncWant` before its keys.
DIGEST_HEAD_BYTES = PACKET_BYTES_MIN + 1 + BUCKETS // 8 + 2
WANT_HEAD_BYTES = PACKET_BYTES_MIN + 2

_MEMBER = struct.Struct(">BIQQHB")
_ACCUSER = struct.Struct(">IB")
_FACT = struct.Struct(">BIQB")
_AGE = struct.Struct(">I")
_U8 = struct.Struct(">B")
_U16 = struct.Struct(">H")
_U64 = struct.Struct(">Q")
_INT = struct.Struct(">q")
_FLOAT = struct.Struct(">d")
_PROBE = struct.Struct(">QIHB")
_SEQUENCE_FLAG = struct.Struct(">QB")
_ANSWER = struct.Struct(">Q32s")
_SYNC = struct.Struct(">BQ")
_CHECKSUMS = struct.Struct(f">B{BUCKETS}I")
_DIGEST_HEAD = struct.Struct(f">B{BUCKETS // 8}sH")
_KEY = struct.Struct(">IB")
_DIGEST = struct.Struct(">QIB")

_FACT_NONE, _FACT_INT, _FACT_FLOAT, _FACT_TEXT, _FACT_BYTES = range(16, 21)


class _Kind(IntEnum):
    PING = 1
    ACK = 2
    PROBE_REQUEST = 3
    PROBE_RESULT = 4
    GOSSIP = 5
    GOSSIP_ANSWER = 6
    JOIN = 7
    WELCOME = 8
    SYNC = 9
    SYNC_BUCKETS = 10
    SYNC_DIGEST = 11
    SYNC_WANT = 12
    SYNC_DELTA = 13
    OUTDATED = 14


_KINDS = [bytes([kind]) for kind in range(_Kind.OUTDATED + 1)]


# -- writing


def write_packet(head: bytes, entries: Sequence[bytes] = ()) -> bytes:
    """Return a packet of a message and entries, as `write_message` and `write_entry` made them."""
    if len(entries) > ENTRIES_MAX:
        raise MembershipInvariantBroken(f"{len(entries)} entries in one packet")
    return b"".join((head, _U8.pack(len(entries)), *entries))


def write_message(message: Message) -> bytes:
    """Return a message.

    Raises:
        MembershipInvariantBroken: something does not fit.
    """
    try:
        return _write_message(message)
    except (struct.error, OverflowError, ValueError) as error:
        raise MembershipInvariantBroken(f"a message that cannot be written: {message}") from error


def _write_message(message: Message) -> bytes:
    match message:
        case Ping(sequence):
            return _KINDS[_Kind.PING] + _U64.pack(sequence)
        case Ack(sequence):
            return _KINDS[_Kind.ACK] + _U64.pack(sequence)
        case ProbeRequest(sequence, node, (host, port)):
            name = host.encode()
            return _KINDS[_Kind.PROBE_REQUEST] + _PROBE.pack(sequence, node, port, len(name)) + name
        case ProbeResult(sequence, outcome):
            return _KINDS[_Kind.PROBE_RESULT] + _SEQUENCE_FLAG.pack(sequence, outcome)
        case Gossip(sequence, wants_answer):
            return _KINDS[_Kind.GOSSIP] + _SEQUENCE_FLAG.pack(sequence, wants_answer)
        case GossipAnswer(sequence, known):
            return _KINDS[_Kind.GOSSIP_ANSWER] + _ANSWER.pack(sequence, known.to_bytes(32, "big"))
        case Join():
            return _KINDS[_Kind.JOIN]
        case Welcome():
            return _KINDS[_Kind.WELCOME]
        case _:
            return _write_sync(message)


def _write_sync(message: Message) -> bytes:
    match message:
        case Sync(mode, root):
            return _KINDS[_Kind.SYNC] + _SYNC.pack(mode, root)
        case SyncBuckets(mode, checksums):
            return _KINDS[_Kind.SYNC_BUCKETS] + _CHECKSUMS.pack(mode, *checksums)
        case SyncDigest(mode, buckets, digests):
            bits = sum(1 << bucket for bucket in buckets).to_bytes(BUCKETS // 8, "big")
            written = [write_digest(digest) for digest in digests]
            return _KINDS[_Kind.SYNC_DIGEST] + b"".join(
                (_DIGEST_HEAD.pack(mode, bits, len(written)), *written)
            )
        case SyncWant(keys):
            return _KINDS[_Kind.SYNC_WANT] + b"".join((_U16.pack(len(keys)), *map(write_key, keys)))
        case SyncDelta():
            return _KINDS[_Kind.SYNC_DELTA]
        case Outdated(life):
            return _KINDS[_Kind.OUTDATED] + _U64.pack(life)
    raise MembershipInvariantBroken(f"no message: {message}")


def write_key(key: Key) -> bytes:
    """Return an entry's key."""
    node, name = key
    raw = name.encode("ascii")
    return _KEY.pack(node, len(raw)) + raw


def write_digest(digest: Digest) -> bytes:
    """Return an entry's key and version."""
    (node, name), version = digest
    raw = name.encode("ascii")
    return _DIGEST.pack(version, node, len(raw)) + raw


def key_bytes(key: Key) -> int:
    """Return how long an entry's key is when it is written."""
    return _KEY.size + len(key[1])


def digest_bytes(digest: Digest) -> int:
    """Return how long an entry's key and version are when they are written."""
    return _DIGEST.size + len(digest.key[1])


def write_entry(entry: Entry) -> bytes:
    """Return an entry.

    Raises:
        MembershipInvariantBroken: something does not fit.
    """
    try:
        return _write_member(entry) if isinstance(entry, Member) else _write_fact(entry)
    except (struct.error, ValueError) as error:
        raise MembershipInvariantBroken(f"an entry that cannot be written: {entry}") from error


def _write_member(member: Member) -> bytes:
    host = member.address.host.encode()
    head = _MEMBER.pack(
        member.state,
        member.node,
        member.life,
        member.incarnation,
        member.address.port,
        len(host),
    )
    if member.state is MemberState.ALIVE:
        return head + host
    if member.state is MemberState.SUSPECT:
        accusers = [_ACCUSER.pack(node, refused) for node, refused in member.accusers]
        return b"".join((head, host, _U8.pack(len(accusers)), *accusers))
    return head + host + _AGE.pack(member.age_s)


def _write_fact(fact: Fact) -> bytes:
    kind, tail = _write_value(fact)
    name = fact.name.encode("ascii")
    return _FACT.pack(kind, fact.node, fact.version, len(name)) + name + tail


def _write_value(fact: Fact) -> tuple[int, bytes]:
    match fact.value:
        case None:
            return _FACT_NONE, _AGE.pack(fact.age_s)
        case int(number):
            return _FACT_INT, _INT.pack(number)
        case float(number):
            return _FACT_FLOAT, _FLOAT.pack(number)
        case str(text):
            raw = text.encode()
            return _FACT_TEXT, _U8.pack(len(raw)) + raw
        case bytes(raw):
            return _FACT_BYTES, _U8.pack(len(raw)) + raw


def value_problem(value: Value) -> str | None:
    """Return what is wrong with a fact's value, or None."""
    match value:
        case bool():
            return "a bool: say 0 or 1"
        case int(number) if not -(2**63) <= number < 2**63:
            return "an integer of more than 64 bits"
        case float(number) if not math.isfinite(number):
            return f"the number {number}"
        case str(text) if len(text.encode(errors="replace")) > VALUE_BYTES_MAX:
            return f"a text of more than {VALUE_BYTES_MAX} bytes"
        case str(text) if any("\ud800" <= each <= "\udfff" for each in text):
            return "a text that is not Unicode"
        case bytes(raw) if len(raw) > VALUE_BYTES_MAX:
            return f"more than {VALUE_BYTES_MAX} bytes"
    return None


def is_name(name: str) -> bool:
    """Tell whether facts may have this name: printable ASCII without spaces."""
    return (
        1 <= len(name) <= NAME_BYTES_MAX
        and name.isascii()
        and name.isprintable()
        and (" " not in name)
    )


# -- reading


class _Reader:
    """A place in the bytes of a packet; every call raises `MalformedPacket` where it ends early."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, form: struct.Struct) -> tuple[int, ...]:
        at = self._at
        self._at = end = at + form.size
        if end > len(self._data):
            raise MalformedPacket("a packet is cut short")
        return form.unpack_from(self._data, at)

    def take_bytes(self, length: int) -> bytes:
        at = self._at
        self._at = end = at + length
        if end > len(self._data):
            raise MalformedPacket("a packet is cut short")
        return self._data[at:end]

    @property
    def rest(self) -> int:
        return len(self._data) - self._at


def read_packet(data: Buffer) -> Packet:
    """Return the packet that these bytes are.

    Raises:
        MalformedPacket: they are not exactly one packet.
    """
    reader = _Reader(bytes(data))
    (kind,) = reader.take(_U8)
    message = _read_message(kind, reader)
    (count,) = reader.take(_U8)
    entries = [_read_entry(reader) for _ in range(count)]
    if reader.rest:
        raise MalformedPacket(f"{reader.rest} bytes after a packet of type {kind}")
    return Packet(message, entries)


def _read_message(kind: int, reader: _Reader) -> Message:
    match kind:
        case _Kind.PING:
            return Ping(*reader.take(_U64))
        case _Kind.ACK:
            return Ack(*reader.take(_U64))
        case _Kind.PROBE_REQUEST:
            sequence, node, port, length = reader.take(_PROBE)
            address = Address(_read_host(reader, length), port)
            return ProbeRequest(sequence, _node(node), address)
        case _Kind.PROBE_RESULT:
            sequence, outcome = reader.take(_SEQUENCE_FLAG)
            if not Outcome.ANSWERED <= outcome <= Outcome.REFUSED:
                raise MalformedPacket(f"an outcome {outcome}")
            return ProbeResult(sequence, Outcome(outcome))
        case _Kind.GOSSIP:
            sequence, flag = reader.take(_SEQUENCE_FLAG)
            return Gossip(sequence, _flag(flag))
        case _Kind.GOSSIP_ANSWER:
            (sequence,) = reader.take(_U64)
            return GossipAnswer(sequence, int.from_bytes(reader.take_bytes(32), "big"))
        case _Kind.JOIN:
            return Join()
        case _Kind.WELCOME:
            return Welcome()
        case _:
            return _read_sync(kind, reader)


def _read_sync(kind: int, reader: _Reader) -> Message:
    match kind:
        case _Kind.SYNC:
            mode, root = reader.take(_SYNC)
            return Sync(_mode(mode), root)
        case _Kind.SYNC_BUCKETS:
            mode, *checksums = reader.take(_CHECKSUMS)
            return SyncBuckets(_mode(mode), tuple(checksums))
        case _Kind.SYNC_DIGEST:
            return _read_sync_digest(reader)
        case _Kind.SYNC_WANT:
            (count,) = reader.take(_U16)
            return SyncWant([_read_key(reader) for _ in range(count)])
        case _Kind.SYNC_DELTA:
            return SyncDelta()
        case _Kind.OUTDATED:
            (life,) = reader.take(_U64)
            return Outdated(_incarnation(life))
    raise MalformedPacket(f"there is no message of type {kind}")


def _read_sync_digest(reader: _Reader) -> SyncDigest:
    (mode,) = reader.take(_U8)
    bits = int.from_bytes(reader.take_bytes(BUCKETS // 8), "big")
    (count,) = reader.take(_U16)
    digests = []
    for _ in range(count):
        version, node, length = reader.take(_DIGEST)
        digests.append(Digest((_node(node), _read_name(reader, length)), version))
    buckets = tuple(bucket for bucket in range(BUCKETS) if bits >> bucket & 1)
    return SyncDigest(_mode(mode), buckets, digests)


def _read_key(reader: _Reader) -> Key:
    node, length = reader.take(_KEY)
    return (_node(node), _read_name(reader, length))


def _read_name(reader: _Reader, length: int) -> str:
    """Return a fact's name, or the empty one of a member entry."""
    name = reader.take_bytes(length).decode("latin-1")
    if length and not is_name(name):
        raise MalformedPacket(f"a fact cannot have this name: {name[:NAME_BYTES_MAX]!r}")
    return name


def _read_entry(reader: _Reader) -> Entry:
    (kind,) = reader.take(_U8)
    if MemberState.ALIVE <= kind <= MemberState.LEFT:
        return _read_member(MemberState(kind), reader)
    if _FACT_NONE <= kind <= _FACT_BYTES:
        return _read_fact(kind, reader)
    raise MalformedPacket(f"there is no entry of type {kind}")


_MEMBER_REST = struct.Struct(">IQQHB")
_FACT_REST = struct.Struct(">IQB")


def _read_member(state: MemberState, reader: _Reader) -> Member:
    node, life, incarnation, port, length = reader.take(_MEMBER_REST)
    address = Address(_read_host(reader, length), port)
    if not 1 <= life <= _incarnation(incarnation):
        raise MalformedPacket(f"life {life}, incarnation {incarnation}")
    accusers: tuple[Accusation, ...] = ()
    age_s = 0
    if state is MemberState.SUSPECT:
        accusers = _read_accusers(reader)
    elif state >= MemberState.DEAD:
        (age_s,) = reader.take(_AGE)
    if not port:
        raise MalformedPacket("a member without a port")
    return Member(_node(node), address, life, incarnation, state, accusers, age_s)


def _read_accusers(reader: _Reader) -> tuple[Accusation, ...]:
    (count,) = reader.take(_U8)
    if not 1 <= count <= ACCUSERS_MAX:
        raise MalformedPacket(f"a suspect with {count} accusers")
    accusers = []
    last = -1
    for node, refused in _ACCUSER.iter_unpack(reader.take_bytes(count * _ACCUSER.size)):
        if not last < node <= NODE_MAX or refused > 1:
            raise MalformedPacket("accusers in disorder")
        accusers.append(Accusation(node, refused == 1))
        last = node
    return tuple(accusers)


def _read_fact(kind: int, reader: _Reader) -> Fact:
    node, version, length = reader.take(_FACT_REST)
    name = _read_name(reader, length)
    if not name:
        raise MalformedPacket("a fact without a name")
    age_s = 0
    value: Value = None
    if kind == _FACT_NONE:
        (age_s,) = reader.take(_AGE)
    elif kind == _FACT_INT:
        (value,) = reader.take(_INT)
    elif kind == _FACT_FLOAT:
        (value,) = reader.take(_FLOAT)
        if not math.isfinite(value):
            raise MalformedPacket(f"a fact of value {value}")
    else:
        (size,) = reader.take(_U8)
        raw = reader.take_bytes(size)
        value = _text(raw) if kind == _FACT_TEXT else raw
    return Fact(_node(node), name, version, value, age_s)


def _read_host(reader: _Reader, length: int) -> str:
    host = _text(reader.take_bytes(length))
    if not 1 <= length <= HOST_BYTES_MAX or not host.isprintable() or " " in host:
        raise MalformedPacket(f"a host name of {length} bytes that cannot be one")
    return host


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise MalformedPacket("a text that is not UTF-8") from None


def _node(number: int) -> NodeId:
    if not 0 <= number <= NODE_MAX:
        raise MalformedPacket(f"node id {number} is not from 0 to {NODE_MAX}")
    return NodeId(number)


def _incarnation(number: int) -> int:
    if not 1 <= number <= INCARNATION_MAX:
        raise MalformedPacket(f"incarnation {number} is not from 1 to {INCARNATION_MAX}")
    return number


def _mode(number: int) -> SyncMode:
    if not SyncMode.PUSH <= number <= SyncMode.PUSH_PULL:
        raise MalformedPacket(f"a mode {number}")
    return SyncMode(number)


def _flag(number: int) -> bool:
    if number > 1:
        raise MalformedPacket(f"a flag of {number}")
    return bool(number)
