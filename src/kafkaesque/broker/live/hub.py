"""Who wants a message now, here and on other brokers, and how it comes to them."""

from collections.abc import Callable
from typing import Final

from kafkaesque.broker.live.fan_out import FanOut
from kafkaesque.broker.live.subscribers import LiveSubscribers, Receiver, Subscription
from kafkaesque.env.clock import Clock
from kafkaesque.routing.live_message import LiveMessage
from kafkaesque.routing.names import NameFilter, NameKey


class LiveHub:
    """The live subscribers of the cluster, as one broker knows them."""

    __slots__ = ("_fan_out", "_subscribers", "dropped")

    def __init__(self, *, clock: Clock) -> None:
        self._subscribers: Final = LiveSubscribers()
        self._fan_out: Final = FanOut(clock)
        #: Messages that somebody wanted and that there was no room for.
        self.dropped = 0

    @property
    def is_busy(self) -> bool:
        """Whether so much waits that publishers should be read no further for now."""
        return self._fan_out.is_busy

    def __len__(self) -> int:
        """How many subscriptions there are on this broker."""
        return len(self._subscribers)

    def subscribe(
        self,
        name_filter: NameFilter,
        receiver: Receiver,
        group: str,
        on_confirmed: Callable[[], None],
    ) -> Subscription:
        """See `Live.subscribe`."""
        made = self._subscribers.add(name_filter, receiver, group, self._on_ended)
        made.is_confirmed = True
        on_confirmed()
        return made

    def _on_ended(self, subscription: Subscription) -> None:
        self._subscribers.remove(subscription)

    def wants(self, key: NameKey) -> bool:
        """Tell whether any live subscriber may want a name."""
        return self._subscribers.wants(key)

    def publish(self, message: LiveMessage) -> bool:
        """Bring a message to all live subscribers; say whether there may be any."""
        copies = self._subscribers.copies(message.key, None)
        if not self._fan_out.add(message, copies):
            self.dropped += 1
        return bool(copies)
