"""Put, take, settle; locks that end; a new leader."""

from kafkaesque.queues.requests import Claim, Done, Extend, GiveBack, Reject, Take, Taken
from kafkaesque.queues.state import Place
from tests.unit.queues.queue_host import PLAIN, QueueHost


def test_messages_are_given_out_in_order_and_settled() -> None:
    host = QueueHost()
    offsets = host.put(PLAIN, PLAIN, PLAIN)
    claims = host.take(2)
    assert claims == (Claim(offsets[0], offsets[2], 1),)
    assert host.settle(*claims) == Done()
    assert host.take(5) == (Claim(offsets[2], offsets[2] + 1, 1),)
    assert host.take(5) == ()
    assert host.table.state.floor == offsets[2]


def test_a_lock_ends_in_time_and_the_message_is_given_out_again() -> None:
    host = QueueHost()
    (offset,) = host.put(PLAIN)
    host.take(1, lock_ms=50)
    host.pass_time(49)
    assert host.take(1) == ()
    host.pass_time(1)
    assert host.take(1) == (Claim(offset, offset + 1, 2),)


def test_a_lock_that_was_extended_ends_later() -> None:
    host = QueueHost()
    (offset,) = host.put(PLAIN)
    claims = host.take(1, lock_ms=50)
    host.ask(Extend, claims=claims, lock_ms=500)
    host.pass_time(499)
    assert host.take(1) == ()
    host.pass_time(1)
    assert host.take(1) == (Claim(offset, offset + 1, 2),)


def test_a_late_claim_may_give_up_what_nobody_has_had_since() -> None:
    host = QueueHost()
    host.put(PLAIN)
    old = host.take(1, lock_ms=10)
    host.pass_time(10)
    new = host.take(1, lock_ms=10)
    host.pass_time(10)
    assert host.ask(Reject, claims=old, may_be_late=True) == Done(stale=old)
    assert host.ask(Reject, claims=new) == Done(stale=new)
    assert [each.place for each in host.table.browse(0, 9)] == [Place.READY]
    assert host.ask(Reject, claims=new, may_be_late=True) == Done()
    assert [each.place for each in host.table.browse(0, 9)] == [Place.PARKED]


def test_a_new_leader_knows_locks_and_attempts() -> None:
    host = QueueHost()
    host.put(PLAIN, PLAIN)
    claims = host.take(1, lock_ms=50)
    host.pass_time(30)
    host.new_leader()
    assert [each.place for each in host.table.browse(0, 9)] == [Place.IN_FLIGHT, Place.READY]
    host.pass_time(49)
    assert host.table.state.flight_count == 1, "a change of leader may lengthen a lock"
    host.pass_time(1)
    assert host.take(1)[0].attempt == 2
    assert host.settle(*claims) == Done(stale=claims)


def test_nothing_is_given_out_before_it_is_committed() -> None:
    host = QueueHost()
    host.put(PLAIN)
    host.commits = False
    assert host.ask(GiveBack, claims=()) is None
    token = host._last_token + 1
    assert host.answers.get(token) is None
    host.commits = True
    host.end_turn()
    host.commits = False
    before = len(host.answers)
    host.ask(GiveBack, claims=())
    assert len(host.answers) == before


def test_a_taker_waits_until_there_is_something() -> None:
    host = QueueHost()
    assert host.ask(Take, wait_ms=100) is None
    token = host._last_token
    (offset,) = host.put(PLAIN)
    assert host.answers[token] == Taken(claims=(Claim(offset, offset + 1, 1),))


def test_a_taker_does_not_wait_for_ever() -> None:
    host = QueueHost()
    host.ask(Take, wait_ms=100)
    host.pass_time(99)
    assert host._last_token not in host.answers
    host.pass_time(1)
    assert host.answers[host._last_token] == Taken()
