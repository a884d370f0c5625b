"""Exchanges of real brokers: routed, confirmed, and dead letters through them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest

from kafkaesque.broker.doors import publish_lanes
from kafkaesque.broker.doors.publication import Publication
from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.broker.requests.exchange_commands import BindDestination, DeclareExchange
from kafkaesque.gateway.kafka.queues import Action
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.errors import OverBound, RequestRefused, UnknownQueue
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.alter_binding_request import AlterBindingRequest
from kafkaesque.protocols.kafka.messages.alter_exchange_request import AlterExchangeRequest
from kafkaesque.protocols.kafka.messages.alter_vhost_request import AlterVhostRequest
from kafkaesque.protocols.kafka.messages.create_queue_request import CreateQueueRequest
from kafkaesque.protocols.kafka.messages.describe_exchanges_request import DescribeExchangesRequest
from kafkaesque.protocols.kafka.messages.publish_messages_request import PublishMessagesRequest
from kafkaesque.protocols.kafka.messages.put_messages_request import PutMessagesRequest
from kafkaesque.routing.exchanges.errors import NoSuchExchange, NoSuchVhost
from kafkaesque.routing.exchanges.records import Arguments, Destination
from kafkaesque.routing.message import RoutedMessage
from tests.unit.gateway_kafka.live import LiveCluster
from tests.unit.gateway_kafka.test_queues import (
    BYTES,
    TIMEOUT_MS,
    VHOST,
    counts,
    create,
    settle,
    take,
    values_of,
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    found = LiveCluster(tmp_path_factory.mktemp("exchanges"), count=3)
    yield found
    found.close()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)


def done(cluster: LiveCluster, begin: Callable[[Callable[[Any], None]], None]) -> Any:
    """Begin something, wait for its answer, and until all brokers have heard of it."""
    answers: list[Any] = []
    begin(answers.append)
    cluster.wait(lambda: bool(answers), "an answer")
    state = max((each.broker.doors.cluster for each in cluster.nodes.values()), key=_end).state
    cluster.wait(
        lambda: all(
            each.broker.doors.cluster.state.routing == state.routing
            for each in cluster.nodes.values()
        ),
        "all know",
    )
    return answers[0]


def _end(door: Any) -> int:
    return int(door.state.version)


def declare(cluster: LiveCluster, name: str, kind: str, node: int = 1, **more: Any) -> Any:
    door = cluster.nodes[node].broker.doors.exchanges
    wanted = DeclareExchange(vhost=VHOST, name=name, type=kind, **more)
    return done(cluster, lambda answer: door.submit(wanted, TIMEOUT_MS, answer))


def bind(
    cluster: LiveCluster,
    source: str,
    to: Destination | str,
    key: str = "",
    arguments: Arguments | None = None,
) -> Any:
    door = cluster.nodes[2].broker.doors.exchanges
    where = to if isinstance(to, Destination) else Destination(to)
    wanted = BindDestination(
        vhost=VHOST, source=source, destination=where, key=key, arguments=dict(arguments or {})
    )
    return done(cluster, lambda answer: door.submit(wanted, TIMEOUT_MS, answer))


def publish(
    cluster: LiveCluster,
    exchange: str,
    *messages: tuple[str, bytes],
    node: int = 1,
    vhost: str = VHOST,
    headers: dict[str, object] | None = None,
) -> Sequence[int | RequestRefused]:
    door = cluster.nodes[node].broker.doors.exchanges
    publications = [
        Publication(
            RoutedMessage(key=key, headers=headers, body=value), NewMessage(value, key.encode())
        )
        for key, value in messages
    ]
    answers: list[Sequence[int | RequestRefused]] = []
    door.publish(vhost, exchange, publications, TIMEOUT_MS, answers.append)
    cluster.wait(lambda: bool(answers), "the confirms")
    return answers[0]


def taken_from(cluster: LiveCluster, queue: str, **more: Any) -> list[bytes | None]:
    return values_of(take(cluster, queue, **more))


def test_a_confirmed_message_is_in_every_queue_that_it_was_routed_to(
    cluster: LiveCluster, name: str
) -> None:
    for queue in ("a", "b", "c"):
        create(cluster, f"{name}-{queue}")
    declare(cluster, name, "topic", node=3)
    bind(cluster, name, f"{name}-a", "*.error")
    bind(cluster, name, f"{name}-b", "#")
    messages = [("db.error", b"1"), ("db.info", b"2"), ("web.error", b"3")]
    assert publish(cluster, name, *messages, node=2) == [2, 1, 2]
    assert taken_from(cluster, f"{name}-a") == [b"1", b"3"]
    assert taken_from(cluster, f"{name}-b") == [b"1", b"2", b"3"]
    assert taken_from(cluster, f"{name}-c") == []
    assert publish(cluster, "", (f"{name}-c", b"4"), ("nobody", b"5")) == [1, 0]
    assert taken_from(cluster, f"{name}-c") == [b"4"]


def test_order_holds_over_many_turns_and_batches(cluster: LiveCluster, name: str) -> None:
    create(cluster, name)
    door = cluster.nodes[1].broker.doors.exchanges
    count = 2_000
    answers: list[Any] = []
    for number in range(count):
        message = Publication(RoutedMessage(key=name), NewMessage(b"%d" % number))
        door.publish(VHOST, "", [message], TIMEOUT_MS, answers.append)
        if number % 100 == 0:
            cluster.run_for(0.001)
    cluster.wait(lambda: len(answers) == count, "all confirms")
    assert answers == [[1]] * count
    found: list[bytes | None] = []
    while len(found) < count:
        found += taken_from(cluster, name, count=500, wait_ms=5_000)
    assert found == [b"%d" % number for number in range(count)]


def test_topics_take_what_they_are_bound_for(cluster: LiveCluster, name: str) -> None:
    cluster.create_topic(name, 3)
    create(cluster, f"{name}-queue", source_topic=name, source_start="earliest")
    declare(cluster, name, "fanout")
    bind(cluster, name, Destination(name, is_topic=True))
    door = cluster.nodes[1].broker.doors.exchanges
    made = Publication(
        RoutedMessage(key="k"),
        NewMessage(b"v", headers=(("raw", b"1"),)),
        topic_headers=(("content-type", b"text/plain"),),
    )
    answers: list[Any] = []
    door.publish(VHOST, name, [made, made], TIMEOUT_MS, answers.append)
    cluster.wait(lambda: bool(answers), "the confirms")
    assert answers == [[1, 1]]
    first = take(cluster, f"{name}-queue", wait_ms=5_000)
    records = decode_batch(first.records, BYTES)
    assert [(each.key, each.value, each.headers) for each in records] == [
        (b"k", b"v", (("content-type", b"text/plain"),))
    ] * 2


def test_a_delayed_exchange_delays(cluster: LiveCluster, name: str) -> None:
    create(cluster, name)
    declare(cluster, name, "x-delayed-message", arguments={"x-delayed-type": "fanout"})
    bind(cluster, name, name)
    assert publish(cluster, name, ("", b"later"), headers={"x-delay": 60_000}) == [1]
    assert publish(cluster, name, ("", b"now")) == [1]
    assert taken_from(cluster, name) == [b"now"]
    assert counts(cluster, name)["delayed"] == 1


def test_an_exchange_by_lot_draws_on_each_broker(cluster: LiveCluster, name: str) -> None:
    for queue in ("a", "b"):
        create(cluster, f"{name}-{queue}")
    declare(cluster, name, "x-random")
    for queue in ("a", "b"):
        bind(cluster, name, f"{name}-{queue}")
    assert publish(cluster, name, *[("", b"x")] * 64) == [1] * 64
    ready = [counts(cluster, f"{name}-{queue}")["ready"] for queue in ("a", "b")]
    assert sum(ready) == 64
    assert min(ready) > 5


def test_what_does_not_exist_is_refused_by_name(cluster: LiveCluster, name: str) -> None:
    create(cluster, name)
    (refusal,) = publish(cluster, f"{name}-none", ("k", b"v"))
    assert isinstance(refusal, NoSuchExchange)
    (refusal,) = publish(cluster, "", ("k", b"v"), vhost="no-such")
    assert isinstance(refusal, NoSuchVhost)
    # Of another broker's controller, the refusal arrives with its type.
    gone = BindDestination(vhost=VHOST, source=f"{name}-none", destination=Destination(name))
    for node in (1, 2, 3):
        submit = cluster.nodes[node].broker.doors.exchanges.submit
        answer = done(cluster, partial(submit, gone, TIMEOUT_MS))
        assert isinstance(answer, NoSuchExchange)
    assert not cluster.nodes[1].broker.doors.exchanges.exists(VHOST, f"{name}-none")
    assert cluster.nodes[1].broker.doors.exchanges.exists(VHOST, "amq.topic")


def test_a_full_queue_refuses_and_the_others_have_it(cluster: LiveCluster, name: str) -> None:
    create(cluster, f"{name}-a", max_length="1", overflow="reject-publish")
    create(cluster, f"{name}-b")
    declare(cluster, name, "fanout")
    bind(cluster, name, f"{name}-a")
    bind(cluster, name, f"{name}-b")
    first, second = publish(cluster, name, ("", b"1"), ("", b"2"))
    assert first == 2
    assert isinstance(second, OverBound)
    assert taken_from(cluster, f"{name}-b") == [b"1", b"2"]


def test_a_queue_that_is_deleted_refuses_all_that_waits(cluster: LiveCluster, name: str) -> None:
    create(cluster, name)
    door = cluster.nodes[1].broker.doors.exchanges
    count = 60_000
    answers: list[Any] = []
    message = Publication(RoutedMessage(key=name), NewMessage(b"x"))
    state = cluster.nodes[1].broker.doors.cluster.state
    for _ in range(count // 1_000):
        door.publish(VHOST, "", [message] * 1_000, TIMEOUT_MS, answers.extend)
    # As if the deletion had been heard of in this very turn.
    log_id = state.queues[(VHOST, name)].topic_id  # type: ignore[index]
    gone = state.queues_by_log.pop(log_id)
    cluster.wait(lambda: len(answers) == count, "the refusals")
    state.queues_by_log[log_id] = gone
    assert all(isinstance(each, UnknownQueue) for each in answers)
    many = door._lanes
    assert (many._count, many._bytes, many._lanes) == (0, 0, {})


def test_what_is_on_its_way_is_bounded(
    cluster: LiveCluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(cluster, name)
    monkeypatch.setattr(publish_lanes, "UNDER_WAY_MAX", 3)
    outcomes = publish(cluster, "", *[(name, b"x")] * 5)
    assert outcomes[:3] == [1, 1, 1]
    assert all(isinstance(each, OverBound) for each in outcomes[3:])
    assert publish(cluster, "", (name, b"x")) == [1]


def _deaths(record: Record) -> list[dict[str, object]]:
    return [
        json.loads(value or b"") for name, value in record.headers if name == "kafkaesque.death"
    ]


def test_dead_letters_go_through_an_exchange_each_once(cluster: LiveCluster, name: str) -> None:
    dead = f"{name}-dead"
    for queue in ("a", "b", "all"):
        create(cluster, f"{name}-{queue}")
    declare(cluster, dead, "direct")
    for queue, key in (("a", "a"), ("b", "b"), ("all", "a"), ("all", "b")):
        bind(cluster, dead, f"{name}-{queue}", key)
    create(cluster, name, dead_letter_exchange=dead)
    # Their ways change all the time: numbers are missing in each queue.
    keys = ["a", "b", "b", "a", "a", "a", "b", "a"] * 5
    messages = [(key, b"%d" % number) for number, key in enumerate(keys)]
    records = [Record(0, 0, key.encode(), value, ()) for key, value in messages]
    _put(cluster, name, records)
    got = take(cluster, name, count=100)
    assert settle(cluster, name, got, Action.REJECT) == []
    for queue in ("a", "b", "all"):
        wanted = [value for key, value in messages if queue in ("all", key)]
        found: list[Record] = []
        while len(found) < len(wanted):
            answer = take(cluster, f"{name}-{queue}", count=100, wait_ms=5_000)
            assert answer.records is not None, (queue, len(found), counts(cluster, name))
            found += decode_batch(answer.records, BYTES)
        assert [each.value for each in found] == wanted
        (death,) = _deaths(found[0])
        assert (death["queue"], death["reason"]) == (name, "rejected")
        assert death["exchange"] == dead
    assert counts(cluster, name)["parked"] == 0


def test_dead_letters_have_the_key_that_their_queue_says(cluster: LiveCluster, name: str) -> None:
    create(cluster, f"{name}-b")
    create(
        cluster,
        name,
        dead_letter_exchange="amq.default",
        dead_letter_routing_key=f"{name}-b",
    )
    _put(cluster, name, [Record(0, 0, b"a", b"v", ())])
    assert settle(cluster, name, take(cluster, name), Action.REJECT) == []
    answer = take(cluster, f"{name}-b", wait_ms=5_000)
    assert values_of(answer) == [b"v"]
    (record,) = decode_batch(answer.records, BYTES)
    (death,) = _deaths(record)
    assert (death["exchange"], death["key"]) == ("", f"{name}-b")


def test_dead_letters_without_a_way_are_parked(cluster: LiveCluster, name: str) -> None:
    create(cluster, name, dead_letter_exchange=f"{name}-none")
    _put(cluster, name, [Record(0, 0, b"a", b"v", ()), Record(1, 0, b"b", b"w", ())])
    assert settle(cluster, name, take(cluster, name), Action.REJECT) == []
    for _ in range(100):
        if counts(cluster, name)["parked"] == 2:
            break
        cluster.run_for(0.05)
    assert counts(cluster, name)["parked"] == 2


def _put(cluster: LiveCluster, queue: str, records: Sequence[Record]) -> None:
    numbered = [each._replace(offset=number) for number, each in enumerate(records)]
    request = PutMessagesRequest(VHOST, queue, TIMEOUT_MS, encode_batch(numbered))
    assert cluster.ask(request).error_code == 0


# -- over the wire


def test_exchanges_are_declared_bound_described_and_deleted(
    cluster: LiveCluster, name: str
) -> None:
    create(cluster, name)
    declaration = AlterExchangeRequest(
        VHOST, name, 0, "headers", True, False, False, '{"alternate-exchange":"amq.fanout"}'
    )
    binding = AlterBindingRequest(VHOST, 0, name, 0, name, "", '{"x-match":"any","kind":"a"}')
    for request in (declaration, declaration, binding, binding):
        request.timeout_ms = TIMEOUT_MS
        answer = cluster.ask(request, node=2)
        assert answer.error_code == 0, answer
    _until_bound(cluster, name, 1)
    (shown,) = cluster.ask(DescribeExchangesRequest(VHOST, True)).vhosts
    (found,) = [each for each in shown.exchanges if each.exchange == name]
    assert (found.type, found.binding_count) == ("headers", 1)
    assert json.loads(found.arguments) == {"alternate-exchange": "amq.fanout"}
    (bound,) = [each for each in shown.bindings if each.source == name]
    assert (bound.destination_type, bound.destination) == (0, name)
    assert json.loads(bound.arguments) == {"x-match": "any", "kind": "a"}
    records = [
        Record(number, 0, None, kind.encode(), (("kind", kind.encode()),))
        for number, kind in enumerate("ab")
    ]
    publish_request = PublishMessagesRequest(
        VHOST, name, ["k", "k"], encode_batch(records), TIMEOUT_MS
    )
    answer = cluster.ask(publish_request, node=3)
    assert [each.destination_count for each in answer.messages] == [1, 0], answer
    assert taken_from(cluster, name) == [b"a"]
    binding.action = declaration.action = 1
    declaration.if_unused = True
    assert cluster.ask(declaration).error_code == ErrorCode.EXCHANGE_IN_USE
    for request in (binding, declaration, declaration):
        assert cluster.ask(request).error_code == 0
    _until_bound(cluster, name, None)
    (missing,) = cluster.ask(publish_request).messages[:1]
    assert missing.error_code == ErrorCode.UNKNOWN_EXCHANGE
    assert name in missing.error_message


def _until_bound(cluster: LiveCluster, name: str, count: int | None) -> None:
    def is_so() -> bool:
        doors = [each.broker.doors.exchanges for each in cluster.nodes.values()]
        if count is None:
            return not any(door.exists(VHOST, name) for door in doors)
        return all(
            door.exists(VHOST, name) and len(door.find(VHOST, name).bindings) == count
            for door in doors
        )

    cluster.wait(is_so, "all know")


def test_virtual_hosts_come_and_go_with_their_queues(cluster: LiveCluster, name: str) -> None:
    assert cluster.ask(AlterVhostRequest(name, 0, TIMEOUT_MS)).error_code == 0
    request = CreateQueueRequest(name, "mine", timeout_ms=TIMEOUT_MS)
    assert cluster.ask(request).error_code == 0
    door = cluster.nodes[1].broker.doors.exchanges
    cluster.wait(lambda: door.has_vhost(name) and "mine" in door.vhost(name).queues, "it knows")
    assert name in [each.vhost for each in cluster.ask(DescribeExchangesRequest(None)).vhosts]
    assert publish(cluster, "", ("mine", b"v"), vhost=name) == [1]
    assert cluster.ask(AlterVhostRequest(name, 1, TIMEOUT_MS)).error_code == 0
    cluster.wait(lambda: not door.has_vhost(name), "it is gone")
    assert name not in {each.vhost for each in _queue_names(cluster)}
    gone = cluster.ask(DescribeExchangesRequest(name))
    assert gone.error_code == ErrorCode.UNKNOWN_VHOST


def _queue_names(cluster: LiveCluster) -> list[Any]:
    return list(cluster.nodes[1].broker.doors.cluster.state.queues)


@pytest.mark.parametrize(
    ("request_made", "code"),
    [
        (AlterVhostRequest("", 0, 5_000), "INVALID_REQUEST"),
        (AlterVhostRequest("x", 7, 5_000), "INVALID_REQUEST"),
        (AlterVhostRequest("none", 1, 5_000), "UNKNOWN_VHOST"),
        (AlterExchangeRequest("none", "x", 0, "topic", timeout_ms=5_000), "UNKNOWN_VHOST"),
        (AlterExchangeRequest(VHOST, "x", 0, "none", timeout_ms=5_000), "INVALID_REQUEST"),
        (AlterExchangeRequest(VHOST, "x", 9, "topic", timeout_ms=5_000), "INVALID_REQUEST"),
        (AlterExchangeRequest(VHOST, "amq.x", 0, "topic", timeout_ms=5_000), "EXCHANGE_RESERVED"),
        (
            AlterExchangeRequest(VHOST, "amq.topic", 0, "direct", True, timeout_ms=5_000),
            "EXCHANGE_ALREADY_EXISTS",
        ),
        (
            AlterExchangeRequest(VHOST, "x", 0, "topic", arguments="[1]", timeout_ms=5_000),
            "INVALID_REQUEST",
        ),
        (
            AlterExchangeRequest(VHOST, "x", 0, "topic", arguments="{" * 9_000, timeout_ms=5_000),
            "INVALID_REQUEST",
        ),
        (AlterBindingRequest(VHOST, 0, "none", 0, "q", timeout_ms=5_000), "UNKNOWN_EXCHANGE"),
        (AlterBindingRequest(VHOST, 0, "amq.topic", 0, "no", timeout_ms=5_000), "UNKNOWN_QUEUE"),
        (
            AlterBindingRequest(VHOST, 0, "amq.topic", 2, "no", timeout_ms=5_000),
            "UNKNOWN_TOPIC_OR_PARTITION",
        ),
        (AlterBindingRequest(VHOST, 0, "amq.topic", 5, "no", timeout_ms=5_000), "INVALID_REQUEST"),
        (PublishMessagesRequest(VHOST, "", ["k"], None), "INVALID_REQUEST"),
        (
            PublishMessagesRequest(
                VHOST, "", [], encode_batch([Record(0, 0, None, b"x", ())]), 5_000
            ),
            "INVALID_REQUEST",
        ),
    ],
)
def test_what_cannot_be_is_refused_at_the_wire(
    cluster: LiveCluster, request_made: Any, code: str
) -> None:
    answer = cluster.ask(request_made)
    assert ErrorCode(answer.error_code).name == code, answer
    assert answer.error_message
