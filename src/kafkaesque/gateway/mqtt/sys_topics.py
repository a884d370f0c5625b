"""`$SYS`: what people look at to see that a broker is alive, as numbers of this broker.

Nothing of it is published: who has subscribed is sent what there is at once, and what has changed
every few seconds. So it costs nothing where nobody looks, and a broker tells about itself only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkaesque import __version__
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.doors.live import LiveMessage
from kafkaesque.broker.listeners import MQTT
from kafkaesque.gateway.mqtt.names import key_of_topic
from kafkaesque.routing.names import NameFilter, levels_of_key

#: What their names begin with; only brokers publish there.
SYS: Final = "$SYS"
SYS_PREFIX: Final = "$SYS/"
UPDATE_MS: Final = 10_000
_ROOT: Final = "$SYS/broker/"

#: Takes a number that has changed.
OnChanged = Callable[[LiveMessage], None]


def is_of_sys(name: str) -> bool:
    """Tell whether a topic or a filter is one of the broker's own."""
    return name == SYS or name.startswith(SYS_PREFIX)


class SysTopics:
    """One broker's."""

    __slots__ = (
        "_begun_ms",
        "_clients",
        "_doors",
        "_is_due",
        "_sent",
        "_watchers",
        "received",
        "sent",
    )

    def __init__(self, doors: Doors, clients: Callable[[], int]) -> None:
        """`clients` says how many are connected."""
        self._doors: Final = doors
        self._clients: Final = clients
        self._begun_ms: Final = doors.clock.now_ms()
        self._watchers: Final[dict[OnChanged, NameFilter]] = {}
        #: What the watchers know, by topic.
        self._sent: dict[str, str] = {}
        self._is_due = False
        #: Messages that clients have published here, and that were sent to them.
        self.received = 0
        self.sent = 0

    def _values(self) -> dict[str, str]:
        doors = self._doors
        uptime_s = (doors.clock.now_ms() - self._begun_ms) // 1_000
        values: dict[str, object] = {
            "version": f"Kafkaesque {__version__}",
            "uptime": f"{uptime_s} seconds",
            "clients/connected": self._clients(),
            "messages/received": self.received,
            "messages/sent": self.sent,
            "publish/messages/dropped": doors.activity.client_drops.get(MQTT, 0),
            "subscriptions/live": doors.live.tally().subscriptions,
        }
        return {_ROOT + name: str(value) for name, value in values.items()}

    def watch(self, name_filter: NameFilter, on_changed: OnChanged) -> None:
        """Have somebody told of the numbers whose names a filter matches."""
        self._watchers[on_changed] = name_filter
        if not self._is_due:
            self._is_due = True
            self._sent = self._values()
            self._doors.clock.call_later(UPDATE_MS, self._update)

    def unwatch(self, on_changed: OnChanged) -> None:
        """Have somebody told no more; harmless if nobody is."""
        self._watchers.pop(on_changed, None)

    def now(self, name_filter: NameFilter) -> list[LiveMessage]:
        """Return the numbers of now whose names a filter matches."""
        messages = [_message(topic, value) for topic, value in self._values().items()]
        return [each for each in messages if name_filter.matches(levels_of_key(each.key))]

    def _update(self) -> None:
        if not self._watchers:
            self._is_due = False
            return
        before, self._sent = self._sent, self._values()
        for topic, value in self._sent.items():
            if before.get(topic) == value:
                continue
            message = _message(topic, value)
            name = levels_of_key(message.key)
            for on_changed, name_filter in list(self._watchers.items()):
                if name_filter.matches(name):
                    on_changed(message)
        self._doors.clock.call_later(UPDATE_MS, self._update)


def _message(topic: str, value: str) -> LiveMessage:
    return LiveMessage(key=key_of_topic(topic), body=value.encode(), is_retained=True, is_text=True)
