"""Retained messages for new subscriptions of one client: a page at a time, as it takes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkaesque.broker.doors.live import Live, LiveMessage, RetainedPage
from kafkaesque.env.clock import Clock
from kafkaesque.gateway.mqtt.subscriptions import Subscribed
from kafkaesque.model.errors import RequestRefused
from kafkaesque.routing.names import NameKey


class RetainedFeed:
    """See the module."""

    __slots__ = (
        "_after",
        "_clock",
        "_is_asking",
        "_is_over",
        "_live",
        "_on_news",
        "_page",
        "_wanted",
    )

    def __init__(self, live: Live, clock: Clock, on_news: Callable[[], None]) -> None:
        """`on_news` is called when there is more to `take`."""
        self._live: Final = live
        self._clock: Final = clock
        self._on_news: Final = on_news
        #: Subscriptions whose messages are not all sent; no more than a client can have.
        self._wanted: Final[list[Subscribed]] = []
        #: Of the first one: what was found, and where to look for more.
        self._page: Final[list[LiveMessage]] = []
        self._after: NameKey | None = None
        self._is_asking = False
        self._is_over = False

    def add(self, subscribed: Subscribed) -> None:
        """Find what is retained for one more subscription."""
        self._wanted.append(subscribed)
        if len(self._wanted) == 1:
            self._ask()

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
        self._is_over = True
        self._page.clear()
        self._wanted.clear()

    def _go_on(self) -> None:
        """Look for the next page of a subscription, or for the first one of the next."""
        if self._after is None:
            self._wanted.pop(0)
        if self._wanted:
            # Not at once: what is found at once may be empty, page after page.
            self._clock.call_soon(self._ask)

    def _ask(self) -> None:
        if not self._is_asking and self._wanted:
            self._is_asking = True
            wanted, after = self._wanted[0], self._after
            self._live.retained(wanted.name_filter, self._on_found, after=after)

    def _on_found(self, found: RetainedPage | RequestRefused) -> None:
        self._is_asking = False
        if self._is_over:
            return
        if isinstance(found, RequestRefused):
            # Nobody can say what is retained: the subscription holds all the same.
            self._after = None
            self._go_on()
            return
        self._after = found.after
        self._page.extend(found.messages)
        if self._page:
            self._on_news()
        else:
            self._go_on()
