"""paho-mqtt, unchanged, over a pair of sockets: what it writes we read, and the other way round."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import paho.mqtt.client as paho
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties as PahoProperties
from paho.mqtt.subscribeoptions import SubscribeOptions

from kafkaesque.protocols.mqtt import packets as p
from kafkaesque.protocols.mqtt.connection import Limits
from kafkaesque.protocols.mqtt.packets import Version
from kafkaesque.protocols.mqtt.properties import IN_PUBLISH, Properties
from kafkaesque.protocols.mqtt.publish_path import PublishVariant, flags_of
from kafkaesque.protocols.mqtt.reasons import ReasonCode
from tests.property.test_mqtt_codec import properties, topics
from tests.unit.protocols_mqtt.peer import Broker

V3, V5 = Version.V3_1_1, Version.V5
#: Our names of properties, and paho's.
NAMES = {
    "payload_format_indicator": "PayloadFormatIndicator",
    "message_expiry_interval_s": "MessageExpiryInterval",
    "content_type": "ContentType",
    "response_topic": "ResponseTopic",
    "correlation_data": "CorrelationData",
    "session_expiry_interval_s": "SessionExpiryInterval",
    "receive_maximum": "ReceiveMaximum",
    "user_properties": "UserProperty",
}
#: Without those that a client must not send, and those that paho has its own way with.
MESSAGE = IN_PUBLISH - {0x0B, 0x23}
payloads = st.binary(max_size=300)


class Client(paho.Client):
    """paho's client, connected to whatever is at the other end of a pair of sockets."""

    def __init__(self, version: Version, **options: Any) -> None:
        super().__init__(
            CallbackAPIVersion.VERSION2, client_id="c", protocol=MQTTProtocolVersion(version)
        )
        self.ours, self.theirs = socket.socketpair()
        self.received: list[paho.MQTTMessage] = []
        self.on_message = lambda client, data, message: self.received.append(message)
        self.codes: list[Any] = []
        self.on_subscribe = lambda client, data, mid, codes, properties: self.codes.append(codes)

    def _create_socket(self) -> socket.socket:
        return self.theirs

    def take(self) -> bytes:
        """Return what it has written."""
        while self.want_write():
            self.loop_write()
        self.ours.setblocking(False)
        try:
            return self.ours.recv(1 << 20)
        except BlockingIOError:
            return b""

    def give(self, raw: bytes) -> None:
        """Let it read."""
        self.ours.sendall(raw)
        for _ in range(20):
            self.loop_read()


@contextmanager
def session(version: Version, **options: Any) -> Iterator[tuple[Client, Broker]]:
    client, broker = Client(version), Broker(Limits())
    client.connect("nowhere", keepalive=60, **options)
    client.give(broker.receive(client.take()))
    assert client.is_connected()
    broker.events.clear()
    try:
        yield client, broker
    finally:
        client.ours.close()
        client.theirs.close()
        client._sock = None


def translated(found: Properties, packet_type: int) -> PahoProperties:
    """Paho's properties that say the same."""
    made = PahoProperties(packet_type)
    for ours, theirs in NAMES.items():
        value = getattr(found, ours)
        if value not in (None, ()):
            setattr(made, theirs, list(value) if ours == "user_properties" else value)
    return made


def said(found: PahoProperties | None) -> dict[str, Any]:
    """What paho's properties say, by our names."""
    values = {ours: getattr(found, theirs, None) for ours, theirs in NAMES.items()}
    values["user_properties"] = tuple(values["user_properties"] or ())
    return values


def only(broker: Broker) -> p.Packet:
    (event,) = broker.events
    assert isinstance(event, p.Packet)
    return event


@pytest.mark.parametrize("version", list(Version))
@given(data=st.data())
def test_what_paho_publishes_is_read(version: Version, data: st.DataObject) -> None:
    found = data.draw(properties(MESSAGE, version))
    topic, payload = data.draw(topics), data.draw(payloads)
    qos, retain = data.draw(st.integers(0, 2)), data.draw(st.booleans())
    with session(version) as (client, broker):
        theirs = translated(found, PacketTypes.PUBLISH) if version is V5 else None
        info = client.publish(topic, payload, qos, retain, theirs)
        client.give(broker.receive(client.take()))
        event = only(broker)
        assert event == p.Publish(
            topic=topic,
            payload=payload,
            qos=qos,
            retain=retain,
            packet_id=info.mid if qos else 0,
            properties=found,
        )
        if qos == 2:
            client.give(broker.receive(client.take()))
            assert broker.events[1:] == [p.Pubrel(packet_id=info.mid)]
        assert info.is_published()


@pytest.mark.parametrize("version", list(Version))
@given(data=st.data())
def test_what_we_publish_paho_reads(version: Version, data: st.DataObject) -> None:
    found = data.draw(properties(MESSAGE, version))
    topic, payload = data.draw(topics), data.draw(payloads)
    qos, retain = data.draw(st.integers(0, 2)), data.draw(st.booleans())
    with session(version) as (client, broker):
        variant = PublishVariant(version, topic, payload, found)
        raw = broker.connection.publish(variant, flags_of(qos, retain=retain), 7 if qos else 0)
        assert raw is not None
        client.give(raw)
        broker.receive(client.take())
        if qos == 2:
            assert broker.events == [p.Pubrec(packet_id=7)]
            client.give(broker.connection.send(p.Pubrel(packet_id=7)))
            broker.receive(client.take())
            assert broker.events[1:] == [p.Pubcomp(packet_id=7)]
        elif qos == 1:
            assert broker.events == [p.Puback(packet_id=7)]
        (message,) = client.received
        assert (message.topic, message.payload) == (topic, payload)
        assert (message.qos, message.retain) == (qos, retain)
        if version is V5:
            assert said(message.properties) == said(translated(found, PacketTypes.PUBLISH))


@given(
    filters=st.lists(st.sampled_from(("a", "a/#", "+/b", "#", "$share/g/a")), min_size=1),
    qos=st.integers(0, 2),
    no_local=st.booleans(),
    as_published=st.booleans(),
    handling=st.integers(0, 2),
)
def test_subscriptions(
    filters: list[str], qos: int, no_local: bool, as_published: bool, handling: int
) -> None:
    is_local = no_local and not any(each.startswith("$share") for each in filters)
    options = SubscribeOptions(qos, is_local, as_published, handling)
    with session(V5) as (client, broker):
        _, packet_id = client.subscribe([(each, options) for each in filters])
        client.give(broker.receive(client.take()))
        assert only(broker) == p.Subscribe(
            packet_id=packet_id or 0,
            subscriptions=tuple(
                p.Subscription(
                    topic_filter=each,
                    qos=qos,
                    no_local=is_local,
                    retain_as_published=as_published,
                    retain_handling=handling,
                )
                for each in filters
            ),
        )
        assert [[code.value for code in codes] for codes in client.codes] == [[qos] * len(filters)]


@pytest.mark.parametrize("version", list(Version))
def test_the_other_packets(version: Version) -> None:
    with session(version) as (client, broker):
        client.subscribe("a", 1)
        client.unsubscribe(["a", "b"])
        client._send_pingreq()
        client.give(broker.receive(client.take()))
        client.disconnect()
        broker.receive(client.take())
        assert [type(event) for event in broker.events] == [
            p.Subscribe,
            p.Unsubscribe,
            p.Pingreq,
            p.Disconnect,
        ]


def test_a_connect_with_all_that_there_is() -> None:
    client, broker = Client(V5), Broker(Limits())
    will = Properties(content_type="t", user_properties=(("a", "b"), ("a", "c")))
    client.username_pw_set("user", "password")
    client.will_set("w", b"gone", 2, True, translated(will, PacketTypes.WILLMESSAGE))
    wanted = Properties(session_expiry_interval_s=100, receive_maximum=5)
    client.connect(
        "nowhere",
        keepalive=7,
        clean_start=False,
        properties=translated(wanted, PacketTypes.CONNECT),
    )
    broker.receive(client.take())
    assert broker.connection.connect == p.Connect(
        client_id="c",
        clean_start=False,
        keep_alive_s=7,
        will=p.Will(topic="w", payload=b"gone", qos=2, retain=True, properties=will),
        user_name="user",
        password=b"password",
        properties=wanted,
    )
    client.ours.close()
    client.theirs.close()
    client._sock = None


@pytest.mark.parametrize(
    ("version", "reason", "code"),
    [(V3, ReasonCode.NOT_AUTHORIZED, 0x87), (V5, ReasonCode.BANNED, 0x8A)],
)
def test_paho_hears_why_it_is_refused(version: Version, reason: ReasonCode, code: int) -> None:
    client, broker = Client(version), Broker(Limits())
    heard: list[int] = []
    client.on_connect = lambda client, data, flags, reason, properties: heard.append(reason.value)
    client.connect("nowhere")
    broker.connection.receive(client.take(), 0)
    client.give(broker.connection.close(reason))
    assert heard == [code]
    client.ours.close()
    client.theirs.close()
    client._sock = None
