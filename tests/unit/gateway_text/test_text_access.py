"""Log-ins and rights at the text port."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import pytest

from kafkaesque.access.authentication import Success
from kafkaesque.access.operations import CLUSTER_NAME, Operation, ResourceType
from kafkaesque.access.rules import Effect
from kafkaesque.broker.listeners import TEXT, AccessMode, default_listener
from kafkaesque.broker.requests.access_commands import RemoveUser
from kafkaesque.chassis.logins import LOGIN_BYTES_MAX
from kafkaesque.env.network import Address
from kafkaesque.gateway.text import authorization, gateway, log_in
from kafkaesque.gateway.text.gateway import TextGateway
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.errors import InvariantBroken
from kafkaesque.model.records import Record
from kafkaesque.protocols.kafka.messages.create_queue_request import CreateQueueRequest
from kafkaesque.protocols.kafka.messages.put_messages_request import PutMessagesRequest
from kafkaesque.protocols.kafka.messages.take_messages_request import TakeMessagesRequest
from kafkaesque.protocols.text.commands import Command
from tests.documentation.table import blocks_run_by, this_file
from tests.unit.gateway_kafka.secured import (
    PASSWORD,
    SECRET,
    SUPER,
    Client,
    add_user,
    allow,
    change,
    forget_rules,
)
from tests.unit.gateway_text.person import Person, TextCluster

REVOKED_S = 1.0
_O, _T = Operation, ResourceType


@pytest.fixture(scope="module")
def required(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TextCluster]:
    cluster = TextCluster(
        tmp_path_factory.mktemp("required"),
        access=AccessMode.REQUIRED,
        secrets=[SECRET],
        super_users=[SUPER],
    )
    for name in ("alice", "root"):
        add_user(cluster.live, name)
    root = cluster.person()
    assert root.say(f"AUTH root {PASSWORD}") == ["OK logged in as root"]
    for name in ("orders", "salaries"):
        root.ok(f"PUBS {name} hello")
    yield cluster
    cluster.close()


@pytest.fixture
def alice(required: TextCluster) -> Iterator[Person]:
    person = required.person()
    assert person.say(f"AUTH alice {PASSWORD}") == ["OK logged in as alice"]
    yield person
    forget_rules(required.live, "alice")
    required.leave()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)


@pytest.mark.parametrize(
    "line", ["PUBS orders x", "SUBS orders g", "CONS orders g/all/0 next", "TOPICS"]
)
def test_nothing_but_help_comes_before_the_log_in(required: TextCluster, line: str) -> None:
    person = required.person()
    assert person.say("HELP")[-1] == "OK"
    if line.startswith("CONS"):
        subscription = _subscription(required)
        line = f"CONS orders {subscription} earliest"
    assert person.error(line).startswith("log in first. Example: AUTH ")
    assert person.say(f"AUTH root {PASSWORD}") == ["OK logged in as root"]
    assert person.say(line)[-1].startswith("OK")


def test_the_documented_log_in_is_what_one_sees(required: TextCluster) -> None:
    (block,) = blocks_run_by(this_file(__file__), "docs/text-protocol.md")
    person = required.person()
    seen: list[str] = []
    for line in block.content.splitlines():
        if line.startswith("> "):
            seen += [line, *person.say(line.removeprefix("> "))]
    assert seen == block.content.splitlines()


def _subscription(required: TextCluster) -> str:
    root = required.person()
    root.ok(f"AUTH root {PASSWORD}")
    return root.ok("SUBS orders g")


@pytest.mark.parametrize("words", ["alice wrong", f"nobody {PASSWORD}", "alice kfq_" + "A" * 43])
def test_a_wrong_password_closes(required: TextCluster, words: str) -> None:
    person = required.person()
    # What was sent along with it is not carried out.
    person.type(f"AUTH {words}\nTOPICS\n")
    assert person.line().startswith("ERROR the log-in is refused")
    assert person.is_gone()


def test_a_half_log_in_is_none(required: TextCluster) -> None:
    person = required.person()
    assert person.error("AUTH alice").startswith("AUTH takes a user and a password")
    assert PASSWORD not in person.error(f"AUTHX alice {PASSWORD}")
    assert person.error("TOPICS").startswith("log in first")


def test_a_person_does_not_become_another(alice: Person) -> None:
    assert alice.error(f"AUTH root {PASSWORD}").startswith("the log-in is refused")
    assert alice.is_gone()


def test_a_session_does_for_a_password(required: TextCluster) -> None:
    sessions = required.live.broker.doors.access.sessions
    state = required.live.broker.doors.access.state
    (credential,) = state.credentials_of("alice")
    password = Success(
        principal=state.users["alice"].principal,
        credential=credential.id,
        credential_epoch=credential.epoch,
    )
    found: list[object] = []
    sessions.open(password, "", "127.0.0.1", found.append)
    required.live.wait(lambda: bool(found), "a session")
    token = found[0].token.reveal().decode()  # type: ignore[attr-defined]
    assert required.person().say(f"AUTH alice {token}") == ["OK logged in as alice"]
    # It is of nobody else.
    assert required.person().error(f"AUTH root {token}").startswith("the log-in is refused")


def test_strangers_have_little_time_and_send_little(
    required: TextCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    loud = required.person()
    loud.type("x" * (LOGIN_BYTES_MAX + 1))
    assert _is_out(loud)
    # Not because its time is up.
    said = f"{LOGIN_BYTES_MAX} bytes have come before the log-in"
    assert any(said in line for line in required.live.reports)
    monkeypatch.setattr("kafkaesque.gateway.text.connection.LOGIN_MS_MAX", 200)
    quiet, insider = required.person(), required.person()
    insider.ok(f"AUTH alice {PASSWORD}")
    assert _is_out(quiet)
    required.live.run_for(0.3)
    assert insider.say("TOPICS") == ["OK 0 topics"]
    assert log_in.LOGIN_MS_MAX == 60_000


def test_who_is_revoked_is_out_within_a_second(required: TextCluster) -> None:
    add_user(required.live, "carol")
    carol = required.person()
    carol.ok(f"AUTH carol {PASSWORD}")
    change(required.live, RemoveUser(name="carol"))
    required.live.run_for(REVOKED_S / 2)
    assert _is_out(carol)


def _is_out(person: Person) -> bool:
    """Whether the broker has hung up, without a word."""
    try:
        return person.is_gone()
    except ConnectionError:
        return True


# -- rights


def test_publishing_needs_write(required: TextCluster, alice: Person) -> None:
    assert alice.error("PUBS orders x").startswith("there is no topic 'orders'")
    allow(required.live, "alice", _O.READ, _T.TOPIC, "orders")
    assert alice.error("PUBS orders x").startswith("no rule allows Write on topic 'orders'")
    allow(required.live, "alice", _O.WRITE, _T.TOPIC, "orders")
    alice.ok("PUBS orders x")


def test_creating_a_topic_by_publishing_needs_create(required: TextCluster, alice: Person) -> None:
    allow(required.live, "alice", _O.WRITE, _T.TOPIC, "new*")
    assert alice.error("PUBS new1 x").startswith("there is no topic 'new1'")
    assert "new1" not in required.live.broker.state.topics
    allow(required.live, "alice", _O.CREATE, _T.TOPIC, "new1")
    alice.ok("PUBS new1 x")
    allow(required.live, "alice", _O.CREATE, _T.CLUSTER, CLUSTER_NAME)
    alice.ok("PUBS new2 x")


def test_consuming_needs_read_on_topic_and_group(required: TextCluster, alice: Person) -> None:
    subscription = _subscription(required)
    hidden = alice.error(f"CONS orders {subscription} earliest")
    assert hidden.startswith("there is no topic 'orders'")
    hidden = alice.error("SUBS orders g")
    missing = alice.error("SUBS ordure g")
    assert hidden.replace("orders", "ordure") == missing
    allow(required.live, "alice", _O.READ, _T.TOPIC, "orders")
    assert alice.say(f"CONS orders {subscription} earliest")[-1].startswith("OK ")
    refused = "no rule allows Read on group 'g'"
    assert alice.error("SUBS orders g").startswith(refused)
    assert alice.error(f"CONS orders {subscription} next").startswith(refused)
    allow(required.live, "alice", _O.READ, _T.GROUP, "g")
    assert alice.ok("SUBS orders g") == subscription
    assert alice.say(f"CONS orders {subscription} next")[-1].startswith("OK")


def test_a_rule_that_goes_while_get_waits(required: TextCluster, alice: Person) -> None:
    root = Client(required.live)
    assert root.ask(CreateQueueRequest("/", "mails", timeout_ms=10_000)).error_code == 0
    allow(required.live, "alice", _O.READ, _T.QUEUE, "mails")
    alice.type("GET mails 10\n")
    required.live.run_for(0.5)
    forget_rules(required.live, "alice")
    records = encode_batch([Record(0, 0, None, b"not for everybody", ())])
    put = PutMessagesRequest("/", "mails", 10_000, bytes(records))
    assert root.ask(put).error_code == 0
    assert alice.line().startswith("ERROR no rule allows Read on queue 'mails'")
    taken = root.ask(TakeMessagesRequest("/", "mails", 0, 1, 10_000, 5_000, 5_000))
    assert (bool(taken.records), taken.failures) == (True, [0])
    root.close()


def _root(required: TextCluster) -> Person:
    root = required.person()
    assert root.say(f"AUTH root {PASSWORD}") == ["OK logged in as root"]
    return root


def _given(person: Person, line: str) -> str:
    given, last = person.say(line)
    assert last.startswith("OK 1 message"), last
    return given.split(" ")[1]


def test_queues_are_used_by_right_and_hidden_without(
    required: TextCluster, alice: Person, name: str
) -> None:
    client = Client(required.live)
    assert client.ask(CreateQueueRequest("/", name, timeout_ms=10_000)).error_code == 0
    client.close()
    root = _root(required)
    root.ok(f"PUT {name} secret")
    for line in (f"PUT {name} x", f"GET {name}", f"ACK {name} 0", f"NACK {name} 0"):
        assert alice.error(line).startswith(f"there is no queue '{name}'"), line
    assert not any(line.startswith(name) for line in alice.say("QUEUES"))
    allow(required.live, "alice", _O.DESCRIBE, _T.QUEUE, name)
    assert any(line.startswith(name) for line in alice.say("QUEUES"))
    assert alice.error(f"PUT {name} x").startswith(f"no rule allows Write on queue '{name}'")
    for line in (f"GET {name}", f"ACK {name} 0", f"NACK {name} 0"):
        assert alice.error(line).startswith(f"no rule allows Read on queue '{name}'"), line
    assert any("ready=1" in line for line in root.say("QUEUES") if line.startswith(name))
    allow(required.live, "alice", _O.WRITE, _T.QUEUE, name)
    alice.ok(f"PUT {name} x")
    assert alice.error(f"GET {name}").startswith(f"no rule allows Read on queue '{name}'")
    allow(required.live, "alice", _O.READ, _T.QUEUE, name)
    offset = _given(alice, f"GET {name}")
    # What it holds it settles by right, too.
    forget_rules(required.live, "alice")
    assert alice.error(f"ACK {name} {offset}").startswith(f"there is no queue '{name}'")
    allow(required.live, "alice", _O.READ, _T.QUEUE, name)
    assert alice.ok(f"ACK {name} {offset}") == f"{name} {offset}"


def test_a_rule_that_denies_is_named(required: TextCluster, alice: Person, name: str) -> None:
    client = Client(required.live)
    assert client.ask(CreateQueueRequest("/", name, timeout_ms=10_000)).error_code == 0
    client.close()
    allow(required.live, "alice", _O.ALL, _T.QUEUE, name)
    allow(required.live, "alice", _O.WRITE, _T.QUEUE, name, effect=Effect.DENY)
    refused = alice.error(f"PUT {name} x")
    assert re.match(rf"rule \d+ denies Write on queue '{name}'", refused), refused


def test_the_brokers_own_topics_are_reached_by_no_prefix(
    required: TextCluster, alice: Person
) -> None:
    for operation in (_O.READ, _O.WRITE, _O.CREATE):
        allow(required.live, "alice", operation, _T.TOPIC, "*")
    for line in ("PUBS __consumer_offsets x", "SUBS __consumer_offsets g"):
        assert alice.error(line).startswith("there is no topic '__consumer_offsets'")
    allow(required.live, "alice", _O.WRITE, _T.TOPIC, "__consumer_offsets")
    assert "is internal to the brokers" in alice.error("PUBS __consumer_offsets x")


def test_topics_lists_what_may_be_seen(required: TextCluster, alice: Person) -> None:
    assert alice.say("TOPICS") == ["OK 0 topics"]
    allow(required.live, "alice", _O.READ, _T.TOPIC, "orders")
    assert alice.say("TOPICS") == ["orders partitions=1 replicas=1", "OK 1 topic"]


def test_each_command_has_a_row(required: TextCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(authorization.ROWS) == set(get_args(Command))
    node = required.live.nodes[1]
    rows = {kind: row for kind, row in authorization.ROWS.items() if kind.__name__ != "Topics"}
    monkeypatch.setattr(gateway, "ROWS", rows)
    with pytest.raises(InvariantBroken, match="Topics"):
        TextGateway(node.broker.doors, node.chassis)


# -- open, optional, in the clear


def test_an_open_port_takes_whatever_is_sent(cluster: TextCluster, person: Person) -> None:
    assert person.ok("AUTH anybody anything") == "this port needs no log-in"


def test_an_optional_port_judges_those_who_log_in(tmp_path: Path) -> None:
    cluster = TextCluster(
        tmp_path, access=AccessMode.OPTIONAL, secrets=[SECRET], super_users=[SUPER]
    )
    try:
        add_user(cluster.live, "alice")
        meter = cluster.live.nodes[1].chassis.meters[TEXT, TEXT]
        person = cluster.person()
        person.ok("PUBS orders hello")
        person.ok("PUBS orders hello")
        assert meter.without_login == 1
        person.ok(f"AUTH alice {PASSWORD}")
        assert person.error("PUBS orders hello").startswith("there is no topic")
        assert (meter.without_login, meter.logged_in) == (1, 1)
    finally:
        cluster.close()


def test_a_password_in_the_clear_is_refused_where_others_may_listen(
    required: TextCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = required.live.nodes[1]
    gateway = TextGateway(node.broker.doors, node.chassis)
    listener = default_listener(TEXT, Address("0.0.0.0", 0), access=AccessMode.REQUIRED)
    away = SimpleNamespace(
        **{
            name: getattr(listener, name)
            for name in ("tls", "access", "mechanisms", "is_local", "address")
        },
        name="away",
    )
    address = gateway.start(away)  # type: ignore[arg-type]
    person = Person(required, Address("127.0.0.1", address.port))
    assert person.error(f"AUTH root {PASSWORD}").startswith("AUTH sends a password in the clear")
    assert person.error("TOPICS").startswith("log in first")
    person.leave()
    gateway.stop()
