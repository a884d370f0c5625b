"""What a queue offers, one thing after the other."""

import random
from typing import Any

import pytest

from kafkaesque.queues.decisions import Reason
from kafkaesque.queues.distributor import EXPECTED_MS
from kafkaesque.queues.policy import Overflow, Policy, Sharing, Undeliverable
from kafkaesque.queues.requests import (
    Activate,
    Attach,
    Attached,
    Claim,
    Configure,
    Detach,
    Done,
    Finish,
    GiveBack,
    Grant,
    Moved,
    NotMoved,
    Purge,
    Redrive,
    Refusal,
    Refused,
    Reject,
    Stage,
    Take,
    Taken,
    Unpark,
    Verdict,
)
from kafkaesque.queues.state import Place
from tests.unit.queues.queue_host import PLAIN, Message, QueueHost


def queue(**options: Any) -> QueueHost:
    return QueueHost(policy=Policy(**options))


def places(host: QueueHost) -> list[Place]:
    return [each.place for each in host.table.browse(0, 100)]


# -- attempts, releases


def test_released_messages_return_to_their_old_place() -> None:
    host = queue()
    first, second = host.put(PLAIN, PLAIN)
    host.ask(GiveBack, claims=host.take(1))
    assert host.take_offsets(2) == [first, second]


def test_released_messages_may_go_to_the_tail() -> None:
    host = queue()
    first, second = host.put(PLAIN, PLAIN)
    host.ask(GiveBack, claims=host.take(1), to_tail=True)
    (third,) = host.put(PLAIN)
    assert host.take_offsets(9) == [second, first, third]


def test_a_release_may_be_delayed_and_the_delay_grows() -> None:
    host = queue(retry_ms_min=100, retry_ms_max=300)
    host.put(PLAIN)
    for delay_ms in (100, 200, 300, 300):
        host.ask(GiveBack, claims=host.take(1), is_failed=True)
        host.pass_time(delay_ms - 1)
        assert places(host) == [Place.DELAYED]
        host.pass_time(1)
        assert places(host) == [Place.READY]


def test_attempts_end_and_those_that_do_not_count_do_not() -> None:
    host = queue(attempts_max=2, undeliverable=Undeliverable.PARK)
    host.put(PLAIN)
    for _ in range(5):
        host.ask(GiveBack, claims=host.take(1), is_failed=False)
    host.ask(GiveBack, claims=host.take(1), is_failed=True)
    assert places(host) == [Place.READY]
    host.ask(GiveBack, claims=host.take(1), is_failed=True)
    assert places(host) == [Place.PARKED]
    host.ask(Unpark)
    (claim,) = host.take(1)
    assert claim.attempt == 8, "attempts never go back"


def test_a_claim_of_an_earlier_attempt_does_nothing() -> None:
    host = queue(lock_ms=10)
    host.put(PLAIN)
    old = host.take(1)
    host.pass_time(10)
    new = host.take(1)
    assert host.settle(*old, may_be_late=True) == Done(stale=old)
    assert host.settle(*new) == Done()


def test_a_late_claim_may_settle_what_nobody_has_had_since() -> None:
    host = queue(lock_ms=10)
    host.put(PLAIN)
    claims = host.take(1)
    host.pass_time(10)
    assert host.settle(*claims) == Done(stale=claims)
    assert host.settle(*claims, may_be_late=True) == Done()
    assert places(host) == []


def test_absurd_claims_are_refused() -> None:
    host = queue()
    for claim in (Claim(0, 2**40, 1), Claim(5, 5, 1), Claim(-1, 3, 1)):
        assert host.settle(claim) == Refused(why=Refusal.OVER_BOUND)


# -- priority, delay, time to live


def test_higher_priorities_come_first() -> None:
    host = queue(priorities=32)
    low, high, higher = host.put(PLAIN, Message(priority=3), Message(priority=40))
    assert host.take_offsets(3) == [higher, high, low]


def test_a_fair_queue_serves_the_lowest_priority_too() -> None:
    host = queue(priorities=2, is_fair=True)
    (low,) = host.put(PLAIN)
    host.put(*[Message(priority=1)] * 50)
    assert low in host.take_offsets(8)


def test_a_message_may_be_delayed_for_months() -> None:
    host = queue()
    month_ms = 30 * 86_400_000
    later, now = host.put(Message(not_before_ms=host.wall_ms + 3 * month_ms), PLAIN)
    assert host.take_offsets(9) == [now]
    host.pass_time(2 * month_ms)
    host.new_leader()
    assert host.take_offsets(9) == [now], "the lock has ended long since"
    host.pass_time(month_ms)
    assert later in host.take_offsets(9)


def test_nothing_whose_life_is_over_hides_behind_the_head() -> None:
    host = queue()
    stays, _ = host.put(PLAIN, Message(not_after_ms=host.wall_ms + 50))
    host.pass_time(49)
    assert len(places(host)) == 2
    host.pass_time(1)
    assert [each.offset for each in host.table.browse(0, 9)] == [stays]
    assert host.table.state.removed[Reason.EXPIRED] == 1


def test_a_time_to_live_that_is_set_later_holds_for_what_waits() -> None:
    host = queue()
    host.put(*[PLAIN] * 10)
    claims = host.take(1, lock_ms=10_000)
    host.pass_time(5_000)
    host.put(PLAIN)
    host.ask(Configure, policy=Policy(ttl_ms=3_000))
    assert places(host) == [Place.IN_FLIGHT, Place.READY]
    host.ask(GiveBack, claims=claims)
    assert places(host) == [Place.READY], "what comes back is looked at"


@pytest.mark.parametrize("ttl_ms", [0, 50])
def test_what_somebody_has_had_lives_on_where_the_queue_keeps_it(ttl_ms: int) -> None:
    host = queue(keeps_begun=True, ttl_ms=ttl_ms)
    not_after_ms = 0 if ttl_ms else host.wall_ms + 50
    had, given_back, _ = host.put(*[Message(not_after_ms=not_after_ms)] * 3)
    first, second = (host.take(lock_ms=10_000) for _ in range(2))
    host.ask(GiveBack, claims=first, is_failed=True)
    assert host.take(lock_ms=10_000)[0].first == had
    host.pass_time(100)
    # Nobody has tried the second one, and the third one still waits.
    host.ask(GiveBack, claims=second)
    host.pass_time(10_000)
    assert [each.offset for each in host.table.browse(0, 9)] == [had]
    host.new_leader()
    host.pass_time(100)
    assert host.take(lock_ms=100) == (Claim(had, had + 1, 3),)
    assert given_back == second[0].first
    host.pass_time(200)
    assert places(host) == [Place.READY]


# -- limits


def test_the_head_is_dropped_where_a_queue_is_too_long() -> None:
    host = queue(messages_max=3)
    offsets = host.put(*[PLAIN] * 5)
    assert host.take_offsets(9) == offsets[2:]
    host.put(*[PLAIN] * 3)
    assert len(places(host)) == 6, "what is in flight is not counted"


def test_limits_count_what_is_in_flight_if_asked() -> None:
    host = queue(messages_max=3, counts_in_flight=True)
    host.put(*[PLAIN] * 3)
    host.take(2)
    host.put(PLAIN)
    assert places(host) == [Place.IN_FLIGHT, Place.IN_FLIGHT, Place.READY]


def test_bytes_are_limited() -> None:
    host = queue(bytes_max=100)
    host.put(Message(value=b"v" * 60, priority=1))
    (offset,) = host.put(Message(value=b"v" * 60, priority=1))
    assert [each.offset for each in host.table.browse(0, 9)] == [offset]


def test_a_full_queue_refuses_and_twins_are_found() -> None:
    host = queue(messages_max=2, overflow=Overflow.REJECT, deduplication_ms=1_000)
    one = b"1" * 16
    said = host.table.admit([one, one, b"", b""], [1] * 4, host.instant)
    verdicts = [each.verdict for each in said]
    assert verdicts == [Verdict.ADMITTED, Verdict.DUPLICATE, Verdict.ADMITTED, Verdict.FULL]
    assert said[1].twin == 0
    (offset,) = host.put(Message(identity=one))
    (again,) = host.table.admit([one], [1], host.instant)
    assert (again.verdict, again.original) == (Verdict.DUPLICATE, offset)
    host.settle(*host.take(1))
    host.new_leader()
    host.pass_time(999)
    assert host.table.admit([one], [1], host.instant)[0].verdict is Verdict.DUPLICATE
    host.pass_time(126)
    assert host.table.admit([one], [1], host.instant)[0].verdict is Verdict.ADMITTED


def test_identities_are_bounded() -> None:
    host = queue(deduplication_ms=1_000, deduplication_count=2)
    said = host.table.admit([b"%016d" % n for n in range(3)], [1] * 3, host.instant)
    assert [each.verdict for each in said][-1] is Verdict.FULL


# -- groups


def test_a_slow_group_stops_only_itself() -> None:
    host = queue(is_ordered=True)
    a, b = Message(group=b"a"), Message(group=b"b")
    a1, b1, a2, b2, plain = host.put(a, b, a, b, PLAIN)
    assert host.take_offsets(9) == [a1, b1, plain]
    assert host.take_offsets(9) == []
    (offset,) = host.put(b)
    host.settle(Claim(b1, b1 + 1, 1))
    assert host.take_offsets(9) == [b2]
    host.settle(Claim(b2, b2 + 1, 1), Claim(a1, a1 + 1, 1))
    assert host.take_offsets(9) == [a2, offset]


def test_a_group_waits_for_the_retry_of_its_first() -> None:
    host = queue(is_ordered=True, retry_ms_min=100)
    first, _ = host.put(Message(group=b"a"), Message(group=b"a"))
    host.ask(GiveBack, claims=host.take(1), is_failed=True, to_tail=True)
    assert host.take_offsets(9) == []
    host.new_leader()
    assert host.take_offsets(9) == []
    host.pass_time(100)
    assert host.take_offsets(9) == [first]


def test_one_taker_may_have_the_first_messages_of_a_group_in_order() -> None:
    host = queue(is_ordered=True)
    a, b = Message(group=b"a"), Message(group=b"b")
    a1, b1, a2, plain, a3, b2, a4 = host.put(a, b, a, PLAIN, a, b, a)
    assert host.take_offsets(4, has_groups=True) == [a1, b1, a2, plain]
    assert host.take_offsets(9, has_groups=True) == [], "both groups are held"
    host.settle(Claim(b1, b1 + 1, 1), Claim(a1, a1 + 1, 1))
    assert host.take_offsets(9, has_groups=True) == [b2], "of the other one something is in flight"
    host.ask(GiveBack, claims=(Claim(a2, a2 + 1, 1),))
    assert host.take_offsets(2, has_groups=True) == [a2, a3]
    host.new_leader()
    assert host.take_offsets(9, has_groups=True) == []
    host.settle(Claim(a2, a2 + 1, 2), Claim(a3, a3 + 1, 1))
    assert host.take_offsets(9, has_groups=True) == [a4]


@pytest.mark.parametrize("seed", range(20))
def test_what_is_taken_of_a_group_is_its_beginning_without_a_gap(seed: int) -> None:
    chance = random.Random(seed)
    host = queue(is_ordered=True)
    group_of: dict[int, bytes] = {}
    flying: list[Claim] = []
    for _ in range(150):
        act = chance.random()
        if act < 0.4:
            groups = [chance.choice((b"a", b"b", b"c")) for _ in range(chance.randint(1, 6))]
            put = host.put(*(Message(group=each) for each in groups))
            group_of.update(zip(put, groups, strict=True))
        elif act < 0.7:
            held = {group_of[claim.first] for claim in flying}
            has_groups = chance.random() < 0.8
            claims = host.take(chance.randint(1, 8), has_groups=has_groups)
            taken = [offset for claim in claims for offset in range(claim.first, claim.end)]
            for group in {group_of[each] for each in taken}:
                mine = [each for each in taken if group_of[each] == group]
                live = [each for each in group_of if group_of[each] == group]
                assert group not in held
                assert mine == sorted(live)[: len(mine)], (seed, group)
                assert has_groups or len(mine) == 1
            attempts = host.table.state.attempts
            flying += [Claim(each, each + 1, attempts[each]) for each in taken]
        elif flying:
            claim = flying.pop(chance.randrange(len(flying)))
            if chance.random() < 0.6:
                host.settle(claim)
                del group_of[claim.first]
            else:
                host.ask(GiveBack, claims=(claim,))
        if chance.random() < 0.05:
            host.new_leader()


def test_a_poisonous_group_is_no_hindrance() -> None:
    host = queue(is_ordered=True)
    for _ in range(40):
        host.put(*[Message(group=b"poison")] * 500)
    (good,) = host.put(Message(group=b"good"))
    host.take(1)
    assert host.ask(Take, wait_ms=0) is not None
    host.commits = True
    assert host.take_offsets(1, wait_ms=10_000) == [good]


# -- dead letters, redrive, purge


def test_a_dead_letter_is_asked_for_until_it_is_reported() -> None:
    host = queue(dead_letters_to="dead")
    (offset,) = host.put(PLAIN)
    host.ask(Reject, claims=host.take(1))
    (move,) = host.moves
    assert (move.offset, move.target, move.sequence) == (offset, "dead", 0)
    assert (move.reason, move.attempts) == (Reason.REJECTED, 1)
    host.new_leader()
    assert host.moves == [move, move]
    assert host.ask(Moved, offsets=(offset,)) == Done()
    host.new_leader()
    assert len(host.moves) == 2
    assert host.ask(Moved, offsets=(offset,)) == Done(), "told twice, it does nothing"
    assert places(host) == []


def test_what_cannot_be_moved_is_parked() -> None:
    host = queue(dead_letters_to="gone")
    host.put(PLAIN)
    host.ask(Reject, claims=host.take(1))
    host.ask(NotMoved, offsets=(host.moves[0].offset,))
    assert places(host) == [Place.PARKED]


@pytest.mark.parametrize("undeliverable", Undeliverable)
def test_where_no_place_takes_dead_letters(undeliverable: Undeliverable) -> None:
    host = queue(undeliverable=undeliverable)
    host.put(PLAIN)
    host.ask(Reject, claims=host.take(1))
    parked = [Place.PARKED] if undeliverable is Undeliverable.PARK else []
    assert places(host) == parked


def test_a_queue_is_redriven_also_across_leaders() -> None:
    host = queue()
    offsets = host.put(*[PLAIN] * 2_500)
    host.ask(Redrive, target="source")
    (late,) = host.put(PLAIN)
    moved = 0
    while moved < len(host.moves):
        some = tuple(move.offset for move in host.moves[moved:])
        moved = len(host.moves)
        host.ask(Moved, offsets=some)
        if moved == 1_000:
            host.new_leader()
    assert sorted({move.offset for move in host.moves}) == offsets
    assert [each.offset for each in host.table.browse(0, 9)] == [late]


def test_a_redrive_can_be_stopped() -> None:
    host = queue()
    host.put(*[PLAIN] * 2_500)
    host.ask(Redrive, target="source")
    host.ask(Redrive, target="")
    host.ask(Moved, offsets=tuple(move.offset for move in host.moves))
    assert places(host).count(Place.MOVING) == 0
    assert len(places(host)) == 100


def test_no_more_than_a_second_of_a_redrive_is_on_its_way() -> None:
    host = queue(redrive_rate=5)
    host.put(*[PLAIN] * 20)
    host.ask(Redrive, target="source")
    assert places(host).count(Place.MOVING) == 5
    host.ask(Moved, offsets=tuple(move.offset for move in host.moves[:2]))
    assert places(host).count(Place.MOVING) == 5


def test_a_purge_leaves_what_is_in_flight() -> None:
    host = queue()
    host.put(*[PLAIN] * 5, Message(not_before_ms=host.wall_ms + 99))
    host.take(2)
    assert host.ask(Purge) == Done()
    assert places(host) == [Place.IN_FLIGHT] * 2


def test_a_purge_that_takes_what_is_in_flight_frees_its_groups() -> None:
    host = queue(is_ordered=True)
    host.put(*[Message(group=b"a")] * 2, *[Message(group=b"b")] * 2)
    staged, free = (Claim(offset, offset + 1, 1) for offset in host.take_offsets(2))
    host.ask(Stage, claims=(staged,), transaction=7)
    assert host.ask(Purge, takes_in_flight=True) == Done()
    assert places(host) == [Place.IN_FLIGHT]
    assert host.settle(free) == Done(stale=(free,))
    again = host.put(Message(group=b"b"))
    assert host.take_offsets(2) == again


# -- sessions


def test_one_session_at_a_time_is_active_and_the_next_follows() -> None:
    host = queue(sharing=Sharing.SINGLE_ACTIVE)
    assert host.attach(b"a") == Attached(is_active=True)
    assert host.attach(b"b") == Attached(is_active=False)
    for session in (b"a", b"b"):
        host.ask(Grant, session=session, messages=10)
    offsets = host.put(PLAIN, PLAIN)
    assert [each.session for each in host.deliveries] == [b"a"]
    host.ask(Detach, session=b"a")
    assert Activate(session=b"b") in host.effects
    assert host.deliveries[-1].session == b"b"
    assert host.deliveries[-1].claims == (Claim(offsets[0], offsets[1] + 1, 2),)


def test_after_a_change_of_leader_nobody_overtakes_who_was_active() -> None:
    host = queue(sharing=Sharing.SINGLE_ACTIVE, grace_ms=1_000)
    host.attach(b"a")
    host.ask(Grant, session=b"a", messages=1, lock_ms=0)
    first, second = host.put(PLAIN, PLAIN)
    host.new_leader()
    assert host.attach(b"b") == Attached(is_active=False)
    host.ask(Grant, session=b"b", messages=10)
    given = len(host.deliveries)
    host.pass_time(999)
    assert len(host.deliveries) == given
    host.pass_time(1)
    assert host.effects.count(Activate(session=b"b")) == 1
    assert [each for each in host.deliveries[given:] if each.session == b"b"] != []
    claims = [claim for each in host.deliveries[given:] for claim in each.claims]
    assert [claim.first for claim in claims] == [first, second]


def test_who_was_active_and_comes_back_is_active_again() -> None:
    host = queue(sharing=Sharing.SINGLE_ACTIVE)
    host.attach(b"a")
    host.ask(Grant, session=b"a", messages=1)
    host.put(PLAIN, PLAIN)
    host.new_leader()
    assert host.attach(b"b") == Attached(is_active=False)
    answer = host.attach(b"a")
    assert isinstance(answer, Attached)
    assert answer.is_active
    host.ask(Detach, session=b"a")
    assert host.effects.count(Activate(session=b"b")) == 1


def test_a_queue_may_be_one_session_s_own() -> None:
    host = queue(sharing=Sharing.EXCLUSIVE)
    host.attach(b"a")
    assert host.attach(b"b") == Refused(why=Refusal.EXCLUSIVE)
    assert host.ask(Take) == Refused(why=Refusal.NOT_ATTACHED)


def test_a_session_that_does_not_come_back_is_gone_after_its_grace() -> None:
    host = queue(grace_ms=1_000)
    for session in (b"a", b"b"):
        host.attach(session)
        host.ask(Grant, session=session, messages=1, lock_ms=0)
    host.put(PLAIN, PLAIN)
    host.new_leader()
    host.attach(b"b")
    host.pass_time(999)
    assert places(host) == [Place.IN_FLIGHT] * 2
    host.pass_time(1)
    assert sorted(places(host)) == [Place.READY, Place.IN_FLIGHT]


def test_who_comes_back_is_told_what_it_has() -> None:
    host = queue()
    host.attach(b"a")
    host.ask(Grant, session=b"a", messages=2)
    host.put(PLAIN, PLAIN, PLAIN)
    host.new_leader()
    answer = host.attach(b"a")
    assert isinstance(answer, Attached)
    assert answer.claims == host.deliveries[0].claims


def test_credit_is_shared_and_used_up() -> None:
    host = queue()
    for session in (b"a", b"b"):
        host.attach(session)
        host.ask(Grant, session=session, messages=3)
    host.put(*[PLAIN] * 10)
    given: dict[bytes, int] = {}
    for each in host.deliveries:
        count = sum(claim.end - claim.first for claim in each.claims)
        given[each.session] = given.get(each.session, 0) + count
    assert given == {b"a": 3, b"b": 3}


def test_credit_of_bytes_is_overdrawn_by_one_message_and_no_more() -> None:
    host = queue(counts_bytes=True)
    host.attach(b"a")
    host.put(*[Message(value=b"v" * 100, priority=1)] * 5)
    for size, in_flight in ((250, 3), (50, 3), (1, 4), (99, 4), (1_000, 5)):
        host.ask(Grant, session=b"a", messages=10, bytes=size)
        assert host.table.state.flight_count == in_flight


def test_no_more_than_allowed_are_in_flight() -> None:
    host = queue(in_flight_max=3)
    host.put(*[PLAIN] * 10)
    assert len(host.take_offsets(9)) == 3
    assert host.take_offsets(9) == []


def test_nobody_is_given_credit_who_is_not_attached() -> None:
    assert queue().ask(Grant, session=b"x", messages=1) == Refused(why=Refusal.NO_SESSION)


def test_a_policy_that_contradicts_itself_is_refused() -> None:
    policy = Policy(is_ordered=True, priorities=2)
    assert queue().ask(Configure, policy=policy) == Refused(why=Refusal.INVALID)


# -- transactions


@pytest.mark.parametrize("is_committed", [True, False])
def test_messages_are_settled_with_a_transaction_or_not(is_committed: bool) -> None:
    host = queue(lock_ms=10)
    host.put(PLAIN, PLAIN)
    claims = host.take(2)
    assert host.ask(Stage, claims=claims, transaction=7) == Done()
    assert host.settle(*claims) == Done(stale=claims), "it is the transaction's now"
    host.pass_time(100)
    host.new_leader()
    assert places(host) == [Place.IN_FLIGHT] * 2, "locks wait for the transaction"
    for _ in range(2):
        assert host.ask(Finish, transaction=7, is_committed=is_committed) == Done()
    assert places(host) == ([] if is_committed else [Place.READY] * 2)


# -- the log


def test_the_log_is_needed_from_the_first_message_that_lives() -> None:
    host = queue()
    offsets = host.put(*[PLAIN] * 10)
    claims = host.take(10)
    host.settle(Claim(offsets[1], offsets[9] + 1, claims[0].attempt))
    assert host.table.state.floor == offsets[0]
    host.settle(Claim(offsets[0], offsets[1], 1))
    assert host.table.state.floor == host.table.state.end


# -- priorities of sessions, and sessions that are alone


def attach(host: QueueHost, session: bytes, **more: Any) -> Any:
    return host.ask(Attach, session=session, **more)


def waiting(host: QueueHost, session: bytes, count: int) -> int:
    """Let a session ask for messages and wait; return the request's token."""
    assert host.ask(Take, session=session, messages_max=count, wait_ms=60_000) is None
    return host._last_token


def given(host: QueueHost, token: int) -> list[int]:
    answer = host.answers.get(token)
    if not isinstance(answer, Taken):
        return []
    return [offset for each in answer.claims for offset in range(each.first, each.end)]


def test_the_highest_priority_comes_first_and_the_next_when_it_has_no_room() -> None:
    host = queue()
    attach(host, b"low")
    attach(host, b"high", priority=5)
    low = waiting(host, b"low", 10)
    high = waiting(host, b"high", 2)
    offsets = host.put(PLAIN, PLAIN, PLAIN)
    assert given(host, high) == offsets[:2]
    assert given(host, low) == offsets[2:]


def test_a_session_that_has_room_and_will_ask_again_is_waited_for() -> None:
    host = queue()
    attach(host, b"low")
    attach(host, b"high", priority=5)
    low = waiting(host, b"low", 10)
    high = waiting(host, b"high", 5)
    offsets = host.put(PLAIN)
    assert given(host, high) == offsets
    offsets = host.put(PLAIN)
    assert not given(host, low)
    # It asks for what it has room for, and gets what has come meanwhile.
    assert host.take_offsets(4, session=b"high", wait_ms=60_000) == offsets
    offsets = host.put(PLAIN)
    host.pass_time(EXPECTED_MS - 1)
    assert not given(host, low)
    host.pass_time(1)
    assert given(host, low) == offsets


def test_who_asks_for_itself_waits_for_no_priority() -> None:
    host = queue()
    attach(host, b"low", priority=-1)
    attach(host, b"high", priority=5)
    waiting(host, b"high", 5)
    host.put(PLAIN)
    offsets = host.put(PLAIN)
    assert host.take_offsets() == offsets


def test_sessions_of_one_priority_take_turns() -> None:
    host = queue()
    attach(host, b"low")
    for name in (b"a", b"b"):
        attach(host, name, priority=1)
    for name in (b"a", b"b"):
        host.ask(Grant, session=name, messages=10)
    low = waiting(host, b"low", 10)
    host.put(PLAIN, PLAIN, PLAIN, PLAIN)
    assert {each.session for each in host.deliveries} == {b"a", b"b"}
    assert not given(host, low)


def test_the_next_active_one_is_of_the_highest_priority() -> None:
    host = queue(sharing=Sharing.SINGLE_ACTIVE)
    attach(host, b"a")
    attach(host, b"b")
    assert attach(host, b"c", priority=1) == Attached(is_active=False), "nobody is thrown out"
    host.ask(Detach, session=b"a")
    assert host.effects.count(Activate(session=b"c")) == 1


def test_an_exclusive_session_is_alone() -> None:
    host = queue()
    attach(host, b"a", is_exclusive=True)
    assert attach(host, b"b") == Refused(why=Refusal.EXCLUSIVE)
    assert attach(host, b"a", is_exclusive=True) == Attached(is_active=True), "it shows itself"
    host.ask(Detach, session=b"a")
    assert isinstance(attach(host, b"b"), Attached)
    assert attach(host, b"a", is_exclusive=True) == Refused(why=Refusal.EXCLUSIVE)


def test_an_exclusive_session_that_comes_back_too_late_is_refused() -> None:
    host = queue()
    attach(host, b"a", is_exclusive=True)
    host.new_leader()
    attach(host, b"b")
    assert attach(host, b"a", is_exclusive=True) == Refused(why=Refusal.EXCLUSIVE)
    assert host.ask(Take, session=b"a") == Refused(why=Refusal.NO_SESSION)


def test_what_was_asked_for_before_a_session_attaches_anew_gets_nothing() -> None:
    """The answer would reach nobody, and the message would be the session's until it leaves."""
    host = queue()
    host.put(PLAIN, PLAIN)
    host.attach(b"a")
    host.take(2, session=b"a")
    lost = waiting(host, b"a", 1)
    attached = attach(host, b"a", is_anew=True)
    assert isinstance(attached, Attached)
    assert [each for claim in attached.claims for each in range(claim.first, claim.end)] == [1, 2]
    assert host.answers[lost] == Taken()
    host.put(PLAIN)
    assert places(host) == [Place.IN_FLIGHT, Place.IN_FLIGHT, Place.READY]
    assert len(host.take_offsets(1, session=b"a")) == 1


def test_who_is_leaving_keeps_what_it_has_and_stands_in_nobody_s_way() -> None:
    host = queue(grace_ms=1_000)
    attach(host, b"a", is_exclusive=True)
    host.put(PLAIN)
    claims = host.take(session=b"a")
    waits = waiting(host, b"a", 1)
    assert attach(host, b"a", is_leaving=True) == Attached(is_active=False, claims=claims)
    assert host.answers[waits] == Taken()
    assert isinstance(attach(host, b"b", is_exclusive=True), Attached)
    offsets = host.put(PLAIN)
    assert host.take_offsets(9, session=b"b") == offsets
    host.new_leader()
    attach(host, b"a", is_leaving=True)
    host.pass_time(2_000)
    assert places(host)[0] is Place.IN_FLIGHT
    assert host.settle(*claims) == Done()
