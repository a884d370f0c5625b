"""MQTT's codec: round trips, any cut of the input, and nothing but errors of the protocol."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.protocols.mqtt import packets as p
from kafkaesque.protocols.mqtt import reasons as r
from kafkaesque.protocols.mqtt.errors import MqttError
from kafkaesque.protocols.mqtt.filters import filter_reason, is_topic_filter, read_shared
from kafkaesque.protocols.mqtt.frames import FrameReader
from kafkaesque.protocols.mqtt.packet_codec import read_packet, write_packet
from kafkaesque.protocols.mqtt.packets import Version
from kafkaesque.protocols.mqtt.properties import (
    IN_ACK,
    IN_AUTH,
    IN_CONNACK,
    IN_CONNECT,
    IN_DISCONNECT,
    IN_PUBLISH,
    IN_SUBSCRIBE,
    IN_UNSUBSCRIBE,
    IN_WILL,
    NO_PROPERTIES,
    Properties,
    read_properties,
    write_properties,
)
from kafkaesque.protocols.mqtt.reasons import ReasonCode
from kafkaesque.protocols.mqtt.wire import VARINT_MAX, read_varint, write_varint
from kafkaesque.routing.errors import BadName
from kafkaesque.routing.names import MQTT
from tests.unit.protocols_mqtt.peer import LIMITS, Broker, opened

V3, V5 = Version.V3_1_1, Version.V5
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=10)
topics = st.text("ab/$é", min_size=1, max_size=8)
binaries = st.binary(max_size=10)
u16s = st.integers(1, 0xFFFF)
u32s = st.integers(1, 0xFFFFFFFF)
bits = st.integers(0, 1)

#: By identifier: what the field may hold.
VALUES: dict[int, tuple[str, st.SearchStrategy[Any]]] = {
    0x01: ("payload_format_indicator", bits),
    0x02: ("message_expiry_interval_s", u32s),
    0x03: ("content_type", texts),
    0x08: ("response_topic", topics),
    0x09: ("correlation_data", binaries),
    0x0B: ("subscription_identifiers", st.tuples(st.integers(1, VARINT_MAX))),
    0x11: ("session_expiry_interval_s", u32s),
    0x12: ("assigned_client_identifier", texts),
    0x13: ("server_keep_alive_s", u16s),
    0x15: ("authentication_method", texts),
    0x16: ("authentication_data", binaries),
    0x17: ("request_problem_information", bits),
    0x18: ("will_delay_interval_s", u32s),
    0x19: ("request_response_information", bits),
    0x1A: ("response_information", texts),
    0x1C: ("server_reference", texts),
    0x1F: ("reason_string", texts),
    0x21: ("receive_maximum", u16s),
    0x22: ("topic_alias_maximum", u16s),
    0x23: ("topic_alias", u16s),
    0x24: ("maximum_qos", bits),
    0x25: ("retain_available", bits),
    0x26: ("user_properties", st.lists(st.tuples(texts, texts), min_size=1, max_size=3).map(tuple)),
    0x27: ("maximum_packet_size_bytes", u32s),
    0x28: ("wildcard_subscription_available", bits),
    0x29: ("subscription_identifier_available", bits),
    0x2A: ("shared_subscription_available", bits),
}


@st.composite
def properties(draw: st.DrawFn, allowed: frozenset[int], version: Version = V5) -> Properties:
    if version is not V5:
        return NO_PROPERTIES
    chosen = draw(st.sets(st.sampled_from(sorted(allowed)), max_size=4))
    values = {VALUES[each][0]: draw(VALUES[each][1]) for each in chosen}
    if "authentication_data" in values and "authentication_method" not in values:
        del values["authentication_data"]
    return Properties(**values)


def reasons(allowed: frozenset[ReasonCode], version: Version = V5) -> st.SearchStrategy[ReasonCode]:
    return st.sampled_from(sorted(allowed)) if version is V5 else st.just(ReasonCode.SUCCESS)


@st.composite
def connects(draw: st.DrawFn, version: Version) -> p.Connect:
    user_name = draw(st.none() | texts)
    will = None
    if draw(st.booleans()):
        will = p.Will(
            topic=draw(topics),
            payload=draw(binaries),
            qos=draw(st.integers(0, 2)),
            retain=draw(st.booleans()),
            properties=draw(properties(IN_WILL, version)),
        )
    return p.Connect(
        version=version,
        client_id=draw(texts),
        clean_start=draw(st.booleans()),
        keep_alive_s=draw(st.integers(0, 0xFFFF)),
        will=will,
        user_name=user_name,
        password=draw(st.none() | binaries) if version is V5 or user_name is not None else None,
        properties=draw(properties(IN_CONNECT, version)),
    )


@st.composite
def publishes(draw: st.DrawFn, version: Version) -> p.Publish:
    qos = draw(st.integers(0, 2))
    found = draw(properties(IN_PUBLISH, version))
    may_be_empty = found.topic_alias is not None
    return p.Publish(
        topic=draw(topics | st.just("") if may_be_empty else topics),
        payload=draw(st.binary(max_size=200)),
        qos=qos,
        retain=draw(st.booleans()),
        dup=draw(st.booleans()) if qos else False,
        packet_id=draw(u16s) if qos else 0,
        properties=found,
    )


@st.composite
def subscriptions(draw: st.DrawFn, version: Version) -> p.Subscription:
    if version is not V5:
        return p.Subscription(topic_filter=draw(texts), qos=draw(st.integers(0, 2)))
    return p.Subscription(
        topic_filter=draw(texts.filter(lambda text: not text.startswith("$share/"))),
        qos=draw(st.integers(0, 2)),
        no_local=draw(st.booleans()),
        retain_as_published=draw(st.booleans()),
        retain_handling=draw(st.integers(0, 2)),
    )


def acks(kind: type[p.Acknowledgement], version: Version) -> st.SearchStrategy[p.Packet]:
    is_release = kind in (p.Pubrel, p.Pubcomp)
    allowed = r.RELEASE_REASONS if is_release else r.RECEIPT_REASONS
    return st.builds(
        kind,
        packet_id=u16s,
        reason=reasons(allowed, version),
        properties=properties(IN_ACK, version),
    )


def packets(version: Version) -> st.SearchStrategy[p.Packet]:
    is_v5 = version is V5
    connack = st.sampled_from(sorted(r.CONNACK_REASONS if is_v5 else [*r._REASONS]))
    suback = sorted(r.SUBACK_REASONS) if is_v5 else [ReasonCode(code) for code in (0, 1, 2, 0x80)]
    codes = st.lists(st.sampled_from(suback), min_size=1, max_size=3).map(tuple)
    unsuback = st.lists(reasons(r.UNSUBACK_REASONS), max_size=3 if is_v5 else 0).map(tuple)
    lists = st.lists(subscriptions(version), min_size=1, max_size=3).map(tuple)
    filters = st.lists(texts, min_size=1, max_size=3).map(tuple)
    found = [
        connects(version),
        publishes(version),
        *(acks(kind, version) for kind in (p.Puback, p.Pubrec, p.Pubrel, p.Pubcomp)),
        st.builds(p.Connack, reason=connack, properties=properties(IN_CONNACK, version)),
        st.builds(p.Connack, session_present=st.booleans()),
        st.builds(
            p.Subscribe,
            packet_id=u16s,
            subscriptions=lists,
            properties=properties(IN_SUBSCRIBE, version),
        ),
        st.builds(p.Suback, packet_id=u16s, reasons=codes, properties=properties(IN_ACK, version)),
        st.builds(
            p.Unsubscribe,
            packet_id=u16s,
            topic_filters=filters,
            properties=properties(IN_UNSUBSCRIBE, version),
        ),
        st.builds(
            p.Unsuback, packet_id=u16s, reasons=unsuback, properties=properties(IN_ACK, version)
        ),
        st.just(p.Pingreq()),
        st.just(p.Pingresp()),
        st.builds(
            p.Disconnect,
            reason=reasons(r.DISCONNECT_REASONS, version),
            properties=properties(IN_DISCONNECT, version),
        ),
    ]
    if is_v5:
        found.append(
            st.builds(p.Auth, reason=reasons(r.AUTH_REASONS), properties=properties(IN_AUTH))
        )
    return st.one_of(found)


def read_all(raw: bytes, version: Version) -> list[p.Packet]:
    reader = FrameReader(1 << 28)
    reader.feed(raw)
    found = []
    while (frame := reader.next_packet()) is not None:
        found.append(read_packet(*frame, version))
    assert reader.kept_bytes == 0
    return found


@given(value=st.integers(0, VARINT_MAX))
def test_lengths_round_trip(value: int) -> None:
    raw = write_varint(value)
    assert read_varint(raw, 0) == (value, len(raw))
    assert len(raw) == 1 + sum(value >= 1 << bits for bits in (7, 14, 21))


@given(found=properties(frozenset(VALUES)))
def test_properties_round_trip(found: Properties) -> None:
    raw = write_properties(found)
    assert read_properties(raw, 0, frozenset(VALUES)) == (found, len(raw))


@pytest.mark.parametrize("version", list(Version))
@given(data=st.data())
def test_packets_round_trip(version: Version, data: st.DataObject) -> None:
    sent = data.draw(st.lists(packets(version), min_size=1, max_size=3))
    assert read_all(b"".join(write_packet(each, version) for each in sent), version) == sent


@pytest.mark.parametrize("version", list(Version))
@given(data=st.data())
def test_a_packet_that_is_cut_or_changed_is_read_or_refused(
    version: Version, data: st.DataObject
) -> None:
    raw = bytearray(write_packet(data.draw(packets(version)), version))
    for _ in range(data.draw(st.integers(0, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    first, *body = raw[: data.draw(st.integers(1, len(raw)))]
    try:
        read_packet(first, bytes(body[1:]), version)
    except MqttError:
        return


@pytest.mark.parametrize("version", list(Version))
@given(data=st.data())
def test_cuts_change_nothing(version: Version, data: st.DataObject) -> None:
    """Of what clients send, and what they should not."""
    sent = data.draw(st.lists(packets(version), min_size=1, max_size=6))
    raw = bytearray(b"".join(write_packet(each, version) for each in sent))
    if data.draw(st.booleans()):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    whole = opened(version)
    answer = whole.receive(bytes(raw))
    cut = opened(version)
    found = b""
    at = 0
    while at < len(raw):
        size = data.draw(st.integers(1, len(raw) - at))
        found += cut.receive(bytes(raw[at : at + size]))
        at += size
    assert found == answer
    assert [str(event) for event in cut.events] == [str(event) for event in whole.events]


@given(raw=st.binary(max_size=60), beginning=st.sampled_from((b"", b"\x10", b"\x10\x0d\0\4MQTT\4")))
def test_strangers_are_refused_or_waited_for(raw: bytes, beginning: bytes) -> None:
    broker = Broker()
    broker.receive(beginning + raw)
    kept = broker.connection._frames.kept_bytes
    assert kept <= LIMITS.connect_bytes_max


@given(sizes=st.lists(st.integers(1, 300), max_size=20))
def test_what_is_kept_has_a_bound(sizes: list[int]) -> None:
    """A packet that never ends: after its bound nothing is kept, and nothing is read."""
    broker = opened(V5)
    broker.receive(b"\x30" + write_varint(LIMITS.packet_bytes_max - 3))
    for size in sizes:
        broker.receive(b"\0" * size)
        assert broker.connection._frames.kept_bytes <= LIMITS.packet_bytes_max


@given(text=st.text("ab/+#$", max_size=8))
def test_filters_are_those_that_routing_takes(text: str) -> None:
    try:
        MQTT.read_filter(text)
        is_taken = True
    except BadName:
        is_taken = False
    assert is_topic_filter(text) is is_taken


@given(group=st.text("ab$", max_size=3), topic_filter=st.text("ab/+#", max_size=6))
def test_shared_filters(group: str, topic_filter: str) -> None:
    found = read_shared(f"$share/{group}/{topic_filter}")
    is_valid = group != "" and is_topic_filter(topic_filter)
    assert found == ((group, topic_filter) if is_valid else None)
    reason = filter_reason(f"$share/{group}/{topic_filter}")
    assert reason.is_error is not is_valid
