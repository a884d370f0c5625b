"""A simulated cluster with two queues and a topic, which transactions change together."""

from collections.abc import Sequence

from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.transaction_requests import TransactionOutcome, TransactionPart
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.kernel_types import Headers
from kafkaesque.model.message_headers import IDENTITY
from kafkaesque.model.records import Record
from kafkaesque.queues.requests import Claim
from kafkaesque.sim.options import SimOptions
from tests.sim.queue_scenario import QUEUE, QueueScenario

DONE = "done"
TOPIC = "results"
TIMEOUT_MS = 8_000


class TransactionScenario(QueueScenario):
    """Messages are taken from `orders`, and go on to `done` and to a topic."""

    def __init__(
        self,
        seed: int,
        options: dict[str, str] | None = None,
        *,
        done: dict[str, str] | None = None,
        sim_options: SimOptions | None = None,
    ) -> None:
        super().__init__(seed, options, sim_options=sim_options)
        self.create(DONE, done)
        self.make_topic(TOPIC)
        self.outcomes: list[TransactionOutcome | RequestRefused] = []

    def part(
        self,
        name: str,
        values: Sequence[bytes] = (),
        claims: Sequence[Claim] = (),
        ids: Sequence[bytes] = (),
    ) -> TransactionPart:
        """Return what a transaction does with a queue or the topic."""
        headers: list[Headers] = [((IDENTITY, each),) for each in ids] or [()] * len(values)
        records = [
            Record(number, 0, None, value, header)
            for number, (value, header) in enumerate(zip(values, headers, strict=True))
        ]
        state = self.any().state
        log_id = state.topic(TOPIC).topic_id if name == TOPIC else self.queue(name).topic_id
        batch = bytes(encode_batch(records)) if records else b""
        return TransactionPart(log_id=log_id, records=batch, claims=list(claims))

    def begin(self, *parts: TransactionPart, broker: str = "") -> None:
        """Ask a broker for a transaction; the outcome comes into `outcomes`."""
        door = self.broker(broker or self.running()[0]).doors.transactions
        door.run(list(parts), TIMEOUT_MS, self.outcomes.append)

    def run(self, *parts: TransactionPart, broker: str = "") -> TransactionOutcome | RequestRefused:
        """Run a transaction, and return what became of it."""
        self.outcomes.clear()
        self.begin(*parts, broker=broker)
        self.loop.run_until(lambda: self.outcomes != [], 3 * TIMEOUT_MS)
        return self.outcomes[0]

    def commit(self, *parts: TransactionPart, broker: str = "") -> TransactionOutcome:
        """Run a transaction that has to be committed."""
        outcome = self.run(*parts, broker=broker)
        assert isinstance(outcome, TransactionOutcome), outcome
        assert outcome.is_committed, outcome
        return outcome

    def settle(self) -> None:
        """Wait until no transaction is open in any queue."""

        def is_settled() -> bool:
            return not any(
                host.queue.state.pending or host.queue.state.staged
                for name in (QUEUE, DONE)
                for each in self.running()
                if (host := self.host(each, name)) is not None
            )

        self.loop.run_until(is_settled, 60_000)

    def all_of(self, name: str) -> list[bytes]:
        """Take and settle all messages of a queue."""
        found: list[bytes] = []
        while taken := self.take(100, name=name, wait_ms=500):
            found += [each.value or b"" for each in taken]
            self.done(*taken, name=name)
        return found


def claims_of(messages: Sequence[q.QueueMessage]) -> list[Claim]:
    return [each.claim for each in messages]
