"""A message that a topic keeps for queues: which topics do, and what the queues are told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafkaesque.broker.doors.exchange_logs import ExchangeLogs, ForQueues, keeps_all
from kafkaesque.broker.doors.publish_lanes import PublishLanes
from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.broker.metadata.cluster_state import PartitionState, TopicState
from kafkaesque.broker.metadata.topic_names import AUDIT_TOPIC
from kafkaesque.broker.requests.commands import ProduceResult
from kafkaesque.model.errors import UnknownTopicOrPartition
from kafkaesque.model.ids import GroupId, NodeId, TopicId
from kafkaesque.sim.env import World

QUEUE = TopicId(b"q" * 16)


def topic_of(topic_id: bytes, name: str = "log", **configs: str) -> TopicState:
    own = TopicId(topic_id * 16)
    partition = PartitionState(
        topic=name, topic_id=own, partition=0, group=GroupId(1), replicas=(NodeId(1),)
    )
    named = {key.replace("_", "."): value for key, value in configs.items()}
    return TopicState(name=name, topic_id=own, partitions=[partition], configs=named)


class Ground:
    """One topic, and a queue that is sent what follows."""

    def __init__(self) -> None:
        self.topic = topic_of(b"t")
        self.state = SimpleNamespace()
        self.set_topic(self.topic)
        self.appended: list[Any] = []
        self.put: list[NewMessage] = []
        self.told: list[Any] = []
        self.world = World(1)
        cluster: Any = SimpleNamespace(state=self.state)
        self.lanes = PublishLanes(
            clock=self.world.add_machine("b").boot().clock,
            cluster=cluster,
            queues=SimpleNamespace(encode=list, put_encoded=self._put),  # type: ignore[arg-type]
            publishing=SimpleNamespace(publish_as_broker=self._publish),  # type: ignore[arg-type]
        )
        nothing: Any = SimpleNamespace()
        self.logs = ExchangeLogs(cluster, self.lanes, nothing, nothing)

    def set_topic(self, topic: TopicState) -> None:
        self.state.topics = {topic.name: topic}
        self.state.topics_by_id = {topic.topic_id: topic}

    def _publish(self, *_: Any, on_done: Any, **__: Any) -> None:
        self.appended.append(on_done)

    def _put(self, _: TopicId, messages: list[NewMessage], *__: Any, **___: Any) -> bool:
        self.put += messages
        return True

    def publish(self, value: bytes) -> None:
        message = NewMessage(value)
        self.logs.keep(self.topic, [message], ForQueues([message], [QUEUE]), 0, self.told.append)
        self.world.loop.run_for(1)

    def append(self, offset: int) -> None:
        """The topic has what it was sent."""
        self.appended.pop(0)(
            ProduceResult(base_offset=offset, append_time_ms=-1, log_start_offset=0)
        )
        self.world.loop.run_for(1)


def test_a_queue_gets_a_reference_when_the_topic_has_the_message() -> None:
    ground = Ground()
    ground.publish(b"body")
    assert not ground.put
    ground.append(7)
    (put,) = ground.put
    assert put.value is None
    assert put.reference is not None
    assert (put.reference.topic_id, put.reference.offset) == (ground.topic.topic_id, 7)


def test_nobody_refers_to_a_topic_that_was_made_again_meanwhile() -> None:
    ground = Ground()
    ground.publish(b"body")
    ground.set_topic(topic_of(b"n"))
    ground.append(0)
    assert not ground.put
    (told,) = ground.told
    assert isinstance(told[0], UnknownTopicOrPartition)


@pytest.mark.parametrize(
    ("topic", "is_kept"),
    [
        (topic_of(b"t"), True),
        (topic_of(b"t", cleanup_policy="delete"), True),
        (topic_of(b"t", cleanup_policy="compact"), False),
        (topic_of(b"t", cleanup_policy="compact,delete"), False),
        (topic_of(b"t", AUDIT_TOPIC), False),
    ],
)
def test_what_does_not_keep_all_is_not_referred_to(topic: TopicState, is_kept: bool) -> None:
    assert keeps_all(topic, {}) == is_kept


def test_a_broker_may_compact_what_says_nothing() -> None:
    assert not keeps_all(topic_of(b"t"), {"log.cleanup.policy": "compact"})
