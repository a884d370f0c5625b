"""The pipeline `conversion`: five producers' forms, one canonical, five consumers', ten rules."""

from __future__ import annotations

import csv
import hashlib
import hmac
import io
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import fastavro
import pytest
from confluent_kafka.admin import NewTopic
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kafkaesque.spark.conversion.load import load_rules
from kafkaesque.spark.pipelines.templates import copy_template
from tests.clients.kafka_helpers import Sent, admin_client, consume, produce, unique
from tests.spark.pipelines.command import pipeline
from tests.spark.pipelines.local_flows import run_flows

SALT = "a salt of the tests"
RULES = ("orders.shop", "orders.app", "orders.partner", "orders.till", "orders.marketplace")
CONSUMERS = ("billing", "analytics", "support", "ledger", "warehouse")

TILL = {
    "receipt": "T-1",
    "at": datetime(2026, 3, 2, 10, 0, tzinfo=UTC),
    "sum": Decimal("9.99"),
    "card": "5555444433331111",
    "articles": [{"ean": "4006381333931", "pieces": 3}],
}
MARKET = {
    "id": "W-1",
    "placed_at_s": 1772449200,
    "currency": "CZK",
    "amount": "250",
    "buyer": {"name": "Kafka", "country": "CZ"},
    "lines": [{"sku": "desk", "quantity": 1}],
}

# What each order has to become, written by hand: canonical id, time in UTC, channel, amount,
# currency, first and last name, mail, country, its name, card, items.
ORDERS: dict[str, tuple[Any, ...]] = {
    "A-1001": (
        *("2026-03-02T07:14:00", "shop", "129.90", "EUR", "Jana", "Novák", "jana@example.com"),
        *("CZ", "Czechia", "4111111111111111", None),
    ),
    "A-1002": (
        *("2026-03-02T07:15:00", "shop", "15.00", "EUR", "Maximilian", 'Meyer "Max"'),
        *("max@example.com", "DE", "Germany", None, None),
    ),
    "M-1": (
        *("2026-03-02T07:14:00", "app", "20.00", "USD", "Ada", "King", "ada@example.com"),
        *("GB", "?", None, [("tea", 2), ("milk", 1)]),
    ),
    "M-2": (
        *("2026-03-02T07:15:00", "app", "3.50", "EUR", "Jana", "Novák", "jana@example.com"),
        *("CZ", "Czechia", None, []),
    ),
    "P-7": (
        *("2026-03-02T08:00:00", "partner", "55.00", "EUR", "Anne", "Dupont", "anne@example.com"),
        *("FR", "France", None, [("pen", 10), ("ink", 1)]),
    ),
    "T-1": (
        *("2026-03-02T10:00:00", "till", "9.99", "EUR", None, None, None),
        *(None, None, "5555444433331111", [("4006381333931", 3)]),
    ),
    "W-1": (
        *("2026-03-02T11:00:00", "marketplace", "250.00", "CZK", None, "Kafka", None),
        *("CZ", "Czechia", None, [("desk", 1)]),
    ),
}


class Conversion:
    """A project made of the template, with topics of its own."""

    def __init__(self, folder: Path, bootstrap_servers: str) -> None:
        copy_template("conversion", folder)
        self.folder = folder
        self.servers = bootstrap_servers
        self.prefix = f"{unique('conversion')}."
        self.bad = self.prefix + "bad"
        self.settings = {
            "kafkaesque.bootstrap.servers": bootstrap_servers,
            "kafkaesque.conversion.topic.prefix": self.prefix,
            "kafkaesque.conversion.bad.topic": self.bad,
            "kafkaesque.conversion.salt": SALT,
        }
        names = [*RULES, "orders", "bad", *(f"{each}.orders" for each in CONSUMERS)]
        self._create([self.prefix + name for name in names])

    def _create(self, names: list[str]) -> None:
        admin = admin_client(self.servers)
        for future in admin.create_topics([NewTopic(name, 2, 3) for name in names]).values():
            future.result()

    def publish(self, topic: str, *values: bytes) -> list[tuple[bytes, int, int]]:
        """Return where each value is."""
        sent = [Sent(key=b"key %d" % number, value=each) for number, each in enumerate(values)]
        reports: list[Any] = produce(self.servers, self.prefix + topic, sent)
        return [(each.value(), each.partition(), each.offset()) for each in reports]

    def read(self, topic: str, count: int) -> list[Any]:
        return consume(
            *(self.servers, self.prefix + topic, count),
            isolation_level="read_committed",
            at_rest_s=1.0,
        )


@pytest.fixture
def conversion(tmp_path: Path, cluster: Any, bootstrap_servers: str) -> Conversion:
    return Conversion(tmp_path / "conversion", bootstrap_servers)


def avro_schema(folder: Path, name: str) -> Any:
    return fastavro.parse_schema(json.loads((folder / f"rules/schemas/{name}.avsc").read_text()))


def till_message(folder: Path) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, avro_schema(folder, "till"), TILL)
    return b"\0\0\0\0\5" + out.getvalue()


def proto(folder: Path, name: str) -> Any:
    pool = descriptor_pool.DescriptorPool()
    text = (folder / "rules/schemas/marketplace.desc").read_bytes()
    for file in descriptor_pb2.FileDescriptorSet.FromString(text).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"marketplace.{name}"))


def publish_all(conversion: Conversion) -> list[tuple[str, bytes, int, int]]:
    """Publish the samples and more; returns those that cannot be converted, with their places."""
    folder = conversion.folder
    samples = {
        "orders.shop": (folder / "data/shop.csv").read_bytes().splitlines(),
        "orders.app": (folder / "data/app.json").read_bytes().splitlines(),
        "orders.partner": (folder / "data/partner.xml").read_bytes().splitlines(),
        "orders.till": [till_message(folder), till_message(folder)[:-2], b"no frame"],
        "orders.marketplace": [proto(folder, "Order")(**MARKET).SerializeToString(), b"\xff\xff"],
    }
    good = {"orders.shop": 2, "orders.app": 2}
    bad = []
    for topic, values in samples.items():
        places = conversion.publish(topic, *values)
        bad += [(topic, *place) for place in places if values.index(place[0]) >= good.get(topic, 1)]
    assert len(bad) == 2 + 1 + 1 + 2 + 1
    return bad


def test_every_producers_messages_reach_every_consumer(spark: Any, conversion: Conversion) -> None:
    bad = publish_all(conversion)
    run_flows(spark, conversion.folder, conversion.settings)
    check_canonical(conversion)
    check_bad(conversion, bad)
    check_billing(conversion)
    check_analytics(conversion)
    check_support(conversion)
    check_ledger(conversion)
    check_warehouse(conversion)

    run_flows(spark, conversion.folder, conversion.settings)
    assert len(conversion.read("ledger.orders", len(ORDERS))) == len(ORDERS)
    assert len(conversion.read("bad", len(bad))) == len(bad)


def check_canonical(conversion: Conversion) -> None:
    found = {}
    for message in conversion.read("orders", len(ORDERS)):
        order = json.loads(message.value(), parse_float=Decimal)
        assert message.key().decode() == order["id"]
        customer = order.get("customer", {})
        items = order.get("items")
        names = ("first", "last", "email", "country", "country_name", "card")
        assert order["placed_at"].endswith(".000Z")
        found[order["id"]] = (
            *(order["placed_at"][:-5], order["channel"], str(order["amount"]), order["currency"]),
            *(customer.get(name) for name in names),
            None if items is None else [(each["sku"], each["quantity"]) for each in items],
        )
    assert found == ORDERS


def check_bad(conversion: Conversion, bad: list[tuple[str, bytes, int, int]]) -> None:
    reasons = {}
    for message in conversion.read("bad", len(bad)):
        told = {name: value.decode() for name, value in message.headers()}
        topic = told["topic"].removeprefix(conversion.prefix)
        place = (topic, message.value(), int(told["partition"]), int(told["offset"]))
        reasons[place] = told["reason"]
        assert message.key().startswith(b"key ")
    assert set(reasons) == set(bad)
    beginnings = {value[:6]: reason for (_, value, _, _), reason in reasons.items()}
    assert beginnings[b"A-1003"] == (
        "the field placed_at must be a timestamp, and '30.02.2026 08:16' (from date) is not one"
    )
    assert beginnings[b"A-1004"] == "the value is no line of CSV with 7 columns"
    assert beginnings[b"no fra"].startswith("the value does not begin with a zero byte")


def check_billing(conversion: Conversion) -> None:
    found = {}
    for message in conversion.read("billing.orders", len(ORDERS)):
        root = ElementTree.fromstring(message.value())
        amount = root.find("Amount")
        assert root.tag == "Invoice"
        assert amount is not None
        texts = (root.findtext("Date"), root.findtext("Customer"), root.findtext("Country"))
        found[root.attrib["order"]] = (*texts, amount.text, amount.attrib["currency"])
    assert found["A-1002"] == (
        *("2026-03-02 08:15", 'Maximilian Meyer "Max"', "Germany", "15.00", "EUR"),
    )
    assert found["T-1"] == ("2026-03-02 11:00", "unknown", None, "9.99", "EUR")
    assert set(found) == set(ORDERS)


def check_analytics(conversion: Conversion) -> None:
    schema, found = avro_schema(conversion.folder, "analytics"), {}
    names = ("sku", "quantity")
    for message in conversion.read("analytics.orders", len(ORDERS)):
        assert message.value()[:5] == b"\0\0\0\0\x0c"
        order: Any = fastavro.schemaless_reader(io.BytesIO(message.value()[5:]), schema, None)
        found[order.pop("id")] = order
    assert set(found) == set(ORDERS)
    for name, (at, channel, amount, _, _, _, mail, country, _, _, items) in ORDERS.items():
        hashed = mail and hmac.digest(SALT.encode(), mail.encode(), hashlib.sha256).hex()
        assert found[name] == {
            "placed_at": datetime.fromisoformat(at).replace(tzinfo=UTC),
            "channel": channel,
            "amount": Decimal(amount),
            "country": country or "??",
            "customer": hashed,
            "items": None
            if items is None
            else [dict(zip(names, each, strict=True)) for each in items],
        }


def check_support(conversion: Conversion) -> None:
    found = {}
    for message in conversion.read("support.orders", len(ORDERS)):
        order = json.loads(message.value())
        found[order["order"]] = order
        mail = ORDERS[order["order"]][6]
        assert message.key() == (mail and mail.encode())
        assert mail is None or mail.encode() not in message.value()
    assert found["A-1001"] == {
        "order": "A-1001",
        "at": 1772435640000,
        "mail": "*****",
        "card": "*****1111",
        "name": {"first": "Jana", "last": "Novák"},
    }
    assert found["P-7"]["articles"] == [
        {"sku": "pen", "quantity": 10},
        {"sku": "ink", "quantity": 1},
    ]
    assert set(found) == set(ORDERS)


def check_ledger(conversion: Conversion) -> None:
    messages = conversion.read("ledger.orders", len(ORDERS))
    rows = csv.reader([message.value().decode() for message in messages], delimiter=";")
    expected = {
        (name, "02.03.2026", channel, amount, currency)
        for name, (_, channel, amount, currency, *_) in ORDERS.items()
    }
    assert {tuple(row) for row in rows} == expected


def check_warehouse(conversion: Conversion) -> None:
    kind, found = proto(conversion.folder, "Picking"), {}
    for message in conversion.read("warehouse.orders", len(ORDERS)):
        order = kind.FromString(message.value())
        lines = [(line.sku, line.quantity) for line in order.lines]
        name = kind.DESCRIPTOR.fields_by_name["channel"].enum_type.values_by_number[order.channel]
        found[order.order] = (lines, name.name)
    channels = {"shop": "ONLINE", "app": "ONLINE", "till": "STORE"}
    assert found == {
        name: (order[-1] or [], channels.get(order[1], "RESALE")) for name, order in ORDERS.items()
    }


@pytest.mark.timeout(900)
def test_the_project_runs_by_its_command(conversion: Conversion) -> None:
    """With the rules of one producer and one consumer; what comes of them is there once."""
    for path in conversion.folder.glob("rules/*s/*.toml"):
        if path.stem not in ("shop", "ledger"):
            path.unlink()
    conversion.publish(
        "orders.shop", *(conversion.folder / "data/shop.csv").read_bytes().split(b"\n")
    )
    for _ in range(2):
        done = pipeline("run", conversion.folder, conversion.settings)
        assert done.returncode == 0, done.stdout + done.stderr
    found = [message.value() for message in conversion.read("ledger.orders", 2)]
    assert sorted(found) == [
        b"A-1001;02.03.2026;shop;129.90;EUR",
        b"A-1002;02.03.2026;shop;15.00;EUR",
    ]
    assert len(conversion.read("bad", 3)) == 3


@pytest.mark.timeout(900)
def test_mistakes_in_rules_are_told_before_anything_runs(conversion: Conversion) -> None:
    path = conversion.folder / "rules/producers/shop.toml"
    text = path.read_text()
    path.write_text(text.replace('amount = "total"', 'amount = "price"'))
    done = pipeline("dry-run", conversion.folder, conversion.settings)
    assert done.returncode != 0
    assert (
        "producers/shop.toml: field amount: from: there is no field 'price'; there are order_no,"
        in done.stderr
    )
    path.write_text(text)
    done = pipeline("dry-run", conversion.folder, conversion.settings)
    assert done.returncode == 0, done.stderr


def test_the_rules_of_the_project_are_those_that_are_documented(conversion: Conversion) -> None:
    rules = load_rules(conversion.folder / "rules", salt=SALT)
    assert {rule.topics[0] for rule in rules.producers} == set(RULES)
    assert {rule.topics[0] for rule in rules.consumers} == {f"{each}.orders" for each in CONSUMERS}
