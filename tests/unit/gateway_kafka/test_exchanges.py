"""Exchanges of real brokers: routed, confirmed, and dead letters through them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from kafkaesque.broker.doors.exchanges import Publication
from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.broker.requests.exchange_commands import DeclareExchange
from kafkaesque.gateway.kafka.queues import Action
from kafkaesque.model.errors import OverBound, RequestRefused
from kafkaesque.model.records import Record, decode_batch
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
    return done(cluster, lambda answer: door.declare(wanted, TIMEOUT_MS, answer))


def bind(
    cluster: LiveCluster,
    source: str,
    to: Destination | str,
    key: str = "",
    arguments: Arguments | None = None,
) -> Any:
    door = cluster.nodes[2].broker.doors.exchanges
    where = to if isinstance(to, Destination) else Destination(to)
    binding = (source, where, key, arguments or {})
    return done(cluster, lambda answer: door.bind(VHOST, binding, None, TIMEOUT_MS, answer))


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
    count, answers = 2_000, []
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
    for node in (1, 2, 3):
        door = cluster.nodes[node].broker.doors.exchanges
        gone = (f"{name}-none", Destination(name), "", {})
        answer = done(cluster, lambda told: door.bind(VHOST, gone, None, TIMEOUT_MS, told))  # noqa: B023
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
    from kafkaesque.model.batch_encoder import encode_batch
    from kafkaesque.protocols.kafka.messages.put_messages_request import PutMessagesRequest

    numbered = [each._replace(offset=number) for number, each in enumerate(records)]
    request = PutMessagesRequest(VHOST, queue, TIMEOUT_MS, encode_batch(numbered))
    assert cluster.ask(request).error_code == 0
