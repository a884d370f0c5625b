"""Payment, order, invoice: three services that exchange commands and events and survive crashes.

    kafkaesque up --brokers 3
    python examples/payment_order_invoice.py --bootstrap-server 127.0.0.1:9092

The example takes six payments, one of them clicked twice. The invoice service is killed (SIGKILL)
between steps 1 and 2 below, the order service in the middle of step 2. A supervisor restarts them:

    order-0: InvoiceWritten, number 1
    the order service was killed at order-4, in the middle of the brokers' transaction
    order-1: InvoiceWritten, number 2
    the invoice service was killed at order-2, between the database and the brokers
    order-2: InvoiceWritten, number 3
    order-3: InvoiceWritten, number 4
    order-4: InvoiceWritten, number 5
    order-5: InvoiceWritten, number 6
    payment: worked 6 times for 6 orders
    order: worked 6 times for 6 orders
    invoice: worked 6 times for 6 orders

    shop --TakePayment--> [payment] --PaymentTaken--> [order] --OrderPlaced-->  any listener
                                                         |
                                                         +----WriteInvoice--> [invoice]
                                                                                 |
                                any listener  <--InvoiceWritten------------------+

A *command* asks one service to do something. Its name is an order (TakePayment), its topic belongs
to the service that receives it, and the sender knows that service.

An *event* says what has happened. Its name is in the past (PaymentTaken), its topic belongs to the
service that sends it, and that service does not know the listeners. Another listener is another
consumer group; nothing else changes.

Each service is a consumer group of its own. So each gets every message, and each continues by
itself when another one is down. The key is always the order, so messages about one order are
handled one after the other.

Each service has a database: payments are charged once, invoices have consecutive numbers. So there
are two places to write to, the database and the topics. A crash in between must neither lose an
invoice nor write a second one. Each service does this for each message:

    1. in one database transaction: if the id of the message is new, do the work and store the id
       with the answers; if it is known from this very place in the topic, read the answers
    2. in one transaction of the brokers: send the answers, and the offset of the message

- Killed before 1 is committed: nothing has happened. The message comes again.
- Killed between 1 and 2: the message comes again and is known. Its answers are read, not made
  again, so the invoice keeps its number.
- Killed in 2: the brokers abort the transaction. Readers with `read_committed` never see these
  answers. The message comes again and is known.
- The same id at *another* place in the topic: it was sent twice, by a second click or a retry. It
  is dropped. Its first delivery has been answered, because an answer and its offset are committed
  together.

The database comes first. If the brokers came first, a crash in between would leave answers to work
that was never done, and the message would not come again.

This example leaves out messages that a service cannot read; they belong to dead letters
(`retry_and_dead_letters.py`).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import sqlite3
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

ORDERS = [f"order-{number}" for number in range(6)]
CLICKED_TWICE = "order-1"
#: Which service is killed when, and at which order.
CRASHES = {
    "invoice": ("between the database and the brokers", "order-2"),
    "order": ("in the middle of the brokers' transaction", "order-4"),
}
TOPICS = [
    "payment.commands",
    "payment.events",
    "order.events",
    "invoice.commands",
    "invoice.events",
]
POLL_S = 0.1
TIMEOUT_S = 30.0
SCENARIO_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A command or an event; its id is the same whenever it is sent again."""

    topic: str
    name: str
    id: str
    order: str
    amount: int
    invoice: int | None = None


# -- the work of each service, with its database


def take_payment(database: sqlite3.Connection, command: Letter) -> list[Letter]:
    row = (command.order, command.amount)
    database.execute("INSERT INTO work (name, amount) VALUES (?, ?)", row)
    return [answer(command, "payment.events", "PaymentTaken")]


def place_order(database: sqlite3.Connection, event: Letter) -> list[Letter]:
    row = (event.order, event.amount)
    database.execute("INSERT INTO work (name, amount) VALUES (?, ?)", row)
    return [
        answer(event, "order.events", "OrderPlaced"),
        answer(event, "invoice.commands", "WriteInvoice"),
    ]


def write_invoice(database: sqlite3.Connection, command: Letter) -> list[Letter]:
    row = (command.order, command.amount)
    number = database.execute("INSERT INTO work (name, amount) VALUES (?, ?)", row).lastrowid
    return [answer(command, "invoice.events", "InvoiceWritten", invoice=number)]


def answer(to: Letter, topic: str, name: str, invoice: int | None = None) -> Letter:
    """Return a letter whose id follows from that of the one it answers."""
    letter_id = f"{to.id}/{name}"
    return Letter(
        topic=topic, name=name, id=letter_id, order=to.order, amount=to.amount, invoice=invoice
    )


Handler = Callable[[sqlite3.Connection, Letter], list[Letter]]
#: The topic that each service listens to, and its work.
SERVICES: dict[str, tuple[str, Handler]] = {
    "payment": ("payment.commands", take_payment),
    "order": ("payment.events", place_order),
    "invoice": ("invoice.commands", write_invoice),
}

SCHEMA = """
CREATE TABLE IF NOT EXISTS work (number INTEGER PRIMARY KEY, name TEXT, amount INTEGER);
CREATE TABLE IF NOT EXISTS handled (id TEXT PRIMARY KEY, place TEXT, answers TEXT);
"""


# -- the loop that all services share


class Service:
    """Gives each letter of its topic to a handler, whose work counts exactly once."""

    def __init__(self, name: str, bootstrap_server: str, prefix: str, directory: Path) -> None:
        topic, self._handler = SERVICES[name]
        self._prefix = prefix
        self._crash_moment, self._crash_at = "", ""
        self._database = sqlite3.connect(directory / f"{name}.db")
        self._database.executescript(SCHEMA)
        # The producer's name stays the same when the service restarts. Here the new process ends
        # the transaction that the old one left open, before it asks for offsets.
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_server,
                "transactional.id": f"{prefix}.{name}",
                "transaction.timeout.ms": 30_000,
            }
        )
        self._producer.init_transactions(TIMEOUT_S)
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_server,
                "group.id": f"{prefix}.{name}",
                # A fixed name: a process that restarts with it gets its partitions at once. Without
                # it, the group would first wait until the killed one's session has timed out.
                "group.instance.id": f"{prefix}.{name}",
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self._consumer.subscribe([f"{prefix}.{topic}"])

    def crash(self, moment: str, order: str) -> None:
        """Let the process be killed at this moment of this order."""
        self._crash_moment, self._crash_at = moment, order

    def run(self, is_over: threading.Event) -> None:
        """Work until told to stop. Any error ends the service, and it is started again."""
        while not is_over.is_set():
            message = self._consumer.poll(POLL_S)
            if message is not None and is_record(message):
                self._handle(message)
        self._consumer.close()
        self._database.close()

    def _handle(self, message: Message) -> None:
        letter = read_letter(message)
        answers = self._work(letter, f"{message.partition()}/{message.offset()}")
        self._maybe_crash("between the database and the brokers", letter)
        self._producer.begin_transaction()
        for each in answers:
            send(self._producer, self._prefix, each)
        self._maybe_crash("in the middle of the brokers' transaction", letter)
        offsets = self._consumer.position(self._consumer.assignment())
        group = self._consumer.consumer_group_metadata()
        self._producer.send_offsets_to_transaction(offsets, group, TIMEOUT_S)
        self._producer.commit_transaction(TIMEOUT_S)

    def _work(self, letter: Letter, place: str) -> list[Letter]:
        """Do the work unless it is done; return the answers that have not been published."""
        with self._database:  # commits, or rolls back what failed
            known = self._database.execute(
                "SELECT place, answers FROM handled WHERE id = ?", (letter.id,)
            ).fetchone()
            if known is not None:
                first_place, answers = known
                is_again = first_place == place
                return [Letter(**each) for each in json.loads(answers)] if is_again else []
            made = self._handler(self._database, letter)
            text = json.dumps([asdict(each) for each in made])
            self._database.execute("INSERT INTO handled VALUES (?, ?, ?)", (letter.id, place, text))
            return made

    def _maybe_crash(self, moment: str, letter: Letter) -> None:
        if (moment, letter.order) == (self._crash_moment, self._crash_at):
            self._producer.flush()
            os.kill(os.getpid(), signal.SIGKILL)


def send(producer: Producer, prefix: str, letter: Letter) -> None:
    producer.produce(
        f"{prefix}.{letter.topic}",
        key=letter.order,
        value=json.dumps(asdict(letter)),
        on_delivery=raise_if_lost,
    )


def read_letter(message: Message) -> Letter:
    return Letter(**json.loads(message.value() or b""))


def raise_if_lost(error: KafkaError | None, _: Message) -> None:
    if error is not None:
        raise KafkaException(error)


def is_record(message: Message) -> bool:
    """Tell a record from an error, most of which the client gets over by itself."""
    error = message.error()
    if error is None:
        return True
    if error.fatal():
        raise KafkaException(error)
    print(f"trying again: {error}", file=sys.stderr)
    return False


def serve(name: str, bootstrap_server: str, prefix: str, directory: Path, *, crashes: bool) -> None:
    """Run a service until SIGTERM asks it to stop, which it does between two messages."""
    is_over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: is_over.set())
    service = Service(name, bootstrap_server, prefix, directory)
    if crashes and name in CRASHES:
        service.crash(*CRASHES[name])
    service.run(is_over)


# -- the scenario


class Supervisor:
    """Starts the services, and starts again those that were killed."""

    def __init__(self, bootstrap_server: str, prefix: str, directory: Path) -> None:
        self._arguments = (bootstrap_server, prefix, directory)
        self._running = {name: self._start(name, crashes=True) for name in SERVICES}

    def look_after(self) -> None:
        for name, process in self._running.items():
            if process.exitcode == -signal.SIGKILL:
                moment, order = CRASHES[name]
                print(f"the {name} service was killed at {order}, {moment}")
                self._running[name] = self._start(name, crashes=False)
            elif process.exitcode is not None:
                raise SystemExit(f"the {name} service ended with {process.exitcode}")

    def stop(self) -> None:
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            process.join(SCENARIO_TIMEOUT_S)

    def _start(self, name: str, *, crashes: bool) -> BaseProcess:
        process = multiprocessing.get_context("spawn").Process(
            target=serve, args=(name, *self._arguments), kwargs={"crashes": crashes}, daemon=True
        )
        process.start()
        return process


def main() -> None:
    arguments = parse_arguments()
    server, prefix = arguments.bootstrap_server, arguments.prefix
    make_topics(server, [f"{prefix}.{topic}" for topic in TOPICS])
    click(server, prefix)
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(arguments.directory or temporary)
        supervisor = Supervisor(server, prefix, directory)
        watch(server, prefix, supervisor)
        supervisor.stop()
        for name in SERVICES:
            print(f"{name}: worked {count_work(directory, name)} times for {len(ORDERS)} orders")


def click(bootstrap_server: str, prefix: str) -> None:
    """Be the shop: send a command for each order, and for one of them twice."""
    producer = Producer({"bootstrap.servers": bootstrap_server})
    for number, order in enumerate(ORDERS):
        command = Letter(
            topic="payment.commands", name="TakePayment", id=order, order=order, amount=10 + number
        )
        for _ in range(2 if order == CLICKED_TWICE else 1):
            send(producer, prefix, command)
    producer.flush()


def watch(bootstrap_server: str, prefix: str, supervisor: Supervisor) -> None:
    """Listen to all events until each order has its invoice; nobody had to be told of us."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_server,
            "group.id": f"{prefix}.watch",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    events = [f"{prefix}.{topic}" for topic in TOPICS if topic.endswith(".events")]
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING) for topic in events])
    invoices: set[str] = set()
    deadline = time.monotonic() + SCENARIO_TIMEOUT_S
    while len(invoices) < len(ORDERS):
        if time.monotonic() > deadline:
            raise SystemExit(f"{len(invoices)} invoices in {SCENARIO_TIMEOUT_S:.0f} s")
        supervisor.look_after()
        message = consumer.poll(POLL_S)
        if message is None or not is_record(message):
            continue
        event = read_letter(message)
        if event.invoice is not None:
            invoices.add(event.order)
            print(f"{event.order}: {event.name}, number {event.invoice}")
    consumer.close()


def count_work(directory: Path, service: str) -> int:
    with closing(sqlite3.connect(directory / f"{service}.db")) as database:
        count: int = database.execute("SELECT count(*) FROM work").fetchone()[0]
        return count


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Payment, order, invoice, with two crashes.")
    server = os.environ.get("KAFKAESQUE_BOOTSTRAP_SERVER") or "127.0.0.1:9092"
    parser.add_argument("--bootstrap-server", default=server)
    unique = f"shop-{uuid.uuid4().hex[:8]}"
    parser.add_argument("--prefix", default=unique, help="what topics, groups and ids begin with")
    parser.add_argument("--directory", help="where the databases are kept; else they are removed")
    return parser.parse_args()


def make_topics(bootstrap_server: str, topics: list[str]) -> None:
    """Create topics of one partition and three copies."""
    admin = AdminClient({"bootstrap.servers": bootstrap_server})
    new = [NewTopic(topic, num_partitions=1, replication_factor=3) for topic in topics]
    for created in admin.create_topics(new).values():
        created.result()


if __name__ == "__main__":
    main()
