"""Live messages across brokers while links are cut and brokers die.

What is published after a subscription was confirmed reaches it: once, and in the order of its
publisher. It may be lost with the broker that it was published to, or with the subscriber's.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from kafkaesque.broker.broker import Broker
from kafkaesque.broker.doors.live import LiveMessage, Subscription
from kafkaesque.broker.doors.live import Receiver as LiveReceiver
from kafkaesque.broker.live.interest_exchange import HOLD_MS, InterestExchange, Standing
from kafkaesque.broker.live.peer_lanes import PeerLanes
from kafkaesque.broker.peers.link import PeerNetwork
from kafkaesque.broker.peers.messages import PeerRequest
from kafkaesque.broker.requests.live_requests import DeliverLive, Delivery, LiveRequest
from kafkaesque.model.ids import NodeId
from kafkaesque.routing.names import MQTT
from tests.sim.live_scenario import LiveScenario, Receiver, message
from tests.sim.queue_scenario import TIMEOUT_MS
from tests.sim.seeds import first_of

TOPICS = ("a/1", "a/2", "b/1", "c")
FILTERS = ("a/+", "a/1", "#", "+/1", "c", "b/#")
PAUSE_MS = 15
#: In which all that waits is delivered.
CALM_MS = 12_000


@dataclass(eq=False)
class _Subscriber(LiveReceiver):
    """One subscription, and what came of it."""

    broker: str
    process: Broker
    topic_filter: str
    #: Moments, in the order in which things happened.
    confirmed: int | None = None
    ended: int | None = None
    got: list[tuple[str, int]] = field(default_factory=list)
    subscription: Subscription | None = None

    def on_message(self, message: LiveMessage, subscriptions: Sequence[Subscription]) -> None:
        origin, _, number = message.body.decode().partition(":")
        self.got.append((origin, int(number)))


@dataclass(frozen=True)
class _Sent:
    moment: int
    topic: str
    process: Broker
    body: tuple[str, int]


class _Walk:
    """Publishers and subscribers at all brokers, and what goes wrong meanwhile."""

    def __init__(self, seed: int, kinds: Sequence[str]) -> None:
        self.scenario = LiveScenario(seed)
        self.chance = random.Random(seed)
        self.kinds = kinds
        self.moment = 0
        self.subscribers: list[_Subscriber] = []
        self.sent: list[_Sent] = []
        #: Processes that were killed.
        self.dead: set[Broker] = set()
        self.is_over = False
        self._blocked: list[tuple[str, str]] = []

    def now(self) -> int:
        self.moment += 1
        return self.moment

    def run(self, rounds: int = 12, round_ms_max: int = 1_200) -> None:
        clock = self.scenario.env.clock
        for act in (self._publish, self._subscribe):
            clock.call_later(1, act)
        for _ in range(rounds):
            self.scenario.loop.run_for(self.chance.randint(200, round_ms_max))
            self._strike()
        self._heal()
        self.scenario.loop.run_for(CALM_MS)
        self.is_over = True
        self.scenario.loop.run_for(CALM_MS)

    # -- what clients do

    def _publish(self) -> None:
        if self.is_over:
            return
        for name in self.scenario.ready():
            broker = self.scenario.broker(name)
            topic = self.chance.choice(TOPICS)
            origin = f"{name}/{id(broker)}"
            sent = _Sent(self.now(), topic, broker, (origin, len(self.sent)))
            self.sent.append(sent)
            broker.doors.live.publish(message(topic, f"{origin}:{sent.body[1]}".encode()))
        self.scenario.env.clock.call_later(PAUSE_MS, self._publish)

    def _subscribe(self) -> None:
        if self.is_over:
            return
        living = [each for each in self.subscribers if self._lives(each)]
        if len(living) > 6 and self.chance.random() < 0.5:
            gone = self.chance.choice(living)
            gone.ended = self.now()
            assert gone.subscription is not None
            gone.subscription.end()
        else:
            self._begin(self.chance.choice(self.scenario.ready()))
        self.scenario.env.clock.call_later(self.chance.randint(20, 200), self._subscribe)

    def _lives(self, each: _Subscriber) -> bool:
        return each.ended is None and each.process not in self.dead

    def _begin(self, name: str) -> None:
        broker = self.scenario.broker(name)
        made = _Subscriber(name, broker, self.chance.choice(FILTERS))
        self.subscribers.append(made)

        def on_confirmed() -> None:
            made.confirmed = self.now()

        made.subscription = broker.doors.live.subscribe(
            MQTT.read_filter(made.topic_filter), made, on_confirmed
        )

    # -- what goes wrong

    def _strike(self) -> None:
        running = self.scenario.ready()
        match self.chance.choice(self.kinds):
            case "one way":
                self._block(*self.chance.sample(running, 2))
            case "both ways":
                one, other = self.chance.sample(running, 2)
                self._block(one, other)
                self._block(other, one)
            case "reset":
                self._reset(self.chance.choice(running))
            case "kill" if len(running) == 3:
                name = self.chance.choice(running)
                self.dead.add(self.scenario.broker(name))
                self.scenario.kill(name)
                delay_ms = self.chance.randint(100, 3_000)
                self.scenario.env.clock.call_later(delay_ms, lambda: self.scenario.boot(name))
            case "heal":
                self._heal()

    def _block(self, one: str, other: str) -> None:
        self.scenario.world.wire.block(one, other)
        self._blocked.append((one, other))

    def _reset(self, name: str) -> None:
        """Break about half of a broker's connections."""
        for sock in list(self.scenario.world.machines[name].host.sockets.values()):
            if self.chance.random() < 0.5:
                sock.fail()

    def _heal(self) -> None:
        for one, other in self._blocked:
            self.scenario.world.wire.unblock(one, other)
        self._blocked.clear()

    # -- what came of it

    def check(self) -> int:
        """Return how many deliveries were promised and kept.

        Raises:
            AssertionError: one was not.
        """
        kept = 0
        filters = {text: MQTT.read_filter(text) for text in FILTERS}
        for each in self.subscribers:
            numbers: dict[str, list[int]] = {}
            for origin, number in each.got:
                numbers.setdefault(origin, []).append(number)
            for found in numbers.values():
                assert found == sorted(set(found)), "out of order, or twice"
            if each.process in self.dead or each.confirmed is None:
                continue
            got = set(each.got)
            ended = self.moment + 1 if each.ended is None else each.ended
            wanted = filters[each.topic_filter]
            for sent in self.sent:
                if not wanted.matches(tuple(sent.topic.split("/"))):
                    assert sent.body not in got
                elif each.confirmed < sent.moment < ended and sent.process not in self.dead:
                    # What is still on its way when a subscription ends is nobody's any more.
                    if sent.body in got:
                        kept += 1
                    else:
                        assert each.ended is not None, (each, sent)
        return kept


def test_a_message_goes_once_to_each_broker_and_once_to_each_receiver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario = LiveScenario()
    brought: list[NodeId] = []
    add = PeerLanes.add

    def noted(lanes: PeerLanes, node: NodeId, delivery: Delivery) -> None:
        brought.append(node)
        add(lanes, node, delivery)

    monkeypatch.setattr(PeerLanes, "add", noted)
    first, second, third = scenario.running()
    receivers = [scenario.subscribe("a/#", "a/+", "+/1", broker=second) for _ in range(3)]
    receivers += [scenario.subscribe("a/1", broker=each) for each in (first, third)]
    other = scenario.subscribe("b", broker=third)
    assert scenario.live(first).publish(message("a/1", b"x"))
    scenario.loop.run_for(200)
    assert all(each.bodies == [b"x"] for each in receivers)
    assert other.messages == []
    assert len(brought) == 2
    assert not scenario.live(first).publish(message("nobody", b"x"))
    sent = message(
        "b",
        b"\0",
        origin=scenario.live(first).new_origin("mqtt"),
        content_type="t",
        correlation=b"\xff",
        reply=MQTT.key_of("r/1"),
        expires_ms=99_000_000_000_000,
        headers=(("n", None), ("n", b"\xff")),
        qos=2,
        is_retained=True,
        is_text=True,
    )
    scenario.live(first).publish(sent)
    scenario.loop.run_for(200)
    (got,) = other.messages
    for name in LiveMessage.__struct_fields__:
        assert getattr(got, name) == getattr(sent, name), name


def test_a_cluster_without_live_subscribers_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    ask = PeerNetwork.ask

    def noted(
        peers: PeerNetwork, node: NodeId, request: PeerRequest, on_answer: Callable[..., None]
    ) -> int | None:
        if isinstance(request, LiveRequest):
            asked.append(request)
        return ask(peers, node, request, on_answer)

    monkeypatch.setattr(PeerNetwork, "ask", noted)
    scenario = LiveScenario()
    scenario.put(b"1", b"2")
    scenario.loop.run_for(3_000)
    assert asked == []
    scenario.subscribe("a")
    assert asked != []


def test_of_a_group_in_the_cluster_one_gets_a_message_here_if_there_is_one() -> None:
    scenario = LiveScenario()
    first, second, third = scenario.running()
    here = scenario.subscribe("jobs/+", group="g", broker=second)
    others = [scenario.subscribe("jobs/#", group="g", broker=third) for _ in range(2)]
    for number in range(10):
        scenario.live(second).publish(message("jobs/1", b"%d" % number))
    scenario.loop.run_for(200)
    assert len(here.messages) == 10
    here.end()
    scenario.loop.run_for(500)
    more = scenario.subscribe("jobs/1", group="g", broker=second)
    for number in range(10, 30):
        scenario.live(first).publish(message("jobs/1", b"%d" % number))
    scenario.loop.run_for(200)
    got = [*more.bodies, *(body for each in others for body in each.bodies)]
    assert sorted(map(int, got)) == list(range(10, 30))
    assert all(each.messages for each in (more, *others))


def test_a_group_s_message_is_passed_on_where_its_member_has_left() -> None:
    scenario = LiveScenario()
    first, second, third = scenario.running()
    leaving = scenario.subscribe("jobs", group="g", broker=second)
    staying = scenario.subscribe("jobs", group="g", broker=third)
    # The others have not heard of it when they publish.
    leaving.end()
    for number in range(10):
        scenario.live(first).publish(message("jobs", b"%d" % number))
    scenario.loop.run_for(500)
    assert sorted(map(int, staying.bodies)) == list(range(10))
    assert leaving.messages == []


def test_a_restarted_broker_finds_out_what_is_wanted_before_it_decides() -> None:
    scenario = LiveScenario()
    first, second, third = scenario.running()
    receiver = scenario.subscribe("a", broker=second)
    members = [scenario.subscribe("a", group="g", broker=each) for each in (second, third)]
    scenario.kill(first)
    scenario.loop.run_for(500)
    scenario.boot(first)
    scenario.loop.run_until(lambda: first in scenario.ready(), 3 * TIMEOUT_MS)
    assert scenario.live(first).publish(message("a", b"1"))
    scenario.loop.run_for(2_000)
    assert receiver.bodies == [b"1"]
    assert sum(len(each.messages) for each in members) == 1


def test_a_subscription_waits_for_brokers_that_live_and_no_others() -> None:
    scenario = LiveScenario()
    first, second, third = scenario.running()
    scenario.kill(third)
    scenario.loop.run_for(500)
    assert scenario.subscribe("a", broker=first).subscriptions[0].is_confirmed
    for one, other in ((first, second), (second, first)):
        scenario.world.wire.block(one, other)
    waiting = scenario.begin("b", broker=first)
    (subscription,) = waiting.subscriptions
    scenario.loop.run_for(300)
    confirmed = [subscription.is_confirmed]
    # It is taken for dead after a while, and has noticed by then.
    scenario.loop.run_for(8_000)
    confirmed.append(subscription.is_confirmed)
    assert confirmed == [False, True]
    live = scenario.live(second)
    assert live.publish(message("b", b"1"))
    for one, other in ((first, second), (second, first)):
        scenario.world.wire.unblock(one, other)
    scenario.loop.run_for(5_000)
    assert waiting.bodies == [b"1"]


def test_what_waits_for_too_long_is_dropped_and_counted() -> None:
    scenario = LiveScenario()
    first, second, _ = scenario.running()
    receiver = scenario.subscribe("a", broker=second)
    for one, other in ((first, second), (second, first)):
        scenario.world.wire.block(one, other)
    scenario.loop.run_for(300)
    hub = scenario.broker(first).live_hub
    scenario.live(first).publish(message("a", b"1"))
    scenario.loop.run_for(3_000)
    scenario.live(first).publish(message("a", b"2"))
    assert hub.dropped == 0
    scenario.loop.run_for(HOLD_MS + 3_000)
    assert hub.dropped >= 2
    for one, other in ((first, second), (second, first)):
        scenario.world.wire.unblock(one, other)
    scenario.loop.run_for(5_000)
    assert receiver.bodies == []
    scenario.live(first).publish(message("a", b"3"))
    scenario.loop.run_for(500)
    assert receiver.bodies == [b"3"]


def test_what_expires_while_it_waits_for_a_link_is_not_given_out() -> None:
    scenario = LiveScenario()
    first, second, _ = scenario.running()
    receiver = scenario.subscribe("a", broker=second)
    for one, other in ((first, second), (second, first)):
        scenario.world.wire.block(one, other)
    scenario.loop.run_for(100)
    now_ms = scenario.broker(first).env.clock.wall_ms()
    for body, life_ms in ((b"short", 1_000), (b"long", 600_000), (b"endless", None)):
        expires_ms = 0 if life_ms is None else now_ms + life_ms
        scenario.live(first).publish(message("a", body, expires_ms=expires_ms))
    scenario.loop.run_for(5_000)
    for one, other in ((first, second), (second, first)):
        scenario.world.wire.unblock(one, other)
    scenario.loop.run_for(10_000)
    assert receiver.bodies == [b"long", b"endless"]


@pytest.mark.parametrize("seed", first_of(range(1, 9), 1))
def test_what_is_published_after_the_confirmation_comes_however_links_break(seed: int) -> None:
    walk = _Walk(seed, ("one way", "both ways", "reset", "heal", "heal"))
    walk.run()
    assert walk.check() > 2_000


@pytest.mark.parametrize("seed", first_of(range(11, 19), 1))
def test_what_is_published_after_the_confirmation_comes_however_brokers_die(seed: int) -> None:
    walk = _Walk(seed, ("kill", "kill", "one way", "reset", "heal", "heal"))
    walk.run()
    assert walk.check() > 500


def _fails(kinds: Sequence[str], seeds: Sequence[int], round_ms_max: int = 1_200) -> bool:
    for seed in seeds:
        walk = _Walk(seed, kinds)
        walk.run(round_ms_max=round_ms_max)
        try:
            walk.check()
        except AssertionError:
            return True
    return False


def test_that_nobody_waits_for_the_confirmations_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InterestExchange, "_counted", lambda _: [])
    assert _fails(("one way", "both ways", "heal"), range(1, 9))


@pytest.mark.extended
def test_that_a_broker_trusts_what_it_knew_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    standing = InterestExchange.standing

    def trusting(exchange: InterestExchange, node: NodeId, now_ms: int) -> Standing:
        found = standing(exchange, node, now_ms)
        knows = exchange.theirs.knows(node)
        return Standing.CURRENT if found is Standing.UNKNOWN and knows else found

    monkeypatch.setattr(InterestExchange, "standing", trusting)
    assert _fails(("both ways", "both ways", "heal"), range(1, 9), 4_000)


def test_that_messages_come_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_of_it(_: PeerLanes, node: NodeId, request: DeliverLive) -> list[Delivery]:
        return request.deliveries

    monkeypatch.setattr(PeerLanes, "news_in", all_of_it)
    assert _fails(("reset", "one way", "heal"), range(1, 9))


def test_receivers_get_nothing_from_a_broker_that_knows_them_no_more() -> None:
    scenario = LiveScenario()
    first, second, _ = scenario.running()
    receiver = scenario.subscribe("a", broker=second)
    receiver.end()
    scenario.loop.run_for(500)
    assert not scenario.live(first).publish(message("a"))
    again = scenario.subscribe("a", receiver=Receiver(), broker=second)
    scenario.live(first).publish(message("a"))
    scenario.loop.run_for(200)
    assert len(again.messages) == 1
    assert receiver.messages == []
