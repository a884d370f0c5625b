"""Exchanges while brokers die: what was confirmed is in all its queues, in order, each once."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from kafkaesque.broker.doors.publication import Publication
from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.exchange_commands import BindDestination, DeclareExchange
from kafkaesque.model.errors import RequestRefused
from kafkaesque.routing.exchanges.records import Destination
from kafkaesque.routing.message import RoutedMessage
from tests.sim.queue_scenario import TIMEOUT_MS, QueueScenario, values
from tests.sim.seeds import first_of

EXCHANGE = "logs"
#: Which queues have what is published under a key.
WAYS = {"a.x": ("a", "all"), "b.x": ("b", "all"), "c.x": ("all",), "none": ()}
KEYS = tuple(WAYS)
#: The topic that keeps messages, where one does.
LOG = "kept"


class ExchangeScenario(QueueScenario):
    """Three queues behind a topic exchange, which may keep messages in a topic for them."""

    def __init__(self, seed: int, log_partitions: int = 0) -> None:
        super().__init__(seed)
        for name in ("a", "b", "all"):
            self.create(name)
        arguments: dict[str, object] = {}
        if log_partitions:
            self.make_topic(LOG, log_partitions)
            arguments["x-log"] = LOG
        self.submit(
            DeclareExchange(vhost=DEFAULT_VHOST, name=EXCHANGE, type="topic", arguments=arguments)
        )
        for name, key in (("a", "a.*"), ("b", "b.*"), ("all", "*.x")):
            self.submit(
                BindDestination(
                    vhost=DEFAULT_VHOST, source=EXCHANGE, destination=Destination(name), key=key
                )
            )
        self.loop.run_until(
            lambda: all(
                self.broker(name).state.routing == self.any().state.routing
                for name in self.running()
            ),
            TIMEOUT_MS,
        )

    def leader_of_log(self) -> str:
        """Return who leads a partition of the topic."""
        group = self.any().state.topic(LOG).partitions[0].group
        for name in self.running():
            partition = self.broker(name).partitions.get(group)
            if partition is not None and partition.is_leader:
                return name
        raise AssertionError("nobody leads the topic")

    def drained(self, name: str) -> list[bytes]:
        """Take and settle all messages of a queue."""
        found: list[bytes] = []
        while taken := self.take(500, name=name, wait_ms=500):
            found += [each for each in values(taken) if each is not None]
            assert self.done(*taken, name=name) == []
        return found


@dataclass
class _Publisher:
    """Publishes at one broker, a message each few milliseconds, until it dies or is told to end."""

    scenario: ExchangeScenario
    broker: str
    outcomes: dict[int, int | RequestRefused] = field(default_factory=dict)
    sent: int = 0
    is_over: bool = False

    def go_on(self) -> None:
        if self.is_over or self.broker not in self.scenario.running():
            self.is_over = True
            return
        door = self.scenario.broker(self.broker).doors.exchanges
        for _ in range(3):
            number, key = self.sent, KEYS[self.sent % len(KEYS)]
            self.sent += 1
            message = Publication(
                RoutedMessage(key=key), NewMessage(f"{self.broker}/{number}".encode())
            )

            def on_done(results: object, number: int = number) -> None:
                (self.outcomes[number],) = results  # type: ignore[misc]

            door.publish(DEFAULT_VHOST, EXCHANGE, [message], TIMEOUT_MS, on_done)
        self.scenario.env.clock.call_later(20, self.go_on)


@pytest.mark.parametrize(
    ("seed", "log_partitions"),
    [
        (1, 0),
        (11, 3),
        *(pytest.param(seed, 0, marks=pytest.mark.extended) for seed in range(2, 7)),
        *(pytest.param(seed, 3, marks=pytest.mark.extended) for seed in range(12, 17)),
    ],
)
def test_what_is_confirmed_is_in_all_its_queues_once_and_in_order(
    seed: int, log_partitions: int
) -> None:
    scenario = ExchangeScenario(seed, log_partitions)
    publishers = [_Publisher(scenario, name) for name in scenario.running()]
    for each in publishers:
        each.go_on()
    for victim in ("a", LOG if log_partitions else "all"):
        scenario.loop.run_for(700)
        dead = scenario.leader_of_log() if victim == LOG else scenario.queue_leader(victim)
        scenario.kill(dead)
        scenario.loop.run_for(3_000)
        scenario.boot(dead)
        scenario.loop.run_for(2_000)
    living = [each for each in publishers if not each.is_over]
    for each in publishers:
        each.is_over = True
    assert living, "somebody has lived through it"
    scenario.loop.run_until(
        lambda: all(len(each.outcomes) == each.sent for each in living), 8 * TIMEOUT_MS
    )
    found = {name: scenario.drained(name) for name in ("a", "b", "all")}
    confirmed = 0
    for each in publishers:
        own = {
            name: [int(value.rpartition(b"/")[2]) for value in queue if _is_of(each, value)]
            for name, queue in found.items()
        }
        for name, numbers in own.items():
            assert numbers == sorted(set(numbers)), (each.broker, name)
            assert all(name in WAYS[KEYS[number % len(KEYS)]] for number in numbers)
        for number, outcome in each.outcomes.items():
            if isinstance(outcome, int):
                ways = WAYS[KEYS[number % len(KEYS)]]
                # The topic is one more place that has it, if any queue wants it.
                assert outcome == len(ways) + bool(log_partitions and ways)
                assert all(number in own[name] for name in ways), (each.broker, number)
                confirmed += 1
    assert confirmed > 500


def _is_of(publisher: _Publisher, value: bytes) -> bool:
    return value.startswith(publisher.broker.encode() + b"/")


@pytest.mark.parametrize("seed", first_of(range(1, 7), 2))
def test_dead_letters_come_into_each_queue_once(seed: int) -> None:
    scenario = ExchangeScenario(seed)
    scenario.create("work", {"dead.letter.exchange": EXCHANGE})
    keys = [KEYS[number * 7 % 3] for number in range(120)]
    messages = [
        NewMessage(b"%d" % number, key.encode()) for number, key in enumerate(keys, start=1)
    ]
    scenario.put(*messages, name="work")
    taken = scenario.take(200, name="work")
    assert len(taken) == len(messages)
    for at in range(0, len(taken), 30):
        claims = [each.claim for each in taken[at : at + 30]]
        request = q.RejectMessages(log_id=scenario.queue("work").topic_id, claims=claims)
        scenario.ask(request, q.ClaimsResult, timeout_ms=3 * TIMEOUT_MS)
        scenario.loop.run_for(3 * seed)
        victim = scenario.queue_leader(("work", "a", "all", "b")[at // 30])
        scenario.kill(victim)
        scenario.loop.run_for(1_000)
        scenario.boot(victim)
        scenario.loop.run_until(lambda: len(scenario.running()) == 3, TIMEOUT_MS)
        scenario.loop.run_for(3_000)
    scenario.loop.run_until(
        lambda: not scenario.hosted(scenario.queue_leader("work"), "work").queue.state.moving,
        6 * TIMEOUT_MS,
    )
    for name in ("a", "b", "all"):
        wanted = [each.value for each, key in zip(messages, keys, strict=True) if name in WAYS[key]]
        assert scenario.drained(name) == wanted, name
    assert scenario.counts("work").parked == 0
