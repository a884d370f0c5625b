"""One run: a cluster under load, blows from a schedule, and the checks in the end."""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import ElectionType, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.kills.check import (
    check_log,
    check_probes,
    check_readings,
    check_replicas,
    end_offsets,
    read_log,
)
from bench.kills.failover import Failover
from bench.kills.ledger import Ledger, Where
from bench.kills.load import Member, Producers, Readings
from bench.kills.schedule import Blow, Event
from bench.kills.wire import BrokerProbe, View
from tests.clients.cluster import KafkaesqueCluster

BROKERS = 3
SETTLE_S_MAX = 30.0
SETTLE_INTERVAL_S = 0.05
FLUSH_S_MAX = 60.0
CATCH_UP_S_MAX = 60.0
#: An attempt to leave a group that has no coordinator at the moment is answered or given up sooner.
LEAVE_S_MAX = 120.0
TAIL_RECORDS = 50
GROUP = "kills"
OFFSETS_TOPIC = "__consumer_offsets"

#: By topic: partitions and options. Segments are small, so that many are closed and begun.
TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    "plain": (6, {"segment.bytes": "1048576"}),
    "strict": (4, {"segment.bytes": "4194304", "min.insync.replicas": "2"}),
    "cached": (2, {"segment.bytes": "4194304", "write.caching": "true"}),
}


class RunBroken(RuntimeError):
    """The run cannot go on: the cluster did not come back."""


@dataclass(slots=True, kw_only=True)
class Report:
    """What came of a run."""

    seed: int
    kills: int = 0
    pauses: int = 0
    sent: int = 0
    acknowledged: int = 0
    given: int = 0
    given_again: int = 0
    group_silence_s: float = 0.0
    replicas: tuple[int, int] = (0, 0)
    seconds: float = 0.0
    failovers: list[Failover] = field(default_factory=list)
    settled_s: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def times(failovers: Sequence[Failover], blow: Blow) -> tuple[list[float], list[float]]:
    """Return the longest time of each event until all was acknowledged: brokers, and clients."""
    brokers, clients = [], []
    for each in failovers:
        if each.blow is not blow or not each.took_s:
            continue
        brokers.append(max(each.took_s.values()))
        seen = [one.at - one.since for one in each.resumed.values() if one.at is not None]
        if seen:
            clients.append(max(seen))
    return brokers, clients


def describe_times(values: Sequence[float]) -> str:
    """Return median and maximum for people to read."""
    if not values:
        return "-"
    return f"median {statistics.median(values):.2f} s, max {max(values):.2f} s"


class Run:
    """A cluster, what is done to it, and what it says."""

    def __init__(
        self,
        events: Sequence[Event],
        *,
        seed: int,
        directory: Path,
        per_second: int,
        say: Callable[[str], None],
    ) -> None:
        self._events = events
        self._say = say
        self._per_second = per_second
        self.report = Report(seed=seed)
        #: Their threads wait for good: the process cannot end as usual.
        self.has_stuck_members = False
        self._problems = self.report.problems
        self._cluster = KafkaesqueCluster(BROKERS, directory=directory)
        self._paused = [False] * BROKERS
        self._ledger = Ledger()
        self._readings = Readings(self._ledger)
        self._probes: dict[Where, list[int]] = {}
        self._places = [(name, n) for name, (count, _) in TOPICS.items() for n in range(count)]

    # -- the course of a run

    def run(self) -> Report:
        """Do all of it; problems stand in the report.

        Raises:
            RunBroken: the cluster did not come back, or a broker ended by itself.
            BrokerNotReadyError: a broker does not start.
        """
        began = time.monotonic()
        self._cluster.prepare()
        try:
            self._cluster.start()
            self._ports = [broker.port for broker in self._cluster.brokers]
            self._create_topics()
            self._settle([*TOPICS])
            with self._load():
                for number, event in enumerate(self._events, start=1):
                    self._perform(number, event)
                self._settle([*TOPICS, OFFSETS_TOPIC])
            self._check_all()
        finally:
            self._problems.extend(self._ledger.failures)
            self.report.seconds = time.monotonic() - began
            for number, broker in enumerate(self._cluster.brokers):
                if self._paused[number]:
                    os.kill(broker.pid, signal.SIGCONT)
                broker.stop()
        return self.report

    def close(self) -> None:
        """Remove the data."""
        self._cluster.close()

    def _create_topics(self) -> None:
        self._admin = AdminClient(
            {"bootstrap.servers": self._cluster.bootstrap_servers, "log_level": 0}
        )
        topics = [
            NewTopic(name, count, BROKERS, config=options)
            for name, (count, options) in TOPICS.items()
        ]
        for made in self._admin.create_topics(topics).values():
            made.result()

    @contextmanager
    def _load(self) -> Iterator[None]:
        """Keep producers and the group at work; in the end all is sent and all is read."""
        servers, report = self._cluster.bootstrap_servers, self.report
        producers = Producers(
            servers, self._places, self._ledger, per_second=self._per_second, seed=report.seed
        )
        members = [Member(servers, GROUP, [*TOPICS], self._readings) for _ in range(2)]
        for thread in (producers, *members):
            thread.start()
        try:
            yield
        finally:
            for failover in report.failovers:
                failover.stop()
            left = producers.finish(FLUSH_S_MAX)
            if left:
                self._problems.append(f"{left} records wait for an acknowledgement in the end")
            self._catch_up()
            stuck = [member for member in members if not member.finish(LEAVE_S_MAX)]
            if stuck:
                self.has_stuck_members = True
                self._problems.append(
                    f"{len(stuck)} of {len(members)} members do not end. Where gdb shows"
                    " rd_kafka_toppar_forget_leader in one of their threads, they have deadlocked"
                    " by themselves (librdkafka's issue 5476): run it again"
                )
            report.sent, report.acknowledged = self._ledger.sent, self._ledger.acknowledged
            readings = self._readings
            report.given, report.given_again = readings.given, readings.given_again
            report.group_silence_s = readings.longest_silence_s

    def _catch_up(self) -> None:
        """Wait until the group has been given all that is there."""
        ends = end_offsets(self._cluster.bootstrap_servers, self._places)
        deadline = time.monotonic() + CATCH_UP_S_MAX
        given = self._readings.numbers
        while any(len(given.get(where, ())) < end for where, end in ends.items()):
            if time.monotonic() > deadline:
                behind = {w: (len(given.get(w, ())), end) for w, end in ends.items()}
                self._problems.append(f"the group does not get on: {behind}")
                return
            time.sleep(SETTLE_INTERVAL_S)

    # -- blows

    def _perform(self, number: int, event: Event) -> None:
        if event.blow is not Blow.OVERLAP:
            self.report.settled_s.append(self._settle([*TOPICS, OFFSETS_TOPIC]))
            if event.elects:
                self._elect_preferred()
        time.sleep(event.wait_s)
        self._check_running()
        match event.blow:
            case Blow.PAUSE:
                failover = self._pause(event)
            case Blow.KILL_ALL:
                failover = self._kill_all(event)
            case _:
                failover = self._kill(event)
        self.report.failovers.append(failover)
        who = "all" if event.blow is Blow.KILL_ALL else f"broker {event.victim + 1}"
        self._say(
            f"{number:4} {event.blow.value} of {who}, {event.down_s:.2f} s; "
            f"led {len(failover.lost)}; acknowledged {self._ledger.acknowledged} of "
            f"{self._ledger.sent}"
        )

    def _elect_preferred(self) -> None:
        """Bring leadership back to where the placement wants it, under load, too."""
        places = [TopicPartition(*where) for where in self._places]
        elected = self._admin.elect_leaders(ElectionType.PREFERRED, places).result()
        for where, error in elected.items():
            if error is not None and error.code() != KafkaError.ELECTION_NOT_NEEDED:
                self._problems.append(f"electing the preferred leader of {where}: {error}")

    def _led_by(self, victim: int) -> list[Where]:
        view = self._views([*TOPICS])
        return [
            where
            for where in self._places
            if any(where in each and each[where].leader == victim + 1 for each in view)
        ]

    def _watch(self, blow: Blow, lost: Sequence[Where]) -> Failover:
        failover = Failover(
            blow,
            time.monotonic(),
            lost,
            ports=self._ports,
            is_answering=self._is_answering,
            ledger=self._ledger,
            probes=self._probes,
        )
        failover.start()
        return failover

    def _is_answering(self, place: int) -> bool:
        return not self._paused[place] and self._cluster.brokers[place].is_running()

    def _kill(self, event: Event) -> Failover:
        self.report.kills += 1
        broker = self._cluster.brokers[event.victim]
        lost = self._led_by(event.victim)
        broker.kill()
        failover = self._watch(event.blow, lost)
        time.sleep(event.down_s)
        broker.start()
        return failover

    def _kill_all(self, event: Event) -> Failover:
        self.report.kills += 1
        brokers = self._cluster.brokers
        for broker in brokers:
            os.kill(broker.pid, signal.SIGKILL)
        for broker in brokers:
            broker.kill()
        time.sleep(event.down_s)
        for broker in brokers:
            broker.start()
        return self._watch(event.blow, self._places)

    def _pause(self, event: Event) -> Failover:
        self.report.pauses += 1
        pid = self._cluster.brokers[event.victim].pid
        lost = self._led_by(event.victim)
        self._paused[event.victim] = True
        os.kill(pid, signal.SIGSTOP)
        failover = self._watch(event.blow, lost)
        time.sleep(event.down_s)
        os.kill(pid, signal.SIGCONT)
        self._paused[event.victim] = False
        return failover

    def _check_running(self) -> None:
        for broker in self._cluster.brokers:
            broker.raise_if_ended()

    # -- recovery

    def _views(self, topics: Sequence[str]) -> list[View]:
        views = []
        for place, port in enumerate(self._ports):
            if not self._is_answering(place):
                continue
            probe = BrokerProbe(port, 2.0)
            try:
                views.append(probe.metadata(topics))
            except OSError:
                pass
            finally:
                probe.close()
        return views

    def _settle(self, topics: Sequence[str]) -> float:
        """Wait until all brokers name the same leaders and full in-sync sets; return how long."""
        began = time.monotonic()
        while True:
            self._check_running()
            views = self._views(topics)
            unsettled = _unsettled(views)
            if not unsettled:
                return time.monotonic() - began
            if time.monotonic() - began > SETTLE_S_MAX:
                raise RunBroken(
                    f"{len(unsettled)} partitions have not recovered after {SETTLE_S_MAX:.0f} s: "
                    + "; ".join(unsettled[:5])
                )
            time.sleep(SETTLE_INTERVAL_S)

    # -- what must hold

    def _check_all(self) -> None:
        problems, brokers = self._problems, self._cluster.brokers
        ends = end_offsets(self._cluster.bootstrap_servers, self._places)
        log = read_log(self._cluster.bootstrap_servers, ends, problems)
        check_log(log, self._ledger, problems)
        check_probes(self._probes, log, problems)
        check_readings(self._readings, log, problems)
        self._say("the log is read and compared with what was sent; stopping all brokers")
        self._settle([*TOPICS, OFFSETS_TOPIC])
        for broker in brokers:
            broker.stop()
        homes = [broker.log_path.parent / "data" for broker in brokers]
        self.report.replicas = check_replicas(homes, problems)
        self._say("the replicas are compared; starting all brokers again")
        for broker in brokers:
            broker.start()
        self._cluster.wait_until_ready()
        self._settle([*TOPICS, OFFSETS_TOPIC])
        again = end_offsets(self._cluster.bootstrap_servers, self._places)
        if again != ends:
            problems.append(f"after a restart the partitions end at {again}, not {ends}")
            return
        tails = read_log(self._cluster.bootstrap_servers, ends, problems, tail=TAIL_RECORDS)
        for where, tail in tails.items():
            if tail != log[where][len(log[where]) - len(tail) :]:
                problems.append(f"{where}: other records at the end after a restart")


def _unsettled(views: Sequence[View]) -> list[str]:
    """Return what is not yet as it should be; with fewer views than brokers, that."""
    if len(views) < BROKERS:
        return [f"{len(views)} brokers answer"]
    found = []
    for where in sorted({where for view in views for where in view}):
        said = [view.get(where) for view in views]
        known = [each for each in said if each is not None]
        is_settled = (
            len(known) == len(views)
            and len({(each.leader, each.epoch) for each in known}) == 1
            and known[0].leader > 0
            and all(each.in_sync == each.replicas for each in known)
        )
        if not is_settled:
            told = ", ".join(
                "unknown" if each is None else f"{each.leader}@{each.epoch}{sorted(each.in_sync)}"
                for each in said
            )
            found.append(f"{where[0]}-{where[1]}: {told}")
    return found
