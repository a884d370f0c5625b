"""A client's will: what is published when it is gone without a farewell; once, or never."""

from __future__ import annotations

from typing import Final

from kafkaesque.chassis.client_facts import WillFact
from kafkaesque.gateway.mqtt.authorization import may_publish
from kafkaesque.gateway.mqtt.messages import read_publish
from kafkaesque.gateway.mqtt.ports import MqttLink
from kafkaesque.gateway.mqtt.publishing import publish
from kafkaesque.gateway.mqtt.sessions import session_of
from kafkaesque.model.errors import RequestRefused
from kafkaesque.protocols.mqtt.packets import Will
from kafkaesque.routing.errors import BadName


class Testament:
    """One connection's."""

    __slots__ = ("_link", "_will")

    def __init__(self, link: MqttLink) -> None:
        self._link: Final = link
        self._will: Will | None = None

    def keep(self, will: Will | None) -> None:
        """The client is let in: this is its will from now on."""
        self._will = will

    def describe(self) -> WillFact | None:
        """Return what is published if the connection is lost now."""
        will = self._will
        if will is None:
            return None
        delay_s = will.properties.will_delay_interval_s or 0
        return WillFact(will.topic, will.qos, will.retain, delay_s, will.payload)

    def cancel(self) -> None:
        """The client has taken its leave (3.14.4-3)."""
        self._will = None

    def execute(self, expiry_s: int) -> None:
        """The connection is gone, and its session is kept for so long."""
        will, self._will = self._will, None
        if will is None:
            return
        delay_s = min(will.properties.will_delay_interval_s or 0, expiry_s)
        if not delay_s:
            self._publish(will)
            return
        self._link.shared.clock.call_later(1_000 * delay_s, lambda: self._publish_unless_back(will))

    def _publish_unless_back(self, will: Will) -> None:
        """Publish it, unless the client has gone on with its session meanwhile (3.1.3-9)."""
        session = self._link.session
        if session is not None:
            queue = self._link.desk.look(session.queue.queue.name)
            record = None if queue is None else session_of(queue)
            is_same = queue is not None and queue.topic_id == session.queue.topic_id
            if is_same and record is not None and record.owner != session.record.owner:
                return
        self._publish(will)

    def _publish(self, will: Will) -> None:
        link = self._link
        if link.is_revoked or not may_publish(link, will.topic):
            # It may be long since CONNECT that this was asked.
            link.desk.say(f"the will of the client {link.client_id!r} is not allowed any more")
            return

        def on_done(outcome: int | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                link.desk.say(f"the will of the client {link.client_id!r} is not kept: {outcome}")

        now_ms = link.shared.clock.wall_ms()
        try:
            message = read_publish(will, link.origin_of, now_ms)
            publish(link, message, will.topic, on_done, finds_out=True)
        except BadName as error:
            link.desk.say(f"the will of the client {link.client_id!r} has no topic: {error}")
