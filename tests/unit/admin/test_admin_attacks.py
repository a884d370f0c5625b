"""What somebody with few rights, or with none, does to the admin port so that it fails others.

Whatever a request holds, it costs itself: a broker that ends by one would end for all.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.admin.api.searching import SEARCHES_MAX, SEARCHES_PER_USER_MAX
from kafkaesque.admin.gateway import CONNECTIONS_MAX
from kafkaesque.admin.http import Request
from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST, QueueName
from kafkaesque.broker.options.queues import DEFAULT_EXCHANGE_WORD
from kafkaesque.chassis import body_room
from kafkaesque.chassis.http_connection import CHUNKS_MAX
from kafkaesque.model.message_headers import DEATH, STORED_AMQP
from kafkaesque.protocols.amqp.properties import NO_PROPERTIES
from kafkaesque.protocols.amqp.stored_message import write_stored
from tests.unit.admin.told import Told
from tests.unit.admin.visits import CHANGE, AdminCluster, Visit
from tests.unit.gateway_kafka.secured import PASSWORD, add_user, allow

_O, _T = Operation, ResourceType
USER = "reader"
NESTED = 2_000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[AdminCluster]:
    made = AdminCluster(tmp_path)
    for name in (USER, "root"):
        add_user(made.live, name)
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminCluster]:
    made = AdminCluster(tmp_path_factory.mktemp("shared"))
    add_user(made.live, "root")
    yield made
    made.close()


def basic(user: str = USER, password: str = PASSWORD) -> dict[str, str]:
    said = base64.b64encode(f"{user}:{password}".encode()).decode()
    return {"Authorization": f"Basic {said}"}


def ask(
    cluster: AdminCluster, method: str, path: str, body: Any = None, *, user: str = USER
) -> Told:
    """Ask with a name and a password."""
    headers = {**CHANGE, **basic(user)} if method != "GET" else basic(user)
    visit = cluster.visit()
    told = visit.ask(method, path, headers, body)
    visit.close()
    return told


def raw(cluster: AdminCluster, data: bytes) -> bytes:
    """Return the first line of what comes for bytes that are sent as they are."""
    visit = cluster.visit()
    visit._writer.write(data)
    line = visit.head().split("\r\n")[0]
    visit.close()
    return line.encode()


# -- what stops a broker


def test_a_name_that_is_no_utf_8_is_nothings(cluster: AdminCluster) -> None:
    """It was refused, and the refusal could not be written to the audit log."""
    for method, path in (
        ("PUT", "/rabbitmq/api/queues/%2F/%FF"),
        ("PUT", "/rabbitmq/api/exchanges/%2F/a%FFb"),
        ("PUT", "/rabbitmq/api/users/%C3%28"),
        ("GET", "/rabbitmq/api/queues/%FF"),
    ):
        for user in (USER, "root"):
            body: Any = None if method == "GET" else {}
            assert ask(cluster, method, path, body, user=user).status == 404, path
    cluster.live.run_for(0.6)
    assert not cluster.live.fatal


def put(cluster: AdminCluster, queue: str, *headers: tuple[str, bytes]) -> None:
    """Put a message as any protocol might."""
    doors, outcomes = cluster.live.broker.doors, list[object]()
    found = doors.cluster.state.queues[QueueName(DEFAULT_VHOST, queue)]
    doors.queues.put(found.topic_id, [NewMessage(b"x", headers=headers)], 5_000, outcomes.append)
    cluster.live.wait(lambda: bool(outcomes), "the message is put")
    assert not isinstance(outcomes[0], Exception)


DEEP = b'{"queue": "q", "vhost": "/", "more": ' + b"[" * NESTED + b"]" * NESTED + b"}"
POISON: dict[str, tuple[str, bytes]] = {
    "a routing key that is no UTF-8": (STORED_AMQP, write_stored("", "\udcff", NO_PROPERTIES)),
    "a property that is no UTF-8": ("correlation-id", b"\xff"),
    "a death before all time": (DEATH, b'{"queue": "q", "at_ms": -1}'),
    "a death that is no UTF-8": (DEATH, b'{"queue": "\xff"}'),
    "a death that is nested": (DEATH, DEEP),
    "a death with a long key": (DEATH, json.dumps({"queue": "q", "key": "k" * 300}).encode()),
    "a death without an end": (
        DEATH,
        b'{"queue": "q", "vhost": "/", "reason": "", "attempts": Infinity, "at_ms": 1e99}',
    ),
    "half a letter": (
        DEATH,
        b'{"queue": "\\ud800", "vhost": "/", "reason": "", "attempts": 1, "at_ms": 1}',
    ),
}
GET = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}


@pytest.mark.parametrize("poison", POISON)
def test_a_message_that_somebody_has_made_up_is_shown(shared: AdminCluster, poison: str) -> None:
    """Whoever may write to a queue would stop the broker of whoever looks at it."""
    name = f"q{list(POISON).index(poison)}"
    assert ask(shared, "PUT", f"/rabbitmq/api/queues/%2F/{name}", {}, user="root").status == 201
    put(shared, name, POISON[poison])
    told = ask(shared, "POST", f"/rabbitmq/api/queues/%2F/{name}/get", GET, user="root")
    assert told.status == 200
    assert [each["payload"] for each in told.json] == ["x"]
    told = ask(shared, "GET", f"/api/v1/queues/{name}/messages", user="root")
    assert told.status == 200
    assert len(told.json["items"]) == 1
    assert not shared.live.fatal
    assert not [each for each in shared.live.reports if "could not be" in each]


def test_a_page_after_what_is_nested_is_no_page(cluster: AdminCluster) -> None:
    """Some lists are made in a later turn, in which an error stops the broker, or is not told."""
    after = base64.urlsafe_b64encode(b"\x91" * 1_400 + b"\x90").decode()
    allow(cluster.live, USER, _O.DESCRIBE, _T.CLUSTER, "kafka-cluster")
    for path in (
        "topics",
        "topics?sort=bytes",
        "queues?sort=ready",
        "exchanges",
        "schemas",
        "groups",
        "connections",
        "brokers",
        "users",
        "transactions",
    ):
        told = ask(cluster, "GET", f"/api/v1/{path}{'&' if '?' in path else '?'}after={after}")
        assert told.status == 400, path
    cluster.live.run_for(0.1)
    assert not cluster.live.fatal
    assert not [each for each in cluster.live.reports if "RecursionError" in each]


def test_a_body_that_is_nested_is_no_defect(cluster: AdminCluster) -> None:
    nested: Any = []
    for _ in range(900):
        nested = [nested]
    deep = json.dumps(nested)[:900] * 2
    length = len(b'{"name": "a", "options": ') + len(deep)
    head = f"POST /api/v1/topics HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n"
    for name, value in {**CHANGE, **basic("root")}.items():
        head += f"{name}: {value}\r\n"
    line = raw(cluster, head.encode() + b'\r\n{"name": "a", "options": ' + deep.encode())
    assert line.startswith(b"HTTP/1.1 400")
    value = "[" * 1_000
    search = {"topic": "none", "filter": {"json_path": "a", "json_value": value}}
    assert ask(cluster, "POST", "/api/v1/search", search, user="root").status == 404
    assert not [each for each in cluster.live.reports if "could not be" in each]


def test_a_file_may_define_many_users(shared: AdminCluster) -> None:
    """They were planned one within the other: with a password first, it would end the broker."""
    users = [{"name": f"u{number}", "password_hash": "", "tags": ""} for number in range(600)]
    users.insert(1, {"name": "one", "password": PASSWORD, "tags": ""})
    told = ask(shared, "POST", "/rabbitmq/api/definitions", {"users": users}, user="root")
    assert told.status == 204
    assert not shared.live.fatal


# -- what keeps others out


def test_strangers_do_not_use_up_the_port(cluster: AdminCluster) -> None:
    flood = [cluster.visit() for _ in range(CONNECTIONS_MAX + 20)]
    token = cluster.token("root")
    assert cluster.ask("GET", "/api/v1/cluster", token=token).status == 200
    for each in flood:
        each.close()


def test_a_user_does_not_use_up_the_port(cluster: AdminCluster) -> None:
    token = {"Authorization": f"Bearer {cluster.token(USER)}"}
    flood: list[Visit] = []
    statuses = []
    for _ in range(CONNECTIONS_MAX // 3 + 2):
        flood.append(cluster.visit())
        statuses.append(flood[-1].ask("GET", "/api/v1/session", token).status)
    assert statuses[-2:] == [429, 429]
    assert set(statuses[:-2]) == {200}
    assert cluster.ask("GET", "/api/v1/cluster", token=cluster.token("root")).status == 200
    for each in flood:
        each.close()


def test_a_search_for_somebody_who_has_gone_is_none(cluster: AdminCluster) -> None:
    told = ask(cluster, "POST", "/api/v1/topics", {"name": "t", "partitions": 1}, user="root")
    assert told.status == 201
    gateway = cluster.gateways[1]
    search = json.dumps({"topic": "t"}).encode()
    headers = {"content-type": "application/json"}
    request = Request(path="/api/v1/search", query={}, method="POST", headers=headers, body=search)
    for _ in range(SEARCHES_MAX + 1):
        # A connection that is gone does with an answer what this does.
        gateway.api.router.handle(request, lambda _: None)
    visit = cluster.visit()
    visit.send("POST", "/api/v1/search", {**CHANGE, **basic("root")}, {"topic": "t"})
    assert visit.head().startswith("HTTP/1.1 200")


def test_a_user_does_not_use_up_all_searches(cluster: AdminCluster) -> None:
    told = ask(cluster, "POST", "/api/v1/topics", {"name": "t", "partitions": 1}, user="root")
    assert told.status == 201
    allow(cluster.live, USER, _O.READ, _T.TOPIC, "t")
    pages = cluster.gateways[1].api.searches
    pages._running = pages._by_user[USER] = SEARCHES_PER_USER_MAX
    assert ask(cluster, "POST", "/api/v1/search", {"topic": "t"}).status == 429
    visit = cluster.visit()
    visit.send("POST", "/api/v1/search", {**CHANGE, **basic("root")}, {"topic": "t"})
    assert visit.head().startswith("HTTP/1.1 200")
    visit.close()
    cluster.live.wait(lambda: "root" not in pages._by_user, "the search is over")
    assert pages._running == SEARCHES_PER_USER_MAX


def test_long_bodies_of_strangers_have_little_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody could have had 8 MiB kept for each connection, by a header that says nothing."""
    most, size = 1024 * 1024, 700_000
    monkeypatch.setattr(body_room, "STRANGERS_BYTES_MAX", most)
    cluster = AdminCluster(tmp_path)
    add_user(cluster.live, "root")
    room = cluster.live.nodes[1].chassis.body_rooms.strangers
    head = (
        "POST /rabbitmq/api/definitions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
        f"application/json\r\nAuthorization: Basic eDp4\r\nContent-Length: {2 * size}\r\n\r\n"
    ).encode()
    first, second = cluster.visit(), cluster.visit()
    first._writer.write(head + b" " * size)
    cluster.live.wait(lambda: room.held_bytes == size, "the first one's body is held")
    second._writer.write(head + b" " * size)
    assert first.is_closed(within_s=10)
    cluster.live.wait(lambda: room.held_bytes == size, "the second one's body is held")
    second.close()
    cluster.live.wait(lambda: room.held_bytes == 0, "nothing is held any more")
    # Whoever says who it is is served meanwhile, and leaves the strangers' room.
    told = ask(cluster, "POST", "/rabbitmq/api/definitions", {}, user="root")
    assert told.status == 204
    assert room.held_bytes == 0
    cluster.close()


def test_a_body_comes_in_few_pieces(shared: AdminCluster) -> None:
    """A chunk of one letter costs as much as a request: a megabyte of them took seconds."""
    head = (
        b"POST /rabbitmq/api/definitions HTTP/1.1\r\nHost: localhost\r\n"
        b"Authorization: Basic eDp4\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    few, many = (b"1\r\n \r\n" * count + b"0\r\n\r\n" for count in (CHUNKS_MAX, CHUNKS_MAX + 1))
    assert raw(shared, head + few).startswith(b"HTTP/1.1 401")
    assert raw(shared, head + many).startswith(b"HTTP/1.1 400")


# -- who stands in front


def test_a_request_has_one_length(shared: AdminCluster) -> None:
    """Of two, a proxy and a broker may take one each, and so see other requests."""
    body = b'{"user": "x", "password": "y"}'
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    head = (
        b"POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\nX-Kafkaesque-Request: 1\r\n"
        b"Content-Type: application/json\r\n"
    )
    length, coding = b"Content-Length: %d\r\n" % len(body), b"Transfer-Encoding: chunked\r\n"
    assert raw(shared, head + length + b"\r\n" + body).startswith(b"HTTP/1.1 401")
    assert raw(shared, head + coding + b"\r\n" + chunks).startswith(b"HTTP/1.1 401")
    for both in (length + coding, coding + length):
        assert raw(shared, head + both + b"\r\n" + chunks).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(
    "head",
    [
        b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
        b"GET /health/live HTTP/1.1\r\nHost : localhost\r\n\r\n",
        b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nContent-Length: +4\r\n\r\n",
        b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4, 5\r\n\r\n",
        b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: xchunked\r\n\r\n",
        b"GET /health/live HTTP/1.1\r\nHost: a\rb\r\n\r\n",
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(shared: AdminCluster, head: bytes) -> None:
    assert raw(shared, head).split()[1] in (b"400", b"501")


def test_no_host_stands_in_a_path(shared: AdminCluster) -> None:
    """A proxy that keeps people from /api would let this pass, and it is the same page here."""
    token = shared.token("root")
    for path in ("//x/api/v1/cluster", "//api/v1/cluster", "/%2e/api/v1/cluster", "/x/../api/v1"):
        assert shared.ask("GET", path, token=token).status == 404, path


# -- what is denied is not read


def same_but_for(told: Told, name: str, other: str) -> tuple[int, str]:
    return told.status, told.body.decode().replace(name, other)


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminCluster]:
    cluster, root = AdminCluster(tmp_path_factory.mktemp("furnished")), "/rabbitmq/api"
    for name in (USER, "root"):
        add_user(cluster.live, name)
    for path in (
        "/vhosts/payroll",
        "/queues/%2F/secrets",
        "/exchanges/%2F/hidden",
        "/exchanges/%2F/shop",
        "/queues/%2F/app-in",
    ):
        assert ask(cluster, "PUT", root + path, {}, user="root").status == 201
    for queue in ("secrets", "app-in"):
        told = ask(
            cluster,
            "POST",
            f"{root}/bindings/%2F/e/shop/q/{queue}",
            {"routing_key": "a"},
            user="root",
        )
        assert told.status == 201
    for kind in (_T.QUEUE, _T.EXCHANGE):
        for operation in (_O.CREATE, _O.READ, _O.WRITE):
            allow(cluster.live, USER, operation, kind, "app-*")
    yield cluster
    cluster.close()


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/rabbitmq/api/queues/{}", None),
        ("GET", "/rabbitmq/api/exchanges/{}", None),
        ("GET", "/rabbitmq/api/bindings/{}", None),
        ("GET", "/rabbitmq/api/policies/{}", None),
        ("GET", "/rabbitmq/api/aliveness-test/{}", None),
        ("GET", f"/rabbitmq/api/permissions/{{}}/{USER}", None),
        ("PUT", "/rabbitmq/api/queues/{}/app-x", {}),
        ("POST", "/rabbitmq/api/exchanges/{}/app-x/publish", {"routing_key": "", "payload": ""}),
    ],
)
def test_a_hidden_virtual_host_looks_like_none(
    furnished: AdminCluster, method: str, path: str, body: Any
) -> None:
    there = ask(furnished, method, path.format("payroll"), body)
    absent = ask(furnished, method, path.format("payrott"), body)
    assert same_but_for(there, "payroll", "payrott") == same_but_for(absent, "", "")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/rabbitmq/api/exchanges/%2F/{}", None),
        ("GET", "/rabbitmq/api/exchanges/%2F/{}/bindings/source", None),
        ("GET", "/rabbitmq/api/exchanges/%2F/{}/bindings/destination", None),
        ("GET", "/rabbitmq/api/bindings/%2F/e/{}/q/app-in", None),
        ("GET", "/rabbitmq/api/bindings/%2F/e/{}/q/app-in/a", None),
        ("DELETE", "/rabbitmq/api/bindings/%2F/e/{}/q/app-in/a", None),
        ("POST", "/rabbitmq/api/bindings/%2F/e/{}/q/app-in", {"routing_key": "a"}),
        ("GET", "/api/v1/exchanges/{}", None),
        ("GET", "/api/v1/why/exchanges/{}", None),
        ("PUT", "/rabbitmq/api/exchanges/%2F/{}", {}),
    ],
)
def test_a_hidden_exchange_looks_like_none(
    furnished: AdminCluster, method: str, path: str, body: Any
) -> None:
    there = ask(furnished, method, path.format("hidden"), body)
    absent = ask(furnished, method, path.format("hiddeu"), body)
    assert same_but_for(there, "hidden", "hiddeu") == same_but_for(absent, "", "")


def test_where_dead_letters_go_does_not_tell_what_there_is(furnished: AdminCluster) -> None:
    def declare(target: str) -> Told:
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": target}
        path = "/rabbitmq/api/queues/%2F/app-new"
        return ask(furnished, "PUT", path, {"arguments": arguments})

    there, absent = declare("secrets"), declare("secretz")
    assert there.status == 401
    assert same_but_for(there, "secrets", "secretz") == same_but_for(absent, "", "")


def test_the_exchange_without_a_name_is_no_way_into_a_queue(furnished: AdminCluster) -> None:
    """Whoever may write to all exchanges could have had dead letters put into any queue."""
    add_user(furnished.live, "writer")
    allow(furnished.live, "writer", _O.WRITE, _T.EXCHANGE, "*")
    allow(furnished.live, "writer", _O.ALL, _T.QUEUE, "app-*")

    def create(exchange: str, key: str, target: str) -> Told:
        options = {exchange: DEFAULT_EXCHANGE_WORD, key: target}
        body = {"name": f"app-{exchange}", "options": options}
        return ask(furnished, "POST", "/api/v1/queues", body, user="writer")

    for exchange, key in (
        ("dead.letter.exchange", "dead.letter.routing.key"),
        ("forward.exchange", "forward.routing.key"),
    ):
        there = create(exchange, key, "secrets")
        absent = create(exchange, key, "secretz")
        assert there.status == 403, there.body
        assert same_but_for(there, "secrets", "secretz") == same_but_for(absent, "", "")
        told = create(exchange, key, "app-in")
        assert told.status == 201, told.body
        # Nor afterwards, one option at a time.
        path = f"/api/v1/queues/app-{exchange}/options"
        assert (
            ask(furnished, "PATCH", path, {"options": {key: "secrets"}}, user="writer").status
            == 403
        )
        assert (
            ask(furnished, "PATCH", path, {"options": {key: "app-other"}}, user="writer").status
            == 200
        )


def test_where_an_exchange_leads_is_told_as_far_as_it_may_be_known(
    furnished: AdminCluster,
) -> None:
    allow(furnished.live, USER, _O.DESCRIBE, _T.EXCHANGE, "shop")
    shown = ask(furnished, "GET", "/api/v1/exchanges/shop")
    assert [each["destination"] for each in shown.json["bindings_from"]] == ["app-in"]
    assert shown.json["from_total"] == 1
    routed = ask(furnished, "POST", "/api/v1/exchanges/shop/route", {"key": "a"})
    assert routed.json["queues"] == ["app-in"]
    why = ask(furnished, "GET", "/api/v1/why/exchanges/shop?key=a")
    assert "app-in" in why.body.decode()
    for told in (shown, routed, why):
        assert told.status == 200
        assert b"secrets" not in told.body
    whole = ask(furnished, "GET", "/api/v1/why/exchanges/shop?key=a", user="root")
    assert "secrets" in whole.body.decode()


# -- what others look at


def test_a_pattern_does_not_write_into_the_log(
    shared: AdminCluster, capfd: pytest.CaptureFixture[str]
) -> None:
    told = ask(shared, "GET", "/rabbitmq/api/queues?use_regex=true&name=(%0Aforged", user="root")
    assert told.status == 400
    assert "forged" not in capfd.readouterr().err


def test_nothing_that_clients_choose_makes_a_line_of_metrics(shared: AdminCluster) -> None:
    name = 'a"} 1\nkafkaesque_forged{x="'
    path = f"/rabbitmq/api/queues/%2F/{quote(name, safe='')}"
    assert ask(shared, "PUT", path, {}, user="root").status == 201
    told = shared.ask("GET", "/metrics", token=shared.token("root"))
    assert told.status == 200
    assert not [line for line in told.body.splitlines() if line.startswith(b"kafkaesque_forged")]
