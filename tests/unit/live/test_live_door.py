"""Live publish and subscribe on one broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from kafkaesque.broker.config import PeerTimings
from kafkaesque.broker.doors.live import LiveMessage, Subscription
from kafkaesque.broker.doors.publication import Publication
from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.broker.live import fan_out, subscribers
from kafkaesque.broker.live.fan_out import COPIES_PER_TURN
from kafkaesque.broker.live.hub import LiveHub
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST
from kafkaesque.broker.replication.stored_batches import replay
from kafkaesque.broker.requests.commands import CreateTopic
from kafkaesque.broker.requests.exchange_commands import BindDestination
from kafkaesque.model.errors import OverBound, RequestRefused
from kafkaesque.model.ids import NodeId
from kafkaesque.model.records import decode_batch
from kafkaesque.routing.exchanges.records import Destination
from kafkaesque.routing.message import RoutedMessage
from kafkaesque.routing.names import AMQP, MQTT, NameKey
from tests.sim.live_scenario import LiveScenario, Receiver, message


@pytest.fixture
def ground() -> LiveScenario:
    return LiveScenario(brokers=1)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.end()


class _Turns:
    """A clock whose turns a test makes, of a broker without peers."""

    closed = False

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def now_ms(self) -> int:
        return 0

    def peers(self) -> list[NodeId]:
        return []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.waiting.append(callback)

    def turn(self) -> None:
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            each()


def new_hub() -> tuple[LiveHub, _Turns]:
    turns = _Turns()
    hub = LiveHub(
        clock=turns,  # type: ignore[arg-type]
        peers=turns,  # type: ignore[arg-type]
        caller=turns,  # type: ignore[arg-type]
        timings=PeerTimings(),
        when_settled=lambda on_settled: on_settled(),
    )
    return hub, turns


def subscribe(hub: LiveHub, text: str, receiver: Receiver, group: str = "") -> Subscription:
    return hub.subscribe(MQTT.read_filter(text), receiver, group, lambda: None)


# -- who gets a message


def test_a_receiver_gets_a_message_once_with_all_that_want_it(
    ground: LiveScenario, receiver: Receiver
) -> None:
    ground.subscribe("a/#", "a/+", "b", receiver=receiver)
    sent = message("a/x", b"1")
    assert ground.live().publish(sent)
    assert not ground.live().publish(message("c"))
    assert receiver.messages == [sent]
    assert receiver.messages[0] is sent
    assert sorted(receiver.wanted_by[0]) == ["a/#", "a/+"]


def test_nothing_comes_after_the_end(ground: LiveScenario, receiver: Receiver) -> None:
    ground.subscribe("a", receiver=receiver)
    (subscription,) = receiver.subscriptions
    assert subscription.is_confirmed
    subscription.end()
    subscription.end()
    assert subscription.is_over
    assert not ground.live().publish(message("a"))
    assert receiver.messages == []


def test_who_subscribes_to_a_name_that_was_published_before_gets_what_follows(
    ground: LiveScenario,
) -> None:
    first = ground.subscribe("seen/+")
    ground.live().publish(message("seen/1", b"1"))
    second = ground.subscribe("seen/1")
    ground.live().publish(message("seen/1", b"2"))
    third = ground.subscribe("seen/#", group="nats/workers")
    ground.live().publish(message("seen/1", b"3"))
    assert [first.bodies, second.bodies, third.bodies] == [
        [b"1", b"2", b"3"],
        [b"2", b"3"],
        [b"3"],
    ]
    for each in (first, third):
        each.end()
    ground.live().publish(message("seen/1", b"4"))
    assert [len(each.messages) for each in (first, second, third)] == [3, 3, 1]
    second.end()


def test_of_a_group_one_gets_a_message_in_turn(ground: LiveScenario) -> None:
    workers = [ground.subscribe("jobs/+", group="nats/workers") for _ in range(3)]
    other = ground.subscribe("jobs/1", group="nats/others")
    alone = ground.subscribe("jobs/1")
    for number in range(6):
        ground.live().publish(message("jobs/1", b"%d" % number))
    assert sorted(b for each in workers for b in each.bodies) == [b"%d" % n for n in range(6)]
    assert [len(each.messages) for each in workers] == [2, 2, 2]
    assert len(other.messages) == len(alone.messages) == 6
    for each in (*workers, other, alone):
        each.end()
    assert not ground.live().publish(message("jobs/1"))


def test_connections_have_numbers_of_their_own(ground: LiveScenario) -> None:
    first, second = ground.live().new_origin("mqtt"), ground.live().new_origin("mqtt")
    assert first != second
    assert (first.protocol, first.node) == ("mqtt", ground.any().node)


def test_there_is_a_bound_on_subscriptions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscribers, "SUBSCRIPTIONS_MAX", 2)
    hub, _ = new_hub()
    receiver = Receiver()
    first = subscribe(hub, "a", receiver)
    subscribe(hub, "b", receiver)
    with pytest.raises(OverBound):
        subscribe(hub, "c", receiver)
    first.end()
    subscribe(hub, "c", receiver)
    assert len(hub) == 2


def test_what_was_done_is_counted(ground: LiveScenario) -> None:
    before = ground.live().tally()
    receivers = [ground.subscribe("counted/+") for _ in range(3)]
    for topic in ("counted/1", "counted/2", "elsewhere"):
        ground.live().publish(message(topic))
    after = ground.live().tally()
    assert after.subscriptions == before.subscriptions + 3
    assert after.published == before.published + 2
    assert after.given == before.given + 6
    assert after.dropped == before.dropped
    for each in receivers:
        each.end()


# -- many receivers


def test_a_message_to_many_takes_many_turns_and_order_stays() -> None:
    hub, turns = new_hub()
    receivers = [Receiver() for _ in range(2 * COPIES_PER_TURN + 10)]
    for each in receivers:
        subscribe(hub, "a", each)
    assert hub.publish(message("a", b"1"))
    assert sum(len(each.messages) for each in receivers) == COPIES_PER_TURN
    assert hub.publish(message("a", b"2"))
    assert sum(len(each.messages) for each in receivers) == COPIES_PER_TURN
    for turn in range(2, 6):
        turns.turn()
        copies = sum(len(each.messages) for each in receivers)
        assert copies == min(turn * COPIES_PER_TURN, 2 * len(receivers))
    assert all(each.bodies == [b"1", b"2"] for each in receivers)
    for _ in range(3):
        turns.turn()
    assert not turns.waiting


def test_all_messages_of_one_turn_share_its_copies() -> None:
    hub, turns = new_hub()
    receiver = Receiver()
    subscribe(hub, "a", receiver)
    for _ in range(COPIES_PER_TURN + 5):
        hub.publish(message("a"))
    assert len(receiver.messages) == COPIES_PER_TURN
    turns.turn()
    assert len(receiver.messages) == COPIES_PER_TURN + 5


def test_who_ends_while_copies_wait_gets_none() -> None:
    hub, turns = new_hub()
    receivers = [Receiver() for _ in range(COPIES_PER_TURN + 2)]
    made = [subscribe(hub, "a", each) for each in receivers]
    hub.publish(message("a"))
    made[-1].end()
    turns.turn()
    assert [len(each.messages) for each in receivers[-2:]] == [1, 0]


def test_a_receiver_may_publish_and_subscribe_meanwhile() -> None:
    hub, turns = new_hub()
    last = Receiver()

    class Echo(Receiver):
        def on_message(self, message_: LiveMessage, subscriptions: Sequence[Subscription]) -> None:
            super().on_message(message_, subscriptions)
            if len(self.messages) < 3:
                hub.publish(message("a", b"again"))
                subscribe(hub, "b", last)

    echo = Echo()
    subscribe(hub, "a", echo)
    hub.publish(message("a", b"first"))
    turns.turn()
    assert echo.bodies == [b"first", b"again", b"again"]
    hub.publish(message("b"))
    assert len(last.messages) == 1


def test_what_there_is_no_room_for_is_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fan_out, "WAITING_BYTES_MAX", 1000)
    monkeypatch.setattr(fan_out, "BUSY_COPIES", 2)
    hub, turns = new_hub()
    receivers = [Receiver() for _ in range(COPIES_PER_TURN + 1)]
    for each in receivers:
        subscribe(hub, "a", each)
    for body in (b"1" * 900, b"2" * 900, b"3"):
        assert hub.publish(message("a", body))
    busy = [hub.is_busy]
    assert hub.dropped == 1
    for _ in range(4):
        turns.turn()
    busy.append(hub.is_busy)
    assert busy == [True, False]
    assert [body[:1] for body in receivers[-1].bodies] == [b"1", b"3"]


# -- exchanges and queues


def _published(ground: LiveScenario, publication: Publication, exchange: str) -> int:
    outcomes: list[Sequence[int | RequestRefused]] = []
    door = ground.any().doors.exchanges
    door.publish(DEFAULT_VHOST, exchange, [publication], 10_000, outcomes.append)
    ground.loop.run_until(lambda: outcomes != [], 10_000)
    (outcome,) = outcomes[0]
    assert isinstance(outcome, int), outcome
    return outcome


def test_what_is_published_live_reaches_bound_queues_committed(
    ground: LiveScenario, receiver: Receiver
) -> None:
    ground.bind("readings", "plant.*.temperature")
    ground.subscribe("plant/#", receiver=receiver)
    sent = message(
        "plant/7/temperature",
        b"21",
        content_type="text/plain",
        correlation=b"\0\xff",
        reply=NameKey("answers/1"),
        expires_ms=99_000_000_000_000,
        headers=(("unit", b"C"),),
    )
    assert ground.publish(sent) == 2
    assert ground.publish(message("plant/7/pressure", b"1")) == 1
    assert ground.publish(message("elsewhere", b"1")) == 0
    (kept,) = ground.drained("readings")
    assert kept.value == b"21"
    shown = [each for each in kept.headers if not each[0].startswith("kafkaesque.")]
    assert shown == [
        ("content-type", b"text/plain"),
        ("correlation-id", b"\0\xff"),
        ("reply-to", b"answers.1"),
        ("expires-at", b"99000000000000"),
        ("unit", b"C"),
    ]
    assert receiver.bodies == [b"21", b"1"]


def test_what_comes_to_the_exchange_of_names_reaches_live_subscribers_once(
    ground: LiveScenario, receiver: Receiver
) -> None:
    ground.bind("all", "#")
    ground.subscribe("plant/#", "plant/8", receiver=receiver)
    headers = (
        ("content-type", b"text/plain"),
        ("reply-to", b"answers.1"),
        ("kafkaesque.delay", b"1"),
        ("unit", b"C"),
        ("unit", b"F"),
    )
    publication = Publication(
        RoutedMessage(key="plant.8", body=b"20"), NewMessage(b"20", headers=headers)
    )
    ground.drained("all")
    assert _published(ground, publication, "amq.topic") == 2
    assert len(ground.drained("all")) == 1
    (got,) = receiver.messages
    assert (got.key, got.body, got.qos) == ("plant/8", b"20", 1)
    assert (got.content_type, got.reply) == ("text/plain", "answers/1")
    assert got.headers == (("unit", b"C"), ("unit", b"F"))


def test_other_exchanges_have_names_of_their_own(ground: LiveScenario, receiver: Receiver) -> None:
    ground.subscribe("#", receiver=receiver)
    publication = Publication(RoutedMessage(key="plant.8"), NewMessage(b"20"))
    assert _published(ground, publication, "amq.direct") == 0
    assert receiver.messages == []


def test_what_is_bound_between_exchanges_comes_to_live_subscribers(
    ground: LiveScenario, receiver: Receiver
) -> None:
    to_names = Destination("amq.topic", True)
    ground.submit(
        BindDestination(vhost=DEFAULT_VHOST, source="amq.fanout", destination=to_names, key="")
    )
    ground.subscribe("from/elsewhere", receiver=receiver)
    publication = Publication(RoutedMessage(key="from.elsewhere"), NewMessage(b"20"))
    _published(ground, publication, "amq.fanout")
    assert receiver.bodies == [b"20"]
    assert receiver.messages[0].key == AMQP.key_of("from.elsewhere")


def test_the_first_levels_of_a_name_may_choose_the_partition(ground: LiveScenario) -> None:
    ground.submit(CreateTopic(name="lines", partition_count=8, replication_factor=1))
    by_two: dict[str, object] = {"x-key-levels": 2}
    for key, arguments in (("line.#", by_two), ("free.#", {})):
        ground.submit(
            BindDestination(
                vhost=DEFAULT_VHOST,
                source="amq.topic",
                destination=Destination("lines", is_topic=True),
                key=key,
                arguments=arguments,
            )
        )
    for number in range(16):
        for name in ("line", "free"):
            assert isinstance(ground.publish(message(f"{name}/1/{number}", b"x")), int)
    by_prefix: dict[str, set[int]] = {"line": set(), "free": set()}
    keys: list[str] = []
    for number, state in enumerate(ground.any().state.topic("lines").partitions):
        partition = ground.any().partitions.get(state.group)
        assert partition is not None
        for _, data in replay(partition.log, partition.log.start_offset):
            for record in decode_batch(data, 1 << 20):
                keys.append((record.key or b"").decode())
                by_prefix[keys[-1][:4]].add(number)
    assert sorted(keys) == sorted(f"{a}.1.{n}" for a in ("line", "free") for n in range(16))
    assert len(by_prefix["line"]) == 1
    assert len(by_prefix["free"]) > 2
