"""Logs of queues and cursors of share groups move to other brokers, with all that is in them."""

import pytest

from kafkaesque.broker.metadata.cluster_state import PartitionState
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.commands import MoveReplicas, WantedReplicas
from kafkaesque.model.errors import RequestTimedOut
from kafkaesque.model.ids import NodeId, TopicId
from kafkaesque.sim.options import SimOptions
from tests.sim.queue_scenario import PLENTY, QueueScenario, values
from tests.sim.seeds import first_of
from tests.sim.test_cursors import CursorScenario

MOVE_MS_MAX = 60_000
LOCK_MS = 2_000


def move(scenario: QueueScenario, log_id: TopicId, replicas: tuple[int, ...]) -> None:
    """Move a log to these brokers, and wait until all know that it is there."""
    log = scenario.any().state.queues_by_log[log_id]
    wanted = WantedReplicas(topic=log.name, partition=0, replicas=list(replicas))
    scenario.submit(MoveReplicas(partitions=[wanted]))

    def placed(name: str) -> PartitionState:
        return scenario.broker(name).state.queues_by_log[log_id].partitions[0]

    scenario.loop.run_until(
        lambda: all(
            placed(each).replicas == replicas and not placed(each).is_moving
            for each in scenario.running()
        ),
        MOVE_MS_MAX,
    )


def test_a_queue_moves_with_its_messages_its_locks_and_its_attempts() -> None:
    scenario = QueueScenario(41, sim_options=SimOptions(brokers=6))
    scenario.put(*(b"m%d" % number for number in range(50)))
    failed, held = scenario.take(2)
    scenario.fail(failed)
    before = scenario.queue().partitions[0].replicas
    elsewhere = tuple(NodeId(node) for node in range(1, 7) if node not in before)
    move(scenario, scenario.queue().topic_id, elsewhere)
    scenario.put(b"later")
    for node in before:
        scenario.kill(f"b{node}")
    scenario.loop.run_for(2_000)
    # The lock is kept, so its holder may still settle; what failed comes with its attempts.
    assert scenario.done(held) == []
    found = scenario.take(100)
    assert sorted(str(each.value) for each in found) == sorted(
        str(each) for each in [b"m0", *(b"m%d" % number for number in range(2, 50)), b"later"]
    )
    assert max(each.claim.attempt for each in found if each.value == failed.value) == 2


@pytest.mark.parametrize("seed", first_of(range(42, 52), 3))
def test_a_queue_serves_while_it_moves(seed: int) -> None:
    scenario = QueueScenario(seed, sim_options=SimOptions(brokers=4))
    replicas = scenario.queue().partitions[0].replicas
    (free,) = (NodeId(node) for node in range(1, 5) if node not in replicas)
    log = scenario.queue()
    wanted = WantedReplicas(
        topic=log.name, partition=0, replicas=[free, *(int(node) for node in replicas[1:])]
    )
    scenario.submit(MoveReplicas(partitions=[wanted]))
    put: list[bytes] = []
    in_doubt: set[bytes] = set()
    taken: list[bytes | None] = []

    def take_one() -> None:
        request = q.TakeMessages(
            log_id=log.topic_id, messages_max=1, bytes_max=PLENTY, lock_ms=LOCK_MS, wait_ms=500
        )
        outcome = scenario.try_to(request, q.TakenMessages)
        # A leader that hands over may have locked one: it comes again when the lock ends.
        if isinstance(outcome, q.TakenMessages):
            taken.extend(values(outcome.messages))
            # The next leader may be asked to settle again what was settled under the one before.
            scenario.done(*outcome.messages)

    while scenario.queue().partitions[0].is_moving or len(put) < 20:
        put.append(b"m%d" % len(put))
        outcome = scenario.try_to_put(put[-1])
        if isinstance(outcome, RequestTimedOut):
            in_doubt.add(put[-1])
        else:
            assert isinstance(outcome, q.PutResult), outcome
        take_one()
    while not set(put) - in_doubt <= set(taken):
        take_one()
    scenario.loop.run_for(2 * LOCK_MS)
    take_one()
    assert len(in_doubt) <= 1, "there was one change of leaders"
    assert len(set(taken)) == len(taken), "each once"


def test_a_share_groups_cursor_moves_with_what_was_settled() -> None:
    scenario = CursorScenario(43)
    scenario.write(100)
    first = scenario.acquire(30)
    assert scenario.accept(first[:20]) == []
    log_id = scenario.log_id
    replicas = scenario.any().state.queues_by_log[log_id].partitions[0].replicas
    move(scenario, log_id, replicas[1:])
    scenario.kill(f"b{replicas[0]}")
    scenario.loop.run_for(5_000)
    found = scenario.acquire_all()
    assert not {each.offset for each in first} & set(found)


@pytest.mark.parametrize("name", ["__queue-", "__queue-zz", "__queue-" + "0" * 32])
def test_a_log_that_is_not_there_is_refused(name: str) -> None:
    scenario = QueueScenario(44)
    wanted = WantedReplicas(topic=name, partition=0, replicas=[1])
    outcomes: list[object] = []
    scenario.any().controller_client.submit(
        MoveReplicas(partitions=[wanted]), 5_000, outcomes.append
    )
    scenario.loop.run_until(lambda: outcomes != [], 10_000)
    assert "UnknownTopicOrPartition" in str(outcomes[0])
