"""Groups on a running broker: found, used, and rid of the offsets of topics that are gone."""

from typing import Any

import pytest

from kafkaesque.broker.coordinators import table_host
from kafkaesque.broker.metadata.topic_names import OFFSETS_TOPIC
from kafkaesque.groups.config import GroupConfig
from kafkaesque.groups.consumer.classic_protocol import read_assignment
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
)
from kafkaesque.protocols.kafka.messages.delete_groups_request import DeleteGroupsRequest
from kafkaesque.protocols.kafka.messages.delete_topics_request import (
    DeleteTopicsRequest,
    DeleteTopicState,
)
from kafkaesque.protocols.kafka.messages.find_coordinator_request import FindCoordinatorRequest
from kafkaesque.protocols.kafka.messages.heartbeat_request import HeartbeatRequest
from kafkaesque.protocols.kafka.messages.join_group_request import JoinGroupRequestProtocol
from kafkaesque.protocols.kafka.messages.list_groups_request import ListGroupsRequest
from kafkaesque.protocols.kafka.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkaesque.protocols.kafka.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from tests.unit.gateway_kafka.live import LiveCluster
from tests.unit.gateway_kafka.test_group_members import GROUP, join_request, sync_request
from tests.unit.groups.desk import subscription


def find_coordinator(live: LiveCluster) -> int:
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])
    answer = live.ask_until(request, lambda answer: answer.coordinators[0].error_code == 0)
    node: int = answer.coordinators[0].node_id
    return node


def commit_request(topic: str, offset: int, group: str = GROUP) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(0, offset)
    return OffsetCommitRequest(
        group, topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])]
    )


def commit(live: LiveCluster, node: int, topic: str, offset: int) -> None:
    request = commit_request(topic, offset)

    def is_done(answer: Any) -> bool:
        return bool(answer.topics[0].partitions[0].error_code == 0)

    live.ask_until(request, is_done, 9, node=node)


def committed(live: LiveCluster, node: int) -> dict[str, int]:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(GROUP, topics=None)])
    (group,) = live.ask_until(request, lambda a: a.groups[0].error_code == 0, 9, node=node).groups
    return {topic.name: topic.partitions[0].committed_offset for topic in group.topics}


def test_offsets_go_with_their_topic(live_trio: LiveCluster) -> None:
    for name in ("flights", "trains"):
        live_trio.create_topic(name, 1, 3)
    node = find_coordinator(live_trio)
    commit(live_trio, node, "flights", 11)
    commit(live_trio, node, "trains", 12)
    assert committed(live_trio, node) == {"flights": 11, "trains": 12}
    live_trio.ask(DeleteTopicsRequest([DeleteTopicState("flights")], timeout_ms=5_000))
    live_trio.wait(
        lambda: "flights" not in live_trio.nodes[node].broker.state.topics, "the topic is gone"
    )
    live_trio.wait(lambda: committed_now(live_trio, node) == {"trains": 12}, "its offsets too")


def test_a_group_can_be_used_by_who_asks_first_and_does_not_ask_again(
    live_trio: LiveCluster,
) -> None:
    live_trio.create_topic("flights", 1, 3)
    assert OFFSETS_TOPIC not in live_trio.broker.state.topics
    found = live_trio.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP]))
    node = found.coordinators[0].node_id
    assert live_trio.ask(ListGroupsRequest(), node=node).error_code == 0
    answer = live_trio.ask(commit_request("flights", 11), 9, node=node)
    assert answer.topics[0].partitions[0].error_code == 0


def test_a_request_that_brings_the_offsets_topic_into_being_waits_for_it(
    live: LiveCluster,
) -> None:
    live.create_topic("flights")
    assert OFFSETS_TOPIC not in live.broker.state.topics
    answer = live.ask(commit_request("flights", 11), 9)
    assert answer.topics[0].partitions[0].error_code == 0
    assert committed(live, 1) == {"flights": 11}


def test_a_table_that_is_not_ready_in_time_says_that_it_is_loading(
    live: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.create_topic("flights")
    monkeypatch.setattr(table_host, "NEW_WAIT_MS_MAX", 20)
    monkeypatch.setattr(table_host.TableHost, "load", lambda _: None)
    find_coordinator(live)
    answer = live.ask(commit_request("flights", 11), 9)
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert answer.topics[0].partitions[0].error_code == loading
    # An empty table has no groups, loaded or not.
    assert live.ask(ListGroupsRequest()).error_code == 0


def test_a_coordinator_that_takes_no_more_groups_says_so_in_the_log(
    live: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.create_topic("flights")
    coordinators = live.broker.group_coordinators
    monkeypatch.setattr(coordinators, "config", lambda: GroupConfig(groups_max=1))
    commit(live, find_coordinator(live), "flights", 11)
    where = coordinators.find(GROUP)
    other = next(group for group in map(str, range(1000)) if coordinators.find(group) == where)
    refused = live.ask(commit_request("flights", 1, group=other), 9)
    code = refused.topics[0].partitions[0].error_code
    assert code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    said = f"__consumer_offsets-{where.partition} keeps 1 groups, its maximum"
    assert [line.startswith(said) for line in live.reports if " groups, " in line] == [True]
    assert live.ask(DeleteGroupsRequest([GROUP])).results[0].error_code == 0
    assert any("accepts new ones again" in line for line in live.reports)


def committed_now(live: LiveCluster, node: int) -> dict[str, int]:
    """Look into the coordinator without the loop, which is running."""
    coordinators = live.nodes[node].broker.group_coordinators
    found: dict[str, int] = {}
    for coordinator in coordinators._by_group.values():
        offsets = coordinator.table._context.offsets.committed(GROUP)
        found.update({where.topic: each.offset for where, each in offsets.items()})
    return found


def test_a_member_joins_a_group_on_a_running_broker(live: LiveCluster) -> None:
    live.create_topic("flights", 2)
    node = find_coordinator(live)
    answer = live.ask_until(join_request(), lambda answer: answer.error_code == 79, node=node)
    joined = live.ask(join_request(answer.member_id), node=node)
    assert (joined.error_code, joined.leader) == (0, answer.member_id)
    synced = live.ask(sync_request(joined.member_id, joined.generation_id), node=node)
    assert bytes(synced.assignment) == b"all of it"


def test_a_coordinator_that_takes_over_a_mixed_group_knows_the_topics_before_anybody_asks(
    live: LiveCluster,
) -> None:
    live.create_topic("flights", 2)
    find_coordinator(live)
    heartbeat = ConsumerGroupHeartbeatRequest(
        GROUP, "m", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=[], topic_partitions=[]
    )
    live.ask_until(heartbeat, lambda answer: answer.error_code == 0)
    join = join_request()
    join.protocols = [JoinGroupRequestProtocol("range", subscription("flights"))]
    join.member_id = live.ask(join).member_id
    joined = live.ask(join)
    sync = sync_request(joined.member_id, joined.generation_id)
    share = bytes(live.ask(sync).assignment)
    assert len(read_assignment(share) or ()) == 2

    coordinators = live.broker.group_coordinators
    before = coordinators.all()

    def take_over() -> bool:
        for each in before:
            coordinators.on_leadership(each.partition)
        return True

    live.wait(take_over, "taken over")
    live.wait(lambda: all(each.is_loaded for each in coordinators.all()), "loaded")
    assert not {id(each) for each in before} & {id(each) for each in coordinators.all()}
    assert [each for each in coordinators.all() if each.table.lacks_topics] == []
    beat = HeartbeatRequest(GROUP, joined.generation_id, joined.member_id)
    assert live.ask(beat).error_code == 0, "there is nothing new for it"
    assert bytes(live.ask(sync).assignment) == share
