"""Stock quotes and exchange rates: two compacted topics are two tables that everybody can read.

    kafkaesque up --brokers 3
    python examples/quotes.py --bootstrap-server 127.0.0.1:9092

In the example, a feed writes quotes and rates. A desk (a process of its own) reads both and shows
what each share is worth in euros. The desk is killed (SIGKILL) in the middle. The feed continues,
and one share is delisted. A second desk shows what the first would have shown. Then the brokers
compact the topics (they look every 15 s, `log.cleaner.backoff.ms`), and a third desk shows the same
after reading a fraction of the records:

    first desk   20 shares, 6000 records read; killed
    second desk  19 shares, 12001 records read
    compacted    12346 records written, 158 left
    third desk   19 shares, 76 records read

To know what a share is worth, you need the last quote of each symbol and the last rate of each
currency, and nothing before. With `cleanup.policy=compact`, a topic keeps just that: the last
record of each key. The topic is a table written as a log. A record says "this row now has this
value"; a record without a value (a tombstone) says "this row is deleted". A reader that reads from
the beginning to the end has the table, and if it keeps reading, its table stays up to date.

What may go wrong, and what the example does about it:

- *The reader is killed.* Its table was in memory. It reads the topic from the beginning again and
  has the same table. Therefore it commits no offsets and joins no group: after a committed offset
  it would only get the rows that changed since, and in a group only the rows of some partitions.
- *Half a table.* Before the end of the topic, some rows have old values. The reader answers only
  after it has seen the end of all partitions once.
- *Records without a key.* A compacted topic refuses them: they are no row.
- *A tombstone is deleted, too*, `delete.retention.ms` after it was compacted. A reader that sleeps
  for longer than that would keep the deleted row for ever, so it must begin again. Here the time is
  a second, so that you can see it; the default is a day.

Compaction keeps offsets, so there are gaps, and it leaves the active segment alone. So a reader may
find old values of some keys. That does no harm if each record simply replaces the row's value.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import time
import uuid
from contextlib import closing
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

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

#: Each share and the currency in which it is quoted.
SHARES = {f"share-{number:02}": ("USD", "GBP", "CHF", "JPY")[number % 4] for number in range(20)}
CURRENCIES = sorted(set(SHARES.values()))
LEAVES_THE_MARKET = "share-07"
PARTITIONS = 2
TIMEOUT_S = 90.0
TABLE = {
    "cleanup.policy": "compact",
    # All of these are short so that you see compaction within seconds. It only handles closed
    # segments, and the segments of a real table are closed when they reach their size.
    "segment.ms": "500",
    "min.cleanable.dirty.ratio": "0.1",
    "delete.retention.ms": "1000",
}


# -- the reader


class Table:
    """The rows of a compacted topic, in memory: the last value of each key that has one."""

    def __init__(self, bootstrap_server: str, topic: str) -> None:
        self.rows: dict[str, str] = {}
        self.records = 0
        self._at_end: set[int | None] = set()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_server,
                # The client requires a name. It joins no group and commits no offset.
                "group.id": "unused",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                # A broker waits this long before it answers that there is nothing more. Short, so
                # that the end is known soon.
                "fetch.wait.max.ms": 50,
            }
        )
        partitions = [TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(PARTITIONS)]
        self._consumer.assign(partitions)

    def close(self) -> None:
        self._consumer.close()

    @property
    def is_complete(self) -> bool:
        """Whether the end of each partition was seen: before, rows may be old or missing."""
        return len(self._at_end) == PARTITIONS

    def read(self, seconds: float) -> None:
        """Take in what comes within this time."""
        for message in self._consumer.consume(1000, seconds):
            error = message.error()
            if error is None:
                self._apply(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._at_end.add(message.partition())
            elif error.fatal():
                raise KafkaException(error)

    def _apply(self, message: Message) -> None:
        key, value = (message.key() or b"").decode(), message.value()
        self.records += 1
        if value is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = value.decode()


def watch(bootstrap_server: str, prefix: str, screen: Connection) -> None:
    """Be a desk: show what each share is worth in euros, whenever that has changed; never ends."""
    quotes = Table(bootstrap_server, f"{prefix}.quotes")
    rates = Table(bootstrap_server, f"{prefix}.rates")
    shown = None
    while True:
        quotes.read(0.1)
        rates.read(0.1)
        if quotes.is_complete and rates.is_complete:
            worth = worth_in_euros(quotes.rows, rates.rows)
            if worth != shown:
                screen.send((worth, quotes.records + rates.records))
                shown = worth


def worth_in_euros(quotes: dict[str, str], rates: dict[str, str]) -> dict[str, float]:
    """Join the tables: a share is worth its last price at the last rate of its currency."""
    prices = {share: json.loads(quote) for share, quote in quotes.items()}
    return {
        share: round(quote["price"] * float(rates[quote["currency"]]), 4)
        for share, quote in prices.items()
        if quote["currency"] in rates
    }


# -- the writer


class Feed:
    """Writes quotes and rates, and remembers the last ones to compare."""

    def __init__(self, bootstrap_server: str, prefix: str) -> None:
        self.written = 0
        self._topics = {"quotes": f"{prefix}.quotes", "rates": f"{prefix}.rates"}
        self._last: dict[str, dict[str, str]] = {"quotes": {}, "rates": {}}
        self._shares = dict(SHARES)
        # Idempotent: records of one key stay in the order in which they were written, even when
        # some are resent. Otherwise an old quote could end up after a newer one.
        self._producer = Producer(
            {"bootstrap.servers": bootstrap_server, "enable.idempotence": True}
        )

    @property
    def worth(self) -> dict[str, float]:
        """What a desk has to show."""
        return worth_in_euros(self._last["quotes"], self._last["rates"])

    def write(self, rounds: int) -> None:
        """Write a new price of each share and a new rate of each currency, so many times."""
        for _ in range(rounds):
            for currency in CURRENCIES:
                self._put("rates", currency, f"{random.uniform(0.5, 1.5):.6f}")
            for share, currency in self._shares.items():
                quote = {"price": round(random.uniform(10, 500), 2), "currency": currency}
                self._put("quotes", share, json.dumps(quote))
        self._producer.flush()

    def take_from_the_market(self, share: str) -> None:
        del self._shares[share]
        self._put("quotes", share, None)
        self._producer.flush()

    def _put(self, table: str, key: str, value: str | None) -> None:
        self._producer.produce(self._topics[table], value, key, on_delivery=raise_if_lost)
        self._producer.poll(0)
        self.written += 1
        if value is None:
            del self._last[table][key]
        else:
            self._last[table][key] = value


def raise_if_lost(error: KafkaError | None, _: Message) -> None:
    if error is not None:
        raise KafkaException(error)


# -- the scenario


class Desk:
    """A desk that runs as a process, and what it shows."""

    def __init__(self, bootstrap_server: str, prefix: str) -> None:
        spawning = multiprocessing.get_context("spawn")
        self._screen, screen = spawning.Pipe(duplex=False)
        self._process: BaseProcess = spawning.Process(
            target=watch, args=(bootstrap_server, prefix, screen), daemon=True
        )
        self._process.start()
        screen.close()

    def wait_for(self, worth: dict[str, float]) -> int:
        """Wait until it shows this, and return how many records it had read by then."""
        deadline = time.monotonic() + TIMEOUT_S
        while self._screen.poll(deadline - time.monotonic()):
            shown, records = self._screen.recv()
            if shown == worth:
                return int(records)
        raise TimeoutError(f"not shown within {TIMEOUT_S:.0f} s")

    def close(self) -> None:
        """Kill it. It has nothing to lose, so this is also how it ends in the ordinary course."""
        self._process.kill()
        self._process.join()
        self._screen.close()


def main() -> None:
    arguments = parse_arguments()
    server, prefix = arguments.bootstrap_server, arguments.prefix
    admin = AdminClient({"bootstrap.servers": server})
    names = (f"{prefix}.quotes", f"{prefix}.rates")
    topics = [NewTopic(each, PARTITIONS, 3, config=TABLE) for each in names]
    for created in admin.create_topics(topics).values():
        created.result()

    feed = Feed(server, prefix)
    with closing(Desk(server, prefix)) as desk:
        feed.write(arguments.rounds // 2)
        records = desk.wait_for(feed.worth)
        print(f"first desk   {len(feed.worth)} shares, {records} records read; killed", flush=True)
    feed.write(arguments.rounds // 2)
    feed.take_from_the_market(LEAVES_THE_MARKET)
    with closing(Desk(server, prefix)) as desk:
        records = desk.wait_for(feed.worth)
        print(f"second desk  {len(feed.worth)} shares, {records} records read", flush=True)
        wait_for_compaction(server, prefix, feed)
        # A reader gets the same table, whether it has seen the deleted records or not.
        desk.wait_for(feed.worth)
    with closing(Desk(server, prefix)) as desk:
        records = desk.wait_for(feed.worth)
        print(f"third desk   {len(feed.worth)} shares, {records} records read")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Quotes and rates as tables, with a crash.")
    server = os.environ.get("KAFKAESQUE_BOOTSTRAP_SERVER") or "127.0.0.1:9092"
    parser.add_argument("--bootstrap-server", default=server)
    unique = f"quotes-{uuid.uuid4().hex[:8]}"
    parser.add_argument("--prefix", default=unique, help="what topics begin with")
    parser.add_argument("--rounds", type=int, default=500, help="prices of each share")
    return parser.parse_args()


def wait_for_compaction(server: str, prefix: str, feed: Feed) -> None:
    """Go on writing, slowly, until a tenth of the records is left."""
    deadline = time.monotonic() + TIMEOUT_S
    while (left := count(server, f"{prefix}.quotes") + count(server, f"{prefix}.rates")) > (
        feed.written // 10
    ):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{left} of {feed.written} records left after {TIMEOUT_S:.0f} s")
        time.sleep(0.5)
        # The first record after its time closes a segment.
        feed.write(1)
    print(f"compacted    {feed.written} records written, {left} left", flush=True)


def count(server: str, topic: str) -> int:
    """Return how many records somebody who comes now has to read."""
    with closing(Table(server, topic)) as table:
        while not table.is_complete:
            table.read(0.1)
        return table.records


if __name__ == "__main__":
    main()
