"""Messages that were given out and not sent: for the first time, or said to come again."""

from collections.abc import Iterable

import pytest

from kafkaesque.queues.policy import Policy
from kafkaesque.queues.requests import Claim, GiveBack, Take, Taken
from kafkaesque.queues.runs import Run
from kafkaesque.queues.sent_before import (
    GIVEN_OUT_MAX,
    RETURNED_MAX,
    SentBefore,
    may_have_been_sent,
)
from tests.unit.queues.queue_host import PLAIN, QueueHost


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
