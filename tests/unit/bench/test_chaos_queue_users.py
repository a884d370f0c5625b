"""Doors to queues of a run: what they note, and that the checker names what a queue does wrong.

Behind the doors are queues in memory, with one mistake at a time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from bench.chaos import queue_doors
from bench.chaos.queue_doors import ClientDoor, Door, MessageNumbers, SqsDoor
from kafkaesque.client.errors import (
    BrokerUnavailable,
    OutcomeUnknown,
    QueueFull,
    QueueNotFound,
)
from kafkaesque.sim.queues.checks import QueueChecks
from kafkaesque.sim.queues.history import (
    Delivery,
    Outcome,
    QueueHistory,
    QueueSpec,
    Sent,
    What,
)
from tests.unit.bench.faulty_queues import (
    LIMIT,
    LOCK_MS,
    AmazonsClient,
    Clock,
    OurClient,
    Queues,
    refusal,
)

WORK = QueueSpec(name="work", dead_letters_to="dead", limit=LIMIT, lock_ms_min=LOCK_MS)
ORDERED = QueueSpec(name="ordered", is_ordered=True, lock_ms_min=LOCK_MS)
DEAD = QueueSpec(name="dead")
SPECS = {spec.name: spec for spec in (WORK, ORDERED, DEAD)}


class World:
    """Queues with a mistake, and doors to them."""

    def __init__(self, bug: str = "") -> None:
        self.clock = Clock()
        self.queues = Queues(self.clock, bug)
        self.history = QueueHistory(SPECS)
        self.told: list[str] = []
        self.numbers = MessageNumbers()
        self.amazons = [AmazonsClient(self.queues), AmazonsClient(self.queues)]

    def ours(self) -> ClientDoor:
        client: Any = OurClient(self.queues)
        return ClientDoor(client, self.history, self.told.append)

    def sqs(self) -> SqsDoor:
        clients = [(f"http://{number}", each) for number, each in enumerate(self.amazons)]
        dice = random.Random(1)
        return SqsDoor(clients, self.history, self.numbers, dice, self.told.append)

    def put(self, door: Door, queue: str, value: str, group: bytes = b"") -> Sent:
        sent = Sent(queue=queue, value=value.encode(), sent_ms=self.clock(), group=group)
        self.history.note_sent(sent)
        door.put(sent)
        return sent

    def take(self, door: Door, queue: str) -> Sequence[Delivery]:
        return door.take(SPECS[queue], 1, -1, 0)

    def found(self, kind: str = "ours") -> list[str]:
        """Empty all queues, and return what the checker says."""
        for name in SPECS:
            door = self.sqs() if kind == "sqs" and name != "dead" else self.ours()
            for _ in range(20):
                for each in self.take(door, name):
                    door.act(What.SETTLE, each)
                self.clock.now_ms += LOCK_MS
            self.history.counts[name] = self.queues.counts(name)
        found: list[str] = []
        QueueChecks(self.history, found.append, do_clocks_tell=False).check()
        return found


Make = Callable[..., World]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Make:
    """Make a world by whose clock doors tell the time; with a mistake, if there is to be one."""

    def make_world(bug: str = "") -> World:
        world = World(bug)
        monkeypatch.setattr(queue_doors, "true_ms", world.clock)
        return world

    return make_world


def live(world: World, door: Door, other: Door) -> None:
    """What users do with a queue: all of it, with nothing that fails by itself."""
    for value in ("settled", "failed twice", "slept over"):
        world.put(door, "work", value)
    for value in ("first", "second"):
        world.put(door, "ordered", value, b"group")
    (one,) = world.take(door, "work") or (None,)
    (two,) = world.take(other, "work") or (None,)
    world.take(other, "work")
    if one is not None:
        door.act(What.SETTLE, one)
    for attempt in range(LIMIT):
        if two is not None:
            other.act(What.EXTEND, two, 5_000)
            other.act(What.FAIL, two)
            (two,) = (world.take(other, "work") if attempt == 0 else ()) or (None,)
    world.take(door, "ordered")
    world.take(other, "ordered")


@pytest.mark.parametrize("kind", ["ours", "sqs"])
@pytest.mark.parametrize(
    ("bug", "names"),
    [
        ("", set()),
        ("loses what it has confirmed", {"lost message"}),
        ("gives again what is settled", {"settled again"}),
        ("ends locks early", {"lock ended early"}),
        ("forgets attempts", {"forgotten attempt", "attempt given twice"}),
        ("ignores groups", {"group in two hands"}),
        ("loses dead letters", {"lost dead letter"}),
        ("doubles dead letters", {"doubled dead letter"}),
    ],
)
def test_each_mistake_of_a_queue_is_named(bug: str, names: set[str], kind: str, make: Make) -> None:
    world = make(bug)
    door, other = getattr(world, kind)(), getattr(world, kind)()
    live(world, door, other)
    found = {each.partition(":")[0] for each in world.found(kind)}
    assert found & names if names else not found, found


def test_what_was_refused_must_not_be_seen(make: Make) -> None:
    world = make("keeps what it has refused")
    assert world.put(world.ours(), "work", "refused").outcome is Outcome.REFUSED
    assert [each.partition(":")[0] for each in world.found()] == ["refused put"]
    assert world.told == ["Timeout"]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (OutcomeUnknown("who knows"), Outcome.UNKNOWN),
        (QueueFull("no room"), Outcome.REFUSED),
        (BrokerUnavailable("nobody there"), Outcome.REFUSED),
    ],
)
def test_errors_of_our_client_say_what_is_known(
    error: Exception, outcome: Outcome, make: Make
) -> None:
    world = make()

    def fail(*_: object, **__: object) -> Any:
        raise error

    client: Any = SimpleNamespace(put=fail, get_many=fail, ack=fail)
    door = ClientDoor(client, world.history, world.told.append)
    assert world.put(door, "work", "one").outcome is outcome
    assert list(world.take(door, "work")) == []
    sent = Sent(queue="work", value=b"two", sent_ms=0, identity=b"two")
    door.put(sent)
    assert sent.outcome is Outcome.UNKNOWN, "it may be there since the time before"


def test_a_queue_that_is_there_and_is_not_found_ends_the_user(
    make: Make,
) -> None:
    world = make()

    def fail(*_: object, **__: object) -> Any:
        raise QueueNotFound("it is there")

    client: Any = SimpleNamespace(put=fail, get_many=fail)
    with pytest.raises(QueueNotFound):
        ClientDoor(client, world.history, world.told.append).take(WORK, 1, -1, 0)
    for each in world.amazons:
        each.error = refusal("AWS.SimpleQueueService.NonExistentQueue", 400)
    with pytest.raises(ClientError):
        world.sqs().take(WORK, 1, -1, 0)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (refusal("RequestThrottled", 403), Outcome.REFUSED),
        (refusal("InternalError", 500), Outcome.UNKNOWN),
        (EndpointConnectionError(endpoint_url="http://0"), Outcome.UNKNOWN),
    ],
)
def test_errors_of_sqs_say_what_is_known_and_another_broker_is_asked(
    error: Exception, outcome: Outcome, make: Make
) -> None:
    world = make()
    door = world.sqs()
    for each in world.amazons:
        each.error = error
    assert world.put(door, "work", "one").outcome is outcome
    world.take(door, "work")
    assert {len(each.asked) for each in world.amazons} == {1}


def test_a_deletion_that_may_have_come_too_late_says_nothing(
    make: Make,
) -> None:
    world = make()
    door = world.sqs()
    world.put(door, "work", "one")
    (taken,) = world.take(door, "work")
    world.clock.now_ms += LOCK_MS
    (again,) = world.take(door, "work")
    door.act(What.SETTLE, taken)
    assert [act.outcome for act in taken.acts] == [Outcome.UNKNOWN]
    door.act(What.SETTLE, again)
    assert [act.outcome for act in again.acts] == [Outcome.DONE]
