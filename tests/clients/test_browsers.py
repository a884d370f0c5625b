"""Clients in a web browser, unchanged: mqtt.js, @stomp/stompjs and nats.js in Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from paho.mqtt.client import MQTTv5

from kafkaesque import Client
from kafkaesque.cli import exchange_requests, routes
from kafkaesque.cli.broker_ports import unused_ports
from tests.clients import browser_pages
from tests.clients.browser_pages import Browser, PageServer
from tests.clients.cluster import KafkaesqueCluster
from tests.clients.kafka_helpers import Sent, TopicMaker, consume_all, produce
from tests.clients.mqtt_cluster import Paho, new_name
from tests.waiting import eventually

pytestmark = pytest.mark.skipif(
    bool(browser_pages.missing()), reason=browser_pages.missing() or "all is there"
)
#: How a client writes names of `amq.topic`.
WAYS = {"mqtt": "{}", "nats": "{}", "stomp": "/topic/{}"}


class WebCluster(KafkaesqueCluster):
    """Brokers of ours, with ports for WebSocket and MQTT, that let pages of one origin in."""

    def __init__(self, brokers: int, directory: Path, origin: str) -> None:
        self.web_ports = unused_ports(brokers)
        self.mqtt_ports = unused_ports(brokers)
        self._origin = origin
        super().__init__(brokers, directory=directory, sections=self._section)

    def _section(self, number: int) -> str:
        return (
            f'\n[[listener]]\nprotocol = "mqtt"\nport = {self.mqtt_ports[number - 1]}\n'
            f'\n[[listener]]\nprotocol = "websocket"\nport = {self.web_ports[number - 1]}\n'
            f'origins = "{self._origin}"\n'
        )


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    found = Browser(tmp_path_factory.mktemp("chromium"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[PageServer, PageServer]]:
    """Of pages that may connect, and of a stranger's."""
    found = PageServer(), PageServer()
    yield found
    for each in found:
        each.close()


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, servers: tuple[PageServer, PageServer]
) -> Iterator[WebCluster]:
    with WebCluster(1, tmp_path_factory.mktemp("web"), servers[0].origin) as found:
        yield found


@pytest.fixture(scope="module")
def onward(cluster: WebCluster) -> str:
    """A topic whose records reach subscribers."""
    topic = TopicMaker(cluster.bootstrap_servers)("onward", partitions=1, replication=1)
    with Client(cluster.bootstrap_servers) as client:
        client.create_queue(
            "relay", forward_exchange="amq.topic", source_topic=topic, source_start="earliest"
        )
    return topic


def bound_topic(cluster: WebCluster, root: str) -> str:
    """A topic that gets what is published under a name."""
    topic = TopicMaker(cluster.bootstrap_servers)("bound", partitions=1, replication=1)
    where = exchange_requests.Where(cluster.bootstrap_servers, "/")
    binding = routes.binding_of(root, topic, None, beside=False)
    exchange_requests.alter_binding(where, binding, exchange_requests.CREATE)
    return topic


@pytest.mark.parametrize("protocol", WAYS)
def test_a_page_and_kafkas_clients_reach_one_another(
    browser: Browser,
    servers: tuple[PageServer, PageServer],
    cluster: WebCluster,
    onward: str,
    protocol: str,
) -> None:
    root = new_name("web")
    topic = bound_topic(cluster, root)
    with browser.open(
        servers[0], protocol, ports=cluster.web_ports, root=root, client=root
    ) as page:
        if protocol == "mqtt":
            assert page.told("connected") == {"session": False}
            assert page.told("subscribed") == [2]
        else:
            page.told("subscribed")
        heard = page.messages(3)
        names = [f"{root}.page.{n}" for n in range(3)]
        written = [WAYS[protocol].format(name) for name in names]
        if protocol == "mqtt":
            written = [name.replace(".", "/") for name in written]
            assert [each["qos"] for each in heard] == [0, 1, 2]
        assert [each["name"] for each in heard] == written
        assert [each["text"] for each in heard] == ["mé0", "mé1", "mé2"]

        key = f"{root}.kafka".encode()
        produce(cluster.bootstrap_servers, onward, [Sent(key=key, value="dé Kafka".encode())])
        (message,) = page.messages(1)
        assert message["text"] == "dé Kafka"
        assert message["name"].replace("/", ".").endswith(f"{root}.kafka")

    def has_all() -> bool:
        records = consume_all(cluster.bootstrap_servers, topic)
        return [(each.key(), each.value()) for each in records] == [
            *((name.encode(), f"mé{n}".encode()) for n, name in enumerate(names)),
            (key, "dé Kafka".encode()),
        ]

    eventually(has_all, "Kafka's consumer has what the page has published")


@pytest.mark.parametrize(
    "protocol",
    ["mqtt", *(pytest.param(each, marks=pytest.mark.extended) for each in ("nats", "stomp"))],
)
def test_pages_of_strangers_are_refused(
    browser: Browser,
    servers: tuple[PageServer, PageServer],
    cluster: WebCluster,
    protocol: str,
) -> None:
    given = {"ports": cluster.web_ports, "root": new_name("web"), "client": new_name("web")}
    with browser.open(servers[1], protocol, **given) as page:
        assert page.told("closed")
    with browser.open(servers[0], protocol, **given) as page:
        page.told("connected" if protocol == "mqtt" else "subscribed")


@contextmanager
def publisher(port: int) -> Iterator[Paho]:
    client = Paho(new_name("publisher"), MQTTv5)
    client.connect(port)
    try:
        yield client
    finally:
        client.close()


@pytest.mark.extended
def test_a_session_survives_its_tab_and_the_death_of_its_broker(
    browser: Browser, servers: tuple[PageServer, PageServer], cluster: WebCluster
) -> None:
    root = new_name("web")
    given = {"ports": cluster.web_ports, "root": root, "client": root, "kept": True}
    with browser.open(servers[0], "mqtt", **given) as page:
        assert page.told("connected") == {"session": False}
        page.told("subscribed")
    with publisher(cluster.mqtt_ports[0]) as client:
        # mqtt.js has a message of QoS 2 when it is released: after others that came meanwhile.
        for number, qos in enumerate((1, 1, 2)):
            client.publish(f"{root}/waits", f"w{number}", qos)
    cluster.brokers[0].kill()
    cluster.start()
    with browser.open(servers[0], "mqtt", **given) as page:
        assert page.told("connected") == {"session": True}
        found = [(each["text"], each["qos"]) for each in page.messages(3)]
        assert found == [("w0", 1), ("w1", 1), ("w2", 2)]


@pytest.mark.extended
def test_a_page_goes_on_at_another_broker(
    browser: Browser, servers: tuple[PageServer, PageServer], tmp_path: Path
) -> None:
    root = new_name("web")
    with WebCluster(3, tmp_path, servers[0].origin) as cluster:
        given = {"ports": cluster.web_ports, "root": root, "client": root, "kept": True}
        with (
            browser.open(servers[0], "mqtt", **given, reconnect_ms=100) as page,
            publisher(cluster.mqtt_ports[2]) as client,
        ):
            assert page.told("connected") == {"session": False}
            page.told("subscribed")
            client.publish(f"{root}/here", "before", qos=2)
            assert [each["text"] for each in page.messages(1)] == ["before"]
            cluster.brokers[0].kill()
            for number in range(5):
                client.publish(f"{root}/here", f"m{number}", qos=2)
            while (told := page.next()).get("closed"):
                pass
            assert told == {"connected": {"session": True}}
            assert [each["text"] for each in page.messages(5)] == [f"m{n}" for n in range(5)]
