"""Live publish and subscribe: who is connected now gets what is published now.

Names are those of `routing/names.py`, and one space for MQTT, STOMP, NATS and the exchange
`amq.topic` of the default virtual host: what is published here reaches the queues and topics that
are bound to it, and what is published there reaches the subscribers here.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from kafkaesque.broker.doors.exchanges import Exchanges
from kafkaesque.broker.doors.publication import Publication
from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.broker.live.hub import LiveHub
from kafkaesque.broker.live.retained_log import OnFound, OnRetained, RetainedLog, RetainedPage
from kafkaesque.broker.live.subscribers import Receiver, Subscription
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import NodeId
from kafkaesque.routing.exchanges.topology import DEFAULT_VHOST, NAMES_EXCHANGE
from kafkaesque.routing.live_message import (
    LiveMessage,
    Origin,
    record_headers,
    routing_key_of,
)
from kafkaesque.routing.message import RoutedMessage
from kafkaesque.routing.names import NameFilter, NameKey

#: So long queues and topics may take to commit a message.
PUBLISH_TIMEOUT_MS: Final = 30_000

#: In how many places a message is, or why it is not in all of them; called once.
OnPublished = Callable[[int | RequestRefused], None]

__all__ = [
    "Live",
    "LiveMessage",
    "LiveTally",
    "OnFound",
    "OnPublished",
    "OnRetained",
    "Origin",
    "Receiver",
    "RetainedPage",
    "Subscription",
]


class LiveTally(NamedTuple):
    """What one broker has done."""

    #: That there are now.
    subscriptions: int
    #: Messages that were published through it and that live subscribers may want.
    published: int
    #: Copies that its subscribers have got.
    given: int
    #: Messages that somebody may have wanted and did not get, for want of room or of a link.
    dropped: int


class Live:
    """Live subscribers get a message at most once, in the order of one publisher's calls.

    What is published after a subscription was confirmed reaches it, from whatever broker, unless
    its receiver drops it, or brokers cannot reach one another for long: that is counted. Rights
    are for gateways to check.
    """

    __slots__ = ("_connections", "_exchanges", "_hub", "_node", "_retained")

    def __init__(
        self, *, node: NodeId, hub: LiveHub, exchanges: Exchanges, retained: RetainedLog
    ) -> None:
        self._node = node
        self._hub = hub
        self._exchanges = exchanges
        self._retained = retained
        self._connections = 0

    def new_origin(self, protocol: str) -> Origin:
        """Return what a new connection is called in the messages that it publishes.

        The first one has this broker ask the others what their subscribers want.
        """
        self._hub.begin()
        self._connections += 1
        return Origin(protocol, self._node, self._connections)

    @property
    def is_busy(self) -> bool:
        """Whether so much waits to be given out that publishers should be read no further."""
        return self._hub.is_busy

    def tally(self) -> LiveTally:
        """Return what this broker has done since its start."""
        hub = self._hub
        return LiveTally(
            subscriptions=len(hub), published=hub.published, given=hub.given, dropped=hub.dropped
        )

    # -- subscribing

    def subscribe(
        self,
        name_filter: NameFilter,
        receiver: Receiver,
        on_confirmed: Callable[[], None],
        *,
        group: str = "",
    ) -> Subscription:
        """Have a receiver get what is published to names that a filter matches, until `end`.

        `on_confirmed` is called once, maybe at once, when all living brokers know of it; not if it
        was ended before. A message that several of a receiver's subscriptions want comes in one
        call with all of them. Messages that come before it is confirmed are given to it, too.

        Of all subscriptions in the cluster that share a group's name and want a message one gets
        it, on this broker if possible. Names of groups of two protocols should not meet: let them
        begin with the protocol's name; where groups go by their filters, let that be part of it.

        Raises:
            OverBound: this broker has too many subscriptions, or too many groups.
        """
        return self._hub.subscribe(name_filter, receiver, group, on_confirmed)

    # -- publishing

    def publish(
        self, message: LiveMessage, on_done: OnPublished | None = None, *, stored_in: str = ""
    ) -> bool:
        """Give a message to live subscribers, and to what is bound to `amq.topic`.

        `stored_in` names a topic that has it already, and does not get it by a binding.

        Returns whether anybody may want it, as far as this broker has heard: False is certain but
        for what was subscribed or bound elsewhere and is not confirmed yet.

        `on_done` is called once, maybe at once: with the number of queues and topics that have
        committed it, and one more if live subscribers were given it, who promise nothing; or with
        why it is not everywhere, after which some may have it. `RequestTimedOut` and refusals as
        of `Exchanges.publish`.
        """
        exchanges = self._exchanges
        if not exchanges.has_names_bound:
            is_wanted = self._hub.publish(message)
            if on_done is not None:
                on_done(int(is_wanted))
            return is_wanted
        return self._publish_to_bound(message, on_done, stored_in)

    def publish_run(self, messages: Sequence[LiveMessage]) -> None:
        """Publish several messages of one connection in their order, as `publish` does each."""
        if not self._exchanges.has_names_bound:
            self._hub.publish_run(messages)
            return
        for each in messages:
            self._publish_to_bound(each, None, "")

    def _publish_to_bound(
        self, message: LiveMessage, on_done: OnPublished | None, stored_in: str
    ) -> bool:
        exchanges = self._exchanges
        publication = _publication(message)._replace(stored_in=stored_in)
        try:
            route = exchanges.route(DEFAULT_VHOST, NAMES_EXCHANGE, publication.routed)
        except RequestRefused as refusal:
            if on_done is not None:
                on_done(refusal)
            return True
        is_wanted = not route.is_unroutable or self.wants(message.key)
        exchanges.publish(
            DEFAULT_VHOST,
            NAMES_EXCHANGE,
            (publication,),
            PUBLISH_TIMEOUT_MS,
            lambda outcomes: on_done(outcomes[0]) if on_done is not None else None,
        )
        return is_wanted

    def wants(self, key: NameKey) -> bool:
        """Tell whether any live subscriber may want a name, as far as this broker has heard."""
        return self._hub.wants(key)

    # -- retained messages

    def retain(self, message: LiveMessage, on_done: OnRetained) -> None:
        """Keep a message as its name's last one in the cluster; an empty body clears the name.

        It is published to nobody by this. `on_done` is called once, maybe at once: with None when
        it is committed, or with a refusal, after which nothing was kept but for `RequestTimedOut`,
        where nobody knows. Refusals: `MessageTooLarge`, `OverBound`, `LeaderNotAvailable`. Of one
        name the messages that come through one broker are kept in the order of the calls.
        """
        self._retained.retain(message, on_done)

    def retained(
        self, name_filter: NameFilter, on_found: OnFound, *, after: NameKey | None = None
    ) -> None:
        """Find the retained messages of all names that a filter matches, a page at a time.

        `on_found` is called once, maybe at once, with a page or with `LeaderNotAvailable`. What was
        committed before the first page was asked for is found, but for names that are cleared
        meanwhile, and messages whose life has ended. Ask for the next page with the page's `after`,
        when there is room for it; a page may be empty and not the last one.
        """
        self._retained.retained(name_filter, after, on_found)


def _publication(message: LiveMessage) -> Publication:
    """Return a message as exchanges and queues see it."""
    headers = record_headers(message)
    routing_key = routing_key_of(message.key)
    texts = {
        name: None if value is None else value.decode("utf-8", "surrogateescape")
        for name, value in reversed(message.headers)
    }
    routed = RoutedMessage(key=routing_key, headers=texts, body=message.body)
    # Who reads a queue has to know under which name a message was published.
    key = routing_key.encode("utf-8", "surrogateescape")
    kept = NewMessage(message.body, key, headers, not_after_ms=message.expires_ms)
    return Publication(routed, kept, live=message)
