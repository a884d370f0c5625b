"""Each cause is brought about in a simulated cluster, and has to be the first that is named."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.admin.api import why as why_pages
from kafkaesque.admin.api import why_queue
from kafkaesque.admin.api.fan_out import Gathered
from kafkaesque.admin.api.part_pages import GroupAnswer
from kafkaesque.admin.api.values import Member, TopicPartitions, View
from kafkaesque.admin.api.why import presence_in
from kafkaesque.admin.api.why_access import access_links
from kafkaesque.admin.api.why_client_part import WHY_CLIENTS
from kafkaesque.admin.api.why_clients import WhyClientsAnswer, WhyClientsQuestion
from kafkaesque.admin.api.why_links import (
    Link,
    Placed,
    WhyPartition,
    cut_off_link,
    make_view,
    record_links,
    with_doubt,
)
from kafkaesque.admin.api.why_part import PARTITIONS_MAX
from kafkaesque.admin.api.why_queue_links import QueueFacts, queue_links
from kafkaesque.admin.api.why_reader_links import reader_links
from kafkaesque.broker.broker import Broker
from kafkaesque.broker.doors.access import Access
from kafkaesque.broker.doors.parts import Parts
from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST, QueueName
from kafkaesque.broker.requests.commands import FetchResult
from kafkaesque.broker.requests.queue_commands import CreateQueue
from kafkaesque.broker.requests.queue_requests import (
    PeekedMessages,
    PeekMessages,
    PutResult,
    QueueCounts,
    RejectMessages,
    SettleMessages,
    TakeMessages,
    TakenMessages,
)
from kafkaesque.groups.consumer.events import ConsumerGroupHeartbeat
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.errors import TransactionUnverified
from kafkaesque.model.ids import TopicPartition
from kafkaesque.model.records import Record
from kafkaesque.transactions.events import AddedPartitions, AddPartitions, InitProducerId
from kafkaesque.transactions.results import InitResult
from tests.unit.admin.api_ground import ApiGround, text
from tests.unit.admin.test_api_coordinators import at_coordinator

#: Less than a simulated broker keeps for its own needs.
ROOM_BYTES = 7 * 1024


@pytest.fixture
def ground() -> ApiGround:
    return ApiGround(41)


def why(ground: ApiGround, path: str, host: str = "b1", **query: Any) -> tuple[Any, Any, bool]:
    """Return the cause, the link that says so, and whether it is certain."""
    told = ground.get(f"/why/{path}", host, **query)
    links = {each["name"]: each for each in told["links"]}
    cause = told["cause"]
    return cause, links.get(cause), told["is_certain"]


def record(ground: ApiGround, topic: str, offset: int, **query: Any) -> tuple[Any, Any, bool]:
    return why(ground, f"topics/{topic}/partitions/0", offset=offset, **query)


def leader_of(ground: ApiGround, topic: str) -> tuple[str, Broker]:
    for name, broker in ground.cluster.brokers.items():
        group = broker.state.topic(topic).partitions[0].group
        partition = broker.partitions.get(group)
        if partition is not None and partition.replica is not None and partition.is_leader:
            return name, broker
    raise AssertionError("nobody leads")


# -- records


def test_a_record_that_is_there_is_held_up_by_nothing(ground: ApiGround) -> None:
    ground.create("orders")
    offset = ground.publish("orders", 0, text("a"))
    for host in ("b1", "b2", "b3"):
        told = ground.get("/why/topics/orders/partitions/0", host, offset=offset)
        assert (told["cause"], told["is_certain"]) == (None, True)
        assert [each["state"] for each in told["links"]] == ["passed"] * len(told["links"])
        assert told["links"][-1]["name"] == "present"


def test_no_leader(ground: ApiGround) -> None:
    for number in range(6):
        ground.create(f"solo{number}", factor=1)
    topic = next(
        f"solo{number}" for number in range(6) if leader_of(ground, f"solo{number}")[0] == "b3"
    )
    ground.publish(topic, 0, text("a"))
    ground.kill("b3")
    group = ground.cluster.brokers["b1"].state.topic(topic).partitions[0].group
    leaders = ground.cluster.brokers["b1"].leaders
    ground.run_until(lambda: leaders.leader(group) is None)
    cause, link, is_certain = record(ground, topic, 0)
    assert (cause, is_certain) == ("leader", True)
    assert "3" in link["command"]
    assert link["since"] is not None


def test_too_few_replicas_in_sync(ground: ApiGround) -> None:
    ground.create("strict", min_insync_replicas="3")
    offset = ground.publish("strict", 0, text("a"))
    ground.kill("b3")
    ground.run_until(lambda: len(_in_sync(ground, "strict")) < 3)
    cause, link, _ = record(ground, "strict", offset + 1)
    assert cause == "min-insync"
    assert "not in sync: 3" in link["evidence"]
    # What was written before is there all the same.
    assert record(ground, "strict", offset)[0] is None


def _in_sync(ground: ApiGround, topic: str) -> list[int]:
    _, broker = leader_of(ground, topic)
    replica = broker.partitions.find(TopicPartition(topic, 0)).replica
    return [] if replica is None else list(replica.in_sync())


def test_a_full_disk(ground: ApiGround) -> None:
    topics = [f"full{number}" for number in range(6)]
    for topic in topics:
        ground.create(topic, factor=1)
    topic = next(each for each in topics if leader_of(ground, each)[0] == "b3")
    machine = ground.world.machines["b3"]
    ground.kill("b3")
    machine.drive.faults.capacity_bytes = machine.drive.used_bytes() + ROOM_BYTES
    ground.cluster.boot(machine)

    def is_full() -> bool:
        broker = ground.cluster.brokers.get("b3")
        return broker is not None and broker.life.is_ready and broker.store.refusal is not None

    ground.run_until(is_full)
    ground.serve("b3")
    group = ground.cluster.brokers["b1"].state.topic(topic).partitions[0].group
    leaders = ground.cluster.brokers["b1"].leaders
    ground.run_until(lambda: leaders.leader(group) is not None)
    cause, link, is_certain = record(ground, topic, 5)
    assert (cause, is_certain) == ("disk", True)
    assert link["evidence"]


def test_not_written_yet(ground: ApiGround) -> None:
    ground.create("orders")
    assert record(ground, "orders", 7)[0] == "written"


def test_deleted_from_the_start(ground: ApiGround) -> None:
    ground.create("old")
    for each in "abc":
        ground.publish("old", 0, text(each))
    _, broker = leader_of(ground, "old")
    done: list[object] = []
    partition = broker.doors.topics.deletable(TopicPartition("old", 0))
    broker.doors.topics.delete_records(partition, 2, 10_000, done.append)
    ground.run_until(lambda: bool(done))
    cause, link, _ = record(ground, "old", 1)
    assert cause == "retained"
    assert "begins at 2" in link["what"]
    assert record(ground, "old", 2)[0] is None


def begin_transaction(ground: ApiGround, topic: str, name: str = "shop") -> InitResult:
    """Leave a transaction open, with a record in a topic's first partition."""

    def init(doors: Any, on_result: Callable[[Any], None]) -> None:
        try:
            doors.transactions.find(name)
        except Exception as error:
            on_result(error)
            return
        event = InitProducerId(
            token=doors.transactions.next_token(),
            connection=1,
            transactional_id=name,
            timeout_ms=60_000,
        )
        doors.transactions.step(name, event, on_result)

    begun = at_coordinator(ground, init)
    assert isinstance(begun, InitResult)
    added = AddedPartitions(
        name, begun.producer_id, begun.producer_epoch, (TopicPartition(topic, 0),)
    )
    for broker in ground.cluster.brokers.values():
        event = AddPartitions(
            token=broker.doors.transactions.next_token(), connection=1, transactions=(added,)
        )
        done: list[Any] = []
        broker.doors.transactions.step(name, event, done.append)
        ground.run_until(lambda done=done: bool(done))  # type: ignore[misc]
    options = BatchOptions(
        producer_id=begun.producer_id,
        producer_epoch=begun.producer_epoch,
        base_sequence=0,
        transactional=True,
    )
    batch = encode_batch([Record(0, 1_790_000_000_000, None, b"open")], options)
    _, leader = leader_of(ground, topic)
    partition = leader.partitions.find(TopicPartition(topic, 0))
    appended: list[object] = []

    def produce() -> None:
        partition.produce(
            batch, acks=-1, timeout_ms=10_000, on_done=appended.append, transactional_id=name
        )

    try:
        produce()
    except TransactionUnverified as unverified:
        partition.producers.verified(unverified.guard)
        produce()
    ground.run_until(lambda: bool(appended))
    return begun


def test_an_open_transaction(ground: ApiGround) -> None:
    ground.create("orders")
    before = ground.publish("orders", 0, text("before"))
    begun = begin_transaction(ground, "orders")
    cause, link, is_certain = record(ground, "orders", before + 1)
    assert (cause, is_certain) == ("transaction", True)
    assert f"producer {begun.producer_id}" in link["evidence"][1]
    assert link["command"] == "kafkaesque txn producers orders:0 --open"
    assert record(ground, "orders", before)[0] is None
    for name in ("shop", str(begun.producer_id)):
        cause, link, _ = why(ground, f"producers/{name}", "b2")
        assert cause == "transaction"
        assert link["command"] == "kafkaesque txn abort shop"
    assert why(ground, "producers/nobody")[0] == "known"


def fetched(records: bytes, aborted: list[tuple[int, int]] | None = None) -> FetchResult:
    return FetchResult(
        records=records, aborted=aborted or [], last_stable_offset=99, log_start_offset=0
    )


def test_what_compaction_and_aborts_have_left() -> None:
    kept = [Record(0, 1, b"a", b"x"), Record(3, 1, b"b", b"y")]
    plain = bytes(encode_batch(kept))
    assert presence_in(fetched(plain), 0) == "there"
    assert presence_in(fetched(plain), 2) == "compacted"
    later = bytes(encode_batch([Record(7, 1, b"b", b"y")]))
    assert presence_in(fetched(later), 5) == "compacted"
    options = BatchOptions(producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)
    in_transaction = bytes(encode_batch(kept, options))
    assert presence_in(fetched(in_transaction), 0) == "there"
    assert presence_in(fetched(in_transaction, [(9, 0)]), 0) == "aborted"
    assert presence_in(fetched(in_transaction, [(8, 0)]), 0) == "there"


def placed(**led: Any) -> Placed:
    facts = WhyPartition(
        **{
            "topic": "t",
            "partition": 0,
            "start_offset": 0,
            "high_watermark": 10,
            "stable_offset": 10,
            "end_offset": 10,
            "in_sync": [1, 2, 3],
            "min_in_sync": 2,
            "disk_refusal": None,
            "open": [],
            "cleanup_policy": "delete",
            "retention_ms": -1,
            "retention_bytes": -1,
            **led,
        }
    )
    return Placed(
        topic="t",
        partition=0,
        replicas=(1, 2, 3),
        lost={},
        leader=1,
        is_recovering=False,
        led=facts,
    )


def test_not_on_a_majority_yet() -> None:
    links = list(record_links(placed(end_offset=12, in_sync=[1]), 11, "", 0))
    first = next(each for each in links if each.state == "blocking")
    # What keeps it from being committed comes first.
    assert first.name == "min-insync"
    links = list(record_links(placed(end_offset=12, in_sync=[1, 2], min_in_sync=1), 11, "", 0))
    first = next(each for each in links if each.state == "blocking")
    assert first.name == "committed"
    assert "not in sync: 3" in first.evidence


@pytest.mark.parametrize("name", ["when_current", "ask", "fetch"])
def test_a_topic_that_goes_while_it_is_looked_at(
    ground: ApiGround, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    doors = ground.cluster.brokers["b1"].doors
    owner = {"when_current": doors.cluster, "ask": Parts, "fetch": doors.reading}[name]
    whole = getattr(owner, name)
    held: list[Callable[[], None]] = []
    ground.create("orders")
    ground.publish("orders", 0, text("a"))
    monkeypatch.setattr(owner, name, lambda *args: held.append(partial(whole, *args)))
    browser = ground.browser()
    browser.begin("GET", "/api/v1/why/topics/orders/partitions/0?offset=0", {}, None)
    ground.run_until(lambda: bool(held))
    monkeypatch.undo()
    assert ground.ask("DELETE", "/topics/orders").status == 200
    for go_on in held:
        go_on()
    ground.run_until(lambda: browser.is_done or browser.is_closed)
    # Who has read before it went may say what was there.
    assert browser.status == (200 if name == "fetch" else 404)
    assert ground.get("/topics")["total"] == 0


def test_what_breaks_while_a_record_is_looked_at_costs_one_answer(
    ground: ApiGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    ground.create("orders")
    ground.publish("orders", 0, text("a"))
    monkeypatch.setattr(why_pages, "presence_in", lambda result, offset: 1 / 0)
    told = ground.ask("GET", "/why/topics/orders/partitions/0", offset=0)
    assert (told.status, told.json["error"]) == (500, "InternalError")
    assert ground.get("/topics")["total"] == 1


# -- groups


def heartbeat(ground: ApiGround, member: str, epoch: int, owned: frozenset[Any] | None) -> Any:
    def step(doors: Any, on_result: Callable[[Any], None]) -> None:
        event = ConsumerGroupHeartbeat(
            token=doors.groups.next_token(),
            group_id="billing",
            member_id=member,
            member_epoch=epoch,
            rebalance_timeout_ms=60_000,
            topic_names=("orders",) if epoch == 0 else None,
            owned=frozenset() if epoch == 0 else owned,
            client_id=f"app-{member}",
            client_host="10.0.0.9",
        )
        doors.groups.when_found(["billing"], lambda: None)
        try:
            doors.groups.find("billing")
        except Exception as error:
            on_result(error)
            return
        doors.groups.step("billing", event, on_result)

    return at_coordinator(ground, step)


def test_a_group_that_nobody_knows_or_nobody_is_in(ground: ApiGround) -> None:
    ground.create("orders", 3)
    joined = heartbeat(ground, "me-1", 0, None)
    assert why(ground, "groups/nobody")[0] == "group"
    heartbeat(ground, "me-1", -1, None)
    assert joined.member_epoch
    cause, link, _ = why(ground, "groups/billing", "b2")
    assert cause in ("members", "group")
    assert link["command"]


def test_a_consumer_that_lags(ground: ApiGround) -> None:
    ground.create("orders", 3)
    for _ in range(5):
        ground.publish("orders", 1, text("a"))
    joined = heartbeat(ground, "me-1", 0, None)
    heartbeat(ground, "me-1", joined.member_epoch, None)
    cause, link, is_certain = why(ground, "groups/billing", "b3")
    assert (cause, is_certain) == ("lag", True)
    assert "app-me-1 at 10.0.0.9 has orders-1 and is 5 messages behind" in link["what"]
    told = ground.get("/why/topics/orders/partitions/1", offset=2, group="billing")
    assert told["cause"] == "lag"
    assert told["links"][0]["name"] == "leader"


def test_a_rebalance_that_waits(ground: ApiGround) -> None:
    ground.create("orders", 3)
    ground.publish("orders", 0, text("a"))
    joined = heartbeat(ground, "me-1", 0, None)
    heartbeat(ground, "me-1", joined.member_epoch, None)
    # The first has all partitions, and says nothing for now.
    heartbeat(ground, "me-2", 0, None)
    cause, link, _ = why(ground, "groups/billing")
    assert cause == "rebalance"
    assert "app-me-1 at 10.0.0.9" in link["evidence"]


def test_a_group_may_read_as_many_topics_as_are_looked_at(ground: ApiGround) -> None:
    """As many needs as `/why/groups` has at most."""
    needs = [(int(Operation.READ), int(ResourceType.GROUP), "billing")]
    needs += [
        (int(Operation.READ), int(ResourceType.TOPIC), f"t{number}")
        for number in range(PARTITIONS_MAX)
    ]
    told: list[Gathered[WhyClientsAnswer]] = []
    fan_out = ground.gateways["b1"].api.context.fan_out
    fan_out.ask_all(WHY_CLIENTS, WhyClientsQuestion(needs=needs), told.append)
    ground.run_until(lambda: bool(told))
    assert [each.missing for each in told[0].sources] == [None] * 3


def access_with(*hosts: str) -> Access:
    """Return a door that allows everything from anywhere but these hosts."""

    def decide(who: object, host: str, *_: object) -> Any:
        return SimpleNamespace(allowed=host not in hosts, because=f"the rule for {host}")

    rules = {number: SimpleNamespace(host=host) for number, host in enumerate(hosts)}
    state = SimpleNamespace(rules=rules)

    def queue_of_view(topic: str) -> str | None:
        return "orders" if topic == "orders.view" else None

    door = SimpleNamespace(state=state, decide=decide, queue_of_view=queue_of_view)
    return cast("Access", door)


def test_that_somebody_may_is_not_said_where_it_depends_on_the_host() -> None:
    needs = [
        (Operation.READ, ResourceType.TOPIC, "orders"),
        (Operation.READ, ResourceType.GROUP, "billing"),
    ]
    (link,) = access_links(access_with(), "User:app", needs)
    assert (link.name, link.state) == ("allowed", "passed")
    links = list(access_links(access_with("10.0.0.9"), "User:app", needs))
    assert [(each.name, each.state) for each in links] == [("denied", "unknown")] * 2


def test_who_reads_a_queue_as_a_topic_needs_the_right_to_both() -> None:
    needs = [(Operation.READ, ResourceType.TOPIC, "orders.view")]
    links = list(access_links(access_with("10.0.0.9"), "User:app", needs))
    words = ["read the topic orders.view", "read the queue orders"]
    assert [word in each.what for word, each in zip(words, links, strict=True)] == [True] * 2


# -- queues


def make_queue(ground: ApiGround, name: str, **options: str) -> QueueState:
    doors = ground.cluster.brokers["b1"].doors
    done: list[object] = []
    given = {key.replace("_", "."): value for key, value in options.items()}
    command = CreateQueue(vhost=DEFAULT_VHOST, name=name, options=given)
    doors.cluster.submit(command, 10_000, done.append)
    ground.run_until(lambda: bool(done))
    ground.run_until(lambda: any(each.queue.name == name for each in doors.queues.all()))
    return doors.queues.find(QueueName(DEFAULT_VHOST, name))


def put(ground: ApiGround, queue: QueueState, message: NewMessage) -> int:
    done: list[Any] = []
    doors = ground.cluster.brokers["b1"].doors
    doors.queues.put(queue.topic_id, [message], 20_000, done.append)
    ground.run_until(lambda: bool(done))
    assert isinstance(done[0], PutResult), done
    return done[0].offsets[0]


def ask_queue(ground: ApiGround, request: Any, kind: type[Any]) -> Any:
    done: list[Any] = []
    ground.cluster.brokers["b1"].doors.queues.ask(request, kind, 20_000, done.append)
    ground.run_until(lambda: bool(done))
    return done[0]


def test_messages_of_a_queue(ground: ApiGround) -> None:
    queue = make_queue(ground, "work")
    offset = put(ground, queue, NewMessage(value=b"a"))
    assert why(ground, "queues/work", message=offset)[0] is None
    now_ms = ground.cluster.brokers["b1"].env.clock.wall_ms()
    delayed = put(ground, queue, NewMessage(value=b"b", not_before_ms=now_ms + 3_600_000))
    cause, link, _ = why(ground, "queues/work", "b2", message=delayed)
    assert cause == "delay"
    assert any("until" in each for each in link["evidence"])
    request = TakeMessages(log_id=queue.topic_id, bytes_max=1_000_000, wait_ms=1_000)
    taken = ask_queue(ground, request, TakenMessages)
    assert [each.offset for each in taken.messages] == [offset]
    assert why(ground, "queues/work", "b3", message=offset)[0] == "lock"
    reject = RejectMessages(log_id=queue.topic_id, claims=[taken.messages[0].claim])
    ask_queue(ground, reject, object)
    cause, link, _ = why(ground, "queues/work", message=offset)
    assert cause in ("parked", "present"), cause
    assert why(ground, "queues/work", message=offset + 100)[0] == "written"


def test_what_does_not_exist_is_not_found(ground: ApiGround) -> None:
    ground.create("orders")
    for path in ("topics/none/partitions/0", "topics/orders/partitions/9"):
        assert ground.ask("GET", f"/why/{path}", offset=0).status == 404
    for number in ("x", "-1", "99999999999999999999"):
        told = ground.ask("GET", f"/why/topics/orders/partitions/{number}", offset=0)
        assert told.status in (400, 404)
    assert ground.ask("GET", "/why/queues/none", message=0).status == 404
    assert ground.ask("GET", "/why/topics/orders/partitions/0").status == 400


@pytest.mark.parametrize("host", ["/10.0.0.9", "10.0.0.9"])
def test_a_quota_is_named_before_the_lag_that_follows_from_it(host: str) -> None:
    member = Member(
        member="m",
        client_id="app",
        host=host,
        instance=None,
        assignment=[TopicPartitions(topic="t", partitions=[0])],
    )
    group = GroupAnswer(state="Stable", kind="consumer", members=[member])

    def causes(*throttled: tuple[str, str]) -> list[str]:
        links = reader_links("g", group, [placed()], None, 0, frozenset(throttled))
        return [each.name for each in links if each.state == "blocking"]

    assert causes(("10.0.0.9", "app")) == ["quota"]
    # Another client at the same address is another one.
    assert causes(("10.0.0.9", "other")) == causes(("10.0.0.8", "app")) == causes() == ["lag"]


def test_what_is_no_principal_is_refused(ground: ApiGround) -> None:
    ground.create("orders")
    for path in ("groups/billing?", "topics/orders/partitions/0?offset=0&"):
        assert ground.ask("GET", f"/why/{path}principal=nobody").status == 400


# -- what is not certain


def link(name: str, state: str) -> Link:
    return Link(name=name, state=state, what="")


@pytest.mark.parametrize(
    ("links", "cause", "is_certain"),
    [
        ([], None, True),
        ([link("a", "passed")], None, True),
        ([link("a", "passed"), link("b", "blocking"), link("c", "unknown")], "b", True),
        ([link("a", "unknown"), link("b", "blocking")], "a", False),
        ([link("a", "passed"), link("b", "unknown")], "b", False),
    ],
)
def test_the_first_link_that_was_not_passed_is_the_cause(
    links: list[Link], cause: str | None, is_certain: bool
) -> None:
    view = make_view(View(as_of=1, seen_by=1), "x", links)
    assert (view.cause, view.is_certain) == (cause, is_certain)


def test_a_broker_that_is_cut_off_calls_nothing_certain() -> None:
    doubt = cut_off_link(2, [1, 3])
    assert "1, 3" in (doubt.command or "")
    for first in (
        link("leader", "blocking"),
        link("leader", "passed"),
        link("written", "blocking"),
    ):
        links = with_doubt([first, link("lag", "blocking")], doubt)
        view = make_view(View(as_of=1, seen_by=1), "x", links)
        assert view.is_certain is False
        assert view.cause == ("leader" if first == link("leader", "blocking") else "cut-off")
    assert with_doubt([link("lag", "blocking")], None) == [link("lag", "blocking")]


def test_since_when_nobody_leads_is_when_the_broker_was_lost(ground: ApiGround) -> None:
    for number in range(6):
        ground.create(f"solo{number}", factor=1)
    topic = next(e for e in map("solo{}".format, range(6)) if leader_of(ground, e)[0] == "b3")
    clock = ground.cluster.brokers["b1"].env.clock
    killed_ms = clock.wall_ms()
    ground.kill("b3")
    group = ground.cluster.brokers["b1"].state.topic(topic).partitions[0].group
    leaders = ground.cluster.brokers["b1"].leaders
    ground.run_until(lambda: leaders.leader(group) is None)
    ground.world.loop.run_for(30_000)
    _, found, _ = record(ground, topic, 0)
    assert killed_ms <= found["since"] < killed_ms + 10_000


def gone(**removed: int) -> tuple[str, str]:
    counts = QueueCounts(
        ready=0,
        delayed=0,
        in_flight=0,
        parked=0,
        moving=0,
        consumers=0,
        oldest_ms=0,
        floor=9,
        end=9,
        has_begun=True,
        arrived=9,
        removed=removed,
        log_start=0,
        log_end=9,
        log_bytes=0,
    )
    name = QueueName(DEFAULT_VHOST, "q")
    facts = QueueFacts(name=name, offset=3, options={}, replicas=(1,), leader=1, counts=counts)
    *_, last = queue_links(facts, 0)
    return last.name, last.state


def test_why_a_message_is_gone_is_certain_if_all_went_the_same_way() -> None:
    assert gone(settled=4) == ("settled", "blocking")
    assert gone(settled=0, expired=2) == ("expired", "blocking")
    assert gone(too_long=1) == ("dropped", "blocking")
    assert gone(settled=1, expired=1) == ("present", "unknown")
    assert gone(of_a_later_release=1) == ("present", "unknown")


def test_an_earlier_message_of_a_group_that_was_not_found_may_still_be_there(
    ground: ApiGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(why_queue, "AHEAD_MAX", 2)
    queue = make_queue(ground, "fifo", ordered_groups="true")
    for group in (b"a", b"b", b"c", b"mine"):
        put(ground, queue, NewMessage(value=b"x", group=group))
    last = put(ground, queue, NewMessage(value=b"x", group=b"mine"))
    cause, _, is_certain = why(ground, "queues/fifo", message=last)
    assert (cause, is_certain) == ("order", False)


def test_a_dead_letter_of_several_partitions_is_found_and_is_no_other_one_s(
    ground: ApiGround,
) -> None:
    letters = make_queue(ground, "letters", partitions="3")
    queue = make_queue(ground, "spread", partitions="3", dead_letter_queue="letters")
    for _ in range(3):
        put(ground, queue, NewMessage(value=b"a"))
    log_id, offsets = queue.topic_id, set[int]()
    for number in range(3):
        take = TakeMessages(log_id=log_id, partition=number, bytes_max=1_000_000, wait_ms=1_000)
        (message,) = ask_queue(ground, take, TakenMessages).messages
        offsets.add(message.offset)
        end = SettleMessages if number == 1 else RejectMessages
        ask_queue(ground, end(log_id=log_id, partition=number, claims=[message.claim]), object)
    for number in (0, 2):
        look = PeekMessages(log_id=letters.topic_id, partition=number)
        ground.run_until(lambda look=look: bool(ask_queue(ground, look, PeekedMessages).messages))  # type: ignore[misc]
    # All have the same number in their partitions.
    (offset,) = offsets
    told = ("dead-letter", "in letters now"), ("settled", "is done"), ("dead-letter", "in letters")
    for number, (cause, says) in enumerate(told):
        found, link, _ = why(ground, "queues/spread", partition=number, message=offset)
        assert (found, says in link["what"]) == (cause, True), link
