"""ConsumerGroupHeartbeat and ConsumerGroupDescribe on the wire, in every version (KIP-848)."""

from typing import Any

import pytest

from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.records import (
    BrokerRegistered,
    PartitionPlacement,
    PartitionsAdded,
    TopicCreated,
)
from kafkaesque.broker.metadata.topic_catalog import TopicCatalogSource
from kafkaesque.groups.consumer.events import TopicsChanged
from kafkaesque.groups.errors import GroupError
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.consumer_group_describe_request import (
    ConsumerGroupDescribeRequest,
)
from kafkaesque.protocols.kafka.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from kafkaesque.protocols.kafka.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkaesque.protocols.kafka.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from tests.unit.gateway_kafka.group_port import CLIENT_HOST, Port, id_of
from tests.unit.gateway_kafka.live import LiveCluster
from tests.unit.gateway_kafka.test_group_live import find_coordinator
from tests.unit.gateway_kafka.test_group_members import GROUP, versions

HEARTBEAT = ApiKey.CONSUMER_GROUP_HEARTBEAT
DESCRIBE = ApiKey.CONSUMER_GROUP_DESCRIBE


def join_request(member_id: str = "m", **fields: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=fields.pop("group_id", GROUP),
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=fields.pop("names", ["flights"]),
        topic_partitions=[],
        **fields,
    )


def later_request(epoch: int, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    fields.setdefault("topic_partitions", None)
    return ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id="m", member_epoch=epoch, **fields
    )


def port_with_flights() -> Port:
    port = Port()
    port.create_topic("flights", 3, topic_id=7)
    bring_topics(port)
    return port


def bring_topics(port: Port) -> None:
    """Do what the driver does before each heartbeat."""
    catalog = TopicCatalogSource().current(port.state)
    port.coordinators.table.step(TopicsChanged(catalog), port.coordinators._now())


@pytest.mark.parametrize("version", versions(HEARTBEAT))
def test_a_member_joins_lives_and_leaves(version: int) -> None:
    port = port_with_flights()
    joined = port.ask(HEARTBEAT, version, join_request(rack_id="r1", server_assignor="range"))
    assert (joined.error_code, joined.error_message) == (0, None)
    assert (joined.member_id, joined.member_epoch) == ("m", 1)
    assert joined.heartbeat_interval_ms == 5_000
    (topic,) = joined.assignment.topic_partitions
    assert (bytes(topic.topic_id), list(topic.partitions)) == (id_of(7), [0, 1, 2])

    owned = [TopicPartitions(id_of(7), [0, 1, 2])]
    lives = port.ask(HEARTBEAT, version, later_request(1, topic_partitions=owned))
    assert (lives.error_code, lives.member_epoch, lives.assignment) == (0, 1, None)

    left = port.ask(HEARTBEAT, version, later_request(-1))
    assert (left.error_code, left.member_epoch) == (0, -1)


def test_before_version_1_the_coordinator_gives_the_member_its_id() -> None:
    port = port_with_flights()
    joined = port.ask(HEARTBEAT, 0, join_request(""))
    assert joined.error_code == 0
    assert len(joined.member_id) == 22, "a UUID as Kafka writes it"
    assert port.ask(HEARTBEAT, 1, join_request("")).error_code == ErrorCode.INVALID_REQUEST


def test_a_member_may_subscribe_by_an_expression_from_version_1_on() -> None:
    port = port_with_flights()
    joined = port.ask(
        HEARTBEAT, 1, join_request(names=None, subscribed_topic_regex="fl(ights|oats)")
    )
    assert len(joined.assignment.topic_partitions) == 1
    bad = port.ask(HEARTBEAT, 1, join_request("m2", subscribed_topic_regex="("))
    assert bad.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "missing )" in bad.error_message


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (later_request(1), ErrorCode.UNKNOWN_MEMBER_ID),
        (join_request(group_id=""), ErrorCode.INVALID_REQUEST),
        (join_request(server_assignor="lucky"), ErrorCode.UNSUPPORTED_ASSIGNOR),
    ],
    ids=["unknown", "no group", "assignor"],
)
def test_what_is_wrong_is_told_by_its_code(
    request_: ConsumerGroupHeartbeatRequest, code: ErrorCode
) -> None:
    answer = port_with_flights().ask(HEARTBEAT, 1, request_)
    assert (answer.error_code, answer.assignment) == (code, None)


def test_a_fenced_member_and_an_instance_in_use_are_told_by_their_codes() -> None:
    port = port_with_flights()
    port.ask(HEARTBEAT, 1, join_request(instance_id="i"))
    assert port.ask(HEARTBEAT, 1, later_request(9)).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    taken = port.ask(HEARTBEAT, 1, join_request("m2", instance_id="i"))
    assert taken.error_code == ErrorCode.UNRELEASED_INSTANCE_ID


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (GroupError.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
        (GroupError.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
    ids=["elsewhere", "loading"],
)
def test_without_a_table_to_ask_clients_are_told_where_to_look(
    error: GroupError, code: ErrorCode
) -> None:
    port = port_with_flights()
    port.coordinators.refused[GROUP] = error
    assert port.ask(HEARTBEAT, 1, join_request()).error_code == code
    (group,) = port.ask(DESCRIBE, 1, ConsumerGroupDescribeRequest([GROUP])).groups
    assert (group.error_code, group.group_id) == (code, GROUP)


@pytest.mark.parametrize("version", versions(DESCRIBE))
def test_groups_are_described(version: int) -> None:
    port = port_with_flights()
    port.ask(HEARTBEAT, 1, join_request(instance_id="i", rack_id="r", subscribed_topic_regex="t.*"))
    asked = ConsumerGroupDescribeRequest([GROUP, "nobody", GROUP], True)
    found, missing = port.ask(DESCRIBE, version, asked).groups
    assert (found.error_code, found.group_id, found.group_state) == (0, GROUP, "Stable")
    assert (found.group_epoch, found.assignment_epoch, found.assignor_name) == (1, 1, "uniform")
    assert found.authorized_operations == 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
    (member,) = found.members
    assert (member.member_id, member.instance_id, member.rack_id) == ("m", "i", "r")
    assert (member.member_epoch, member.client_id) == (1, "kit")
    assert member.client_host.strip("/") == CLIENT_HOST
    assert list(member.subscribed_topic_names) == ["flights"]
    assert member.subscribed_topic_regex == "t.*"
    for assignment in (member.assignment, member.target_assignment):
        (topic,) = assignment.topic_partitions
        assert (bytes(topic.topic_id), topic.topic_name) == (id_of(7), "flights")
        assert list(topic.partitions) == [0, 1, 2]
    assert member.member_type == (1 if version >= 1 else -1)
    assert (missing.error_code, missing.group_id) == (ErrorCode.GROUP_ID_NOT_FOUND, "nobody")
    assert "nobody" in missing.error_message
    assert missing.authorized_operations == -(2**31)


def commit_request(epoch: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(0, 5)
    topic = OffsetCommitRequestTopic(name="flights", partitions=[partition])
    return OffsetCommitRequest(GROUP, epoch, "m", topics=[topic])


@pytest.mark.parametrize(
    ("version", "epoch", "code"),
    [
        (9, 1, ErrorCode.NONE),
        (9, 2, ErrorCode.STALE_MEMBER_EPOCH),
        (8, 1, ErrorCode.UNSUPPORTED_VERSION),
    ],
    ids=["its epoch", "another epoch", "too old"],
)
def test_a_member_commits_with_its_epoch(version: int, epoch: int, code: ErrorCode) -> None:
    port = port_with_flights()
    port.ask(HEARTBEAT, 1, join_request())
    answer = port.ask(ApiKey.OFFSET_COMMIT, version, commit_request(epoch))
    assert answer.topics[0].partitions[0].error_code == code


@pytest.mark.parametrize(
    ("member_id", "epoch", "code"),
    [
        ("m", 1, ErrorCode.NONE),
        ("m", 2, ErrorCode.STALE_MEMBER_EPOCH),
        ("x", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, -1, ErrorCode.NONE),
    ],
    ids=["its epoch", "another epoch", "no member", "nobody in particular"],
)
def test_a_member_fetches_with_its_epoch(
    member_id: str | None, epoch: int, code: ErrorCode
) -> None:
    port = port_with_flights()
    port.ask(HEARTBEAT, 1, join_request())
    asked = OffsetFetchRequestGroup(GROUP, member_id, epoch, topics=None)
    (group,) = port.ask(ApiKey.OFFSET_FETCH, 9, OffsetFetchRequest(groups=[asked])).groups
    assert group.error_code == code


# -- on a running cluster


def test_the_coordinator_knows_the_topics_of_its_broker(live_trio: LiveCluster) -> None:
    live_trio.create_topic("flights", 3, 3)
    node = find_coordinator(live_trio)
    request = join_request(names=["flights", "trains"])
    joined = live_trio.ask_until(request, lambda answer: answer.error_code == 0, 1, node=node)
    (topic,) = joined.assignment.topic_partitions
    assert list(topic.partitions) == [0, 1, 2]
    live_trio.create_topic("trains", 1, 3)
    live_trio.wait(
        lambda: "trains" in live_trio.nodes[node].broker.state.topics, "the coordinator knows it"
    )
    later = live_trio.ask(later_request(1), 1, node=node)
    assert len(later.assignment.topic_partitions) == 2


# -- the catalog


def broker(node: int, rack: str | None) -> BrokerRegistered:
    return BrokerRegistered(
        node=node, host="h", kafka_port=1, text_port=1, peer_host="h", peer_port=1, rack=rack
    )


def created(name: str, number: int, *replicas: tuple[int, ...]) -> TopicCreated:
    placements = tuple(
        PartitionPlacement(group=100 * number + each, replicas=nodes)
        for each, nodes in enumerate(replicas)
    )
    return TopicCreated(name=name, topic_id=id_of(number), partitions=placements)


def test_a_catalog_is_the_same_until_something_changes_that_matters_to_groups() -> None:
    state = ClusterState()
    source = TopicCatalogSource()
    state.apply(created("a", 1, (1, 2), (2, 1)))
    first = source.current(state)
    state.apply(broker(1, None))
    assert source.current(state) is first
    assert first.by_name["a"].partition_count == 2
    assert first.by_name["a"].racks == ()
    state.apply(created("__consumer_offsets", 2, (1,)))
    second = source.current(state)
    assert second is not first
    assert second.by_name["a"] is first.by_name["a"], "only what is new is made"
    assert second.by_name["__consumer_offsets"].is_internal
    placement = PartitionPlacement(group=900, replicas=(1,))
    state.apply(PartitionsAdded(topic_id=id_of(1), partitions=(placement,)))
    third = source.current(state)
    assert third.by_id[second.by_name["a"].topic_id].partition_count == 3
    assert second.by_name["a"].partition_count == 2, "a catalog is never changed"


def test_a_catalog_knows_the_racks_of_partitions() -> None:
    state = ClusterState()
    source = TopicCatalogSource()
    for node, rack in ((1, "r1"), (2, "r2"), (3, None)):
        state.apply(broker(node, rack))
    state.apply(created("a", 1, (1, 2), (3,)))
    topic = source.current(state).by_name["a"]
    assert topic.racks == (frozenset({"r1", "r2"}), frozenset())
    state.apply(broker(3, "r1"))
    assert source.current(state).by_name["a"].racks_of(1) == {"r1"}
    assert topic.racks_of(9) == frozenset()
