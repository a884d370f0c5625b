"""A queue that is shown as a topic: who reads it needs the topic's right, and the queue's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.access.rules import Effect
from kafkaesque.broker.listeners import AccessMode
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.records import Record
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages import describe_topic_partitions_request as describing
from kafkaesque.protocols.kafka.messages import fetch_request as fetching
from kafkaesque.protocols.kafka.messages import list_offsets_request as listing
from kafkaesque.protocols.kafka.messages import offset_commit_request as committing
from kafkaesque.protocols.kafka.messages.create_queue_request import CreateQueueRequest, SetOption
from kafkaesque.protocols.kafka.messages.metadata_request import (
    MetadataRequest,
    MetadataRequestTopic,
)
from kafkaesque.protocols.kafka.messages.put_messages_request import PutMessagesRequest
from tests.unit.gateway_kafka.live import LiveCluster
from tests.unit.gateway_kafka.secured import (
    SECRET,
    SUPER,
    Client,
    add_user,
    allow,
    codes,
    forget_rules,
)

VHOST, TIMEOUT_MS = "/", 10_000
QUEUE, VIEW = "orders", "orders.view"
GROUP = "readers"
LAST_VERSION_WITH_NAMES = 12
LAST_COMMIT_WITH_NAMES = 9
FORBIDDEN = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_READ_BITS = sum(
    1 << each for each in (Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    found = LiveCluster(
        tmp_path_factory.mktemp("view-rights"),
        access=AccessMode.REQUIRED,
        secrets=[SECRET],
        super_users=[SUPER],
        options={"offsets.topic.num.partitions": 1},
    )
    for user in ("root", "alice"):
        add_user(found, user)
    root = Client(found)
    root.log_in("root")
    options = [SetOption("kafka.topic", VIEW)]
    create = CreateQueueRequest(VHOST, QUEUE, options=options, timeout_ms=TIMEOUT_MS)
    assert root.ask(create).error_code == 0
    records = encode_batch([Record(0, 0, None, b"hidden")])
    put = PutMessagesRequest(VHOST, QUEUE, TIMEOUT_MS, records)
    assert root.ask(put).error_code == 0
    yield found
    found.close()


@pytest.fixture
def alice(cluster: LiveCluster) -> Iterator[Client]:
    forget_rules(cluster, "alice")
    client = Client(cluster)
    client.log_in("alice")
    yield client
    client.close()


def allow_both(cluster: LiveCluster, operation: Operation) -> None:
    allow(cluster, "alice", operation, ResourceType.TOPIC, VIEW)
    allow(cluster, "alice", operation, ResourceType.QUEUE, QUEUE)


def names(client: Client) -> list[str]:
    """Return what the client sees among all topics, asked in both ways."""
    found = [each.name for each in client.ask(MetadataRequest(None)).topics]
    asked = describing.DescribeTopicPartitionsRequest([], 2_000, None)
    assert [each.name for each in client.ask(asked).topics] == found
    return found


def metadata(client: Client, **more: Any) -> Any:
    topic = MetadataRequestTopic(**(more or {"name": VIEW}))
    request = MetadataRequest([topic], include_topic_authorized_operations=True)
    return client.ask(request).topics[0]


def fetch(client: Client, **topic: Any) -> tuple[int, bytes]:
    wanted = fetching.FetchPartition(0, fetch_offset=0, partition_max_bytes=100_000)
    named = fetching.FetchTopic(partitions=[wanted], **(topic or {"topic": VIEW}))
    request = fetching.FetchRequest(
        replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=100_000, topics=[named]
    )
    version = None if topic else LAST_VERSION_WITH_NAMES
    (found,) = client.ask(request, version).responses
    part = found.partitions[0]
    return part.error_code, bytes(part.records or b"")


def ends(client: Client) -> int:
    asked = listing.ListOffsetsTopic(VIEW, [listing.ListOffsetsPartition(0, -1, -1)])
    (topic,) = client.ask(listing.ListOffsetsRequest(-1, 0, [asked])).topics
    code: int = topic.partitions[0].error_code
    return code


def commit(client: Client, cluster: LiveCluster, *, by_id: bool) -> int:
    part = committing.OffsetCommitRequestPartition(0, 1)
    topic_id = cluster.broker.state.topic_views[VIEW].topic_id
    named = {"topic_id": topic_id} if by_id else {"name": VIEW}
    topic = committing.OffsetCommitRequestTopic(partitions=[part], **named)
    request = committing.OffsetCommitRequest(GROUP, -1, "", None, topics=[topic])
    answer = client.ask(request, None if by_id else LAST_COMMIT_WITH_NAMES)
    code: int = answer.topics[0].partitions[0].error_code
    return code


def test_one_right_alone_shows_nothing(cluster: LiveCluster, alice: Client) -> None:
    topic_id = cluster.broker.state.topic_views[VIEW].topic_id
    allow(cluster, "alice", Operation.READ, ResourceType.GROUP, GROUP)
    for kind, name in ((ResourceType.TOPIC, "*"), (ResourceType.QUEUE, "*")):
        allow(cluster, "alice", Operation.READ, kind, name)
        assert VIEW not in names(alice)
        assert metadata(alice).error_code == FORBIDDEN
        assert metadata(alice, topic_id=topic_id, name=None).error_code == FORBIDDEN
        assert metadata(alice, topic_id=topic_id, name=None).name is None
        assert fetch(alice) == (FORBIDDEN, b"")
        assert fetch(alice, topic_id=topic_id) == (FORBIDDEN, b"")
        assert ends(alice) == FORBIDDEN
        assert commit(alice, cluster, by_id=False) == FORBIDDEN
        assert commit(alice, cluster, by_id=True) == FORBIDDEN
        forget_rules(cluster, "alice")
        allow(cluster, "alice", Operation.READ, ResourceType.GROUP, GROUP)


def test_both_rights_show_it_and_open_it_for_reading_alone(
    cluster: LiveCluster, alice: Client
) -> None:
    topic_id = cluster.broker.state.topic_views[VIEW].topic_id
    allow_both(cluster, Operation.ALL)
    allow(cluster, "alice", Operation.READ, ResourceType.GROUP, GROUP)
    assert names(alice) == [VIEW]
    assert metadata(alice).topic_authorized_operations == _READ_BITS
    code, records = fetch(alice)
    assert (code, b"hidden" in records) == (0, True)
    assert fetch(alice, topic_id=topic_id) == (0, records)
    assert ends(alice) == 0
    # The group's coordinator may have to come first.
    assert commit(alice, cluster, by_id=True) in (
        ErrorCode.NONE,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )


def test_who_may_describe_both_reads_neither(cluster: LiveCluster, alice: Client) -> None:
    allow_both(cluster, Operation.DESCRIBE)
    assert names(alice) == [VIEW]
    assert ends(alice) == 0
    assert fetch(alice) == (FORBIDDEN, b"")


@pytest.mark.parametrize("kind", [ResourceType.TOPIC, ResourceType.QUEUE])
def test_what_a_rule_denies_stays_hidden(
    cluster: LiveCluster, alice: Client, kind: ResourceType
) -> None:
    allow_both(cluster, Operation.READ)
    name = VIEW if kind is ResourceType.TOPIC else QUEUE
    allow(cluster, "alice", Operation.READ, kind, name, effect=Effect.DENY)
    assert fetch(alice) == (FORBIDDEN, b"")


def test_what_is_refused_for_the_queue_is_told_as_that(cluster: LiveCluster, alice: Client) -> None:
    allow(cluster, "alice", Operation.READ, ResourceType.TOPIC, VIEW)
    fetch(alice)
    access = cluster.broker.doors.access
    told = [(each.operation, each.resource_type, each.name) for each in access.refusals.newest()]
    assert (Operation.READ, ResourceType.QUEUE, QUEUE) in told
    assert codes([metadata(alice)]) == [FORBIDDEN]
