"""Log-ins and rights over MQTT: brokers judge by the rules for topics."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import TypeVar

import pytest

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.access.principals import User
from kafkaesque.access.rules import Effect
from kafkaesque.access.scram_client import ScramClient
from kafkaesque.access.scram_mechanisms import SCRAM_MECHANISMS
from kafkaesque.access.secret import Secret
from kafkaesque.broker.listeners import MQTT, AccessMode
from kafkaesque.broker.requests.access_commands import PutUser, RemoveUser
from kafkaesque.gateway.mqtt.gateway import MqttGateway
from kafkaesque.protocols.mqtt import packets as p
from kafkaesque.protocols.mqtt.frames import FrameReader
from kafkaesque.protocols.mqtt.packet_codec import read_packet, write_packet
from kafkaesque.protocols.mqtt.packets import Version
from kafkaesque.protocols.mqtt.properties import Properties
from kafkaesque.protocols.mqtt.reasons import ReasonCode as R
from tests.unit.gateway_kafka.live import PATIENCE_S, LiveCluster
from tests.unit.gateway_kafka.secured import (
    PASSWORD,
    add_user,
    allow,
    change,
    forget_rules,
)
from tests.unit.gateway_kafka.secured_ports import SecuredPorts, at_secured_ports
from tests.unit.gateway_mqtt.kit import new_name

PacketT = TypeVar("PacketT", bound=p.Packet)


class Secured(SecuredPorts):
    """A broker with a port for MQTT where clients log in, one where they may, and one for all."""

    def __init__(self, live: LiveCluster) -> None:
        super().__init__(live, MqttGateway, MQTT)


class Client:
    """One connection."""

    def __init__(self, secured: Secured, mode: AccessMode, version: Version) -> None:
        self._loop = secured.live.loop
        self.version = version
        opened = asyncio.open_connection("127.0.0.1", secured.ports[mode])
        self._reader, self._writer = self._loop.run_until_complete(opened)
        self._frames = FrameReader(2**28)
        secured.live.closers.append(self._writer.close)

    def send(self, *packets: p.Packet) -> None:
        self._writer.write(b"".join(write_packet(each, self.version) for each in packets))

    def next(self, patience_s: float = PATIENCE_S) -> p.Packet | None:
        """Return what comes next; None: the broker has hung up."""
        while (frame := self._frames.next_packet()) is None:
            reading = asyncio.wait_for(self._reader.read(65_536), patience_s)
            try:
                data = self._loop.run_until_complete(reading)
            except ConnectionError:
                return None
            if not data:
                return None
            self._frames.feed(data)
        return read_packet(*frame, self.version)

    def hang_up(self) -> None:
        """End without a farewell."""
        self._writer.close()

    def expect(self, kind: type[PacketT]) -> PacketT:
        found = self.next()
        assert isinstance(found, kind), found
        return found


def connect(
    secured: Secured,
    user: str | None = "other",
    password: str | None = PASSWORD,
    *,
    mode: AccessMode = AccessMode.REQUIRED,
    version: Version = Version.V5,
    client_id: str = "",
    will: p.Will | None = None,
    expiry_s: int | None = None,
) -> tuple[Client, R]:
    client = Client(secured, mode, version)
    client.send(
        p.Connect(
            version=version,
            client_id=client_id or new_name(),
            user_name=user,
            password=None if password is None else password.encode(),
            will=will,
            properties=Properties(session_expiry_interval_s=expiry_s),
        )
    )
    return client, client.expect(p.Connack).reason


def publish(client: Client, topic: str, payload: bytes = b"x") -> R:
    client.send(p.Publish(topic=topic, payload=payload, qos=1, packet_id=1))
    return client.expect(p.Puback).reason


def subscribe(client: Client, *filters: str) -> tuple[R, ...]:
    wanted = tuple(p.Subscription(topic_filter=each, qos=1) for each in filters)
    client.send(p.Subscribe(packet_id=1, subscriptions=wanted))
    return client.expect(p.Suback).reasons


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with at_secured_ports(tmp_path_factory.mktemp("mqtt"), Secured) as found:
        yield found


@pytest.fixture(autouse=True)
def _without_rules(secured: Secured) -> Iterator[None]:
    yield
    forget_rules(secured.live, "other")


@pytest.mark.parametrize("version", list(Version))
def test_passwords(secured: Secured, version: Version) -> None:
    assert connect(secured, version=version)[1] is R.SUCCESS
    for user, password, reason in (
        ("other", "wrong", R.BAD_USER_NAME_OR_PASSWORD),
        ("nobody", PASSWORD, R.BAD_USER_NAME_OR_PASSWORD),
        (None, None, R.NOT_AUTHORIZED),
    ):
        client, refused = connect(secured, user, password, version=version)
        assert refused is reason
        assert client.next() is None


def test_a_log_in_is_optional_where_it_is(secured: Secured) -> None:
    mode = AccessMode.OPTIONAL
    client, reason = connect(secured, None, None, mode=mode)
    assert reason is R.SUCCESS
    assert publish(client, new_name("free/")) is R.NO_MATCHING_SUBSCRIBERS
    assert connect(secured, "other", "wrong", mode=mode)[1] is R.BAD_USER_NAME_OR_PASSWORD
    client, _ = connect(secured, mode=mode)
    assert publish(client, new_name("free/")) is R.NOT_AUTHORIZED
    assert connect(secured, "any", "thing", mode=AccessMode.OPEN)[1] is R.SUCCESS


def test_rules_say_who_publishes_what(secured: Secured) -> None:
    root = new_name("house")
    client, _ = connect(secured)
    assert publish(client, f"{root}/a") is R.NOT_AUTHORIZED
    allow(secured.live, "other", Operation.WRITE, ResourceType.TOPIC, f"{root}/*")
    assert publish(client, f"{root}/a") is R.NO_MATCHING_SUBSCRIBERS
    assert publish(client, "elsewhere") is R.NOT_AUTHORIZED
    # In 3.1.1 it is acknowledged and dropped.
    reader, _ = connect(secured, "root")
    subscribe(reader, "elsewhere", f"{root}/#")
    older, _ = connect(secured, version=Version.V3_1_1)
    assert publish(older, "elsewhere", b"dropped") is R.SUCCESS
    assert publish(older, f"{root}/b", b"kept") is R.SUCCESS
    assert reader.expect(p.Publish).payload == b"kept"


@pytest.mark.parametrize("expiry_s", [0, 60])
def test_rules_say_who_gets_what(secured: Secured, expiry_s: int) -> None:
    root, live = new_name("house"), secured.live
    client, _ = connect(secured, expiry_s=expiry_s)
    allow(live, "other", Operation.READ, ResourceType.TOPIC, f"{root}/*")
    allow(
        live,
        "other",
        Operation.READ,
        ResourceType.TOPIC,
        f"{root}/secret",
        effect=Effect.DENY,
    )
    reasons = subscribe(client, f"{root}/+", "#", f"{root}/secret")
    assert reasons == (R.GRANTED_QOS_1, R.NOT_AUTHORIZED, R.NOT_AUTHORIZED)
    older, _ = connect(secured, version=Version.V3_1_1)
    assert subscribe(older, "#") == (R.UNSPECIFIED_ERROR,)
    publisher, _ = connect(secured, "root")
    publish(publisher, f"{root}/secret", b"hidden")
    publish(publisher, f"{root}/open", b"shown")
    assert client.expect(p.Publish).payload == b"shown"


def test_a_share_gives_no_right(secured: Secured) -> None:
    root = new_name("house")
    client, _ = connect(secured)
    allow(secured.live, "other", Operation.READ, ResourceType.TOPIC, f"{root}/*")
    reasons = subscribe(client, f"$share/g/{root}/+", "$share/g/#", "$share/g/elsewhere")
    assert reasons == (R.GRANTED_QOS_1, R.NOT_AUTHORIZED, R.NOT_AUTHORIZED)


@pytest.mark.parametrize("expiry_s", [0, 60])
def test_retained_messages_are_judged_as_others(secured: Secured, expiry_s: int) -> None:
    root, live = new_name("house"), secured.live
    publisher, _ = connect(secured, "root")
    for name, payload in (("secret", b"hidden"), ("open", b"shown")):
        message = p.Publish(
            topic=f"{root}/{name}", payload=payload, qos=1, packet_id=1, retain=True
        )
        publisher.send(message)
        publisher.expect(p.Puback)
    allow(live, "other", Operation.READ, ResourceType.TOPIC, f"{root}/*")
    deny = {"effect": Effect.DENY}
    allow(live, "other", Operation.READ, ResourceType.TOPIC, f"{root}/secret", **deny)
    client, _ = connect(secured, expiry_s=expiry_s)
    assert subscribe(client, f"{root}/+") == (R.GRANTED_QOS_1,)
    kept = client.expect(p.Publish)
    assert (kept.payload, kept.retain) == (b"shown", True)
    client.send(p.Puback(packet_id=kept.packet_id))
    publish(publisher, f"{root}/last", b"last")
    assert client.expect(p.Publish).payload == b"last"


def test_an_alias_gives_no_right(secured: Secured) -> None:
    root = new_name("house")
    allow(secured.live, "other", Operation.WRITE, ResourceType.TOPIC, f"{root}/open")
    client, _ = connect(secured)
    for topic, reason in (
        (f"{root}/secret", R.NOT_AUTHORIZED),
        ("", R.NOT_AUTHORIZED),
        (f"{root}/open", R.NO_MATCHING_SUBSCRIBERS),
        ("", R.NO_MATCHING_SUBSCRIBERS),
    ):
        alias = Properties(topic_alias=1)
        client.send(p.Publish(topic=topic, payload=b"x", qos=1, packet_id=1, properties=alias))
        assert client.expect(p.Puback).reason is reason, topic


def test_a_will_needs_the_right_to_publish(secured: Secured) -> None:
    topic = new_name("status/")
    will = p.Will(topic=topic, payload=b"gone")
    assert connect(secured, will=will)[1] is R.NOT_AUTHORIZED
    allow(secured.live, "other", Operation.WRITE, ResourceType.TOPIC, topic)
    assert connect(secured, will=will)[1] is R.SUCCESS


@pytest.mark.parametrize("what", ["nothing", "rule", "user is disabled", "user is removed"])
def test_a_will_is_not_done_once_its_right_is_gone(secured: Secured, what: str) -> None:
    live, topic, user, me = secured.live, new_name("status/"), new_name("user"), new_name()
    heir, _ = connect(secured, "root")
    subscribe(heir, topic)
    add_user(live, user)
    allow(live, user, Operation.WRITE, ResourceType.TOPIC, topic)
    will = p.Will(topic=topic, payload=b"gone")
    client, reason = connect(secured, user, client_id=me, will=will)
    assert reason is R.SUCCESS
    if what == "rule":
        forget_rules(live, user)
    elif what == "user is disabled":
        change(live, PutUser(user=User(name=user, is_disabled=True)))
    elif what == "user is removed":
        # Rules that name it stay.
        change(live, RemoveUser(name=user))
    client.hang_up()
    live.wait(lambda: me not in secured.gateway._desk.clients, "the client is gone")
    publish(connect(secured, "root")[0], topic, b"after")
    expected = b"gone" if what == "nothing" else b"after"
    assert heir.expect(p.Publish).payload == expected


def test_what_is_released_is_not_published_once_its_rule_is_gone(secured: Secured) -> None:
    """QoS 2: the message was taken, and waits in the session for as long as that is kept."""
    live, topic = secured.live, new_name("rooms/")
    reader, _ = connect(secured, "root")
    subscribe(reader, topic)
    allow(live, "other", Operation.WRITE, ResourceType.TOPIC, topic)
    client, _ = connect(secured, expiry_s=60)
    for packet_id in (7, 8):
        client.send(p.Publish(topic=topic, payload=b"%d" % packet_id, qos=2, packet_id=packet_id))
        assert client.expect(p.Pubrec).reason is R.SUCCESS
    client.send(p.Pubrel(packet_id=7))
    assert client.expect(p.Pubcomp).reason is R.SUCCESS
    forget_rules(live, "other")
    client.send(p.Pubrel(packet_id=8))
    assert client.expect(p.Pubcomp).reason is R.SUCCESS
    publish(connect(secured, "root")[0], topic, b"after")
    found = []
    for _ in range(2):
        packet = reader.expect(p.Publish)
        found.append(packet.payload)
        reader.send(p.Puback(packet_id=packet.packet_id))
    assert found == [b"7", b"after"]


def test_who_may_not_have_all_of_it_shares_nothing(secured: Secured) -> None:
    """What a member must not have would be lost for the others."""
    live, root = secured.live, new_name("jobs")
    allow(live, "other", Operation.READ, ResourceType.TOPIC, f"{root}/*")
    denied = f"{root}/secret"
    client, _ = connect(secured)
    assert subscribe(client, f"$share/g/{root}/+") == (R.GRANTED_QOS_1,)
    allow(live, "other", Operation.READ, ResourceType.TOPIC, denied, effect=Effect.DENY)
    reasons = subscribe(client, f"$share/h/{root}/+", f"$share/h/{root}/open")
    assert reasons == (R.NOT_AUTHORIZED, R.GRANTED_QOS_1)


@pytest.mark.parametrize("expiry_s", [0, 60])
def test_who_shares_and_whose_rule_is_gone_keeps_nothing_from_others(
    secured: Secured, expiry_s: int
) -> None:
    live, root = secured.live, new_name("jobs")
    shared = f"$share/workers/{root}/+"
    allow(live, "other", Operation.READ, ResourceType.TOPIC, f"{root}/*")
    leaver, _ = connect(secured, expiry_s=expiry_s)
    assert subscribe(leaver, shared) == (R.GRANTED_QOS_1,)
    stays, _ = connect(secured, "root")
    assert subscribe(stays, shared) == (R.GRANTED_QOS_1,)
    forget_rules(live, "other")
    publisher, _ = connect(secured, "root")
    sent = {b"%d" % number for number in range(10)}
    for each in sent:
        publish(publisher, f"{root}/a", each)
    found: set[bytes] = set()
    while found < sent:
        packet = stays.expect(p.Publish)
        found.add(packet.payload)
        stays.send(p.Puback(packet_id=packet.packet_id))


@pytest.mark.parametrize("expiry_s", [0, 60])
def test_a_client_id_is_its_users(secured: Secured, expiry_s: int) -> None:
    me = new_name()
    first, reason = connect(secured, "root", client_id=me, expiry_s=expiry_s)
    assert reason is R.SUCCESS
    assert connect(secured, "other", client_id=me)[1] is R.NOT_AUTHORIZED
    first.send(p.Pingreq())
    first.expect(p.Pingresp)
    assert connect(secured, "root", client_id=me)[1] is R.SUCCESS
    assert first.expect(p.Disconnect).reason is R.SESSION_TAKEN_OVER


def test_a_log_in_that_takes_many_bytes_is_refused(secured: Secured) -> None:
    client = Client(secured, AccessMode.REQUIRED, Version.V5)
    client.send(p.Connect(client_id=new_name(), password=bytes(60_000), user_name="x" * 60_000))
    assert client.next() is None


# -- enhanced authentication


def begin(
    secured: Secured, method: str, data: bytes | None, mode: AccessMode = AccessMode.REQUIRED
) -> Client:
    client = Client(secured, mode, Version.V5)
    client.send(
        p.Connect(
            version=Version.V5,
            client_id=new_name(),
            properties=Properties(authentication_method=method, authentication_data=data),
        )
    )
    return client


def answer(client: Client, method: str, data: bytes, reason: R = R.CONTINUE_AUTHENTICATION) -> None:
    said = Properties(authentication_method=method, authentication_data=data)
    client.send(p.Auth(reason=reason, properties=said))


def challenge(client: Client, method: str) -> bytes:
    asked = client.expect(p.Auth)
    assert (asked.reason, asked.properties.authentication_method) == (
        R.CONTINUE_AUTHENTICATION,
        method,
    )
    return asked.properties.authentication_data or b""


def scram_client(method: str, user: str = "other", password: str = PASSWORD) -> ScramClient:
    return ScramClient(SCRAM_MECHANISMS[method], user, Secret.of(password), os.urandom(18))


@pytest.mark.parametrize("has_data", [True, False])
def test_scram_in_connect_and_once_more(secured: Secured, has_data: bool) -> None:
    method, topic = "SCRAM-SHA-256", new_name("house")
    scram = scram_client(method)
    client = begin(secured, method, scram.first() if has_data else None)
    if not has_data:
        assert challenge(client, method) == b""
        answer(client, method, scram.first())
    answer(client, method, scram.final(challenge(client, method)))
    let_in = client.expect(p.Connack)
    assert (let_in.reason, let_in.properties.authentication_method) == (R.SUCCESS, method)
    scram.verify(let_in.properties.authentication_data or b"")
    assert publish(client, topic) is R.NOT_AUTHORIZED
    allow(secured.live, "other", Operation.WRITE, ResourceType.TOPIC, topic)
    assert publish(client, topic) is R.NO_MATCHING_SUBSCRIBERS

    again = scram_client(method)
    answer(client, method, again.first(), R.REAUTHENTICATE)
    asked = challenge(client, method)
    # Meanwhile the client may go on.
    assert publish(client, topic) is R.NO_MATCHING_SUBSCRIBERS
    answer(client, method, again.final(asked))
    renewed = client.expect(p.Auth)
    assert renewed.reason is R.SUCCESS
    again.verify(renewed.properties.authentication_data or b"")
    assert publish(client, topic) is R.NO_MATCHING_SUBSCRIBERS


def test_nobody_becomes_somebody_else(secured: Secured) -> None:
    method = "SCRAM-SHA-256"
    scram = scram_client(method)
    client = begin(secured, method, scram.first())
    answer(client, method, scram.final(challenge(client, method)))
    client.expect(p.Connack)
    other = scram_client(method, "root")
    answer(client, method, other.first(), R.REAUTHENTICATE)
    answer(client, method, other.final(challenge(client, method)))
    assert client.expect(p.Disconnect).reason is R.NOT_AUTHORIZED
    assert client.next() is None


def test_who_is_not_let_in_by_steps(secured: Secured) -> None:
    method = "SCRAM-SHA-256"
    scram = scram_client(method, "other", "wrong")
    client = begin(secured, method, scram.first())
    answer(client, method, scram.final(challenge(client, method)))
    assert client.expect(p.Connack).reason is R.NOT_AUTHORIZED
    assert client.next() is None
    malformed = begin(secured, method, b"\0\xff")
    assert malformed.expect(p.Connack).reason is R.NOT_AUTHORIZED
    # Before the log-in is done nothing else is taken.
    hasty = begin(secured, method, scram_client(method).first())
    challenge(hasty, method)
    hasty.send(p.Publish(topic="house", payload=b"x"))
    assert hasty.expect(p.Connack).reason is R.PROTOCOL_ERROR
    another = begin(secured, method, scram_client(method).first())
    challenge(another, method)
    answer(another, "SCRAM-SHA-512", b"")
    assert another.expect(p.Connack).reason is R.PROTOCOL_ERROR


def test_who_sends_on_before_it_is_answered_is_closed(secured: Secured) -> None:
    """The password is still being checked: a second message must not stop the broker."""
    client = begin(secured, "PLAIN", f"\0other\0{PASSWORD}".encode())
    assert client.expect(p.Connack).reason is R.SUCCESS
    said = Properties(authentication_method="PLAIN", authentication_data=b"\0other\0wrong")
    client.send(
        p.Auth(reason=R.REAUTHENTICATE, properties=said),
        p.Auth(reason=R.CONTINUE_AUTHENTICATION, properties=said),
    )
    assert client.next() is None
    secured.live._check()
    assert connect(secured)[1] is R.SUCCESS


def test_methods_that_there_are_not(secured: Secured) -> None:
    for method, mode in (("GS2-KRB5", AccessMode.REQUIRED), ("SCRAM-SHA-256", AccessMode.OPEN)):
        refused = begin(secured, method, b"", mode).expect(p.Connack)
        assert refused.reason is R.BAD_AUTHENTICATION_METHOD


def test_a_password_in_one_step(secured: Secured) -> None:
    client = begin(secured, "PLAIN", f"\0other\0{PASSWORD}".encode())
    assert client.expect(p.Connack).reason is R.SUCCESS
