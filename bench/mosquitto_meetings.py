"""Clients that meet at Mosquitto, and at brokers of ours: `scripts/peers --mosquitto`.

Three clients connect, subscribe, publish, vanish and come back, at random. The same steps are taken
at Mosquitto and at three simulated brokers of ours, each client at another one. After each step
everything is compared that each client has been sent since, and whether its connection is open.
Answers to one step come in no particular order between topics, so they are compared as sets.

Not compared are packet ids, which a broker chooses; properties but subscription identifiers; and
whether anybody has subscribed to what was published, which a broker need not say. What needs time,
windows or groups is compared by `bench/mosquitto_features.py`.

Not made are steps at which Mosquitto 2.0.11 differs from us:

- Filters of one client that overlap: it takes the QoS of one of them, or sends a message for each.
  Here the highest QoS counts, and one message is sent (3.3.4-2; mosquitto#3319).
- A connection with a will is taken over by one that keeps the session: it does not publish the
  will. With a delay of 0 the will is due when the connection ends (3.1.4-3).
- What comes with QoS 0 for a kept session whose client is away, by the message or by the filter:
  here it is kept, there it is dropped. A broker may do either (4.1).
- A message of QoS 2 whose PUBREL does not come is passed on at PUBLISH here, and there at PUBREL.
  Both ways are in the specification (4.3.3).
- A filter that is subscribed to again with other options: it keeps the old ones (3.8.4-3).

Left out of what is compared: it does not tell a client that it was taken over (3.1.4-3).
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from bench.meetings import compare_meeting, differing
from kafkaesque.protocols.mqtt import packets as p
from kafkaesque.protocols.mqtt.frames import FrameReader
from kafkaesque.protocols.mqtt.packet_codec import read_packet, write_packet
from kafkaesque.protocols.mqtt.packets import Version
from kafkaesque.protocols.mqtt.properties import NO_PROPERTIES, Properties
from kafkaesque.protocols.mqtt.reasons import ReasonCode
from tests.unit.gateway_mqtt.kit import Ground, MqttClient

NAMES: Final = ("a", "b", "c")
STEPS_MAX: Final = 25
TOPICS: Final = ("x", "y", "x/z")
#: A client has filters of one of these rows, which do not overlap.
FILTERS: Final = (("x", "y", "x/+"), ("+", "x/z"), ("x/#", "y"), ("#",))
ANSWER_S: Final = 5.0
#: The loss of a connection is noticed without anything that could be waited for.
LOSS_S: Final = 0.05
#: In virtual time.
SETTLES_MS: Final = 200
#: A session that is kept is kept for longer than any of these.
EXPIRY_S: Final = 3_600


class Step(NamedTuple):
    """What one client does, or nobody."""

    client: str
    #: `connect`, `vanish`, `acknowledges`, `waits`, or a packet.
    what: str
    packet: p.Packet | None = None
    #: Whether it acknowledges messages, from its connection on.
    answers: bool = True
    #: How many messages it acknowledges now, or how many seconds go by.
    number: int = 0
    #: What it sends at once, behind the packet.
    more: tuple[p.Packet, ...] = ()

    def __str__(self) -> str:
        said = "" if self.packet is None else f" {_shown(self.packet)}"
        count = f" {self.number}" if self.number else ""
        more = f" and {len(self.more)} more" if self.more else ""
        silent = "" if self.answers else ", acknowledges nothing"
        return f"{self.client} {self.what}{count}{said}{more}{silent}"


def _shown(value: object) -> str:
    """Return a packet without the fields that say nothing."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_shown, value))}]"
    if not isinstance(value, msgspec.Struct):
        return repr(value)
    fields = [(name, getattr(value, name)) for name in value.__struct_fields__]
    said = [f"{n}={_shown(v)}" for n, v in fields if v and v != NO_PROPERTIES]
    return f"{type(value).__name__}({', '.join(said)})"


class Wire(Protocol):
    """One connection."""

    version: Version

    def send(self, packet: p.Packet) -> None:
        """Send a packet."""

    def take(self) -> list[p.Packet]:
        """Return what has come since, once what was sent before is answered."""

    def end(self) -> list[p.Packet]:
        """Return what comes before the broker hangs up, as it has to."""

    def vanish(self) -> None:
        """End the connection without a word."""

    def is_open(self) -> bool:
        """Tell whether the broker has not hung up."""


class Theirs:
    """A connection with Mosquitto."""

    def __init__(self, port: int, version: Version) -> None:
        self.version = version
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S)
        self._frames = FrameReader(1 << 20)
        self._is_open = True

    def send(self, packet: p.Packet) -> None:
        try:
            self._socket.sendall(write_packet(packet, self.version))
        except OSError:
            self._is_open = False

    def take(self) -> list[p.Packet]:
        """What Mosquitto has for a client stands before its answer to PINGREQ."""
        self.send(p.Pingreq())
        found: list[p.Packet] = []
        while self._is_open:
            while (frame := self._frames.next_packet()) is not None:
                packet = read_packet(*frame, self.version)
                if isinstance(packet, p.Pingresp):
                    return found
                found.append(packet)
            self._read()
        return found

    def end(self) -> list[p.Packet]:
        found: list[p.Packet] = []
        while self._is_open:
            self._read()
        while (frame := self._frames.next_packet()) is not None:
            found.append(read_packet(*frame, self.version))
        self._socket.close()
        return found

    def _read(self) -> None:
        try:
            piece = self._socket.recv(1 << 16)
        except ConnectionResetError:
            piece = b""
        if piece:
            self._frames.feed(piece)
        else:
            self._is_open = False

    def vanish(self) -> None:
        self._socket.close()
        self._is_open = False
        time.sleep(LOSS_S)

    def is_open(self) -> bool:
        return self._is_open


class Ours:
    """A connection with a simulated broker."""

    def __init__(self, ground: Ground, broker: int, version: Version) -> None:
        self.version = version
        self._ground = ground
        self._client = MqttClient(ground, broker, version)

    def send(self, packet: p.Packet) -> None:
        if self.is_open():
            self._client.send(packet)

    def take(self) -> list[p.Packet]:
        self._ground.wait(SETTLES_MS)
        self._client._take()
        found, self._client.waiting = self._client.waiting, []
        return found

    def end(self) -> list[p.Packet]:
        self._client.ends()
        return self.take()

    def vanish(self) -> None:
        self._client.vanish()

    def is_open(self) -> bool:
        return not self._client.client.is_closed


class Side:
    """One of the brokers, and its clients."""

    def __init__(
        self, connect: Callable[[str, Version], Wire], wait: Callable[[int], None]
    ) -> None:
        """`wait` lets seconds go by."""
        self._connect = connect
        self._wait = wait
        self._wires: dict[str, Wire] = {}
        #: Clients that acknowledge nothing but when they are told to.
        self._silent: set[str] = set()
        self._held: dict[str, list[p.Publish]] = {}
        #: How long the messages of the last step are still to live, in their order.
        self.lives_s: list[int] = []

    def take(self, step: Step) -> dict[str, list[str]]:
        """Take a step; return what each client is sent, in short."""
        name, packet = step.client, step.packet
        said: dict[str, list[str]] = {each: [] for each in NAMES}
        self.lives_s.clear()
        if step.what == "waits":
            self._wait(step.number)
        elif step.what == "acknowledges":
            held = self._held[name]
            for message in held[: step.number]:
                answer = _answer(message)
                assert answer is not None
                self._wires[name].send(answer)
            del held[: step.number]
        elif step.what == "vanish":
            self._wires.pop(name).vanish()
        elif isinstance(packet, p.Connect):
            before = self._wires.get(name)
            wire = self._wires[name] = self._connect(name, packet.version)
            self._silent.discard(name)
            self._held[name] = []
            if not step.answers:
                self._silent.add(name)
            wire.send(packet)
            if before is not None:
                last = [each for each in before.end() if not isinstance(each, p.Disconnect)]
                said[name] += [f"before: {_short(each)}" for each in last]
        elif packet is not None:
            for each in (packet, *step.more):
                self._wires[name].send(each)
            if isinstance(packet, p.Disconnect):
                self._wires.pop(name).end()
        self._settle(said)
        return {each: sorted(found) for each, found in said.items()}

    def _settle(self, said: dict[str, list[str]]) -> None:
        """Exchange answers until nobody is sent anything, twice."""
        quiet = 0
        while quiet < 2:
            quiet += 1
            for name, wire in list(self._wires.items()):
                for packet in wire.take():
                    quiet = 0
                    said[name].append(_short(packet))
                    self._note_life(packet)
                    answer = _answer(packet)
                    if isinstance(packet, p.Publish) and name in self._silent:
                        self._held[name] += [packet] if packet.qos else []
                    elif answer is not None:
                        wire.send(answer)
                if not wire.is_open():
                    said[name].append("closed")
                    del self._wires[name]

    @property
    def held(self) -> dict[str, int]:
        """How many messages clients have that they have not acknowledged."""
        return {name: len(found) for name, found in self._held.items()}

    def _note_life(self, packet: p.Packet) -> None:
        if isinstance(packet, p.Publish):
            left_s = packet.properties.message_expiry_interval_s
            if left_s is not None:
                self.lives_s.append(left_s)

    def close(self) -> None:
        """Leave."""
        for wire in self._wires.values():
            wire.vanish()


def _answer(packet: p.Packet) -> p.Packet | None:
    match packet:
        case p.Publish(qos=1):
            return p.Puback(packet_id=packet.packet_id)
        case p.Publish(qos=2):
            return p.Pubrec(packet_id=packet.packet_id)
        case p.Pubrec():
            return p.Pubrel(packet_id=packet.packet_id)
        case p.Pubrel():
            return p.Pubcomp(packet_id=packet.packet_id)
    return None


def _short(packet: p.Packet) -> str:
    name = packet.packet_type.name
    match packet:
        case p.Publish():
            flags = f"{'dup ' if packet.dup else ''}{'retained ' if packet.retain else ''}"
            ids = sorted(packet.properties.subscription_identifiers)
            return f"{name} {packet.topic} {packet.payload!r} qos={packet.qos} {flags}{ids}"
        case p.Pubrel() | p.Pubcomp():
            return name
        case p.Acknowledgement():
            is_done = packet.reason is ReasonCode.NO_MATCHING_SUBSCRIBERS
            return f"{name} {'SUCCESS' if is_done else packet.reason.name}"
        case p.Suback() | p.Unsuback():
            return f"{name} {[each.name for each in packet.reasons]}"
        case p.Connack():
            return f"{name} {packet.reason.name} present={packet.session_present}"
        case p.Disconnect():
            return f"{name} {packet.reason.name}"
    return name


# -- random sessions


class _Author:
    """Makes steps that clients may take; names are of one session alone."""

    def __init__(self, root: str, dice: random.Random) -> None:
        self._root = root
        self._dice = dice
        self._open: dict[str, p.Connect] = {}
        self._versions = {name: dice.choice(list(Version)) for name in NAMES}
        self._filters = {name: dice.choice(FILTERS) for name in NAMES}
        #: Those that acknowledge nothing.
        self._silent: set[str] = set()
        #: Those with a session that is kept, and no connection.
        self._away: set[str] = set()
        #: What was chosen for a filter of a client.
        self._options: dict[tuple[str, str], tuple[p.Subscription, Properties]] = {}
        self._ids = 0
        self._published = 0

    def step(self) -> Step:
        dice = self._dice
        name = dice.choice(NAMES)
        connected = self._open.get(name)
        if connected is None:
            return self._connect(name)
        kinds = ("publish",) * 5 + ("subscribe",) * 3 + ("unsubscribe", "vanish", "leave")
        kind = dice.choice(kinds if connected.will else (*kinds, "again"))
        match kind:
            case "publish":
                return self._publish(name)
            case "subscribe":
                return self._subscribe(name, connected)
            case "unsubscribe":
                packet_id = self._next_id()
                filters = (self._filter(name),)
                packet = p.Unsubscribe(packet_id=packet_id, topic_filters=filters)
                return Step(name, "sends", packet)
            case "vanish":
                self._leave(name)
                return Step(name, "vanish")
            case "leave":
                self._leave(name)
                return Step(name, "sends", p.Disconnect())
        return self._connect(name)

    def _leave(self, name: str) -> None:
        if not self._open.pop(name).clean_start:
            self._away.add(name)

    def _next_id(self) -> int:
        self._ids += 1
        return self._ids

    def _topic(self) -> str:
        return f"{self._root}/{self._dice.choice(TOPICS)}"

    def _filter(self, name: str) -> str:
        return f"{self._root}/{self._dice.choice(self._filters[name])}"

    def _connect(self, name: str) -> Step:
        dice, version = self._dice, self._versions[name]
        will = None
        if dice.random() < 0.3:
            will = p.Will(
                topic=self._topic(),
                payload=f"will of {name}".encode(),
                qos=dice.randint(1, 2),
                retain=dice.random() < 0.3,
            )
        is_kept = dice.random() < 0.7
        properties = NO_PROPERTIES
        if is_kept and version is Version.V5:
            properties = Properties(session_expiry_interval_s=EXPIRY_S)
        packet = p.Connect(
            version=version,
            client_id=f"{self._root}{name}",
            clean_start=not is_kept,
            will=will,
            properties=properties,
        )
        self._open[name] = packet
        self._away.discard(name)
        self._silent.discard(name)
        if dice.random() < 0.2:
            self._silent.add(name)
        return Step(name, "connect", packet, answers=name not in self._silent)

    def _subscribe(self, name: str, connected: p.Connect) -> Step:
        wanted = self._filter(name)
        chosen = self._options.get((name, wanted)) or self._choose(name, wanted)
        self._options[name, wanted] = chosen
        subscription, properties = chosen
        # What has QoS 0 for a session that is kept is a difference.
        qos = self._dice.randint(0 if connected.clean_start else 1, 2)
        packet = p.Subscribe(
            packet_id=self._next_id(),
            subscriptions=(msgspec.structs.replace(subscription, qos=qos),),
            properties=properties,
        )
        return Step(name, "sends", packet)

    def _choose(self, name: str, wanted: str) -> tuple[p.Subscription, Properties]:
        """Choose what is new in 5.0."""
        dice = self._dice
        if self._versions[name] is Version.V3_1_1:
            return p.Subscription(topic_filter=wanted), NO_PROPERTIES
        subscription = p.Subscription(
            topic_filter=wanted,
            no_local=dice.random() < 0.2,
            retain_as_published=dice.random() < 0.3,
            retain_handling=dice.randint(0, 2),
        )
        if dice.random() < 0.4:
            return subscription, Properties(subscription_identifiers=(dice.randint(1, 9),))
        return subscription, NO_PROPERTIES

    def _publish(self, name: str) -> Step:
        dice = self._dice
        qos = dice.randint(1 if self._away else 0, 2)
        self._published += 1
        is_retained = dice.random() < 0.3
        is_empty = is_retained and dice.random() < 0.2
        packet = p.Publish(
            topic=self._topic(),
            payload=b"" if is_empty else b"%d" % self._published,
            qos=qos,
            retain=is_retained,
            packet_id=self._next_id() if qos else 0,
        )
        return Step(name, "sends", packet)


def steps_of(seed: int, number: int) -> list[Step]:
    """Return the steps of one session."""
    dice = random.Random(f"{seed} {number} meeting")
    author = _Author(f"m{seed}-{number}", dice)
    return [author.step() for _ in range(dice.randint(5, STEPS_MAX))]


def sides(port: int, ground: Ground) -> tuple[Side, Side]:
    """Return Mosquitto's side, and ours."""

    def at_ours(name: str, version: Version) -> Wire:
        return Ours(ground, 1 + NAMES.index(name), version)

    theirs = Side(lambda _, version: Theirs(port, version), time.sleep)
    return theirs, Side(at_ours, lambda seconds: ground.wait(seconds * 1_000))


def check_meetings(port: int, seed: int, numbers: Sequence[int]) -> int:
    """Compare sessions of several clients; return how many differ."""
    ground = Ground(seed=seed, brokers=len(NAMES))

    def compare(number: int) -> str | None:
        return compare_meeting("Mosquitto", *sides(port, ground), steps_of(seed, number))

    different = 0
    for said in differing(seed, numbers, compare):
        different += 1
        print(said, flush=True)
    return different
