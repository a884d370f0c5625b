"""What a leader says that was deposed and does not know it, to clients without leader epochs."""

from typing import Any

import pytest

from kafkaesque.broker.listeners import KAFKA
from kafkaesque.broker.requests.commands import ForwardFetch, ProduceResult
from kafkaesque.env.network import Address
from kafkaesque.gateway.kafka.cluster_view import ClusterView, Placement
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.errors import NotLeader, OffsetOutOfRange
from kafkaesque.model.records import Record
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
)
from kafkaesque.sim.clients.kafka_client import BrokerLink
from tests.sim.scenario import TOPIC, Scenario


def fetch(scenario: Scenario, name: str, offset: int) -> int:
    """Fetch from a broker, without a leader epoch; return the error."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000_000)
    topic_id = scenario.broker(name).state.topic(TOPIC).topic_id
    topic = FetchTopic(topic_id=topic_id, partitions=[partition])
    request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1_000_000, topics=[topic])
    answers: list[Any] = []
    BrokerLink(scenario.env, Address(name, 9092)).send(ApiKey.FETCH, 13, request, answers.append)
    scenario.loop.run_until(lambda: answers != [], 10_000)
    return int(answers[0].responses[0].partitions[0].error_code)


def forward(scenario: Scenario, name: str, offset: int) -> Any:
    """Ask a broker as others do for their clients; return the outcome."""
    request = ForwardFetch(topic=TOPIC, partition=0, offset=offset, bytes_max=1_000)
    answers: list[Any] = []
    scenario.broker(name).forwarder.serve_fetch(request, answers.append)
    scenario.loop.run_until(lambda: answers != [], 10_000)
    return answers[0]


def deposed(seed: int) -> tuple[Scenario, str, int] | None:
    """Return a leader that is cut off, and an offset that the next one has acknowledged."""
    scenario = Scenario(seed)
    scenario.write(30)
    scenario.settle()
    old, wire = scenario.leader, scenario.world.wire
    for other in scenario.running():
        if other != old:
            wire.block(old, other)
            wire.block(other, old)
    scenario.loop.run_until(lambda: set(scenario.leaders()) != {old}, 30_000)
    if old not in scenario.leaders():
        return None
    (new,) = set(scenario.leaders()) - {old}
    acked: list[object] = []
    data = encode_batch([Record(n, 1_700_000_000_000, None, b"x", ()) for n in range(5)])
    scenario.partition(new).produce(data, acks=-1, timeout_ms=5_000, on_done=acked.append)
    scenario.loop.run_until(lambda: acked != [] or old not in scenario.leaders(), 10_000)
    if old not in scenario.leaders() or not isinstance(acked[0], ProduceResult):
        return None
    return scenario, old, scenario.partition(new).high_watermark


@pytest.mark.parametrize("is_forwarded", [False, True])
def test_it_calls_no_offset_out_of_range_that_the_next_leader_has_acknowledged(
    is_forwarded: bool,
) -> None:
    found = next(filter(None, map(deposed, range(1, 12))))
    scenario, old, offset = found
    if is_forwarded:
        assert isinstance(forward(scenario, old, offset), NotLeader)
    else:
        assert fetch(scenario, old, offset) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_leader_calls_an_offset_out_of_range_once_that_is_confirmed() -> None:
    scenario = Scenario(1)
    scenario.write(30)
    scenario.settle()
    end = scenario.end(scenario.leader)
    assert fetch(scenario, scenario.leader, end + 1) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert isinstance(forward(scenario, scenario.leader, end + 1), OffsetOutOfRange)
    assert fetch(scenario, scenario.leader, end) == ErrorCode.NONE


def place(scenario: Scenario, name: str) -> Placement | None:
    """Return where the partition is, as a broker tells its clients, once it knows the topic."""
    broker = scenario.cluster.brokers.get(name)
    if scenario.find(name) is None or broker is None:
        return None
    return ClusterView(broker.doors, KAFKA).place(broker.state.topic(TOPIC).partitions[0])


def test_no_broker_forgets_the_leader_epoch_when_all_are_killed() -> None:
    scenario = Scenario(3)
    scenario.write(30)
    scenario.settle()
    epoch = scenario.partition(scenario.leader).leader_epoch
    for name in scenario.running():
        scenario.kill(name)
    for name in scenario.cluster.names:
        scenario.boot(name)
    told: list[Placement] = []
    while not told or any(each.error_code for each in told[-3:]):
        scenario.loop.run_for(5)
        told += filter(None, [place(scenario, name) for name in scenario.cluster.names])
    assert told[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert all(each.leader_epoch >= epoch for each in told)
