"""What needs time, windows or groups, beside Mosquitto: `scripts/peers --mosquitto`.

As `bench/mosquitto_meetings.py`, but each session is about one thing, of random sizes:

- *shares*: who of a group gets a message is the broker's choice, so what the members get together
  is compared.
- *lives*: messages expire, and say how long they are still to live. One of the two sides counts
  real seconds, so what is left may differ a little; it has to be less than it was.
- *wills*: with a delay; the client comes back in time, or late, or not.
- *windows*: a client has a receive maximum, and acknowledges a few messages at a time.
- *floods*: thousands of retained messages for a client that acknowledges a few at a time, and
  vanishes in between. In which order they come is the broker's choice, so all are compared at the
  end.

Not made, or not compared, is that in which Mosquitto 2.0.11 differs from us:

- A shared subscription of QoS 2 is granted there; here QoS 1 is (3.9.3: a broker may grant less).
- A member with a session that is kept is away, or leaves what it has not acknowledged: there it is
  kept for it, here another member gets it. A broker may do either (4.8.2).
- A will with a delay whose session ends with the connection: it is due at once, because the session
  has ended (3.1.3.2.2). There it waits for the delay.
- A receive maximum holds until the first acknowledgement; after it there is more under way than
  the client takes (3.3.4-9). So only the first window is compared, and all messages at the end; of
  ours it is checked that there are never more.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from bench.meetings import differing, first_difference
from bench.mosquitto_meetings import EXPIRY_S, NAMES, Side, Step, sides
from kafkaesque.protocols.mqtt import packets as p
from kafkaesque.protocols.mqtt.packets import Version
from kafkaesque.protocols.mqtt.properties import NO_PROPERTIES, Properties
from tests.unit.gateway_mqtt.kit import Ground

#: How far apart lives may be that two machines measure, one of them in real time.
LIVES_DIFFER_S: Final = 5
#: Those that are sent.
LIVES_S: Final = (1, 20, 100)
#: Retained messages of a flood: of QoS 0, and of QoS 1 or 2.
FLOOD_PLAIN: Final = 2_000
FLOOD_KEPT: Final = 200
#: Messages of QoS 1 and 2 that a client may have under way, whatever broker it asks.
AT_ONCE: Final = 20


class Feature(NamedTuple):
    """One session."""

    steps: list[Step]
    #: Whether it is compared what all clients are sent together.
    is_joint: bool = False
    #: Of so many steps it is compared what each of them says; of others all messages together, once
    #: they are taken. None: of all.
    exact: int | None = None
    #: So many unacknowledged messages a client of ours has at most.
    held_max: int = AT_ONCE


def _connect(
    name: str,
    root: str,
    *,
    is_kept: bool = False,
    receive_maximum: int | None = None,
    will: p.Will | None = None,
    answers: bool = True,
    clean: bool = False,
) -> Step:
    properties = Properties(
        session_expiry_interval_s=EXPIRY_S if is_kept else None, receive_maximum=receive_maximum
    )
    packet = p.Connect(
        version=Version.V5,
        client_id=f"{root}{name}",
        clean_start=clean or not is_kept,
        will=will,
        properties=properties,
    )
    return Step(name, "connect", packet, answers=answers)


def _subscribe(name: str, topic_filter: str, qos: int) -> Step:
    wanted = (p.Subscription(topic_filter=topic_filter, qos=qos),)
    return Step(name, "sends", p.Subscribe(packet_id=9_999, subscriptions=wanted))


def _publish(
    topic: str,
    number: int,
    qos: int,
    *,
    retain: bool = False,
    properties: Properties = NO_PROPERTIES,
) -> p.Publish:
    packet_id = 1 + number % 9_000 if qos else 0
    return p.Publish(
        topic=topic,
        payload=b"%d" % number,
        qos=qos,
        retain=retain,
        packet_id=packet_id,
        properties=properties,
    )


def _sends(name: str, packets: Sequence[p.Packet]) -> Step:
    return Step(name, "sends", packets[0], more=tuple(packets[1:]))


def shares(dice: random.Random, root: str) -> Feature:
    """Two members of a group, of which one leaves, and one who has the same for itself."""
    steps = [_connect(each, root) for each in NAMES]
    shared = f"$share/{root}/{root}/#"
    steps += [_subscribe(name, shared, dice.randint(0, 1)) for name in "ab"]
    if dice.random() < 0.5:
        steps.append(_subscribe("c", f"{root}/+", dice.randint(0, 2)))
    leaves = dice.randint(3, 8)
    for number in range(12):
        if number == leaves:
            leave = p.Unsubscribe(packet_id=9_998, topic_filters=(shared,))
            gone = dice.choice((leave, p.Disconnect()))
            steps.append(Step(dice.choice("ab"), "sends", gone))
        # Of QoS 0: members may have been granted different ones.
        topic = f"{root}/{dice.randint(0, 2)}"
        steps.append(_sends("c", [_publish(topic, number, 0)]))
    return Feature(steps, is_joint=True)


def lives(dice: random.Random, root: str) -> Feature:
    """Messages that expire while their client is away, or before somebody subscribes."""
    is_kept = dice.random() < 0.6
    steps = [_connect("a", root, is_kept=True), _connect("b", root)]
    if is_kept:
        steps += [_subscribe("a", f"{root}/#", 2), Step("a", "sends", p.Disconnect())]
    messages = []
    for number in range(8):
        life_s = dice.choice((None, *LIVES_S))
        properties = Properties(message_expiry_interval_s=life_s)
        qos = dice.randint(1, 2) if is_kept else dice.randint(0, 2)
        # Whoever subscribes later has what is retained.
        topic = f"{root}/{number}"
        message = _publish(topic, number, qos, retain=not is_kept, properties=properties)
        messages.append(message)
    # At once: steps take seconds of ours.
    steps += [_sends("b", messages), Step("", "waits", number=3)]
    if is_kept:
        steps.append(_connect("a", root, is_kept=True))
    else:
        steps.append(_subscribe("a", f"{root}/#", 2))
    return Feature(steps)


def wills(dice: random.Random, root: str) -> Feature:
    """A client with a will vanishes, and comes back, or not."""
    steps = [_connect("b", root), _subscribe("b", f"{root}/#", 2)]
    will = p.Will(
        topic=f"{root}/will",
        payload=b"gone",
        qos=dice.randint(0, 2),
        retain=dice.random() < 0.3,
        properties=Properties(will_delay_interval_s=2),
    )
    steps += [_connect("a", root, is_kept=True, will=will), Step("a", "vanish")]
    fate = dice.choice(("stays away", "comes back", "comes back late"))
    if fate == "comes back late":
        steps.append(Step("", "waits", number=4))
    if fate != "stays away":
        steps.append(_connect("a", root, is_kept=True, clean=dice.random() < 0.3))
    steps.append(Step("", "waits", number=4))
    return Feature(steps)


def windows(dice: random.Random, root: str) -> Feature:
    """A client takes a few messages at a time, and loses its connection."""
    maximum = dice.randint(1, 5)

    def connect() -> Step:
        return _connect("a", root, is_kept=True, receive_maximum=maximum, answers=False)

    steps = [connect(), _subscribe("a", f"{root}/#", dice.randint(1, 2)), _connect("b", root)]
    messages = [_publish(f"{root}/x", number, dice.randint(1, 2)) for number in range(15)]
    steps += [_sends("b", [each]) for each in messages]
    if dice.random() < 0.5:
        # What was sent comes again, and no more.
        steps += [Step("a", "vanish"), connect()]
    exact = len(steps)
    for _ in range(15):
        steps.append(Step("a", "acknowledges", number=dice.randint(1, maximum)))
        if dice.random() < 0.1:
            steps += [Step("a", "vanish"), connect()]
    return Feature(steps, exact=exact, held_max=maximum)


def floods(dice: random.Random, root: str) -> Feature:
    """See the module."""
    steps = [_connect("b", root)]
    plain = [_publish(f"{root}/{n}", n, 0, retain=True) for n in range(FLOOD_PLAIN)]
    steps.append(_sends("b", plain))
    kept = [
        _publish(f"{root}/kept/{n}", n, dice.randint(1, 2), retain=True) for n in range(FLOOD_KEPT)
    ]
    steps += [_sends("b", kept[at : at + AT_ONCE]) for at in range(0, FLOOD_KEPT, AT_ONCE)]

    def connect() -> Step:
        return _connect("a", root, is_kept=True, receive_maximum=AT_ONCE, answers=False)

    exact = len(steps)
    steps += [connect(), _subscribe("a", f"{root}/#", dice.randint(1, 2))]
    some = [Step("a", "acknowledges", number=AT_ONCE)] * (FLOOD_KEPT // AT_ONCE // 2)
    steps += [*some, Step("a", "vanish"), connect(), *some, *some]
    return Feature(steps, exact=exact)


Make = Callable[[random.Random, str], Feature]
#: With how many of a hundred sessions.
KINDS: Final[tuple[tuple[Make, int], ...]] = (
    (shares, 20),
    (windows, 20),
    (lives, 6),
    (wills, 6),
    (floods, 1),
)


class _Comparison:
    """One session on its way."""

    def __init__(self, feature: Feature, theirs: Side, ours: Side) -> None:
        self._feature = feature
        self._theirs = theirs
        self._ours = ours
        self._their_messages: set[str] = set()
        self._our_messages: set[str] = set()

    def take(self, number: int, step: Step) -> str | None:
        """Take a step; return in what both sides differ."""
        feature = self._feature
        their, our = self._theirs.take(step), self._ours.take(step)
        held = max(self._ours.held.values(), default=0)
        if held > feature.held_max:
            return f"{held} are under way"
        if feature.exact is not None and number >= feature.exact:
            self._their_messages.update(_messages(their))
            self._our_messages.update(_messages(our))
            return None
        their_lives, our_lives = sorted(self._theirs.lives_s), sorted(self._ours.lives_s)
        if _told(feature, their) == _told(feature, our) and _are_near(their_lives, our_lives):
            return None
        return f"Mosquitto: {their} {their_lives}\n    ours:      {our} {our_lives}"

    def end(self) -> str | None:
        """Return in what all messages differ."""
        alone = sorted(self._their_messages - self._our_messages)
        ours_alone = sorted(self._our_messages - self._their_messages)
        if not alone and not ours_alone:
            return None
        return f"Mosquitto alone: {alone[:9]}\n    ours alone: {ours_alone[:9]}"


def _told(feature: Feature, said: dict[str, list[str]]) -> object:
    """Return what is compared of one step."""
    return sorted(each for all_ in said.values() for each in all_) if feature.is_joint else said


def _are_near(lives: list[int], others: list[int]) -> bool:
    return len(lives) == len(others) and all(
        abs(one - other) <= LIVES_DIFFER_S and one not in LIVES_S and other not in LIVES_S
        for one, other in zip(lives, others, strict=True)
    )


def _messages(said: dict[str, list[str]]) -> Iterator[str]:
    for found in said.values():
        for each in found:
            if each.startswith("PUBLISH"):
                yield each.replace("dup ", "")


def compare_feature(port: int, ground: Ground, feature: Feature) -> str | None:
    """Take all steps on both sides; return where they differ first, or None."""
    theirs, ours = sides(port, ground)
    comparison = _Comparison(feature, theirs, ours)
    return first_difference(feature.steps, (theirs, ours), comparison.take, comparison.end)


def check_features(port: int, seed: int, percent: int) -> int:
    """Compare sessions of all kinds, so many percent of them; return how many differ."""
    return sum(_check(port, seed, make, -(-count * percent // 100)) for make, count in KINDS)


def _check(port: int, seed: int, make: Make, count: int) -> int:
    ground, kind = Ground(seed=seed, brokers=len(NAMES)), make.__name__

    def compare(number: int) -> str | None:
        dice = random.Random(f"{seed} {number} {kind}")
        return compare_feature(port, ground, make(dice, f"{kind}{seed}-{number}"))

    different = 0
    for said in differing(seed, range(count), compare, kind):
        different += 1
        print(said, flush=True)
    return different
