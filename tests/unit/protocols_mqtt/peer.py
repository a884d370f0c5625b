"""A client's side for tests: bytes that clients send, and a broker that answers as it has to."""

from __future__ import annotations

from kafkaesque.protocols.mqtt import packets as p
from kafkaesque.protocols.mqtt.connection import Connection, ConnectionFailed, Event, Limits
from kafkaesque.protocols.mqtt.errors import MqttError
from kafkaesque.protocols.mqtt.exchanges import IncomingExchanges
from kafkaesque.protocols.mqtt.filters import filter_reason
from kafkaesque.protocols.mqtt.packets import Version
from kafkaesque.protocols.mqtt.properties import Properties
from kafkaesque.protocols.mqtt.reasons import ReasonCode
from kafkaesque.protocols.mqtt.states import ConnectionState

#: Few, so that a test can reach them.
LIMITS = Limits(
    packet_bytes_max=1000,
    connect_bytes_max=500,
    client_id_bytes_max=23,
    receive_maximum=2,
    requests_max=3,
    in_flight_max=4,
    topic_alias_maximum=2,
)

#: CONNECT of the client `c`, without and with properties.
CONNECT_3 = bytes.fromhex("10 0d 00044d515454 04 02 0000 0001 63")
CONNECT_5 = bytes.fromhex("10 0e 00044d515454 05 02 0000 00 0001 63")
CONNACK_3 = bytes.fromhex("20 02 00 00")
CONNECTS = {Version.V3_1_1: CONNECT_3, Version.V5: CONNECT_5}


class Broker:
    """Answers what has come at once, and keeps what it has seen and said."""

    def __init__(self, limits: Limits = LIMITS, *, acknowledges: bool = True) -> None:
        self.connection = Connection(0, limits)
        self.incoming = IncomingExchanges()
        #: Whether it answers messages and releases.
        self.acknowledges = acknowledges
        self.events: list[Event] = []
        #: Messages that are new, if their QoS is 2.
        self.delivered: list[p.Publish] = []
        self.sent: list[bytes] = []
        self.error: MqttError | None = None

    def receive(self, data: bytes, now_ms: int = 0) -> bytes:
        """Return what is answered to these bytes."""
        before = len(self.sent)
        events = self.connection.receive(data, now_ms)
        while events:
            self.events += events
            for event in events:
                self._answer(event)
            # What has waited for the answers.
            events = self.connection.receive(b"", now_ms)
        return b"".join(self.sent[before:])

    def tick(self, now_ms: int) -> bytes:
        """Return what is said when so much time has passed."""
        before = len(self.sent)
        for event in self.connection.tick(now_ms):
            self.events.append(event)
            self._answer(event)
        return b"".join(self.sent[before:])

    def reason(self) -> ReasonCode | None:
        """Why the broker has hung up."""
        return None if self.error is None else self.error.reason

    def deadline_ms(self) -> int | None:
        """When it has to look at the time."""
        return self.connection.deadline_ms

    def is_closed(self) -> bool:
        return self.error is not None or any(isinstance(each, p.Disconnect) for each in self.events)

    def _answer(self, event: Event) -> None:
        if isinstance(event, ConnectionFailed):
            self.error = event.error
            self.sent.append(self.connection.fail(event.error))
            return
        if isinstance(event, p.Publish):
            if event.qos < 2 or self.incoming.on_publish(event.packet_id):
                self.delivered.append(event)
        answer = self._answer_of(event)
        if answer is not None:
            self.sent.append(self.connection.send(answer))

    def _answer_of(self, event: p.Packet) -> p.Packet | None:
        if isinstance(event, p.Publish | p.Pubrel) and not self.acknowledges:
            return None
        match event:
            case p.Connect():
                return _connack(event)
            case p.Publish(qos=1):
                return p.Puback(packet_id=event.packet_id)
            case p.Publish(qos=2):
                return p.Pubrec(packet_id=event.packet_id)
            case p.Pubrec():
                # This broker has sent nothing.
                missing = ReasonCode.PACKET_ID_NOT_FOUND
                return p.Pubrel(packet_id=event.packet_id, reason=missing)
            case p.Pubrel():
                reason = self.incoming.on_pubrel(event.packet_id)
                return p.Pubcomp(packet_id=event.packet_id, reason=reason)
            case p.Subscribe():
                reasons = tuple(
                    filter_reason(each.topic_filter) or ReasonCode(each.qos)
                    for each in event.subscriptions
                )
                return p.Suback(packet_id=event.packet_id, reasons=reasons)
            case p.Unsubscribe():
                reasons = (ReasonCode.NO_SUBSCRIPTION_EXISTED,) * len(event.topic_filters)
                return p.Unsuback(packet_id=event.packet_id, reasons=reasons)
            case p.Pingreq():
                return p.Pingresp()
            case p.Auth():
                if self.connection.state is ConnectionState.CONNECTS:
                    return p.Connack(properties=event.properties)
                return p.Auth(properties=event.properties)
        return None


def _connack(event: p.Connect) -> p.Packet:
    method = event.properties.authentication_method
    if method is not None:
        wanted = Properties(authentication_method=method, authentication_data=b"?")
        return p.Auth(reason=ReasonCode.CONTINUE_AUTHENTICATION, properties=wanted)
    is_nameless = event.version is Version.V5 and not event.client_id
    assigned = Properties(assigned_client_identifier="given") if is_nameless else Properties()
    return p.Connack(properties=assigned)


def opened(version: Version, limits: Limits = LIMITS, *, acknowledges: bool = True) -> Broker:
    """Return a broker whose client is let in, with nothing said since."""
    broker = Broker(limits, acknowledges=acknowledges)
    broker.receive(CONNECTS[version])
    broker.events.clear()
    broker.sent.clear()
    return broker
