"""ApiVersions and Metadata, asked of a real broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkaesque.broker.controller.client import OnOutcome
from kafkaesque.broker.requests.commands import ControllerCommand, CreateTopic
from kafkaesque.gateway.kafka import operation_bits
from kafkaesque.gateway.kafka.handlers import HANDLERS, OWN_APIS
from kafkaesque.gateway.kafka.topic_creator import CREATED_PER_REQUEST_MAX
from kafkaesque.model.ids import NodeId
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.api_versions_request import ApiVersionsRequest
from kafkaesque.protocols.kafka.messages.metadata_request import (
    MetadataRequest,
    MetadataRequestTopic,
)
from tests.unit.gateway_kafka.live import LiveCluster, versions_of

VERSION_WITH_AUTO_CREATION_FLAG = 4
VERSION_WITH_IDS = 12
OMITTED = -(2**31)


def named(*names: str, create: bool = False, **more: bool) -> MetadataRequest:
    """Returns a request for these topics."""
    return MetadataRequest([MetadataRequestTopic(name=name) for name in names], create, **more)


# -- ApiVersions


@pytest.mark.parametrize("version", versions_of(ApiKey.API_VERSIONS))
def test_api_versions_names_exactly_what_is_answered(live: LiveCluster, version: int) -> None:
    answer = live.ask(ApiVersionsRequest("client", "1.2.3"), version)
    assert answer.error_code == 0
    assert [api.api_key for api in answer.api_keys] == sorted(HANDLERS.keys() - OWN_APIS)


@pytest.mark.parametrize(("version", "lowest"), [(3, 1), (4, 0)])
def test_api_versions_names_the_features_by_which_clients_choose(
    live: LiveCluster, version: int, lowest: int
) -> None:
    answer = live.ask(ApiVersionsRequest("client", "1.2.3"), version)
    supported = {
        each.name: (each.min_version, each.max_version) for each in answer.supported_features
    }
    finalized = {each.name: each.max_version_level for each in answer.finalized_features}
    assert supported["group.version"] == (lowest, 1)
    assert finalized["group.version"] == 1
    assert answer.finalized_features_epoch >= 0


@pytest.mark.parametrize(
    ("software", "release"), [("", "1"), ("a", ""), ("a b", "1"), ("-a", "1"), ("a", "1.")]
)
def test_a_client_with_an_illegal_name_is_refused(
    live: LiveCluster, software: str, release: str
) -> None:
    answer = live.ask(ApiVersionsRequest(software, release), 3)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert list(answer.api_keys) == []


def test_clients_before_version_3_say_no_name(live: LiveCluster) -> None:
    assert live.ask(ApiVersionsRequest("", ""), 2).error_code == 0


# -- Metadata: the cluster


@pytest.mark.parametrize("version", versions_of(ApiKey.METADATA))
def test_every_version_describes_brokers_and_topics(live: LiveCluster, version: int) -> None:
    topic_id = live.create_topic("orders", 3)
    answer = live.ask(MetadataRequest([] if version == 0 else None), version)
    (broker,) = answer.brokers
    assert (broker.node_id, broker.host, broker.port) == (
        1,
        *live.broker.config.kafka_address,
    )
    (topic,) = answer.topics
    assert (topic.error_code, topic.name) == (0, "orders")
    assert [p.partition_index for p in topic.partitions] == [0, 1, 2]
    for partition in topic.partitions:
        assert partition.error_code == 0
        assert partition.leader_id == 1
        assert list(partition.replica_nodes) == [1]
        assert list(partition.isr_nodes) == [1]
        assert list(partition.offline_replicas) == []
        if version >= 7:
            assert partition.leader_epoch == live.partition("orders").leader_epoch
    if version >= 1:
        assert answer.controller_id == 1
        assert not topic.is_internal
    if version >= 2:
        assert answer.cluster_id == "live"
    if version >= 10:
        assert topic.topic_id == topic_id


def test_an_empty_list_is_no_topic_from_version_1_on(live: LiveCluster) -> None:
    live.create_topic("orders")
    assert list(live.ask(MetadataRequest([]), 1).topics) == []
    assert len(live.ask(MetadataRequest([]), 0).topics) == 1


def test_a_partition_without_leader_says_so(live: LiveCluster) -> None:
    live.create_topic("orders")
    group = live.broker.state.topic("orders").partitions[0].group
    live.broker.leaders.retire(group, 9)
    (partition,) = live.ask(named("orders")).topics[0].partitions
    assert partition.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert (partition.leader_id, partition.leader_epoch) == (-1, 9)
    assert list(partition.replica_nodes) == [1]
    live.broker.leaders.forget(group)
    (partition,) = live.ask(named("orders")).topics[0].partitions
    assert partition.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    # What the log of this broker says.
    assert (partition.leader_id, partition.leader_epoch) == (-1, 1)


def test_operations_are_told_only_if_asked_for(live: LiveCluster) -> None:
    live.create_topic("orders")
    answer = live.ask(named("orders"), 10)
    assert answer.cluster_authorized_operations == OMITTED
    assert answer.topics[0].topic_authorized_operations == OMITTED
    asked = named(
        "orders",
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    answer = live.ask(asked, 10)
    assert answer.cluster_authorized_operations == operation_bits.CLUSTER_OPERATIONS == 8096
    assert answer.topics[0].topic_authorized_operations == operation_bits.TOPIC_OPERATIONS == 3576


# -- Metadata: topics that are asked for


def test_a_topic_that_is_named_twice_is_described_once(live: LiveCluster) -> None:
    live.create_topic("orders")
    live.create_topic("payments")
    answer = live.ask(named("payments", "payments"))
    assert [topic.name for topic in answer.topics] == ["payments"]


def test_topics_are_found_by_their_ids(live: LiveCluster) -> None:
    topic_id = live.create_topic("orders")
    request = MetadataRequest(
        [MetadataRequestTopic(topic_id, None), MetadataRequestTopic(b"?" * 16, None)]
    )
    known, unknown = live.ask(request, VERSION_WITH_IDS).topics
    assert (known.error_code, known.name, known.topic_id) == (0, "orders", topic_id)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert (unknown.name, unknown.topic_id) == (None, b"?" * 16)


@pytest.mark.parametrize(
    ("version", "topic"),
    [
        (10, MetadataRequestTopic(b"?" * 16, "orders")),
        (11, MetadataRequestTopic(name=None)),
        (12, MetadataRequestTopic(name=None)),
    ],
    ids=["id too early", "no name", "neither name nor id"],
)
def test_a_topic_that_is_not_named_is_refused(
    live: LiveCluster, version: int, topic: MetadataRequestTopic
) -> None:
    answer = live.ask(MetadataRequest([topic]), version)
    assert [found.error_code for found in answer.topics] == [ErrorCode.INVALID_REQUEST]


def test_a_missing_topic_stays_missing_unless_the_client_wants_it(live: LiveCluster) -> None:
    (topic,) = live.ask(named("nothing")).topics
    assert (topic.error_code, topic.name) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "nothing")
    assert live.nodes[1].gateway.context.topic_creator.under_way == []


@pytest.mark.parametrize("version", [0, 3, 4, 13])
def test_a_missing_topic_is_created_for_a_client_that_wants_it(
    live: LiveCluster, version: int
) -> None:
    request = named("fresh", create=True)
    (topic,) = live.ask(request, version).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    answer = live.ask_until(request, lambda answer: answer.topics[0].error_code == 0, version)
    assert len(answer.topics[0].partitions) == 1


def test_one_name_is_created_once_at_a_time(
    live: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    creator = live.nodes[1].gateway.context.topic_creator
    submit = live.broker.controller_client.submit
    submitted: list[str] = []

    def watched(command: ControllerCommand, timeout_ms: int, on_done: OnOutcome) -> None:
        assert isinstance(command, CreateTopic)
        submitted.append(command.name)
        submit(command, timeout_ms, on_done)

    with monkeypatch.context() as patch:
        patch.setattr(live.broker.controller_client, "submit", watched)
        creator.maybe_create(["a", "b"])
        creator.maybe_create(["a", "c"])
    assert submitted == creator.under_way == ["a", "b", "c"]
    live.wait(lambda: not creator.under_way, "they are created")
    assert sorted(live.broker.state.topics) == ["a", "b", "c"]


def test_one_request_creates_a_bounded_number_of_topics(live: LiveCluster) -> None:
    names = [f"topic-{number}" for number in range(CREATED_PER_REQUEST_MAX + 1)]
    answer = live.ask(named(*names, create=True))
    assert {topic.error_code for topic in answer.topics} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    creator = live.nodes[1].gateway.context.topic_creator
    live.wait(lambda: not creator.under_way, "they are created")
    assert len(live.broker.state.topics) == CREATED_PER_REQUEST_MAX


def test_creation_can_be_switched_off(tmp_path: Path) -> None:
    live = LiveCluster(tmp_path, options={"auto.create.topics.enable": False})
    try:
        (topic,) = live.ask(named("fresh", create=True)).topics
        assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert live.nodes[1].gateway.context.topic_creator.under_way == []
    finally:
        live.close()


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "x" * 250, "__cluster_metadata"])
def test_an_illegal_name_is_refused_and_never_created(live: LiveCluster, name: str) -> None:
    (topic,) = live.ask(named(name, create=True)).topics
    assert topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert live.nodes[1].gateway.context.topic_creator.under_way == []


def test_the_offsets_topic_is_created_as_the_brokers_want_it(live: LiveCluster) -> None:
    (topic,) = live.ask(named("__consumer_offsets", create=True)).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert topic.is_internal
    live.wait(lambda: "__consumer_offsets" in live.broker.state.topics, "it is created")
    assert live.broker.state.topic("__consumer_offsets").configs["cleanup.policy"] == "compact"
    assert live.ask(named("__consumer_offsets")).topics[0].is_internal


# -- Metadata: answers that are kept


def test_the_same_question_is_encoded_once(live: LiveCluster) -> None:
    live.create_topic("orders")
    cache = live.nodes[1].gateway.context.metadata_cache
    first = live.ask(MetadataRequest(None))
    assert len(cache) == 1
    assert live.ask(MetadataRequest(None)) == first
    assert len(cache) == 1
    live.ask(MetadataRequest(None), 9)
    live.ask(named("orders"))
    assert len(cache) == 3


def test_a_kept_answer_ends_with_any_change(live: LiveCluster) -> None:
    live.create_topic("orders")
    assert len(live.ask(MetadataRequest(None)).topics) == 1
    live.create_topic("payments")
    assert len(live.ask(MetadataRequest(None)).topics) == 2
    group = live.broker.state.topic("orders").partitions[0].group
    live.broker.leaders.retire(group, 9)
    partition = live.ask(MetadataRequest(None)).topics[0].partitions[0]
    assert partition.error_code == ErrorCode.LEADER_NOT_AVAILABLE


def test_an_answer_about_a_missing_topic_is_not_kept(live: LiveCluster) -> None:
    live.ask(named("nothing"))
    assert len(live.nodes[1].gateway.context.metadata_cache) == 0


# -- three brokers


def test_a_lost_broker_is_still_listed_and_its_replicas_are_offline(
    live_trio: LiveCluster,
) -> None:
    live = live_trio
    live.create_topic("orders", 1, 3)
    lost = live.nodes[3]
    lost.stop(lambda: None)
    live.wait(lambda: lost.is_stopped, "broker 3 is stopped")
    live.wait(lambda: not live.broker.peers.is_alive(NodeId(3)), "broker 3 is lost")
    answer = live.ask(MetadataRequest(None))
    assert [broker.node_id for broker in answer.brokers] == [1, 2, 3]
    (partition,) = answer.topics[0].partitions
    assert sorted(partition.replica_nodes) == [1, 2, 3]
    assert list(partition.offline_replicas) == [3]
    # Clients of version 0 cannot take replicas that are not listed as brokers.
    (partition,) = live.ask(MetadataRequest([]), 0).topics[0].partitions
    assert sorted(partition.replica_nodes) == [1, 2]
