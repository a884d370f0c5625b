"""Retained messages for new subscriptions of one client, a page at a time.

A session that is kept has those of QoS 1 and 2 put into its queue, so that they are there when the
client comes back; they are put there though it has left meanwhile. All others are for the client to
take when it has room.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kafkaesque.broker.doors.live import LiveMessage, RetainedPage
from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.gateway.mqtt.journal import PUT_TIMEOUT_MS, as_retained
from kafkaesque.gateway.mqtt.messages import publication_of
from kafkaesque.gateway.mqtt.names import topic_of
from kafkaesque.gateway.mqtt.ports import MqttLink
from kafkaesque.gateway.mqtt.sessions import Session
from kafkaesque.gateway.mqtt.subscriptions import SUBSCRIPTIONS_MAX, Subscribed
from kafkaesque.model.errors import RequestRefused
from kafkaesque.routing.errors import BadName
from kafkaesque.routing.names import NameKey

#: Bodies that are put at a time; one alone may be larger.
PUT_BYTES_MAX: Final = 1024 * 1024


class RetainedFeed:
    """See the module."""

    __slots__ = (
        "_after",
        "_is_asking",
        "_is_keeping",
        "_is_over",
        "_link",
        "_on_news",
        "_page",
        "_to_keep",
        "_wanted",
    )

    def __init__(self, link: MqttLink, on_news: Callable[[], None]) -> None:
        """`on_news` is called when there is more to `take`."""
        self._link: Final = link
        self._on_news: Final = on_news
        #: Subscriptions whose messages are not all sent: at most twice what a client can have.
        self._wanted: Final[list[Subscribed]] = []
        #: Of the first one: what was found, and where to look for more.
        self._page: Final[list[LiveMessage]] = []
        #: What was found with it, and is to be put into the session's queue.
        self._to_keep: Final[list[LiveMessage]] = []
        self._after: NameKey | None = None
        self._is_asking = False
        self._is_keeping = False
        self._is_over = False

    def add(self, subscribed: Subscribed) -> None:
        """Find what is retained for one more subscription."""
        self._wanted.append(subscribed)
        if len(self._wanted) > 2 * SUBSCRIPTIONS_MAX:
            self._drop_old()
        if len(self._wanted) == 1:
            self._ask()

    def _drop_old(self) -> None:
        """Forget what has not begun and has ended, or is asked for once more behind it."""
        has = self._link.subscriptions.get
        last = {each.options.topic_filter: each for each in self._wanted[1:]}
        self._wanted[1:] = [each for name, each in last.items() if has(name) is not None]

    @property
    def first(self) -> tuple[LiveMessage, Subscribed] | None:
        """What to send next."""
        return (self._page[0], self._wanted[0]) if self._page else None

    def take(self) -> None:
        """The first one is sent."""
        self._page.pop(0)
        self._maybe_go_on()

    def end(self) -> None:
        """The client is gone."""
        self._is_over = True
        has_page = bool(self._page)
        self._page.clear()
        if self._link.session is None:
            self._wanted.clear()
        elif has_page:
            self._maybe_go_on()

    def _maybe_go_on(self) -> None:
        if not self._page and not self._is_keeping:
            self._go_on()

    def _go_on(self) -> None:
        """Look for the next page of a subscription, or for the first one of the next."""
        if self._after is None and self._wanted:
            self._wanted.pop(0)
        if self._wanted:
            # Not at once: what is found at once may be empty, page after page.
            self._link.shared.clock.call_soon(self._ask)

    def _ask(self) -> None:
        if not self._is_asking and self._wanted:
            self._is_asking = True
            wanted, after = self._wanted[0], self._after
            self._link.desk.doors.live.retained(wanted.name_filter, self._on_found, after=after)

    def _on_found(self, found: RetainedPage | RequestRefused) -> None:
        self._is_asking = False
        if not self._wanted:
            return
        if isinstance(found, RequestRefused):
            # Nobody can say what is retained: the subscription holds all the same.
            self._after = None
            self._go_on()
            return
        self._after = found.after
        session = self._link.session
        for each in found.messages:
            if session is not None and min(self._wanted[0].options.qos, each.qos):
                self._to_keep.append(each)
            elif not self._is_over:
                self._page.append(each)
        self._is_keeping = True
        if self._page:
            self._on_news()
        self._keep(session)

    # -- for a session that is kept

    def _keep(self, session: Session | None) -> None:
        """Put the next messages of a page into the session's queue."""
        messages = [] if session is None else self._next_to_keep(session)
        if session is None or not messages:
            self._is_keeping = False
            self._maybe_go_on()
            return

        def on_put(outcome: q.PutResult | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                self._note_lost(len(messages), outcome)
            else:
                self._note_drops(sum(offset < 0 for offset in outcome.offsets))
            self._keep(session)

        put = self._link.desk.doors.queues.put
        put(session.queue.topic_id, messages, PUT_TIMEOUT_MS, on_put)

    def _next_to_keep(self, session: Session) -> Sequence[NewMessage]:
        found: list[NewMessage] = []
        if not self._to_keep:
            # It may have given up: nothing is wanted any more.
            return found
        match = self._wanted[0].match
        size = 0
        while self._to_keep and size <= PUT_BYTES_MAX:
            message = self._to_keep.pop(0)
            topic = topic_of(message.key)
            try:
                kept = publication_of(message, topic or "", client_id="").message
            except BadName:
                topic = None
            if topic is None:
                # MQTT cannot say its name.
                self._note_drops(1)
                continue
            size += message.size
            found.append(as_retained(session, kept, match))
        return found

    def _note_lost(self, count: int, refusal: RequestRefused) -> None:
        self._note_drops(count + len(self._to_keep))
        self._to_keep.clear()
        link = self._link
        if self._is_over:
            # The session may be gone, too.
            self._wanted.clear()
        else:
            link.desk.say(f"retained messages for {link.client_id!r} are not kept: {refusal}")

    def _note_drops(self, count: int) -> None:
        for _ in range(count):
            self._link.desk.note_drop()
