"""Who waits for a message gets what is to be had at once or not at all."""

import pytest

from kafkaesque.queues.policy import Overflow
from kafkaesque.queues.requests import Take, Verdict
from kafkaesque.queues.state import Place
from tests.unit.queues.queue_host import PLAIN, Message
from tests.unit.queues.test_queue_features import places, queue


def test_a_queue_that_holds_nothing_gives_only_to_who_waits() -> None:
    host = queue(holds_nothing=True)
    host.put(*[PLAIN] * 2)
    assert places(host) == []
    assert host.ask(Take, messages_max=1, wait_ms=60_000) is None
    (first, _) = host.put(*[PLAIN] * 2)
    assert [each.offset for each in host.table.browse(0, 9)] == [first]
    assert places(host) == [Place.IN_FLIGHT]
    host.new_leader()
    assert host.table.state.policy.holds_nothing
    refusing = queue(holds_nothing=True, overflow=Overflow.REJECT)
    assert refusing.ask(Take, messages_max=1, wait_ms=60_000) is None
    (said,) = refusing.table.admit([b""], [0], refusing.instant)
    assert said.verdict is Verdict.FULL


def test_who_waits_is_served_before_a_limit_drops_what_has_just_come() -> None:
    host = queue(messages_max=1)
    assert host.ask(Take, messages_max=2, wait_ms=60_000) is None
    host.put(*[PLAIN] * 4)
    assert places(host) == [Place.IN_FLIGHT, Place.IN_FLIGHT, Place.READY]


def test_a_message_without_a_life_goes_to_who_waits_and_else_nowhere() -> None:
    host = queue()
    now_or_never = Message(not_after_ms=host.wall_ms)
    host.put(now_or_never)
    assert places(host) == []
    assert host.ask(Take, messages_max=1, wait_ms=60_000) is None
    host.put(now_or_never, now_or_never)
    assert places(host) == [Place.IN_FLIGHT]
    host.put(Message(not_after_ms=host.wall_ms + 10))
    host.pass_time(9)
    host.now_ms, host.wall_ms = host.now_ms + 1, host.wall_ms + 1
    assert host.take(1) == (), "one that has waited is over when its life is"


@pytest.mark.parametrize("holds_nothing", [True, False])
def test_who_has_room_gets_what_comes_between_two_requests(holds_nothing: bool) -> None:
    host = queue(holds_nothing=holds_nothing)
    message = PLAIN if holds_nothing else Message(not_after_ms=host.wall_ms)
    host.attach(b"c")
    assert host.ask(Take, session=b"c", messages_max=3, wait_ms=60_000) is None
    host.put(message)
    host.put(message)
    host.put(message)
    assert places(host) == [Place.IN_FLIGHT, Place.READY, Place.READY]
    assert len(host.take_offsets(2, session=b"c")) == 2
    host.put(message)
    assert places(host) == [Place.IN_FLIGHT] * 3, "it was given all that it has room for"


@pytest.mark.parametrize("holds_nothing", [True, False])
def test_who_does_not_come_again_is_not_waited_for(holds_nothing: bool) -> None:
    host = queue(holds_nothing=holds_nothing)
    message = PLAIN if holds_nothing else Message(not_after_ms=host.wall_ms)
    host.attach(b"c")
    assert host.ask(Take, session=b"c", messages_max=3, wait_ms=60_000) is None
    host.put(message)
    host.put(message)
    due_ms = host.table.next_deadline_ms()
    assert due_ms is not None
    # Ages are known to a quarter of a second.
    assert due_ms <= host.now_ms + 500
    host.pass_time(due_ms - host.now_ms)
    assert places(host) == [Place.IN_FLIGHT]
    host.put(message)
    assert places(host) == [Place.IN_FLIGHT]
