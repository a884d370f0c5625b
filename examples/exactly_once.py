"""Exactly once: each order gives one parcel, no matter when the worker is killed.

    kafkaesque up --brokers 3
    python examples/exactly_once.py --bootstrap-server 127.0.0.1:9092

The example ships ten parcels. A first worker is killed (SIGKILL) when it has written the result for
the fifth order, a second one when it has also sent the offsets. A third worker continues. Readers
of committed records see each parcel once; other readers also see the aborted ones:

    worker killed: after the results of the batch with order-4 were written
    worker killed: after the offsets of the batch with order-4 were written
    worker came to the end of the orders
    orders   10
    parcels  10
    lost     none
    twice    none
    in the log, but aborted and skipped: 8

`at_most_once.py` and `at_least_once.py` write the result and the offset one after the other, so a
crash in between loses a record or repeats it. A transaction writes both together. This is possible
because the committed offset is a record in a topic, too: if the result is also a record, the
brokers make both visible or neither.

    1. take records
    2. begin a transaction
    3. produce the results
    4. send the offsets in the same transaction, not with the consumer
    5. commit                     <- until here, nothing counts

Three settings are needed, and none may be left out:

- `transactional.id` is the worker's name. It stays the same when the worker is restarted.
  `init_transactions` ends the transaction that the previous process left open, and fences that
  process: if it is still alive, its commit is refused. Call it before the consumer asks for the
  committed offsets, because until then it is undecided which offsets count.
- `enable.auto.commit=false`: offsets go only through the transaction.
- `isolation.level=read_committed` (this client's default) for every reader of the results. Records
  of aborted transactions stay in the log, and such readers skip them.

Exactly once is each record's effect *in the topics*. The work between may run twice: a worker that
sends a letter before it is killed sends it again. For effects outside, let the receiver recognise
each record by its number (`payment_order_invoice.py`).

Records in one transaction share the cost of its end, so batches are fast. A crash only means that
the batch is done again.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import uuid
from collections import Counter

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

ORDERS = [f"order-{number}" for number in range(10)]
CRASH_AT = "order-4"
WRONG_MOMENTS = ("after the results", "after the offsets")
BATCH_RECORDS_MAX = 4
BATCH_WAIT_S = 0.2
TIMEOUT_S = 60.0
WORKER_TIMEOUT_S = 60.0


def work(bootstrap_server: str, prefix: str, crash: str | None) -> None:
    """Ship a parcel for each order, exactly once; ends at the end of the topic.

    Any error ends the worker, and it is started again: what it left open is aborted then, as after
    a crash. One that wants to live on may repeat what is `retriable()`, and aborts and returns to
    the committed offsets where `txn_requires_abort()` says so.
    """
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_server,
            "transactional.id": f"{prefix}.worker",
            # How long readers wait for the transaction of a worker that does not come back.
            "transaction.timeout.ms": 30_000,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_server,
            "group.id": f"{prefix}.shipping",
            # A fixed name: a worker that restarts with it gets its partitions at once. Without it,
            # the group would first wait until the killed worker's session has timed out.
            "group.instance.id": f"{prefix}.worker",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.subscribe([f"{prefix}.orders"])
    is_at_end = False
    while not is_at_end:
        messages, is_at_end = next_batch(consumer)
        if messages:
            ship_all(producer, consumer, f"{prefix}.parcels", messages, crash)
    consumer.close()


def ship_all(
    producer: Producer, consumer: Consumer, topic: str, messages: list[Message], crash: str | None
) -> None:
    """Write a parcel for each order, and that the orders are done: both or neither."""
    orders = [text(message) for message in messages]
    producer.begin_transaction()
    for order in orders:
        producer.produce(topic, value=f"parcel for {order}")
    if CRASH_AT in orders and crash == "after the results":
        producer.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    # With the group's metadata, the brokers refuse the offsets if another member has taken over
    # the partitions meanwhile.
    offsets = consumer.position(consumer.assignment())
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), TIMEOUT_S)
    if CRASH_AT in orders and crash == "after the offsets":
        producer.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    # Waits for all results first. If one is not written, the commit fails.
    producer.commit_transaction(TIMEOUT_S)


def next_batch(consumer: Consumer) -> tuple[list[Message], bool]:
    """Return some records, and whether the end of the one partition is reached.

    There a real worker would wait for more.
    """
    records, is_at_end = [], False
    for message in consumer.consume(BATCH_RECORDS_MAX, BATCH_WAIT_S):
        error = message.error()
        if error is None:
            records.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            is_at_end = True
        elif error.fatal():
            raise KafkaException(error)
        else:  # the client retries by itself
            print(f"trying again: {error}", file=sys.stderr)
    return records, is_at_end


def text(message: Message) -> str:
    return (message.value() or b"").decode()


# -- the scenario


def main() -> None:
    arguments = parse_arguments()
    server, prefix = arguments.bootstrap_server, arguments.prefix
    make_topics(server, [f"{prefix}.orders", f"{prefix}.parcels"])
    publish(server, f"{prefix}.orders", ORDERS)
    for crash in (*WRONG_MOMENTS, None):
        print(run_worker(server, prefix, crash))

    parcels = Counter(read_all(server, f"{prefix}.parcels", "read_committed"))
    written = read_all(server, f"{prefix}.parcels", "read_uncommitted")
    print(f"orders   {len(ORDERS)}")
    print(f"parcels  {parcels.total()}")
    lost = [order for order in ORDERS if f"parcel for {order}" not in parcels]
    twice = [parcel for parcel, count in parcels.items() if count > 1]
    print(f"lost     {', '.join(lost) or 'none'}")
    print(f"twice    {', '.join(twice) or 'none'}")
    print(f"in the log, but aborted and skipped: {len(written) - parcels.total()}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Exactly once, with two crashes.")
    server = os.environ.get("KAFKAESQUE_BOOTSTRAP_SERVER") or "127.0.0.1:9092"
    parser.add_argument("--bootstrap-server", default=server)
    unique = f"exactly-once-{uuid.uuid4().hex[:8]}"
    parser.add_argument("--prefix", default=unique, help="what topics, group and ids begin with")
    return parser.parse_args()


def make_topics(bootstrap_server: str, topics: list[str]) -> None:
    """Create topics of one partition and three copies."""
    admin = AdminClient({"bootstrap.servers": bootstrap_server})
    new = [NewTopic(topic, num_partitions=1, replication_factor=3) for topic in topics]
    for created in admin.create_topics(new).values():
        created.result()


def publish(bootstrap_server: str, topic: str, values: list[str]) -> None:
    def raise_if_lost(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            raise KafkaException(error)

    producer = Producer({"bootstrap.servers": bootstrap_server})
    for value in values:
        producer.produce(topic, value=value, on_delivery=raise_if_lost)
    producer.flush()


def run_worker(bootstrap_server: str, prefix: str, crash: str | None) -> str:
    """Run a worker in a process of its own and return how it ended."""
    process = multiprocessing.get_context("spawn").Process(
        target=work, args=(bootstrap_server, prefix, crash), daemon=True
    )
    process.start()
    process.join(WORKER_TIMEOUT_S)
    if process.exitcode == -signal.SIGKILL:
        return f"worker killed: {crash} of the batch with {CRASH_AT} were written"
    if process.exitcode != 0:
        raise SystemExit(f"the worker ended with {process.exitcode}")
    return "worker came to the end of the orders"


def read_all(bootstrap_server: str, topic: str, isolation_level: str) -> list[str]:
    """Return what such a reader sees in the one partition of the topic, without joining a group."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_server,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation_level,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    values: list[str] = []
    is_at_end = False
    while not is_at_end:
        messages, is_at_end = next_batch(consumer)
        values += [text(message) for message in messages]
    consumer.close()
    return values


if __name__ == "__main__":
    main()
