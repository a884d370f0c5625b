"""Requests that name a topic's id are read by brokers of before that, and theirs are read."""

from typing import Any

import msgspec
import pytest

from kafkaesque.broker.peers.messages import PeerRequest
from kafkaesque.broker.requests.caller import read_peer_request
from kafkaesque.broker.requests.commands import (
    AddToTransaction,
    ConfirmTransaction,
    LedPartition,
    WriteMarker,
)

TOPIC_ID = bytes(range(16))
MARKER = WriteMarker(
    topic="t",
    topic_id=TOPIC_ID,
    partition=1,
    leader_epoch=2,
    producer_id=3,
    producer_epoch=4,
    is_epoch_bumped=True,
    coordinator_epoch=5,
    is_commit=True,
)
ADDED = AddToTransaction(
    transactional_id="x",
    producer_id=3,
    producer_epoch=4,
    topic="t",
    topic_id=TOPIC_ID,
    partition=1,
    verify_only=True,
)
LED = LedPartition(topic="t", topic_id=TOPIC_ID, partition=1, leader_epoch=2)
CONFIRMED = ConfirmTransaction(
    transactional_id="x",
    producer_id=3,
    producer_epoch=4,
    coordinator_epoch=5,
    partitions=[LED],
)


class MarkerOfBefore(PeerRequest, frozen=True, tag="write-marker", kw_only=True):
    """As it was before it named the topic's id."""

    topic: str
    partition: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    is_epoch_bumped: bool
    coordinator_epoch: int
    is_commit: bool


def test_brokers_of_before_read_what_names_an_id() -> None:
    old = msgspec.msgpack.decode(msgspec.msgpack.encode(MARKER), type=MarkerOfBefore)
    assert (old.topic, old.partition, old.is_commit) == ("t", 1, True)


def without_ids(value: Any) -> Any:
    """Return what was sent before, as maps and lists."""
    if isinstance(value, dict):
        return {key: without_ids(each) for key, each in value.items() if key != "topic_id"}
    return [without_ids(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("request_of_now", [MARKER, ADDED, CONFIRMED])
def test_what_brokers_of_before_say_names_no_id(request_of_now: PeerRequest) -> None:
    encoded = msgspec.msgpack.encode(request_of_now)
    assert read_peer_request(msgspec.Raw(encoded)) == request_of_now
    before = msgspec.msgpack.encode(without_ids(msgspec.msgpack.decode(encoded)))
    changes: dict[str, Any] = {"topic_id": b""}
    if isinstance(request_of_now, ConfirmTransaction):
        changes = {"partitions": [msgspec.structs.replace(LED, topic_id=b"")]}
    expected = msgspec.structs.replace(request_of_now, **changes)
    assert read_peer_request(msgspec.Raw(before)) == expected
