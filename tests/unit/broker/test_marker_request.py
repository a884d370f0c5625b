"""A request for a marker is read by brokers of other releases, and theirs are read."""

import msgspec

from kafkaesque.broker.commands import WriteMarker
from kafkaesque.broker.peer_messages import PeerRequest
from kafkaesque.broker.peer_requests import read_peer_request

REQUEST = WriteMarker(
    topic="t",
    topic_id=bytes(range(16)),
    partition=1,
    leader_epoch=2,
    producer_id=3,
    producer_epoch=4,
    is_epoch_bumped=True,
    coordinator_epoch=5,
    is_commit=True,
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


def test_brokers_of_before_read_it_and_are_read() -> None:
    encoded = msgspec.msgpack.encode(REQUEST)
    assert read_peer_request(msgspec.Raw(encoded)) == REQUEST
    old = msgspec.msgpack.decode(encoded, type=MarkerOfBefore)
    assert (old.topic, old.partition, old.is_commit) == ("t", 1, True)
    again = read_peer_request(msgspec.Raw(msgspec.msgpack.encode(old)))
    assert again == msgspec.structs.replace(REQUEST, topic_id=b"")
