"""Transactions over queues and topics: all or none, whoever dies between which two steps."""

from kafkaesque.broker.requests.transaction_requests import TransactionOutcome
from kafkaesque.model.errors import RequestRefused
from kafkaesque.sim.options import SimOptions
from tests.sim.queue_scenario import QUEUE, values
from tests.sim.transaction_scenario import DONE, TOPIC, TransactionScenario, claims_of


def test_a_message_is_settled_with_what_comes_of_it() -> None:
    queues = TransactionScenario(1)
    queues.put(b"one", b"two")
    taken = queues.take(1)
    outcome = queues.commit(
        queues.part(QUEUE, [b"three"], claims_of(taken)),
        queues.part(DONE, [b"one is done"]),
        queues.part(TOPIC, [b"one, too"]),
    )
    assert [len(each.offsets) for each in outcome.joined] == [1, 1, 1]
    queues.settle()
    assert values(queues.take(5, wait_ms=1_000, lock_ms=1)) == [b"two", b"three"]
    assert queues.counts().removed["settled"] == 1
    assert values(queues.take(5, name=DONE)) == [b"one is done"]
    assert [each.value for each in queues.records_of(TOPIC)] == [b"one, too"]


def test_nothing_is_seen_before_the_end_and_nothing_after_an_abort() -> None:
    queues = TransactionScenario(2)
    queues.put(b"one")
    (taken,) = queues.take(1)
    stale = taken.claim._replace(attempt=7)
    outcome = queues.run(queues.part(DONE, [b"never"]), queues.part(QUEUE, [b"nor this"], [stale]))
    assert isinstance(outcome, TransactionOutcome)
    assert not outcome.is_committed
    assert [each.stale for each in outcome.joined] == [[], [stale]]
    queues.settle()
    assert queues.take(5, name=DONE) == []
    assert queues.take(5) == []
    assert queues.done(taken) == []


def test_a_message_that_a_transaction_settles_is_nobody_elses_until_its_end() -> None:
    queues = TransactionScenario(3)
    queues.put(b"one")
    taken = queues.take(1, lock_ms=300)
    others = [each for each in queues.running() if each != queues.queue_leader(DONE)]
    for other in others:
        queues.world.wire.block(other, queues.queue_leader(DONE))
    queues.begin(queues.part(QUEUE, claims=claims_of(taken)), queues.part(DONE, [b"x"]))
    queues.loop.run_for(1_000)
    state = queues.hosted(queues.queue_leader()).queue.state
    if state.staged:
        assert queues.take(1) == [], "its lock does not end while the transaction is open"
        assert queues.done(*taken) == claims_of(taken)
    for other in others:
        queues.world.wire.unblock(other, queues.queue_leader(DONE))
    queues.loop.run_until(lambda: queues.outcomes != [], 30_000)
    queues.settle()


def test_a_full_queue_refuses_the_whole() -> None:
    queues = TransactionScenario(4, done={"max.length": "1", "overflow": "reject-publish"})
    queues.put(b"one")
    taken = queues.take(1)
    queues.put(b"full", name=DONE)
    outcome = queues.run(
        queues.part(QUEUE, claims=claims_of(taken)), queues.part(DONE, [b"too much"])
    )
    assert isinstance(outcome, TransactionOutcome)
    assert not outcome.is_committed
    assert outcome.joined[1].offsets == [-1]
    queues.settle()
    assert queues.done(*taken) == []
    assert values(queues.take(5, name=DONE)) == [b"full"]


def test_an_id_of_an_aborted_message_is_free_again() -> None:
    queues = TransactionScenario(5, done={"deduplication.ms": "600000"})
    one = b"one".rjust(16, b".")
    queues.put(b"x")
    (taken,) = queues.take(1)
    bad = queues.part(QUEUE, claims=[taken.claim._replace(attempt=9)])
    outcome = queues.run(queues.part(DONE, [b"first"], ids=[one]), bad)
    assert isinstance(outcome, TransactionOutcome)
    assert not outcome.is_committed
    queues.settle()
    first = queues.commit(queues.part(DONE, [b"second"], ids=[one]))
    queues.settle()
    again = queues.commit(queues.part(DONE, [b"third"], ids=[one]))
    assert again.joined[0].offsets == first.joined[0].offsets
    queues.settle()
    assert queues.all_of(DONE) == [b"second"]


def test_of_two_open_transactions_with_one_id_the_first_that_ends_wins() -> None:
    queues = TransactionScenario(6, done={"deduplication.ms": "600000"})
    one = b"one".rjust(16, b".")
    queues.begin(queues.part(DONE, [b"a"], ids=[one]))
    queues.begin(queues.part(DONE, [b"b"], ids=[one]))
    queues.loop.run_until(lambda: len(queues.outcomes) == 2, 20_000)
    queues.settle()
    assert len(queues.all_of(DONE)) == 1


def test_any_broker_runs_them_and_many_at_a_time() -> None:
    queues = TransactionScenario(8)
    queues.put(*(b"%d" % number for number in range(60)))
    taken = queues.take(60)
    for number, message in enumerate(taken):
        queues.begin(
            queues.part(QUEUE, claims=claims_of([message])),
            queues.part(DONE, [message.value or b""]),
            broker=queues.running()[number % 3],
        )
    queues.loop.run_until(lambda: len(queues.outcomes) == 60, 60_000)
    bad = [each for each in queues.outcomes if isinstance(each, RequestRefused)]
    assert bad == []
    queues.settle()
    assert sorted(queues.all_of(DONE)) == sorted(b"%d" % number for number in range(60))
    assert queues.counts().in_flight == 0


def test_a_cursor_over_a_topic_takes_part() -> None:
    queues = TransactionScenario(9)
    queues.create("over", {"source.topic": TOPIC, "source.start": "earliest"})
    queues.commit(queues.part(TOPIC, [b"record"]))
    taken = queues.take(1, name="over", wait_ms=10_000)
    assert values(taken) == [b"record"]
    queues.commit(queues.part("over", claims=claims_of(taken)), queues.part(DONE, [b"of a record"]))
    queues.settle()
    assert queues.counts("over").in_flight == 0
    assert queues.all_of(DONE) == [b"of a record"]


def test_encrypted_queues_take_part_over_a_change_of_leader() -> None:
    sealed = {"encryption": "aes256-gcm"}
    queues = TransactionScenario(
        10, sealed, done={**sealed, "max.priority": "9"}, sim_options=SimOptions(is_encrypted=True)
    )
    queues.put(b"one", b"two")
    taken = queues.take(1)
    queues.commit(queues.part(QUEUE, [b"three"], claims_of(taken)), queues.part(DONE, [b"done"]))
    for name in (QUEUE, DONE):
        leader = queues.queue_leader(name)
        queues.kill(leader)
        assert queues.queue_leader(name) != leader
        queues.boot(leader)
        queues.loop.run_for(2_000)
    queues.settle()
    assert queues.all_of(QUEUE) == [b"two", b"three"]
    assert queues.all_of(DONE) == [b"done"]
