"""New partitions are opened by themselves: what there is already is not looked at again."""

import pytest

from kafkaesque.broker.partitions.partition_table import OPENED_PER_TURN_MAX, PartitionTable
from tests.sim.queue_scenario import TIMEOUT_MS, QueueScenario


def test_a_new_queue_is_opened_without_a_look_at_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queues = QueueScenario(1)
    queues.queue_leader()
    compared: list[PartitionTable] = []
    compare = PartitionTable.reconcile

    def reconcile(table: PartitionTable) -> None:
        compared.append(table)
        compare(table)

    monkeypatch.setattr(PartitionTable, "reconcile", reconcile)
    queues.create("another")
    assert queues.queue_leader("another")
    queues.put(b"one", name="another")
    assert compared == []


def test_more_partitions_than_are_opened_in_a_turn_are_all_opened() -> None:
    queues = QueueScenario(2)
    queues.make_topic("wide", partitions=2 * OPENED_PER_TURN_MAX + 1)
    groups = [each.group for each in queues.any().state.topic("wide").partitions]
    tables = [queues.broker(each).partitions for each in queues.running()]
    queues.loop.run_until(
        lambda: all(table.get(group) is not None for table in tables for group in groups),
        TIMEOUT_MS,
    )
