"""A coordinator that was deposed and does not know it yet says nothing of the past.

Whoever was given old offsets would consume anew what was consumed, also in transactions: its own
offsets go to the new coordinator, which has no reason to refuse them. And who is told that its
transaction is decided, because the one before was, goes on, while that one is decided otherwise.
"""

from collections.abc import Callable
from typing import Any

import pytest

from kafkaesque.broker.coordinators.groups import GroupCoordinators
from kafkaesque.broker.coordinators.transactions import TransactionCoordinators
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.events import CommitOffsets, FetchOffsets, OffsetToCommit
from kafkaesque.groups.results import CommitResult, FetchResult
from kafkaesque.model.ids import TopicPartition
from kafkaesque.transactions.errors import TransactionError
from kafkaesque.transactions.events import (
    NO_CONNECTION,
    AddOffsets,
    EndTransaction,
    InitProducerId,
)
from kafkaesque.transactions.results import InitResult
from tests.sim.scenario import TOPIC, Scenario

GROUP = "readers"
TXN = "payments"
PLACE = TopicPartition(TOPIC, 0)


def hosts(scenario: Scenario, name: str, key: str) -> GroupCoordinators | TransactionCoordinators:
    """Return a broker's coordinators, of groups or of transactions."""
    broker = scenario.broker(name)
    return broker.group_coordinators if key == GROUP else broker.transaction_coordinators


def coordinator(scenario: Scenario, name: str, key: str) -> Partition | None:
    """Return the partition that keeps a group or transactional id, if this broker leads it."""
    broker = scenario.broker(name)
    topic = "__consumer_offsets" if key == GROUP else "__transaction_state"
    if topic not in broker.state.topics:
        return None
    where = hosts(scenario, name, key).find(key)
    partition = broker.partitions.get(broker.state.partition(where).group)
    return partition if partition is not None and partition.is_leader else None


def coordinators(scenario: Scenario, key: str = GROUP) -> list[str]:
    return [name for name in scenario.running() if coordinator(scenario, name, key) is not None]


def ask(scenario: Scenario, name: str, event: Any, key: str = GROUP) -> list[Any]:
    """Bring a request to a broker's coordinator; the answer comes into the list."""
    answers: list[Any] = []
    hosts(scenario, name, key).step(key, event, answers.append)
    return answers


def answer_in(scenario: Scenario, answers: list[Any]) -> Any:
    """Wait for the answer that is to come into a list."""
    scenario.loop.run_until(lambda: answers != [], 30_000)
    (answer,) = answers
    return answer


def deposed(scenario: Scenario, old: str, key: str) -> str:
    """Cut a coordinator off until there is another one, and return that."""
    for other in scenario.running():
        if other != old:
            scenario.world.wire.block(old, other)
            scenario.world.wire.block(other, old)
    scenario.loop.run_until(lambda: len(coordinators(scenario, key)) == 2, 30_000)
    (new,) = set(coordinators(scenario, key)) - {old}
    assert old in coordinators(scenario, key), "it does not know that it was deposed"
    return new


def commit(scenario: Scenario, name: str, offset: int) -> list[Any]:
    event = CommitOffsets(
        token=scenario.broker(name).group_coordinators.next_token(),
        group_id=GROUP,
        generation=-1,
        member_id="",
        instance_id=None,
        offsets=(OffsetToCommit(PLACE, offset, -1, ""),),
    )
    return ask(scenario, name, event)


def fetch(scenario: Scenario, name: str) -> list[Any]:
    token = scenario.broker(name).group_coordinators.next_token()
    return ask(scenario, name, FetchOffsets(token=token, group_id=GROUP, partitions=(PLACE,)))


def committed(scenario: Scenario, name: str, offset: int) -> None:
    """Commit an offset, and wait for it."""
    for _ in range(100):
        answers = commit(scenario, name, offset)
        if isinstance(answer_in(scenario, answers), CommitResult):
            return
        scenario.loop.run_for(100)
    raise AssertionError(answers)


def test_offsets_of_the_past_are_not_given_out_by_whoever_was_cut_off() -> None:
    scenario = Scenario(2)  # of the others one leads before the old one steps down
    scenario.write(10)
    commit(scenario, scenario.running()[0], 1)  # makes the topic
    scenario.loop.run_until(lambda: len(coordinators(scenario, GROUP)) == 1, 30_000)
    (old,) = coordinators(scenario, GROUP)
    committed(scenario, old, 5)
    before = answer_in(scenario, fetch(scenario, old))
    assert isinstance(before, FetchResult)
    assert [found.committed and found.committed.offset for found in before.offsets] == [5]

    new = deposed(scenario, old, GROUP)
    committed(scenario, new, 9)
    assert old in coordinators(scenario, GROUP)
    assert answer_in(scenario, fetch(scenario, old)) is GroupError.NOT_COORDINATOR


class Producer:
    """Asks transaction coordinators directly, as a client does that learns no epochs."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.begun = InitResult(error=TransactionError.NONE)

    def ask(self, name: str, make_event: Callable[..., Any], **fields: Any) -> Any:
        """Bring a request to a broker, and return the answer."""
        token = self.scenario.broker(name).transaction_coordinators.next_token()
        event = make_event(token=token, connection=NO_CONNECTION, **fields)
        return answer_in(self.scenario, ask(self.scenario, name, event, TXN))

    def until_done(self, name: str, make_event: Callable[..., Any], **fields: Any) -> Any:
        """Ask again until it is done."""
        for _ in range(200):
            answer = self.ask(name, make_event, **fields)
            if getattr(answer, "error", answer) is TransactionError.NONE:
                return answer
            self.scenario.loop.run_for(20)
        raise AssertionError(answer)

    def begin(self, name: str) -> None:
        """Get a producer id."""
        fields = {"transactional_id": TXN, "timeout_ms": 60_000}
        self.begun = self.until_done(name, InitProducerId, **fields)

    def add(self, name: str) -> None:
        """Have a transaction opened."""
        self.until_done(name, AddOffsets, **self.fields(), partition=PLACE)

    def fields(self) -> dict[str, Any]:
        begun = self.begun
        return {
            "transactional_id": TXN,
            "producer_id": begun.producer_id,
            "producer_epoch": begun.producer_epoch,
        }

    def end(self, name: str, *, is_commit: bool) -> Any:
        """Ask once for the end."""
        fields = self.fields()
        return self.ask(name, EndTransaction, **fields, is_commit=is_commit, learns_epoch=False)


@pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
def test_a_transaction_is_not_decided_by_what_the_one_before_was(is_commit: bool) -> None:
    scenario = Scenario(1)
    scenario.write(1)
    producer = Producer(scenario)
    producer.end(scenario.running()[0], is_commit=True)  # makes the topic
    scenario.loop.run_until(lambda: len(coordinators(scenario, TXN)) == 1, 30_000)
    (old,) = coordinators(scenario, TXN)
    producer.begin(old)
    producer.add(old)
    assert producer.end(old, is_commit=is_commit).error is TransactionError.NONE
    scenario.loop.run_for(1_000)
    assert producer.end(old, is_commit=is_commit).error is TransactionError.NONE, "a repetition"

    new = deposed(scenario, old, TXN)
    producer.add(new)
    assert old in coordinators(scenario, TXN)
    assert producer.end(old, is_commit=is_commit) is TransactionError.NOT_COORDINATOR
    assert producer.end(new, is_commit=not is_commit).error is TransactionError.NONE


def test_nobody_is_shut_out_by_whoever_was_cut_off() -> None:
    scenario = Scenario(1)
    scenario.write(1)
    producer = Producer(scenario)
    producer.end(scenario.running()[0], is_commit=True)
    scenario.loop.run_until(lambda: len(coordinators(scenario, TXN)) == 1, 30_000)
    (old,) = coordinators(scenario, TXN)
    producer.begin(old)
    before = producer.fields()

    producer.begin(deposed(scenario, old, TXN))
    assert producer.fields() != before
    assert old in coordinators(scenario, TXN)
    answer = producer.ask(old, AddOffsets, **producer.fields(), partition=PLACE)
    assert answer is TransactionError.NOT_COORDINATOR
