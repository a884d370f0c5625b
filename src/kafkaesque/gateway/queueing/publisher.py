"""Brings messages to exchanges, one behind the other.

Before a message is said to have no queue or no exchange, this broker finds out whether it has heard
of all that there is; once for all that has come until then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from kafkaesque.broker.doors.publication import Publication
from kafkaesque.broker.metadata.client_quotas import PRODUCER_BYTE_RATE
from kafkaesque.chassis.amqp.outgoing import Outgoing
from kafkaesque.chassis.meanings import shown_headers
from kafkaesque.gateway.queueing.desk import CURRENT_MS_MAX
from kafkaesque.gateway.queueing.link import QueueingLink
from kafkaesque.model.errors import RequestRefused
from kafkaesque.protocols.amqp.events import Published
from kafkaesque.routing.exchanges.errors import NoSuchExchange
from kafkaesque.routing.exchanges.route import Route
from kafkaesque.routing.message import RoutedMessage

#: What becomes of a message: None: all places that it was routed to have committed it.
OnOutcome = Callable[[RequestRefused | None], None]
#: Which messages of a run are not in all places, and why, by their numbers in it.
OnRunOutcome = Callable[[dict[int, RequestRefused]], None]
#: Called once it is known whether a message has anywhere to go; returns who hears of its outcome.
OnRouted = Callable[[bool], OnOutcome]


class Line(Protocol):
    """Where publishes come from, in order."""

    @property
    def arrived(self) -> int:
        """Events that have come."""

    @property
    def carried(self) -> int:
        """Events that were begun."""

    def begin(self) -> None:
        """What is carried out has to wait for an answer."""

    def go_on_with(self, act: Callable[[], None]) -> None:
        """Go on with what had to wait."""


class Publisher:
    """See the module."""

    __slots__ = ("_idle", "_line", "_link", "_under_way", "known_until")

    def __init__(self, link: QueueingLink, line: Line) -> None:
        self._link: Final = link
        self._line: Final = line
        #: Messages that are on their way, and who waits for there to be none.
        self._under_way = 0
        self._idle: list[Callable[[], None]] = []
        #: The last event of the line at whose coming this broker knew of all that there was.
        self.known_until = 0

    def publish(self, event: Published, outgoing: Outgoing, on_routed: OnRouted) -> None:
        """Route a message and send it on its way.

        Raises:
            RequestRefused: the exchange does not exist, or takes no messages.
        """
        link = self._link
        routed = outgoing.routed(event)
        route = self._route(event, routed)
        if route is None:
            self.find_out(lambda: self.publish(event, outgoing, on_routed))
            return
        has_live = link.desk.doors.exchanges.has_live(link.vhost, route, routed)
        is_routable = has_live or not route.is_unroutable
        if not is_routable and not self._is_known:
            self.find_out(lambda: self.publish(event, outgoing, on_routed))
            return
        link.charge(PRODUCER_BYTE_RATE, len(event.body), route.queues[0] if route.queues else "")
        on_outcome = on_routed(is_routable)
        if is_routable:
            shows = has_live or bool(route.topics)
            self._send(event, outgoing, routed, route, on_outcome, shows_headers=shows)
        else:
            on_outcome(None)

    def publish_run(
        self,
        exchange: str,
        outgoing: Outgoing,
        bodies: Sequence[bytes],
        on_sent: Callable[[], OnRunOutcome],
    ) -> bool:
        """Send messages that say the same on their way; `on_sent` says who hears of them.

        False: nothing is done, and they are to be published one by one: their exchange is not
        known, they have several keys, they go elsewhere than to queues, or there is no room for
        all of them.
        """
        link = self._link
        exchanges = link.desk.doors.exchanges
        if len(outgoing.keys) != 1:
            return False
        route = exchanges.plain_route(link.vhost, exchange, outgoing.keys[0])
        if route is None:
            return False
        messages = outgoing.messages(exchange, bodies)
        count, size = len(messages), sum(map(len, bodies))

        def on_kept(refused: dict[int, RequestRefused]) -> None:
            self._under_way -= count
            link.add_waiting(-count, -size)
            on_outcome(refused)
            self._maybe_idle()

        if not exchanges.send_run(link.vhost, route, messages, on_kept):
            return False
        link.charge(PRODUCER_BYTE_RATE, size, route.queues[0])
        self._under_way += count
        link.add_waiting(count, size)
        on_outcome = on_sent()
        return True

    def refuse(self, event: Published, mistake: Exception | None) -> None:
        """Raise what is wrong with a message; that its exchange is missing comes first."""
        link = self._link
        if link.desk.doors.exchanges.exists(link.vhost, event.exchange):
            if mistake is not None:
                raise mistake
            return
        if self._is_known:
            raise NoSuchExchange(f"no exchange '{event.exchange}' in vhost '{link.vhost}'")
        self.find_out(lambda: self.refuse(event, mistake))

    def _route(self, event: Published, routed: RoutedMessage) -> Route | None:
        """Return where a message goes; None: this broker may not know its exchange yet."""
        try:
            return self._link.desk.doors.exchanges.route(self._link.vhost, event.exchange, routed)
        except NoSuchExchange:
            if self._is_known:
                raise
            return None

    @property
    def _is_known(self) -> bool:
        return self._line.carried <= self.known_until

    def find_out(self, then: Callable[[], None]) -> None:
        """Go on once this broker has heard of all that there was when the last event came."""
        line = self._line
        line.begin()
        until = line.arrived

        def on_current(_: bool) -> None:
            self.known_until = max(self.known_until, until)
            line.go_on_with(then)

        self._link.desk.doors.cluster.when_current(CURRENT_MS_MAX, on_current)

    def _send(
        self,
        event: Published,
        outgoing: Outgoing,
        routed: RoutedMessage,
        route: Route,
        on_outcome: OnOutcome,
        *,
        shows_headers: bool,
    ) -> None:
        link, size = self._link, len(event.body)
        message = outgoing.message(event)
        headers = shown_headers(message.headers) if shows_headers else None
        publication = Publication(routed, message, headers, show=shown_headers)
        self._under_way += 1
        link.add_waiting(1, size)

        def on_kept(outcome: int | RequestRefused) -> None:
            self._under_way -= 1
            link.add_waiting(-1, -size)
            on_outcome(outcome if isinstance(outcome, RequestRefused) else None)
            self._maybe_idle()

        link.desk.doors.exchanges.send(link.vhost, route, publication, on_kept)

    def _maybe_idle(self) -> None:
        if not self._under_way:
            waiting, self._idle = self._idle, []
            for each in waiting:
                each()

    def when_idle(self, on_done: Callable[[], None]) -> None:
        """Call when nothing is on its way."""
        if self._under_way:
            self._idle.append(on_done)
        else:
            on_done()
