"""What is retained when a session that is kept subscribes comes, whatever ends after SUBACK."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkaesque.broker.live.retained_log import RetainedLog, RetainedPage
from kafkaesque.gateway.mqtt import retained_keeping
from kafkaesque.gateway.mqtt.journal import Journal
from kafkaesque.model.errors import LeaderNotAvailable, OverBound, RequestRefused
from kafkaesque.protocols.mqtt import packets as p
from kafkaesque.protocols.mqtt.reasons import ReasonCode as R
from tests.unit.gateway_mqtt.kit import Ground, MqttClient, new_name
from tests.unit.gateway_mqtt.test_quality_2 import is_empty, left

COUNT = 18


@pytest.fixture
def three() -> Ground:
    return Ground(seed=8, brokers=3)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch has five copies."""
    monkeypatch.setattr(retained_keeping, "COPIES_MAX", 5)


def retain(ground: Ground, count: int = COUNT, qos: int = 2) -> str:
    """Retain some messages; return what all their topics begin with."""
    root = new_name("root")
    publisher = ground.client(new_name(), 2)
    for number in range(count):
        publisher.publish(f"{root}/{number:02}", b"%d" % number, qos, retain=True)
    return root


def subscribe(client: MqttClient, *filters: str) -> None:
    """Subscribe; what has come by SUBACK is all that has come."""
    wanted = tuple(p.Subscription(topic_filter=each, qos=2) for each in filters)
    client.send(p.Subscribe(packet_id=1, subscriptions=wanted))
    client.expect(p.Suback)


def topics(client: MqttClient, root: str) -> list[int]:
    """Return which messages come until no more do."""
    found = []
    while not client.is_silent(1_500):
        while client.find(p.Publish) is not None:
            message = client.message()
            assert message.retain
            found.append(int(message.topic.removeprefix(f"{root}/")))
    return found


@pytest.mark.parametrize("step", range(3))
@pytest.mark.usefixtures("few")
def test_a_broker_dies_while_copies_are_put(step: int) -> None:
    ground = Ground(seed=40 + step, brokers=3)
    me, root = new_name(), retain(ground)
    client = ground.session(me)
    subscribe(client, f"{root}/#")
    until_ns = ground.loop.now_ns + step * 3_000_000
    ground.loop.run_until(lambda: ground.loop.now_ns >= until_ns, 1_000)
    ground.kill(1)
    # Each once, as QoS 2 has it: nothing was acknowledged before.
    assert sorted(topics(ground.session(me, 3), root)) == list(range(COUNT))
    is_empty(ground, me)


@pytest.mark.usefixtures("few")
def test_nobody_works_for_a_client_that_has_left(three: Ground) -> None:
    me, root = new_name(), retain(three)
    client = three.session(me)
    subscribe(client, f"{root}/#")
    client.vanish()
    three.wait(5_000)
    # Those of SUBACK, a batch that was on its way, and what is owed.
    assert left(three, me) <= 5 + 5 + 2
    assert sorted(topics(three.session(me, 3), root)) == list(range(COUNT))
    is_empty(three, me)


@pytest.mark.usefixtures("few")
def test_what_is_owed_for_a_subscription_ends_with_it(three: Ground) -> None:
    me, root = new_name(), retain(three)
    client = three.session(me)
    subscribe(client, f"{root}/#")
    client.vanish()
    back = three.session(me, 2)
    back.unsubscribe(f"{root}/#")
    assert len(topics(back, root)) < COUNT
    is_empty(three, me)
    back.vanish()
    assert three.session(me, 3).is_silent(1_000)


@pytest.mark.usefixtures("few")
def test_a_filter_that_is_subscribed_to_again_is_owed_once(three: Ground) -> None:
    me, root = new_name(), retain(three)
    client = three.session(me)
    subscribe(client, f"{root}/#")
    subscribe(client, f"{root}/#")
    client.vanish()
    found = topics(three.session(me, 3), root)
    assert set(found) == set(range(COUNT))
    assert len(found) < 2 * COUNT
    is_empty(three, me)


def test_suback_does_not_wait_for_a_look_at_each_of_many_filters(
    three: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retained_keeping, "LOOKED_MAX", 2)
    done: list[str] = []
    find, put = RetainedLog.retained, Journal.put_copies

    def looks(log: RetainedLog, wanted: Any, after: Any, on_found: Any) -> None:
        done.append("looks")
        find(log, wanted, after, on_found)

    def puts(journal: Journal, copies: Any, owed: Any, on_done: Any) -> None:
        done.append(f"puts {len(copies)} and owes {len(owed)}")
        put(journal, copies, owed, on_done)

    me, root = new_name(), retain(three, 6)
    client = three.session(me)
    monkeypatch.setattr(RetainedLog, "retained", looks)
    monkeypatch.setattr(Journal, "put_copies", puts)
    subscribe(client, *(f"{root}/{number:02}" for number in range(6)))
    assert done[:3] == ["looks", "looks", "puts 2 and owes 4"]
    assert sorted(topics(client, root)) == list(range(6))
    is_empty(three, me)


def test_what_cannot_be_looked_up_is_owed(three: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    me, root = new_name(), retain(three, 3)
    client = three.session(me)

    def refuse(
        _: RetainedLog, __: Any, ___: Any, on_found: Callable[[RetainedPage | RequestRefused], None]
    ) -> None:
        on_found(LeaderNotAvailable("nobody leads"))

    with monkeypatch.context() as patch:
        patch.setattr(RetainedLog, "retained", refuse)
        subscribe(client, f"{root}/#", f"{root}/00")
        assert client.is_silent(3_000)
    # Twice for the first one: it has two subscriptions.
    assert sorted(client.payloads(4)) == [b"0", b"0", b"1", b"2"]
    assert client.is_silent(1_000)
    is_empty(three, me)


def test_nothing_is_promised_that_cannot_be_kept(
    three: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    me, root = new_name(), retain(three, 1)
    client = three.session(me)
    wanted = (p.Subscription(topic_filter=f"{root}/#", qos=1),)
    with monkeypatch.context() as patch:
        refusal = OverBound("full")
        patch.setattr(Journal, "put_copies", lambda *said: said[-1](refusal))
        client.send(p.Subscribe(packet_id=1, subscriptions=wanted))
        assert client.ends() is R.SERVER_BUSY
    again = three.session(me)
    subscribe(again, f"{root}/#")
    assert topics(again, root) == [0]


@pytest.mark.usefixtures("few")
def test_a_batch_whose_answer_is_lost_is_put_once(
    three: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    me, root = new_name(), retain(three)
    put = Journal.put_copies
    lost: list[int] = []

    def lose(journal: Journal, copies: Any, owed: Any, on_done: Any) -> None:
        def on_put(outcome: Any) -> None:
            if len(lost) < 2 and all(each.first >= 0 for each in owed):
                lost.append(len(copies))
                on_done(LeaderNotAvailable("it is not known"))
            else:
                on_done(outcome)

        put(journal, copies, owed, on_put)

    monkeypatch.setattr(Journal, "put_copies", lose)
    client = three.session(me)
    subscribe(client, f"{root}/#")
    assert sorted(topics(client, root)) == list(range(COUNT))
    assert lost == [5, 5]
    is_empty(three, me)
