"""Exchanges of the cluster, from any broker: a publish reaches every queue that it is routed to.

What comes to `amq.topic` of the default virtual host also reaches the live subscribers of its name,
as if they were one more place that it is bound to. Nobody else brings messages to both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kafkaesque.broker.doors.cluster import Cluster
from kafkaesque.broker.doors.exchange_logs import ExchangeLogs, ForQueues, KeptOnce
from kafkaesque.broker.doors.publication import (
    Publication,
    as_live,
    changed,
    chosen_by,
    in_topics,
    more_bytes,
)
from kafkaesque.broker.doors.publish_lanes import PublishLanes, no_room, size_of
from kafkaesque.broker.doors.publishing import Publishing
from kafkaesque.broker.doors.queues import NewMessage, Queues
from kafkaesque.broker.doors.session_messages import SessionMessages
from kafkaesque.broker.doors.tickets import OnKept, OnRunKept, Ticket
from kafkaesque.broker.live.hub import LiveHub
from kafkaesque.broker.metadata.live_options import LiveOptions
from kafkaesque.broker.queues.takers import KnownTakers
from kafkaesque.broker.queues.transforming import places_of
from kafkaesque.broker.requests.commands import ControllerResult
from kafkaesque.broker.requests.exchange_commands import ExchangeCommand
from kafkaesque.env import Env
from kafkaesque.model.errors import RequestRefused, UnknownQueue
from kafkaesque.routing.exchanges.errors import NoSuchExchange, NoSuchVhost
from kafkaesque.routing.exchanges.route import Route, without
from kafkaesque.routing.exchanges.router import Router
from kafkaesque.routing.exchanges.topology import (
    DEFAULT_VHOST,
    NAMES_EXCHANGE,
    Binding,
    Exchange,
    Topology,
    Vhost,
)
from kafkaesque.routing.message import RoutedMessage
from kafkaesque.routing.names import key_of_routing_key

#: A command is done, or refused; called once, maybe at once.
OnOutcome = Callable[[ControllerResult | RequestRefused], None]
#: How many queues and topics have each message, or why it is not in all of them; called once.
OnPublished = Callable[[Sequence[int | RequestRefused]], None]


class Exchanges:
    """What is asked of the controller is committed when it is answered, but this broker may hear of
    it later: `Cluster.when_current` waits for that. Names that nobody has made raise `NoSuchVhost`
    and `NoSuchExchange`. Rights to publish (Write on the exchange) are for gateways to check.
    """

    __slots__ = (
        "_clock",
        "_cluster",
        "_dice",
        "_hub",
        "_lanes",
        "_logs",
        "_options",
        "_queues",
        "_router",
        "_topology",
    )

    def __init__(
        self,
        *,
        env: Env,
        cluster: Cluster,
        queues: Queues,
        publishing: Publishing,
        hub: LiveHub,
        options: LiveOptions,
        session_messages: SessionMessages,
    ) -> None:
        self._hub = hub
        self._options = options
        self._clock = env.clock
        self._dice = env.dice
        self._cluster = cluster
        self._queues = queues
        self._lanes = PublishLanes(
            clock=env.clock, cluster=cluster, queues=queues, publishing=publishing
        )
        self._logs = ExchangeLogs(cluster, self._lanes, options, session_messages)
        self._topology: Topology | None = None
        self._router = Router(Topology())

    # -- what there is, as far as this broker has heard

    def vhosts(self) -> list[str]:
        """Return the names of all virtual hosts."""
        return sorted(self._routing().vhosts)

    def has_vhost(self, vhost: str) -> bool:
        """Tell whether there is a virtual host of a name."""
        return vhost in self._routing().vhosts

    def vhost(self, vhost: str) -> Vhost:
        """Return a virtual host, to be read only.

        Raises:
            NoSuchVhost: there is none of this name.
        """
        return self._routing().vhost(vhost)

    def find(self, vhost: str, name: str) -> Exchange:
        """Return an exchange, to be read only.

        Raises:
            NoSuchVhost, NoSuchExchange: there is none of this name.
        """
        return self._routing().vhost(vhost).exchange(name)

    def exists(self, vhost: str, name: str) -> bool:
        """Tell whether there is an exchange of a name."""
        try:
            self.find(vhost, name)
        except (NoSuchVhost, NoSuchExchange):
            return False
        return True

    def bindings(self, vhost: str) -> list[Binding]:
        """Return all bindings of a virtual host; those of the default exchange are not among them.

        Raises:
            NoSuchVhost: there is none of this name.
        """
        return sorted(self._routing().vhost(vhost).bindings())

    def route(self, vhost: str, exchange: str, message: RoutedMessage) -> Route:
        """Return where a message goes that is published to an exchange; nothing is published.

        A queue that was in the memory of a broker that is gone is not there any more.

        Raises:
            NoSuchVhost, NoSuchExchange: there is none of this name.
            ExchangeInternal: nobody may publish to it.
            BadHeader: the header CC or BCC is not a list of texts, or too long a one.
        """
        if self._topology is not self._cluster.state.routing:
            self._routing()
        route = self._router.route(vhost, exchange, message)
        lost = self._lost_of(vhost, route)
        return without(route, lost) if lost else route

    def _lost_of(self, vhost: str, route: Route) -> list[str]:
        """Return the queues of a route that are gone with a broker."""
        named = self._cluster.state.queues_by_vhost.get(vhost, {})
        queues = self._queues
        return [
            name
            for name in (*route.queues, *route.delayed_queues)
            if (queue := named.get(name)) is not None
            and queue.home is not None
            and queues.is_lost(queue)
        ]

    def plain_route(self, vhost: str, exchange: str, key: str) -> Route | None:
        """Return the route of all messages of a key if it leads to queues alone, else None.

        Not all are known: `route` finds them.
        """
        routing = self._cluster.state.routing
        if self._topology is not routing or vhost not in routing.vhosts:
            return None
        route = self._router.known_route(vhost, exchange, key)
        if route is None or not route.queues or route.topics or route.transformed or route.log:
            return None
        if self._lost_of(vhost, route):
            return None
        if route.has_names and vhost == DEFAULT_VHOST and self._hub.wants(key_of_routing_key(key)):
            return None
        return route

    def has_live(self, vhost: str, route: Route, message: RoutedMessage) -> bool:
        """Tell whether a route leads to live subscribers, as far as this broker has heard."""
        return (
            route.has_names
            and vhost == DEFAULT_VHOST
            and self._hub.wants(key_of_routing_key(message.key))
        )

    @property
    def has_names_bound(self) -> bool:
        """Whether anything is bound to the exchange of names that live subscribers share."""
        exchange = self._routing().vhost(DEFAULT_VHOST).exchanges[NAMES_EXCHANGE]
        return bool(exchange.bindings)

    # -- what the controller is asked

    def submit(self, command: ExchangeCommand, timeout_ms: int, on_done: OnOutcome) -> None:
        """Have the controller carry out a command, wherever it is; see `ControllerClient`.

        Refusals, with AMQP's codes: `NoSuchVhost`, `NoSuchExchange`, `NoSuchQueue` and
        `NoSuchTopic` (404), `ExchangeReserved` and `NotAuthorized` (403), `UnknownExchangeKind`
        (503), `InequivalentExchange`, `BadArgument` and `ExchangeInUse` (406), `InvalidRequest`
        (the queue is a cursor over a topic: 406), `OverBound`.

        A binding is answered when all living brokers route by it; see `Cluster.submit`.
        """
        self._cluster.submit(command, timeout_ms, on_done)

    # -- publishing

    def publish(
        self,
        vhost: str,
        exchange: str,
        publications: Sequence[Publication],
        timeout_ms: int,
        on_done: OnPublished,
    ) -> None:
        """Publish messages; `on_done` may be called at once.

        A number says that so many queues and topics have the message, committed, and one more if it
        was given to live subscribers, who promise nothing; 0 that nobody wants it. After a refusal
        some of them may have it, or all. Messages that go to the same queue come there in the
        order of the calls, whoever makes them on this broker; those that a topic keeps, in the
        order of those that this topic keeps.

        Refusals: those of `route`; `OverBound` where too much is on its way, or a queue is full;
        `RequestTimedOut`, `LeaderNotAvailable`, and what else a queue or a topic may say.
        """
        counting = _Counting(len(publications), on_done)
        for number, each in enumerate(publications):
            try:
                route = self.route(vhost, exchange, each.routed)
            except RequestRefused as refusal:
                counting.settle(number, refusal)
                continue
            self.send(vhost, route, each, counting.taker(number))
        counting.begin()

    def send(self, vhost: str, route: Route, publication: Publication, on_kept: OnKept) -> None:
        """Publish one message by the route that `route` has found in this turn; see `publish`.

        `on_kept` may be called at once.
        """
        if route.transformed:
            self._send_changed(vhost, route, publication, on_kept)
            return
        queues = self._cluster.state.queues_by_vhost.get(vhost, {})
        message = publication.message
        kept = self._logs.find(route, queues, size_of(message), publication.stored_in)
        if kept is not None:
            self._send_logged(kept, vhost, route, publication, on_kept)
            return
        topics = [each for each in enumerate(route.topics) if each[1] != publication.stored_in]
        total = len(route.queues) + len(route.delayed_queues) + len(topics)
        if route.has_names and vhost == DEFAULT_VHOST and self._give_to_live(publication):
            on_kept = _one_more(on_kept)
        ticket = self._lanes.open(total, message, on_kept)
        if ticket is None:
            return
        same = [message]
        copies = [(queues[name], same) for name in route.queues]
        if route.delayed_queues:
            later = [message._replace(not_before_ms=self._clock.wall_ms() + route.delay_ms)]
            copies += [(queues[name], later) for name in route.delayed_queues]
        self._logs.copy(copies, ticket)
        if topics:
            sent = in_topics(publication)
            for number, topic in topics:
                self._lanes.to_topic(topic, sent, ticket, chosen_by(route, number, publication))

    def _send_logged(
        self, kept: KeptOnce, vhost: str, route: Route, publication: Publication, on_kept: OnKept
    ) -> None:
        """Send a message that a topic keeps for its queues."""
        log, referring = kept
        named = self._cluster.state.queues_by_vhost.get(vhost, {})
        later_ms = self._clock.wall_ms() + route.delay_ms
        message = publication.message
        queues = ForQueues(
            [message],
            [referring[name] for name in route.queues if name in referring],
            [referring[name] for name in route.delayed_queues if name in referring],
            later_ms,
        )
        same = [message]
        copies = [(named[name], same) for name in route.queues if name not in referring]
        late = [name for name in route.delayed_queues if name not in referring]
        if late:
            later = [message._replace(not_before_ms=later_ms)]
            copies += [(named[name], later) for name in late]
        topics = [
            each
            for each in enumerate(route.topics)
            if each[1] not in (publication.stored_in, log.name)
        ]
        if route.has_names and vhost == DEFAULT_VHOST and self._give_to_live(publication):
            on_kept = _one_more(on_kept)
        others = len(copies) + len(topics)
        total = 1 + queues.places + others
        in_log = in_topics(publication) if route.log else message
        ticket = self._logs.keep(log, [in_log], queues, others, _one_of(on_kept, total))
        if ticket is None:
            on_kept(no_room())
            return
        self._logs.copy(copies, ticket)
        sent = in_topics(publication) if topics else message
        for number, topic in topics:
            self._lanes.to_topic(topic, sent, ticket, chosen_by(route, number, publication))

    def send_run(
        self, vhost: str, route: Route, messages: list[NewMessage], on_kept: OnRunKept
    ) -> bool:
        """Publish messages by the route that `plain_route` has found in this turn; see `publish`.

        `on_kept` is told once of all that are not in all queues. False: there is no room for all,
        and nothing is done.
        """
        named = self._cluster.state.queues_by_vhost.get(vhost, {})
        kept = None
        if route.has_names:
            kept = self._logs.find(route, named, max(map(size_of, messages)))
        referring = {} if kept is None else kept.queues
        copies = [(named[name], messages) for name in route.queues if name not in referring]
        ticket: Ticket | None
        if kept is None:
            ticket = self._lanes.open_run(len(copies), messages, on_kept)
        else:
            queues = ForQueues(messages, list(referring.values()))
            ticket = self._logs.keep(kept.topic, messages, queues, len(copies), on_kept)
        if ticket is None:
            return False
        self._logs.copy(copies, ticket)
        return True

    def _send_changed(
        self, vhost: str, route: Route, publication: Publication, on_kept: OnKept
    ) -> None:
        """Send a message that transformations change for some places."""
        message = publication.message
        try:
            takers = KnownTakers(self._cluster.state, vhost, self._options.values)
            found = places_of(route, self.vhost(vhost), message, takers)
        except RequestRefused as refusal:
            on_kept(refusal)
            return
        places = [
            each
            for each in found
            if not (each.destination.is_topic and each.destination.name == publication.stored_in)
        ]
        if route.has_names and vhost == DEFAULT_VHOST and self._give_to_live(publication):
            on_kept = _one_more(on_kept)
        sent = [changed(publication, each) for each in places]
        largest = max(map(size_of, sent), default=0)
        held = size_of(message) + more_bytes([each.content for each in places], message)
        ticket = self._lanes.open(len(places), message, on_kept, largest=largest, held=held)
        if ticket is None:
            return
        queues = self._cluster.state.queues_by_vhost.get(vhost, {})
        later_ms, copies = self._clock.wall_ms() + route.delay_ms, []
        for each, place in zip(sent, places, strict=True):
            name = place.destination.name
            if place.destination.is_topic:
                chosen = chosen_by(route, route.topics.index(name), publication)
                self._lanes.to_topic(name, each, ticket, chosen)
            elif place.is_delayed:
                copies.append((queues[name], [each._replace(not_before_ms=later_ms)]))
            else:
                copies.append((queues[name], [each]))
        self._logs.copy(copies, ticket)

    def _give_to_live(self, publication: Publication) -> bool:
        """Give a message to live subscribers; say whether there may be any."""
        live = publication.live
        if live is not None:
            return self._hub.publish(live)
        key = key_of_routing_key(publication.routed.key)
        if not self._hub.wants(key):
            return False
        return self._hub.publish(as_live(publication, key))

    # -- the topology of now

    def _routing(self) -> Topology:
        routing = self._cluster.state.routing
        if self._topology is not routing:
            # Nothing was there yet, or a snapshot has taken its place.
            routing.serve(self._dice, self._leads)
            self._topology, self._router = routing, Router(routing)
        return routing

    def _leads(self, vhost: str, queue: str) -> bool:
        found = self._cluster.state.queues_by_vhost.get(vhost, {}).get(queue)
        if found is None:
            raise UnknownQueue(f"no queue '{queue}' in vhost '{vhost}'")
        leader, node = self._cluster.leaders.leader, self._cluster.node
        return any(leader(each.group) == node for each in found.partitions)


def _one_of(on_kept: OnKept, total: int) -> OnRunKept:
    """Have a run of one message, which goes to so many places, tell of it."""
    return lambda refused: on_kept(refused.get(0, total))


def _one_more(on_kept: OnKept) -> OnKept:
    """Have live subscribers count as one more place."""

    def on_counted(outcome: int | RequestRefused) -> None:
        on_kept(outcome if isinstance(outcome, RequestRefused) else outcome + 1)

    return on_counted


class _Counting:
    """What becomes of the messages of one call."""

    __slots__ = ("_left", "_on_done", "_results")

    def __init__(self, count: int, on_done: OnPublished) -> None:
        self._results: list[int | RequestRefused] = [0] * count
        self._left = count + 1
        self._on_done = on_done

    def taker(self, number: int) -> OnKept:
        return lambda outcome: self.settle(number, outcome)

    def settle(self, number: int, outcome: int | RequestRefused) -> None:
        self._results[number] = outcome
        self.begin()

    def begin(self) -> None:
        """All are on their way, or one has arrived."""
        self._left -= 1
        if not self._left:
            self._on_done(self._results)
