"""Groups deleted, transactions aborted and replicas moved: told before it is done, then done."""

from collections.abc import Callable
from typing import Any

import pytest

from kafkaesque.access.audit import AuditEvent
from kafkaesque.broker.audit import Audit
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.requests.commands import ProduceResult
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.errors import TransactionUnverified
from kafkaesque.model.ids import TopicPartition
from kafkaesque.transactions.events import AddedPartitions, AddPartitions, InitProducerId
from kafkaesque.transactions.results import InitResult
from tests.unit.admin.api_ground import ApiGround, text
from tests.unit.admin.test_api import commit
from tests.unit.admin.test_api_coordinators import at_coordinator, heartbeat

PLACE = "/topics/orders/partitions/1/abort"


@pytest.fixture
def ground() -> ApiGround:
    made = ApiGround(43)
    made.create("orders", 3)
    return made


def leader(ground: ApiGround, where: TopicPartition) -> tuple[str, Doors, Partition]:
    """Return the broker that leads a partition."""
    for name, broker in ground.cluster.brokers.items():
        try:
            found = broker.doors.reading.partition(where)
        except Exception:
            continue
        if found.is_leader:
            return name, broker.doors, found
    raise AssertionError(where)


def coordinator(ground: ApiGround, name: str) -> tuple[str, Doors, Partition]:
    """Return the broker that coordinates a transactional id."""
    return leader(ground, ground.cluster.brokers["b1"].doors.transactions.find(name))


def write(
    ground: ApiGround, partition: int, producer: int, epoch: int = 0, sequence: int = 0
) -> None:
    """Write a record of a transaction, whoever knows of it."""
    done: list[object] = []
    options = BatchOptions(
        producer_id=producer, producer_epoch=epoch, base_sequence=sequence, transactional=True
    )
    where = TopicPartition("orders", partition)
    found = [each.doors.reading.partition(where) for each in ground.cluster.brokers.values()]
    (leader,) = [each for each in found if each.is_leader]

    def produce() -> None:
        leader.produce(
            encode_batch([text("in a transaction")], options),
            acks=-1,
            timeout_ms=10_000,
            on_done=lambda outcome: done.append(outcome),
            in_transaction=True,
        )

    # As if a coordinator had confirmed it that has lost it since.
    try:
        produce()
    except TransactionUnverified as unverified:
        leader.producers.verified(unverified.guard)
        produce()
    ground.run_until(lambda: bool(done))
    assert isinstance(done[0], ProduceResult), done


def begin(ground: ApiGround, name: str, partition: int) -> InitResult:
    """Begin a transaction of an id in a partition."""

    def init(doors: Any, on_result: Callable[[Any], None]) -> None:
        token = doors.transactions.next_token()
        event = InitProducerId(token=token, connection=1, transactional_id=name, timeout_ms=600_000)
        doors.transactions.when_found([name], lambda: None)
        try:
            doors.transactions.find(name)
        except Exception as error:
            on_result(error)
            return
        doors.transactions.step(name, event, on_result)

    begun = at_coordinator(ground, init)
    where = (TopicPartition("orders", partition),)
    added = AddedPartitions(name, begun.producer_id, begun.producer_epoch, where)

    def add(doors: Any, on_result: Callable[[Any], None]) -> None:
        token = doors.transactions.next_token()
        event = AddPartitions(token=token, connection=1, transactions=(added,))
        doors.transactions.step(
            name, event, lambda said: on_result(begun if hasattr(said, "transactions") else said)
        )

    at_coordinator(ground, add)
    assert isinstance(begun, InitResult)
    return begun


def test_a_group_is_deleted_when_nobody_is_in_it(
    ground: ApiGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[AuditEvent] = []
    monkeypatch.setattr(Audit, "note", lambda _, event: noted.append(event))
    commit(ground, "team", ("orders", 0, 0))
    told = ground.ask("DELETE", "/groups/team", None, "b2", dry_run="true").json
    assert told["what"] == "group team would be deleted, with 1 offset"
    assert told["command"] == "kafkaesque group delete team"
    assert ground.get("/groups/team")["state"]
    noted.clear()
    assert ground.ask("DELETE", "/groups/team", None, "b3").status == 200
    assert [(each.operation, each.resource) for each in noted] == [("delete-group", "team")]
    assert ground.ask("GET", "/groups/team").status == 404
    assert ground.ask("DELETE", "/groups/team").status == 404
    assert ground.ask("DELETE", "/groups/team", None, "b1", dry_run="true").status == 404
    marker = ground.ask("DELETE", "/groups/spark-sink-q-0")
    assert (marker.status, "allow-duplicates" in marker.json["message"]) == (400, True)


def test_a_group_with_members_stays(ground: ApiGround) -> None:
    heartbeat(ground, 0)
    told = ground.ask("DELETE", "/groups/billing", None, "b1", dry_run="true").json
    assert told["what"].endswith("but it has 1 member, to be stopped first")
    refused = ground.ask("DELETE", "/groups/billing")
    assert (refused.status, refused.json["error"]) == (409, "GroupNotEmpty")


def test_a_transaction_is_aborted_by_its_id_and_what_hangs_by_its_place(ground: ApiGround) -> None:
    known = begin(ground, "shop", 0)
    write(ground, 0, known.producer_id, known.producer_epoch)
    write(ground, 1, 4711)
    first, second = ground.get("/open-transactions", "b2")["items"]
    assert (first["partition"], first["transactional_id"], first["is_hanging"]) == (
        0,
        "shop",
        False,
    )
    assert (second["partition"], second["transactional_id"], second["is_hanging"]) == (
        1,
        None,
        True,
    )
    assert (second["producer_id"], second["start_offset"]) == (4711, 0)
    # What does not hang is its coordinator's to end.
    body = {"start_offset": 0}
    refused = ground.ask("POST", PLACE.replace("/1/", "/0/"), body)
    assert (refused.status, refused.json["error"]) == (409, "NotHanging")
    assert ground.ask("POST", PLACE, {"start_offset": 7}).status == 404
    assert ground.ask("POST", PLACE.replace("/1/", "/9/"), body).status == 404
    told = ground.ask("POST", PLACE, body, "b3", dry_run="true").json
    words = "kafkaesque txn abort --topic orders --partition 1 --start-offset 0"
    assert told["command"] == words
    assert len(ground.get("/open-transactions")["items"]) == 2
    assert ground.ask("POST", PLACE, body, "b3").status == 200
    (left,) = ground.get("/open-transactions")["items"]
    assert left["partition"] == 0
    told = ground.ask("POST", "/transactions/shop/abort", None, "b1", dry_run="true").json
    what = "the transaction of shop in 1 partition would be aborted, and its producer fenced"
    assert (told["what"], told["command"]) == (what, "kafkaesque txn abort shop")
    assert ground.ask("POST", "/transactions/shop/abort", None, "b2").status == 200
    ground.run_until(lambda: ground.get("/open-transactions")["items"] == [])
    assert ground.ask("POST", "/transactions/shop/abort").status == 409
    assert ground.ask("POST", "/transactions/nobody/abort").status == 404


def test_a_move_is_told_in_bytes_and_time_and_then_done(ground: ApiGround) -> None:
    ground.create("single", 1, 1)
    for _ in range(10):
        ground.publish("single", 0, text("x" * 1_000))
    (part,) = ground.get("/topics/single")["partitions"]
    (held,) = part["replicas"]
    others = [each for each in (1, 2, 3) if each != held]
    body = {"replicas": others}
    told = ground.ask("POST", "/topics/single/reassign", body, "b2", dry_run="true").json
    (row,) = told["rows"]
    assert (row["before"], row["after"], row["adding"]) == ([held], others, others)
    assert told["bytes"] == 2 * part["bytes"] > 20_000
    assert (told["rate_is"], told["unknown"]) == ("assumed", 0)
    replicas = ",".join(map(str, others))
    assert told["command"] == f"kafkaesque topic reassign single --replicas {replicas}"
    assert ground.get("/topics/single")["partitions"][0]["replicas"] == [held]
    assert ground.ask("POST", "/topics/single/reassign", body, "b3").status == 200
    ground.run_until(lambda: ground.get("/topics/single")["partitions"][0]["replicas"] == others)
    told = ground.ask("POST", "/topics/single/reassign", {"replicas": [9]}).json
    assert told["rows"][0]["refusal"] == "there is no broker 9"
    assert (told["bytes"], told["what"].endswith("and 1 partition refused")) == (0, True)
    stop = ground.ask("POST", "/topics/single/reassign", {"replicas": None}, dry_run="true").json
    assert "no replica of single-0 moves" in stop["rows"][0]["refusal"]


def test_a_move_takes_as_long_as_its_limit_says(
    ground: ApiGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    ground.create("single", 1, 1)
    ground.publish("single", 0, text("x" * 1_000))
    doors = ground.cluster.brokers["b1"].doors
    monkeypatch.setattr(doors.configuration, "get", lambda _: 100)
    (part,) = ground.get("/topics/single")["partitions"]
    (held,) = part["replicas"]
    body = {"replicas": [held, held % 3 + 1]}
    told = ground.ask("POST", "/topics/single/reassign", body, "b1", dry_run="true").json
    assert (told["rate"], told["rate_is"]) == (100, "limit")
    assert told["duration_ms"] == part["bytes"] * 10
