"""A message on its way through an exchange, and how each kind of place gets it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.broker.queues.transforming import Content, Place
from kafkaesque.model.kernel_types import Headers
from kafkaesque.model.message_headers import PREFIX
from kafkaesque.routing.exchanges.route import Route
from kafkaesque.routing.live_message import EXPIRES_AT, LiveMessage, live_message
from kafkaesque.routing.message import RoutedMessage
from kafkaesque.routing.names import NameKey


class Publication(NamedTuple):
    """A message as routing sees it, and as its queues get it."""

    routed: RoutedMessage
    message: NewMessage
    #: The headers that a topic and live subscribers get; None: those of the message.
    topic_headers: Headers | None = None
    #: The same message as live subscribers get it; None: it is made of the others.
    live: LiveMessage | None = None
    #: A topic that has the message already, and does not get it by a binding; empty: none.
    stored_in: str = ""
    #: How `topic_headers` are made of the headers of a message that is changed on its way; None:
    #: they are the same.
    show: Callable[[Headers], Headers] | None = None


def in_topics(publication: Publication) -> NewMessage:
    """Return a message as topics get it."""
    message, headers = publication.message, publication.topic_headers
    sent = message if headers is None else message._replace(headers=_with_end(headers, message))
    if sent.key is None and publication.routed.key:
        sent = sent._replace(key=publication.routed.key.encode(errors="surrogateescape"))
    return sent


def changed(publication: Publication, place: Place) -> NewMessage:
    """Return a message as a place gets it."""
    (_, value, headers), show = place.content, publication.show
    if not place.destination.is_topic:
        return publication.message._replace(value=value, headers=headers)
    shown = headers if show is None else _with_end(show(headers), publication.message)
    return in_topics(publication)._replace(value=value, headers=shown)


def _with_end(headers: Headers, message: NewMessage) -> Headers:
    """Return headers that say when the message's life ends, which only queues know without them."""
    if not message.not_after_ms or any(name == EXPIRES_AT for name, _ in headers):
        return headers
    return (*headers, (EXPIRES_AT, b"%d" % message.not_after_ms))


def more_bytes(contents: Sequence[Content], message: NewMessage) -> int:
    """Return how many bytes variants of a message take beside it; several places may get one."""
    variants = {id(each): each for each in contents if each.headers is not message.headers}
    bodies = {id(each.value): len(each.value or b"") for each in contents}
    bodies.pop(id(message.value), None)
    headers = sum(
        len(name) + len(value or b"") for each in variants.values() for name, value in each.headers
    )
    return headers + sum(bodies.values())


def chosen_by(route: Route, number: int, publication: Publication) -> bytes | None:
    """Return what chooses the partition of a route's topic; None: the record's key."""
    levels = route.key_levels[number] if route.key_levels else 0
    return None if not levels else _first_levels(publication.routed.key, levels)


def _first_levels(routing_key: str, count: int) -> bytes:
    """Return the first levels of a name as a record's key would have them."""
    return ".".join(routing_key.split(".")[:count]).encode(errors="surrogateescape")


def as_live(publication: Publication, key: NameKey) -> LiveMessage:
    """Return a message as live subscribers get it."""
    message, headers = publication.message, publication.topic_headers
    headers = message.headers if headers is None else headers
    shown = tuple(each for each in headers if not each[0].startswith(PREFIX))
    shown = _with_end(shown, message)
    return live_message(key, message.value or b"", shown, qos=1)
