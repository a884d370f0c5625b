"""The recipes about what a crash costs: each is run with its crash, and the topics are read."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, Message, TopicPartition

from examples import retry_and_dead_letters
from tests.clients.kafka_helpers import Sent, consume, produce, unique
from tests.clients.recipes import run_recipe
from tests.clients.transactional_clients import read_all
from tests.waiting import DEADLINE_S

ORDERS = [f"order-{number}" for number in range(10)]
SHOP_ORDERS = ORDERS[:6]
#: What the services answer in which topic, the invoices last.
SHOP_ANSWERS = {
    "payment.events": "PaymentTaken",
    "order.events": "OrderPlaced",
    "invoice.commands": "WriteInvoice",
    "invoice.events": "InvoiceWritten",
}


def values(bootstrap_servers: str, topic: str, *, is_committed: bool = True) -> list[str]:
    contents = read_all(bootstrap_servers, topic, is_committed=is_committed)
    return [value.decode() for value in contents[0]]


def parcels(orders: Sequence[str]) -> list[str]:
    return [f"parcel for {order}" for order in orders]


def committed_offset(bootstrap_servers: str, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group})
    try:
        offset: int = consumer.committed([TopicPartition(topic, 0)], DEADLINE_S)[0].offset
        return offset
    finally:
        consumer.close()


# -- most, least, exactly


def test_at_most_once_loses_the_record_and_repeats_none(bootstrap_servers: str) -> None:
    prefix = unique("at-most-once")
    output = run_recipe("at_most_once", bootstrap_servers, "--prefix", prefix)
    shipped = values(bootstrap_servers, f"{prefix}.parcels")
    assert shipped == parcels([*ORDERS[:4], *ORDERS[5:]])
    assert committed_offset(bootstrap_servers, f"{prefix}.shipping", f"{prefix}.orders") == 10
    assert output.count("worker killed") == 1
    assert "lost     order-4\ntwice    none\n" in output


def test_at_least_once_loses_none_and_repeats_the_record(bootstrap_servers: str) -> None:
    prefix = unique("at-least-once")
    output = run_recipe("at_least_once", bootstrap_servers, "--prefix", prefix)
    shipped = values(bootstrap_servers, f"{prefix}.parcels")
    assert shipped == parcels([*ORDERS[:5], *ORDERS[4:]])
    assert committed_offset(bootstrap_servers, f"{prefix}.shipping", f"{prefix}.orders") == 10
    assert output.count("worker killed") == 1
    assert "lost     none\ntwice    parcel for order-4\n" in output


def test_exactly_once_neither_loses_nor_repeats(bootstrap_servers: str) -> None:
    prefix = unique("exactly-once")
    output = run_recipe("exactly_once", bootstrap_servers, "--prefix", prefix)
    assert values(bootstrap_servers, f"{prefix}.parcels") == parcels(ORDERS)
    assert committed_offset(bootstrap_servers, f"{prefix}.shipping", f"{prefix}.orders") == 10
    # The crashes were real: the record is in the log three times, and twice it does not count.
    written = values(bootstrap_servers, f"{prefix}.parcels", is_committed=False)
    assert written.count("parcel for order-4") == 3
    assert output.count("worker killed") == 2
    assert "lost     none\ntwice    none\n" in output
    assert f"aborted and skipped: {len(written) - 10}\n" in output


# -- retries and dead letters


class Station:
    """What one topic of the retry recipe holds."""

    def __init__(self, bootstrap_servers: str, topic: str, count: int) -> None:
        self.messages = consume(bootstrap_servers, topic, count, at_rest_s=0.3)
        self.names = [(each.key() or b"").decode() for each in self.messages]

    def first(self, name: str) -> Message:
        return self.messages[self.names.index(name)]

    def headers(self, name: str, header: str) -> list[str]:
        """Return this header of all records of that name."""
        pairs = zip(self.names, self.messages, strict=True)
        found = [dict(each.headers() or [])[header] for key, each in pairs if key == name]
        return [each.decode() if isinstance(each, bytes) else str(each) for each in found]


def test_retries_and_dead_letters_lose_nothing_and_block_nothing(bootstrap_servers: str) -> None:
    prefix = unique("retry")
    output = run_recipe("retry_and_dead_letters", bootstrap_servers, "--prefix", prefix)
    assert output.count("worker killed") == 1
    main = f"{prefix}.hooks"
    first = Station(bootstrap_servers, f"{main}.retry-1", 4)
    second = Station(bootstrap_servers, f"{main}.retry-2", 2)
    dead = Station(bootstrap_servers, f"{main}.dead", 2)
    delivered = Station(bootstrap_servers, f"{prefix}.delivered", 5)

    # The crash: hook-1 moved on twice, and whoever receives it can tell.
    assert Counter(first.names) == {"hook-1": 2, "hook-3": 1, "hook-4": 1}
    assert delivered.headers("hook-1", "message-id") == [f"{main}/0/1"] * 2
    # Everything came to one end.
    assert Counter(delivered.names) == {"hook-0": 1, "hook-1": 2, "hook-4": 1, "hook-5": 1}
    assert delivered.headers("hook-4", "attempt") == ["3"]
    assert sorted(second.names) == ["hook-3", "hook-4"]
    assert sorted(dead.names) == ["hook-2", "hook-3"]
    assert dead.headers("hook-2", "attempt") == ["1"]
    assert "JSONDecodeError" in dead.headers("hook-2", "reason")[0]
    assert dead.first("hook-2").value() == b"{ this is no JSON"
    assert dead.headers("hook-3", "attempt") == ["3"]
    assert dead.headers("hook-3", "reason") == ["no answer from the server of hook-3"]
    # Nobody tried before the time.
    assert second.first("hook-4").timestamp()[1] >= int(first.headers("hook-4", "not-before")[0])
    assert delivered.first("hook-4").timestamp()[1] >= int(
        second.headers("hook-4", "not-before")[0]
    )
    # And nothing is left to do.
    for topic, end in ((main, 6), (f"{main}.retry-1", 4), (f"{main}.retry-2", 2)):
        assert committed_offset(bootstrap_servers, f"{prefix}.deliverers", topic) == end


def test_a_record_that_waits_for_its_retry_holds_up_no_other(
    bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait is longer than the test, so that nobody can wait it out."""
    monkeypatch.setattr(retry_and_dead_letters, "BACK_OFFS_S", (0.01, 10 * DEADLINE_S))
    topics = retry_and_dead_letters.Topics(unique("held"))
    everything = [*topics.stations, topics.dead, topics.delivered]
    retry_and_dead_letters.make_topics(bootstrap_servers, everything)
    worker = retry_and_dead_letters.Worker(bootstrap_servers, topics.prefix, None)
    is_over = threading.Event()
    thread = threading.Thread(target=worker.run, args=(is_over,))
    thread.start()
    try:
        slow = [Sent(key=b"slow-%d" % number, value=b'{"failures": 2}') for number in range(2)]
        produce(bootstrap_servers, topics.stations[0], slow)
        held = Station(bootstrap_servers, topics.stations[2], 2)
        assert held.names == ["slow-0", "slow-1"]
        for number in range(2):
            name = f"quick-{number}"
            record = Sent(key=name.encode(), value=b'{"failures": 1}')
            produce(bootstrap_servers, topics.stations[0], [record])
            assert Station(bootstrap_servers, topics.delivered, number + 1).names[-1] == name
    finally:
        is_over.set()
        thread.join(DEADLINE_S)
    assert not thread.is_alive()
    # Who waits is not committed: the next worker begins with it.
    group = f"{topics.prefix}.deliverers"
    assert committed_offset(bootstrap_servers, group, topics.stations[1]) == 4
    assert committed_offset(bootstrap_servers, group, topics.stations[2]) == OFFSET_INVALID


# -- commands and events


def test_each_order_is_paid_placed_and_invoiced_once(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    shop = unique("shop")
    arguments = ("--prefix", shop, "--directory", str(tmp_path))
    output = run_recipe("payment_order_invoice", bootstrap_servers, *arguments)

    for topic, name in SHOP_ANSWERS.items():
        letters = [json.loads(each) for each in values(bootstrap_servers, f"{shop}.{topic}")]
        assert [each["order"] for each in letters] == SHOP_ORDERS
        assert {each["name"] for each in letters} == {name}
        assert [each["amount"] for each in letters] == list(range(10, 16))
    assert [each["invoice"] for each in letters] == list(range(1, 7))
    for service in ("payment", "order", "invoice"):
        assert worked(tmp_path / f"{service}.db") == SHOP_ORDERS

    # The second click and the crashes were real: they are in the log, and do not count.
    assert len(values(bootstrap_servers, f"{shop}.payment.commands")) == 7
    assert "the invoice service was killed at order-2" in output
    assert "the order service was killed at order-4" in output
    for topic in ("order.events", "invoice.commands"):
        written = values(bootstrap_servers, f"{shop}.{topic}", is_committed=False)
        counts = Counter(json.loads(each)["order"] for each in written)
        assert counts == {**dict.fromkeys(SHOP_ORDERS, 1), "order-4": 2}


def worked(path: Path) -> list[str]:
    """Return for which orders a service did its work, in the order in which it did."""
    with closing(sqlite3.connect(path)) as database:
        return [row[0] for row in database.execute("SELECT name FROM work ORDER BY number")]
