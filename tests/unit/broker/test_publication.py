"""How each kind of place gets a message that an exchange passes on."""

from __future__ import annotations

from kafkaesque.broker.doors.publication import Publication, as_live, changed, in_topics
from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.broker.queues.transforming import Content, Place
from kafkaesque.model.kernel_types import Headers
from kafkaesque.routing.exchanges.records import Destination
from kafkaesque.routing.message import RoutedMessage
from kafkaesque.routing.names import AMQP

END_MS = 1_700_000_060_000
END = ("expires-at", b"%d" % END_MS)
TYPE = ("content-type", b"text/plain")


def _publication(shown: Headers, not_after_ms: int = END_MS) -> Publication:
    return Publication(
        RoutedMessage(key="a.b"),
        NewMessage(b"x", headers=(("raw", b"1"),), not_after_ms=not_after_ms),
        topic_headers=shown,
        show=lambda headers: (*headers, TYPE),
    )


def test_topics_and_live_subscribers_are_told_when_a_message_ends() -> None:
    publication = _publication((TYPE,))
    assert in_topics(publication).headers == (TYPE, END)
    live = as_live(publication, AMQP.key_of("a.b"))
    assert (live.expires_ms, live.content_type, live.headers) == (END_MS, "text/plain", ())
    place = Place(Destination("t", is_topic=True), Content(b"k", b"y", (("new", b"2"),)))
    assert changed(publication, place).headers == (("new", b"2"), TYPE, END)


def test_the_end_is_told_once_and_only_where_there_is_one() -> None:
    assert in_topics(_publication((END,))).headers == (END,)
    assert in_topics(_publication((TYPE,), not_after_ms=0)).headers == (TYPE,)
