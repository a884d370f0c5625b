"""Messages that were given out and not sent: for the first time, or said to come again."""

import random
from collections import Counter
from collections.abc import Iterable

import pytest

from kafkaesque.queues.policy import Policy
from kafkaesque.queues.requests import Claim, GiveBack, Take, Taken
from kafkaesque.queues.runs import Run, runs_of
from kafkaesque.queues.sent_before import (
    GIVEN_OUT_MAX,
    RETURNED_MAX,
    SentBefore,
    may_have_been_sent,
)
from tests.unit.queues.queue_host import PLAIN, Message, QueueHost


def take(host: QueueHost, count: int = 1) -> Taken:
    taken = host.ask(Take, messages_max=count)
    assert isinstance(taken, Taken)
    return taken


def come_again(taken: Taken) -> list[bool]:
    """Of each message, whether its client is told that it may have been there before."""
    return [
        may_have_been_sent(offset, claim.attempt, taken.unsent_from)
        for claim in taken.claims
        for offset in range(claim.first, claim.end)
    ]


def give_back(host: QueueHost, claims: Iterable[Claim], *, is_unsent: bool = True) -> None:
    host.ask(GiveBack, claims=tuple(claims), is_unsent=is_unsent)


@pytest.mark.parametrize("times", [1, 3])
def test_what_was_not_sent_comes_for_the_first_time(times: int) -> None:
    host = QueueHost(Policy())
    host.put(*[PLAIN] * 4)
    for _ in range(times):
        give_back(host, take(host, 3).claims)
    assert come_again(take(host, 4)) == [False] * 4


def test_what_was_sent_comes_again() -> None:
    host = QueueHost(Policy())
    host.put(*[PLAIN] * 4)
    give_back(host, take(host, 2).claims, is_unsent=False)
    assert come_again(take(host, 4)) == [True, True, False, False]


def test_a_part_that_was_not_sent_comes_for_the_first_time() -> None:
    host = QueueHost(Policy())
    host.put(*[PLAIN] * 4)
    (claim,) = take(host, 4).claims
    give_back(host, [claim._replace(first=claim.end - 2)])
    give_back(host, [claim._replace(end=claim.end - 2)], is_unsent=False)
    assert come_again(take(host, 4)) == [True, True, False, False]


def test_what_others_have_overtaken_is_said_to_come_again() -> None:
    host = QueueHost(Policy())
    host.put(*[PLAIN] * 3)
    first = take(host)
    host.settle(*take(host).claims)
    give_back(host, first.claims)
    assert come_again(take(host, 2)) == [True, False]


@pytest.mark.parametrize("is_rising", [False, True])
def test_it_does_not_matter_in_which_order_they_come_back(is_rising: bool) -> None:
    host = QueueHost(Policy())
    host.put(*[PLAIN] * 3)
    taken = [take(host), take(host), take(host)]
    for each in taken if is_rising else reversed(taken):
        give_back(host, each.claims)
    assert come_again(take(host, 3)) == [False] * 3


def test_one_that_was_given_out_again_counts() -> None:
    """The first comes back, and is sent; then the second comes back."""
    sent = SentBefore(0)
    sent.give_out([Run(0, 2)])
    sent.take_back([Run(0, 1)])
    sent.give_out([Run(0, 1)])
    sent.take_back([Run(1, 2)])
    assert sent.end == 1


def test_what_was_passed_over_and_sent_later_comes_again() -> None:
    """One behind it was given out first, and came back after it was sent."""
    host = QueueHost(Policy(priorities=10))
    (low,) = host.put(PLAIN)
    (high,) = host.put(Message(priority=5))
    first = take(host)
    assert first.claims[0].first == high
    second = take(host)
    assert second.claims[0].first == low
    give_back(host, first.claims)
    give_back(host, second.claims, is_unsent=False)
    again = take(host, 2)
    assert [each.first for each in again.claims] == [high, low]
    assert come_again(again) == [False, True]


def test_what_was_sent_in_part_may_come_back_again_and_again() -> None:
    sent = SentBefore(0)
    sent.give_out([Run(0, 10)])
    for _ in range(3):
        sent.take_back([Run(7, 10)])
        assert sent.end == 7
        sent.give_out([Run(7, 10)])
        assert sent.end == 10


def test_more_takes_than_are_remembered_count_as_sent() -> None:
    host = QueueHost(Policy())
    taken: list[Taken] = []
    for _ in range(GIVEN_OUT_MAX + 2):
        host.put(PLAIN)
        taken.append(take(host))
    for each in taken:
        give_back(host, each.claims)
    again = come_again(take(host, GIVEN_OUT_MAX + 2))
    assert again == [True] * 2 + [False] * GIVEN_OUT_MAX


def test_a_new_leader_takes_all_for_sent() -> None:
    host = QueueHost(Policy())
    host.put(*[PLAIN] * 2)
    give_back(host, take(host).claims)
    host.new_leader()
    assert come_again(take(host, 2)) == [True, False]


def test_a_claim_that_is_too_late_changes_nothing() -> None:
    host = QueueHost(Policy())
    host.put(*[PLAIN] * 2)
    first = take(host, 2)
    give_back(host, first.claims, is_unsent=False)
    second = take(host, 2)
    give_back(host, first.claims)
    give_back(host, second.claims, is_unsent=False)
    assert come_again(take(host, 2)) == [True, True]


def test_what_is_remembered_is_bounded() -> None:
    sent = SentBefore(0)
    sent.give_out([Run(0, RETURNED_MAX + 2)])
    sent.take_back([Run(0, RETURNED_MAX)])
    assert len(sent._returned) == RETURNED_MAX
    sent.take_back([Run(RETURNED_MAX, RETURNED_MAX + 1)])
    assert not sent._returned
    assert sent.end == RETURNED_MAX + 2


def test_nothing_that_was_sent_or_overtaken_is_ever_new() -> None:
    """Takes under way are sent, in part or not at all; what was sent may come again."""
    for seed in range(1_000):
        dice = random.Random(seed)
        before = SentBefore(0)
        ready = set(range(0, 40, dice.choice((1, 2))))
        attempts: Counter[int] = Counter()
        sent: set[int] = set()
        under_way: list[tuple[list[int], list[int]]] = []
        for _ in range(40):
            if ready and dice.random() < 0.55:
                count = min(dice.randrange(1, 5), len(ready))
                heads = sorted(ready)[:count]
                taken = heads if dice.random() < 0.7 else sorted(dice.sample(sorted(ready), count))
                attempts.update(taken)
                fresh = [
                    each
                    for each in taken
                    if not may_have_been_sent(each, attempts[each], before.end)
                ]
                assert not sent.intersection(fresh), seed
                again = [each for each in fresh if attempts[each] > 1]
                assert not again or again[0] > max(sent, default=-1), seed
                before.give_out(runs_of(taken))
                ready.difference_update(taken)
                under_way.append((taken, fresh))
            elif under_way:
                taken, fresh = under_way.pop(dice.randrange(len(under_way)))
                count = dice.randrange(len(taken) + 1)
                sent.update(taken[:count])
                before.take_back(runs_of(each for each in taken[count:] if each in fresh))
                ready.update(taken[count if dice.random() < 0.6 else 0 :])
