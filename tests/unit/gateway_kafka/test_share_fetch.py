"""Share sessions, fetches, acknowledgements and offsets of share groups, at the wire."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kafkaesque.broker.metadata.queue_names import share_queue
from kafkaesque.broker.queues.cursor_host import CursorHost
from kafkaesque.gateway.kafka import share_sessions
from kafkaesque.gateway.kafka.share_acknowledging import (
    Acknowledge,
    BadAcknowledgement,
    read_acknowledgements,
)
from kafkaesque.gateway.kafka.share_fetch import BEGINS, ENDS
from kafkaesque.gateway.kafka.share_sessions import Member, ShareSessions
from kafkaesque.model.batch_encoder import BatchOptions
from kafkaesque.model.records import decode_batch
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages import share_fetch_request as fetching
from kafkaesque.protocols.kafka.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kafkaesque.protocols.kafka.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kafkaesque.protocols.kafka.messages.delete_groups_request import DeleteGroupsRequest
from kafkaesque.protocols.kafka.messages.delete_share_group_offsets_request import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kafkaesque.protocols.kafka.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from kafkaesque.protocols.kafka.messages.end_txn_request import EndTxnRequest
from kafkaesque.protocols.kafka.messages.incremental_alter_configs_request import AlterableConfig
from kafkaesque.protocols.kafka.messages.init_producer_id_request import InitProducerIdRequest
from kafkaesque.protocols.kafka.messages.list_groups_request import ListGroupsRequest
from kafkaesque.protocols.kafka.messages.share_acknowledge_request import (
    AcknowledgementBatch as AcknowledgeBatch,
)
from kafkaesque.protocols.kafka.messages.share_acknowledge_request import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from kafkaesque.protocols.kafka.messages.share_fetch_request import AcknowledgementBatch
from kafkaesque.protocols.kafka.messages.share_group_describe_request import (
    ShareGroupDescribeRequest,
)
from kafkaesque.protocols.kafka.messages.share_group_heartbeat_request import (
    ShareGroupHeartbeatRequest,
)
from tests.unit.gateway_kafka.live import LiveCluster
from tests.unit.gateway_kafka.named_requests import named_request

BYTES = 1_000_000
MEMBER = "member-1"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    found = LiveCluster(
        tmp_path_factory.mktemp("share"), options={"offsets.topic.num.partitions": 1}
    )
    yield found
    found.close()


class Group:
    """A share group with one member, over a topic of its own."""

    def __init__(self, cluster: LiveCluster, name: str, member: str = MEMBER) -> None:
        self.cluster = cluster
        self.name = name
        self.member = member
        if name not in cluster.broker.state.topics:
            cluster.create_topic(name)
        self.topic_id = cluster.broker.state.topic(name).topic_id
        self.epoch = BEGINS
        self.member_epoch = 0

    def write(self, count: int) -> None:
        for _ in range(count):
            answer = self.cluster.ask(named_request(ApiKey.PRODUCE, 12, self.name), 12)
            assert answer.responses[0].partition_responses[0].error_code == 0

    def beat(self, epoch: int | None = None) -> Any:
        request = ShareGroupHeartbeatRequest(
            self.name,
            self.member,
            self.member_epoch if epoch is None else epoch,
            subscribed_topic_names=[self.name],
        )
        answer = self.cluster.ask_until(
            request, lambda found: not ErrorCode(found.error_code).retriable
        )
        self.member_epoch = max(0, answer.member_epoch)
        return answer

    def join(self) -> None:
        """Become a member, and wait for partitions."""
        assert self.beat(0).error_code == 0
        self.cluster.ask_until(
            ShareGroupDescribeRequest([self.name]),
            lambda answer: (
                self.beat().error_code == 0
                and bool(answer.groups[0].members[0].assignment.topic_partitions)
            ),
        )

    def fetch(
        self,
        *,
        acknowledgements: list[AcknowledgementBatch] | None = None,
        epoch: int | None = None,
        records_max: int = 100,
        wait_ms: int = 1_000,
        names: bool = True,
        forgets: bool = False,
    ) -> Any:
        epoch = self.epoch if epoch is None else epoch
        partition = fetching.FetchPartition(0, acknowledgements or [])
        topics = [fetching.FetchTopic(self.topic_id, [partition])]
        request = fetching.ShareFetchRequest(
            self.name,
            self.member,
            epoch,
            wait_ms,
            1,
            BYTES,
            records_max,
            records_max,
            topics=topics if names or acknowledgements else [],
            forgotten_topics_data=[fetching.ForgottenTopic(self.topic_id, [0])] if forgets else [],
        )
        answer = self.cluster.ask(request)
        if answer.error_code == 0:
            self.epoch = 0 if epoch == ENDS else epoch + 1
        return answer

    def records(self, answer: Any) -> list[tuple[int, int]]:
        """Return offsets with delivery counts."""
        assert answer.error_code == 0, answer
        found: list[tuple[int, int]] = []
        for topic in answer.responses:
            for partition in topic.partitions:
                assert partition.error_code == 0, partition
                counts = {
                    offset: each.delivery_count
                    for each in partition.acquired_records
                    for offset in range(each.first_offset, each.last_offset + 1)
                }
                records = decode_batch(partition.records, BYTES) if partition.records else []
                assert {each.offset for each in records} == set(counts)
                found += sorted(counts.items())
        return found

    def fetch_until(self, count: int) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for _ in range(20):
            found += self.records(self.fetch())
            if len(found) >= count:
                break
        return found

    def acknowledge(self, kind: Acknowledge, first: int, last: int) -> int:
        """Return the partition's error."""
        answer = self.fetch(
            acknowledgements=[AcknowledgementBatch(first, last, [kind])], wait_ms=0, records_max=0
        )
        (topic,) = answer.responses
        code: int = topic.partitions[0].acknowledge_error_code
        return code

    def acknowledge_alone(self, kind: Acknowledge, first: int, last: int) -> int:
        """Return the partition's error of a ShareAcknowledge."""
        batch = AcknowledgeBatch(first, last, [kind])
        topic = AcknowledgeTopic(self.topic_id, [AcknowledgePartition(0, [batch])])
        answer = self.cluster.ask(
            ShareAcknowledgeRequest(self.name, self.member, self.epoch, topics=[topic])
        )
        assert answer.error_code == 0, answer
        self.epoch += 1
        code: int = answer.responses[0].partitions[0].error_code
        return code


@pytest.fixture
def group(cluster: LiveCluster, request: pytest.FixtureRequest) -> Group:
    name = request.node.name.replace("[", "-").replace("]", "")
    config = named_request(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, name)
    resource = config.resources[1]
    resource.configs = [AlterableConfig("share.auto.offset.reset", 0, "earliest")]
    config.resources = [resource]
    config.validate_only = False
    assert cluster.ask(config).responses[0].error_code == 0
    return Group(cluster, name)


def test_records_are_fetched_acknowledged_and_counted(group: Group) -> None:
    group.join()
    group.write(3)
    assert group.fetch_until(3) == [(0, 1), (1, 1), (2, 1)]
    assert group.acknowledge(Acknowledge.ACCEPT, 0, 0) == 0
    assert group.acknowledge(Acknowledge.RELEASE, 1, 1) == 0
    assert group.acknowledge(Acknowledge.REJECT, 2, 2) == 0
    assert group.fetch_until(1) == [(1, 2)]
    assert group.acknowledge(Acknowledge.ACCEPT, 0, 1) == ErrorCode.INVALID_RECORD_STATE
    assert group.records(group.fetch(wait_ms=200)) == []


def test_a_record_is_given_up_after_so_many_deliveries(group: Group) -> None:
    group.join()
    group.write(1)
    for count in range(1, 6):
        assert group.fetch_until(1) == [(0, count)]
        assert group.acknowledge(Acknowledge.RELEASE, 0, 0) == 0
    assert group.records(group.fetch(wait_ms=500)) == []


def test_a_session_has_its_epochs_and_its_end(group: Group) -> None:
    group.join()
    assert group.fetch(epoch=7).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    group.write(2)
    assert len(group.fetch_until(2)) == 2
    wrong = group.fetch(epoch=group.epoch + 5)
    assert wrong.error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    ended = group.fetch(
        epoch=ENDS, acknowledgements=[AcknowledgementBatch(0, 0, [Acknowledge.ACCEPT])]
    )
    assert ended.responses[0].partitions[0].acknowledge_error_code == 0
    # What was not acknowledged is somebody else's.
    group.epoch = BEGINS
    assert group.fetch_until(1) == [(1, 2)]


def test_there_are_so_many_sessions(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_sessions, "SESSIONS_MAX", 0)
    assert group.fetch().error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED


def test_one_user_does_not_take_all_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_sessions, "SESSIONS_PER_USER_MAX", 2)
    sessions = ShareSessions()
    alices = [Member("User:alice", "g", f"m{number}") for number in range(3)]
    assert [sessions.make(each) is not None for each in alices] == [True, True, False]
    assert sessions.make(alices[0]) is not None, "in place of the one that it has"
    assert sessions.make(Member("User:bob", "g", "m")) is not None
    sessions.end(alices[1])
    assert sessions.make(alices[2]) is not None
    # Where nobody logs in, all are one and the same.
    assert all(sessions.make(Member("", "g", f"m{number}")) is not None for number in range(5))


def test_acknowledging_without_fetching(group: Group) -> None:
    group.join()
    group.write(1)
    group.fetch_until(1)
    batch = AcknowledgeBatch(0, 0, [Acknowledge.ACCEPT])
    request = ShareAcknowledgeRequest(group.name, MEMBER, group.epoch, topics=[])
    request.topics = [AcknowledgeTopic(group.topic_id, [AcknowledgePartition(0, [batch])])]
    answer = group.cluster.ask(request)
    assert answer.responses[0].partitions[0].error_code == 0
    request.share_session_epoch = BEGINS
    assert group.cluster.ask(request).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH


def test_a_member_keeps_what_it_has_of_a_partition_that_it_reads_no_more(group: Group) -> None:
    group.join()
    group.write(6)
    assert len(group.fetch_until(6)) == 6
    accepted = [AcknowledgementBatch(0, 2, [Acknowledge.ACCEPT])]
    answer = group.fetch(acknowledgements=accepted, forgets=True, wait_ms=0)
    (partition,) = answer.responses[0].partitions
    assert (partition.error_code, partition.acknowledge_error_code) == (0, 0)
    other = Group(group.cluster, group.name, "member-2")
    assert other.records(other.fetch(wait_ms=300)) == []
    assert group.acknowledge_alone(Acknowledge.ACCEPT, 3, 3) == 0
    assert group.acknowledge_alone(Acknowledge.RELEASE, 4, 4) == 0
    assert other.fetch_until(1) == [(4, 2)]
    assert other.acknowledge(Acknowledge.ACCEPT, 4, 4) == 0
    # It takes nothing more, and its end gives back what it has.
    group.write(1)
    assert group.records(group.fetch(names=False, wait_ms=0)) == []
    assert other.fetch_until(1) == [(6, 1)]
    group.fetch(epoch=ENDS, names=False)
    assert other.fetch_until(1) == [(5, 2)]


def test_what_was_not_handed_out_is_given_back_with_its_partition(group: Group) -> None:
    group.join()
    group.write(3)
    # They are brought for it, and it asks for fewer by the time that they come.
    assert group.records(group.fetch(records_max=3, wait_ms=0)) == []
    assert group.records(group.fetch(records_max=1, wait_ms=10_000)) == [(0, 1)]
    group.fetch(names=False, forgets=True, wait_ms=0)
    other = Group(group.cluster, group.name, "member-2")
    assert other.fetch_until(2) == [(1, 1), (2, 1)]
    assert group.acknowledge_alone(Acknowledge.ACCEPT, 0, 0) == 0


def test_a_partition_that_is_read_again_has_what_the_member_has(group: Group) -> None:
    group.join()
    group.write(2)
    assert len(group.fetch_until(2)) == 2
    group.fetch(names=False, forgets=True, wait_ms=0)
    group.write(1)
    assert group.fetch_until(1) == [(2, 1)]
    assert group.acknowledge(Acknowledge.ACCEPT, 0, 2) == 0


def test_a_partition_is_read_once_it_can_be_though_it_was_named_before(group: Group) -> None:
    group.write(1)
    answer = group.fetch()
    (partition,) = answer.responses[0].partitions
    # There is no cursor before the group has a member.
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    group.join()
    # Clients name a partition once in a session.
    found: list[tuple[int, int]] = []
    for _ in range(20):
        found += group.records(group.fetch(names=False))
        if found:
            break
    assert found == [(0, 1)]


def end_transaction(cluster: LiveCluster, topic: str, *, commit: bool) -> None:
    """Write two records in a transaction, and end it."""
    ours = "mine"
    found = cluster.ask_until(
        InitProducerIdRequest(ours, 60_000), lambda each: not ErrorCode(each.error_code).retriable
    )
    assert found.error_code == 0
    topics = [AddPartitionsToTxnTopic(topic, [0])]
    adding = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=ours,
        v3_and_below_producer_id=found.producer_id,
        v3_and_below_producer_epoch=found.producer_epoch,
        v3_and_below_topics=topics,
    )
    (added,) = cluster.ask(adding, 3).results_by_topic_v3_and_below
    assert added.results_by_partition[0].partition_error_code == 0
    options = BatchOptions(
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        base_sequence=0,
        transactional=True,
    )
    cluster.produce(topic, timestamps_ms=(0, 0), options=options)
    ending = EndTxnRequest(ours, found.producer_id, found.producer_epoch, commit)
    assert cluster.ask(ending, 3).error_code == 0


def test_nothing_is_left_behind_transactions_that_were_read(group: Group) -> None:
    cluster = group.cluster
    group.join()
    end_transaction(cluster, group.name, commit=True)
    end_transaction(cluster, group.name, commit=False)
    assert group.fetch_until(2) == [(0, 1), (1, 1)]
    describe = DescribeShareGroupOffsetsRequest(
        [DescribeShareGroupOffsetsRequestGroup(group.name, None)]
    )

    def lag(answer: Any) -> int:
        found: int = answer.groups[0].topics[0].partitions[0].lag
        return found

    # The markers and what was aborted have been read by now, or are by the next fetches.
    cluster.ask_until(describe, lambda answer: lag(answer) == 2)
    assert group.acknowledge(Acknowledge.ACCEPT, 0, 1) == 0
    assert lag(cluster.ask(describe)) == 0
    # A leader that comes later has read nothing yet.
    queue = cluster.broker.state.queues[share_queue(group.name, group.topic_id)]
    host = cluster.broker.queue_hosts.find(queue.topic_id, 0)
    assert isinstance(host, CursorHost)
    host.seek(0)
    cluster.ask_until(describe, lambda answer: lag(answer) == 0)


def test_offsets_are_described_altered_and_deleted(group: Group) -> None:
    cluster = group.cluster
    group.join()
    group.write(5)
    assert len(group.fetch_until(5)) == 5
    assert group.acknowledge(Acknowledge.ACCEPT, 0, 2) == 0
    describe = DescribeShareGroupOffsetsRequest(
        [DescribeShareGroupOffsetsRequestGroup(group.name, None)]
    )

    def described() -> tuple[int, int]:
        (found,) = cluster.ask(describe).groups
        (topic,) = found.topics
        (partition,) = topic.partitions
        return partition.start_offset, partition.lag

    assert described() == (3, 2)
    alter = AlterShareGroupOffsetsRequest(
        group.name,
        [
            AlterShareGroupOffsetsRequestTopic(
                group.name, [AlterShareGroupOffsetsRequestPartition(0, 1)]
            )
        ],
    )
    assert cluster.ask(alter).error_code == ErrorCode.NON_EMPTY_GROUP
    assert cluster.ask(DeleteGroupsRequest([group.name])).results[0].error_code == (
        ErrorCode.NON_EMPTY_GROUP
    )
    group.fetch(epoch=ENDS)
    assert group.beat(-1).error_code == 0
    altered = cluster.ask(alter)
    assert (altered.error_code, altered.responses[0].partitions[0].error_code) == (0, 0)
    assert described() == (1, 4)
    group.join()
    assert group.fetch_until(4) == [(offset, 1) for offset in range(1, 5)]
    group.fetch(epoch=ENDS)
    group.beat(-1)
    listed = cluster.ask(ListGroupsRequest([], ["share"])).groups
    assert (group.name, "Empty") in {(each.group_id, each.group_state) for each in listed}
    forget = DeleteShareGroupOffsetsRequest(
        group.name, [DeleteShareGroupOffsetsRequestTopic(group.name)]
    )
    assert cluster.ask(forget).responses[0].error_code == 0
    (absent,) = cluster.ask(ShareGroupDescribeRequest([group.name])).groups
    assert absent.error_code == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    "batches",
    [
        [AcknowledgementBatch(3, 2, [1])],
        [AcknowledgementBatch(0, 1, [1]), AcknowledgementBatch(1, 2, [1])],
        [AcknowledgementBatch(0, 2, [1, 1])],
        [AcknowledgementBatch(0, 0, [9])],
        [AcknowledgementBatch(0, 0, [4])],
        [AcknowledgementBatch(0, 1 << 60, [1])],
        [AcknowledgementBatch(-1, 0, [1])],
        [AcknowledgementBatch(0, 0, [])],
    ],
)
def test_acknowledgements_that_make_no_sense(batches: list[AcknowledgementBatch]) -> None:
    with pytest.raises(BadAcknowledgement):
        read_acknowledgements(batches, may_renew=False)


def test_groups_of_two_kinds_do_not_share_a_name(group: Group) -> None:
    cluster = group.cluster
    group.join()
    joining = named_request(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, group.name)
    assert cluster.ask(joining).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    classic = named_request(ApiKey.JOIN_GROUP, 5, group.name)
    assert cluster.ask(classic, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    other = Group(cluster, f"{group.name}-consumers")
    joined = named_request(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, other.name)
    joined.member_epoch = 0
    assert cluster.ask(joined).error_code == 0
    assert other.beat(0).error_code == ErrorCode.GROUP_ID_NOT_FOUND
