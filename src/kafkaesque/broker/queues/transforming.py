"""Changes messages on their way to queues and topics, as the bindings they come by say.

Theory of operation. A route names the transformation of each place that gets the message changed.
Each transformation is applied once for a message, however many places name it. If a step cannot be
done, or a place would not take what comes out, the message stays as it was, says why in a header,
and goes to the queue that the rule names for failures; without one it goes where it was to go. A
queue for failures that gets the message anyway gets it once. What a client of AMQP has published
is read and written as it sees it: headers, properties and body. Of other messages, properties are
headers with the names of `model/message_properties.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

import msgspec

from kafkaesque.broker.queues.routed_records import KeptMessage, routed_of, routed_of_amqp
from kafkaesque.broker.queues.takers import Takers
from kafkaesque.model.batch_encoder import HEADER_OVERHEAD_BYTES_MAX
from kafkaesque.model.errors import InvalidRequest
from kafkaesque.model.kernel_types import Headers
from kafkaesque.model.message_headers import STORED_AMQP, STORED_NATS
from kafkaesque.model.message_properties import CONTENT_TYPE, MESSAGE_ID, PROPERTIES, TIMESTAMP
from kafkaesque.routing.exchanges.errors import NoSuchQueue
from kafkaesque.routing.exchanges.records import Destination
from kafkaesque.routing.exchanges.route import Route
from kafkaesque.routing.exchanges.topology import Vhost
from kafkaesque.routing.exchanges.transformation_planner import PROPERTIES as CHANGEABLE
from kafkaesque.routing.message import RoutedMessage
from kafkaesque.routing.transformations.errors import TransformationFailed
from kafkaesque.routing.transformations.rules import Kind
from kafkaesque.routing.transformations.transformation import (
    Transformation,
    Transformed,
    cast,
    shown,
)

#: Says which transformations have failed, and why.
FAILED_HEADER: Final = "x-transformation-failed"
#: Bytes of what it says.
WORDS_BYTES_MAX: Final = 1_000
#: Bytes of headers and properties that come of a transformation; longer ones may stay as they are.
HEADERS_BYTES_MAX: Final = 64 * 1024
_HEADER_OF: Final = {each.amqp: each.header for each in PROPERTIES if each.amqp in CHANGEABLE}
_NATS_NAMES: Final = {each.header: each.nats for each in (CONTENT_TYPE, MESSAGE_ID)}
_MS_PER_S: Final = 1_000


class Content(NamedTuple):
    """What a transformation may change of a message."""

    key: bytes | None
    value: bytes | None
    headers: Headers


class _Variant(NamedTuple):
    content: Content
    #: Why it is as it was; empty: the transformation is done.
    why: str = ""
    #: The queue that gets it then; empty: where it was to go.
    failures: str = ""


class Place(NamedTuple):
    """A queue or a topic, and what it gets."""

    destination: Destination
    content: Content
    is_delayed: bool = False


def places_of(
    route: Route,
    vhost: Vhost,
    kept: KeptMessage,
    takers: Takers,
    rules: Mapping[str, Transformation] | None = None,
) -> list[Place]:
    """Return where a message goes, each queue and each topic once, and what each place gets.

    `rules` are the transformations by their names; None: those that the virtual host has.

    Raises:
        NoSuchQueue: the queue for failures does not exist.
        InvalidRequest: it is not encrypted, and a queue that was to have the message is.
    """
    found = _Places(vhost, Content(kept.key, kept.value, kept.headers), takers)
    named = dict(route.transformed)
    by_name = vhost.transformations if rules is None else rules

    def add(destination: Destination, *, is_delayed: bool = False) -> None:
        name = named.get(destination)
        if name is None:
            found.put(Place(destination, found.content, is_delayed))
        else:
            found.put_changed(destination, name, by_name.get(name), is_delayed=is_delayed)

    for queue in route.queues:
        add(Destination(queue))
    for queue in route.delayed_queues:
        add(Destination(queue), is_delayed=True)
    for topic in route.topics:
        add(Destination(topic, is_topic=True))
    return found.all()


class _Places:
    """The places of one message."""

    __slots__ = ("_places", "_reasons", "_takers", "_variants", "_vhost", "content")

    def __init__(self, vhost: Vhost, content: Content, takers: Takers) -> None:
        self._vhost = vhost
        self._takers = takers
        self.content = content
        self._places: dict[Destination, Place] = {}
        self._variants: dict[str, _Variant] = {}
        #: Why something has failed, by the place that is told.
        self._reasons: dict[Destination, list[str]] = {}

    def put(self, place: Place) -> None:
        self._places[place.destination] = place

    def put_changed(
        self, meant: Destination, name: str, made: Transformation | None, *, is_delayed: bool
    ) -> None:
        """Add a place, or the queue for failures, by the transformation of this name."""
        variant = self._variants.get(name)
        if variant is None:
            variant = self._variants[name] = _variant(made, name, self.content)
        if not variant.why and self._is_too_large(variant.content, meant):
            why = f"{name}: what comes out is larger than '{meant.name}' takes"
            variant = _Variant(self.content, why, variant.failures)
        told = meant
        if not variant.why or not variant.failures:
            self.put(Place(meant, variant.content, is_delayed))
        else:
            _check_failures(self._vhost, variant.failures, meant, self._takers)
            told = Destination(variant.failures)
        reasons = self._reasons.setdefault(told, [])
        if variant.why and variant.why not in reasons:
            reasons.append(variant.why)

    def _is_too_large(self, content: Content, place: Destination) -> bool:
        """Tell whether a place may not take what it would have taken as it was."""
        size = _message_size(content)
        return size > _message_size(self.content) and not self._takers.takes(place, size)

    def all(self) -> list[Place]:
        """Return all places; those that are told why something has failed can read it."""
        for told, reasons in self._reasons.items():
            if not reasons:
                continue
            # The queue for failures may be one that gets the message anyway: then as it is meant.
            place = self._places.get(told, Place(told, self.content))
            saying = marked(place.content, "\n".join(reasons))
            if not self._is_too_large(saying, told):
                place = place._replace(content=saying)
            self.put(place)
        return list(self._places.values())


def _check_failures(vhost: Vhost, queue: str, meant: Destination, takers: Takers) -> None:
    if queue not in vhost.queues or queue in vhost.streams:
        raise NoSuchQueue(
            f"a transformation has failed, and its queue '{queue}' is not in '{vhost.name}'"
        )
    if not takers.may_stand_in(meant, queue):
        raise InvalidRequest(
            f"a transformation has failed, its queue '{queue}' is not encrypted, and '{meant.name}'"
            " is"
        )


def failure_queues(route: Route, rules: Mapping[str, Transformation]) -> list[str]:
    """Return the queues that get a message if transformations on its way fail."""
    found = (rules.get(name) for _, name in route.transformed)
    return [each.rule.failures for each in found if each is not None and each.rule.failures]


def _variant(made: Transformation | None, name: str, content: Content) -> _Variant:
    if made is None:
        return _Variant(content, f"{name}: there is no such transformation")
    try:
        return _Variant(transformed(content, made), failures=made.rule.failures)
    except TransformationFailed as failure:
        return _Variant(content, f"{name}: {failure}", made.rule.failures)


def seen_by_rules(content: Content) -> RoutedMessage:
    """Return what rules see of a message that a queue or a topic keeps."""
    return routed_of_amqp(content) or _with_properties(routed_of(content, None))


def transformed(content: Content, made: Transformation) -> Content:
    """Return what a transformation makes of a message.

    Raises:
        TransformationFailed: a step cannot be done; or headers of the message cannot say it.
    """
    routed = routed_of_amqp(content)
    if routed is not None:
        found = made.apply(routed)
        headers = _amqp_headers(content.headers, found)
    else:
        routed = _with_properties(routed_of(content, None))
        found = made.apply(routed)
        headers = _plain_headers(content.headers, found)
    value = content.value if found.body is routed.body else bytes(found.body)
    if _size(headers) > max(HEADERS_BYTES_MAX, _size(content.headers)):
        raise TransformationFailed(f"its headers would have more than {HEADERS_BYTES_MAX} bytes")
    return Content(content.key, value, headers)


def _message_size(content: Content) -> int:
    """Return the most bytes that a message takes."""
    size = len(content.key or b"") + len(content.value or b"")
    for name, value in content.headers:
        size += HEADER_OVERHEAD_BYTES_MAX + len(name.encode()) + len(value or b"")
    return size


def _size(headers: Headers) -> int:
    return sum(len(name) + len(value or b"") for name, value in headers)


# -- messages of AMQP


def _amqp_headers(headers: Headers, found: Transformed) -> Headers:
    if not found.changed_headers and not found.changed_properties:
        return headers
    from kafkaesque.protocols.amqp.wire import Timestamp

    changes: dict[str, object] = {}
    for name in found.changed_properties:
        value = found.properties.get(name)
        if value is None:
            changes[name] = None
        elif name == "timestamp":
            changes[name] = Timestamp(_whole(name, value))
        else:
            changes[name] = _text(name, value)
    put = {name: each for name, each in found.headers.items() if name in found.changed_headers}
    return _with_changes(headers, changes, put, found.changed_headers - put.keys())


def _with_changes(
    headers: Headers,
    changes: Mapping[str, object],
    put: dict[str, object],
    dropped: Collection[str] = (),
) -> Headers:
    """Return headers in which a message of AMQP has other properties and headers.

    Raises:
        TransformationFailed: AMQP cannot say so.
    """
    from kafkaesque.protocols.amqp.errors import AmqpError
    from kafkaesque.protocols.amqp.properties import change_properties
    from kafkaesque.protocols.amqp.stored_message import read_stored, write_stored

    written: list[tuple[str, bytes | None]] = []
    for name, value in headers:
        stored = read_stored(value) if name == STORED_AMQP and value is not None else None
        if stored is None:
            written.append((name, value))
            continue
        try:
            raw = change_properties(stored.properties, changes, put, dropped)
        except (AmqpError, ValueError) as error:
            raise TransformationFailed(f"AMQP cannot say what comes out: {error}") from None
        written.append((name, write_stored(stored.exchange, stored.routing_key, raw)))
    return tuple(written)


def _whole(name: str, value: object) -> int:
    found = cast(value, Kind.WHOLE)
    if not isinstance(found, int) or found < 0:
        raise TransformationFailed(f"properties.{name} has to be a whole number")
    return found


def _text(name: str, value: object) -> str:
    found = shown(value)
    if found is None:
        raise TransformationFailed(f"properties.{name} has to be a text")
    return found


# -- messages of others


def _with_properties(routed: RoutedMessage) -> RoutedMessage:
    """Return a message with those properties that its headers say."""
    said = {name: routed.headers.get(header) for name, header in _HEADER_OF.items()}
    properties = {name: value for name, value in said.items() if value is not None}
    if "timestamp" in properties:
        found = cast(properties["timestamp"], Kind.WHOLE)
        properties["timestamp"] = found // _MS_PER_S if isinstance(found, int) else None
    return RoutedMessage(
        key=routed.key, headers=routed.headers, properties=properties, body=routed.body
    )


def _plain_headers(headers: Headers, found: Transformed) -> Headers:
    wanted, changed = dict(found.headers), set(found.changed_headers)
    for name, header in _HEADER_OF.items():
        if name not in found.changed_properties:
            continue
        changed.add(header)
        value = found.properties.get(name)
        if value is None:
            wanted.pop(header, None)
        elif header == TIMESTAMP.header:
            wanted[header] = _MS_PER_S * _whole(name, value)
        else:
            wanted[header] = _text(name, value)
    if not changed:
        return headers
    new = {name: _bytes_of(value) for name, value in wanted.items() if name in changed}
    left = dict(new)
    written: list[tuple[str, bytes | None]] = []
    for name, value in headers:
        # Of several with one name all stay, or all are one.
        if name == STORED_NATS and value is not None:
            written.append((name, _nats_headers(value, changed, new)))
        elif name not in changed:
            written.append((name, value))
        elif name in left:
            written.append((name, left.pop(name)))
    return (*written, *left.items())


def _nats_headers(raw: bytes, changed: set[str], new: Mapping[str, bytes | None]) -> bytes:
    """Return the headers that clients of NATS are shown, with the same changes."""
    from kafkaesque.protocols.nats.headers import change_headers, is_writable

    names = changed | {_NATS_NAMES[name] for name in changed if name in _NATS_NAMES}
    texts = {
        _NATS_NAMES.get(name, name): (value or b"").decode("utf-8", "surrogateescape")
        for name, value in new.items()
    }
    shown = {name: text for name, text in texts.items() if is_writable(name, text)}
    return change_headers(raw, names, shown)


def _bytes_of(value: object) -> bytes | None:
    """Return a value as a header's: texts as they are, others as JSON."""
    try:
        match value:
            case None | bytes():
                return value
            case str():
                return value.encode("utf-8", "surrogateescape")
            case _:
                return msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise TransformationFailed(f"no header can hold what comes out: {error}") from None


# -- failures


def failed_of(message: KeptMessage) -> str:
    """Return what a message says of transformations that have failed; empty: nothing."""
    said = shown(routed_of(message, None).headers.get(FAILED_HEADER)) or ""
    # Any publisher may have written it.
    return said.encode(errors="replace").decode()


def marked(content: Content, words: str) -> Content:
    """Return a message that says what has failed; one that cannot say it stays as it is."""
    raw = words.encode(errors="replace")[:WORDS_BYTES_MAX]
    if routed_of_amqp(content) is None:
        others = tuple(each for each in content.headers if each[0] != FAILED_HEADER)
        return content._replace(headers=(*others, (FAILED_HEADER, raw)))
    text = raw.decode(errors="ignore")
    try:
        headers = _with_changes(content.headers, {}, {FAILED_HEADER: text})
    except TransformationFailed:
        return content
    return content._replace(headers=headers)
