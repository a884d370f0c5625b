"""Retained messages for new subscriptions of one client, a page at a time, for it to take.

A session that is kept gets those of QoS 1 and 2 from its queue (`retained_keeping.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkaesque.broker.doors.live import LiveMessage, RetainedPage
from kafkaesque.gateway.mqtt.ports import MqttLink
from kafkaesque.gateway.mqtt.subscriptions import SUBSCRIPTIONS_MAX, Subscribed
from kafkaesque.model.errors import RequestRefused
from kafkaesque.routing.names import NameKey


class RetainedFeed:
    """See the module."""

    __slots__ = (
        "_after",
        "_is_asking",
        "_link",
        "_on_news",
        "_page",
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
        self._after: NameKey | None = None
        self._is_asking = False

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
        if not self._page:
            self._go_on()

    def end(self) -> None:
        """The client is gone."""
        self._page.clear()
        self._wanted.clear()

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
        self._page.extend(each for each in found.messages if not self._is_kept(each))
        if self._page:
            self._on_news()
        else:
            self._go_on()

    def _is_kept(self, message: LiveMessage) -> bool:
        """Whether the session's queue has a message, or is about to have it."""
        has_queue = self._link.session is not None
        return has_queue and min(self._wanted[0].options.qos, message.qos) > 0
