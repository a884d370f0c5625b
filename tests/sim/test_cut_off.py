"""What a broker tells clients that hears of no other: where else they may ask."""

from typing import Any

import pytest

from kafkaesque.env.network import Address
from kafkaesque.gateway.kafka.cluster_view import ClusterView
from kafkaesque.model.ids import NO_NODE, NodeId
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.create_topics_request import (
    CreatableTopic,
    CreateTopicsRequest,
)
from kafkaesque.protocols.kafka.messages.find_coordinator_request import FindCoordinatorRequest
from kafkaesque.protocols.kafka.messages.init_producer_id_request import InitProducerIdRequest
from kafkaesque.protocols.kafka.messages.metadata_request import (
    MetadataRequest,
    MetadataRequestTopic,
)
from kafkaesque.sim.clients import kafka_client
from kafkaesque.sim.clients.kafka_client import BrokerLink
from tests.sim.scenario import TOPIC, Scenario

NEW_TOPIC = CreatableTopic("new", num_partitions=1, replication_factor=1)
#: What only other brokers know or do: the API, its version and what is asked.
NEEDS_OTHERS = {
    "leader": (ApiKey.METADATA, 12, MetadataRequest([MetadataRequestTopic(name=TOPIC)])),
    "coordinator": (ApiKey.FIND_COORDINATOR, 2, FindCoordinatorRequest(key="readers")),
    "coordinators": (
        ApiKey.FIND_COORDINATOR,
        4,
        FindCoordinatorRequest(coordinator_keys=["readers", "others"]),
    ),
    "controller": (ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest([NEW_TOPIC], timeout_ms=1_000)),
}


def listed(scenario: Scenario, name: str) -> list[int]:
    """Return the brokers that clients are told of."""
    return [each.node for each in ClusterView(scenario.broker(name)).brokers]


def is_cut_off(scenario: Scenario, name: str) -> bool:
    return ClusterView(scenario.broker(name)).is_cut_off


def cut_off_b1(scenario: Scenario) -> None:
    """Cut it off from the other brokers, and wait until it knows; clients reach it still."""
    for name in ("b2", "b3"):
        scenario.world.wire.block("b1", name)
        scenario.world.wire.block(name, "b1")
    scenario.loop.run_until(lambda: scenario.broker("b1").controller_node() is None, 10_000)
    scenario.loop.run_for(10_000)


class Client:
    """A client of one broker."""

    def __init__(self, scenario: Scenario, name: str) -> None:
        self._loop = scenario.loop
        self._link = BrokerLink(scenario.env, Address(name, 9092))

    def ask(self, api_key: int, version: int, message: object) -> Any:
        """Return the answer; None if the broker hangs up in its place."""
        answers: list[Any] = []
        self._link.send(api_key, version, message, answers.append)
        self._loop.run_until(lambda: bool(answers), 60_000)
        return answers[0]

    @property
    def is_hung_up_on(self) -> bool:
        """Whether the broker has closed the connection since."""
        self._loop.run_for(100)
        return self._link.is_closed


def test_a_broker_that_is_cut_off_names_all_brokers() -> None:
    scenario = Scenario(1)
    cut_off_b1(scenario)
    assert [each.node for each in scenario.broker("b1").alive_brokers()] == [1]
    assert listed(scenario, "b1") == [1, 2, 3]
    assert listed(scenario, "b2") == listed(scenario, "b3") == [2, 3]
    assert [is_cut_off(scenario, name) for name in ("b1", "b2", "b3")] == [True, False, False]


def test_the_two_sides_of_one_cut_know_their_ways_again_when_it_is_healed() -> None:
    scenario = Scenario(2)
    scenario.world.wire.block("b2", "b1")
    scenario.world.wire.block("b3", "b1")
    scenario.loop.run_for(10_000)
    assert listed(scenario, "b1") == [1, 2, 3]
    scenario.world.wire.unblock("b2", "b1")
    scenario.world.wire.unblock("b3", "b1")
    scenario.loop.run_until(
        lambda: all(len(scenario.broker(each).alive_brokers()) == 3 for each in ("b1", "b2", "b3")),
        10_000,
    )
    scenario.kill("b2")
    scenario.loop.run_until(lambda: listed(scenario, "b1") == listed(scenario, "b3") == [1, 3])


def test_a_lost_broker_is_listed_until_its_session_is_over() -> None:
    scenario = Scenario(3)
    session_ms = int(scenario.broker("b1").option("broker.session.timeout.ms"))
    scenario.kill("b2")
    scenario.loop.run_until(lambda: not scenario.broker("b1").peers.is_alive(NodeId(2)), 5_000)
    lost_ms = scenario.loop.now_ns // 1_000_000
    assert {each.node for each in scenario.broker("b1").alive_brokers()} == {1, 3}
    scenario.loop.run_until(lambda: listed(scenario, "b1") != [1, 2, 3], 2 * session_ms)
    assert listed(scenario, "b1") == [1, 3]
    assert session_ms <= scenario.loop.now_ns // 1_000_000 - lost_ms <= session_ms + 100


def test_a_broker_that_comes_back_at_once_never_goes_from_what_clients_are_told() -> None:
    scenario = Scenario(4)
    for name in ("b1", "b2", "b3"):
        scenario.kill(name)
        for step in range(100):
            scenario.loop.run_for(50)
            if step == 20:
                scenario.boot(name)
            for other, broker in scenario.cluster.brokers.items():
                if broker.is_ready and other in scenario.running():
                    assert listed(scenario, other) == [1, 2, 3]


def test_a_broker_that_has_just_started_lists_those_that_it_has_not_heard_of_yet() -> None:
    scenario = Scenario(5)
    controller = scenario.broker("b1").controller_node()
    started, unheard = (name for name in ("b1", "b2", "b3") if name != f"b{controller}")
    scenario.kill(started)
    scenario.loop.run_for(1_000)
    for way in ((started, unheard), (unheard, started)):
        scenario.world.wire.block(*way)
    scenario.boot(started)
    brokers = scenario.cluster.brokers
    scenario.loop.run_until(lambda: started in brokers and brokers[started].is_ready, 8_000)
    assert len(scenario.broker(started).alive_brokers()) == 2
    assert listed(scenario, started) == [1, 2, 3]
    scenario.loop.run_until(lambda: len(listed(scenario, started)) == 2, 10_000)


@pytest.mark.parametrize("what", NEEDS_OTHERS)
def test_who_asks_a_broker_that_is_cut_off_is_answered_and_sent_elsewhere(what: str) -> None:
    """Clients stay with a broker that answers, and ask it for as long as they live."""
    scenario = Scenario(6)
    asked = NEEDS_OTHERS[what]
    before = Client(scenario, "b1")
    before.ask(ApiKey.FIND_COORDINATOR, 2, FindCoordinatorRequest(key="readers"))
    assert not before.is_hung_up_on
    cut_off_b1(scenario)
    for client in (before, Client(scenario, "b1")):
        answer = client.ask(*asked)
        assert answer is not None
        assert client.is_hung_up_on
    for name in ("b2", "b3"):
        client = Client(scenario, name)
        answer = client.ask(*asked)
        assert answer is not None
        assert not client.is_hung_up_on


def test_a_producer_gets_no_id_from_a_broker_that_is_cut_off_and_is_sent_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kafka_client, "REQUEST_TIMEOUT_MS", 60_000)
    scenario = Scenario(7)
    cut_off_b1(scenario)
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000)
    client = Client(scenario, "b1")
    while (answer := client.ask(ApiKey.INIT_PRODUCER_ID, 4, request)).error_code == 0:
        assert not client.is_hung_up_on  # it has ids left from before
    assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert client.is_hung_up_on


def test_who_asks_a_broker_that_is_cut_off_for_the_controller_twice_is_sent_elsewhere() -> None:
    """Everybody asks for the brokers first; who seeks the controller asks on."""
    scenario = Scenario(8)
    cut_off_b1(scenario)
    client = Client(scenario, "b1")
    for is_second in (False, True):
        answer = client.ask(ApiKey.METADATA, 12, MetadataRequest([]))
        assert [each.node_id for each in answer.brokers] == [1, 2, 3]
        assert answer.controller_id == NO_NODE
        assert client.is_hung_up_on == is_second
