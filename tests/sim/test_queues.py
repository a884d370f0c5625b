"""Queues in brokers: any broker serves any queue, and a leader that dies takes nothing with it."""

import json
from collections.abc import Callable

import pytest

from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.broker.partitions.partition_tables import PartitionTables
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.commands import Done
from kafkaesque.model.batch import BatchHeader
from kafkaesque.model.buffers import Buffer
from kafkaesque.model.errors import StorageFailed, UnknownConsumer
from kafkaesque.model.ids import Offset
from kafkaesque.model.message_headers import DEATH, ORIGIN
from kafkaesque.queues.decisions import Reason
from tests.sim.queue_scenario import QUEUE, TIMEOUT_MS, QueueScenario, values
from tests.sim.scenario import TOPIC
from tests.sim.test_full_disk import start_full


def test_a_message_goes_to_one_worker_from_whichever_broker() -> None:
    queues = QueueScenario(1)
    names = queues.running()
    for number, name in enumerate(names):
        queues.put(b"%d" % number, broker=name)
    taken = [message for name in names for message in queues.take(broker=name)]
    assert sorted(map(bytes, filter(None, values(taken)))) == [b"0", b"1", b"2"]
    assert queues.take(10) == []
    assert queues.done(*taken, broker=queues.follower()) == []
    assert queues.done(*taken, broker=queues.follower()) == [each.claim for each in taken]
    counts = queues.counts()
    assert (counts.ready, counts.in_flight, counts.removed["settled"]) == (0, 0, 3)


def test_who_waits_is_served_when_a_message_comes() -> None:
    queues = QueueScenario(2)
    outcomes: list[object] = []
    request = q.TakeMessages(log_id=queues.queue().topic_id, bytes_max=1_000_000, wait_ms=20_000)
    door = queues.broker(queues.follower()).doors.queues
    door.ask(request, q.TakenMessages, 30_000, outcomes.append)
    queues.loop.run_for(3_000)
    assert outcomes == []
    queues.put(b"at last")
    queues.loop.run_for(100)
    (taken,) = outcomes
    assert isinstance(taken, q.TakenMessages)
    assert values(taken.messages) == [b"at last"]


def test_a_lock_ends_and_the_attempt_is_counted() -> None:
    queues = QueueScenario(3, {"visibility.timeout.ms": "1000"})
    queues.put(b"one")
    (first,) = queues.take()
    queues.loop.run_for(1_500)
    (again,) = queues.take()
    assert (first.attempt, again.attempt, again.failures) == (1, 2, 1)
    assert queues.done(first) == [first.claim]
    assert queues.done(again) == []


def test_a_leader_dies_and_no_lock_ends_and_no_attempt_is_forgotten() -> None:
    queues = QueueScenario(4, {"visibility.timeout.ms": "60000"})
    queues.put(*(b"%d" % number for number in range(10)))
    (failed,) = queues.take()
    assert queues.fail(failed) == []
    taken = queues.take(4)
    assert (taken[0].offset, taken[0].failures) == (failed.offset, 1)
    settled = queues.take(1)
    assert queues.done(*settled) == []
    queues.kill(queues.queue_leader())
    queues.loop.run_for(5_000)  # who asks at once may hear that nobody knows
    left = queues.take(10, wait_ms=5_000)
    assert values(left) == [b"5", b"6", b"7", b"8", b"9"]
    assert queues.done(*taken, *left) == []
    assert queues.counts().removed["settled"] == 10


def test_dead_letters_go_to_their_queue_once_with_their_reason() -> None:
    queues = QueueScenario(5)
    queues.create("dead")
    queues.create("work", {"delivery.limit": "2", "dead.letter.queue": "dead"})
    queues.put(NewMessage(b"poison", key=b"k", headers=(("a", b"1"),)), b"good", name="work")
    for _ in range(2):
        queues.fail(*queues.take(1, name="work"), name="work")
    (dead,) = queues.take(5, name="dead", wait_ms=5_000)
    headers = dict(dead.headers)
    assert (dead.value, dead.key, headers["a"]) == (b"poison", b"k", b"1")
    death = json.loads(headers[DEATH] or b"")
    assert (death["queue"], death["reason"], death["attempts"]) == ("work", "attempts", 2)
    assert values(queues.take(5, name="work")) == [b"good"]
    counts = queues.counts("work")
    assert (counts.moving, counts.parked) == (0, 0)


def test_a_dead_letter_without_a_queue_is_parked() -> None:
    queues = QueueScenario(6, {"delivery.limit": "1"})
    queues.put(b"poison")
    queues.fail(*queues.take())
    assert queues.counts().parked == 1
    peeked = queues.ask(q.PeekMessages(log_id=queues.queue().topic_id), q.PeekedMessages)
    assert [(each.place, each.message.value) for each in peeked.messages] == [("parked", b"poison")]


def test_duplicates_are_confirmed_and_dropped() -> None:
    queues = QueueScenario(7, {"deduplication.ms": "300000"})
    one, other = b"1" * 16, b"2" * 16
    first = queues.put(NewMessage(b"a", identity=one), NewMessage(b"twin", identity=one))
    again = queues.put(
        NewMessage(b"b", identity=one), NewMessage(b"c", identity=other), NewMessage(b"d")
    )
    assert first[0] == first[1] == again[0] < again[1] < again[2]
    assert queues.put(NewMessage(b"e", identity=other)) == [again[1]]
    assert values(queues.take(10)) == [b"a", b"c", b"d"]


def test_a_full_queue_refuses_the_publisher() -> None:
    queues = QueueScenario(8, {"max.length": "2", "overflow": "reject-publish"})
    offsets = queues.put(b"a", b"b", b"c")
    assert [offset >= 0 for offset in offsets] == [True, True, False]
    assert queues.put(b"d") == [-1]
    queues.done(*queues.take(1))
    assert queues.put(b"e")[0] >= 0
    assert values(queues.take(5)) == [b"b", b"e"]


def test_consumers_of_a_broker_that_is_gone_lose_what_they_have() -> None:
    queues = QueueScenario(9)
    name = queues.follower()
    consumer = queues.broker(name).doors.queues.new_consumer()
    log_id = queues.queue().topic_id
    refusal = queues.try_to(
        q.TakeMessages(log_id=log_id, bytes_max=1_000, consumer=consumer), q.TakenMessages
    )
    assert isinstance(refusal, UnknownConsumer)
    queues.ask(q.AttachConsumer(log_id=log_id, consumer=consumer), q.AttachedConsumer)
    queues.put(b"mine")
    assert values(queues.take(consumer=consumer, lock_ms=0)) == [b"mine"]
    assert queues.take() == []
    queues.kill(name)
    other = queues.running()[0]
    (again,) = queues.take(broker=other, wait_ms=60_000)
    assert (again.value, again.failures) == (b"mine", 1)


def test_what_does_not_fit_into_an_answer_is_given_back() -> None:
    queues = QueueScenario(10)
    queues.put(*(bytes([number]) * 1_000 for number in range(10)))
    taken = queues.take(10, bytes_max=3_500)
    assert len(taken) == 3
    left = queues.take(10)
    assert len(left) == 7
    assert {each.failures for each in left} == {0}


def test_logs_give_up_what_is_settled() -> None:
    queues = QueueScenario(11)
    body = bytes(100_000)
    for _ in range(60):
        queues.put(*([body] * 8))
        queues.done(*queues.take(8))
    queues.loop.run_for(5_000)
    counts = queues.counts()
    assert counts.log_start > 0
    assert counts.log_bytes < 40_000_000
    assert QUEUE not in {topic.name for topic in queues.any().state.topics.values()}


def test_what_is_moved_says_where_it_was_first() -> None:
    queues = QueueScenario(16)
    queues.create("dead")
    queues.create("work", {"delivery.limit": "1", "dead.letter.queue": "dead"})
    (offset,) = queues.put(b"poison", name="work")
    queues.fail(*queues.take(1, name="work"), name="work")
    (dead,) = queues.take(1, name="dead", wait_ms=5_000)
    origin = json.loads(dict(dead.headers)[ORIGIN] or b"")
    assert (origin["log"], origin["offset"]) == (queues.queue("work").topic_id.hex(), offset)
    queues.ask(q.ReleaseMessages(log_id=queues.queue("dead").topic_id, claims=[dead.claim]), object)
    queues.ask(q.RedriveQueue(log_id=queues.queue("dead").topic_id, target="work"), Done)
    (again,) = queues.take(1, name="work", wait_ms=5_000)
    assert json.loads(dict(again.headers)[ORIGIN] or b"") == origin


def test_a_redrive_has_a_rate_and_can_be_called_back() -> None:
    queues = QueueScenario(17, {"redrive.rate": "20"})
    queues.create("work")
    queues.put(*(b"%d" % number for number in range(200)))
    request = q.RedriveQueue(log_id=queues.queue().topic_id, target="work")
    queues.ask(request, Done)
    assert queues.counts().redriving_to == "work"
    queues.loop.run_for(3_000)
    moved = queues.counts("work").ready
    assert 30 <= moved <= 70
    queues.ask(q.RedriveQueue(log_id=queues.queue().topic_id, target=""), Done)
    assert queues.counts().redriving_to == ""
    queues.loop.run_for(5_000)
    # What was on its way, of one second.
    assert queues.counts("work").ready <= moved + 25
    assert queues.counts("work").ready + queues.counts().ready == 200


def test_a_redrive_waits_for_the_options_that_were_acknowledged_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queues = QueueScenario(18, {"redrive.rate": "20"})
    queues.create("work")
    queues.put(*(b"%d" % number for number in range(200)))
    asked: list[Callable[[bool], None]] = []

    def hold(_: MetadataView, timeout_ms: int, on_done: Callable[[bool], None]) -> None:
        asked.append(on_done)

    monkeypatch.setattr(MetadataView, "when_current", hold)
    outcomes: list[object] = []
    request = q.RedriveQueue(log_id=queues.queue().topic_id, target="work")
    queues.any().doors.queues.ask(request, Done, TIMEOUT_MS, outcomes.append)
    queues.loop.run_for(1_000)
    assert (len(asked), outcomes, queues.counts().redriving_to) == (1, [], "")
    # They could not be found out in time: it is asked again.
    asked[0](False)
    queues.loop.run_for(1_000)
    assert (len(asked), outcomes, queues.counts().redriving_to) == (2, [], "")
    asked[1](True)
    queues.loop.run_for(1_000)
    assert outcomes == [Done()]
    assert 0 < queues.counts("work").ready <= 50


def test_a_start_reads_from_the_newest_snapshot_on(monkeypatch: pytest.MonkeyPatch) -> None:
    queues = QueueScenario(12)
    body = bytes(50_000)
    kept = queues.put(b"kept")
    first = queues.take()
    for _ in range(60):
        queues.put(*([body] * 8))
        queues.done(*queues.take(8))
    queues.settle()
    name = queues.follower()
    before = queues.counts()
    queues.kill(name)
    read: list[int] = []
    note = PartitionTables.note

    def count(
        self: PartitionTables, header: BatchHeader, data: Buffer, base_offset: Offset
    ) -> None:
        if self.replica is None:
            read.append(base_offset)
        note(self, header, data, base_offset)

    monkeypatch.setattr(PartitionTables, "note", count)
    queues.boot(name)
    queues.loop.run_for(10_000)
    assert 0 < len(read) < 60
    assert before.log_start <= kept[0] < read[0]
    queues.settle()
    states = {queues.hosted(each).queue.snapshot()[1] for each in queues.running()}
    assert len(states) == 1
    assert queues.done(*first) == []


def test_dead_letters_go_to_a_topic_once_though_leaders_die() -> None:
    queues = QueueScenario(13)
    queues.make_topic("graveyard", partitions=2)
    queues.create("work", {"delivery.limit": "1", "dead.letter.topic": "graveyard"})
    queues.put(*(b"%d" % number for number in range(40)), name="work")
    taken = queues.take(40, name="work")
    log_id = queues.queue("work").topic_id
    request = q.RejectMessages(log_id=log_id, claims=[each.claim for each in taken])
    queues.ask(request, q.ClaimsResult)
    queues.kill(queues.queue_leader("work"))
    queues.loop.run_until(lambda: _moved(queues, 40), 60_000)
    values = sorted(int(record.value or b"-1") for record in queues.records_of("graveyard"))
    assert values == list(range(40))
    (first, *_) = queues.records_of("graveyard")
    death = json.loads(dict(first.headers)[DEATH] or b"")
    assert (death["queue"], death["reason"]) == ("work", "rejected")


def _moved(queues: QueueScenario, count: int) -> bool:
    host = next((queues.host(each, "work") for each in queues.running()), None)
    return host is not None and host.queue.state.removed[Reason.REJECTED] == count


def test_a_topic_for_dead_letters_has_to_be_there() -> None:
    queues = QueueScenario(14)
    with pytest.raises(AssertionError, match="there is no topic 'nowhere'"):
        queues.create("work", {"dead.letter.topic": "nowhere"})
    with pytest.raises(AssertionError, match=r"dead.letter.queue or to dead.letter.topic"):
        queues.create("work", {"dead.letter.topic": TOPIC, "dead.letter.queue": QUEUE})


def test_a_full_disk_takes_no_message_and_every_settlement() -> None:
    queues = QueueScenario(15, brokers=1)
    queues.put(*(b"%d" % number for number in range(10)))
    taken = queues.take(5)
    name = queues.running()[0]
    start_full(queues, name)
    outcomes: list[object] = []
    door, log_id = queues.broker(name).doors.queues, queues.queue().topic_id
    door.put(log_id, [NewMessage(b"one more")], 5_000, outcomes.append)
    queues.loop.run_until(lambda: outcomes != [], 20_000)
    assert isinstance(outcomes[0], StorageFailed), outcomes
    assert queues.done(*taken) == []
    assert queues.done(*queues.take(5)) == []
    assert queues.counts().removed["settled"] == 10


def test_counts_of_what_is_committed_wait_for_it() -> None:
    queues = QueueScenario(8)
    queues.put(b"one")
    (message,) = queues.take()
    leader = queues.queue_leader()
    followers = [each for each in queues.running() if each != leader]
    for each in followers:
        queues.kill(each)
    door, log_id = queues.broker(leader).doors.queues, queues.queue().topic_id
    settled: list[object] = []
    settle = q.SettleMessages(log_id=log_id, claims=[message.claim])
    door.ask(settle, q.ClaimsResult, 60_000, settled.append)
    queues.loop.run_for(10)
    # Nobody else has it: another leader would have the message still.
    at_once = queues.ask(q.AskQueue(log_id=log_id), q.QueueCounts, leader)
    assert at_once.oldest_ms == 0
    committed: list[object] = []
    ask = q.AskQueue(log_id=log_id, is_committed=True)
    door.ask(ask, q.QueueCounts, 60_000, committed.append)
    queues.loop.run_for(2_000)
    assert committed == settled == []
    for each in followers:
        queues.boot(each)
    queues.loop.run_until(lambda: committed != [] and settled != [], 30_000)
    (counts,) = committed
    assert isinstance(counts, q.QueueCounts), counts
    assert counts.oldest_ms == 0
