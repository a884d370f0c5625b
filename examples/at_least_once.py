"""At least once: no record is lost, but a crash may process some of them twice.

    kafkaesque up --brokers 3
    python examples/at_least_once.py --bootstrap-server 127.0.0.1:9092

The example ships ten parcels. A worker is killed (SIGKILL) when the parcel of the fifth order is
shipped and the order's offset is not yet committed. A second worker continues. One parcel is
shipped twice:

    orders   10
    parcels  11
    lost     none
    twice    parcel for order-4

A consumer does two things with a record: the work, and the commit of the offset, which says "do not
give me this record again". No order of the two survives every crash. Here the work comes first:

    1. take a record
    2. do the work, and wait until it is done
    3. commit its offset          <- a worker killed before this line is given the record again

If a worker is killed between 2 and 3, nobody knows of its work. The next worker begins at the
committed offset and does the work a second time. So no record is ever lost. This is the usual
choice for work that may be repeated: because a second time changes nothing (set this price,
overwrite that file), or because the receiver knows each record by a number and ignores what it has
already seen (`payment_order_invoice.py`).

Two rules make it work:

- Wait for step 2. A record that was handed to the producer is not written yet. Commit its offset
  only after the brokers have acknowledged it.
- Do not skip a failure. The commit of the next record would cover the failed one as well.

With a batch in place of a single record, a crash repeats up to a whole batch; in return there are
fewer commits. `exactly_once.py` neither loses nor repeats if the work is itself a record.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import uuid
from collections import Counter
from collections.abc import Iterator

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
WORKER_TIMEOUT_S = 60.0


def work(bootstrap_server: str, prefix: str, crash_at: str | None) -> None:
    """Ship a parcel for each order, at least once; ends at the end of the topic."""
    producer = Producer({"bootstrap.servers": bootstrap_server})
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
    for message in until_the_end(consumer):
        order = text(message)
        ship(producer, f"{prefix}.parcels", order)
        if order == crash_at:
            os.kill(os.getpid(), signal.SIGKILL)
        # Waiting is not needed here: if a commit is late, a crash only repeats more records.
        consumer.commit(message=message, asynchronous=False)
    consumer.close()


def ship(producer: Producer, topic: str, order: str) -> None:
    """Do the work and return once it is done.

    It is a record in another topic, so that the example can count it.
    """
    producer.produce(topic, value=f"parcel for {order}", on_delivery=raise_if_lost)
    producer.flush()


def raise_if_lost(error: KafkaError | None, _: Message) -> None:
    if error is not None:
        raise KafkaException(error)


def until_the_end(consumer: Consumer) -> Iterator[Message]:
    """Yield the records of the one partition up to its end, where a real worker would wait."""
    while True:
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is None:
            yield message
        elif error.code() == KafkaError._PARTITION_EOF:
            return
        elif error.fatal():
            raise KafkaException(error)
        else:  # the client retries by itself
            print(f"trying again: {error}", file=sys.stderr)


def text(message: Message) -> str:
    return (message.value() or b"").decode()


# -- the scenario


def main() -> None:
    arguments = parse_arguments()
    server, prefix = arguments.bootstrap_server, arguments.prefix
    make_topics(server, [f"{prefix}.orders", f"{prefix}.parcels"])
    publish(server, f"{prefix}.orders", ORDERS)
    for crash_at in (CRASH_AT, None):
        print(run_worker(server, prefix, crash_at))

    parcels = Counter(read_all(server, f"{prefix}.parcels"))
    print(f"orders   {len(ORDERS)}")
    print(f"parcels  {parcels.total()}")
    lost = [order for order in ORDERS if f"parcel for {order}" not in parcels]
    twice = [parcel for parcel, count in parcels.items() if count > 1]
    print(f"lost     {', '.join(lost) or 'none'}")
    print(f"twice    {', '.join(twice) or 'none'}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="At least once, with a crash.")
    server = os.environ.get("KAFKAESQUE_BOOTSTRAP_SERVER") or "127.0.0.1:9092"
    parser.add_argument("--bootstrap-server", default=server)
    unique = f"at-least-once-{uuid.uuid4().hex[:8]}"
    parser.add_argument("--prefix", default=unique, help="what topics and group begin with")
    return parser.parse_args()


def make_topics(bootstrap_server: str, topics: list[str]) -> None:
    """Create topics of one partition and three copies."""
    # 5 leaves out what librdkafka says now and then of its own queues when a client ends.
    admin = AdminClient({"bootstrap.servers": bootstrap_server, "log_level": 5})
    new = [NewTopic(topic, num_partitions=1, replication_factor=3) for topic in topics]
    for created in admin.create_topics(new).values():
        created.result()


def publish(bootstrap_server: str, topic: str, values: list[str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_server})
    for value in values:
        producer.produce(topic, value=value, on_delivery=raise_if_lost)
    producer.flush()


def run_worker(bootstrap_server: str, prefix: str, crash_at: str | None) -> str:
    """Run a worker in a process of its own and return how it ended."""
    process = multiprocessing.get_context("spawn").Process(
        target=work, args=(bootstrap_server, prefix, crash_at), daemon=True
    )
    process.start()
    process.join(WORKER_TIMEOUT_S)
    if process.exitcode == -signal.SIGKILL:
        return f"worker killed: the parcel of {crash_at} was shipped, its offset not yet committed"
    if process.exitcode != 0:
        raise SystemExit(f"the worker ended with {process.exitcode}")
    return "worker came to the end of the orders"


def read_all(bootstrap_server: str, topic: str) -> list[str]:
    """Return what the one partition of the topic holds, without joining a group."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_server,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    values = [text(message) for message in until_the_end(consumer)]
    consumer.close()
    return values


if __name__ == "__main__":
    main()
