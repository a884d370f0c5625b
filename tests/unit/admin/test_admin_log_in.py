"""Log-ins at the admin port: who gets a session, what it is good for, and when it is over."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.access.principals import User
from kafkaesque.access.secret import Secret
from kafkaesque.access.totp import step_of, write_code
from kafkaesque.admin.visitors import read_token, write_cookie
from kafkaesque.broker.listeners import ADMIN, AccessMode, Listener
from kafkaesque.broker.requests.access_commands import PutUser, RemoveUser
from kafkaesque.env.network import Address
from tests.unit.admin.told import Told
from tests.unit.admin.visits import CHANGE, AdminCluster, Visit
from tests.unit.gateway_kafka.secured import (
    PASSWORD,
    Client,
    LoginRefused,
    add_user,
    allow,
    change,
    forget_rules,
)
from tests.waiting import eventually

REVOKED_S = 1.0
SESSION = "/api/v1/session"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminCluster]:
    """A broker that requires a log-in: root may do everything, alice nothing."""
    cluster = AdminCluster(tmp_path_factory.mktemp("admin"))
    add_user(cluster.live, "alice")
    add_user(cluster.live, "root")
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminCluster]:
    cluster = AdminCluster(tmp_path_factory.mktemp("trio"), count=3)
    add_user(cluster.live, "root")
    yield cluster
    cluster.close()


# -- strangers


def test_strangers_are_told_of_health_and_of_nothing_else(secured: AdminCluster) -> None:
    assert secured.ask("GET", "/health/live").body == b"live\n"
    assert secured.ask("GET", "/health/ready").body == b"ready\n"
    gateway = secured.gateways[1]
    pages = [path for path in gateway._handlers if not path.startswith("/health/")]
    assert "/metrics" in pages
    for path in [*pages, "/api/v1/openapi.json", "/api/v1/nowhere", "/nowhere", "/api/v1"]:
        told = secured.ask("GET", path)
        assert told.status == 401, path
        assert told.headers["www-authenticate"] == "Bearer"


def test_a_stranger_is_not_told_why_a_broker_is_not_ready(
    secured: AdminCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = secured.live.nodes[1].broker.life
    token = secured.token("root")
    monkeypatch.setattr(life, "is_stopping", True)
    assert secured.ask("GET", "/health/ready").body == b"not ready\n"
    assert b"broker 1 is being stopped" in secured.ask("GET", "/health/ready", token=token).body


def test_no_operation_is_for_strangers_but_logging_in(secured: AdminCluster) -> None:
    asked = 0
    for route in secured.gateways[1].api.routes:
        if route.path == "/session":
            continue
        path = "/api/v1" + re.sub(r"\{.*?\}", "x", route.path)
        told = secured.ask(route.method, path, body={} if route.body else None)
        assert told.status == 401, (route.name, told)
        asked += 1
    assert asked > 15


def test_the_console_is_there_for_those_who_have_to_log_in(secured: AdminCluster) -> None:
    assert secured.ask("GET", "/").status == 200
    assert secured.ask("GET", "/", {"Cookie": "kafkaesque_session=over"}).status == 200


def test_strangers_send_little(secured: AdminCluster) -> None:
    big = {"user": "alice", "password": "x" * 20_000}
    assert secured.ask("POST", SESSION, body=big).status == 413
    topic = {"value": "x" * 20_000}
    assert secured.ask("POST", "/api/v1/topics/t/messages", body=topic).status == 413
    token = secured.token("root")
    assert secured.ask("POST", "/api/v1/topics/t/messages", body=topic, token=token).status == 404


# -- right and wrong


def test_a_session_is_a_token_whose_hash_alone_is_kept(secured: AdminCluster) -> None:
    told = secured.log_in("root")
    assert told.status == 201
    token = told.json["token"]
    assert token.startswith("kfq_")
    assert told.headers["cache-control"] == "no-store"
    shown = secured.ask("GET", SESSION, token=token).json
    assert (shown["user"], shown["token"]) == ("root", None)
    twelve_hours = 12 * 3_600_000
    assert twelve_hours - 60_000 < shown["expires_at"] - shown["as_of"] <= twelve_hours
    snapshot = secured.live.nodes[1].broker.state.write_snapshot()
    secret = base64.urlsafe_b64decode(token[4:] + "=")
    for each in (token.encode(), secret, PASSWORD.encode()):
        assert each not in snapshot
    assert not any(token in line for line in secured.live.reports)


def test_whatever_is_wrong_is_answered_alike(secured: AdminCluster) -> None:
    add_user(secured.live, "disabled", is_disabled=True)
    add_user(secured.live, "expired", expires_ms=1)
    told = [
        secured.log_in("alice", "wrong password"),
        secured.log_in("nobody"),
        secured.log_in("disabled"),
        secured.log_in("expired"),
    ]
    assert {each.status for each in told} == {401}
    assert len({each.body for each in told}) == 1
    assert not any("set-cookie" in each.headers for each in told)


def test_guesses_are_answered_later_and_later(secured: AdminCluster) -> None:
    loop, waits = secured.live.loop, []
    for _ in range(5):
        begun = loop.time()
        assert secured.log_in("mallory", "a wrong one").status == 401
        waits.append(loop.time() - begun)
    assert waits[3] >= 0.25
    assert waits[4] >= 0.5


def test_a_token_that_is_none_is_refused(secured: AdminCluster) -> None:
    right = secured.token("root")
    for token in (right[:-1], right + "A", "kfq_", "kfq_" + "A" * 43, "x"):
        assert secured.ask("GET", "/api/v1/cluster", token=token).status == 401
    assert secured.ask("GET", "/api/v1/cluster", token=right).status == 200


def test_name_and_password_do_for_machines(secured: AdminCluster) -> None:
    def ask(text: str) -> Told:
        given = base64.b64encode(text.encode()).decode()
        return secured.ask("GET", "/metrics", {"Authorization": f"Basic {given}"})

    assert ask(f"root:{PASSWORD}").status == 200
    assert ask(f"alice:{PASSWORD}").status == 403
    assert ask("root:another one").status == 401
    assert ask("root").status == 401
    assert secured.ask("GET", "/metrics", {"Authorization": "Basic !"}).status == 401


def test_passwords_are_not_taken_in_the_clear(secured: AdminCluster) -> None:
    listener = Listener(
        protocol=ADMIN,
        name="outside",
        advertised=Address("127.0.0.1", 1),
        bind=Address("0.0.0.0", 0),
        access=AccessMode.REQUIRED,
    )
    port = secured.gateways[1].start(listener).port
    body = {"user": "root", "password": PASSWORD}
    given = base64.b64encode(f"root:{PASSWORD}".encode()).decode()
    asked = (
        ("POST", SESSION, CHANGE, body, 403),
        ("GET", "/metrics", {"Authorization": f"Basic {given}"}, None, 401),
    )
    for method, path, headers, wanted, status in asked:
        visit = Visit(secured.live, Address("127.0.0.1", port))
        assert visit.ask(method, path, headers, wanted).status == status
        visit.close()


# -- cookies, and pages of others


def _cookie(told: Told) -> str:
    return told.headers["set-cookie"].partition(";")[0]


def test_a_browsers_token_is_out_of_the_reach_of_scripts(secured: AdminCluster) -> None:
    told = secured.log_in("root", cookie=True)
    assert told.json["token"] is None
    name, *attributes = told.headers["set-cookie"].split("; ")
    assert name.startswith("kafkaesque_session=kfq_")
    assert set(attributes) == {"Path=/", "HttpOnly", "SameSite=Strict", "Max-Age=43200"}
    cookie = {"Cookie": _cookie(told)}
    assert secured.ask("GET", "/api/v1/cluster", cookie).status == 200
    assert (
        secured.ask("DELETE", SESSION, cookie)
        .headers["set-cookie"]
        .startswith("kafkaesque_session=; ")
    )
    assert secured.ask("GET", "/api/v1/cluster", cookie).status == 401


def test_over_tls_a_cookie_is_for_tls_alone() -> None:
    name, *attributes = write_cookie(Secret.of("t"), 1_000, is_encrypted=True).split("; ")
    assert name == "__Host-kafkaesque_session=t"
    assert {"Secure", "HttpOnly", "SameSite=Strict", "Path=/"} <= set(attributes)
    assert read_token({"cookie": name}, is_encrypted=True) == Secret.of("t")
    # Another port of the machine, in the clear, may have set this one.
    assert read_token({"cookie": "kafkaesque_session=t"}, is_encrypted=True) is None


def test_a_cookie_that_was_there_before_the_log_in_is_worth_nothing(secured: AdminCluster) -> None:
    planted = "kafkaesque_session=kfq_" + "A" * 43
    body = {"user": "root", "password": PASSWORD, "cookie": True}
    told = secured.ask("POST", SESSION, {"Cookie": planted}, body)
    assert _cookie(told) != planted
    assert secured.ask("GET", "/api/v1/cluster", {"Cookie": planted}).status == 401
    # Of two, one was set by somebody else: neither counts.
    both = {"Cookie": f"{planted}; {_cookie(told)}"}
    assert secured.ask("GET", "/api/v1/cluster", both).status == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Host": "evil.example"},
    ],
    ids=str,
)
def test_pages_of_others_are_refused_with_a_right_cookie(
    secured: AdminCluster, headers: dict[str, str]
) -> None:
    cookie = {"Cookie": _cookie(secured.log_in("root", cookie=True))}
    for method, path in (("GET", "/api/v1/cluster"), ("DELETE", SESSION)):
        assert secured.ask(method, path, {**cookie, **headers}).status == 403
    body = {"user": "root", "password": PASSWORD, "cookie": True}
    assert secured.ask("POST", SESSION, headers, body).status == 403
    assert secured.ask("GET", "/api/v1/cluster", cookie).status == 200


def test_a_change_needs_the_header_that_forms_do_not_send(secured: AdminCluster) -> None:
    cookie = _cookie(secured.log_in("root", cookie=True))
    body = {"user": "root", "password": PASSWORD}
    for method, path, given in (("DELETE", SESSION, None), ("POST", SESSION, body)):
        headers = {"Cookie": cookie, "Content-Type": "application/json"}
        assert secured.visit().ask(method, path, headers, given).status == 403
    headers = {"Cookie": cookie, **CHANGE, "Content-Type": "text/plain"}
    assert secured.visit().ask("POST", SESSION, headers, body).status == 400


def _settle(cluster: AdminCluster) -> None:
    """Waits until all brokers have heard of all changes."""
    nodes = cluster.live.nodes.values()

    def has_settled() -> bool:
        return len({node.broker.doors.access.state.epoch for node in nodes}) == 1

    cluster.live.wait(has_settled, "all brokers know the same")


# -- what a session ends with


@pytest.mark.parametrize("what", ["log-out", "password", "disabled", "removed"])
def test_a_session_and_its_streams_are_over_within_a_second(
    secured: AdminCluster, what: str
) -> None:
    live = secured.live
    add_user(live, "carol")
    allow(live, "carol", Operation.DESCRIBE, ResourceType.CLUSTER, "kafka-cluster")
    token = secured.token("carol")
    bearer = {"Authorization": f"Bearer {token}"}
    stream = secured.visit()
    stream.send("GET", "/api/v1/live", bearer)
    assert " 200 " in stream.head()
    actions: dict[str, Callable[[], object]] = {
        "log-out": lambda: secured.ask("DELETE", SESSION, token=token),
        "password": lambda: add_user(live, "carol", password="another one"),
        "disabled": lambda: change(live, PutUser(user=User(name="carol", is_disabled=True))),
        "removed": lambda: change(live, RemoveUser(name="carol")),
    }
    actions[what]()
    assert stream.is_closed(REVOKED_S)
    assert secured.ask("GET", "/api/v1/cluster", bearer).status == 401
    if what != "removed":
        change(live, RemoveUser(name="carol"))
    forget_rules(live, "carol")


def test_an_administrator_ends_all_sessions_of_a_person_at_all_brokers(trio: AdminCluster) -> None:
    live = trio.live
    for user in ("mallory", "nora"):
        add_user(live, user)
        allow(live, user, Operation.DESCRIBE, ResourceType.CLUSTER, "kafka-cluster")
    _settle(trio)
    other = trio.token("nora")
    tokens = [str(trio.log_in("mallory", node=node).json["token"]) for node in (1, 2)]
    _settle(trio)
    streams: list[Visit] = []
    for node, token in enumerate(tokens, start=2):
        stream = trio.visit(node)
        stream.send("GET", "/api/v1/live", {"Authorization": f"Bearer {token}"})
        assert " 200 " in stream.head()
        streams.append(stream)
    kafka = Client(live, node=3)
    kafka.begin("OAUTHBEARER")
    kafka.step(f"n,,\x01auth=Bearer {tokens[0]}\x01\x01".encode())
    path = "/api/v1/users/mallory/sessions"
    assert trio.ask("DELETE", path, token=other).status == 403
    told = trio.ask("DELETE", path, token=trio.token("root"), node=2)
    assert (told.status, told.json["what"]) == (200, "2 sessions of mallory ended")
    # One bound for all of them, which began before the first was waited for.
    assert all(each.is_closed(REVOKED_S) for each in streams)
    assert kafka.is_closed(REVOKED_S)
    for node, token in enumerate(tokens, start=2):
        assert trio.ask("GET", SESSION, token=token, node=node).status == 401
    assert trio.ask("GET", SESSION, token=other).status == 200
    root = trio.token("root")
    assert trio.ask("DELETE", path, token=root).json["what"] == "0 sessions of mallory ended"
    assert trio.ask("DELETE", "/api/v1/users/nobody/sessions", token=root).status == 404
    assert trio.log_in("mallory").status == 201


def test_metrics_count_log_ins_by_mechanism_and_the_age_of_rules(secured: AdminCluster) -> None:
    def samples() -> dict[str, float]:
        # On a connection of its own, by a token: it counts itself.
        page = secured.ask("GET", "/metrics", token=token).body.decode()
        lines = [line.rpartition(" ") for line in page.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in lines}

    def of(mechanism: str) -> str:
        return f'kafkaesque_logins_open{{mechanism="{mechanism}"}}'

    token = secured.token("root")
    before = samples()
    clients = [Client(secured.live) for _ in range(3)]
    for client, mechanism in zip(clients, ("SCRAM-SHA-256", "PLAIN", "PLAIN"), strict=True):
        client.log_in("alice", mechanism=mechanism)
    secured.token("alice")
    given = base64.b64encode(f"alice:{PASSWORD}".encode()).decode()
    visit = secured.visit()
    assert visit.ask("GET", SESSION, {"Authorization": f"Basic {given}"}).status == 200
    during = samples()
    for mechanism, more in (("SCRAM-SHA-256", 1), ("PLAIN", 2), ("http-basic", 1)):
        assert during[of(mechanism)] - before.get(of(mechanism), 0) == more, mechanism
    assert during[of("http-bearer")] == before[of("http-bearer")] >= 1
    assert during["kafkaesque_sessions"] - before["kafkaesque_sessions"] == 1
    assert 0 <= during["kafkaesque_rules_age_seconds"] < 60
    assert during["kafkaesque_rules_stale"] == 0
    for client in clients:
        client.close()
    visit.close()
    eventually(lambda: samples().get(of("PLAIN"), 0) == before.get(of("PLAIN"), 0), "they are gone")


def test_a_stream_ends_when_no_rule_allows_it_any_more(secured: AdminCluster) -> None:
    live = secured.live
    add_user(live, "dave")
    allow(live, "dave", Operation.DESCRIBE, ResourceType.CLUSTER, "kafka-cluster")
    stream = secured.visit()
    stream.send("GET", "/api/v1/live", {"Authorization": f"Bearer {secured.token('dave')}"})
    assert " 200 " in stream.head()
    forget_rules(live, "dave")
    assert stream.is_closed(REVOKED_S)


def test_sessions_of_one_person_are_bounded(
    secured: AdminCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkaesque.access.sessions.SESSIONS_PER_USER_MAX", 2)
    add_user(secured.live, "erin")
    tokens = [secured.token("erin") for _ in range(3)]
    told = [secured.ask("GET", SESSION, token=each).status for each in tokens]
    assert told == [401, 200, 200]


def test_a_session_is_good_at_kafkas_port(secured: AdminCluster) -> None:
    token = secured.token("root")
    client = Client(secured.live)
    client.begin("OAUTHBEARER")
    assert client.step(f"n,,\x01auth=Bearer {token}\x01\x01".encode()).session_lifetime_ms > 0


# -- second factors


def _secret(told: Told) -> Secret:
    (text,) = parse_qs(urlsplit(told.json["uri"]).query)["secret"]
    return Secret(base64.b32decode(text + "=" * (-len(text) % 8)))


def _code(cluster: AdminCluster, secret: Secret, ahead: int = 0) -> str:
    now_ms = cluster.live.nodes[1].world.env.clock.wall_ms()
    return write_code(secret, step_of(now_ms) + ahead)


def _add_factor(cluster: AdminCluster, user: str) -> Told:
    add_user(cluster.live, user)
    told = cluster.ask("POST", f"/api/v1/users/{user}/second-factor", token=cluster.token("root"))
    assert told.status == 201, told
    _settle(cluster)
    return told


def test_a_code_is_used_once_at_whichever_broker(trio: AdminCluster) -> None:
    told = _add_factor(trio, "fay")
    assert told.json["uri"].startswith("otpauth://totp/")
    secret = _secret(told)
    code = _code(trio, secret)
    assert trio.log_in("fay").status == 401
    assert trio.log_in("fay", code="000000" if code != "000000" else "111111").status == 401
    assert trio.log_in("fay", code=code, node=1).status == 201
    for node in (1, 2, 3):
        assert trio.log_in("fay", code=code, node=node).status == 401
    assert trio.log_in("fay", code=_code(trio, secret, 1), node=2).status == 201


def test_a_recovery_code_is_used_once_at_whichever_broker(trio: AdminCluster) -> None:
    first, second, *rest = _add_factor(trio, "gus").json["recovery_codes"]
    assert len(rest) == 8
    assert trio.log_in("gus", code=first, node=3).status == 201
    for node in (1, 2, 3):
        assert trio.log_in("gus", code=first, node=node).status == 401
    assert trio.log_in("gus", code=second.lower().replace("-", "")).status == 201


def test_a_code_that_two_brokers_are_shown_at_once_lets_one_in(trio: AdminCluster) -> None:
    code = _code(trio, _secret(_add_factor(trio, "hal")))
    body = {"user": "hal", "password": PASSWORD, "code": code}
    visits = [trio.visit(node) for node in (1, 2, 3)]
    for each in visits:
        each.send("POST", SESSION, CHANGE, body)
    told = [each._run(each._receive()).status for each in visits]
    assert sorted(told) == [201, 401, 401]


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "PLAIN"])
def test_a_password_alone_is_not_enough_at_kafkas_port(trio: AdminCluster, mechanism: str) -> None:
    user = f"ivy-{mechanism[:5]}"
    add_user(trio.live, user)
    inside = Client(trio.live)
    inside.log_in(user, mechanism=mechanism)
    _add_factor(trio, user)
    # Whoever is in by the password alone has to go, too.
    assert inside.is_closed(REVOKED_S)
    with pytest.raises(LoginRefused):
        Client(trio.live).log_in(user, mechanism=mechanism)
    given = base64.b64encode(f"{user}:{PASSWORD}".encode()).decode()
    assert trio.ask("GET", SESSION, {"Authorization": f"Basic {given}"}).status == 401


def test_a_session_without_the_factor_ends_with_it(trio: AdminCluster) -> None:
    add_user(trio.live, "jon")
    before = trio.token("jon")
    first = _secret(_add_factor(trio, "jon"))
    # The password was set anew; and so ended what was begun by the old one.
    assert trio.ask("GET", SESSION, token=before).status == 401
    during = trio.token("jon", code=_code(trio, first))
    root = trio.token("root")
    assert trio.ask("GET", SESSION, token=during).status == 200
    again = trio.ask("POST", "/api/v1/users/jon/second-factor", token=root)
    assert trio.ask("GET", SESSION, token=during).status == 401
    assert trio.log_in("jon", code=_code(trio, first, 1)).status == 401
    after = trio.token("jon", code=_code(trio, _secret(again), 1))
    assert trio.ask("DELETE", "/api/v1/users/jon/second-factor", token=root).status == 200
    assert trio.ask("GET", SESSION, token=after).status == 200
    assert trio.log_in("jon").status == 201


def test_a_second_factor_is_given_by_those_who_may_change_users(secured: AdminCluster) -> None:
    path = "/api/v1/users/alice/second-factor"
    for method in ("POST", "DELETE"):
        assert secured.ask(method, path, token=secured.token("alice")).status == 403
    token = secured.token("root")
    assert secured.ask("POST", "/api/v1/users/nobody/second-factor", token=token).status == 404
    assert secured.ask("DELETE", path, token=token).status == 404


# -- open and optional


def test_an_open_port_asks_nobody(tmp_path: Path) -> None:
    cluster = AdminCluster(tmp_path, access=AccessMode.OPEN)
    try:
        add_user(cluster.live, "alice")
        assert cluster.ask("GET", SESSION).json["user"] is None
        assert cluster.ask("GET", "/api/v1/cluster", token="nonsense").status == 200
        # A session can be had all the same: Kafka's port may want one.
        token = cluster.token("alice")
        assert cluster.ask("GET", SESSION, token=token).json["user"] == "alice"
        assert cluster.ask("DELETE", "/api/v1/topics/none", token=token).status == 404
    finally:
        cluster.close()


def test_an_optional_port_judges_those_who_log_in(tmp_path: Path) -> None:
    cluster = AdminCluster(tmp_path, access=AccessMode.OPTIONAL)
    try:
        add_user(cluster.live, "alice")
        meter = cluster.live.nodes[1].chassis.meters["admin", "admin"]
        assert cluster.ask("GET", "/api/v1/cluster").status == 200
        assert meter.without_login == 1
        token = cluster.token("alice")
        before = meter.without_login
        assert cluster.ask("GET", "/api/v1/cluster", token=token).status == 403
        assert cluster.ask("GET", "/api/v1/cluster", token="nonsense").status == 401
        assert meter.without_login == before
        assert meter.logged_in == 1
        assert meter.login_failures == 1
    finally:
        cluster.close()
