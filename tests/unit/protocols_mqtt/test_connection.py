"""A connection over several packets, and over time."""

from __future__ import annotations

import pytest

from kafkaesque.model.errors import InvariantBroken
from kafkaesque.protocols.mqtt import packets as p
from kafkaesque.protocols.mqtt.connection import RECEIVE_MAXIMUM_DEFAULT, Connection, Limits
from kafkaesque.protocols.mqtt.packet_codec import read_packet, write_packet
from kafkaesque.protocols.mqtt.packets import Version
from kafkaesque.protocols.mqtt.properties import NO_PROPERTIES, Properties
from kafkaesque.protocols.mqtt.publish_path import PublishVariant, flags_of
from kafkaesque.protocols.mqtt.reasons import ReasonCode
from kafkaesque.protocols.mqtt.states import ConnectionState
from tests.unit.protocols_mqtt.peer import LIMITS, Broker, opened

V3, V5 = Version.V3_1_1, Version.V5


def read(raw: bytes, version: Version = V5) -> p.Packet:
    """The only packet in these bytes."""
    assert raw[1] == len(raw) - 2
    return read_packet(raw[0], raw[2:], version)


def connected(properties: Properties = NO_PROPERTIES, keep_alive_s: int = 0) -> Broker:
    broker = Broker()
    packet = p.Connect(client_id="c", properties=properties, keep_alive_s=keep_alive_s)
    broker.receive(write_packet(packet, V5))
    broker.sent.clear()
    return broker


def publish(packet_id: int, qos: int, version: Version, topic: str = "a") -> bytes:
    packet = p.Publish(topic=topic, payload=b"x", qos=qos, packet_id=packet_id)
    return write_packet(packet, version)


# -- time (3.1.2-22)


def test_a_client_that_sends_no_connect_is_hung_up_on() -> None:
    broker = Broker()
    assert broker.deadline_ms() == LIMITS.connect_ms_max
    broker.receive(b"\x10")
    assert broker.tick(LIMITS.connect_ms_max - 1) == b""
    assert not broker.is_closed()
    assert broker.tick(LIMITS.connect_ms_max) == b""
    assert broker.is_closed()


@pytest.mark.parametrize("version", list(Version))
def test_a_silent_client_is_hung_up_on_after_one_and_a_half_keep_alives(version: Version) -> None:
    broker = Broker()
    packet = p.Connect(client_id="c", keep_alive_s=10, version=version)
    broker.receive(write_packet(packet, version), now_ms=100)
    assert broker.deadline_ms() == 15_100
    broker.receive(b"\xc0", now_ms=5_000)
    assert broker.deadline_ms() == 15_100, "half a packet is none"
    broker.receive(b"\x00", now_ms=6_000)
    assert broker.deadline_ms() == 21_000
    assert broker.tick(20_999) == b""
    answer = broker.tick(21_000)
    assert answer[:1] == (b"\xe0" if version is V5 else b"")
    assert broker.reason() is ReasonCode.KEEP_ALIVE_TIMEOUT
    assert broker.deadline_ms() is None
    assert broker.receive(b"\xc0\x00") == b""


def test_a_client_that_is_not_read_is_not_called_silent() -> None:
    broker = Broker(acknowledges=False)
    packet = p.Connect(client_id="c", keep_alive_s=10, version=V3)
    broker.receive(write_packet(packet, V3), now_ms=0)
    broker.receive(b"".join(publish(number, 1, V3) for number in (1, 2, 3)), now_ms=1_000)
    assert broker.deadline_ms() is None
    assert broker.tick(100_000) == b""
    broker.connection.send(p.Puback(packet_id=1))
    broker.receive(b"", now_ms=100_000)
    assert broker.deadline_ms() == 115_000
    broker.connection.excuse(200_000)
    assert broker.deadline_ms() == 215_000


def test_without_keep_alive_a_client_may_be_silent_for_ever() -> None:
    broker = opened(V5)
    assert broker.deadline_ms() is None
    assert broker.tick(10**12) == b""
    assert not broker.is_closed()


def test_the_brokers_keep_alive_counts_where_it_names_one() -> None:
    connection = Connection(0, LIMITS)
    connection.receive(write_packet(p.Connect(client_id="c", keep_alive_s=10), V5), 0)
    connection.send(p.Connack(properties=Properties(server_keep_alive_s=4)))
    assert connection.deadline_ms == 6_000


def test_a_log_in_by_steps_has_its_time() -> None:
    broker = connected(Properties(authentication_method="m"))
    assert broker.connection.state is ConnectionState.AWAITS_AUTH
    assert broker.deadline_ms() == LIMITS.connect_ms_max
    answer = read(broker.tick(LIMITS.connect_ms_max))
    assert isinstance(answer, p.Connack)
    assert answer.reason is ReasonCode.UNSPECIFIED_ERROR, "CONNACK has no better one"


# -- what a client may have in flight (3.3.4-7 to 3.3.4-9)


def test_more_messages_than_agreed_upon_end_the_connection() -> None:
    broker = opened(V5, acknowledges=False)
    broker.receive(publish(1, 1, V5) + publish(2, 2, V5))
    assert not broker.is_closed()
    answer = read(broker.receive(publish(3, 1, V5)))
    assert isinstance(answer, p.Disconnect)
    assert answer.reason is ReasonCode.RECEIVE_MAXIMUM_EXCEEDED


def test_a_repeat_counts_once() -> None:
    broker = opened(V5)
    broker.receive(publish(1, 2, V5) + publish(2, 2, V5) * 5)
    assert not broker.is_closed()
    broker.receive(publish(3, 2, V5))
    assert broker.is_closed()


@pytest.mark.parametrize(
    ("answers", "is_free"),
    [
        ([p.Puback(packet_id=1)], True),
        ([p.Pubrec(packet_id=2)], False),
        ([p.Pubrec(packet_id=2, reason=ReasonCode.QUOTA_EXCEEDED)], True),
    ],
)
def test_an_answer_frees_a_place(answers: list[p.Packet], is_free: bool) -> None:
    broker = opened(V5, acknowledges=False)
    broker.receive(publish(1, 1, V5) + publish(2, 2, V5))
    for answer in answers:
        broker.connection.send(answer)
    broker.receive(publish(3, 1, V5))
    assert (broker.error is None) is is_free


def test_pubcomp_frees_a_place() -> None:
    broker = opened(V5, acknowledges=False)
    broker.receive(publish(1, 1, V5) + publish(2, 2, V5))
    broker.connection.send(p.Pubrec(packet_id=2))
    broker.receive(bytes.fromhex("62020002"))
    broker.connection.send(p.Pubcomp(packet_id=2))
    broker.receive(publish(3, 1, V5))
    assert not broker.is_closed()


def test_reading_pauses_where_too_many_requests_are_unanswered() -> None:
    broker = opened(V3, acknowledges=False)
    broker.receive(b"".join(publish(number, 1, V3) for number in (1, 2, 3, 4)))
    assert broker.connection.is_paused
    assert len(broker.events) == LIMITS.requests_max
    assert broker.deadline_ms() is None
    broker.connection.send(p.Puback(packet_id=1))
    broker.receive(b"")
    assert len(broker.events) == 4


def pubacks(*packet_ids: int) -> bytes:
    return b"".join(b"\x40\x02" + each.to_bytes(2, "big") for each in packet_ids)


@pytest.mark.parametrize("version", list(Version))
def test_pubacks_that_came_together_are_their_packet_ids(version: Version) -> None:
    broker = opened(version)
    sent = pubacks(1, 7, 65_535)
    for data in (sent, bytearray(sent), memoryview(sent)):
        assert broker.connection.receive_pubacks(data, 5) == (1, 7, 65_535)
    assert broker.connection.receive(sent, 5) == [p.Puback(packet_id=n) for n in (1, 7, 65_535)]


def test_pubacks_that_came_together_are_a_sign_of_life() -> None:
    broker = connected(keep_alive_s=10)
    broker.connection.receive_pubacks(pubacks(1), 5_000)
    assert broker.deadline_ms() == 20_000


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        pubacks(1, 0, 2),
        pubacks(1, 2)[:-1],
        pubacks(1, 2)[:-2],
        pubacks(1) + b"\xc0\x00\xc0\x00",
        b"\xc0\x00\xc0\x00" + pubacks(1),
        pubacks(1) + b"\x50\x02\x00\x02",
        pubacks(1) + b"\x41\x02\x00\x02",
        b"\x40\x03\x00\x01\x10\x40\x03\x00",
    ],
)
def test_what_is_not_pubacks_alone_is_left_as_it_is(sent: bytes) -> None:
    broker = opened(V5)
    assert broker.connection.receive_pubacks(sent, 0) == ()
    events = broker.connection.receive(sent, 0)
    assert repr(events) == repr(opened(V5).connection.receive(sent, 0))


def test_pubacks_wait_for_what_came_before_them() -> None:
    broker = opened(V5)
    broker.receive(publish(1, 1, V5)[:-1])
    assert broker.connection.receive_pubacks(pubacks(1), 0) == ()
    paused = opened(V3, acknowledges=False)
    paused.receive(b"".join(publish(number, 1, V3) for number in (1, 2, 3, 4)))
    assert paused.connection.receive_pubacks(pubacks(1), 0) == ()
    strange = Broker()
    assert strange.connection.receive_pubacks(pubacks(1), 0) == ()


def test_a_client_of_3_1_1_that_never_releases_is_hung_up_on() -> None:
    broker = opened(V3)
    for number in range(1, LIMITS.in_flight_max + 1):
        broker.receive(publish(number, 2, V3))
    assert not broker.is_closed()
    assert broker.receive(publish(99, 2, V3)) == b""
    assert broker.reason() is ReasonCode.RECEIVE_MAXIMUM_EXCEEDED


def test_limits_that_contradict_one_another_are_refused() -> None:
    with pytest.raises(InvariantBroken):
        Limits(receive_maximum=64)


# -- what the client takes


def test_a_message_that_the_client_cannot_take_is_not_sent() -> None:
    broker = connected(Properties(maximum_packet_size_bytes=11))
    connection = broker.connection
    assert connection.publish(PublishVariant(V5, "a", b"12345"), flags_of(0)) is not None
    assert connection.publish(PublishVariant(V5, "a", b"123456"), flags_of(0)) is None


def test_aliases_are_given_to_the_first_topics() -> None:
    connection = connected(Properties(topic_alias_maximum=10)).connection
    sent = []
    for topic in "abac":
        raw = connection.publish(PublishVariant(V5, topic, b""), flags_of(0))
        assert raw is not None
        packet = read(raw)
        assert isinstance(packet, p.Publish)
        sent.append((packet.topic, packet.properties.topic_alias))
    assert sent == [("a", 1), ("b", 2), ("", 1), ("c", None)]


def test_an_alias_that_was_not_sent_is_not_taken() -> None:
    properties = Properties(topic_alias_maximum=10, maximum_packet_size_bytes=12)
    connection = connected(properties).connection
    assert connection.publish(PublishVariant(V5, "a", b"1234567"), flags_of(0)) is None
    raw = connection.publish(PublishVariant(V5, "a", b""), flags_of(0))
    assert raw is not None
    packet = read(raw)
    assert isinstance(packet, p.Publish)
    assert packet.topic == "a"


def test_a_client_that_names_no_alias_maximum_gets_none() -> None:
    connection = connected().connection
    raw = connection.publish(PublishVariant(V5, "a", b"p"), flags_of(1, retain=True), 7, (3, 200))
    assert raw is not None
    assert read(raw) == p.Publish(
        topic="a",
        payload=b"p",
        qos=1,
        retain=True,
        packet_id=7,
        properties=Properties(subscription_identifiers=(3, 200)),
    )


def test_receive_maximum_is_what_the_client_has_said() -> None:
    assert connected().connection.receive_maximum == RECEIVE_MAXIMUM_DEFAULT
    assert connected(Properties(receive_maximum=5)).connection.receive_maximum == 5


def test_reasons_are_left_out_where_the_client_does_not_want_them() -> None:
    """3.1.2-29: in CONNACK and DISCONNECT they stay."""
    broker = connected(Properties(request_problem_information=0))
    broker.receive(bytes.fromhex("62020009") * 2)
    why = Properties(reason_string="why", user_properties=(("a", "b"),))
    answer = broker.connection.send(p.Pubrel(packet_id=1, properties=why))
    assert answer == bytes.fromhex("62020001")
    farewell = read(broker.connection.close(ReasonCode.SERVER_SHUTTING_DOWN, "why"))
    assert isinstance(farewell, p.Disconnect)
    assert farewell.properties.reason_string == "why"


def test_reasons_are_left_out_where_they_do_not_fit() -> None:
    broker = connected(Properties(maximum_packet_size_bytes=6))
    why = Properties(reason_string="a reason of many words")
    assert broker.connection.send(p.Pubrel(packet_id=1, properties=why)).hex() == "62020001"
    broker.receive(bytes.fromhex("820a 0001 00 0001 61 00 0001 62 00".replace(" ", "")))
    broker.receive(bytes.fromhex("820b 0001 00 0001 61 00 0001 62 00".replace(" ", "")))
    assert broker.sent[-1] == bytes.fromhex("e00181"), "the last one was malformed"


def test_an_answer_that_does_not_fit_is_not_sent() -> None:
    broker = connected(Properties(maximum_packet_size_bytes=6))
    subscriptions = tuple(p.Subscription(topic_filter=each) for each in "abc")
    packet = p.Subscribe(packet_id=1, subscriptions=subscriptions)
    assert broker.receive(write_packet(packet, V5)) == b""


# -- log-in by steps (4.12)


def auth(reason: ReasonCode, method: str | None = "m") -> bytes:
    properties = Properties(authentication_method=method, authentication_data=b"!")
    return write_packet(p.Auth(reason=reason, properties=properties), V5)


def test_a_log_in_by_steps() -> None:
    broker = connected(Properties(authentication_method="m"))
    answer = read(broker.receive(auth(ReasonCode.CONTINUE_AUTHENTICATION)))
    assert isinstance(answer, p.Connack)
    assert answer.reason is ReasonCode.SUCCESS
    again = read(broker.receive(auth(ReasonCode.REAUTHENTICATE)))
    assert isinstance(again, p.Auth)
    assert again.reason is ReasonCode.SUCCESS


@pytest.mark.parametrize(
    "wrong",
    [
        auth(ReasonCode.REAUTHENTICATE),
        auth(ReasonCode.SUCCESS),
        auth(ReasonCode.CONTINUE_AUTHENTICATION, "another"),
        auth(ReasonCode.CONTINUE_AUTHENTICATION, None),
        b"\xc0\x00",
    ],
)
def test_a_log_in_by_steps_that_goes_wrong_is_refused(wrong: bytes) -> None:
    """By CONNACK: a DISCONNECT must not come before one (3.14.0-1)."""
    broker = connected(Properties(authentication_method="m"))
    answer = read(broker.receive(wrong))
    assert isinstance(answer, p.Connack)
    assert answer.reason is ReasonCode.PROTOCOL_ERROR


def test_a_step_of_no_log_in_is_refused() -> None:
    broker = connected(Properties(authentication_method="m"))
    broker.receive(auth(ReasonCode.CONTINUE_AUTHENTICATION))
    answer = read(broker.receive(auth(ReasonCode.CONTINUE_AUTHENTICATION)))
    assert isinstance(answer, p.Disconnect)
    assert answer.reason is ReasonCode.PROTOCOL_ERROR


# -- ends


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (ReasonCode.BAD_USER_NAME_OR_PASSWORD, 4),
        (ReasonCode.NOT_AUTHORIZED, 5),
        (ReasonCode.SERVER_SHUTTING_DOWN, 3),
        (ReasonCode.SESSION_TAKEN_OVER, None),
    ],
)
def test_3_1_1_has_return_codes_for_some_reasons(reason: ReasonCode, code: int | None) -> None:
    connection = Connection(0, LIMITS)
    connection.receive(write_packet(p.Connect(client_id="c", version=V3), V3), 0)
    answer = connection.close(reason)
    assert answer == (b"" if code is None else bytes((0x20, 2, 0, code)))


@pytest.mark.parametrize(("version", "kind"), [(V3, None), (V5, p.Disconnect)])
def test_an_open_connection_that_is_closed(version: Version, kind: type | None) -> None:
    broker = opened(version)
    answer = broker.connection.close(ReasonCode.SESSION_TAKEN_OVER)
    assert (type(read(answer)) if answer else None) is kind
    assert broker.connection.close(ReasonCode.SESSION_TAKEN_OVER) == b"", "said once"
    assert broker.receive(b"\xc0\x00") == b""


def test_what_must_not_be_sent_now_is_a_mistake_of_ours() -> None:
    connection = Connection(0, LIMITS)
    with pytest.raises(InvariantBroken):
        connection.send(p.Connack())
    broker = opened(V5)
    with pytest.raises(InvariantBroken):
        broker.connection.send(p.Connack())
    with pytest.raises(InvariantBroken):
        broker.connection.send(p.Puback(packet_id=1))
    with pytest.raises(InvariantBroken):
        broker.connection.publish(PublishVariant(V3, "a", b""), 0)


def test_what_comes_behind_connect_waits_for_connack() -> None:
    connection = Connection(0, LIMITS)
    raw = write_packet(p.Connect(client_id="c"), V5) + b"\xc0\x00"
    assert len(connection.receive(raw, 0)) == 1
    assert connection.is_paused
    connection.send(p.Connack())
    assert connection.receive(b"", 0) == [p.Pingreq()]
