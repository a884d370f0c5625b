"""A broker that opens its partitions answers others meanwhile."""

from typing import Any

import pytest

from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.partitions.partition_table import OPENING_MS_MAX, PartitionTable
from kafkaesque.broker.requests.commands import CreateTopic
from tests.sim.scenario import Scenario

PARTITIONS = 12


class SlowClock:
    """A broker's clock; the table of partitions believes that reading a log takes time."""

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self.late_ms = 0

    def now_ms(self) -> int:
        now_ms: int = self._clock.now_ms() + self.late_ms
        return now_ms

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clock, name)


@pytest.mark.parametrize(("each_ms", "in_a_turn"), [(OPENING_MS_MAX, 1), (OPENING_MS_MAX // 4, 4)])
def test_the_loop_turns_between_partitions_whose_logs_take_long_to_read(
    each_ms: int, in_a_turn: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = Scenario(1)
    done: list[object] = []
    command = CreateTopic(name="many", partition_count=PARTITIONS, replication_factor=3)
    scenario.broker(scenario.leader).controller_client.submit(command, 20_000, done.append)
    scenario.loop.run_until(lambda: bool(done), 20_000)
    scenario.loop.run_for(2_000)
    name = next(each for each in scenario.cluster.names if each != scenario.leader)
    opened: list[int] = []
    restore, reconcile = Partition.restore, PartitionTable.reconcile

    def turn(self: PartitionTable) -> None:
        opened.append(0)
        reconcile(self)

    def slow(self: Partition, log: Any) -> None:
        restore(self, log)
        opened[-1] += 1
        clocks[-1].late_ms += each_ms

    def prepare(broker: Any) -> None:
        broker.partitions._clock = SlowClock(broker.partitions._clock)
        clocks.append(broker.partitions._clock)

    clocks: list[SlowClock] = []
    scenario.kill(name)
    monkeypatch.setattr(Partition, "restore", slow)
    monkeypatch.setattr(PartitionTable, "reconcile", turn)
    scenario.cluster.prepare = prepare
    scenario.boot(name)
    scenario.loop.run_for(5_000)
    assert sum(opened) > PARTITIONS
    assert max(opened) == in_a_turn
