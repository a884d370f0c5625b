"""SQS while leaders die: what was confirmed comes, and what was deleted never comes again."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.sim.seeds import first_of
from tests.sim.sqs_scenario import SqsClient, SqsScenario

STEPS = 150
#: Longer than all steps together: a lock that ends in between has ended early.
VISIBILITY = "3600"


class History:
    """What a client was told, and what must not happen after it."""

    def __init__(self, seed: int, *, fifo: bool) -> None:
        self.chance = random.Random(seed)
        self.sqs = SqsScenario(seed)
        self.name = "jobs.fifo" if fifo else "jobs"
        self.fifo = fifo
        self.url = self.sqs.make(self.name, VisibilityTimeout=VISIBILITY)
        self.count = 0
        self.confirmed: set[str] = set()
        self.held: dict[str, dict[str, Any]] = {}
        self.deleted: set[str] = set()
        #: Given out, perhaps, to a request that was answered with an error.
        self.doubtful = False
        self.order: dict[str, list[int]] = {}

    def client(self) -> SqsClient:
        return self.sqs.client(self.chance.choice(self.sqs.running()))

    def ask(self, operation: str, **asked: Any) -> Any:
        """Return a result; None where nobody knows."""
        client = self.client()
        answer = client.ask(operation, QueueUrl=self.url, **asked)
        client.leave()
        assert answer.status in (200, 503), answer.body
        return answer.json if answer.status == 200 else None

    def send(self) -> None:
        entries = []
        for _ in range(self.chance.randint(1, 10)):
            body = f"m{self.count}"
            entry = {"Id": body, "MessageBody": body}
            if self.fifo:
                entry |= {"MessageGroupId": f"g{self.count % 3}", "MessageDeduplicationId": body}
            entries.append(entry)
            self.count += 1
        result = self.ask("SendMessageBatch", Entries=entries)
        if result is None and self.fifo:
            # As its SDK does: once more, and duplicates are one message.
            result = self.ask("SendMessageBatch", Entries=entries)
        if result is not None:
            self.confirmed |= {each["Id"] for each in result["Successful"]}

    def receive(self) -> None:
        result = self.ask("ReceiveMessage", MaxNumberOfMessages=10)
        if result is None:
            self.doubtful = True
            return
        for message in result.get("Messages", []):
            body = message["Body"]
            assert body not in self.deleted, f"{body} was deleted, and came again"
            assert body not in self.held, f"{body} was locked, and was given to somebody else"
            self.held[body] = message
            if self.fifo:
                number = int(body[1:])
                before = self.order.setdefault(f"g{number % 3}", [])
                assert not before or before[-1] < number, f"{body} came after {before[-1]}"
                before.append(number)

    def delete(self) -> None:
        for body in list(self.held):
            if self.chance.random() < 0.7:
                receipt = self.held.pop(body)["ReceiptHandle"]
                if self.ask("DeleteMessage", ReceiptHandle=receipt) is not None:
                    self.deleted.add(body)

    def kill(self) -> None:
        """One dies, mostly the leader of the queue's log; the one that was dead is back."""
        sqs = self.sqs
        for name in sqs.cluster.names:
            if name not in sqs.running():
                sqs.boot(name)
        sqs.loop.run_for(4_000)
        leader = sqs.queue_leader(self.name)
        sqs.kill(leader if self.chance.random() < 0.8 else self.chance.choice(sqs.running()))

    def wait(self) -> None:
        self.sqs.loop.run_for(self.chance.randint(1, 2_000))

    def drain(self) -> None:
        """Receive and delete until nothing comes any more."""
        self.sqs.loop.run_for(10_000)
        for _ in range(self.count + 10):
            self.receive()
            for body in list(self.held):
                receipt = self.held.pop(body)["ReceiptHandle"]
                if self.ask("DeleteMessage", ReceiptHandle=receipt) is not None:
                    self.deleted.add(body)
            counts = self.sqs.counts(self.name)
            if not counts.ready and not counts.in_flight:
                return
            if not counts.ready and self.doubtful:
                # Those that nobody knows of come when their locks end.
                self.sqs.loop.run_for(int(VISIBILITY) * 1_000)


@pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])
@pytest.mark.parametrize("seed", first_of(range(101, 104), 1))
def test_leaders_die_and_nothing_is_lost_or_comes_again(seed: int, fifo: bool) -> None:
    history = History(seed, fifo=fifo)
    acts: list[Callable[[], None]] = [history.send, history.receive, history.delete, history.wait]
    for _ in range(STEPS):
        act = history.kill if history.chance.random() < 0.1 else history.chance.choice(acts)
        act()
    history.drain()
    assert history.confirmed - history.deleted == set()
    assert len(history.deleted) >= len(history.confirmed) > 0
