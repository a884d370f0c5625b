"""How long a group's other members get nothing while one joins or leaves.

    .venv/bin/python -m bench.group_pauses [joins and leaves]

Three brokers, one topic under a steady load, a group of members that stay and one that comes and
goes. A pause is the time between two successive messages of a partition at a member that stays,
where no other member was given that partition in between: it kept it, or got it back at once, as in
the eager protocol, where everybody gives everything up first. Unaffected is a member that has the
same partitions before and after a join or leave; with these numbers of members and partitions that
are two of four, and none where the range assignor begins anew. What is seen without joins and
leaves, and what a reader outside of the group sees during them, tell what of a pause is the
machine's and the broker's. Everything runs on this machine.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.ours import Kafkaesque

EVENTS = 100
MEMBERS = 4
PARTITIONS = 13
RATE = 650
VALUE = bytes(100)
HEARTBEAT_MS = 500
#: Between a member's arrival or departure and the next.
REST_S = 0.3
WARM_UP_S = 3.0
WAIT_S_MAX = 60.0
WORST_SHOWN = 3
#: The number of a reader that is no member.
OUTSIDE = -1

OPTIONS = {
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
}
_CLASSIC = {"group.protocol": "classic", "heartbeat.interval.ms": HEARTBEAT_MS}
PROTOCOLS: Mapping[str, Mapping[str, Any]] = {
    "consumer (KIP-848)": {"group.protocol": "consumer"},
    "classic, cooperative": {**_CLASSIC, "partition.assignment.strategy": "cooperative-sticky"},
    "classic, eager": {**_CLASSIC, "partition.assignment.strategy": "range"},
}


class Delivery(NamedTuple):
    """A message that reached a member."""

    partition: int
    offset: int
    time_s: float
    member: int


class Taken(NamedTuple):
    """A partition that a member was given."""

    partition: int
    time_s: float
    member: int


class Pause(NamedTuple):
    """The time between two successive messages of a partition at one member."""

    seconds: float
    begun_s: float
    member: int
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A member that has come or gone; `seconds` until each partition had its owner."""

    what: str
    begun_s: float
    seconds: float
    #: Members that had other partitions before.
    affected: frozenset[int]


class Reader:
    """A consumer in a thread of its own that notes when what reaches it."""

    def __init__(self, number: int, settings: Mapping[str, Any], topic: str) -> None:
        """Begin as a member of a group, or, as number OUTSIDE, to read all partitions."""
        self.deliveries: list[Delivery] = []
        self.taken: list[Taken] = []
        self.partitions: frozenset[int] = frozenset()
        self._number = number
        self._consumer = Consumer(dict(settings))
        if number == OUTSIDE:
            everything = [TopicPartition(topic, each, OFFSET_END) for each in range(PARTITIONS)]
            self._consumer.assign(everything)
        else:
            self._consumer.subscribe([topic], on_assign=self._on_assign)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        now_s = time.monotonic()
        self.taken += [Taken(each.partition, now_s, self._number) for each in partitions]

    def _run(self) -> None:
        next_look_s = 0.0
        while not self._is_over.is_set():
            message = self._consumer.poll(0.05)
            now_s = time.monotonic()
            if message is not None and message.error() is None:
                self.deliveries.append(
                    Delivery(message.partition() or 0, message.offset() or 0, now_s, self._number)
                )
            if now_s >= next_look_s:
                next_look_s = now_s + 0.02
                owned = self._consumer.assignment()
                self.partitions = frozenset(each.partition for each in owned)
        self._consumer.close()

    def close(self) -> None:
        """Leave the group, and return when that is done."""
        self._is_over.set()
        self._thread.join()
        self.partitions = frozenset()


class Group:
    """Members that stay, and one that comes and goes."""

    def __init__(self, servers: str, topic: str, settings: Mapping[str, Any]) -> None:
        self._settings = {
            "bootstrap.servers": servers,
            "group.id": f"group-{topic}",
            "auto.offset.reset": "latest",
            **settings,
        }
        self._topic = topic
        self._all: list[Reader] = []
        self._staying: list[Reader] = []
        self._guest: Reader | None = None
        self._outside = Reader(OUTSIDE, {**self._settings, "group.id": "outside"}, topic)
        self._shares: dict[int, frozenset[int]] = {}

    @property
    def members(self) -> list[Reader]:
        return [*self._staying, *([self._guest] if self._guest else [])]

    def _new_member(self) -> Reader:
        member = Reader(len(self._all), self._settings, self._topic)
        self._all.append(member)
        return member

    def begin(self) -> None:
        """Start the members that stay, and wait until they have shared the partitions."""
        for _ in range(MEMBERS):
            self._staying.append(self._new_member())
        self._wait_until_shared()

    def join(self) -> Event:
        """Have one more member, and wait until it has its share."""
        begun_s = time.monotonic()
        self._guest = self._new_member()
        return self._ended("join", begun_s)

    def leave(self) -> Event:
        """Have that member go, and wait until the others have its share."""
        begun_s = time.monotonic()
        if self._guest is not None:
            self._guest.close()
            self._guest = None
        return self._ended("leave", begun_s)

    def _ended(self, what: str, begun_s: float) -> Event:
        before = self._shares
        self._wait_until_shared()
        seconds = time.monotonic() - begun_s
        affected = frozenset(each for each, share in self._shares.items() if before[each] != share)
        return Event(what=what, begun_s=begun_s, seconds=seconds, affected=affected)

    def close(self) -> None:
        for reader in (*self.members, self._outside):
            reader.close()

    def deliveries(self) -> list[Delivery]:
        """Return all that has reached a member so far, by partition and time."""
        return _ordered(each for member in self._all for each in member.deliveries)

    def outside(self) -> list[Delivery]:
        """Return what has reached the reader outside of the group."""
        return _ordered(self._outside.deliveries)

    def taken(self) -> list[Taken]:
        """Return what members were given so far."""
        return [each for member in self._all for each in member.taken]

    def _wait_until_shared(self) -> None:
        """Wait until each partition has one owner, and each member its share."""
        deadline = time.monotonic() + WAIT_S_MAX
        while True:
            shares = [member.partitions for member in self.members]
            is_whole = sum(map(len, shares)) == len(frozenset().union(*shares)) == PARTITIONS
            if is_whole and min(map(len, shares)) == PARTITIONS // len(shares):
                self._shares = dict(enumerate(shares[:MEMBERS]))
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"the partitions are not shared: {list(map(sorted, shares))}")
            time.sleep(0.01)


@contextmanager
def steady_load(servers: str, topic: str) -> Iterator[None]:
    """Produce at the rate, one partition after the other, while the block runs."""
    is_over = threading.Event()

    def run() -> None:
        producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
        begun_s, count = time.monotonic(), 0
        while not is_over.is_set():
            due = int((time.monotonic() - begun_s) * RATE)
            while count < due:
                producer.produce(topic, VALUE, partition=count % PARTITIONS)
                count += 1
            producer.poll(1 / RATE)
        producer.flush(WAIT_S_MAX)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _ordered(deliveries: Iterable[Delivery]) -> list[Delivery]:
    return sorted(deliveries, key=lambda each: (each.partition, each.time_s))


class Pauses:
    """Pauses within a time, longest first."""

    def __init__(
        self,
        deliveries: Sequence[Delivery],
        taken: Sequence[Taken],
        begun_s: float,
        ended_s: float,
    ) -> None:
        """Find the pauses of members that stay, and of who is outside."""
        self.found: list[Pause] = []
        #: Messages that were delivered again.
        self.repeated = 0
        self._taken: dict[int, list[Taken]] = {}
        for gift in taken:
            self._taken.setdefault(gift.partition, []).append(gift)
        last: Delivery | None = None
        for each in deliveries:
            if last is not None and last.partition == each.partition:
                if each.offset <= last.offset:
                    self.repeated += begun_s <= each.time_s <= ended_s
                    continue
                if begun_s <= each.time_s <= ended_s and self._is_kept(last, each):
                    seconds = each.time_s - last.time_s
                    self.found.append(Pause(seconds, last.time_s, each.member, each.partition))
            last = each
        self.found.sort(reverse=True)

    def _is_kept(self, before: Delivery, after: Delivery) -> bool:
        return before.member == after.member < MEMBERS and not any(
            before.time_s <= each.time_s <= after.time_s and each.member != after.member
            for each in self._taken.get(after.partition, ())
        )


def is_affected(pause: Pause, events: Sequence[Event]) -> bool:
    """Whether a join or leave during a pause, or since the one before it, moved the member."""
    ended_s = pause.begun_s + pause.seconds
    ends_s = [*(each.begun_s for each in events[1:]), float("inf")]
    return any(
        pause.member in event.affected
        for event, end_s in zip(events, ends_s, strict=True)
        if event.begun_s <= ended_s and pause.begun_s <= end_s
    )


def measure(cluster: Kafkaesque, name: str, events_wanted: int) -> str:
    """Measure one protocol; return its row of the table."""
    servers = cluster.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers})
    topic = "".join(each if each.isalnum() else "-" for each in name)
    admin.create_topics([NewTopic(topic, PARTITIONS, 3)])[topic].result()
    group = Group(servers, topic, PROTOCOLS[name])
    with steady_load(servers, topic):
        try:
            group.begin()
            time.sleep(WARM_UP_S)
            events: list[Event] = []
            begun_s = time.monotonic()
            for number in range(events_wanted):
                events.append(group.leave() if number % 2 else group.join())
                time.sleep(REST_S)
            ended_s = time.monotonic()
            time.sleep(WARM_UP_S)
            quiet_s = time.monotonic()
            time.sleep(ended_s - begun_s)
            deliveries, taken = group.deliveries(), group.taken()
            quiet = Pauses(deliveries, taken, quiet_s, time.monotonic()).found
            disturbed = Pauses(deliveries, taken, begun_s, ended_s)
            outside = Pauses(group.outside(), (), begun_s, ended_s).found
        finally:
            group.close()
    affected = [each for each in disturbed.found if is_affected(each, events)]
    unaffected = [each for each in disturbed.found if not is_affected(each, events)]
    for each in affected[:WORST_SHOWN]:
        _explain(f"{name}, affected", each, events)
    for each in unaffected[:WORST_SHOWN]:
        _explain(f"{name}, unaffected", each, events)
    spans_s = sorted(each.seconds for each in events)
    cells = [name, _ms(quiet), _ms(outside), _ms(unaffected), _ms(unaffected, 0.001)]
    more_ms = (unaffected[0].seconds - quiet[0].seconds) * 1000 if unaffected else None
    cells += ["-" if more_ms is None else f"{more_ms:,.0f}"]
    cells += [_ms(affected), _ms(affected, 0.001)]
    cells += [f"{spans_s[len(spans_s) // 2]:.1f}", f"{spans_s[-1]:.1f}", f"{disturbed.repeated:,}"]
    return f"| {' | '.join(cells)} |"


def _ms(found: Sequence[Pause], part: float = 0) -> str:
    """Return the pause that this part of all is longer than; they are sorted, longest first."""
    return f"{found[int(len(found) * part)].seconds * 1000:,.0f}" if found else "-"


def _explain(what: str, pause: Pause, events: Sequence[Event]) -> None:
    before = [each for each in events if each.begun_s <= pause.begun_s + pause.seconds]
    where = ""
    if before:
        after_ms = (pause.begun_s - before[-1].begun_s) * 1000
        where = f", begun {after_ms:,.0f} ms after the beginning of a {before[-1].what}"
    sys.stderr.write(
        f"{what}: {pause.seconds * 1000:,.0f} ms at member {pause.member}, partition"
        f" {pause.partition}{where}\n"
    )


def main() -> None:
    """Measure and print a table."""
    events = int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS
    sys.stdout.write(
        f"{events} joins and leaves of one more member; {MEMBERS} members stay, {PARTITIONS} "
        f"partitions, {RATE} messages/s, 3 brokers, heartbeats each {HEARTBEAT_MS} ms. The longest "
        "pauses, in ms:\n\n"
        "| protocol | undisturbed | outside of the group | unaffected members | p99.9 |"
        " more than undisturbed | affected members, in what they kept | p99.9 |"
        " until all is shared, median, s | longest, s | delivered again |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|\n"
    )
    sys.stdout.flush()
    with (
        tempfile.TemporaryDirectory() as directory,
        Kafkaesque(3, options=OPTIONS, directory=Path(directory)) as cluster,
    ):
        for name in PROTOCOLS:
            sys.stdout.write(measure(cluster, name, events) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
