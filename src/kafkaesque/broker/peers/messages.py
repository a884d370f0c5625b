"""What brokers say to one another on the peer port, as bytes.

A frame is a sequence of sections, each `kind: uint8, length: uint32, body`. Everything that one
broker has for another in one turn of its loop travels in one frame. Raft messages are their own
format (`kafkaesque.raft.wire`) behind a group number; all else is MessagePack.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import ClassVar

import msgspec

from kafkaesque.broker.config import NODE_ID_MAX
from kafkaesque.env.disk import Buffer
from kafkaesque.model.ids import CONTROLLER_GROUP, NO_NODE

PROTOCOL_VERSION = 1

#: A process's number, by which a restart is noticed, has so many bits.
INCARNATION_BITS = 48
#: The longest name that a host can have (RFC 1035, section 2.3.4).
HOST_CHARACTERS_MAX = 255
PORT_MAX = 2**16 - 1

_SECTION = struct.Struct(">BI")
_GROUP = struct.Struct(">I")


class SectionKind(IntEnum):
    """What a section holds."""

    HELLO = 1
    HEARTBEAT = 2
    RAFT = 3
    LEADERS = 4
    REQUEST = 5
    RESPONSE = 6
    #: A greeting under the cluster's secret; see `greeting`.
    SEALED_HELLO = 7
    #: The answer to a greeting that is not accepted.
    DENIED = 8
    #: Somebody asks whether another process has its id; see `identity`. Plain, or sealed.
    CLAIM = 9
    SEALED_CLAIM = 10
    #: The answer to that.
    CLAIMED = 11


class Denial(IntEnum):
    """Why a greeting was not accepted, as the other side is told."""

    OTHER_CLUSTER = 1
    SECRET_WANTED = 2
    NO_SECRET = 3
    OTHER_SECRET = 4
    OUTDATED = 5
    ID_IN_USE = 6
    OTHER_CERTIFICATE = 7


class MalformedPeerFrame(ValueError):
    """The other side does not speak this protocol: the connection is closed."""


class GreetingDenied(MalformedPeerFrame):
    """Somebody greets who cannot be let in; it is told why."""

    def __init__(self, denial: Denial, reason: str) -> None:
        super().__init__(reason)
        self.denial = denial


class Hello(msgspec.Struct, frozen=True, array_like=True):
    """The first section on a connection, by the side that dialled."""

    version: int
    cluster_id: str
    node: int
    #: As `write_node` writes it: a question is to nobody by name.
    to_node: int
    incarnation: int
    #: Where the sender can be dialled, for a receiver that does not know it yet.
    host: str
    port: int


class Verdict(IntEnum):
    """What a broker knows of the id that somebody claims."""

    #: No other process has it, as far as this broker knows.
    FREE = 0
    #: This broker is linked with the very process that asks.
    YOURS = 1
    #: Another process has it, and has been heard after the question came.
    IN_USE = 2


class Claimed(msgspec.Struct, frozen=True, array_like=True):
    """The answer to a claim."""

    #: Who answers.
    node: int
    verdict: int
    #: Where the other process is, or may be: there it is to be asked itself. Empty: not known.
    host: str = ""
    port: int = 0


class Heartbeat(msgspec.Struct, frozen=True, array_like=True):
    """Sent every `heartbeat_ms`, whatever else is going on."""

    #: The latest sequence that came from the receiver, so that each side knows that both ways work.
    sequence: int
    echoed_sequence: int
    wall_ms: int
    #: See `ControllerWord`.
    standing: int = 0
    founding: int = 0
    term: int = 0
    #: Groups of which the sender's copy is damaged, and serves; earlier releases do not tell.
    damaged: tuple[int, ...] = ()


class LeaderReport(msgspec.Struct, frozen=True, array_like=True):
    """A group's leader says that it is; or, with -1 for the leader, that it was, in that term.

    Earlier releases take no note of the second.
    """

    group: int
    term: int
    leader: int
    in_sync: tuple[int, ...]
    log_start_offset: int = 0
    #: Replicas that the leader cannot have, though their brokers live.
    offline: tuple[int, ...] = ()
    #: Too few of its voters take part for a commit: others are offline on brokers that live.
    is_stuck: bool = False
    #: The term of the record before `log_start_offset`; -1: an earlier release does not say.
    log_start_term: int = -1


#: Sent with all that a broker leads: there is nothing else. Of that group nobody reports.
ALL_LED = LeaderReport(CONTROLLER_GROUP, 0, NO_NODE, ())


class PeerRequest(msgspec.Struct, frozen=True, tag_field="kind"):
    """Base of what one broker asks of another."""

    #: Whether it is worth asking where the answer cannot come yet: doing it is what matters.
    may_go_unanswered: ClassVar[bool] = False


class PeerAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A request's outcome: a result, or the name of an error and what it says."""

    result: msgspec.Raw = msgspec.Raw(b"\xc0")
    error: str | None = None
    message: str = ""
    leader: int | None = None


_encoder = msgspec.msgpack.Encoder()
_hello_decoder = msgspec.msgpack.Decoder(Hello)
_claimed_decoder = msgspec.msgpack.Decoder(Claimed)
_heartbeat_decoder = msgspec.msgpack.Decoder(Heartbeat)
_leaders_decoder = msgspec.msgpack.Decoder(list[LeaderReport])


def write_section(kind: SectionKind, body: object) -> list[Buffer]:
    """Return a section with a MessagePack body."""
    return write_raw_section(kind, _encoder.encode(body))


def write_heartbeat(beat: Heartbeat) -> list[Buffer]:
    """Return a heartbeat's section; where nothing is damaged it is what earlier releases send."""
    fields = msgspec.structs.astuple(beat)
    return write_section(SectionKind.HEARTBEAT, fields if beat.damaged else fields[:-1])


def write_raw_section(kind: SectionKind, payload: bytes) -> list[Buffer]:
    """Return a section whose body is written already."""
    return [_SECTION.pack(kind, len(payload)), payload]


def write_raft_section(group: int, parts: list[Buffer]) -> list[Buffer]:
    """Return a section that holds one Raft message."""
    size = _GROUP.size + sum(len(part) for part in parts)
    return [_SECTION.pack(SectionKind.RAFT, size) + _GROUP.pack(group), *parts]


def read_sections(frame: Buffer) -> Iterator[tuple[SectionKind, memoryview]]:
    """Yield the sections of a frame.

    Raises:
        MalformedPeerFrame: cut short, or of an unknown kind.
    """
    view = memoryview(frame)
    at = 0
    while at < len(view):
        if at + _SECTION.size > len(view):
            raise MalformedPeerFrame("a section's header is cut short")
        kind, length = _SECTION.unpack_from(view, at)
        at += _SECTION.size
        if at + length > len(view):
            raise MalformedPeerFrame(f"a section of {length} bytes is cut short")
        try:
            yield SectionKind(kind), view[at : at + length]
        except ValueError:
            raise MalformedPeerFrame(f"unknown section kind {kind}") from None
        at += length


def read_raft_section(body: memoryview) -> tuple[int, memoryview]:
    """Return the group and the message's bytes."""
    if len(body) < _GROUP.size:
        raise MalformedPeerFrame("a Raft section without a group")
    return _GROUP.unpack_from(body)[0], body[_GROUP.size :]


def write_request(correlation: int, request: PeerRequest) -> list[Buffer]:
    """Return a request section."""
    return write_section(SectionKind.REQUEST, (correlation, msgspec.Raw(_encoder.encode(request))))


def write_answer(correlation: int, answer: PeerAnswer) -> list[Buffer]:
    """Return a response section."""
    return write_section(SectionKind.RESPONSE, (correlation, answer))


_envelope_decoder = msgspec.msgpack.Decoder(tuple[int, msgspec.Raw])
_answer_decoder = msgspec.msgpack.Decoder(tuple[int, PeerAnswer])


def read_request(body: memoryview) -> tuple[int, msgspec.Raw]:
    """Return correlation id and the request, still encoded."""
    try:
        return _envelope_decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise MalformedPeerFrame(f"a request that cannot be read: {error}") from error


def read_answer(body: memoryview) -> tuple[int, PeerAnswer]:
    """Return correlation id and answer."""
    try:
        return _answer_decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise MalformedPeerFrame(f"an answer that cannot be read: {error}") from error


def read_hello(body: memoryview) -> Hello:
    """Return the greeting, each field of which could be a broker's.

    Raises:
        MalformedPeerFrame: it cannot be read, or a field is out of range.
    """
    try:
        hello = _hello_decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise MalformedPeerFrame(f"a greeting that cannot be read: {error}") from error
    if hello.version != PROTOCOL_VERSION:
        raise MalformedPeerFrame(f"protocol version {hello.version}, not {PROTOCOL_VERSION}")
    if not 0 <= hello.node <= NODE_ID_MAX:
        raise MalformedPeerFrame(f"broker id {hello.node} is not from 0 to {NODE_ID_MAX}")
    if not 0 <= hello.incarnation < 1 << INCARNATION_BITS:
        raise MalformedPeerFrame(f"incarnation {hello.incarnation} is not one")
    if not 1 <= hello.port <= PORT_MAX:
        raise MalformedPeerFrame(f"port {hello.port} is not from 1 to {PORT_MAX}")
    if not 1 <= len(hello.host) <= HOST_CHARACTERS_MAX or not hello.host.isprintable():
        raise MalformedPeerFrame(f"a host name of {len(hello.host)} characters that cannot be one")
    return hello


def write_denial(denial: Denial) -> list[Buffer]:
    """Return a section that tells why a greeting was not accepted."""
    return write_section(SectionKind.DENIED, int(denial))


def read_denial(frame: Buffer) -> Denial:
    """Return why a greeting was not accepted.

    Raises:
        MalformedPeerFrame: the frame says anything else.
    """
    for kind, body in read_sections(frame):
        if kind is SectionKind.DENIED:
            try:
                return Denial(msgspec.msgpack.decode(body, type=int))
            except (msgspec.MsgspecError, ValueError):
                break
    raise MalformedPeerFrame("an answer that is none")


def read_claimed(frame: Buffer) -> Claimed:
    """Return the answer to a claim.

    Raises:
        MalformedPeerFrame: the frame says anything else.
    """
    for kind, body in read_sections(frame):
        if kind is not SectionKind.CLAIMED:
            break
        try:
            claimed = _claimed_decoder.decode(body)
        except msgspec.MsgspecError:
            break
        is_address = claimed.port == 0 or 1 <= claimed.port <= PORT_MAX
        if is_address and len(claimed.host) <= HOST_CHARACTERS_MAX and claimed.host.isprintable():
            return claimed
    raise MalformedPeerFrame("an answer that is none")


def read_heartbeat(body: memoryview) -> Heartbeat:
    """Return the heartbeat."""
    try:
        return _heartbeat_decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise MalformedPeerFrame(f"a heartbeat that cannot be read: {error}") from error


def read_leaders(body: memoryview) -> list[LeaderReport]:
    """Return the leader reports."""
    try:
        return _leaders_decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise MalformedPeerFrame(f"leader reports that cannot be read: {error}") from error
