"""Groups on a running broker: found, used, and rid of the offsets of topics that are gone."""

from typing import Any

from kafkaesque.protocols.kafka.messages.delete_topics_request import (
    DeleteTopicsRequest,
    DeleteTopicState,
)
from kafkaesque.protocols.kafka.messages.find_coordinator_request import FindCoordinatorRequest
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


def find_coordinator(live: LiveCluster) -> int:
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])
    answer = live.ask_until(request, lambda answer: answer.coordinators[0].error_code == 0)
    node: int = answer.coordinators[0].node_id
    return node


def commit(live: LiveCluster, node: int, topic: str, offset: int) -> None:
    partition = OffsetCommitRequestPartition(0, offset)
    request = OffsetCommitRequest(
        GROUP, topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])]
    )

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


def committed_now(live: LiveCluster, node: int) -> dict[str, int]:
    """Look into the coordinator without the loop, which is running."""
    coordinators = live.nodes[node].broker.coordinators
    found: dict[str, int] = {}
    for coordinator in coordinators._by_group.values():
        offsets = coordinator._table._context.offsets.committed(GROUP)
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
