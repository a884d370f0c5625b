"""Log-ins and rights over NATS: nats-py logs in, and brokers judge."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from threading import Event
from typing import Any, TypeVar

import msgspec
import nats
import nats.errors
import nats.js.errors
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from nats.aio.client import Client

from kafkaesque.access.audit import AuditEvent
from kafkaesque.access.nkeys import make_nkey
from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.access.principals import user_principal
from kafkaesque.access.rules import Effect
from kafkaesque.broker.audit import Audit
from kafkaesque.broker.listeners import NATS, AccessMode
from kafkaesque.broker.options.nats import CONSUMER, STREAM
from kafkaesque.broker.requests.access_commands import PutCredential, RemoveCredential
from kafkaesque.broker.requests.client_command import OnBehalfOf
from kafkaesque.broker.requests.commands import ChangeConfig, ConfigChange, CreateTopic
from kafkaesque.broker.requests.queue_commands import ChangeQueue
from kafkaesque.chassis.logins import LOGIN_BYTES_MAX
from kafkaesque.gateway.nats.gateway import NatsGateway
from kafkaesque.gateway.nats.jetstream.errors import ApiCode
from kafkaesque.model.errors import RequestRefused, TopicNotAuthorized
from tests.nkeys import public_key_of, sign
from tests.unit.gateway_kafka.live import LiveCluster
from tests.unit.gateway_kafka.secured import (
    PASSWORD,
    allow,
    change,
    forget_rules,
)
from tests.unit.gateway_kafka.secured_ports import SecuredPorts, at_secured_ports
from tests.unit.protocols_nats.clauses import connect

ResultT = TypeVar("ResultT")


class Secured(SecuredPorts):
    """A broker with a port for NATS where clients log in, and one where they may."""

    def __init__(self, live: LiveCluster) -> None:
        super().__init__(live, NatsGateway, NATS)

    async def connect(self, user: str, **options: Any) -> Client:
        """Return a client that has logged in."""
        return await nats.connect(
            f"nats://127.0.0.1:{self.ports[AccessMode.REQUIRED]}",
            allow_reconnect=False,
            user=user,
            password=PASSWORD,
            **options,
        )

    def do(
        self,
        act: Callable[[Client, list[str]], Awaitable[ResultT]],
        mode: AccessMode = AccessMode.REQUIRED,
        **options: Any,
    ) -> ResultT:
        """Do something with a client; `act` also gets what the broker has said of its mistakes."""
        told = {"user": "root", "password": PASSWORD, **options}

        async def run() -> ResultT:
            errors: list[str] = []

            async def on_error(error: Exception) -> None:
                errors.append(str(error))

            client = await nats.connect(
                f"nats://127.0.0.1:{self.ports[mode]}",
                allow_reconnect=False,
                error_cb=on_error,
                **{name: value for name, value in told.items() if value is not None},
            )
            try:
                return await act(client, errors)
            finally:
                await client.close()

        return self.in_thread(lambda: asyncio.run(run()))

    def answer_signed(
        self,
        sign_it: Callable[[bytes], str],
        mode: AccessMode = AccessMode.REQUIRED,
        **options: Any,
    ) -> bytes:
        """Return what is said to a CONNECT with a signature of the nonce in INFO."""

        def ask() -> bytes:
            port = self.ports[AccessMode.REQUIRED]
            with socket.create_connection(("127.0.0.1", port), timeout=30) as link:
                info = json.loads(link.recv(65_536).removeprefix(b"INFO "))
                signature = sign_it(info["nonce"].encode())
                link.sendall(connect(sig=signature, **options) + b"PING\r\n")
                found = b""
                while b"PONG\r\n" not in found and (piece := link.recv(65_536)):
                    found += piece
                return found

        return self.in_thread(ask)

    def answer(self, mode: AccessMode = AccessMode.REQUIRED, **options: Any) -> bytes:
        """Return what is said behind INFO to a CONNECT and a PING (nats-py leaks its sockets)."""

        def ask() -> bytes:
            with socket.create_connection(("127.0.0.1", self.ports[mode]), timeout=30) as link:
                found = b""
                link.sendall(connect(**options) + b"PING\r\n")
                while b"PONG\r\n" not in found and (piece := link.recv(65_536)):
                    found += piece
                return found.split(b"\r\n", 1)[1]

        return self.in_thread(ask)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with at_secured_ports(tmp_path_factory.mktemp("nats"), Secured) as found:
        yield found


@pytest.fixture(autouse=True)
def without_rules(secured: Secured) -> Iterator[None]:
    yield
    forget_rules(secured.live, "other")


def password(text: str) -> dict[str, Any]:
    """A password as CONNECT has it: Python has another use for the word."""
    return {"pass": text}


def deny(live: LiveCluster, user: str, subject: str) -> None:
    allow(live, user, Operation.READ, ResourceType.SUBJECT, subject, effect=Effect.DENY)


def submit(live: LiveCluster, command: Any) -> Any:
    """Ask the controller for what a client that may not be judged well by its broker wants."""
    outcomes: list[Any] = []
    client = OnBehalfOf(user_principal("other"), "127.0.0.1")
    signed = msgspec.structs.replace(command, on_behalf_of=client)
    live.nodes[1].broker.doors.access.submit(signed, 60_000, outcomes.append)
    live.wait(lambda: bool(outcomes), "the controller has answered")
    return outcomes[0]


async def flush(client: Client, errors: list[str]) -> list[str]:
    """Return what the broker has said."""
    await client.flush()
    await client.flush()
    return errors


def test_a_password_lets_in_and_a_wrong_one_does_not(secured: Secured) -> None:
    assert secured.do(flush) == []
    refused = b"-ERR 'Authorization Violation'\r\n"
    assert secured.answer() == refused
    assert secured.answer(user="root", **password("wrong")) == refused
    assert secured.answer(user="nobody", **password(PASSWORD)) == refused
    assert secured.answer(auth_token="none of ours") == refused


def test_where_a_log_in_is_optional_nobody_in_particular_comes_in(secured: Secured) -> None:
    assert secured.answer(AccessMode.OPTIONAL) == b"PONG\r\n"
    wrong = secured.answer(AccessMode.OPTIONAL, user="root", **password("wrong"))
    assert wrong == b"-ERR 'Authorization Violation'\r\n"


def test_a_log_in_that_takes_many_bytes_is_refused(secured: Secured) -> None:
    said = f"{LOGIN_BYTES_MAX} bytes have come before the log-in"
    with socket.create_connection(("127.0.0.1", secured.ports[AccessMode.REQUIRED])) as link:
        link.sendall(b"PING\r\n" * 10_000)
        secured.live.wait(lambda: any(said in each for each in secured.live.reports), said)


def test_what_is_denied_among_what_is_wanted_does_not_come(secured: Secured) -> None:
    allow(secured.live, "other", Operation.READ, ResourceType.SUBJECT, "mails/*")
    deny(secured.live, "other", "mails/secret")

    async def act(client: Client, errors: list[str]) -> list[bytes]:
        wanted = await client.subscribe("mails.*")
        await client.flush()
        root = await secured.connect("root")
        for subject in ("mails.secret", "mails.open"):
            await root.publish(subject, subject.encode())
        await root.flush()
        await root.close()
        found = await wanted.next_msg(timeout=30)
        return [found.data]

    assert secured.do(act, user="other") == [b"mails.open"]


def test_subjects_are_judged(secured: Secured) -> None:
    async def act(client: Client, errors: list[str]) -> list[str]:
        for subject in ("orders.*", "orders.new", ">", "other"):
            await client.subscribe(subject)
        await client.publish("orders.new", b"x")
        await client.publish("other", b"x")
        return await flush(client, errors)

    allow(secured.live, "other", Operation.READ, ResourceType.SUBJECT, "orders/*")
    said = secured.do(act, user="other")
    # nats-py says it in small letters.
    assert said == [
        'nats: permissions violation for subscription to ">"',
        'nats: permissions violation for subscription to "other"',
        'nats: permissions violation for publish to "orders.new"',
        'nats: permissions violation for publish to "other"',
    ]


def test_a_rule_that_denies_inboxes_holds_for_whoever_listens_to_all(secured: Secured) -> None:
    """An answer is for whoever has asked; its own inbox needs no rule all the same."""

    async def act(client: Client, errors: list[str]) -> list[bytes]:
        own = client.new_inbox()
        all_of_it, mine = await client.subscribe(">"), await client.subscribe(own)
        await client.flush()
        asker = await secured.connect("root")
        for subject in ("_INBOX.of.others", own, "open"):
            await asker.publish(subject, subject.encode())
        await asker.close()
        found = [(await each.next_msg(timeout=30)).data for each in (all_of_it, mine)]
        return [each.replace(own.encode(), b"own") for each in found]

    allow(secured.live, "other", Operation.READ, ResourceType.SUBJECT, "*")
    assert secured.do(act, user="other") == [b"_INBOX.of.others", b"own"]
    deny(secured.live, "other", "_INBOX/*")
    assert secured.do(act, user="other") == [b"open", b"own"]


def test_who_may_not_have_all_of_it_joins_no_queue_group(secured: Secured) -> None:
    """What a member must not have would be lost for the others."""

    async def act(client: Client, errors: list[str]) -> list[str]:
        for subject in ("jobs.*", "jobs.open"):
            await client.subscribe(subject, queue="workers")
        return await flush(client, errors)

    allow(secured.live, "other", Operation.READ, ResourceType.SUBJECT, "jobs/*")
    assert secured.do(act, user="other") == []
    deny(secured.live, "other", "jobs/secret")
    said = secured.do(act, user="other")
    assert len(said) == 1
    assert 'permissions violation for subscription to "jobs.*"' in said[0]


def test_a_member_of_a_queue_group_whose_rule_is_gone_leaves_it(secured: Secured) -> None:
    live, subject, count = secured.live, "shared.work", 20
    is_in, is_forgotten = Event(), Event()

    async def run() -> list[bytes]:
        is_told = asyncio.Event()

        async def on_error(error: Exception) -> None:
            assert "permissions violation" in str(error).lower()
            is_told.set()

        leaver = await secured.connect("other", error_cb=on_error)
        stays = await secured.connect("root")
        await leaver.subscribe(subject, queue="workers")
        taken = await stays.subscribe(subject, queue="workers")
        for each in (leaver, stays):
            await each.flush()
        is_in.set()
        await asyncio.to_thread(is_forgotten.wait, 60)
        # Two messages find it out: each member is chosen for one of them.
        for _ in range(2):
            await stays.publish(subject, b"first")
        assert (await taken.next_msg(timeout=30)).data == b"first"
        await asyncio.wait_for(is_told.wait(), 30)
        for number in range(count):
            await stays.publish(subject, b"%d" % number)
        found = [(await taken.next_msg(timeout=30)).data for _ in range(count)]
        for each in (leaver, stays):
            await each.close()
        return found

    allow(live, "other", Operation.READ, ResourceType.SUBJECT, subject.replace(".", "/"))
    end = secured.begin_in_thread(lambda: asyncio.run(run()))
    live.wait(lambda: is_in.is_set() or end.done(), "both are members")
    forget_rules(live, "other")
    is_forgotten.set()
    assert secured.result(end) == [b"%d" % number for number in range(count)]


def test_streams_are_judged_as_the_topics_that_they_are(secured: Secured) -> None:
    async def make(client: Client, errors: list[str]) -> None:
        await client.jetstream(timeout=30).add_stream(name="JUDGED")

    async def look(client: Client, errors: list[str]) -> int:
        return (await client.jetstream(timeout=30).stream_info("JUDGED")).state.messages

    with pytest.raises(nats.js.errors.APIError) as caught:
        secured.do(make, user="other")
    assert caught.value.err_code == 10016
    secured.do(make)
    with pytest.raises(nats.js.errors.APIError):
        secured.do(look, user="other")
    allow(secured.live, "other", Operation.DESCRIBE, ResourceType.TOPIC, "JUDGED")
    assert secured.do(look, user="other") == 0


def test_a_stream_stores_only_what_its_maker_may_read(secured: Secured) -> None:
    """Whoever reads it reads all that anybody publishes to its subjects."""
    live = secured.live

    def make(*subjects: str, name: str = "MINE") -> int:
        """Make a stream, or change its subjects; return the error's number, or 0."""

        async def act(client: Client, errors: list[str]) -> int:
            jetstream = client.jetstream(timeout=30)
            try:
                if jetstream_has:
                    await jetstream.update_stream(name=name, subjects=list(subjects))
                else:
                    await jetstream.add_stream(name=name, subjects=list(subjects))
            except nats.js.errors.APIError as error:
                return error.err_code or -1
            return 0

        return secured.do(act, user="other")

    jetstream_has = False
    for operation in (Operation.CREATE, Operation.ALTER, Operation.ALTER_CONFIGS, Operation.READ):
        allow(live, "other", operation, ResourceType.TOPIC, "MINE")
    allow(live, "other", Operation.READ, ResourceType.SUBJECT, "orders/*")
    refused = ApiCode.NOT_ALLOWED.value[1]
    assert make("bills.>") == refused
    assert make("orders.new", "bills.new") == refused
    deny(live, "other", "orders/secret")
    assert make("orders.>") == refused
    assert make("orders.*") == refused
    assert make("orders.new", "orders.new.*") == 0
    jetstream_has = True
    assert make("orders.>") == refused
    assert make("orders.new", "orders.old") == 0
    # What it stores already may stay, though the rule is gone.
    forget_rules(live, "other")
    allow(live, "other", Operation.ALTER, ResourceType.TOPIC, "MINE")
    allow(live, "other", Operation.ALTER_CONFIGS, ResourceType.TOPIC, "MINE")
    assert make("orders.new") == 0
    assert make("orders.new", "orders.old") == refused


@pytest.mark.parametrize("is_new", [False, True])
def test_the_option_of_a_stream_is_no_way_around(secured: Secured, is_new: bool) -> None:
    live, name = secured.live, f"PLAIN{is_new}"
    for operation in (Operation.CREATE, Operation.ALTER_CONFIGS):
        allow(live, "other", operation, ResourceType.TOPIC, name)
    stream = '{"name":"%s","subjects":["%s"]}'
    plain = CreateTopic(name=name, partition_count=1, replication_factor=1)
    if not is_new:
        assert not isinstance(submit(live, plain), RequestRefused)

    def set_to(subject: str) -> object:
        value = stream % (name, subject)
        if is_new:
            return submit(live, msgspec.structs.replace(plain, configs={STREAM: value}))
        return submit(
            live, ChangeConfig(topic=name, changes=[ConfigChange(name=STREAM, value=value)])
        )

    assert isinstance(set_to("bills.>"), TopicNotAuthorized)
    allow(live, "other", Operation.READ, ResourceType.SUBJECT, "bills/*")
    assert not isinstance(set_to("bills.>"), RequestRefused)


@pytest.mark.parametrize("kind", ["mirror", "sources"])
def test_a_stream_copies_only_what_its_maker_may_read(secured: Secured, kind: str) -> None:
    live, name = secured.live, f"COPY-{kind}"

    async def begin(client: Client, errors: list[str]) -> None:
        await client.jetstream(timeout=30).add_stream(name=f"ORIGIN-{kind}")

    secured.do(begin)
    for operation in (Operation.CREATE, Operation.ALTER, Operation.ALTER_CONFIGS):
        allow(live, "other", operation, ResourceType.TOPIC, "*")
    one = {"name": f"ORIGIN-{kind}"}
    config = {"name": name, kind: one if kind == "mirror" else [one]}

    def make(word: str) -> int:
        async def act(client: Client, errors: list[str]) -> int:
            asked = json.dumps(config).encode()
            answer = await client.request(f"$JS.API.STREAM.{word}.{name}", asked, 30)
            return int(json.loads(answer.data).get("error", {}).get("err_code", 0))

        return secured.do(act, user="other")

    refused = ApiCode.NOT_ALLOWED.value[1]
    assert make("CREATE") == refused
    # Nor does the topic's option do it.
    plain = CreateTopic(name=name, partition_count=1, replication_factor=1)
    by_option = msgspec.structs.replace(plain, configs={STREAM: json.dumps(config)})
    assert isinstance(submit(live, by_option), TopicNotAuthorized)
    allow(live, "other", Operation.READ, ResourceType.TOPIC, f"ORIGIN-{kind}")
    assert make("CREATE") == 0
    # What it copies already may stay, though the rule is gone; more may not come.
    forget_rules(live, "other")
    for operation in (Operation.ALTER, Operation.ALTER_CONFIGS):
        allow(live, "other", operation, ResourceType.TOPIC, name)
    assert make("UPDATE") == 0
    if kind == "sources":
        config["sources"] = [one, {"name": "SECRET-ORIGIN"}]
        assert make("UPDATE") == refused
        change = ConfigChange(name=STREAM, value=json.dumps(config))
        assert isinstance(
            submit(live, ChangeConfig(topic=name, changes=[change])), TopicNotAuthorized
        )


def test_a_consumer_is_paused_by_who_may_alter_it(secured: Secured) -> None:
    live = secured.live

    async def begin(client: Client, errors: list[str]) -> None:
        jetstream = client.jetstream(timeout=30)
        await jetstream.add_stream(name="PAUSED")
        await jetstream.add_consumer("PAUSED", durable_name="c", ack_policy="explicit")

    async def pause(client: Client, errors: list[str]) -> bool:
        until = "2100-01-01T00:00:00Z"
        return (await client.jetstream(timeout=30).pause_consumer("PAUSED", "c", until)).paused

    secured.do(begin)
    allow(live, "other", Operation.READ, ResourceType.QUEUE, "*")
    with pytest.raises(nats.js.errors.APIError) as caught:
        secured.do(pause, user="other")
    assert caught.value.err_code == ApiCode.NOT_ALLOWED.value[1]
    allow(live, "other", Operation.ALTER, ResourceType.QUEUE, "*")
    assert secured.do(pause, user="other") is True


def test_a_consumer_sends_only_where_its_maker_may_write(secured: Secured) -> None:
    live = secured.live

    async def fill(client: Client, errors: list[str]) -> None:
        jetstream = client.jetstream(timeout=30)
        await jetstream.add_stream(name="SENT", subjects=["sent"])
        await jetstream.publish("sent", b"reboot")

    secured.do(fill)
    allow(live, "other", Operation.READ, ResourceType.TOPIC, "SENT")
    allow(live, "other", Operation.CREATE, ResourceType.QUEUE, "*")

    def push_to(target: str, *, ack_policy: str) -> int:
        async def act(client: Client, errors: list[str]) -> int:
            config = {"deliver_subject": target, "ack_policy": ack_policy, "durable_name": None}
            asked = {"stream_name": "SENT", "config": {**config, "name": f"c-{ack_policy}"}}
            request = json.dumps(asked).encode()
            answer = await client.request(
                f"$JS.API.CONSUMER.CREATE.SENT.c-{ack_policy}", request, 30
            )
            error = json.loads(answer.data).get("error", {})
            return int(error.get("err_code", 0))

        return secured.do(act, user="other")

    for ack_policy in ("none", "explicit"):
        assert push_to("commands", ack_policy=ack_policy) == ApiCode.NOT_ALLOWED.value[1]
        assert push_to("_INBOX.of.mine", ack_policy=ack_policy) == 0
    consumer = {CONSUMER: '{"deliver_subject":"commands"}'}
    change = ChangeQueue(vhost="/", name="c", changes=dict(consumer))
    allow(live, "other", Operation.ALTER, ResourceType.QUEUE, "*")
    assert isinstance(submit(live, change), TopicNotAuthorized)


def test_an_answer_of_jetstream_goes_only_where_who_asks_may_write(secured: Secured) -> None:
    """It may be what the client itself has put into a stream."""

    async def ask(client: Client, errors: list[str]) -> list[str]:
        await client.publish("$JS.API.INFO", reply="commands")
        return await flush(client, errors)

    said = ['nats: permissions violation for publish to "commands"']
    assert secured.do(ask, user="other") == said
    allow(secured.live, "other", Operation.WRITE, ResourceType.SUBJECT, "commands")
    assert secured.do(ask, user="other") == []


@pytest.mark.parametrize("is_kept", [True, False])
@pytest.mark.parametrize("ack_policy", ["none", "explicit"])
def test_a_rule_that_goes_while_messages_are_waited_for(
    secured: Secured, ack_policy: str, is_kept: bool
) -> None:
    live, stream = secured.live, f"GOES-{ack_policy}-{is_kept}"
    subject = stream.lower()

    async def begin(client: Client, errors: list[str]) -> None:
        await client.jetstream(timeout=30).add_stream(name=stream, subjects=[subject])

    secured.do(begin)
    allow(live, "other", Operation.READ, ResourceType.TOPIC, stream)
    for operation in (Operation.READ, Operation.CREATE):
        allow(live, "other", operation, ResourceType.QUEUE, "*")
    has_first, is_forgotten = Event(), Event()

    async def pull(client: Client) -> list[bytes]:
        config = {"ack_policy": ack_policy, "name": "c"}
        asked = json.dumps({"stream_name": stream, "config": config}).encode()
        await client.request(f"$JS.API.CONSUMER.CREATE.{stream}.c", asked, 30)
        taken = await client.subscribe(inbox := client.new_inbox())
        wanted = json.dumps({"batch": 2, "expires": 60_000_000_000}).encode()
        await client.publish(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.c", wanted, reply=inbox)
        publisher = await secured.connect("root")
        found = []
        with suppress(nats.errors.TimeoutError):
            for body in (b"before", b"after"):
                await publisher.jetstream(timeout=30).publish(subject, body)
                found.append((await taken.next_msg(timeout=2)).data)  # empty: why there are none
                has_first.set()
                await asyncio.to_thread(is_forgotten.wait, 60)
        await publisher.close()
        return [each for each in found if each]

    async def run() -> list[bytes]:
        client = await secured.connect("other")
        try:
            return await pull(client)
        finally:
            await client.close()

    end = secured.begin_in_thread(lambda: asyncio.run(run()))
    live.wait(lambda: has_first.is_set() or end.done(), "the first message has come")
    if not is_kept:
        forget_rules(live, "other")
    is_forgotten.set()
    assert secured.result(end) == ([b"before", b"after"] if is_kept else [b"before"])


def test_streams_that_are_not_there_and_forbidden_ones_look_alike(secured: Secured) -> None:
    async def begin(client: Client, errors: list[str]) -> None:
        await client.jetstream(timeout=30).add_stream(name="SECRET")

    secured.do(begin)
    calls = ["STREAM.INFO.{}", "STREAM.MSG.GET.{}", "STREAM.PURGE.{}", "CONSUMER.NAMES.{}"]
    calls += ["CONSUMER.LIST.{}"]
    calls += [f"CONSUMER.{word}.{{}}.c" for word in ("CREATE", "INFO", "DELETE", "PAUSE")]

    async def ask(client: Client, errors: list[str]) -> list[tuple[str, ...]]:
        found = []
        for call in calls:
            told = []
            for name in ("SECRET", "ABSENT"):
                answer = await client.request(f"$JS.API.{call.format(name)}", b"{}", 30)
                told.append(answer.data.decode().replace(name, "NAME"))
            found.append(tuple(told))
        return found

    for present, absent in secured.do(ask, user="other"):
        assert present == absent
        assert f'"err_code":{ApiCode.NOT_ALLOWED.value[1]}' in present


def test_the_audit_log_is_told_who_removes_messages(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def remove(client: Client, errors: list[str]) -> None:
        streams = client.jetstream(timeout=30)
        await streams.add_stream(name="REMOVED", subjects=["removed"])
        for _ in range(3):
            await streams.publish("removed", b"x")
        await streams.delete_msg("REMOVED", 2)
        await streams.purge_stream("REMOVED")

    noted: list[AuditEvent] = []
    monkeypatch.setattr(Audit, "note", lambda _, event: noted.append(event))
    secured.do(remove)
    found = [(each.operation, each.resource, each.detail) for each in noted if each.detail]
    assert ("delete-records", "REMOVED", {"sequence": "2"}) in found
    assert ("delete-records", "REMOVED", {"purged": "2"}) in found


def test_an_nkey_lets_in_and_a_wrong_signature_does_not(secured: Secured) -> None:
    live, seed = secured.live, Ed25519PrivateKey.generate()
    key = public_key_of(seed)
    nonces: list[bytes] = []

    def sign_it(nonce: bytes) -> str:
        nonces.append(nonce)
        return sign(seed, nonce)

    refused = b"-ERR 'Authorization Violation'\r\n"
    assert secured.answer_signed(sign_it, nkey=key) == refused
    credential = make_nkey("other", key)
    change(live, PutCredential(credential=credential, epoch=0))
    assert secured.answer_signed(sign_it, nkey=key) == b"PONG\r\n"
    # What was signed for one connection is worth nothing on another one.
    assert secured.answer_signed(lambda _: sign(seed, nonces[-1]), nkey=key) == refused
    assert len(set(nonces)) == len(nonces)
    stranger = Ed25519PrivateKey.generate()
    assert secured.answer_signed(lambda nonce: sign(stranger, nonce), nkey=key) == refused
    assert secured.answer(nkey=key) == refused
    change(live, RemoveCredential(id=credential.id))
    assert secured.answer_signed(sign_it, nkey=key) == refused


def test_who_has_come_by_an_nkey_is_out_when_it_is_removed(secured: Secured) -> None:
    live, seed = secured.live, Ed25519PrivateKey.generate()
    credential = make_nkey("other", public_key_of(seed))
    change(live, PutCredential(credential=credential, epoch=0))
    is_in = Event()

    def stay() -> bytes:
        port = secured.ports[AccessMode.REQUIRED]
        with socket.create_connection(("127.0.0.1", port), timeout=30) as link:
            nonce = json.loads(link.recv(65_536).removeprefix(b"INFO "))["nonce"]
            signature = sign(seed, nonce.encode())
            link.sendall(connect(nkey=credential.public_key, sig=signature) + b"PING\r\n")
            assert link.recv(65_536) == b"PONG\r\n"
            is_in.set()
            with suppress(ConnectionResetError):
                return link.recv(65_536)
            return b""

    end = secured.begin_in_thread(stay)
    live.wait(lambda: is_in.is_set() or end.done(), "it is in")
    change(live, RemoveCredential(id=credential.id))
    begun = time.monotonic()
    assert not secured.result(end) or b"-ERR" in end.result()
    assert time.monotonic() - begun < 1.5
