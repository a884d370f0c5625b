"""The load that is written in transactions: producers of transactions, and holders of a lock."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from bench.chaos.clients import Client, retried
from bench.chaos.history import Entry, History, Outcome, Transaction, Where, make_value

ABORTED_SHARE: Final = 0.25
RECORDS_MAX: Final = 8
PAUSE_S_MAX: Final = 0.15
#: Each call may take so long; then it is repeated, which the library allows for all of these.
CALL_S: Final = 10.0
TRANSACTION_TIMEOUT_MS: Final = 30_000
VALUE_BYTES_MAX: Final = 400


class Transactor(Client):
    """Writes transactions over several partitions; some it aborts.

    A producer that fails for good is given up, and the next one with its transactional id decides
    what it has left open.
    """

    def __init__(
        self,
        name: str,
        bootstrap_servers: str,
        history: History,
        *,
        places: Sequence[Where],
        seed: int,
    ) -> None:
        super().__init__(name, bootstrap_servers, history)
        self._places = list(places)
        self._dice = random.Random(f"{seed}/{name}")
        self._doing = "nothing"
        self.committed = 0

    def describe(self) -> str:
        return self._doing

    def work(self) -> None:
        while not self._stopping.is_set():
            settings = {
                "transactional.id": self.name,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "retry.backoff.max.ms": 1_000,
            }
            try:
                self._use(Producer({**self._settings, **settings}))
            except KafkaException as error:
                self.history.error(self.name, str(error.args[0].name()))
                time.sleep(0.2)
            except SystemError:
                # confluent-kafka reports deliveries while its own exception is on its way, and the
                # first call within a report then says so in its place.
                self.history.error(self.name, "SystemError")
                time.sleep(0.2)
        self._doing = "nothing"

    def _use(self, producer: Producer) -> None:
        """Write transactions until told to stop; raises as `_transact` does."""
        self._doing = "waits for its producer id"
        retried(lambda: producer.init_transactions(CALL_S), lambda: False)
        while not self._stopping.is_set():
            self._transact(producer)
            time.sleep(self._dice.uniform(0, PAUSE_S_MAX))

    def _transact(self, producer: Producer) -> None:
        """Write one transaction; raises as the library does when it is of no use any more."""
        transaction = self.history.begin(f"{self.name}#{len(self.history.transactions)}")
        try:
            producer.begin_transaction()
            for _ in range(self._dice.randint(1, RECORDS_MAX)):
                self._send(producer, transaction)
            if self._dice.random() >= ABORTED_SHARE:
                self._doing = f"commits {transaction.name}"
                self.history.ask_commit(transaction)
                retried(lambda: producer.commit_transaction(CALL_S), lambda: False)
                self.history.end(transaction, Outcome.COMMITTED)
                self.committed += 1
                return
            producer.flush(self._dice.uniform(0, 1.0))
        except KafkaException as error:
            cause = error.args[0]
            self.history.error(self.name, str(cause.name()))
            if not cause.txn_requires_abort():
                self._leave(transaction)
                raise
        except SystemError:
            self._leave(transaction)
            raise
        self._doing = f"aborts {transaction.name}"
        try:
            retried(lambda: producer.abort_transaction(CALL_S), lambda: False)
        except (KafkaException, SystemError):
            self._leave(transaction)
            raise
        self.history.end(transaction, Outcome.ABORTED)

    def _leave(self, transaction: Transaction) -> None:
        """Nobody was told how it ended; without a request to commit it can only be aborted."""
        asked = transaction.commit_asked_at is not None
        self.history.end(transaction, Outcome.UNKNOWN if asked else Outcome.ABORTED)

    def _send(self, producer: Producer, transaction: Transaction) -> None:
        where = self._dice.choice(self._places)
        number = self.history.send(self.name, where, transaction=transaction)

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self.history.acknowledge(number, message.offset())
            else:
                self.history.give_up(number, str(error.name()))

        value = make_value(number, self._dice.randrange(VALUE_BYTES_MAX))
        producer.produce(where[0], value, None, where[1], on_delivery=on_delivery)


class Candidate(Client):
    """One of several that want a lock: what `examples/leader_election.py` shows.

    The group of a topic with one partition suggests who holds the lock; the brokers refuse what an
    earlier holder still does, because all write with one transactional id. Now and then a holder
    stops in the middle of an act for longer than the group waits, and goes on then.
    """

    LEASE_MS: Final = 6_000
    NAP_ONE_IN: Final = 60
    NAP_S: Final = 9.0
    ACT_S: Final = 0.1

    def __init__(
        self, name: str, bootstrap_servers: str, history: History, *, topic: str, seed: int
    ) -> None:
        super().__init__(name, bootstrap_servers, history)
        self._topic = topic
        self._dice = random.Random(f"{seed}/{name}")
        self._is_chosen = threading.Event()
        self._doing = "waits for the lock"
        #: Acts that were committed, and how often an act was refused after all.
        self.acted = 0
        self.refused = 0

    def describe(self) -> str:
        return self._doing

    def work(self) -> None:
        consumer = Consumer(
            {
                **self._settings,
                "group.id": f"{self._topic}-candidates",
                "enable.auto.commit": False,
                "session.timeout.ms": self.LEASE_MS,
                "max.poll.interval.ms": self.LEASE_MS,
            }
        )
        consumer.subscribe(
            [self._topic],
            on_assign=lambda _, places: self._is_chosen.set() if places else None,
            on_revoke=lambda *_: self._is_chosen.clear(),
            on_lost=lambda *_: self._is_chosen.clear(),
        )
        while not self._stopping.is_set():
            consumer.consume(100, 0.1)
            if self._is_chosen.is_set():
                self._hold(consumer)
        consumer.close()

    def _hold(self, consumer: Consumer) -> None:
        settings = {
            "transactional.id": f"{self._topic}-holder",
            "transaction.timeout.ms": 10_000,
            "retry.backoff.max.ms": 1_000,
        }
        producer = Producer({**self._settings, **settings})

        def is_over() -> bool:
            consumer.consume(100, 0)
            return self._stopping.is_set() or not self._is_chosen.is_set()

        try:
            self._doing = "has the lock, waits for its producer id"
            retried(lambda: producer.init_transactions(3.0), is_over)
            token = self._write(producer, "", is_over)
            while not is_over():
                self._doing = f"holds the lock with {token}"
                self._write(producer, str(token), is_over)
                self.acted += 1
        except KafkaException as error:
            self.refused += 1
            self.history.error(self.name, str(error.args[0].name()))
        self._doing = "waits for the lock"

    def _write(self, producer: Producer, text: str, is_over: Callable[[], bool]) -> int:
        """Write one record in a transaction of its own; return its offset."""
        offsets: list[int] = []

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is None:
                offsets.append(int(message.offset() or 0))

        producer.begin_transaction()
        producer.produce(self._topic, text, self.name, 0, on_delivery=on_delivery)
        if text and self._dice.randrange(self.NAP_ONE_IN) == 0:
            time.sleep(self.NAP_S)
        time.sleep(self.ACT_S)
        retried(lambda: producer.commit_transaction(3.0), is_over)
        return offsets[0]


def read_lock(bootstrap_servers: str, topic: str, end: int, timeout_s: float) -> list[Entry]:
    """Return what is committed in the lock's topic; raises TimeoutError if it is not all given."""
    if end == 0:
        return []
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": f"{topic}-nobody",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "log_level": 0,
            "error_cb": lambda error: None,
        }
    )
    place = TopicPartition(topic, 0, OFFSET_BEGINNING)
    consumer.assign([place])
    entries: list[Entry] = []
    deadline = time.monotonic() + timeout_s
    try:
        while consumer.position([place])[0].offset < end:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic} was not read up to {end} in {timeout_s:.0f} s")
            messages = consumer.consume(500, 0.2)
            entries += [_entry(each) for each in messages if each.error() is None]
    finally:
        consumer.close()
    return entries


def _entry(message: Message) -> Entry:
    text = (message.value() or b"").decode()
    return Entry(
        offset=int(message.offset() or 0),
        holder=(message.key() or b"").decode(),
        token=int(text) if text else None,
    )
