"""SUBSCRIBE, UNSUBSCRIBE, ACK and NACK of one connection."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from kafkaesque.access.operations import Operation
from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.requests.exchange_commands import (
    BindDestination,
    ExchangeCommand,
    UnbindDestination,
)
from kafkaesque.gateway.queueing.needs import Need, has
from kafkaesque.gateway.queueing.publisher import Publisher
from kafkaesque.gateway.queueing.settlements import FAIL, REJECT, SETTLE, Delivery, Settlements
from kafkaesque.gateway.stomp.destinations import Destination, Kind, read_destination
from kafkaesque.gateway.stomp.ports import StompLink, to_exchange, to_queue
from kafkaesque.gateway.stomp.queues import Queues, durable_name
from kafkaesque.gateway.stomp.subscription import ACK_SEPARATOR, Subscription
from kafkaesque.gateway.stomp.topic_queues import Bind, TopicQueues
from kafkaesque.model.errors import RequestRefused
from kafkaesque.protocols.stomp.errors import StompError
from kafkaesque.protocols.stomp.events import (
    AckMode,
    Acknowledged,
    AcknowledgedRun,
    Subscribed,
    Unsubscribed,
)
from kafkaesque.protocols.stomp.frames import Headers
from kafkaesque.routing.exchanges.kinds import FILTER
from kafkaesque.routing.exchanges.records import Destination as BoundTo

PREFETCH: Final = ("prefetch-count", "activemq.prefetchSize")
SELECTOR: Final = "selector"
#: What makes a subscription durable: RabbitMQ's words, and ActiveMQ's name for one.
DURABLE: Final = ("durable", "persistent")
SUBSCRIPTION_NAME: Final = ("activemq.subscriptionName", "durable-subscription-name")
PREFETCH_MAX: Final = 65_535
#: Of a subscription's number; no connection opens more.
_NUMBER_DIGITS_MAX: Final = 15

_Then = Callable[[], None]


class _HeldBySubscriptions(Settlements):
    """What clients say, of all subscriptions of a connection."""

    __slots__ = ("_subscriptions",)

    def __init__(self, link: StompLink, subscriptions: dict[int, Subscription]) -> None:
        super().__init__(link.desk)
        self._subscriptions: Final = subscriptions

    def held(self) -> Iterable[Delivery]:
        """See `Settlements`."""
        return (each for found in self._subscriptions.values() for each in found.held.values())


class Subscribing:
    """See the module."""

    __slots__ = (
        "_all",
        "_ids",
        "_implicit",
        "_link",
        "_number",
        "_publisher",
        "_queues",
        "_topic_queues",
        "_turn",
        "settlements",
    )

    def __init__(self, link: StompLink, publisher: Publisher, queues: Queues) -> None:
        self._link: Final = link
        self._publisher: Final = publisher
        self._queues: Final = queues
        self._topic_queues: Final = TopicQueues(link, queues)
        #: Those that are open, and those whose messages the client still has, by number.
        self._all: Final[dict[int, Subscription]] = {}
        #: The number of the one that was opened last under an id.
        self._ids: Final[dict[str, int]] = {}
        #: Those to temporary queues that nobody has asked for: SEND has named them for answers.
        self._implicit: Final[dict[str, int]] = {}
        self._number = 0
        self._turn = 0
        self.settlements: Final = _HeldBySubscriptions(link, self._all)

    @property
    def unacked_count(self) -> int:
        """See `Owner`."""
        return sum(len(each.held) for each in self._all.values())

    def open_ones(self) -> list[Subscription]:
        """Return those that a client has opened and not closed, in their order."""
        return [self._all[number] for number in self._ids.values() if number in self._all]

    # -- SUBSCRIBE

    def subscribe(self, event: Subscribed, then: _Then) -> None:
        """Open a subscription; `then` is called when messages come.

        Raises:
            StompError: it is not as it has to be, or no rule allows it.
        """
        destination = read_destination(event.destination)
        prefetch = _prefetch_of(event.headers)
        if destination.kind is Kind.EXCHANGE:
            self._bind(event, destination, prefetch, then)
            return
        if _header(event.headers, SELECTOR):
            raise StompError(
                "selector: a queue gives its messages to whoever comes; bind a queue of the "
                "subscription's, by /topic or /exchange, to choose among messages"
            )
        need = to_queue(Operation.READ, destination.name) if destination.is_queue else None
        if need is not None:
            self._link.check(need)

        def on_open() -> None:
            self._end_implicit(event.destination)
            then()

        begin = partial(self._attach, event, prefetch, need, on_open)
        self._queues.find(destination, event.headers, begin, is_read=True)

    def _bind(
        self, event: Subscribed, destination: Destination, prefetch: int, then: _Then
    ) -> None:
        """Open a subscription with a queue of its own."""
        link = self._link
        need = to_exchange(Operation.READ, destination.exchange)
        link.check(need)
        link.check_key(Operation.READ, destination.exchange, destination.name)
        exchanges = link.desk.doors.exchanges
        if exchanges.exists(link.vhost, destination.exchange):
            self._bind_found(event, destination, prefetch, need, then)
            return

        def look_again() -> None:
            exchanges.find(link.vhost, destination.exchange)
            self._bind_found(event, destination, prefetch, need, then)

        self._publisher.find_out(look_again)

    def _bind_found(
        self, event: Subscribed, destination: Destination, prefetch: int, need: Need, then: _Then
    ) -> None:
        begin = partial(self._attach, event, prefetch, need, then)
        wanted = self._binding_of(event, destination)

        def bind(queue: QueueState) -> None:
            commands = self._changes_to(wanted(BoundTo(queue.queue.name)))
            self._change_routing(commands, lambda: begin(queue))

        name = self._durable_name(event.subscription_id, event.headers)
        if name is None:
            self._topic_queues.get(event, wanted, begin)
        else:
            self._queues.find_durable(name, event.headers, bind)

    def _binding_of(self, event: Subscribed, destination: Destination) -> Bind:
        selector = _header(event.headers, SELECTOR)
        arguments: dict[str, object] = {FILTER: selector} if selector else {}

        def bind(queue: BoundTo) -> BindDestination:
            return BindDestination(
                vhost=self._link.vhost,
                source=destination.exchange,
                destination=queue,
                key=destination.name,
                arguments=arguments,
            )

        return bind

    def look_ahead(self, events: Iterable[Subscribed]) -> None:
        """Have the queues of the frames made that follow the one that is carried out."""
        self._topic_queues.make_ahead(events, self._bind_ahead)

    def _bind_ahead(self, event: Subscribed) -> Bind | None:
        """Return what binds a frame's own queue; None: it has none, or is to wait for its turn."""
        link = self._link
        try:
            destination = read_destination(event.destination)
        except StompError:
            return None
        if (
            destination.kind is not Kind.EXCHANGE
            or self._durable_name(event.subscription_id, event.headers) is not None
            or (link.rights is not None and link.rights.limits_keys)
            or not has(link, to_exchange(Operation.READ, destination.exchange))
            or not link.desk.doors.exchanges.exists(link.vhost, destination.exchange)
        ):
            return None
        return self._binding_of(event, destination)

    def _durable_name(self, subscription_id: str, headers: Headers) -> str | None:
        named = next((each for name in SUBSCRIPTION_NAME if (each := _header(headers, name))), None)
        is_durable = any(_is_true(headers, name) for name in DURABLE)
        if named is None and not is_durable:
            return None
        return durable_name(self._link.client_id, named or subscription_id)

    def _changes_to(self, wanted: BindDestination) -> list[ExchangeCommand]:
        """Return what makes a binding the only one of its queue.

        A durable subscription may have been opened in another way before.
        """
        changes: list[ExchangeCommand] = [wanted]
        for each in self._link.desk.doors.exchanges.bindings(self._link.vhost):
            if each.destination != wanted.destination:
                continue
            arguments = dict(each.arguments)
            if (each.source, each.key, arguments) == (wanted.source, wanted.key, wanted.arguments):
                changes.remove(wanted)
                continue
            gone = UnbindDestination(
                vhost=wanted.vhost,
                source=each.source,
                destination=each.destination,
                key=each.key,
                arguments=arguments,
            )
            changes.append(gone)
        return changes

    def _change_routing(self, commands: list[ExchangeCommand], then: _Then) -> None:
        if not commands:
            then()
            return
        link = self._link
        first, *others = commands

        def on_changed(refusal: RequestRefused | None) -> None:
            if refusal is not None:
                raise refusal
            self._change_routing(others, then)

        link.begin()
        link.desk.change_routing(
            first, lambda refusal: link.go_on_with(lambda: on_changed(refusal))
        )

    def _attach(
        self,
        event: Subscribed,
        prefetch: int,
        need: Need | None,
        then: _Then,
        queue: QueueState,
    ) -> None:
        self._number += 1
        number = self._number
        subscription = Subscription(
            self,
            self._link,
            self.settlements,
            queue,
            subscription_id=event.subscription_id,
            number=number,
            mode=event.ack_mode,
            prefetch=prefetch,
            need=need,
            exchange=read_destination(event.destination).exchange,
        )
        link = self._link

        def on_attached(refusal: RequestRefused | None) -> None:
            if refusal is not None:
                subscription.is_over = True
                raise refusal
            if link.is_closed:
                subscription.end(is_failed=False)
                # A mistake behind it is told when all before it is done.
                then()
                return
            self._all[number] = subscription
            self._ids[event.subscription_id] = number
            then()

        link.begin()
        subscription.attach(lambda refusal: link.go_on_with(lambda: on_attached(refusal)))

    # -- answers to a temporary queue

    def subscribe_to_answers(self, text: str, queue: QueueState, then: _Then) -> None:
        """Send what comes to a temporary queue that a message names for its answer."""
        if text in self._implicit or any(
            each.queue.topic_id == queue.topic_id and not each.is_over
            for each in self._all.values()
        ):
            then()
            return
        event = Subscribed(
            subscription_id=text, destination=text, ack_mode=AckMode.AUTO, headers=()
        )

        def on_open() -> None:
            self._implicit[text] = self._number
            then()

        self._attach(event, 0, None, on_open, queue)

    def _end_implicit(self, text: str) -> None:
        number = self._implicit.pop(text, None)
        if number is not None:
            subscription = self._all.pop(number)
            self._ids.pop(subscription.id, None)
            subscription.end(is_failed=False)

    # -- UNSUBSCRIBE

    def unsubscribe(self, event: Unsubscribed, then: _Then) -> None:
        """Close a subscription; what the client has of it may still be acknowledged.

        What was said of its messages is sent on before this is called.
        """
        link = self._link
        number = self._ids.pop(event.subscription_id, None)
        subscription = None if number is None else self._all.get(number)
        if subscription is None or number is None:
            # Its queue is gone.
            then()
            return
        if not subscription.held:
            del self._all[number]
        is_forgotten = (
            self._durable_name(subscription.id, event.headers) == subscription.queue.queue.name
        )
        link.begin()

        def on_ended() -> None:
            if is_forgotten:
                link.desk.delete_queue(subscription.queue, lambda: link.go_on_with(then))
            else:
                link.go_on_with(then)

        subscription.cancel(on_ended)

    def on_queue_deleted(self, subscription: Subscription) -> None:
        """See `Owner`: nothing more can come, and the client has to hear of it."""
        if self._ids.get(subscription.id) is not None and not self._link.is_closed:
            name = subscription.queue.queue.name
            self._link.fail(
                StompError(f"the queue '{name}' of the subscription {subscription.id} was deleted")
            )

    # -- ACK and NACK

    def check(self, event: Acknowledged) -> None:
        """Check that the client has the message.

        Raises:
            StompError: it has none of this id.
        """
        self._find(event.ack_id, event.subscription_id)

    def settle(self, event: Acknowledged) -> None:
        """Say of messages what becomes of them, with the next `flush` of `settlements`.

        Raises:
            StompError: the client has no message of this id.
        """
        subscription, message_id = self._find(event.ack_id, event.subscription_id)
        kind = SETTLE
        if not event.is_positive:
            kind = FAIL if event.is_requeued else REJECT
        for delivery in subscription.take(message_id):
            self.settlements.settle(delivery, kind)
        self._maybe_forget(subscription)

    def settle_run(self, run: AcknowledgedRun) -> None:
        """Say of messages that they are done with, with the next `flush` of `settlements`.

        Raises:
            StompError: the client has no message of an id; those before it are done with.
        """
        done: list[Delivery] = []
        seen: dict[int, Subscription] = {}
        try:
            for number, ack_id in enumerate(run.ack_ids):
                try:
                    subscription, message_id = self._find(ack_id, run.subscription_id)
                except StompError as mistake:
                    mistake.receipt_id = run.receipts[number]
                    raise
                seen[subscription.number] = subscription
                done += subscription.take(message_id)
        finally:
            self.settlements.settle_all(done)
            for subscription in seen.values():
                self._maybe_forget(subscription)

    def _maybe_forget(self, subscription: Subscription) -> None:
        if subscription.is_over and not subscription.held:
            self._all.pop(subscription.number, None)

    def _find(self, ack_id: str, wanted: str | None) -> tuple[Subscription, str]:
        """Return a message that the client has, and its subscription: `wanted`, if it is said."""
        number, dot, message_id = ack_id.partition(ACK_SEPARATOR)
        is_number = number.isascii() and number.isdigit() and len(number) <= _NUMBER_DIGITS_MAX
        if dot and is_number:
            found = self._all.get(int(number))
            if found is not None and message_id in found.held:
                return found, message_id
        for each in self._all.values():
            if ack_id in each.held and wanted in (None, each.id):
                return each, ack_id
        raise StompError(f"no message waits for the acknowledgement '{ack_id[:100]}'")

    # -- turns, and the end

    def go_on(self) -> None:
        """Ask for messages where the client may have more; each time another one comes first."""
        if not self._all:
            return
        self._turn += 1
        found = list(self._all.values())
        first = self._turn % len(found)
        for each in found[first:] + found[:first]:
            each.go_on()

    def end(self) -> None:
        """Give back what the client has."""
        found = list(self._all.values())
        self._all.clear()
        self._ids.clear()
        self.settlements.flush()
        for each in found:
            each.end(is_failed=True)


def _header(headers: Headers, name: str) -> str | None:
    return next((value for each, value in headers if each == name), None)


def _is_true(headers: Headers, name: str) -> bool:
    return (_header(headers, name) or "").lower() == "true"


def _prefetch_of(headers: Headers) -> int:
    """Return how many messages a client may have unacknowledged; 0: any number.

    Raises:
        StompError: it is no number.
    """
    for name in PREFETCH:
        text = _header(headers, name)
        if text is None:
            continue
        if not (text.isascii() and text.isdigit() and len(text) <= 9):
            raise StompError(f"{name} is no number: '{text[:40]}'")
        return min(int(text), PREFETCH_MAX)
    return 0
