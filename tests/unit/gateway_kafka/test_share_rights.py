"""Whose a share session is, and what it still gives when rules are taken away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.broker.listeners import AccessMode
from kafkaesque.gateway.kafka.share_fetch import BEGINS, ENDS
from kafkaesque.gateway.kafka.share_sessions import (
    NAMED_MIN,
    ConnectedSessions,
    Member,
    ShareSessions,
)
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.ids import TopicId
from kafkaesque.model.records import Record
from kafkaesque.protocols.kafka.api import SUPPORTED, ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.frames import read_response
from kafkaesque.protocols.kafka.messages import share_fetch_request as fetching
from kafkaesque.protocols.kafka.messages.create_queue_request import CreateQueueRequest
from kafkaesque.protocols.kafka.messages.create_topics_request import (
    CreatableTopic,
    CreateTopicsRequest,
)
from kafkaesque.protocols.kafka.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkaesque.protocols.kafka.messages.put_messages_request import PutMessagesRequest
from kafkaesque.protocols.kafka.messages.share_acknowledge_request import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from kafkaesque.protocols.kafka.messages.share_group_heartbeat_request import (
    ShareGroupHeartbeatRequest,
)
from kafkaesque.protocols.kafka.messages.take_messages_request import TakeMessagesRequest
from tests.unit.gateway_kafka.live import LiveCluster
from tests.unit.gateway_kafka.secured import (
    SECRET,
    SUPER,
    Client,
    add_user,
    allow,
    forget_rules,
    produce,
)

GROUP, MEMBER = "readers", "a-member"
GROUP_CONFIG = 32
FORBIDDEN = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    found = LiveCluster(
        tmp_path_factory.mktemp("share-rights"),
        access=AccessMode.REQUIRED,
        secrets=[SECRET],
        super_users=[SUPER],
        options={"offsets.topic.num.partitions": 1},
    )
    for user in ("root", "alice", "mallory"):
        add_user(found, user)
    yield found
    found.close()


class Reader:
    """A user's connection, and its place in a share session."""

    def __init__(self, cluster: LiveCluster, user: str, topic_id: TopicId) -> None:
        self.client = Client(cluster)
        self.client.log_in(user)
        self._topic_id = topic_id
        self.epoch = BEGINS

    def fetch(self, *, wait_ms: int = 500, is_named: bool = True) -> tuple[int, int, bytes]:
        """Return the request's error, the partition's, and its records."""
        answer = self.client.ask(self.request(wait_ms=wait_ms, is_named=is_named))
        return self.read(answer)

    def request(self, *, wait_ms: int, is_named: bool = True) -> Any:
        topics = [fetching.FetchTopic(self._topic_id, [fetching.FetchPartition(0, [])])]
        topics = topics if is_named else []
        return fetching.ShareFetchRequest(
            GROUP, MEMBER, self.epoch, wait_ms, 1, 100_000, 100, 100, topics=topics
        )

    def read(self, answer: Any) -> tuple[int, int, bytes]:
        if not answer.error_code:
            self.epoch = 0 if self.epoch == ENDS else self.epoch + 1
        found = [each for topic in answer.responses for each in topic.partitions]
        if not found:
            return answer.error_code, 0, b""
        return answer.error_code, found[0].error_code, bytes(found[0].records or b"")

    def until_read(self) -> None:
        for _ in range(40):
            code, of_partition, records = self.fetch()
            assert (code, of_partition) in ((0, 0), (0, ErrorCode.NOT_LEADER_OR_FOLLOWER))
            if records:
                return
        raise AssertionError("nothing was read")

    def acknowledge(self, first: int, last: int) -> int:
        batch = AcknowledgementBatch(first, last, [1])
        topics = [AcknowledgeTopic(self._topic_id, [AcknowledgePartition(0, [batch])])]
        answer = self.client.ask(ShareAcknowledgeRequest(GROUP, MEMBER, self.epoch, False, topics))
        if not answer.error_code:
            self.epoch += 1
        (topic,) = answer.responses
        code: int = topic.partitions[0].error_code
        return code


@pytest.fixture
def reader(cluster: LiveCluster, request: pytest.FixtureRequest) -> Iterator[Reader]:
    """Alice, who reads a topic in a share group; Mallory may use the group, and not the topic."""
    topic = request.node.name
    for user in ("alice", "mallory"):
        allow(cluster, user, Operation.READ, ResourceType.GROUP, GROUP)
    for operation in (Operation.READ, Operation.WRITE):
        allow(cluster, "alice", operation, ResourceType.TOPIC, topic)
    allow(cluster, "mallory", Operation.DESCRIBE, ResourceType.TOPIC, topic)
    root = Client(cluster)
    root.log_in("root")
    (made,) = root.ask(CreateTopicsRequest([CreatableTopic(topic, 1, 1)])).topics
    assert made.error_code == 0
    cluster.wait(lambda: cluster._is_led(topic), "the topic is led")
    change = AlterableConfig("share.auto.offset.reset", 0, "earliest")
    resource = AlterConfigsResource(GROUP_CONFIG, GROUP, [change])
    root.ask(IncrementalAlterConfigsRequest([resource], False))
    found = Reader(cluster, "alice", cluster.broker.state.topic(topic).topic_id)
    beat = ShareGroupHeartbeatRequest(GROUP, MEMBER, 0, subscribed_topic_names=[topic])
    for _ in range(200):
        answer = found.client.ask(beat)
        beat.member_epoch = max(0, answer.member_epoch)
        if not answer.error_code and answer.assignment and answer.assignment.topic_partitions:
            break
    assert not answer.error_code
    assert produce(found.client, topic) == 0
    try:
        yield found
    finally:
        found.client.close()
        root.close()
        for user in ("alice", "mallory"):
            forget_rules(cluster, user)


def test_a_session_is_its_users_own(cluster: LiveCluster, reader: Reader) -> None:
    reader.until_read()
    mallory = Reader(cluster, "mallory", reader._topic_id)
    mallory.epoch = reader.epoch
    assert mallory.fetch(is_named=False) == (ErrorCode.SHARE_SESSION_NOT_FOUND, 0, b"")
    # Nor does somebody who says the same names end it.
    mallory.epoch = BEGINS
    assert mallory.fetch()[:2] == (0, FORBIDDEN)
    mallory.epoch = ENDS
    assert mallory.fetch(is_named=False)[0] == 0
    assert reader.acknowledge(0, 0) == 0
    mallory.client.close()


def test_a_rule_that_goes_ends_reading(cluster: LiveCluster, reader: Reader) -> None:
    reader.until_read()
    topic = cluster.broker.state.topics_by_id[reader._topic_id].name
    forget_rules(cluster, "alice")
    allow(cluster, "alice", Operation.READ, ResourceType.GROUP, GROUP)
    allow(cluster, "alice", Operation.WRITE, ResourceType.TOPIC, topic)
    assert produce(reader.client, topic) == 0
    for _ in range(2):
        assert reader.fetch(is_named=False) == (0, FORBIDDEN, b"")
    assert reader.acknowledge(0, 0) == FORBIDDEN
    # What the member had is given back, and read again when that is allowed.
    allow(cluster, "alice", Operation.READ, ResourceType.TOPIC, topic)
    reader.until_read()


def test_a_rule_that_goes_while_a_fetch_waits(cluster: LiveCluster, reader: Reader) -> None:
    reader.until_read()
    assert reader.acknowledge(0, 0) == 0
    topic = cluster.broker.state.topics_by_id[reader._topic_id].name
    waiting = reader.request(wait_ms=5_000)
    reader.client.request(waiting)
    root = Client(cluster)
    root.log_in("root")
    forget_rules(cluster, "alice")
    assert produce(root, topic) == 0
    frame = memoryview(reader.client.receive())
    answer = read_response(frame, ApiKey.SHARE_FETCH, SUPPORTED[ApiKey.SHARE_FETCH].last)[1]
    assert reader.read(answer) == (0, FORBIDDEN, b"")
    root.close()


def test_sessions_that_are_ended_are_forgotten_by_their_connection() -> None:
    sessions = ShareSessions()
    connected = ConnectedSessions(sessions)
    for number in range(10 * NAMED_MIN):
        member = Member("User:alice", GROUP, str(number))
        session = sessions.make(member)
        assert session is not None
        connected.note(member, session)
        sessions.end(member)
    assert len(connected) <= NAMED_MIN


def test_a_rule_that_goes_while_messages_of_a_queue_are_waited_for(cluster: LiveCluster) -> None:
    root, alice = Client(cluster), Client(cluster)
    root.log_in("root")
    alice.log_in("alice")
    assert root.ask(CreateQueueRequest("/", "jobs", timeout_ms=10_000)).error_code == 0
    allow(cluster, "alice", Operation.READ, ResourceType.QUEUE, "jobs")
    take = TakeMessagesRequest("/", "jobs", 0, 1, 10_000, 5_000, 8_000)
    alice.request(take)
    cluster.run_for(0.5)
    forget_rules(cluster, "alice")
    records = bytes(encode_batch([Record(0, 0, None, b"not for everybody", ())]))
    assert root.ask(PutMessagesRequest("/", "jobs", 10_000, records)).error_code == 0
    frame = memoryview(alice.receive())
    answer = read_response(frame, ApiKey.TAKE_MESSAGES, SUPPORTED[ApiKey.TAKE_MESSAGES].last)[1]
    assert answer.error_code == ErrorCode.QUEUE_AUTHORIZATION_FAILED
    assert not answer.records
    found = root.ask(take)
    assert (bool(found.records), found.failures) == (True, [0])
    root.close()
    alice.close()
