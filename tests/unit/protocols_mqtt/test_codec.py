"""What brokers send: read as clients read it, and refused where it cannot be written."""

from __future__ import annotations

import pytest

from kafkaesque.model.errors import InvariantBroken
from kafkaesque.protocols.mqtt import packets as p
from kafkaesque.protocols.mqtt.connection import Connection
from kafkaesque.protocols.mqtt.errors import MqttError
from kafkaesque.protocols.mqtt.packet_codec import read_packet, write_packet
from kafkaesque.protocols.mqtt.packets import Version
from kafkaesque.protocols.mqtt.properties import (
    IN_PUBLISH,
    PROPERTIES_MAX,
    Properties,
    read_properties,
    write_properties,
)
from kafkaesque.protocols.mqtt.publish_path import PublishVariant
from kafkaesque.protocols.mqtt.reasons import ReasonCode
from kafkaesque.protocols.mqtt.wire import VARINT_MAX, read_varint, write_text, write_varint

V3, V5 = Version.V3_1_1, Version.V5


@pytest.mark.parametrize(
    ("packet", "version"),
    [
        (p.Connack(reason=ReasonCode.BANNED, session_present=True), V5),
        (p.Connack(reason=ReasonCode.SESSION_TAKEN_OVER), V3),
        (p.Auth(), V3),
        (
            p.Subscribe(
                packet_id=1, subscriptions=(p.Subscription(topic_filter="a", no_local=True),)
            ),
            V3,
        ),
        (p.Publish(topic="a", payload=b"", qos=1), V5),
        (p.Publish(topic="a", payload=b"", packet_id=1), V5),
        (p.Publish(topic="a" * 65_536, payload=b""), V5),
        (p.Disconnect(properties=Properties(session_expiry_interval_s=2**32)), V5),
    ],
)
def test_what_cannot_be_written(packet: p.Packet, version: Version) -> None:
    with pytest.raises(ValueError, match=r"."):
        write_packet(packet, version)


@pytest.mark.parametrize(
    ("raw", "version"),
    [
        ("20 02 02 00", V3),
        ("20 03 02 00 00", V5),
        ("20 02 00 06", V3),
        ("20 03 00 01 00", V5),
        ("b0 03 0001 00", V3),
        ("90 04 0001 00 92", V5),
        ("d0 01 00", V3),
    ],
)
def test_what_no_broker_may_send(raw: str, version: Version) -> None:
    first, _, *body = bytes.fromhex(raw)
    with pytest.raises(MqttError):
        read_packet(first, bytes(body), version)


@pytest.mark.parametrize("raw", ["80 00", "80 80 80 80", "ff ff ff ff 7f"])
def test_lengths_that_are_malformed(raw: str) -> None:
    with pytest.raises(MqttError):
        read_varint(bytes.fromhex(raw), 0)


def test_bounds_of_what_is_written() -> None:
    with pytest.raises(ValueError, match="above"):
        write_varint(VARINT_MAX + 1)
    with pytest.raises(ValueError, match="65535"):
        write_text("a" * 65_536)
    with pytest.raises(ValueError, match="at most"):
        PublishVariant(V3, "a", bytes(VARINT_MAX)).write(0)


def test_properties_have_a_bound() -> None:
    most = Properties(user_properties=(("a", "b"),) * PROPERTIES_MAX)
    assert read_properties(write_properties(most), 0, IN_PUBLISH)[0] == most
    more = Properties(user_properties=(("a", "b"),) * (PROPERTIES_MAX + 1))
    with pytest.raises(MqttError, match="more than"):
        read_properties(write_properties(more), 0, IN_PUBLISH)


def test_a_connection_of_which_nothing_is_known() -> None:
    with pytest.raises(InvariantBroken):
        _ = Connection(0).connect


def test_a_client_without_an_id_has_to_be_given_one() -> None:
    connection = Connection(0)
    connection.receive(write_packet(p.Connect(), V5), 0)
    with pytest.raises(InvariantBroken):
        connection.send(p.Connack())


@pytest.mark.parametrize("version", [V3, V5])
def test_a_copy_is_the_same_whatever_was_copied_before(version: Version) -> None:
    shared = PublishVariant(version, "a/b", b"body")
    made_of = [(0, 0), (0, 0), (2, 7), (2, 7), (2, 8), (3, 8), (1, 0), (2, 7), (10, 7)]
    for flags, packet_id in made_of:
        fresh = PublishVariant(version, "a/b", b"body").write(flags, packet_id)
        assert shared.write(flags, packet_id) == fresh
        alias = PublishVariant(version, "a/b", b"body").write(flags, packet_id, topic_raw=b"\0\0")
        assert shared.write(flags, packet_id, topic_raw=b"\0\0") == alias != fresh
        more = PublishVariant(version, "a/b", b"body").write(
            flags, packet_id, more_properties=b"\x0b\x01" if version is V5 else b""
        )
        said = b"\x0b\x01" if version is V5 else b""
        assert shared.write(flags, packet_id, more_properties=said) == more


@pytest.mark.parametrize(("flags", "packet_id"), [(0, 0), (2, 7)])
def test_a_copy_for_3_1_1_has_no_properties(flags: int, packet_id: int) -> None:
    # A session of 5.0 with subscription identifiers may be resumed by a client of 3.1.1.
    plain = PublishVariant(V3, "a/b", b"body").write(flags, packet_id)
    said = PublishVariant(V3, "a/b", b"body").write(flags, packet_id, more_properties=b"\x0b\x01")
    assert said == plain
