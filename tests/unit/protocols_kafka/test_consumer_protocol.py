"""What members of a classic group tell one another."""

from __future__ import annotations

import pytest

from kafkaesque.protocols.kafka import consumer_protocol
from kafkaesque.protocols.kafka.errors import MalformedRequest
from kafkaesque.protocols.kafka.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
)
from kafkaesque.protocols.kafka.messages.consumer_protocol_assignment import (
    TopicPartition as Assigned,
)
from kafkaesque.protocols.kafka.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
    TopicPartition,
)

SUBSCRIPTION = ConsumerProtocolSubscription(
    topics=["a", "b"],
    user_data=b"mine",
    owned_partitions=[TopicPartition(topic="a", partitions=[0, 2])],
    generation_id=7,
    rack_id="r1",
)
ASSIGNMENT = ConsumerProtocolAssignment(
    assigned_partitions=[Assigned(topic="a", partitions=[0, 2])], user_data=None
)


def test_subscriptions_come_back() -> None:
    encoded = consumer_protocol.write_subscription(SUBSCRIPTION)
    assert encoded[:2] == b"\x00\x03"
    assert consumer_protocol.read_subscription(encoded) == SUBSCRIPTION
    first = consumer_protocol.write_subscription(SUBSCRIPTION, 0)
    assert consumer_protocol.read_subscription(first) == ConsumerProtocolSubscription(
        topics=["a", "b"], user_data=b"mine"
    )


def test_assignments_come_back() -> None:
    encoded = consumer_protocol.write_assignment(ASSIGNMENT)
    assert consumer_protocol.read_assignment(memoryview(encoded)) == ASSIGNMENT


def test_a_newer_version_is_read_as_the_newest_known() -> None:
    newer = b"\x00\x63" + consumer_protocol.write_subscription(SUBSCRIPTION)[2:] + b"and more"
    assert consumer_protocol.read_subscription(newer) == SUBSCRIPTION


@pytest.mark.parametrize("version", range(4))
def test_cut_at_every_byte_is_malformed(version: int) -> None:
    encoded = consumer_protocol.write_subscription(SUBSCRIPTION, version)
    for cut in range(len(encoded)):
        with pytest.raises(MalformedRequest):
            consumer_protocol.read_subscription(encoded[:cut])
    encoded = consumer_protocol.write_assignment(ASSIGNMENT, version)
    for cut in range(len(encoded)):
        with pytest.raises(MalformedRequest):
            consumer_protocol.read_assignment(encoded[:cut])


def test_a_negative_version_is_malformed() -> None:
    with pytest.raises(MalformedRequest):
        consumer_protocol.read_subscription(b"\xff\xff" + bytes(20))
