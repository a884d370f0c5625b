"""What brokers tell one another of live subscribers, and the messages that these want.

Texts travel as bytes: names may hold what is no UTF-8.
"""

from collections.abc import Sequence

import msgspec

from kafkaesque.broker.peers.messages import PeerRequest
from kafkaesque.model.errors import RequestRefused
from kafkaesque.routing.interest import InterestNews, Wanted
from kafkaesque.routing.live_message import LiveMessage, Origin
from kafkaesque.routing.names import MANY, ONE, NameFilter, NameKey, Wildcard

_ERRORS = "surrogateescape"
#: How wildcards are written among levels.
_ONE, _MANY = 1, 2


class PackedFilter(msgspec.Struct, frozen=True, array_like=True):
    """A filter, and the group that wants it."""

    levels: list[bytes | int]
    skips_dollar: bool
    group: bytes = b""


class PackedNews(msgspec.Struct, frozen=True, array_like=True):
    """See `InterestNews`."""

    since: int | None
    number: int
    added: list[PackedFilter]
    removed: list[PackedFilter]


class TellInterest(PeerRequest, frozen=True, tag="tell-interest", kw_only=True):
    """What the sender's live subscribers want. Answer: `InterestKnown`."""

    news: list[PackedNews]


class InterestKnown(msgspec.Struct, frozen=True, kw_only=True):
    """Up to which number it is known; -1: something is missing, and all has to be told."""

    number: int


class AskInterest(PeerRequest, frozen=True, tag="ask-interest", kw_only=True):
    """Have the other broker tell all its interest, even if that is none. Answer: `Done`."""


class PackedMessage(msgspec.Struct, frozen=True, array_like=True):
    """See `LiveMessage`."""

    key: bytes
    body: bytes
    origin: tuple[bytes, int, int]
    content_type: bytes | None
    correlation: bytes | None
    reply: bytes | None
    expires_ms: int
    headers: list[tuple[bytes, bytes | None]]
    qos: int
    is_retained: bool
    is_text: bool


class Delivery(msgspec.Struct, frozen=True, array_like=True):
    """A message, and for whom."""

    message: msgspec.Raw
    #: Whether all that share with nobody get it.
    is_for_all: bool
    #: The groups of which one member is to get it.
    groups: list[bytes]
    #: How often it was passed on because there was no such member.
    hops: int = 0


class DeliverLive(PeerRequest, frozen=True, tag="deliver-live", kw_only=True):
    """Give messages to live subscribers. Answer: `Done`.

    Messages of a stream are numbered. Those that came before are passed over; a newer stream of
    the same broker has another beginning.
    """

    stream: int
    first: int
    deliveries: list[Delivery]


LiveRequest = TellInterest | AskInterest | DeliverLive

_encoder = msgspec.msgpack.Encoder()
_message_decoder = msgspec.msgpack.Decoder(PackedMessage)


def pack_news(news: Sequence[InterestNews]) -> list[PackedNews]:
    """Return news as they travel."""
    return [
        PackedNews(
            each.since,
            each.number,
            [_pack_filter(wanted) for wanted in each.added],
            [_pack_filter(wanted) for wanted in each.removed],
        )
        for each in news
    ]


def unpack_news(packed: PackedNews) -> InterestNews:
    """Return the news.

    Raises:
        RequestRefused: a filter is none.
    """
    return InterestNews(
        since=packed.since,
        number=packed.number,
        added=tuple(map(_unpack_filter, packed.added)),
        removed=tuple(map(_unpack_filter, packed.removed)),
    )


def _pack_filter(wanted: Wanted) -> PackedFilter:
    found = wanted.name_filter
    return PackedFilter(
        [_pack_level(level) for level in found.levels],
        found.skips_dollar,
        pack_text(wanted.group),
    )


def _pack_level(level: str | Wildcard) -> bytes | int:
    if isinstance(level, Wildcard):
        return _ONE if level is ONE else _MANY
    return pack_text(level)


def _unpack_filter(packed: PackedFilter) -> Wanted:
    if not packed.levels:
        raise RequestRefused("a filter has no levels")
    levels = tuple(
        unpack_text(level) if isinstance(level, bytes) else ONE if level == _ONE else MANY
        for level in packed.levels
    )
    return Wanted(
        NameFilter(levels=levels, skips_dollar=packed.skips_dollar), unpack_text(packed.group)
    )


def pack_message(message: LiveMessage) -> msgspec.Raw:
    """Return a message as it travels, once for all brokers."""
    content_type, reply = message.content_type, message.reply
    protocol, node, connection = message.origin
    packed = PackedMessage(
        key=pack_text(message.key),
        body=message.body,
        origin=(pack_text(protocol), node, connection),
        content_type=None if content_type is None else pack_text(content_type),
        correlation=message.correlation,
        reply=None if reply is None else pack_text(reply),
        expires_ms=message.expires_ms,
        headers=[(pack_text(name), value) for name, value in message.headers],
        qos=message.qos,
        is_retained=message.is_retained,
        is_text=message.is_text,
    )
    return msgspec.Raw(_encoder.encode(packed))


def unpack_message(raw: msgspec.Raw) -> LiveMessage:
    """Return the message.

    Raises:
        msgspec.MsgspecError: it is none.
    """
    packed = _message_decoder.decode(raw)
    content_type, reply = packed.content_type, packed.reply
    protocol, node, connection = packed.origin
    return LiveMessage(
        key=NameKey(unpack_text(packed.key)),
        body=packed.body,
        origin=Origin(unpack_text(protocol), node, connection),
        content_type=None if content_type is None else unpack_text(content_type),
        correlation=packed.correlation,
        reply=None if reply is None else NameKey(unpack_text(reply)),
        expires_ms=packed.expires_ms,
        headers=tuple((unpack_text(name), value) for name, value in packed.headers),
        qos=packed.qos,
        is_retained=packed.is_retained,
        is_text=packed.is_text,
    )


def pack_text(text: str) -> bytes:
    """Return a text as it travels."""
    return text.encode("utf-8", _ERRORS)


def unpack_text(data: bytes) -> str:
    """Return the text."""
    return data.decode("utf-8", _ERRORS)
