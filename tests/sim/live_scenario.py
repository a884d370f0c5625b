"""A simulated cluster with live subscribers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafkaesque.broker.doors.live import Live, LiveMessage, RetainedPage, Subscription
from kafkaesque.broker.doors.live import Receiver as LiveReceiver
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.exchange_commands import BindDestination
from kafkaesque.model.errors import RequestRefused
from kafkaesque.routing.exchanges.records import Destination
from kafkaesque.routing.names import MQTT, NameKey
from kafkaesque.sim.options import SimOptions
from tests.sim.queue_scenario import TIMEOUT_MS, QueueScenario


class Receiver(LiveReceiver):
    """Keeps what it gets."""

    def __init__(self) -> None:
        self.messages: list[LiveMessage] = []
        #: For each message: the filters that wanted it.
        self.wanted_by: list[list[str]] = []
        self.subscriptions: list[Subscription] = []

    def on_message(self, message: LiveMessage, subscriptions: Sequence[Subscription]) -> None:
        self.messages.append(message)
        self.wanted_by.append([filter_text(each) for each in subscriptions])

    @property
    def bodies(self) -> list[bytes]:
        return [each.body for each in self.messages]

    def end(self) -> None:
        for each in self.subscriptions:
            each.end()


def filter_text(subscription: Subscription) -> str:
    return MQTT.write_filters(subscription.name_filter)[0]


def message(topic: str, body: bytes = b"", **fields: Any) -> LiveMessage:
    return LiveMessage(key=MQTT.key_of(topic), body=body, **fields)


class LiveScenario(QueueScenario):
    """Brokers, and receivers at each."""

    def __init__(
        self, seed: int = 1, *, brokers: int = 3, sim_options: SimOptions | None = None
    ) -> None:
        super().__init__(seed, brokers=brokers, sim_options=sim_options)

    def ready(self) -> list[str]:
        """Return the machines whose brokers take clients."""
        brokers = self.cluster.brokers
        running = [name for name in self.running() if name in brokers]
        return [name for name in running if brokers[name].life.is_ready]

    def live(self, broker: str = "") -> Live:
        return self.broker(broker or self.running()[0]).doors.live

    def begin(
        self, *topics: str, receiver: Receiver | None = None, group: str = "", broker: str = ""
    ) -> Receiver:
        """Return a receiver with subscriptions that may not be confirmed yet."""
        found = receiver or Receiver()
        for topic in topics:
            made = self.live(broker).subscribe(
                MQTT.read_filter(topic), found, lambda: None, group=group
            )
            found.subscriptions.append(made)
        return found

    def subscribe(
        self, *topics: str, receiver: Receiver | None = None, group: str = "", broker: str = ""
    ) -> Receiver:
        """Return a receiver whose subscriptions are confirmed."""
        found = self.begin(*topics, receiver=receiver, group=group, broker=broker)
        self.loop.run_until(
            lambda: all(each.is_confirmed for each in found.subscriptions), TIMEOUT_MS
        )
        return found

    def publish(self, message: LiveMessage, broker: str = "") -> int | RequestRefused:
        """Publish a message, and return the outcome."""
        outcomes: list[int | RequestRefused] = []
        self.live(broker).publish(message, outcomes.append)
        self.loop.run_until(lambda: outcomes != [], 4 * TIMEOUT_MS)
        (outcome,) = outcomes
        return outcome

    # -- retained messages

    def retain(self, message: LiveMessage, broker: str = "") -> RequestRefused | None:
        """Retain a message, and return the outcome."""
        outcomes: list[RequestRefused | None] = []
        self.live(broker).retain(message, outcomes.append)
        self.loop.run_until(lambda: outcomes != [], 4 * TIMEOUT_MS)
        (outcome,) = outcomes
        return outcome

    def retained(self, topic_filter: str, broker: str = "") -> list[LiveMessage]:
        """Return all retained messages that a filter matches, page by page."""
        found: list[LiveMessage] = []
        after: NameKey | None = None
        name_filter = MQTT.read_filter(topic_filter)
        while True:
            pages: list[RetainedPage | RequestRefused] = []
            self.live(broker).retained(name_filter, pages.append, after=after)
            self.loop.run_until(lambda: pages != [], 4 * TIMEOUT_MS)  # noqa: B023
            (page,) = pages
            assert isinstance(page, RetainedPage), page
            found += page.messages
            after = page.after
            if after is None:
                return found

    # -- queues

    def bind(self, queue: str, key: str, source: str = "amq.topic") -> None:
        """Make a queue, and bind it."""
        self.create(queue)
        self.submit(
            BindDestination(
                vhost=DEFAULT_VHOST, source=source, destination=Destination(queue), key=key
            )
        )
        self.loop.run_until(
            lambda: all(
                self.broker(name).state.routing == self.any().state.routing
                for name in self.running()
            ),
            TIMEOUT_MS,
        )

    def drained(self, queue: str) -> list[q.QueueMessage]:
        """Take and settle all messages of a queue."""
        found: list[q.QueueMessage] = []
        while taken := self.take(500, name=queue, wait_ms=200):
            found += taken
            assert self.done(*taken, name=queue) == []
        return found
