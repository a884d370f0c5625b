"""Sends a run of messages of a session's queue: what they have in common is looked at once."""

from __future__ import annotations

from typing import Final

from kafkaesque.broker.metadata.client_quotas import CONSUMER_BYTE_RATE
from kafkaesque.gateway.mqtt.feed import Taken
from kafkaesque.gateway.mqtt.messages import Kept
from kafkaesque.gateway.mqtt.ports import MqttLink
from kafkaesque.gateway.mqtt.sent_as import Sent
from kafkaesque.gateway.mqtt.subscriptions import Match
from kafkaesque.protocols.mqtt.exchanges import OutgoingExchanges
from kafkaesque.protocols.mqtt.publish_path import flags_of

#: Flags of a message of QoS 1.
_PLAIN: Final = flags_of(1)
_RETAINED: Final = flags_of(1, retain=True)


class Sending:
    """Sends a run of messages of a session's queue, as `Delivering` sends each of them.

    What such a run mostly has is looked at once for all: QoS 1, a client that reads what it is
    sent and has all rights, messages without an end of life. Whatever else there is, it leaves.
    """

    __slots__ = (
        "_begin",
        "_count",
        "_deliver",
        "_encoded",
        "_is_plain",
        "_left",
        "_link",
        "_now_ms",
        "_publish",
        "_size",
        "_taken",
        "_under_way",
        "_version",
    )

    def __init__(
        self, link: MqttLink, under_way: OutgoingExchanges, taken: dict[int, Sent]
    ) -> None:
        """Take, by packet id, what is under way and what is to be settled: both are changed."""
        self._link: Final = link
        self._now_ms: Final = link.shared.clock.wall_ms()
        self._is_plain: Final = link.rights is None
        # What is looked up for each message otherwise.
        self._encoded: Final = link.desk.encoded
        self._version: Final = link.codec.version
        self._publish: Final = link.codec.publish
        self._deliver: Final = link.deliver
        self._under_way: Final = under_way
        self._begin: Final = under_way.try_begin
        self._taken: Final = taken
        self._count = 0
        self._size = 0
        #: How many bytes more the client may be sent; less than 0: nothing.
        self._left = -1

    def look(self, *, has_to_wait: bool) -> None:
        """Look how much the client may be sent; called before the first, and after others' sends.

        With `has_to_wait` it is nothing.
        """
        self._left = self._link.room_bytes if self._is_plain and not has_to_wait else -1

    def send(self, kept: Kept, match: Match, taken: Taken, packet_id: int) -> bool:
        """Send a message; False: it is not for this one to send."""
        message = kept.message
        if self._left < 0 or message.expires_ms:
            return False
        is_retained = False
        if match.qos != 1 or message.qos != 1 or match.as_published:
            if min(match.qos, message.qos) != 1:
                return False
            is_retained = match.as_published and message.is_retained
            match = Match(1, is_retained, match.identifiers)
        variant = kept.variant(self._encoded, self._version, self._now_ms)
        # First the id: what is published may give the client an alias for the topic.
        if variant is None or not self._begin(packet_id):
            return False
        raw = self._publish(variant, _RETAINED if is_retained else _PLAIN, packet_id, match[2])
        if raw is None:
            self._under_way.on_puback(packet_id)
            return False
        self._deliver(raw)
        self._count += 1
        self._size += len(raw)
        self._left -= len(raw)
        self._taken[packet_id] = Sent(taken, message.key, match)
        return True

    def end(self) -> None:
        """Count what was sent."""
        if self._count:
            self._link.desk.sys_topics.sent += self._count
            self._link.charge(CONSUMER_BYTE_RATE, self._size)
