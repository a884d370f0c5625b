"""Queues that are asked between two sweeps, where the metadata come as a snapshot meanwhile."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec import UNSET

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.metadata.queue_names import QueueName
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.gateway.queueing.sweeping import Sweeping
from kafkaesque.model.ids import TopicId
from kafkaesque.sim.env import World
from tests.unit.broker.test_whole_counts import counts

LOG = TopicId(b"q" * 16)


def queue(expires_ms: int) -> QueueState:
    return QueueState(
        name="q",
        topic_id=LOG,
        partitions=[],
        configs={},
        queue=QueueName("/", "q"),
        options={"expires.ms": str(expires_ms)} if expires_ms else {},
    )


def state(*queues: QueueState) -> Any:
    return SimpleNamespace(
        queues_by_log={each.topic_id: each for each in queues},
        routing=SimpleNamespace(vhosts={}),
    )


class Ground:
    """Metadata, and who is asked."""

    def __init__(self) -> None:
        self.world = World(1)
        self.first = queue(1_000)
        self.cluster = SimpleNamespace(state=state(self.first))
        self.asked: list[tuple[q.AskQueue, Any]] = []
        self.deleted: list[QueueState] = []
        clock = self.world.add_machine("a").boot().clock
        queues = SimpleNamespace(ask_whole=self._ask)
        doors = SimpleNamespace(clock=clock, cluster=self.cluster, queues=queues)
        self.sweeping = Sweeping(cast(Doors, doors), self.deleted.append)

    def _ask(self, request: q.AskQueue, kind: object, timeout_ms: int, on_done: Any) -> None:
        self.asked.append((request, on_done))

    def take_snapshot(self, *queues: QueueState) -> None:
        """The broker was behind: its metadata are other objects from now on."""
        self.cluster.state = state(*queues)

    def answer(self) -> None:
        """The queue's leader says that nobody uses it."""
        _, on_done = self.asked.pop()
        on_done(counts(is_disused=True))


@pytest.mark.parametrize("act", ["watch", "use"])
def test_a_queue_is_asked_at_its_time_whether_it_was_made_or_declared_again(act: str) -> None:
    ground = Ground()
    getattr(ground.sweeping, act)(ground.first)
    ground.world.loop.run_for(999)
    assert ground.asked == []
    ground.world.loop.run_for(2)
    ((request, _),) = ground.asked
    assert (request.expiry_ms, request.is_use) == (1_000, UNSET)
    ground.answer()
    assert ground.deleted == [ground.first]


def test_a_queue_is_asked_with_the_options_that_it_has_by_then() -> None:
    ground = Ground()
    ground.sweeping.watch(ground.first)
    ground.take_snapshot(queue(3_000))
    ground.world.loop.run_for(1_500)
    ((request, _),) = ground.asked
    assert request.expiry_ms == 3_000
    ground.answer()
    assert [each.options for each in ground.deleted] == [{"expires.ms": "3000"}]


@pytest.mark.parametrize("left", [(), (queue(0),)], ids=["gone", "changed"])
def test_a_queue_that_is_gone_or_expires_no_more_is_not_asked(left: tuple[QueueState]) -> None:
    ground = Ground()
    ground.sweeping.watch(ground.first)
    ground.take_snapshot(*left)
    ground.world.loop.run_for(1_500)
    assert ground.asked == []


@pytest.mark.parametrize("left", [(), (queue(0),)], ids=["gone", "changed"])
def test_a_queue_that_changed_while_it_was_asked_is_not_deleted(left: tuple[QueueState]) -> None:
    ground = Ground()
    ground.sweeping.watch(ground.first)
    ground.world.loop.run_for(1_500)
    assert len(ground.asked) == 1
    ground.take_snapshot(*left)
    ground.answer()
    assert ground.deleted == []
