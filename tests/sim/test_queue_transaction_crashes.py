"""A broker dies between any two events of a transaction: all of it holds, or none."""

from typing import Any

import pytest

from kafkaesque.broker.coordinators import transaction_runner
from kafkaesque.broker.coordinators.transaction_runner import TransactionRunner
from kafkaesque.broker.metadata.topic_names import TRANSACTIONS_TOPIC
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.transaction_requests import TransactionOutcome
from kafkaesque.model.errors import LeaderNotAvailable, RequestTimedOut
from kafkaesque.model.ids import NodeId
from kafkaesque.queues import table as table_module
from kafkaesque.queues.arrival import Arrival
from kafkaesque.queues.replay import arrive
from kafkaesque.queues.state import State, Undo
from tests.sim.queue_scenario import PLENTY, QUEUE
from tests.sim.transaction_scenario import DONE, TOPIC, TransactionScenario, claims_of

ROLES = ("coordinator", "orders", "done", "topic")
#: After so many events a broker dies. Without faults a transaction is over after about 150.
DEATHS = range(2, 420, 19)
LOCK_MS = 2_000


class Rounds(TransactionScenario):
    """One message after another is settled with what comes of it, and each time a broker dies."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.create("over", {"source.topic": TOPIC, "source.start": "earliest"})
        self.said: dict[bytes, object] = {}
        self.commit(self.part(TOPIC, [b"first"]))
        self.settle()

    def victim_of(self, role: str) -> str:
        if role in ("orders", "done"):
            return self.queue_leader(QUEUE if role == "orders" else DONE)
        name = TRANSACTIONS_TOPIC if role == "coordinator" else TOPIC
        found: list[str] = []

        def is_led() -> bool:
            group = self.any().state.topic(name).partitions[0].group
            found[:] = [
                each
                for each in self.running()
                if (partition := self.broker(each).partitions.get(group)) and partition.is_leader
            ]
            return len(found) == 1

        self.loop.run_until(is_led, 30_000)
        return found[0]

    def round(self, role: str, after: int) -> None:
        """Begin a transaction, and let a broker die after so many events."""
        value = b"%s-%d" % (role.encode(), after)
        # Over the way between brokers, one of which has just started, answers may be lost.
        self.put(value, broker=self.queue_leader())
        taken = self.take_one()
        # One that came back from an earlier round is as good.
        value = taken.value or b""
        self.said.pop(value, None)
        victim = self.victim_of(role)
        others = [each for each in self.running() if each != victim]
        self.outcomes.clear()
        self.begin(
            self.part(QUEUE, claims=claims_of([taken])),
            self.part(DONE, [value]),
            self.part(TOPIC, [value]),
            broker=others[after % len(others)],
        )
        events = 0

        def is_over() -> bool:
            nonlocal events
            events += 1
            if events == after:
                self.kill(victim)
            return self.outcomes != [] and events > after

        self.loop.run_until(is_over, 60_000)
        self.said[value] = self.outcomes[0]
        self.boot(victim)
        self.loop.run_until(self.is_whole, 60_000)
        self.settle()

    def take_one(self) -> q.QueueMessage:
        """Take a message; one of which the answer is lost comes back."""
        while True:
            request = q.TakeMessages(
                log_id=self.queue().topic_id,
                bytes_max=PLENTY,
                wait_ms=2 * LOCK_MS,
                lock_ms=LOCK_MS,
            )
            taken = self.try_to(request, q.TakenMessages, self.queue_leader())
            if isinstance(taken, q.TakenMessages) and taken.messages:
                return taken.messages[0]

    def is_whole(self) -> bool:
        """Whether all brokers are there, and know the queues."""
        return all(
            name in self.cluster.brokers and self.find(name) is not None and self.host(name)
            for name in self.cluster.names
        )

    def check(self) -> list[str]:
        """Return what is wrong: each message is in one place, as its transaction's outcome says."""
        self.loop.run_for(2 * LOCK_MS)
        places = {name: self.all_of(name) for name in (QUEUE, DONE, "over")}
        wrong = [
            f"{value!r} is {found.count(value)} times in {name}"
            for name, found in places.items()
            for value in set(found)
            if found.count(value) > 1
        ]
        for value, outcome in self.said.items():
            is_left, is_done, is_said = (value in found for found in places.values())
            if is_left == is_done or is_done != is_said:
                wrong.append(f"{value!r}: left {is_left}, done {is_done}, in the topic {is_said}")
            is_committed = isinstance(outcome, TransactionOutcome) and outcome.is_committed
            if is_committed and not is_done:
                wrong.append(f"{value!r} was committed and is not done")
            if is_done and not is_committed and not isinstance(outcome, RequestTimedOut):
                wrong.append(f"{value!r} was refused and is done: {outcome}")
        return wrong


@pytest.fixture(autouse=True)
def one_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all transactions have the same coordinator, which is not where they are asked for."""

    def first(runner: TransactionRunner) -> tuple[NodeId, int]:
        runner.coordinators.find("")
        state = runner.metadata.state.topics[TRANSACTIONS_TOPIC].partitions[0]
        leader = runner.leaders.leader(state.group)
        if leader is None:
            raise LeaderNotAvailable("the coordinator has no leader")
        return leader, 0

    monkeypatch.setattr(TransactionRunner, "_coordinator", first)


@pytest.mark.parametrize(
    "role", [ROLES[0], *(pytest.param(role, marks=pytest.mark.extended) for role in ROLES[1:])]
)
def test_all_or_none_whoever_dies_between_any_two_events(role: str) -> None:
    rounds = Rounds(1)
    for after in DEATHS:
        rounds.round(role, after)
    assert rounds.check() == []
    committed = [
        each
        for each in rounds.said.values()
        if isinstance(each, TransactionOutcome) and each.is_committed
    ]
    assert len(committed) >= 3, "not all fail"


def test_a_coordinator_that_commits_what_did_not_join_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = transaction_runner._Run._decide

    def decide(run: Any) -> None:
        run._refusal = None
        real(run)

    monkeypatch.setattr(transaction_runner._Run, "_decide", decide)
    assert _found_by_rounds() != []


def test_a_queue_that_gives_out_what_is_open_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def arrived(state: State, _: int, arrival: Arrival) -> Undo:
        return arrive(state, arrival)

    monkeypatch.setattr(table_module, "pend", arrived)
    assert _found_by_rounds() != []


def test_a_queue_that_forgets_what_a_transaction_settles_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table_module, "stage", lambda *_: [])
    assert _found_by_rounds() != []


def _found_by_rounds() -> list[str]:
    rounds = Rounds(2)
    for role in ("done", "topic"):
        for after in DEATHS[::2]:
            rounds.round(role, after)
    return rounds.check()
