"""Channels and consumers in RabbitMQ's API: whose they are, and how many are told of."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from kafkaesque.admin.api import connection_part
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.sim.cluster import ADMIN_PORT
from tests.unit.admin.api_ground import Browser
from tests.unit.gateway_amqp.kit import AmqpClient, Ground

#: What programs send, and web pages cannot.
LOGIN = {"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="}


class Asking:
    """Asks a broker's API."""

    def __init__(self, ground: Ground) -> None:
        machine = ground.world.add_machine("browser")
        self._browser = Browser(ground.world, machine, ground.cluster.names[0], ADMIN_PORT)
        self._browser.host = "localhost"

    def status(self, method: str, path: str) -> int:
        told = self._browser.ask(method, f"/rabbitmq/api{path}", LOGIN)
        return told.status

    def get(self, path: str) -> Any:
        told = self._browser.ask("GET", f"/rabbitmq/api{path}", LOGIN)
        assert told.status == 200, told
        return told.json


@pytest.fixture
def ground() -> Ground:
    return Ground(seed=3, brokers=2)


@pytest.fixture
def asking(ground: Ground) -> Asking:
    return Asking(ground)


def consume(client: AmqpClient, channel: int, queue: str, tag: str, prefetch: int) -> None:
    client.call(m.BasicQos(prefetch_count=prefetch), m.BasicQosOk, channel)
    client.call(m.BasicConsume(queue=queue, consumer_tag=tag), m.BasicConsumeOk, channel)


def places(found: list[dict[str, Any]]) -> list[tuple[str, str, int, int]]:
    """Return of consumers their tag, virtual host, channel and prefetch."""
    return sorted(
        (
            each["consumer_tag"],
            each["queue"]["vhost"],
            each["channel_details"]["number"],
            each["prefetch_count"],
        )
        for each in found
    )


def test_each_channel_and_consumer_is_shown_at_its_own_connection(
    ground: Ground, asking: Asking
) -> None:
    assert asking.status("PUT", "/vhosts/b") == 201
    ground.wait(1_000)
    first, second, third = ground.client(1), ground.client(2), ground.client(2, vhost="b")
    for client, numbers in ((first, (1, 2)), (second, (1,)), (third, (1, 4))):
        for number in numbers:
            client.open(number)
    queue, other = first.queue(), third.queue()
    consume(first, 1, queue, "first-1", 11)
    consume(first, 2, queue, "first-2", 12)
    first.call(m.BasicQos(prefetch_count=99, is_global=True), m.BasicQosOk, 2)
    consume(second, 1, queue, "second-1", 21)
    consume(third, 4, other, "third-4", 34)
    # Of consumers that come, and not of those that are there.
    first.call(m.BasicQos(prefetch_count=13), m.BasicQosOk, 2)

    of_first = [("first-1", "/", 1, 11), ("first-2", "/", 2, 12)]
    of_second, of_third = [("second-1", "/", 1, 21)], [("third-4", "b", 4, 34)]
    consumers = asking.get("/consumers")
    assert places(consumers) == [*of_first, *of_second, *of_third]
    assert places(asking.get("/consumers/%2F")) == [*of_first, *of_second]
    assert places(asking.get("/consumers/b")) == of_third

    by_tag = {each["consumer_tag"]: each["channel_details"] for each in consumers}
    names = {tag: details["connection_name"] for tag, details in by_tag.items()}
    assert len({names["first-1"], names["second-1"], names["third-4"]}) == 3
    assert names["first-1"] == names["first-2"]
    assert {tag: details["node"] for tag, details in by_tag.items()} == {
        "first-1": "kafkaesque@1",
        "first-2": "kafkaesque@1",
        "second-1": "kafkaesque@2",
        "third-4": "kafkaesque@2",
    }

    every = {each["name"]: each for each in asking.get("/channels")}
    shown = {tag: every[details["name"]] for tag, details in by_tag.items()}
    said = {
        tag: (each["vhost"], each["number"], each["prefetch_count"], each["global_prefetch_count"])
        for tag, each in shown.items()
    }
    assert said == {
        "first-1": ("/", 1, 11, 0),
        "first-2": ("/", 2, 13, 99),
        "second-1": ("/", 1, 21, 0),
        "third-4": ("b", 4, 34, 0),
    }
    assert sorted(each["consumer_count"] for each in every.values()) == [0, 1, 1, 1, 1]
    for vhost, count in (("%2F", 3), ("b", 2)):
        channels = asking.get(f"/vhosts/{vhost}/channels")
        assert {quote(each["vhost"], safe="") for each in channels} == {vhost}
        assert len(channels) == count
    for vhost, tags in (("%2F", ("first-1", "second-1")), ("b", ("third-4",))):
        found = {each["name"] for each in asking.get(f"/vhosts/{vhost}/connections")}
        assert found == {names[tag] for tag in tags}
    for tag, shown_numbers in (("first-1", [1, 2]), ("second-1", [1]), ("third-4", [1, 4])):
        path = f"/connections/{quote(names[tag], safe='')}"
        channels = asking.get(f"{path}/channels")
        assert [each["number"] for each in channels] == shown_numbers
        assert {each["connection_details"]["name"] for each in channels} == {names[tag]}
        assert asking.get(path)["channels"] == len(shown_numbers)


def test_a_broker_tells_of_a_bounded_number_and_counts_all(
    ground: Ground, asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_part, "CHANNELS_MAX", 3)
    monkeypatch.setattr(connection_part, "CONSUMERS_MAX", 3)
    clients = [ground.client(1), ground.client(1)]
    for client in clients:
        client.open(1)
        client.open(2)
    queue = clients[0].queue()
    for client in clients:
        for number in range(4):
            consume(client, 1 + number % 2, queue, f"c{number}", 1)
    assert len(asking.get("/consumers")) == 3
    assert [each["consumer_count"] for each in asking.get("/channels")] == [2, 2, 2]
    assert [each["channels"] for each in asking.get("/vhosts/%2F/connections")] == [2, 2]
