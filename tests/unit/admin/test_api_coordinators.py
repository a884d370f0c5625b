"""Groups with members, and transactions, as their coordinators tell the admin API."""

from collections.abc import Callable
from typing import Any

import pytest

from kafkaesque.admin.api.group_part import _read_assignment
from kafkaesque.groups.consumer.events import ConsumerGroupHeartbeat
from kafkaesque.groups.consumer.results import ConsumerHeartbeatResult
from kafkaesque.groups.errors import GroupError
from kafkaesque.model.ids import TopicPartition
from kafkaesque.protocols.kafka.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    write_consumer_protocol_assignment_v0,
)
from kafkaesque.protocols.kafka.messages.consumer_protocol_assignment import (
    TopicPartition as AssignedPartitions,
)
from kafkaesque.transactions.events import AddedPartitions, AddPartitions, InitProducerId
from kafkaesque.transactions.results import InitResult
from tests.unit.admin.api_ground import ApiGround


@pytest.fixture
def ground() -> ApiGround:
    made = ApiGround(31)
    made.create("orders", 3)
    return made


def at_coordinator(ground: ApiGround, step: Callable[[Any, Callable[[Any], None]], None]) -> Any:
    """Return what the broker answers that coordinates; the others say that it is elsewhere."""
    said: set[str] = set()
    for _ in range(200):
        for broker in ground.cluster.brokers.values():
            told: list[Any] = []
            step(broker.doors, told.append)
            ground.run_until(lambda told=told: bool(told))  # type: ignore[misc]
            said.add(str(told[0]))
            error = getattr(told[0], "error", told[0])
            if getattr(error, "name", "") == "NONE":
                return told[0]
        ground.world.loop.run_for(100)
    raise AssertionError(said)


def heartbeat(
    ground: ApiGround, epoch: int, group: str = "billing", topic: str = "orders"
) -> ConsumerHeartbeatResult:
    def step(doors: Any, on_result: Callable[[Any], None]) -> None:
        event = ConsumerGroupHeartbeat(
            token=doors.groups.next_token(),
            group_id=group,
            member_id="me-1",
            member_epoch=epoch,
            rebalance_timeout_ms=60_000,
            topic_names=(topic,) if epoch == 0 else None,
            owned=frozenset() if epoch == 0 else None,
            client_id="<b>app</b>",
            client_host="10.0.0.9",
        )
        doors.groups.when_found([group], lambda: None)
        try:
            doors.groups.find(group)
        except Exception:
            on_result(GroupError.COORDINATOR_NOT_AVAILABLE)
            return
        doors.groups.step(group, event, on_result)

    result = at_coordinator(ground, step)
    assert isinstance(result, ConsumerHeartbeatResult)
    return result


def test_members_are_told_with_what_they_were_given(ground: ApiGround) -> None:
    joined = heartbeat(ground, 0)
    heartbeat(ground, joined.member_epoch)
    (group,) = ground.get("/groups", "b3")["items"]
    assert (group["group"], group["kind"]) == ("billing", "consumer")
    seen = ground.get("/groups/billing", "b2")
    assert (seen["kind"], seen["state"]) == ("consumer", "Stable")
    (member,) = seen["members"]
    assert (member["member"], member["client_id"]) == ("me-1", "<b>app</b>")
    assert member["host"] == "10.0.0.9"
    assert member["assignment"] == [{"topic": "orders", "partitions": [0, 1, 2]}]
    assert seen["offsets"] == []


@pytest.mark.parametrize(
    "data",
    [b"", b"\x00", b"\x00\x00\x7f\xff\xff\xff", b"\x00\x00\x00\x00\x00\x01\x00\x05ab"],
    ids=["nothing", "short", "many", "cut"],
)
def test_an_assignment_that_is_none_is_shown_as_none(data: bytes) -> None:
    assert _read_assignment(data) == []


def test_a_classic_members_assignment_is_read() -> None:
    parts: list[Any] = []
    assignment = ConsumerProtocolAssignment([AssignedPartitions("orders", [0, 2])], None)
    write_consumer_protocol_assignment_v0(assignment, parts)
    (found,) = _read_assignment(b"\x00\x00" + b"".join(bytes(each) for each in parts))
    assert (found.topic, found.partitions) == ("orders", [0, 2])


def test_an_open_transaction_is_told_with_its_partitions(ground: ApiGround) -> None:
    coordinators = {"found": False}

    def init(doors: Any, on_result: Callable[[Any], None]) -> None:
        try:
            doors.transactions.find("shop")
        except Exception:
            on_result(GroupError.COORDINATOR_NOT_AVAILABLE)
            return
        event = InitProducerId(
            token=doors.transactions.next_token(),
            connection=1,
            transactional_id="shop",
            timeout_ms=60_000,
        )
        doors.transactions.step("shop", event, on_result)

    begun = at_coordinator(ground, init)
    assert isinstance(begun, InitResult)

    def add(doors: Any, on_result: Callable[[Any], None]) -> None:
        added = AddedPartitions(
            "shop",
            begun.producer_id,
            begun.producer_epoch,
            (TopicPartition("orders", 0), TopicPartition("orders", 2)),
        )
        event = AddPartitions(
            token=doors.transactions.next_token(), connection=1, transactions=(added,)
        )

        def told(result: Any) -> None:
            coordinators["found"] = coordinators["found"] or hasattr(result, "transactions")
            on_result(result)

        doors.transactions.step("shop", event, told)

    for broker in ground.cluster.brokers.values():
        done: list[Any] = []
        add(broker.doors, done.append)
        ground.run_until(lambda done=done: bool(done))  # type: ignore[misc]
    assert coordinators["found"]
    for host in ("b1", "b2", "b3"):
        (found,) = ground.get("/transactions", host)["items"]
        assert (found["transactional_id"], found["state"]) == ("shop", "Ongoing")
        assert found["partitions"] == [{"topic": "orders", "partitions": [0, 2]}]
        assert (found["timeout_ms"], found["producer_id"]) == (60_000, begun.producer_id)
        assert found["since"] is not None
    assert ground.get("/cluster")["transactions_open"] == 1
    assert ground.get("/transactions", q="nothing")["items"] == []


def test_a_broker_that_serves_no_api_is_told_to_be_missing() -> None:
    ground = ApiGround(32, serving=("b1", "b2"))
    seen = ground.get("/brokers")
    (source,) = [each for each in seen["sources"] if each["missing"]]
    assert source["broker"] == 3
    assert "does not serve the admin API" in source["missing"]
    assert [each["id"] for each in seen["items"]] == [1, 2, 3]
