"""Encrypted queues: nothing is lost or forgotten, and no write to a disk can be read."""

import re
from collections.abc import Sequence

import pytest

from kafkaesque.access.sealed import topic_key_name
from kafkaesque.broker.doors.publication import Publication
from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.access_commands import RemoveKey
from kafkaesque.broker.requests.commands import Done
from kafkaesque.broker.requests.exchange_commands import BindDestination, PutTransformation
from kafkaesque.broker.requests.queue_commands import ChangeQueue, CreateQueue, DeleteQueue
from kafkaesque.env.disk import Buffer
from kafkaesque.model.errors import InvalidConfig, InvalidRequest
from kafkaesque.model.sealed_batch import BatchSealer
from kafkaesque.routing.exchanges.records import Destination
from kafkaesque.routing.message import RoutedMessage
from kafkaesque.routing.transformations.rules import Cast, Kind, Rule
from kafkaesque.sim.disk import SimFile
from kafkaesque.sim.options import SimOptions, with_faults
from kafkaesque.sim.queues.specs import FAMILIES
from kafkaesque.sim.runner import run_seed
from tests.sim.queue_scenario import QUEUE, QueueScenario, values
from tests.sim.seeds import first_of, some_of

SEALED = {"encryption": "aes256-gcm"}
ENCRYPTED = SimOptions(is_encrypted=True)
QUEUES = SimOptions(activities=("queues",), between_ms=500, min_insync=2, is_encrypted=True)
_NAMES = b"|".join(spec.name.encode() for family in FAMILIES for spec in family if not spec.topic)
#: A message of the simulated publishers: its queue, who has put it, and a number.
VALUE = re.compile(rb"(" + _NAMES + rb")/[^/]{1,20}/\d+")
SECRET = b"these words are not to be found"


class Writes:
    """What was written to all disks, and which writes can be read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.sealed = 0
        self.readable: list[str] = []
        write_at, seal = SimFile.write_at, BatchSealer.seal

        def written(file: SimFile, position: int, buffers: Sequence[Buffer]) -> int:
            data = b"".join(buffers)
            self.count += 1
            if VALUE.search(data) or SECRET in data:
                self.readable.append(file.path)
            return write_at(file, position, buffers)

        def sealed(sealer: BatchSealer, batch: Buffer, header: object, told: bytes = b"") -> object:
            self.sealed += 1
            return seal(sealer, batch, header, told)  # type: ignore[arg-type]

        monkeypatch.setattr(SimFile, "write_at", written)
        monkeypatch.setattr(BatchSealer, "seal", sealed)


class SealedScenario(QueueScenario):
    """Three brokers with a key keeper, and an encrypted queue."""

    def __init__(self, seed: int, options: dict[str, str] | None = None) -> None:
        super().__init__(seed, {**SEALED, **(options or {})}, sim_options=ENCRYPTED)

    def rotate(self, name: str = QUEUE) -> None:
        broker = self.broker(self.queue_leader(name))
        outcomes: list[object] = []
        before = len(broker.doors.keys.versions(self.queue(name).topic_id))
        broker.doors.keys.rotate(self.queue(name).topic_id, outcomes.append, None)
        self.loop.run_until(lambda: outcomes != [], 10_000)
        self.loop.run_until(
            lambda: all(
                len(self.broker(each).doors.keys.versions(self.queue(name).topic_id)) > before
                for each in self.running()
            ),
            10_000,
        )

    def shred(self, version: int, name: str = QUEUE) -> None:
        key = topic_key_name(self.queue(name).topic_id)
        self.submit(RemoveKey(name=key, version=version))
        self.loop.run_for(500)


def change_leader(queues: QueueScenario, name: str = QUEUE) -> None:
    leader = queues.queue_leader(name)
    queues.kill(leader)
    assert queues.queue_leader(name) != leader
    queues.boot(leader)
    queues.loop.run_for(2_000)


@pytest.mark.parametrize("seed", first_of(some_of(range(6)), 1))
def test_nothing_is_lost_and_nothing_is_readable(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = Writes(monkeypatch)
    report = run_seed(seed, with_faults(seed, QUEUES, "all"))
    assert report.ok, report.anomalies
    assert report.counts["settled"] > 10
    assert writes.sealed > 50
    assert not writes.readable


def test_what_is_not_encrypted_would_have_been_found(monkeypatch: pytest.MonkeyPatch) -> None:
    writes = Writes(monkeypatch)
    queues = QueueScenario(1)
    queues.put(SECRET)
    assert any(path.startswith("__queue-") for path in writes.readable)
    assert any(not path.startswith("__queue-") for path in writes.readable), "write-ahead log"


def test_followers_know_priorities_groups_and_delays_without_opening_anything() -> None:
    queues = SealedScenario(2, {"max.priority": "9"})
    messages = [NewMessage(b"%d" % number, priority=number % 3) for number in range(9)]
    queues.put(*messages)
    states = [queues.hosted(each).queue._write_state() for each in queues.running()]
    queues.loop.run_until(
        lambda: len({queues.hosted(each).queue._write_state() for each in queues.running()}) == 1,
        5_000,
    )
    assert len(states) == 3
    change_leader(queues)
    assert values(queues.take(3)) == [b"2", b"5", b"8"]
    assert values(queues.take(3)) == [b"1", b"4", b"7"]


def test_groups_stay_in_order_over_a_change_of_leader() -> None:
    queues = SealedScenario(3, {"ordered.groups": "true"})
    queues.put(*(NewMessage(b"%d" % number, group=b"one") for number in range(3)))
    (first,) = queues.take(1)
    change_leader(queues)
    assert queues.take(5) == []
    assert queues.done(first) == []
    assert values(queues.take(1)) == [b"1"]


def test_an_id_is_known_over_a_change_of_leader() -> None:
    queues = SealedScenario(4, {"deduplication.ms": "600000"})
    message = NewMessage(b"one", identity=b"an id of 16 byte")
    (offset,) = queues.put(message)
    change_leader(queues)
    assert queues.put(message) == [offset]
    assert values(queues.take(5)) == [b"one"]


def test_a_new_key_seals_new_messages_and_a_shredded_one_ends_old_ones() -> None:
    queues = SealedScenario(5)
    queues.put(b"old")
    queues.rotate()
    queues.put(b"new")
    (old,) = queues.take(1)
    assert (old.value, queues.fail(old)) == (b"old", [])
    queues.shred(1)
    for each in queues.running():
        queues.hosted(each).bodies.forget()
    assert values(queues.take(5, wait_ms=2_000)) == [b"new"]
    assert queues.counts().parked == 1, "it is seen, and holds up nobody"
    queues.purge()
    assert queues.counts().parked == 0


def test_the_keys_go_with_the_queue() -> None:
    queues = SealedScenario(6)
    queues.put(b"one")
    key = topic_key_name(queues.queue().topic_id)
    assert (key, 1) in queues.any().state.access.keys
    queues.submit(DeleteQueue(vhost=DEFAULT_VHOST, name=QUEUE))
    queues.loop.run_for(500)
    assert (key, 1) not in queues.any().state.access.keys


def refusal(queues: QueueScenario, command: CreateQueue | ChangeQueue) -> object:
    done: list[object] = []
    queues.any().controller_client.submit(command, 10_000, done.append)
    queues.loop.run_until(lambda: done != [], 20_000)
    return done[0]


def test_dead_letters_never_go_where_they_would_be_in_the_clear(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writes = Writes(monkeypatch)
    queues = SealedScenario(7)
    queues.create("plain")
    options = {**SEALED, "dead.letter.queue": "plain", "delivery.limit": "1"}
    wrong = refusal(queues, CreateQueue(vhost=DEFAULT_VHOST, name="work", options=options))
    assert isinstance(wrong, InvalidConfig)
    assert "set encryption of queue 'plain' first" in str(wrong)
    queues.create("dead", SEALED)
    queues.create("work", {**options, "dead.letter.queue": "dead"})
    queues.put(SECRET, name="work")
    queues.fail(*queues.take(name="work"), name="work")
    (dead,) = queues.take(name="dead", wait_ms=5_000)
    assert dead.value == SECRET
    # The other one is opened afterwards: then they stay where they are.
    change = ChangeQueue(vhost=DEFAULT_VHOST, name="dead", changes={"encryption": None})
    assert isinstance(refusal(queues, change), Done)
    queues.loop.run_for(500)
    queues.put(SECRET, name="work")
    queues.fail(*queues.take(name="work"), name="work")
    queues.loop.run_for(3_000)
    assert queues.counts("work").parked == 1
    assert queues.take(name="dead") == []
    assert not writes.readable


@pytest.mark.parametrize("failed", [{}, SEALED])
def test_what_a_transformation_fails_on_never_comes_to_be_in_the_clear(
    monkeypatch: pytest.MonkeyPatch, failed: dict[str, str]
) -> None:
    writes = Writes(monkeypatch)
    queues = SealedScenario(7)
    queues.create("failed", failed)
    queues.create("target", SEALED)
    queues.create("work", {**SEALED, "dead.letter.exchange": "amq.fanout", "delivery.limit": "1"})
    rule = Rule(steps=(Cast(at="$.a", to=Kind.NUMBER),), failures="failed")
    queues.submit(PutTransformation(vhost=DEFAULT_VHOST, name="t", rule=rule))
    arguments: dict[str, object] = {"x-transformation": "t"}
    to = Destination("target")
    queues.submit(
        BindDestination(
            vhost=DEFAULT_VHOST, source="amq.fanout", destination=to, arguments=arguments
        )
    )
    done: list[object] = []
    publication = Publication(RoutedMessage(body=SECRET), NewMessage(SECRET))
    door = queues.any().doors.exchanges
    door.publish(DEFAULT_VHOST, "amq.fanout", [publication], 10_000, done.extend)
    queues.loop.run_until(lambda: done != [], 20_000)
    assert done == [1] if failed else isinstance(done[0], InvalidRequest), done
    # Dead letters as well: without a way they stay where they are.
    queues.put(SECRET, name="work")
    queues.fail(*queues.take(name="work"), name="work")
    queues.loop.run_for(3_000)
    assert queues.counts("work").parked == (0 if failed else 1)
    assert len(queues.take(9, name="failed")) == (2 if failed else 0)
    assert not writes.readable


def test_redriving_to_where_messages_would_be_in_the_clear_is_refused() -> None:
    queues = SealedScenario(8)
    queues.create("plain")
    queues.create("other", SEALED)
    queues.put(b"one")
    log_id = queues.queue().topic_id
    outcome = queues.try_to(q.RedriveQueue(log_id=log_id, target="plain"), Done)
    assert isinstance(outcome, InvalidRequest)
    assert "'orders' is encrypted and 'plain' is not" in str(outcome)
    queues.ask(q.RedriveQueue(log_id=log_id, target="other"), Done)
    assert values(queues.take(name="other", wait_ms=5_000)) == [b"one"]


def test_a_queue_is_encrypted_from_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    queues = QueueScenario(9, sim_options=ENCRYPTED)
    queues.put(b"in the clear")
    writes = Writes(monkeypatch)
    change = ChangeQueue(vhost=DEFAULT_VHOST, name=QUEUE, changes={**SEALED})
    assert isinstance(refusal(queues, change), Done)
    queues.loop.run_for(500)
    queues.put(SECRET)
    assert not writes.readable
    change_leader(queues)
    assert values(queues.take(5)) == [b"in the clear", SECRET]
