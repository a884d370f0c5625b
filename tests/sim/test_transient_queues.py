"""Transient queues: in one broker's memory alone, served from any broker, gone with that broker."""

from collections.abc import Sequence
from functools import partial

import pytest

from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST, QueueName
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.commands import Done
from kafkaesque.broker.requests.queue_commands import ChangeQueue, CreateQueue, DeleteQueue
from kafkaesque.env.disk import Buffer
from kafkaesque.model.errors import InvalidConfig, InvalidRequest, RequestRefused, UnknownQueue
from kafkaesque.model.message_headers import DEATH
from kafkaesque.sim.disk import SimFile
from tests.sim.queue_scenario import QUEUE, TIMEOUT_MS, QueueScenario, values
from tests.sim.seeds import first_of

REPLIES = "replies"
TRANSIENT = {"transient": "true"}


class Transients(QueueScenario):
    """Three brokers, a durable queue, and a transient one on the second broker."""

    def __init__(self, seed: int, options: dict[str, str] | None = None) -> None:
        super().__init__(seed)
        self.home, *_ = [each for each in self.running() if each != self.running()[0]]
        self.make(REPLIES, self.home, options)

    def try_to_make(
        self, name: str, broker: str, options: dict[str, str], copies: int = -1
    ) -> object:
        outcomes: list[object] = []
        command = CreateQueue(
            vhost=DEFAULT_VHOST, name=name, options=options, replication_factor=copies
        )
        self.broker(broker).doors.cluster.submit(command, TIMEOUT_MS, outcomes.append)
        self.loop.run_until(lambda: outcomes != [], 2 * TIMEOUT_MS)
        return outcomes[0]

    def make(self, name: str, broker: str, options: dict[str, str] | None = None) -> None:
        outcome = self.try_to_make(name, broker, {**TRANSIENT, **(options or {})})
        assert not isinstance(outcome, RequestRefused), outcome
        self.until_seen(name)

    def until_seen(self, name: str, is_there: bool = True) -> None:
        queue = QueueName(DEFAULT_VHOST, name)

        def is_so() -> bool:
            states = [broker.state for broker in self.cluster.brokers.values()]
            return all((queue in each.queues) == is_there for each in states)

        self.loop.run_until(is_so, TIMEOUT_MS)

    def elsewhere(self) -> str:
        return next(each for each in self.running() if each != self.home)

    def reply(self, *messages: NewMessage | bytes, broker: str = "") -> list[int]:
        return self.put(*messages, broker=broker or self.elsewhere(), name=REPLIES)

    def take_replies(self, count: int = 10, **more: int) -> list[q.QueueMessage]:
        return self.take(count, name=REPLIES, broker=self.elsewhere(), **more)  # type: ignore[arg-type]


def test_it_is_a_queue_as_any_other_from_any_broker() -> None:
    queues = Transients(1, {"visibility.timeout.ms": "1000", "max.priority": "9"})
    for number, broker in enumerate(queues.running()):
        queues.reply(NewMessage(b"%d" % number, priority=number), broker=broker)
    first, *_ = queues.take_replies(1)
    assert first.value == b"2"
    queues.loop.run_for(1_500)
    again, second = queues.take_replies(2)
    assert {(each.value, each.attempt, each.failures) for each in (again, second)} == {
        (b"2", 2, 1),
        (b"1", 1, 0),
    }
    assert queues.done(first, name=REPLIES) == [first.claim]
    assert queues.done(again, second, name=REPLIES) == []
    counts = queues.counts(REPLIES)
    assert (counts.ready, counts.in_flight, counts.removed["settled"]) == (1, 0, 2)
    assert counts.held_by == "nothing"


def test_who_waits_is_served_and_who_waits_for_what_is_deleted_is_told() -> None:
    queues = Transients(2)
    log_id = queues.queue(REPLIES).topic_id
    outcomes: list[object] = []
    for broker in (queues.home, queues.elsewhere()):
        request = q.TakeMessages(log_id=log_id, bytes_max=1_000_000, wait_ms=20_000)
        door = queues.broker(broker).doors.queues
        door.ask(request, q.TakenMessages, 30_000, outcomes.append)
    queues.loop.run_for(500)
    queues.reply(b"at last")
    queues.loop.run_until(lambda: len(outcomes) == 1, 1_000)
    assert isinstance(outcomes[0], q.TakenMessages)
    queues.submit(DeleteQueue(vhost=DEFAULT_VHOST, name=REPLIES))
    queues.loop.run_until(lambda: len(outcomes) == 2, 5_000)
    assert isinstance(outcomes[1], RequestRefused)
    home = queues.broker(queues.home)
    queues.loop.run_for(2_000)
    assert home.queue_hosts.find(log_id, 0) is None
    assert home.queue_hosts.memory.used == 0


def test_no_message_and_no_decision_is_written_to_a_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []
    write_at = SimFile.write_at

    def note(file: SimFile, position: int, buffers: Sequence[Buffer]) -> int:
        written.append(b"".join(buffers))
        return write_at(file, position, buffers)

    monkeypatch.setattr(SimFile, "write_at", note)
    queues = Transients(3)
    queues.put(b"on a disk")
    queues.loop.run_for(5_000)
    assert any(b"on a disk" in each for each in written)
    written.clear()
    for number in range(100):
        queues.reply(b"in memory %d" % number)
    queues.done(*queues.take_replies(50), name=REPLIES)
    queues.loop.run_for(5_000)
    # Nothing else happens meanwhile: what is written is of the brokers' own, and short.
    assert not any(b"in memory" in each for each in written)
    log_name = queues.queue(REPLIES).name.encode()
    assert not any(log_name in each for each in written)
    assert sum(map(len, written)) < 10_000


def test_it_is_gone_with_the_process_of_its_broker_and_an_old_claim_hits_nothing() -> None:
    queues = Transients(4)
    queues.reply(b"lost")
    (taken,) = queues.take_replies()
    old = queues.queue(REPLIES).topic_id
    queues.kill(queues.home)
    queues.boot(queues.home)
    queues.until_seen(REPLIES, is_there=False)
    claims = [taken.claim]
    settle = q.SettleMessages(log_id=old, claims=claims)
    assert isinstance(queues.try_to(settle, q.ClaimsResult), UnknownQueue)
    queues.make(REPLIES, queues.home)
    queues.reply(b"another")
    assert values(queues.take_replies()) == [b"another"]
    assert queues.put(b"kept") != []


def test_while_its_broker_is_away_it_is_said_to_be_gone_and_may_be_made_elsewhere() -> None:
    queues = Transients(5)
    queues.reply(b"lost")
    queues.kill(queues.home)
    queues.loop.run_for(12_000)
    request = q.AskQueue(log_id=queues.queue(REPLIES).topic_id)
    outcome = queues.try_to(request, q.QueueCounts)
    assert isinstance(outcome, UnknownQueue), outcome
    before = queues.queue(REPLIES).topic_id
    other = queues.elsewhere()
    queues.make(REPLIES, other)
    queues.loop.run_until(lambda: queues.queue(REPLIES).topic_id != before, TIMEOUT_MS)
    assert queues.queue(REPLIES).home is not None
    queues.reply(b"there")
    queues.boot(queues.home)
    queues.loop.run_for(10_000)
    assert values(queues.take_replies()) == [b"there"]


def test_another_broker_that_dies_takes_nothing_with_it() -> None:
    queues = Transients(6)
    queues.reply(b"one")
    victim = queues.elsewhere()
    queues.kill(victim)
    queues.loop.run_for(5_000)
    assert values(queues.take_replies()) == [b"one"]
    queues.boot(victim)
    queues.loop.run_for(5_000)
    queues.reply(b"two", broker=victim)
    assert values(queues.take_replies()) == [b"two"]


def test_publishers_are_refused_when_there_is_no_room_and_not_any_more_when_there_is() -> None:
    queues = Transients(7)
    queues.reply(b"first")
    log = queues.broker(queues.home).queue_hosts.find(queues.queue(REPLIES).topic_id, 0)
    assert log is not None
    log.log.queue_bytes_max = 20_000  # type: ignore[attr-defined]
    offsets: list[int] = []
    while (offset := queues.reply(bytes(2_000))[0]) >= 0:
        offsets.append(offset)
    assert 5 <= len(offsets) <= 8
    taken = queues.take_replies(3)
    assert queues.reply(bytes(2_000)) == [-1]
    assert queues.done(*taken, name=REPLIES) == []
    assert queues.reply(bytes(2_000))[0] > offsets[-1]
    left = queues.take_replies(100)
    assert queues.done(*left, name=REPLIES) == []
    assert queues.broker(queues.home).queue_hosts.memory.used == 0


def test_memory_is_given_back_behind_a_message_that_stays() -> None:
    queues = Transients(8)
    queues.reply(b"stays")
    (stays,) = queues.take_replies(1)
    for _ in range(30):
        queues.reply(*(bytes(1_000) for _ in range(50)))
        assert queues.done(*queues.take_replies(50), name=REPLIES) == []
    assert queues.counts(REPLIES).log_bytes < 200_000
    assert queues.done(stays, name=REPLIES) == []
    assert queues.counts(REPLIES).log_bytes == 0


def test_dead_letters_come_and_go_once() -> None:
    queues = Transients(9, {"dead.letter.queue": QUEUE, "delivery.limit": "1"})
    queues.submit(
        ChangeQueue(
            vhost=DEFAULT_VHOST,
            name=QUEUE,
            changes={"dead.letter.queue": REPLIES, "delivery.limit": "1"},
        )
    )
    for number in range(20):
        queues.reply(b"%d" % number)
    for message in queues.take_replies(20):
        queues.fail(message, name=REPLIES)
    queues.loop.run_for(3_000)
    dead = queues.take(50)
    assert sorted(map(bytes, filter(None, values(dead)))) == sorted(b"%d" % n for n in range(20))
    for message in dead:
        queues.fail(message)
    queues.loop.run_for(3_000)
    back = queues.take_replies(50)
    assert sorted(map(bytes, filter(None, values(back)))) == sorted(b"%d" % n for n in range(20))
    assert all(sum(name == DEATH for name, _ in each.headers) == 2 for each in back)


def test_what_a_consumer_had_that_is_gone_is_ready_again() -> None:
    queues = Transients(10)
    queues.reply(b"one")
    broker = queues.elsewhere()
    consumer = queues.broker(broker).doors.queues.new_consumer()
    log_id = queues.queue(REPLIES).topic_id
    queues.ask(q.AttachConsumer(log_id=log_id, consumer=consumer), q.AttachedConsumer, broker)
    assert len(queues.take_replies(1, consumer=consumer, lock_ms=0)) == 1  # type: ignore[arg-type]
    assert queues.take_replies(1) == []
    queues.kill(broker)
    queues.loop.run_for(15_000)
    assert values(queues.take_replies(1)) == [b"one"]


@pytest.mark.parametrize(
    ("options", "copies"),
    [
        ({"encryption": "aes256-gcm"}, -1),
        ({"write.caching": "true"}, -1),
        ({"forward.exchange": "amq.fanout"}, -1),
        ({"source.topic": "events"}, -1),
        ({}, 3),
    ],
)
def test_what_makes_no_sense_without_a_log_is_refused(options: dict[str, str], copies: int) -> None:
    queues = Transients(11)
    outcome = queues.try_to_make("no", queues.home, {**TRANSIENT, **options}, copies)
    assert isinstance(outcome, InvalidConfig | InvalidRequest), outcome


def test_a_queue_does_not_become_transient_later_nor_is_it_taken_for_another() -> None:
    queues = Transients(12)
    outcomes: list[object] = []
    for name, value in ((QUEUE, "true"), (REPLIES, None), (REPLIES, "false")):
        command = ChangeQueue(vhost=DEFAULT_VHOST, name=name, changes={"transient": value})
        queues.any().controller_client.submit(command, TIMEOUT_MS, outcomes.append)
    queues.loop.run_until(lambda: len(outcomes) == 3, TIMEOUT_MS)
    assert [isinstance(each, InvalidConfig) for each in outcomes] == [True] * 3
    assert isinstance(queues.try_to_make(REPLIES, queues.home, {}), RequestRefused)
    assert isinstance(queues.try_to_make(QUEUE, queues.home, TRANSIENT), RequestRefused)


def test_purge_and_redrive_are_as_of_any_queue() -> None:
    queues = Transients(13)
    queues.reply(b"one", b"two")
    log_id = queues.queue(REPLIES).topic_id
    queues.ask(q.RedriveQueue(log_id=log_id, target=QUEUE), Done)
    queues.loop.run_for(2_000)
    assert values(queues.take(5)) == [b"one", b"two"]
    queues.reply(b"three")
    queues.ask(q.PurgeQueue(log_id=log_id), Done)
    assert queues.counts(REPLIES).ready == 0


@pytest.mark.parametrize("seed", first_of(range(3), 1))
def test_others_die_and_links_break_and_each_message_is_done_once(seed: int) -> None:
    queues = Transients(20 + seed, {"visibility.timeout.ms": "2000"})
    dice = queues.env.dice
    confirmed: set[bytes] = set()
    settled: list[bytes] = []
    attempts: set[tuple[int, int]] = set()
    log_id = queues.queue(REPLIES).topic_id

    def ask_from(broker: str, request: q.AnyQueueRequest, kind: type) -> object:
        return queues.try_to(request, kind, broker, 5_000)

    def put_one(broker: str, number: int) -> None:
        outcomes: list[object] = []
        message = NewMessage(b"%d" % number)
        door = queues.broker(broker).doors.queues
        door.put(log_id, [message], 5_000, outcomes.append)
        queues.loop.run_until(lambda: outcomes != [], 15_000)
        if isinstance(outcomes[0], q.PutResult):
            confirmed.add(b"%d" % number)

    def work_one(broker: str) -> None:
        take = q.TakeMessages(log_id=log_id, bytes_max=1_000_000, messages_max=3)
        taken = ask_from(broker, take, q.TakenMessages)
        for each in taken.messages if isinstance(taken, q.TakenMessages) else []:
            assert (each.offset, each.attempt) not in attempts
            attempts.add((each.offset, each.attempt))
            if dice.below(4):
                settle = q.SettleMessages(log_id=log_id, claims=[each.claim])
                done = ask_from(broker, settle, q.ClaimsResult)
                if done == q.ClaimsResult([]):
                    assert each.value is not None
                    settled.append(each.value)

    def knows(broker: str) -> bool:
        found = queues.cluster.brokers.get(broker)
        return found is not None and log_id in found.state.queues_by_log

    others = [each for each in queues.running() if each != queues.home]
    for number in range(40):
        alive = [each for each in others if each in queues.running()]
        match dice.below(8):
            case 0 if len(alive) == 2:
                queues.kill(alive[dice.below(2)])
            case 1 if len(alive) == 1:
                back = next(each for each in others if each not in alive)
                queues.boot(back)
                queues.loop.run_until(partial(knows, back), 30_000)
            case 2:
                queues.world.wire.block(alive[0], queues.home)
                queues.loop.run_for(dice.below(3_000))
                queues.world.wire.unblock(alive[0], queues.home)
        askers = queues.running()
        asker = askers[dice.below(len(askers))]
        put_one(asker, number)
        work_one(asker)
    assert queues.queue(REPLIES).topic_id == log_id
    queues.loop.run_for(5_000)
    while taken := queues.take(50, name=REPLIES, broker=queues.home):
        assert queues.done(*taken, name=REPLIES, broker=queues.home) == []
        settled += [each.value or b"" for each in taken]
    assert len(settled) == len(set(settled))
    assert confirmed <= {*settled, *lost_answers(queues, settled)}
    assert queues.broker(queues.home).queue_hosts.memory.used == 0


def lost_answers(queues: Transients, settled: list[bytes]) -> set[bytes]:
    """Return those that may have been settled by requests of which the answers were lost."""
    counts = queues.ask(
        q.AskQueue(log_id=queues.queue(REPLIES).topic_id), q.QueueCounts, queues.home
    )
    assert counts.arrived == counts.removed["settled"]
    unheard = counts.removed["settled"] - len(settled)
    return {b"%d" % number for number in range(40)} if unheard else set()
