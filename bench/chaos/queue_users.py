"""Who uses queues by their own clients in `scripts/chaos --queues`: publishers and workers.

Each is a thread with a door of its own. In the end a consumer empties each queue, and brokers say
how many messages came and went: then the simulator's checker judges all of it.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from botocore.exceptions import BotoCoreError, ClientError

from bench.chaos.history import History
from bench.chaos.queue_doors import (
    ClientDoor,
    Door,
    MessageNumbers,
    SqsDoor,
    Tell,
    sqs_clients,
    true_ms,
)
from bench.chaos.queue_specs import USER_QUEUES, UserQueue, makers
from kafkaesque import Client
from kafkaesque.client.errors import KafkaesqueError
from kafkaesque.sim.queues.checks import QueueChecks
from kafkaesque.sim.queues.history import Delivery, Outcome, QueueHistory, QueueSpec, Sent, What

GROUPS: Final = 4
TAKE_MAX: Final = 6
PUT_PAUSE_S: Final = 0.1
PAUSE_S: Final = 0.1
TIMEOUT_S: Final = 20.0
#: One message in so many fails as often as it is tried.
POISON_ONE_IN: Final = 20
POISON: Final = b"/poison"
#: A worker works longer than locks last, or dies with what it has, in one of so many rounds.
SLEEPS_ONE_IN: Final = 12
SLEEP_MS_MAX: Final = 4_500
DIES_ONE_IN: Final = 25
#: What becomes of a message; None: its lock runs out.
_FATES: Final = (*[What.SETTLE] * 13, *[What.FAIL] * 3, What.EXTEND, None)
#: What only our client can say.
_FATES_OF_CLIENT: Final = (*_FATES, What.RELEASE, What.REJECT)
#: Whole seconds, which is all that SQS knows; -1: as the queue has it.
_LOCKS_MS: Final = (-1, -1, -1, 1_000, 2_000, 5_000)
_WAITS_MS: Final = (0, 0, 1_000)
_DRAIN_LOCK_MS: Final = 60_000
_DRAIN_MAX: Final = 10
_EMPTY: Final = ("ready", "delayed", "in_flight", "parked", "moving")

OpenDoor = Callable[[], Door]


class Publisher(threading.Thread):
    """Puts numbered messages; never twice, unless they have identities."""

    def __init__(
        self, name: str, spec: QueueSpec, open_door: OpenDoor, history: QueueHistory, seed: int
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.stopping: Final = threading.Event()
        self.error: BaseException | None = None
        self._spec: Final = spec
        self._open: Final = open_door
        self._history: Final = history
        self._dice: Final = random.Random(f"{seed}/{name}")

    def run(self) -> None:
        try:
            door = self._open()
            number = 0
            while not self.stopping.is_set():
                self._put(door, number)
                number += 1
                self.stopping.wait(self._dice.uniform(0, 2 * PUT_PAUSE_S))
            door.close()
        except Exception as error:
            self.error = error

    def _put(self, door: Door, number: int) -> None:
        dice, spec = self._dice, self._spec
        value = f"{spec.name}/{self.name}/{number}".encode()
        if dice.randrange(POISON_ONE_IN) == 0:
            value += POISON
        sent = Sent(queue=spec.name, value=value, sent_ms=true_ms())
        if spec.is_ordered:
            sent.group = b"group-%d" % dice.randrange(GROUPS)
        if spec.is_unique:
            sent.identity = f"{self.name}-{number}".encode()
        self._history.note_sent(sent)
        door.put(sent)
        while spec.is_unique and sent.outcome is not Outcome.DONE:
            time.sleep(PAUSE_S)
            door.put(sent)


class Worker(threading.Thread):
    """Takes messages, and settles them, gives them back, sleeps over them, or dies with them."""

    def __init__(self, name: str, queue: UserQueue, open_door: OpenDoor, seed: int) -> None:
        super().__init__(name=name, daemon=True)
        self.stopping: Final = threading.Event()
        self.error: BaseException | None = None
        self._spec: Final = queue.spec
        self._fates: Final = _FATES if queue.is_sqs else _FATES_OF_CLIENT
        self._open: Final = open_door
        self._dice: Final = random.Random(f"{seed}/{name}")

    def run(self) -> None:
        try:
            door = self._open()
            while not self.stopping.is_set():
                if not self._work(door):
                    door.close()
                    door = self._open()
            door.close()
        except Exception as error:
            self.error = error

    def _work(self, door: Door) -> bool:
        """Do one round; return whether this one lives."""
        dice = self._dice
        found = door.take(
            self._spec, dice.randint(1, TAKE_MAX), dice.choice(_LOCKS_MS), dice.choice(_WAITS_MS)
        )
        if not found:
            self.stopping.wait(PAUSE_S)
            return True
        if dice.randrange(DIES_ONE_IN) == 0:
            return False
        for each in found:
            sleep_ms = SLEEP_MS_MAX if dice.randrange(SLEEPS_ONE_IN) == 0 else 60
            self.stopping.wait(dice.uniform(0, sleep_ms) / 1_000)
            self._decide(door, each)
        return True

    def _decide(self, door: Door, delivery: Delivery) -> None:
        fate = self._dice.choice(self._fates)
        if delivery.value.endswith(POISON):
            fate = What.FAIL
        if fate is What.EXTEND:
            lock_ms = self._dice.choice((1_000, 2_000, 4_000))
            door.act(What.EXTEND, delivery, lock_ms)
            self.stopping.wait(self._dice.uniform(0, 1.5 * lock_ms) / 1_000)
            fate = What.SETTLE
        if fate is not None:
            door.act(fate, delivery)


class UserQueues(threading.Thread):
    """All of them together; the thread makes the queues, and empties them in the end."""

    def __init__(
        self,
        bootstrap_servers: str,
        addresses: Sequence[str],
        history: History,
        seed: int,
    ) -> None:
        """`addresses` are where brokers speak SQS."""
        super().__init__(name="users' queues", daemon=True)
        self._bootstrap_servers: Final = bootstrap_servers
        self._addresses: Final = addresses
        self._history: Final = history
        self._seed: Final = seed
        self._queues: Final = USER_QUEUES
        self._stopping: Final = threading.Event()
        self._seen: Final = QueueHistory({each.spec.name: each.spec for each in USER_QUEUES})
        self._numbers: Final = MessageNumbers()
        self._users: list[Publisher | Worker] = []
        self._doors = 0
        self._error: BaseException | None = None
        self._is_drained = False
        self._state = "not begun"
        #: How far each queue is emptied.
        self._states: dict[str, str] = {}

    def stop(self) -> None:
        """Begin nothing new, and empty all queues."""
        self._stopping.set()

    def describe(self) -> str:
        """Say what is waited for."""
        busy = [each.name for each in self._users if each.is_alive()]
        return f"{self._state}; {self._states}; at work: {busy}"

    def run(self) -> None:
        """Let everybody work, until it is over."""
        try:
            with self._client() as client:
                self._make(client)
                self._start_users()
                self._stopping.wait()
                self._join_users()
                self._drain(client)
            self._is_drained = True
        except Exception as error:
            self._error = error

    def _client(self) -> Client:
        return Client(self._bootstrap_servers, timeout=TIMEOUT_S)

    def _tell(self, who: str) -> Tell:
        return lambda name: self._history.error(who, name)

    def _open(self, who: str, *, is_sqs: bool) -> Door:
        self._doors += 1
        if not is_sqs:
            return ClientDoor(self._client(), self._seen, self._tell(who))
        dice = random.Random(f"{self._seed}/{who}/{self._doors}")
        clients = sqs_clients(self._addresses)
        return SqsDoor(clients, self._seen, self._numbers, dice, self._tell(who))

    def _make(self, client: Client) -> None:
        sqs = sqs_clients(self._addresses)
        for name, make in makers(client, sqs[0][1]).items():
            self._state = f"making {name}"
            _until_done(make)
        for _, each in sqs:
            each.close()

    def _start_users(self) -> None:
        self._state = "at work"
        for queue in self._queues:
            spec = queue.spec
            for number in range(spec.publishers):
                name = f"{spec.name}/publisher{number}"
                door = self._opener(name, queue)
                self._users.append(Publisher(name, spec, door, self._seen, self._seed))
            for number in range(spec.workers):
                name = f"{spec.name}/worker{number}"
                self._users.append(Worker(name, queue, self._opener(name, queue), self._seed))
        for user in self._users:
            user.start()

    def _opener(self, name: str, queue: UserQueue) -> OpenDoor:
        return lambda: self._open(name, is_sqs=queue.is_sqs)

    def _join_users(self) -> None:
        self._state = "waiting for all that was begun"
        for user in self._users:
            user.stopping.set()
        for user in self._users:
            user.join()

    # -- coming to an end

    def _drain(self, client: Client) -> None:
        """Empty all queues: each by one consumer, and dead letters after what they come from."""
        for has_dead_letters in (True, False):
            some = [
                each for each in self._queues if bool(each.spec.dead_letters_to) is has_dead_letters
            ]
            # Not a pool: the process would wait at its end for one that is stuck.
            consumers = [
                threading.Thread(target=self._drain_queue, args=(client, each), daemon=True)
                for each in some
            ]
            for consumer in consumers:
                consumer.start()
            for consumer in consumers:
                consumer.join()
            if self._error is not None:
                raise self._error

    def _drain_queue(self, client: Client, queue: UserQueue) -> None:
        spec = queue.spec
        try:
            door = self._open("drain", is_sqs=queue.is_sqs)
            while not self._is_empty(client, spec):
                while found := door.take(spec, _DRAIN_MAX, _DRAIN_LOCK_MS, 1_000):
                    for each in found:
                        door.act(What.SETTLE, each)
            door.close()
        except Exception as error:
            self._error = error

    def _is_empty(self, client: Client, spec: QueueSpec) -> bool:
        try:
            counts = client.describe(spec.name).counts
            self._states[spec.name] = f"emptying it, which has {counts}"
            if not any(counts[name] for name in _EMPTY):
                self._seen.counts[spec.name] = counts
                self._states[spec.name] = "empty"
                return True
            if counts["parked"]:
                client.redrive(spec.name)
        except KafkaesqueError as error:
            self._history.error("drain", type(error).__name__)
        return False

    def check(self) -> Sequence[str]:
        """Return what is wrong; the thread has ended, or is stuck, which is told elsewhere."""
        found = [
            f"queues: {user.name} broke: {user.error!r}"
            for user in self._users
            if user.error is not None
        ]
        if self._error is not None:
            found.append(f"queues: users' clients broke while {self._state}: {self._error!r}")
        if self._is_drained:
            # No message has a life, so that no clock tells anything.
            note = lambda what: found.append(f"queues: {what}")  # noqa: E731
            QueueChecks(self._seen, note, do_clocks_tell=False).check()
        if found:
            self._write_down()
        return found

    def _write_down(self) -> None:
        """Leave the evidence in the ledger."""
        for sent in self._seen.sent.values():
            self._history.note("put", sent=str(sent))
        for delivery in self._seen.deliveries:
            self._history.note("taken", delivery=str(delivery))

    def progress(self) -> int:
        """Return a number that grows as queues are emptied."""
        return self._seen.count_settled()

    def counts(self) -> dict[str, int]:
        """Return what went on, by name."""
        return {f"users' queues: {name}": count for name, count in self._seen.tally().items()}


def _until_done(make: Callable[[], object]) -> None:
    """Do something that may be repeated, until it is done."""
    while True:
        try:
            make()
            return
        except (KafkaesqueError, ClientError, BotoCoreError):
            time.sleep(PAUSE_S)
