"""One connection at the broker's side: bytes to packets, and what is sent to bytes.

Theory of operation. `receive` takes bytes as they come and returns packets; how the bytes were cut
does not matter. The peer's mistake is an event, too: `ConnectionFailed`, after which nothing is
read. The caller answers it with `fail`, sends what that returns, and closes. What the caller does
wrong raises `InvariantBroken`.

Where it is the broker's turn (to answer CONNECT or AUTH), or so many requests are unanswered that
no more should be read, reading pauses: the caller answers, and then calls `receive(b"", now)` for
what has come in the meantime. As long as `is_paused` it should not read from the socket.

There is no clock in here. The caller passes its own to `receive` and asks `deadline_ms` for the
time at which it has to call `tick`: for a CONNECT that does not come, and for keep-alive
(3.1.2-22).

What outlives a connection is not here: packet ids in flight are a session's (`exchanges`).
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import unpack
from typing import Final

import msgspec

from kafkaesque.model.errors import InvariantBroken
from kafkaesque.protocols.mqtt.connect_codec import NotMqtt, UnknownVersion, read_version
from kafkaesque.protocols.mqtt.errors import MqttError, malformed, protocol_error
from kafkaesque.protocols.mqtt.frames import FrameReader
from kafkaesque.protocols.mqtt.packet_codec import read_packet, write_packet
from kafkaesque.protocols.mqtt.packets import (
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    PacketType,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
    Version,
)
from kafkaesque.protocols.mqtt.properties import NO_PROPERTIES, Properties
from kafkaesque.protocols.mqtt.publish_path import PublishVariant
from kafkaesque.protocols.mqtt.reasons import (
    BROKER_DISCONNECT_REASONS,
    CLIENT_DISCONNECT_REASONS,
    CONNACK_REASONS,
    ReasonCode,
    return_code_of,
)
from kafkaesque.protocols.mqtt.states import ENDED, PAUSED, RECEIVED, SENT, ConnectionState
from kafkaesque.protocols.mqtt.wire import U16, write_varint

_R: Final = ReasonCode
_V5: Final = Version.V5
_OPEN: Final = ConnectionState.OPEN

#: Where no other limit was agreed upon (3.1.2.11.3).
RECEIVE_MAXIMUM_DEFAULT: Final = 65_535

#: A topic that an alias stands for.
_NO_TOPIC: Final = b"\0\0"
_TOPIC_ALIAS: Final = b"\x23"
_SUBSCRIPTION_IDENTIFIER: Final = b"\x0b"

#: A PUBACK that says nothing but its packet id begins like this, in both versions.
_PUBACK_WORD: Final = PacketType.PUBACK << 12 | 2
_PUBACK_HEAD: Final = PacketType.PUBACK << 4
_PUBACK_BYTES: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one connection may take up."""

    #: The longest packet, with its header.
    packet_bytes_max: int = 1024 * 1024
    #: The same for CONNECT, which anybody can send.
    connect_bytes_max: int = 128 * 1024
    connect_ms_max: int = 10_000
    client_id_bytes_max: int = 256
    #: Messages of QoS 1 and 2 that a client of 5.0 may have in flight; it is told so.
    receive_maximum: int = 32
    #: Requests of any kind that are not answered: at so many reading pauses.
    requests_max: int = 64
    #: Messages of QoS 1 and 2 in flight from a client of 3.1.1, which is told of no limit.
    in_flight_max: int = 100
    #: Aliases in each direction.
    topic_alias_maximum: int = 16

    def __post_init__(self) -> None:
        if not self.receive_maximum < self.requests_max < self.in_flight_max:
            raise InvariantBroken("receive_maximum < requests_max < in_flight_max does not hold")


class ConnectionFailed(msgspec.Struct, frozen=True, kw_only=True):
    """The peer was wrong, or silent: send what `Connection.fail` returns, and close."""

    error: MqttError


Event = Packet | ConnectionFailed


class Connection:
    """The broker's side of one connection."""

    __slots__ = (
        "_aliases_in",
        "_aliases_out",
        "_answer_version",
        "_connect",
        "_frames",
        "_in_flight",
        "_is_accepted",
        "_keep_alive_ms",
        "_limits",
        "_packet_bytes_max_out",
        "_reauthenticates",
        "_received_ms",
        "_requests",
        "_topic_alias_maximum_out",
        "_was_paused",
        "state",
    )

    def __init__(self, now_ms: int, limits: Limits | None = None) -> None:
        self._limits: Final = limits or Limits()
        self._frames = FrameReader(self._limits.connect_bytes_max)
        self.state = ConnectionState.AWAITS_CONNECT
        self._connect: Connect | None = None
        #: In which the peer can be told why it is refused; None: in none.
        self._answer_version: Version | None = None
        #: When the last packet has come, and for how long none need come; 0: for ever.
        self._received_ms = now_ms
        self._keep_alive_ms = self._limits.connect_ms_max
        #: Packet ids of messages that count for the client's send quota (section 4.9).
        self._in_flight: set[int] = set()
        self._requests = 0
        #: Whether nothing could be read when something came last.
        self._was_paused = False
        #: Whether a CONNACK has let the client in.
        self._is_accepted = False
        self._reauthenticates = False
        self._aliases_in: dict[int, str] = {}
        self._aliases_out: dict[str, int] = {}
        self._topic_alias_maximum_out = 0
        #: The longest packet that the client takes; 0: it has said nothing.
        self._packet_bytes_max_out = 0

    @property
    def version(self) -> Version:
        """The version, from CONNECT on."""
        return self.connect.version

    @property
    def connect(self) -> Connect:
        """What the client has connected with.

        Raises:
            InvariantBroken: it has not.
        """
        if self._connect is None:
            raise InvariantBroken("there is no CONNECT yet")
        return self._connect

    @property
    def receive_maximum(self) -> int:
        """How many messages of QoS 1 and 2 the client takes before it has answered one."""
        stated = self.connect.properties.receive_maximum
        return RECEIVE_MAXIMUM_DEFAULT if stated is None else stated

    # -- receiving

    def receive(self, data: bytes | bytearray | memoryview, now_ms: int) -> list[Event]:
        """Return what has come with these bytes and those before, in its order."""
        events: list[Event] = []
        if self.state in ENDED:
            return events
        if data:
            self._frames.feed(data)
        if self._was_paused:
            self.excuse(now_ms)
        try:
            if self._connect is None:
                self._check_first(self._frames.first)
            while not self.is_paused:
                found = self._frames.next_packet()
                if found is None:
                    break
                if self._connect is None:
                    self._note_version(found[1])
                packet = read_packet(*found, self._answer_version or _V5)
                self._received_ms = now_ms
                events.append(self._take(packet))
        except MqttError as error:
            self.state = ConnectionState.FAILED
            events.append(ConnectionFailed(error=error))
        self._was_paused = self.is_paused
        return events

    def receive_pubacks(self, data: bytes | bytearray | memoryview, now_ms: int) -> tuple[int, ...]:
        """Return packet ids, if these bytes are PUBACKs without a reason, and nothing else.

        Else, and where something stands against taking them now, nothing is done: the bytes are
        for `receive`.
        """
        size = len(data)
        if size % _PUBACK_BYTES or not size or data[0] != _PUBACK_HEAD:
            return ()
        if self.state is not _OPEN or self._was_paused or self.is_paused or self._frames.kept_bytes:
            return ()
        count, raw = size // _PUBACK_BYTES, bytes(data)
        words = unpack(f">{2 * count}H", raw)
        packet_ids = words[1::2]
        if words[::2].count(_PUBACK_WORD) != count or 0 in packet_ids:
            return ()
        self._received_ms = now_ms
        return packet_ids

    @property
    def is_paused(self) -> bool:
        """Whether nothing is read until the caller has sent something, or ever again."""
        if self.state is not _OPEN and self.state in PAUSED:
            return True
        return self._requests >= self._limits.requests_max

    @property
    def deadline_ms(self) -> int | None:
        """When `tick` has to be called if nothing comes; None: never."""
        if self.is_paused or not self._keep_alive_ms:
            return None
        return self._received_ms + self._keep_alive_ms

    def tick(self, now_ms: int) -> list[Event]:
        """Return a `ConnectionFailed` if the client has been silent for too long."""
        deadline_ms = self.deadline_ms
        if deadline_ms is None or now_ms < deadline_ms:
            return []
        self.state = ConnectionState.FAILED
        error = MqttError(_R.KEEP_ALIVE_TIMEOUT, "the client has been silent for too long")
        return [ConnectionFailed(error=error)]

    def excuse(self, now_ms: int) -> None:
        """The client could not be heard until now: nothing was read from it."""
        self._received_ms = now_ms

    def _check_first(self, first: int | None) -> None:
        """Look at nothing but a CONNECT (3.1.0-1): who sends something else may not speak MQTT."""
        if first is not None and first >> 4 != PacketType.CONNECT:
            raise NotMqtt("the first packet is not CONNECT")

    def _note_version(self, body: bytes) -> None:
        """Remember in which version a peer can be told that its CONNECT was wrong.

        Raises:
            MqttError: it is not MQTT, or of a version that is not spoken here.
        """
        try:
            self._answer_version, _ = read_version(body)
        except IndexError:
            raise malformed("CONNECT is cut short") from None
        except UnknownVersion as error:
            self._answer_version = error.answer_in
            raise

    def _take(self, packet: Packet) -> Packet:
        if self.state is _OPEN:
            # Nearly all that comes is one of these, and what `RECEIVED` says of them is this.
            if isinstance(packet, Puback):
                return packet
            if isinstance(packet, Publish):
                return self._take_publish(packet)
        following = RECEIVED.get((self.state, packet.packet_type))
        if following is None:
            name = packet.packet_type.name
            raise protocol_error(f"{name} came while the connection {self.state.value}")
        match packet:
            case Publish():
                packet = self._take_publish(packet)
            case Subscribe() | Unsubscribe() | Pubrel():
                self._requests += 1
            case Connect():
                self._take_connect(packet)
            case Auth():
                self._take_auth(packet)
            case Disconnect():
                self._take_disconnect(packet)
        self.state = following
        return packet

    def _take_connect(self, packet: Connect) -> None:
        limits, properties = self._limits, packet.properties
        self._connect = packet
        self._answer_version = packet.version
        self._frames.packet_bytes_max = limits.packet_bytes_max
        self._frames.is_strict = packet.version is _V5
        if not packet.client_id and not packet.clean_start and packet.version is not _V5:
            raise MqttError(_R.CLIENT_ID_NOT_VALID, "a session to keep without a client id")
        if len(packet.client_id.encode()) > limits.client_id_bytes_max:
            what = f"a client id has at most {limits.client_id_bytes_max} bytes"
            raise MqttError(_R.CLIENT_ID_NOT_VALID, what)
        self._packet_bytes_max_out = properties.maximum_packet_size_bytes or 0
        stated = properties.topic_alias_maximum or 0
        self._topic_alias_maximum_out = min(stated, limits.topic_alias_maximum)

    def _take_publish(self, packet: Publish) -> Publish:
        properties = packet.properties
        if properties is not NO_PROPERTIES:
            if properties.subscription_identifiers:
                raise protocol_error("a client's message has a subscription identifier (3.3.4-6)")
            if properties.topic_alias is not None:
                packet = self._resolve_alias(packet, properties.topic_alias)
        if packet.qos:
            self._requests += 1
            in_flight = self._in_flight
            in_flight.add(packet.packet_id)
            limits = self._limits
            is_v5 = self.version is _V5
            if len(in_flight) > (limits.receive_maximum if is_v5 else limits.in_flight_max):
                what = "more messages are in flight than was agreed upon"
                raise MqttError(_R.RECEIVE_MAXIMUM_EXCEEDED, what)
        return packet

    def _resolve_alias(self, packet: Publish, alias: int) -> Publish:
        """Return a message with its topic, and without the alias (3.3.2-7 to 3.3.2-12)."""
        if not 0 < alias <= self._limits.topic_alias_maximum:
            what = f"topic alias {alias} is not between 1 and {self._limits.topic_alias_maximum}"
            raise MqttError(_R.TOPIC_ALIAS_INVALID, what)
        topic = packet.topic
        if topic:
            self._aliases_in[alias] = topic
        else:
            topic = self._aliases_in.get(alias, "")
            if not topic:
                raise protocol_error(f"topic alias {alias} stands for no topic")
        properties = msgspec.structs.replace(packet.properties, topic_alias=None)
        return msgspec.structs.replace(packet, topic=topic, properties=properties)

    def _take_auth(self, packet: Auth) -> None:
        method = self.connect.properties.authentication_method
        if method is None:
            raise protocol_error("AUTH without an authentication method in CONNECT (4.12.0-6)")
        if packet.properties.authentication_method != method:
            raise protocol_error("AUTH names another authentication method (4.12.0-5)")
        is_begun = self.state is ConnectionState.AWAITS_AUTH or self._reauthenticates
        expected = _R.CONTINUE_AUTHENTICATION if is_begun else _R.REAUTHENTICATE
        if packet.reason is not expected:
            raise protocol_error(f"AUTH has the reason {packet.reason.name} here")
        if self.state is ConnectionState.OPEN:
            self._reauthenticates = True

    def _take_disconnect(self, packet: Disconnect) -> None:
        if packet.reason not in CLIENT_DISCONNECT_REASONS:
            raise protocol_error(f"a client cannot disconnect because of {packet.reason.name}")
        expiry_s = packet.properties.session_expiry_interval_s
        if expiry_s and not self.connect.properties.session_expiry_interval_s:
            raise protocol_error("a session that was not to be kept cannot be kept (3.14.2-2)")

    # -- sending

    def send(self, packet: Packet) -> bytes:
        """Return the bytes of a packet other than PUBLISH and DISCONNECT.

        What says why is left out where the client does not want it (3.1.2-29) or cannot take it. A
        packet that is too long even so is not sent (3.1.2-24): what is returned is empty, as it is
        once the connection is closed.

        Raises:
            InvariantBroken: it must not be sent now.
            ValueError: a value does not fit into its field.
        """
        if self.state is ConnectionState.CLOSED:
            return b""
        following = SENT.get((self.state, packet.packet_type))
        if following is None:
            name = packet.packet_type.name
            raise InvariantBroken(f"{name} cannot be sent: the connection {self.state.value}")
        match packet:
            case Puback() | Pubcomp():
                self._answer(packet.packet_id)
            case Pubrec():
                # The client's quota is used until PUBCOMP, unless the message was refused.
                self._answer(packet.packet_id if packet.reason.is_error else 0)
            case Suback() | Unsuback():
                self._answer(0)
            case Connack():
                packet = self._accept(packet)
                if packet.reason.is_error:
                    following = ConnectionState.CLOSED
            case Auth():
                is_open = self.state is ConnectionState.OPEN
                self._reauthenticates = is_open and packet.reason is _R.CONTINUE_AUTHENTICATION
        self.state = following
        return self._fit(packet)

    def _answer(self, packet_id: int) -> None:
        """A request is answered; with this id the client may send another message."""
        if not self._requests:
            raise InvariantBroken("an answer to no request")
        self._requests -= 1
        self._in_flight.discard(packet_id)

    def _accept(self, packet: Connack) -> Connack:
        """Complete a CONNACK with what this side of the connection knows."""
        if packet.reason.is_error:
            return packet
        self._is_accepted = True
        self._keep_alive_ms = self.connect.keep_alive_s * 1500
        if self.version is not _V5:
            return packet
        limits, properties = self._limits, packet.properties
        if not self.connect.client_id and properties.assigned_client_identifier is None:
            raise InvariantBroken("a client without an id was assigned none (3.2.2-16)")
        if properties.server_keep_alive_s is not None:
            self._keep_alive_ms = properties.server_keep_alive_s * 1500
        completed = msgspec.structs.replace(
            properties,
            receive_maximum=limits.receive_maximum,
            topic_alias_maximum=limits.topic_alias_maximum or None,
            maximum_packet_size_bytes=limits.packet_bytes_max,
        )
        return msgspec.structs.replace(packet, properties=completed)

    def _fit(self, packet: Packet) -> bytes:
        version = self.version
        if version is not _V5:
            return write_packet(packet, version)
        if self.connect.properties.request_problem_information == 0:
            if not isinstance(packet, Connack | Disconnect):
                packet = _without_why(packet)
        raw = write_packet(packet, version)
        if self._is_too_long(raw):
            raw = write_packet(_without_why(packet), version)
        return b"" if self._is_too_long(raw) else raw

    def _is_too_long(self, raw: bytes) -> bool:
        return 0 < self._packet_bytes_max_out < len(raw)

    def publish(
        self,
        variant: PublishVariant,
        flags: int,
        packet_id: int = 0,
        subscription_identifiers: tuple[int, ...] = (),
    ) -> bytes | None:
        """Return the bytes of a message; None if it is too long for this client (3.1.2-25).

        Raises:
            InvariantBroken: the client is not let in, or the variant is of the other version.
        """
        if not self._is_accepted or variant.is_v5 is not (self._answer_version is _V5):
            raise InvariantBroken(f"PUBLISH cannot be sent: the connection {self.state.value}")
        if not subscription_identifiers and not self._topic_alias_maximum_out:
            raw = variant.write(flags, packet_id)
            return None if 0 < self._packet_bytes_max_out < len(raw) else raw
        more = b""
        for each in subscription_identifiers:
            more += _SUBSCRIPTION_IDENTIFIER + write_varint(each)
        if not self._topic_alias_maximum_out or not variant.is_v5:
            raw = variant.write(flags, packet_id, more_properties=more)
            return None if self._is_too_long(raw) else raw
        return self._publish_by_alias(variant, flags, packet_id, more)

    def _publish_by_alias(
        self, variant: PublishVariant, flags: int, packet_id: int, more: bytes
    ) -> bytes | None:
        """The first topics get an alias, and keep it: a client that sees few saves most of them."""
        aliases = self._aliases_out
        alias = aliases.get(variant.topic)
        is_new = alias is None and len(aliases) < self._topic_alias_maximum_out
        if alias is None and not is_new:
            raw = variant.write(flags, packet_id, more_properties=more)
            return None if self._is_too_long(raw) else raw
        topic_raw = None if alias is None else _NO_TOPIC
        alias = len(aliases) + 1 if alias is None else alias
        more += _TOPIC_ALIAS + U16.pack(alias)
        raw = variant.write(flags, packet_id, topic_raw=topic_raw, more_properties=more)
        if self._is_too_long(raw):
            return None
        if is_new:
            # Only now: the client learns it from this very packet.
            aliases[variant.topic] = alias
        return raw

    def fail(self, error: MqttError) -> bytes:
        """Return what a peer is to be told of its mistake before the connection is closed."""
        return self.close(error.reason, str(error))

    def close(
        self, reason: ReasonCode, what: str = "", properties: Properties = NO_PROPERTIES
    ) -> bytes:
        """Return what a peer is to be told before the connection is closed; maybe nothing.

        That is a CONNACK if it has had none, else a DISCONNECT (3.14.0-1). In 3.1.1 it is nothing,
        unless it is a CONNACK with one of the five return codes.
        """
        version = self._answer_version
        if version is None or self.state is ConnectionState.CLOSED:
            self.state = ConnectionState.CLOSED
            return b""
        self.state = ConnectionState.CLOSED
        if version is not _V5:
            if self._is_accepted or return_code_of(reason) is None:
                return b""
            return write_packet(Connack(reason=reason), version)
        if what:
            properties = msgspec.structs.replace(properties, reason_string=what)
        packet: Packet
        if self._is_accepted:
            reason = reason if reason in BROKER_DISCONNECT_REASONS else _R.UNSPECIFIED_ERROR
            packet = Disconnect(reason=reason, properties=properties)
        else:
            reason = reason if reason in CONNACK_REASONS else _R.UNSPECIFIED_ERROR
            packet = Connack(reason=reason, properties=properties)
        return write_packet(packet, version) if self._connect is None else self._fit(packet)


def _without_why(packet: Packet) -> Packet:
    properties = getattr(packet, "properties", NO_PROPERTIES)
    if properties.reason_string is None and not properties.user_properties:
        return packet
    bare = msgspec.structs.replace(properties, reason_string=None, user_properties=())
    return msgspec.structs.replace(packet, properties=bare)
