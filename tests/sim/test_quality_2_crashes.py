"""QoS 2 is exactly once, whoever dies between any two events of its exchanges.

Each message lives one life: PUBLISH, PUBREC, PUBREL and PUBCOMP of its publisher, and the same of
its subscriber; both have sessions that are kept. At one of the client's steps, so many events of
the simulator after it, somebody dies: the client loses its connection, or a broker is killed - the
one that the client is connected with, or the leader of a session's queue. That of the subscriber is
what the message is published to. Clients come back as real ones do, and the broker comes back, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST, QueueName
from kafkaesque.gateway.mqtt.feed import Taken
from kafkaesque.gateway.mqtt.journal import Journal, Staged
from kafkaesque.protocols.mqtt import packets as p
from kafkaesque.sim.loop import SimStuck
from tests.sim.mqtt_scenario import Scenario
from tests.unit.gateway_mqtt.kit import MqttClient

PUBLISHER, SUBSCRIBER = "publisher", "subscriber"
CLIENT, GATEWAY = "client", "gateway"
#: After so many events somebody dies; without faults a step is over after less than 150.
DEATHS = range(1, 155, 11)
#: Enough for every commit.
SOME = DEATHS[::5]
BACK_MS = 1_000
LIFE_MS_MAX = 60_000
#: The step, by what the client has sent, and who dies.
STEPS: dict[str, tuple[str, type[p.Packet]]] = {
    "publish": (PUBLISHER, p.Publish),
    "release": (PUBLISHER, p.Pubrel),
    "receive": (SUBSCRIBER, p.Pubrec),
    "complete": (SUBSCRIBER, p.Pubcomp),
}
PLACES = [
    (step, role)
    for step, (name, _) in STEPS.items()
    for role in (CLIENT, GATEWAY, name, *((SUBSCRIBER,) if step == "release" else ()))
]


class Lost(Exception):
    """A life has no end."""


class Lives(Scenario):
    """See the module."""

    def __init__(self, seed: int, step: str, role: str) -> None:
        super().__init__(seed)
        self._step = STEPS[step]
        self._role = role
        #: After so many more events somebody dies; None: not before a step.
        self._left: int | None = None
        #: The same, once the step has come; 0: it has.
        self._after = 0
        run_until = self.ground.loop.run_until

        def counting(condition: Callable[[], bool], *arguments: Any, **more: Any) -> None:
            def look() -> bool:
                self._on_event()
                return condition()

            run_until(look, *arguments, **more)

        self.ground.loop.run_until = counting  # type: ignore[method-assign]

    def connect(self, name: str) -> MqttClient | None:
        """See `Scenario`; what is sent is looked at."""
        client = super().connect(name)
        if client is not None:
            send = client.send

            def sending(*packets: p.Packet) -> None:
                send(*packets)
                for each in packets:
                    if self._after and (name, type(each)) == self._step:
                        self._left, self._after = self._after, 0

            client.send = sending  # type: ignore[method-assign]
        return client

    def _on_event(self) -> None:
        if self._left is None:
            return
        self._left -= 1
        if self._left:
            return
        self._left = None
        name = self._step[0]
        if self._role == CLIENT:
            wanderer = self.publisher if name == PUBLISHER else self.subscriber
            client = wanderer._client
            assert client is not None
            client.client.link.abort()
        else:
            victim = self.at[name] if self._role == GATEWAY else self._leader(self._role)
            self.die(victim, BACK_MS)

    def _leader(self, name: str) -> int:
        """Return who leads a session's queue; somebody, if nobody does."""
        names = self.ground.cluster.names
        cluster = self.ground.cluster.brokers[names[0]].doors.cluster
        queue = cluster.state.queues[QueueName(DEFAULT_VHOST, f"mqtt.session.{name}")]
        return int(cluster.leaders.leader(queue.partitions[0].group) or 1)

    def live(self, payload: bytes, after: int) -> None:
        """Let a message live its life; so many events after a step somebody dies."""
        self._after = after
        self.publisher.publish("field/a", payload, 2)
        subscriber, clock = self.subscriber, self.ground.env.clock
        until_ms = clock.now_ms() + LIFE_MS_MAX

        def is_over() -> bool:
            if clock.now_ms() >= until_ms:
                raise Lost(f"{payload!r} is lost, or not released")
            return payload in subscriber.seen and not subscriber.unreleased

        subscriber.listen(is_over)
        self.ground.loop.run_until(lambda: self._left is None, 10_000)
        self.ground.loop.run_until(lambda: not self._dead and self.ground._are_ready(), 120_000)

    def check(self) -> list[bytes]:
        """Return what the subscriber has got when nothing more comes."""
        self.calm()
        for each in (self.subscriber, self.publisher):
            each.listen(lambda: False)
        assert not self.subscriber.unreleased
        return self.subscriber.seen


def lives(step: str, role: str, deaths: Sequence[int] = SOME, seed: int = 1) -> str:
    """Return what was wrong."""
    scenario = Lives(seed, step, role)
    scenario.subscriber.subscribe("field/#")
    payloads = [b"%d" % number for number in range(len(deaths))]
    try:
        for payload, after in zip(payloads, deaths, strict=True):
            scenario.live(payload, after)
        seen = scenario.check()
    except (Lost, SimStuck) as error:
        return f"{error}: {scenario.subscriber.seen}"
    return "" if sorted(seen) == sorted(payloads) else f"it came {seen}"


@pytest.mark.parametrize(("step", "role"), PLACES)
def test_a_message_comes_once_whoever_dies(step: str, role: str) -> None:
    assert lives(step, role) == ""


@pytest.mark.extended
@pytest.mark.parametrize(("step", "role"), PLACES)
def test_a_message_comes_once_whenever_somebody_dies(step: str, role: str) -> None:
    assert lives(step, role, DEATHS, seed=2) == ""


def test_a_release_that_is_published_again_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Staged, "identity", b"")
    assert "it came" in lives("release", GATEWAY, DEATHS[1:5], seed=2)


def test_a_staged_message_that_is_forgotten_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    take_staged = Journal._take_staged

    def forget(journal: Journal, packet_id: int, staged: Staged) -> None:
        if journal.is_recovered:
            take_staged(journal, packet_id, staged)

    monkeypatch.setattr(Journal, "_take_staged", forget)
    assert "is lost" in lives("release", CLIENT, DEATHS[:2])


def test_an_owed_pubrel_that_is_forgotten_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    take_released = Journal._take_released

    def forget(journal: Journal, packet_id: int, offset: int, note: Taken) -> None:
        if journal.is_recovered:
            take_released(journal, packet_id, offset, note)
        else:
            note.feed.settle(note)

    monkeypatch.setattr(Journal, "_take_released", forget)
    assert "not released" in lives("receive", CLIENT, range(1, 6, 2), seed=2)
