"""ListPartitionReassignments: what moves, as the controller knows, whichever broker is asked."""

from __future__ import annotations

import pytest

from kafkaesque.broker.upkeep.replica_mover import ReplicaMover
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kafkaesque.protocols.kafka.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.unit.gateway_kafka.live import LiveCluster

TIMEOUT_MS = 10_000

Moving = dict[tuple[str, int], tuple[list[int], list[int], list[int]]]


def listed(
    live: LiveCluster, node: int, topics: list[ListPartitionReassignmentsTopics] | None = None
) -> Moving:
    """Return replicas, those that are added and those that are removed, as a broker says."""
    answer = live.ask(ListPartitionReassignmentsRequest(TIMEOUT_MS, topics), node=node)
    assert answer.error_code == 0, answer.error_message
    return {
        (topic.name, each.partition_index): (
            list(each.replicas),
            list(each.adding_replicas),
            list(each.removing_replicas),
        )
        for topic in answer.topics
        for each in topic.partitions
    }


def move(live: LiveCluster, name: str, replicas: dict[int, list[int]]) -> None:
    partitions = [ReassignablePartition(index, nodes) for index, nodes in replicas.items()]
    request = AlterPartitionReassignmentsRequest(
        TIMEOUT_MS, topics=[ReassignableTopic(name, partitions)]
    )
    (topic,) = live.ask(request).responses
    assert [each.error_code for each in topic.partitions] == [0] * len(replicas)


def hold_back(live: LiveCluster, node: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a broker hear nothing new of the metadata."""
    controller = live.nodes[node].broker.controller
    monkeypatch.setattr(controller, "on_committed", lambda high_watermark: None)


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that is asked for is carried out."""
    monkeypatch.setattr(ReplicaMover, "on_sweep", lambda mover: None)


@pytest.mark.usefixtures("still")
def test_every_broker_says_what_moves(live_trio: LiveCluster) -> None:
    live_trio.create_topic("orders", 3, 1)
    homes = [each.replicas[0] for each in live_trio.broker.state.topic("orders").partitions]
    others = {index: [home % 3 + 1] for index, home in enumerate(homes)}
    move(live_trio, "orders", {0: others[0], 2: others[2]})
    expected = {
        ("orders", index): ([*others[index], homes[index]], others[index], [homes[index]])
        for index in (0, 2)
    }
    for node in live_trio.nodes:
        assert listed(live_trio, node) == expected
        named = [ListPartitionReassignmentsTopics("orders", [1, 2])]
        assert listed(live_trio, node, named) == {("orders", 2): expected["orders", 2]}
        assert listed(live_trio, node, []) == {}


@pytest.mark.usefixtures("still")
def test_a_broker_whose_metadata_is_behind_says_it_too(
    live_trio: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not listed is taken for done by those who wait for it."""
    live_trio.create_topic("orders", 1, 1)
    late = next(n for n, each in live_trio.nodes.items() if not each.broker.controller.is_leader)
    hold_back(live_trio, late, monkeypatch)
    (home,) = live_trio.broker.state.topic("orders").partitions[0].replicas
    move(live_trio, "orders", {0: [home % 3 + 1]})
    assert not live_trio.nodes[late].broker.state.moving, "it has not heard of it"
    assert ("orders", 0) in listed(live_trio, late)


def test_without_a_controller_nobody_says_that_nothing_moves(live_trio: LiveCluster) -> None:
    leader = next(n for n, each in live_trio.nodes.items() if each.broker.controller.is_leader)
    left, *gone = sorted(live_trio.nodes, key=lambda node: node == leader)
    for node in gone:
        live_trio.nodes[node].stop(lambda: None)
    live_trio.wait(
        lambda: all(live_trio.nodes[node].is_stopped for node in gone), "two are stopped"
    )
    answer = live_trio.ask(ListPartitionReassignmentsRequest(500, None), node=left)
    assert answer.error_code == ErrorCode.NOT_CONTROLLER
    assert not answer.topics
