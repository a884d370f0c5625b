"""A broker dies between any two events of put, acquire, fail, dead-letter, redrive and settle.

Each message lives one life: it is put, taken, failed, taken again, given up, moved to the queue for
dead letters, redriven, taken once more and settled. At one of these steps, so many events of the
simulator after it began, the leader of one of the two queues dies and is started again. Whoever
asked asks again as real clients do; every message has to come to the end of its life, once.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST, QueueName
from kafkaesque.broker.queues import putting
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.commands import Done
from kafkaesque.model.batch import read_batch_header
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.records import decode_batch
from kafkaesque.queues import context as context_module
from kafkaesque.queues.arrival import identity_of
from kafkaesque.queues.decisions import Release
from kafkaesque.queues.state import State
from tests.sim.queue_scenario import PLENTY, QueueScenario

WORK, DEAD = "work", "dead"
#: After so many events a broker dies; without faults a step is over after less than 100.
DEATHS = range(1, 110, 9)
#: Enough for a planted bug.
SOME = DEATHS[3:6]
LOCK_MS = 1_500
TIMEOUT_MS = 20_000


class Lost(Exception):
    """A message does not come: its life has no end."""


class Lives(QueueScenario):
    """See the module; `wrong` is what should not have been."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.create(DEAD)
        self.create(
            WORK,
            {
                "dead.letter.queue": DEAD,
                "visibility.timeout.ms": str(LOCK_MS),
                "deduplication.ms": "600000",
            },
        )
        self.wrong: list[str] = []
        self.settled: list[bytes] = []
        #: By queue, offset and attempt: when it was asked for, and whether it was given back.
        self.deliveries: dict[tuple[str, int, int], tuple[int, bool]] = {}
        self._kill: tuple[str, int] | None = None

    # -- one step

    def until(self, begin: Callable[[Callable[[Any], None]], None]) -> Any:
        """Begin something, perhaps let a broker die, and return the outcome."""
        outcomes: list[Any] = []
        begin(outcomes.append)
        kill, self._kill = self._kill, None
        if kill is None:
            self.loop.run_until(lambda: outcomes != [], 3 * TIMEOUT_MS)
            return outcomes[0]
        victim, after = kill
        events = 0

        def is_over() -> bool:
            nonlocal events
            events += 1
            if events == after:
                self.kill(victim)
            return outcomes != [] and events > after

        self.loop.run_until(is_over, 3 * TIMEOUT_MS)
        self.boot(victim)
        self.loop.run_until(self.is_whole, 60_000)
        return outcomes[0]

    def is_whole(self) -> bool:
        names = [QueueName(DEFAULT_VHOST, each) for each in (WORK, DEAD)]
        brokers = self.cluster.brokers
        return len(brokers) == len(self.cluster.names) and all(
            name in broker.state.queues
            and broker.queue_hosts.find(broker.state.queues[name].topic_id, 0) is not None
            for broker in brokers.values()
            for name in names
        )

    def asker(self) -> Any:
        """Return the door of a broker that does not die now."""
        victim = None if self._kill is None else self._kill[0]
        return self.broker(next(n for n in self.running() if n != victim)).doors.queues

    def ask(self, request: q.AnyQueueRequest, kind: type, *_: Any) -> Any:
        """Ask until there is an answer; what may be done twice is asked again."""
        while True:
            outcome = self.until(partial(self.asker().ask, request, kind, TIMEOUT_MS))
            if not isinstance(outcome, RequestRefused):
                return outcome

    # -- a life

    def live(self, value: bytes, dies_at: str = "", role: str = WORK, after: int = 0) -> None:
        """Let a message live its life; at one step the leader of a queue dies."""
        failed = 0
        for step in STEPS:
            if step == dies_at:
                self._kill = self.queue_leader(role), after
            match step:
                case "put":
                    self.put_once(value)
                case "acquire" | "acquire again" | "acquire at last":
                    message = self.acquire(value, failed if step != "acquire at last" else 0)
                case "fail":
                    self.give_back(message)
                    failed = 1
                case "dead-letter":
                    claims = [message.claim]
                    self.ask(q.RejectMessages(log_id=self.log(WORK), claims=claims), q.ClaimsResult)
                    self.wait_for(DEAD, value)
                case "redrive":
                    self.ask(q.RedriveQueue(log_id=self.log(DEAD), target=WORK), Done)
                    self.wait_for(WORK, value)
                case "settle":
                    claims = [message.claim]
                    self.ask(q.SettleMessages(log_id=self.log(WORK), claims=claims), q.ClaimsResult)
                    self.settled.append(value)

    def now_ms(self) -> int:
        return self.loop.now_ns // 1_000_000

    def log(self, name: str) -> bytes:
        return self.queue(name).topic_id

    def put_once(self, value: bytes) -> None:
        message = NewMessage(value, identity=identity_of(value))
        while True:
            put = partial(self.asker().put, self.queue(WORK).topic_id, [message], TIMEOUT_MS)
            outcome = self.until(put)
            if isinstance(outcome, q.PutResult):
                return

    def acquire(self, value: bytes, failed: int) -> q.QueueMessage:
        """Take the message; an answer that is lost has locked it for a while."""
        request = q.TakeMessages(log_id=self.log(WORK), bytes_max=PLENTY, wait_ms=2 * LOCK_MS)
        for _ in range(20):
            begun_ms = self.now_ms()
            taken: q.TakenMessages = self.ask(request, q.TakenMessages)
            for message in taken.messages:
                self.note(message, begun_ms)
                if message.value == value:
                    if message.failures < failed:
                        self.wrong.append(f"{value!r}: an attempt was forgotten")
                    return message
        self.wrong.append(f"{value!r} is lost")
        raise Lost

    def note(self, message: q.QueueMessage, begun_ms: int) -> None:
        """Compare a delivery with those before it."""
        if message.value in self.settled:
            self.wrong.append(f"{message.value!r} was settled, and comes again")
        key = (WORK, message.offset, message.attempt)
        if key in self.deliveries:
            self.wrong.append(f"attempt {key} came twice")
        before = [each for each in self.deliveries if each[:2] == key[:2]]
        for each in before:
            was_ms, is_back = self.deliveries[each]
            if each[2] >= message.attempt:
                self.wrong.append(f"attempt {key} comes after {each}")
            if not is_back and self.now_ms() < was_ms + LOCK_MS:
                self.wrong.append(f"the lock of {each} has ended early")
        self.deliveries[key] = begun_ms, False

    def give_back(self, message: q.QueueMessage) -> None:
        request = q.ReleaseMessages(log_id=self.log(WORK), claims=[message.claim], is_failed=True)
        key = (WORK, message.offset, message.attempt)
        # At once: it may be done long before the answer comes.
        self.deliveries[key] = self.deliveries[key][0], True
        self.ask(request, q.ClaimsResult)

    def wait_for(self, name: str, value: bytes) -> None:
        """Wait until a message has come into a queue, and look that it is there once."""
        for _ in range(60):
            found = self.there(name).count(value)
            if found > 1:
                self.wrong.append(f"{value!r} is {found} times in {name}")
            if found:
                return
            self.loop.run_for(500)
        self.wrong.append(f"{value!r} does not come into {name}")
        raise Lost

    def there(self, name: str) -> list[bytes | None]:
        request = q.PeekMessages(log_id=self.log(name), messages_max=1_000, bytes_max=PLENTY)
        found = self.ask(request, q.PeekedMessages).messages
        return [each.message.value for each in found if each.place != "moving"]

    def check(self, count: int) -> list[str]:
        """Return what was wrong, at the end of all lives."""
        self.loop.run_for(2 * LOCK_MS)
        for name in (WORK, DEAD):
            left = self.there(name)
            if left:
                self.wrong.append(f"{left} are left in {name}")
        work, dead = self.counts(WORK), self.counts(DEAD)
        removed = {**{f"work {k}": v for k, v in work.removed.items()}}
        if removed["work settled"] != count or dead.removed["redriven"] != count:
            self.wrong.append(f"of {count}: {work.removed}, {dead.removed}")
        if (work.arrived, dead.arrived) != (2 * count, count):
            self.wrong.append(f"of {count}, {work.arrived} and {dead.arrived} have come")
        return self.wrong

    def counts(self, name: str = WORK) -> q.QueueCounts:
        found: q.QueueCounts = self.ask(q.AskQueue(log_id=self.log(name)), q.QueueCounts)
        return found


STEPS = (
    "put",
    "acquire",
    "fail",
    "acquire again",
    "dead-letter",
    "redrive",
    "acquire at last",
    "settle",
)
#: The step, and of which queue the leader dies.
PLACES = [
    *((step, WORK) for step in ("put", "acquire", "fail", "settle")),
    *((step, role) for step in ("dead-letter", "redrive") for role in (WORK, DEAD)),
]


def lives(seed: int, step: str, role: str, deaths: Sequence[int] = DEATHS) -> list[str]:
    scenario = Lives(seed)
    try:
        for after in deaths:
            scenario.live(b"%s-%d" % (step.encode(), after), step, role, after)
    except Lost:
        return scenario.wrong
    return scenario.check(len(deaths))


@pytest.mark.parametrize(("step", "role"), PLACES)
def test_a_life_comes_to_its_end_once_whoever_dies(step: str, role: str) -> None:
    assert lives(1, step, role) == []


def test_a_target_that_takes_what_it_has_already_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def append(moving: Any, batch: bytearray) -> None:
        partition, header = moving._host.partition(), read_batch_header(batch)
        expected = partition.producers.next_sequence(header.producer_id, header.producer_epoch)
        if header.base_sequence < expected:
            # As if nobody had sent it before.
            batch = encode_batch(decode_batch(batch, 1 << 20))
        partition.produce(batch, acks=0, timeout_ms=0, on_done=putting._ignore)

    monkeypatch.setattr(putting.Moving, "_append", append)
    assert lives(1, "dead-letter", DEAD, SOME) != []


def test_a_queue_that_forgets_a_failed_attempt_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def excused(is_failed: bool, to_tail: bool, due_ms: int, runs: Any) -> Release:
        return Release(False, to_tail, due_ms, runs)

    monkeypatch.setattr(context_module, "Release", excused)
    assert lives(1, "fail", WORK, SOME) != []


def test_a_lock_that_ends_with_its_leader_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from kafkaesque.queues.table import QueueTable

    lead = QueueTable._on_leading

    def on_leading(table: QueueTable) -> None:
        lead(table)
        table._log(Release(False, False, 0, _runs_in_flight(table.state)))

    def _runs_in_flight(state: State) -> Any:
        return tuple(run for owned in state.owned.values() for run in owned.runs())

    monkeypatch.setattr(QueueTable, "_on_leading", on_leading)
    assert lives(1, "settle", WORK, DEATHS[:4]) != []
