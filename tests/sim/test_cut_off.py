"""What a broker tells clients that hears of no other: where else they may ask."""

from typing import Any

import pytest

from kafkaesque.broker.controller.client import CUT_OFF_MS
from kafkaesque.broker.listeners import KAFKA
from kafkaesque.env.network import Address
from kafkaesque.gateway.kafka.cluster_view import ClusterView
from kafkaesque.model.ids import NodeId
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.create_topics_request import (
    CreatableTopic,
    CreateTopicsRequest,
)
from kafkaesque.protocols.kafka.messages.describe_cluster_request import DescribeClusterRequest
from kafkaesque.protocols.kafka.messages.elect_leaders_request import ElectLeadersRequest
from kafkaesque.protocols.kafka.messages.find_coordinator_request import FindCoordinatorRequest
from kafkaesque.protocols.kafka.messages.init_producer_id_request import InitProducerIdRequest
from kafkaesque.protocols.kafka.messages.metadata_request import (
    MetadataRequest,
    MetadataRequestTopic,
)
from kafkaesque.sim.clients import kafka_client
from kafkaesque.sim.clients.kafka_client import BrokerLink
from kafkaesque.sim.options import SimOptions
from tests.sim.scenario import TOPIC, Scenario
from tests.sim.seeds import first_of

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
    "election": (ApiKey.ELECT_LEADERS, 2, ElectLeadersRequest(0, None, timeout_ms=1_000)),
    "controller": (ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest([NEW_TOPIC], timeout_ms=1_000)),
}


def listed(scenario: Scenario, name: str) -> list[int]:
    """Return the brokers that clients are told of."""
    return [each.node for each in ClusterView(scenario.broker(name).doors, KAFKA).brokers]


def is_cut_off(scenario: Scenario, name: str) -> bool:
    return ClusterView(scenario.broker(name).doors, KAFKA).is_cut_off


def cut_off_b1(scenario: Scenario) -> None:
    """Cut it off from the other brokers, and wait until it knows; clients reach it still."""
    for name in ("b2", "b3"):
        scenario.world.wire.block("b1", name)
        scenario.world.wire.block(name, "b1")
    scenario.loop.run_until(
        lambda: scenario.broker("b1").controller_client.leader() is None, 10_000
    )
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
    assert [each.node for each in scenario.broker("b1").cluster.alive_brokers()] == [1]
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
        lambda: all(
            len(scenario.broker(each).cluster.alive_brokers()) == 3 for each in ("b1", "b2", "b3")
        ),
        10_000,
    )
    scenario.kill("b2")
    scenario.loop.run_until(lambda: listed(scenario, "b1") == listed(scenario, "b3") == [1, 3])


def test_a_lost_broker_is_listed_until_its_session_is_over() -> None:
    scenario = Scenario(3)
    session_ms = int(scenario.broker("b1").options.get("broker.session.timeout.ms"))
    scenario.kill("b2")
    scenario.loop.run_until(lambda: not scenario.broker("b1").peers.is_alive(NodeId(2)), 5_000)
    lost_ms = scenario.loop.now_ns // 1_000_000
    assert {each.node for each in scenario.broker("b1").cluster.alive_brokers()} == {1, 3}
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
                if broker.life.is_ready and other in scenario.running():
                    assert listed(scenario, other) == [1, 2, 3]


def test_a_broker_that_has_just_started_lists_those_that_it_has_not_heard_of_yet() -> None:
    scenario = Scenario(5)
    controller = scenario.broker("b1").controller_client.leader()
    started, unheard = (name for name in ("b1", "b2", "b3") if name != f"b{controller}")
    scenario.kill(started)
    scenario.loop.run_for(1_000)
    for way in ((started, unheard), (unheard, started)):
        scenario.world.wire.block(*way)
    scenario.boot(started)
    brokers = scenario.cluster.brokers
    scenario.loop.run_until(lambda: started in brokers and brokers[started].life.is_ready, 8_000)
    assert len(scenario.broker(started).cluster.alive_brokers()) == 2
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
        assert answer.controller_id in (2, 3)
        assert client.is_hung_up_on == is_second


# -- which broker is named as the controller


def sent_to(scenario: Scenario, name: str) -> int:
    """Return to which broker clients are to send what the controller decides."""
    answer = Client(scenario, name).ask(ApiKey.METADATA, 12, MetadataRequest([]))
    assert answer.controller_id in [each.node_id for each in answer.brokers]
    return int(answer.controller_id)


def named(scenario: Scenario, name: str) -> int:
    """Return which broker is said to be the controller."""
    answer = Client(scenario, name).ask(ApiKey.DESCRIBE_CLUSTER, 1, DescribeClusterRequest())
    return int(answer.controller_id)


def controller_of(scenario: Scenario) -> tuple[str, list[str]]:
    """Return the broker whose controller leads, and the others."""
    (leader,) = (n for n in scenario.running() if scenario.broker(n).controller.is_leader)
    return leader, [name for name in scenario.running() if name != leader]


def test_a_broker_that_is_cut_off_names_each_of_those_that_it_has_lost_last() -> None:
    """It can pass nothing on, and a client that is told of no controller asks nobody else."""
    scenario = Scenario(9, SimOptions(brokers=4))
    scenario.kill("b4")
    session_ms = int(scenario.broker("b1").options.get("broker.session.timeout.ms"))
    scenario.loop.run_for(2 * session_ms)
    cut_off_b1(scenario)
    scenario.loop.run_for(session_ms)
    assert {sent_to(scenario, "b1") for _ in range(20)} == {2, 3}
    assert {named(scenario, "b1") for _ in range(20)} == {2, 3}


def test_a_broker_whose_others_are_dead_and_not_cut_off_sends_nobody_to_them() -> None:
    """A client of librdkafka waits for the broker that is named, and asks nobody else meanwhile."""
    scenario = Scenario(10)
    for name in ("b2", "b3"):
        scenario.kill(name)
    scenario.loop.run_until(lambda: scenario.broker("b1").cluster.is_cut_off(), 30_000)
    scenario.loop.run_for(3_000)
    assert {sent_to(scenario, "b1") for _ in range(10)} == {1}
    scenario.boot("b2")
    scenario.loop.run_until(lambda: not scenario.broker("b1").cluster.is_cut_off(), 30_000)
    assert sent_to(scenario, "b1") == 1


def test_clients_are_sent_to_no_controller_that_may_be_dead() -> None:
    """Others believe in it for a second and a half; this broker is one that they reach."""
    scenario = Scenario(11)
    leader, others = controller_of(scenario)
    node = int(leader[1:])
    assert {named(scenario, name) for name in scenario.running()} == {node}
    scenario.kill(leader)
    for other in others:
        assert scenario.broker(other).peers.is_alive(NodeId(node))
        assert sent_to(scenario, other) == int(other[1:])
    scenario.loop.run_until(lambda: not scenario.broker(other).peers.is_alive(NodeId(node)), 5_000)
    assert named(scenario, other) != node


def test_a_broker_that_is_not_listed_sends_clients_to_one_that_is() -> None:
    scenario = Scenario(12)
    scenario.broker("b1").state.brokers.pop(NodeId(1))
    assert sent_to(scenario, "b1") == 2


@pytest.mark.parametrize("seed", first_of(range(3), 1))
def test_a_broker_is_named_whatever_happens(seed: int) -> None:
    scenario = Scenario(seed)
    names = list(scenario.cluster.names)
    for turn in range(12):
        name = names[turn % 3]
        if turn % 2:
            scenario.kill(name)
        else:
            for other in set(names) - {name}:
                scenario.world.wire.block(name, other)
        for _ in range(20):
            scenario.loop.run_for(100)
            for each in scenario.running():
                if each in scenario.cluster.brokers and scenario.broker(each).life.is_ready:
                    view = ClusterView(scenario.broker(each).doors, KAFKA)
                    listed_here = [found.node for found in view.brokers]
                    assert view.controller in listed_here
                    assert view.way_to_controller in listed_here
        scenario.world.wire.heal()
        if turn % 2:
            scenario.boot(name)


# -- what is asked of a controller meanwhile


def creation(name: str, timeout_ms: int) -> CreateTopicsRequest:
    topic = CreatableTopic(name, num_partitions=1, replication_factor=1)
    return CreateTopicsRequest([topic], timeout_ms=timeout_ms)


def asked_to_create(
    scenario: Scenario, name: str, timeout_ms: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[Any, int]:
    """Return a broker's answer to CreateTopics, and after how long it came."""
    monkeypatch.setattr(kafka_client, "REQUEST_TIMEOUT_MS", 60_000)
    begun_ns = scenario.loop.now_ns
    answer = Client(scenario, name).ask(ApiKey.CREATE_TOPICS, 5, creation("new", timeout_ms))
    return answer.topics[0], (scenario.loop.now_ns - begun_ns) // 1_000_000


@pytest.mark.parametrize("gap_ms", [1, 5])
def test_topics_are_created_while_the_controller_changes(
    gap_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the request was surely not sent to the one that is gone, it waits for the next."""
    scenario = Scenario(12)
    leader, (other, _) = controller_of(scenario)
    scenario.kill(leader)
    dead = NodeId(int(leader[1:]))
    scenario.loop.run_until(lambda: not scenario.broker(other).peers.is_linked(dead), 5_000)
    assert scenario.broker(other).controller_client.leader() == dead
    scenario.loop.run_for(gap_ms)
    result, _ = asked_to_create(scenario, other, 30_000, monkeypatch)
    assert (result.error_code, result.error_message) == (ErrorCode.NONE, None)


@pytest.mark.parametrize("is_done", [False, True])
def test_a_topic_is_created_once_whether_the_last_controller_did_it_or_not(
    is_done: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request was sent to it, and its answer does not come."""
    scenario = Scenario(15)
    leader, (other, third) = controller_of(scenario)
    scenario.world.wire.block(leader, other)
    if not is_done:
        scenario.world.wire.block(leader, third)
    made: list[bool] = []
    clock = scenario.env.clock
    clock.call_later(1_000, lambda: made.append("new" in scenario.broker(third).state.topics))
    clock.call_later(4_000, scenario.world.wire.heal)
    result, _ = asked_to_create(scenario, other, 30_000, monkeypatch)
    assert made == [is_done], "before it was asked for again"
    assert (result.error_code, result.error_message) == (ErrorCode.NONE, None)
    scenario.loop.run_for(8_000)
    states = [scenario.broker(name).state for name in scenario.running()]
    assert len({state.topic("new").topic_id for state in states}) == 1
    result, _ = asked_to_create(scenario, other, 30_000, monkeypatch)
    assert result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_broker_that_is_cut_off_refuses_before_the_client_has_waited_in_vain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario = Scenario(13)
    cut_off_b1(scenario)
    result, took_ms = asked_to_create(scenario, "b1", 30_000, monkeypatch)
    assert result.error_code == ErrorCode.NOT_CONTROLLER
    assert CUT_OFF_MS <= took_ms < CUT_OFF_MS + 1_000


def test_a_request_that_met_no_controller_in_its_time_was_not_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two of three controllers are down; the other four brokers of six hear one another."""
    scenario = Scenario(14, SimOptions(brokers=6))
    voters = sorted(scenario.broker("b1").controller_voters.current())
    assert len(voters) == 3
    for node in voters[1:]:
        scenario.kill(f"b{node}")
    left = f"b{voters[0]}"
    scenario.loop.run_until(
        lambda: scenario.broker(left).controller_client.leader() is None, 10_000
    )
    scenario.loop.run_for(10_000)
    assert not is_cut_off(scenario, left)
    assert sent_to(scenario, left) == named(scenario, left) == voters[0]
    result, took_ms = asked_to_create(scenario, left, 12_000, monkeypatch)
    assert result.error_code == ErrorCode.NOT_CONTROLLER
    assert 12_000 <= took_ms < 13_000
