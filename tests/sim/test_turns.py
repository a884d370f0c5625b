"""What one turn of a broker does to its groups, one after the other."""

import pytest

from kafkaesque.broker.replication.raft_replica import Replica
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.ids import CONTROLLER_GROUP
from kafkaesque.model.records import Record
from tests.sim.scenario import Scenario


def test_what_a_turn_closes_is_not_performed_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot of the metadata says that a topic is gone while records for it wait."""
    scenario = Scenario(1)
    scenario.write(20)
    scenario.settle()
    name = scenario.leader
    broker, partition, end = scenario.broker(name), scenario.partition(name), scenario.end(name)
    metadata = broker.driver.get(CONTROLLER_GROUP)
    perform = Replica.perform

    def perform_and_close(replica: Replica) -> None:
        perform(replica)
        if replica is metadata and broker.partitions.get(scenario.group) is partition:
            broker.partitions._delete(scenario.group)

    monkeypatch.setattr(Replica, "perform", perform_and_close)
    assert metadata is not None
    broker.driver.touch(metadata)
    answers: list[object] = []
    batch = encode_batch([Record(offset=0, timestamp_ms=0, key=None, value=b"late")])
    partition.produce(batch, acks=1, timeout_ms=1_000, on_done=answers.append)
    scenario.loop.run_until(lambda: bool(answers), 5_000)
    assert isinstance(answers[0], Exception)
    monkeypatch.undo()
    scenario.loop.run_for(1_000)
    assert broker.life.failure is None
    assert all(scenario.end(each) == end for each in scenario.cluster.names if each != name)
