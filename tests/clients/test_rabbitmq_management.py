"""RabbitMQ's management API, by a client that was written for RabbitMQ, and by plain HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from amqpstorm.management.api import ManagementApi
from amqpstorm.management.exception import ApiError

from tests.clients.amqp_cluster import new_name
from tests.clients.rabbitmq_cluster import RabbitMqCluster
from tests.waiting import eventually


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMqCluster]:
    with RabbitMqCluster(3, tmp_path_factory.mktemp("rabbitmq")) as found:
        yield found


@pytest.fixture
def api(cluster: RabbitMqCluster) -> ManagementApi:
    return cluster.management()


def test_the_cluster_says_what_it_is(cluster: RabbitMqCluster, api: ManagementApi) -> None:
    overview = api.overview()
    assert overview["product_name"] == "Kafkaesque"
    assert overview["management_version"] == "3.13.0"
    ports = {each["port"] for each in overview["listeners"] if each["protocol"] == "amqp"}
    assert ports == set(cluster.amqp_ports)
    nodes = api.nodes()
    assert [each["name"] for each in nodes] == [f"kafkaesque@{n}" for n in (1, 2, 3)]
    assert all(each["running"] and each["mem_used"] > 0 for each in nodes)
    assert api.node("kafkaesque@2")["disk_free"] > 0
    # The port is open: it asks nobody who they are, and everybody may do everything.
    assert api.whoami() == {"name": "anonymous", "tags": ["administrator"]}
    assert api.aliveness_test("/") == {"status": "ok"}
    assert api.healthchecks.get() == {"status": "ok"}


def test_a_queue_is_declared_bound_filled_read_and_deleted(api: ManagementApi) -> None:
    queue, exchange = new_name("orders"), new_name("shop")
    api.exchange.declare(exchange, "topic", durable=True)
    api.queue.declare(queue, durable=True, arguments={"x-max-length": 100})
    api.queue.declare(queue, durable=True, arguments={"x-max-length": 100})
    api.queue.bind(queue, exchange, "orders.#")
    bindings = api.queue.bindings(queue)
    assert [(each["source"], each["routing_key"]) for each in bindings] == [
        ("", queue),
        (exchange, "orders.#"),
    ]
    properties = {"content_type": "text/plain", "headers": {"shop": 7}, "priority": 3}
    assert api.basic.publish("hello", "orders.eu", exchange, properties=properties)["routed"]
    assert not api.basic.publish("hello", "bills.eu", exchange)["routed"]
    shown = api.queue.get(queue)
    assert (shown["messages"], shown["messages_ready"], shown["durable"]) == (1, 1, True)
    assert shown["arguments"] == {"x-max-length": 100}
    kept: Any
    taken: Any
    (kept,) = api.basic.get(queue, requeue=True, to_dict=True)
    assert kept["payload"] == "hello"
    assert (kept["exchange"], kept["routing_key"]) == (exchange, "orders.eu")
    assert kept["properties"] == properties
    (taken,) = api.basic.get(queue)
    assert taken.body == "hello"
    assert api.basic.get(queue) == []
    # The client writes it into the path as it is.
    api.queue.unbind(queue, exchange, "", properties_key="orders.%23")
    assert not api.basic.publish("hello", "orders.eu", exchange)["routed"]
    api.queue.delete(queue)
    api.exchange.delete(exchange)
    with pytest.raises(ApiError, match="NOT-FOUND"):
        api.queue.get(queue)
    with pytest.raises(ApiError, match="NOT-FOUND"):
        api.exchange.get(exchange)


def test_channels_and_consumers_are_those_of_all_brokers(
    cluster: RabbitMqCluster, api: ManagementApi
) -> None:
    queue = new_name("consumed")
    with cluster.connected(2) as connection:
        idle, channel = connection.channel(), connection.channel()
        idle.tx_select()
        idle.basic_publish("", queue, "not yet")
        channel.queue_declare(queue, durable=True)
        channel.confirm_delivery()
        for _ in range(3):
            channel.basic_publish("", queue, "x")
        channel.basic_qos(prefetch_count=2)
        channel.basic_consume(queue, lambda *_: None, arguments={"x-priority": 5})
        connection.process_data_events(0.1)

        def consumers() -> list[Any]:
            found: list[Any] = cluster.ask("GET", "/consumers/%2F").json()
            return [each for each in found if each["queue"]["name"] == queue]

        eventually(lambda: len(consumers()) == 1, "the consumer is shown")
        (consumer,) = consumers()
        assert consumer["queue"] == {"name": queue, "vhost": "/"}
        assert (consumer["ack_required"], consumer["prefetch_count"]) == (True, 2)
        assert (consumer["exclusive"], consumer["arguments"]) == (False, {"x-priority": 5})
        details = consumer["channel_details"]
        assert (details["number"], details["node"]) == (2, "kafkaesque@2")
        shown: Any = {
            each["number"]: each
            for each in api.channel.list()
            if each["connection_details"]["name"] == details["connection_name"]
        }
        assert sorted(shown) == [1, 2]
        assert shown[1]["transactional"]
        assert shown[1]["messages_uncommitted"] == 1
        assert (shown[2]["confirm"], shown[2]["prefetch_count"]) == (True, 2)
        assert (shown[2]["consumer_count"], shown[2]["vhost"]) == (1, "/")
        eventually(
            lambda: api.channel.get(details["name"])["messages_unacknowledged"] == 2,
            "two messages are with the consumer",
        )
        path = f"/connections/{quote(details['connection_name'], safe='')}"
        assert len(cluster.ask("GET", f"{path}/channels").json()) == 2
        one = cluster.ask("GET", path).json()
        assert (one["vhost"], one["channels"]) == ("/", 2)
        for of in ("connections", "channels"):
            assert cluster.ask("GET", f"/vhosts/%2F/{of}").json()
            assert cluster.ask("GET", f"/vhosts/none/{of}").status_code == 404
        assert cluster.ask("GET", "/connections/none/channels").status_code == 404
    eventually(lambda: not consumers(), "the consumer has gone with its connection")
    api.queue.delete(queue)


@pytest.mark.parametrize(
    "check",
    ["alarms", "local-alarms", "is-in-service", "ready-to-serve-clients", "virtual-hosts"],
)
def test_health_checks(cluster: RabbitMqCluster, check: str) -> None:
    assert cluster.ask("GET", f"/health/checks/{check}").json() == {"status": "ok"}
    assert cluster.ask("GET", "/auth").json() == {"oauth_enabled": False}


def test_numbers_and_flags_may_be_texts(cluster: RabbitMqCluster, api: ManagementApi) -> None:
    """`rabbitmqadmin` writes all that is no JSON as text."""
    queue, exchange = new_name("orders"), new_name("shop")
    flags = {"vhost": "/", "durable": "true", "auto_delete": "false"}
    said = {**flags, "name": queue, "arguments": {"x-max-length": 100}}
    assert cluster.ask("PUT", f"/queues/%2F/{queue}", said).status_code == 201
    said = {**flags, "name": exchange, "type": "fanout", "internal": "true", "arguments": {}}
    assert cluster.ask("PUT", f"/exchanges/%2F/{exchange}", said).status_code == 201
    shown = api.exchange.get(exchange)
    assert (shown["internal"], shown["auto_delete"]) == (True, False)
    assert api.queue.get(queue)["arguments"] == {"x-max-length": 100}
    api.basic.publish("one", queue)
    api.basic.publish("two", queue)
    wanted = {"vhost": "/", "count": "2", "ackmode": "ack_requeue_false", "encoding": "auto"}
    told = cluster.ask("POST", f"/queues/%2F/{queue}/get", {**wanted, "queue": queue})
    assert [each["payload"] for each in told.json()] == ["one", "two"]
    assert cluster.ask("PUT", f"/queues/%2F/{queue}", {"durable": "yes"}).status_code == 400


def test_what_clients_of_amqp_declare_and_publish_is_shown(
    cluster: RabbitMqCluster, api: ManagementApi
) -> None:
    queue = new_name("seen")
    with cluster.connected(2) as connection:
        channel = connection.channel()
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "lost"}
        channel.queue_declare(queue, durable=True, arguments=arguments)
        channel.confirm_delivery()
        for number in range(5):
            channel.basic_publish("", queue, str(number))
        channel.basic_qos(prefetch_count=2)
        channel.basic_consume(queue, lambda *_: None)
        connection.process_data_events(0.1)

        def is_shown() -> bool:
            found = api.queue.get(queue)
            return (found["messages_ready"], found["messages_unacknowledged"]) == (3, 2)

        eventually(is_shown, "two messages are with the consumer")
        found = api.queue.get(queue)
        assert (found["messages"], found["consumers"]) == (5, 1)
        assert found["arguments"] == arguments
        names = [each["user"] for each in api.connection.list() if each["protocol"] == "AMQP 0-9-1"]
        assert names

    def is_empty() -> bool:
        # What the consumer had comes back when its connection is closed.
        api.queue.purge(queue)
        return bool(api.queue.get(queue)["messages"] == 0)

    eventually(is_empty, "the queue is empty")


def test_a_body_that_is_no_text_comes_as_base64(
    cluster: RabbitMqCluster, api: ManagementApi
) -> None:
    queue = new_name("bytes")
    api.queue.declare(queue, durable=True)
    path = "/exchanges/%2F/amq.default/publish"
    body = {
        "routing_key": queue,
        "payload": "/wA=",
        "payload_encoding": "base64",
        "properties": {"delivery_mode": 2, "message_id": "one"},
    }
    assert cluster.ask("POST", path, body).json() == {"routed": True}
    wanted = {"count": 5, "ackmode": "reject_requeue_false", "encoding": "auto"}
    (message,) = cluster.ask("POST", f"/queues/%2F/{queue}/get", wanted).json()
    assert (message["payload"], message["payload_encoding"]) == ("/wA=", "base64")
    assert message["properties"] == {"delivery_mode": 2, "message_id": "one"}
    assert message["payload_bytes"] == 2
    eventually(lambda: api.queue.get(queue)["messages"] == 0, "it is done with")


def test_exchanges_are_bound_to_one_another(api: ManagementApi) -> None:
    first, second, queue = new_name("first"), new_name("second"), new_name("last")
    api.exchange.declare(first, "direct", durable=True)
    api.exchange.declare(second, "headers", durable=True)
    api.queue.declare(queue, durable=True)
    api.exchange.bind(second, first, "a key~/with signs")
    api.queue.bind(queue, second, "", arguments={"x-match": "any", "kind": "bill"})
    (binding,) = api.exchange.bindings(first)
    assert binding["properties_key"] == "a+key%7E%2Fwith+signs"
    message = {"headers": {"kind": "bill"}}
    assert api.basic.publish("pay", "a key~/with signs", first, properties=message)["routed"]
    (other,) = api.exchange.bindings(second)
    assert other["arguments"] == {"x-match": "any", "kind": "bill"}
    api.queue.unbind(queue, second, "", properties_key=other["properties_key"])
    assert not api.basic.publish("pay", "a key~/with signs", first, properties=message)["routed"]
    api.exchange.unbind(
        second, first, "a key~/with signs", properties_key=binding["properties_key"]
    )
    assert api.exchange.bindings(first) == []


def test_virtual_hosts_are_apart(cluster: RabbitMqCluster, api: ManagementApi) -> None:
    vhost, queue = new_name("host/one"), new_name("apart")
    api.virtual_host.create(vhost)
    assert api.virtual_host.get(vhost)["name"] == vhost
    api.queue.declare(queue, vhost, durable=True)
    assert [each["name"] for each in api.queue.list(vhost)] == [queue]
    with pytest.raises(ApiError, match="NOT-FOUND"):
        api.queue.get(queue)
    with cluster.connected(3, virtual_host=vhost) as connection:
        connection.channel().queue_declare(queue, passive=True)
    api.virtual_host.delete(vhost)
    assert vhost not in {each["name"] for each in api.virtual_host.list()}
    assert cluster.ask("GET", f"/queues/{vhost.replace('/', '%2F')}").status_code == 404


def test_lists_are_searched_sorted_and_come_by_page(
    cluster: RabbitMqCluster, api: ManagementApi
) -> None:
    name = new_name("many")
    for number in range(7):
        api.queue.declare(f"{name}.{number}", durable=True)
    assert len(api.queue.list(name=f"^{name}", use_regex=True, page_size=3)) == 7
    query = f"name={name}&page=2&page_size=3&sort=name&sort_reverse=true&columns=name,arguments"
    page = cluster.ask("GET", f"/queues?{query}").json()
    assert page["items"] == [{"name": f"{name}.{n}", "arguments": {}} for n in (3, 2, 1)]
    assert (page["filtered_count"], page["page_count"], page["page_size"]) == (7, 3, 3)
    assert cluster.ask("GET", "/queues?page=1000000").status_code == 400
    assert cluster.ask("GET", "/queues?name=(&use_regex=true").status_code == 400


def test_users_are_made_and_log_in(cluster: RabbitMqCluster, api: ManagementApi) -> None:
    name = new_name("user")
    api.user.create(name, "a long secret", tags="administrator,builders")
    assert api.user.get(name)["tags"] == ["administrator", "builders"]
    assert name in {each["name"] for each in api.user.list()}
    without = cluster.ask("GET", "/users/without-permissions").json()
    assert name in {each["name"] for each in without}
    api.user.delete(name)
    assert name not in {each["name"] for each in api.user.list()}
    other = new_name("user")
    api.user.create(other, "a long secret")
    api.user.delete([other, "nobody"])
    with pytest.raises(ApiError, match="NOT-FOUND"):
        api.user.get(other)


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/queues/nowhere", None, 404),
        ("GET", "/nothing", None, 404),
        ("POST", "/overview", {}, 405),
        ("PUT", "/queues/%2F/bad", {"arguments": {"x-max-length": "many"}}, 400),
        ("PUT", "/queues/%2F/bad", {"durable": "perhaps"}, 400),
        ("PUT", "/queues/%2F/amq.bad", {}, 401),
        ("PUT", "/exchanges/%2F/bad", {"type": "strange"}, 400),
        ("PUT", "/exchanges/%2F/amq.direct", {"type": "fanout"}, 400),
        ("DELETE", "/exchanges/%2F/amq.direct", None, 401),
        ("POST", "/bindings/%2F/e/amq.direct/q/nowhere", {}, 404),
        ("POST", "/bindings/%2F/e/amq.default/q/nowhere", {}, 401),
        ("POST", "/exchanges/%2F/amq.direct/publish", {"payload": "x"}, 400),
        (
            "POST",
            "/exchanges/%2F/amq.direct/publish",
            {"routing_key": "a", "payload": "x", "properties": {"colour": "red"}},
            400,
        ),
        (
            "POST",
            "/exchanges/%2F/amq.direct/publish",
            {"routing_key": "a", "payload": "?", "payload_encoding": "base64"},
            400,
        ),
        (
            "POST",
            "/exchanges/%2F/amq.direct/publish",
            {"routing_key": "a", "payload": "", "properties": {"priority": 300}},
            400,
        ),
    ],
)
def test_mistakes_are_told(
    cluster: RabbitMqCluster, method: str, path: str, body: Any, status: int
) -> None:
    told = cluster.ask(method, path, body)
    assert told.status_code == status, told.text
    assert told.json()["reason"]


def test_another_declaration_is_refused(cluster: RabbitMqCluster, api: ManagementApi) -> None:
    queue = new_name("same")
    api.queue.declare(queue, durable=True)
    told = cluster.ask("PUT", f"/queues/%2F/{queue}", {"durable": False})
    assert told.status_code == 400
    assert "inequivalent arg 'durable'" in told.json()["reason"]
    api.basic.publish("kept", queue)
    assert cluster.ask("DELETE", f"/queues/%2F/{queue}?if-empty=true").status_code == 400
    assert cluster.ask("DELETE", f"/queues/%2F/{queue}").status_code == 204


def test_pages_of_other_origins_change_nothing(cluster: RabbitMqCluster) -> None:
    path = f"/queues/%2F/{new_name('csrf')}"
    assert cluster.ask("PUT", path, {}, auth=None).status_code == 403
    headers = {"Origin": "http://elsewhere.example"}
    assert cluster.ask("PUT", path, {}, headers=headers).status_code == 403
    assert cluster.ask("GET", path).status_code == 404


def test_health_checks_answer_by_their_status(cluster: RabbitMqCluster) -> None:
    checks = "/health/checks"
    for name in ("alarms", "local-alarms", "virtual-hosts", "node-is-quorum-critical"):
        assert cluster.ask("GET", f"{checks}/{name}").json() == {"status": "ok"}
    port = cluster.amqp_ports[0]
    assert cluster.ask("GET", f"{checks}/port-listener/{port}").status_code == 200
    assert cluster.ask("GET", f"{checks}/port-listener/1").status_code == 503
    assert cluster.ask("GET", f"{checks}/protocol-listener/amqp").status_code == 200
    assert cluster.ask("GET", f"{checks}/protocol-listener/mqtt").status_code == 503
