"""One run: a cluster under load, faults from a plan, and the checks in the end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from bench.chaos.checks import Evidence, check_everything
from bench.chaos.departure import Departure
from bench.chaos.ground import Ground
from bench.chaos.history import History, Journal, Where
from bench.chaos.load import LOCK, PLACES, TOPICS, Load, QueueLoad
from bench.chaos.machine import Machine
from bench.chaos.moves import Mover
from bench.chaos.plan import CLIENTS
from bench.chaos.queue_users import UserQueues
from bench.chaos.queues import QueueClients
from bench.chaos.replicas import NotReadError, check_replicas, end_offsets, read_log
from bench.chaos.switch import Network
from bench.chaos.transactors import read_lock
from bench.kills.wire import BrokerProbe, View
from kafkaesque.cli.broker_ports import unused_ports
from kafkaesque.sim.faults import Fault

TICK_S: Final = 0.02
READY_S_MAX: Final = 60.0
#: After the last fault: a client that has not come to an end by then is stuck.
STUCK_S: Final = 120.0
SETTLE_S_MAX: Final = 120.0
READ_S_MAX: Final = 180.0
KAFKA_PORT, PEER_PORT, SQS_PORT = 9092, 9190, 9324
INTERNAL: Final = ("__consumer_offsets", "__transaction_state")

_CONFIGURATION = """\
[broker]
id = {name}
cluster.id = "chaos"
data = "{data}"
host = "{address}"
# Nobody but the run is on its network.
allow.open.listeners = true
kafka.port = {port}
peer.port = {peer_port}
sqs.port = {sqs_port}
text.port = 0
admin.port = 0

[controllers]
{controllers}
[options]
"group.initial.rebalance.delay.ms" = 0
"group.consumer.min.session.timeout.ms" = 6000
"group.consumer.session.timeout.ms" = 10000
"group.consumer.min.heartbeat.interval.ms" = 1000
"group.consumer.heartbeat.interval.ms" = 2000
"offsets.topic.num.partitions" = 4
"transaction.state.log.num.partitions" = 4
"replica.lag.time.max.ms" = 5000
"log.cleaner.backoff.ms" = 1000
# Clocks of brokers jump back by a day: they would take nothing that clients say is new.
"log.message.timestamp.after.max.ms" = 9223372036854775807
"""


@dataclass(slots=True, kw_only=True)
class Options:
    """What a run is."""

    seed: int
    brokers: int
    plan: Sequence[Fault]
    duration_ms: int
    directory: Path
    #: In namespaces of their own; else all are on 127.0.0.1.
    has_network: bool
    interposer: Path | None
    has_spare: bool
    #: Clients of queues alone, and more of them.
    only_queues: bool = False


@dataclass(slots=True, kw_only=True)
class Report:
    """What came of a run."""

    counts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    operations: Counter[str] = field(default_factory=Counter)
    errors: dict[str, int] = field(default_factory=dict)
    own_ends: int = 0
    repairs: int = 0
    #: How often the broker that comes and goes was drained, stopped and taken out.
    departures: int = 0
    disk_failures: int = 0
    healed_s: float = 0.0
    settled_s: float = 0.0
    replicas: tuple[int, int] = (0, 0)
    longest_silence_s: float = 0.0
    #: When that began, in the time of the lines before.
    longest_silence_from_s: float = 0.0
    anomalies: list[str] = field(default_factory=list)


class Run:
    """A cluster, its clients, and what happens to them."""

    def __init__(self, options: Options, say: Callable[[str], None]) -> None:
        self._options = options
        self._said = say
        self._began = time.monotonic()
        self._journal = Journal(options.directory / "ledger.jsonl")
        self.history = History(self._journal)
        self.report = Report()
        self._network: Network | None = None
        self._all_machines: list[Machine] = []

    def say(self, text: str) -> None:
        """Print a line, and keep it with the ledger."""
        self.history.note("nemesis", text=text)
        self._said(f"{time.monotonic() - self._began:7.1f} s  {text}")

    # -- the course of a run

    def run(self) -> Report:
        """Do all of it; what is wrong stands in the report."""
        self._prepare()
        try:
            self._start()
            self._create_topics()
            with self._load() as load:
                self._strike()
                self._bring_to_an_end(load)
            self._check(load)
        finally:
            self.report.anomalies = [*self.history.anomalies, *self.report.anomalies]
            self.report.longest_silence_s = self.history.longest_silence_s
            self.report.longest_silence_from_s = self.history.longest_silence_began_at - self._began
            self.report.errors = dict(sorted(self.history.errors.items()))
            self.report.seconds = time.monotonic() - self._began
            self.report.own_ends = sum(each.own_ends for each in self._ground.all_machines)
            self.report.repairs = sum(each.repairs for each in self._ground.all_machines)
            self.report.disk_failures = sum(
                each.control.failures for each in self._ground.all_machines
            )
            self.report.counts = self._ground.counts
            for machine in self._ground.all_machines:
                machine.kill()
            if self._network is not None:
                self._network.close()
            self._mover.stop()
            if self._ground.departure is not None:
                self._ground.departure.stop()
                self.report.departures = self._ground.departure.count
            self._journal.close()
        return self.report

    def close(self) -> None:
        """Let go of the disks."""
        for machine in self._all_machines:
            machine.unmount()

    @property
    def bootstrap_servers(self) -> str:
        """Where the clients begin."""
        return ",".join(f"{each.address}:{each.port}" for each in self._machines.values())

    def _prepare(self) -> None:
        options = self._options
        names = [str(number) for number in range(1, options.brokers + 1)]
        spare_name = str(options.brokers + 1)
        everybody = [*names, spare_name] if options.has_spare else names
        if options.has_network:
            self._network = Network([CLIENTS, *everybody])
        ports = [] if self._network else unused_ports(3 * len(everybody))
        peers = {}
        sqs_ports = {}
        machines = {}
        for place, name in enumerate(everybody):
            port = ports[3 * place] if ports else KAFKA_PORT
            machine = self._machine(name, port)
            machines[name] = machine
            peers[name] = f"{machine.address}:{ports[3 * place + 1] if ports else PEER_PORT}"
            sqs_ports[name] = ports[3 * place + 2] if ports else SQS_PORT
        controllers = "".join(f'{name} = "{peers[name]}"\n' for name in names)
        for machine in machines.values():
            text = _CONFIGURATION.format(
                name=machine.name,
                data=machine.data,
                address=machine.address,
                port=machine.port,
                peer_port=peers[machine.name].rpartition(":")[2],
                sqs_port=sqs_ports[machine.name] if options.only_queues else 0,
                controllers=controllers,
            )
            machine.configuration.write_text(text)
        spare = machines.pop(spare_name) if options.has_spare else None
        self._machines = machines
        self._sqs = [f"http://{each.address}:{sqs_ports[name]}" for name, each in machines.items()]
        self._mover = Mover(self.bootstrap_servers, self.history, PLACES, options.seed)
        departure = None
        if spare is not None:
            departure = Departure(spare, self.bootstrap_servers, self.history, self.say)
        self._ground = Ground(
            machines,
            self._network,
            spare=spare,
            departure=departure,
            reassign=self._reassign,
            seed=options.seed,
            say=self.say,
        )

    def _reassign(self, onto: str) -> None:
        """Let a partition's replicas move to brokers that are to run; `onto` is one, if named."""
        spare, departure = self._ground.spare, self._ground.departure
        to = list(self._machines)
        if spare is not None and spare.is_wanted and not (departure and departure.is_under_way):
            to.append(spare.name)
        self._mover.move(to, min(3, len(self._machines)), self.say, onto=onto)

    def _machine(self, name: str, port: int) -> Machine:
        home = self._options.directory / f"broker-{name}"
        home.mkdir()
        machine = Machine(
            name,
            home=home,
            address=self._network.address(name) if self._network else "127.0.0.1",
            port=port,
            enter=self._network.enter(name) if self._network else [],
            interposer=self._options.interposer,
            say=self.say,
            anomaly=self.history.anomaly,
        )
        self._all_machines.append(machine)
        if not self._network:
            machine.disk.mkdir()
        elif not machine.mount():
            self.say(f"{machine} has no disk of its own: no file system can be mounted here")
        return machine

    def _start(self) -> None:
        for machine in self._machines.values():
            machine.start()
        self._wait_for(
            lambda: all(each.is_ready for each in self._machines.values()),
            READY_S_MAX,
            "the brokers are not ready",
        )

    def _wait_for(
        self,
        is_so: Callable[[], bool],
        seconds: float,
        otherwise: str,
        progress: Callable[[], int] = lambda: 0,
    ) -> bool:
        """Return whether it was so in time; if not, it is an anomaly.

        The time begins anew where it has run out and `progress` has grown meanwhile.
        """
        deadline = time.monotonic() + seconds
        before = progress()
        while not is_so():
            if time.monotonic() > deadline and (now := progress()) > before:
                deadline, before = time.monotonic() + seconds, now
            if time.monotonic() > deadline:
                self.history.anomaly(f"{otherwise} after {seconds:.0f} s")
                return False
            self._ground.tick()
            time.sleep(TICK_S)
        return True

    def _create_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        topics = [
            NewTopic(name, count, min(3, len(self._machines)), config=options)
            for name, (count, options) in TOPICS.items()
        ]
        for made in admin.create_topics(topics, operation_timeout=30).values():
            made.result()

    @contextmanager
    def _load(self) -> Iterator[Load]:
        options, servers = self._options, self.bootstrap_servers
        queues: list[QueueLoad] = [
            QueueClients(
                servers,
                options.directory / "queues",
                do_clocks_tell=all(each.kind != "clock jump" for each in options.plan),
            )
        ]
        if options.only_queues:
            queues.append(UserQueues(servers, self._sqs, self.history, options.seed))
        has_streams = not options.only_queues
        load = Load(servers, self.history, options.seed, queues, has_streams=has_streams)
        load.start()
        self.say("the clients are at work")
        try:
            yield load
        finally:
            load.stop()

    def _strike(self) -> None:
        """Commit the plan."""
        began = time.monotonic()
        events = sorted(
            [(fault.begin_ms, 1, number) for number, fault in enumerate(self._options.plan)]
            + [(fault.end_ms, 2, number) for number, fault in enumerate(self._options.plan)]
        )
        under_way: dict[int, Fault] = {}
        for at_ms, what, number in events:
            fault = self._options.plan[number]
            while time.monotonic() < began + at_ms / 1_000:
                self._ground.tick()
                time.sleep(TICK_S)
            if at_ms >= self._options.duration_ms:
                break
            if what == 1:
                under_way[number] = fault
                self._ground.begin(number, fault)
            elif under_way.pop(number, None) is not None:
                self._ground.end(number, fault)
        self.say("heals everything")
        self._ground.heal(list(under_way.items()))

    # -- after healing

    def _bring_to_an_end(self, load: Load) -> None:
        healed_at = time.monotonic()
        load.stop_writing()
        self._wait_for(
            lambda: not load.writing(),
            STUCK_S,
            "stuck client: writers have not come to an end",
            load.progress,
        )
        for client in load.writing():
            self.history.anomaly(f"stuck client: {client.name}: {client.describe()}")
        ends = self._ends()
        load.read_to(ends)
        self._wait_for(
            lambda: not load.reading(), STUCK_S, "stuck client: readers have not come to an end"
        )
        for client in load.reading():
            self.history.anomaly(f"stuck client: {client.name}: {client.describe()}")
        self.report.healed_s = time.monotonic() - healed_at
        self.say("the clients have come to an end")

    def _ends(self) -> dict[Where, int]:
        deadline = time.monotonic() + STUCK_S
        while True:
            try:
                return end_offsets(self.bootstrap_servers, PLACES, 10.0)
            except KafkaException as error:
                if time.monotonic() > deadline:
                    raise NotReadError(f"the ends of the logs are not told: {error}") from None
            self._ground.tick()

    def _views(self) -> list[View]:
        views = []
        for machine in self._machines.values():
            probe = BrokerProbe(machine.port, 2.0, machine.address)
            try:
                views.append(probe.metadata([*TOPICS, *INTERNAL]))
            except OSError:
                pass
            finally:
                probe.close()
        return views

    def _await_departure(self) -> None:
        """Wait until the broker that comes and goes has left, if it is about to."""
        leaving = self._ground.departure
        if leaving is not None and not self._wait_for(
            lambda: not leaving.is_under_way,
            SETTLE_S_MAX,
            f"stuck drain: broker {leaving.machine.name} has not left",
        ):
            self.report.anomalies.append(f"stuck drain: {leaving.describe()}")
            leaving.cancel()
            leaving.machine.heal()

    def _settle(self) -> dict[str, frozenset[str]]:
        """Wait until all is in sync; return who has replicas of which partition."""
        self._await_departure()
        began = time.monotonic()
        told: list[str] = []
        views: list[View] = []

        def is_settled() -> bool:
            views[:] = self._views()
            told[:] = unsettled(views, len(self._machines))
            return not told

        if not self._wait_for(is_settled, SETTLE_S_MAX, "stuck replica: not all is in sync"):
            self.report.anomalies.append(f"stuck replica: {'; '.join(told[:5])}")
        self.report.settled_s = time.monotonic() - began
        return {
            f"{topic}-{partition}": frozenset(map(str, found.replicas))
            for view in views[:1]
            for (topic, partition), found in view.items()
        }

    def _check(self, load: Load) -> None:
        history, servers = self.history, self.bootstrap_servers
        holders = self._settle()
        ends = self._ends()
        sent = len(history.sends)
        log, committed = (
            read_log(servers, ends, is_committed=is_so, sent=sent, timeout_s=READ_S_MAX)
            for is_so in (False, True)
        )
        evidence = Evidence(
            history=history,
            log=log,
            committed=committed,
            compacted=frozenset(n for n, (_, each) in TOPICS.items() if "cleanup.policy" in each),
            transactional=frozenset({"ledger"}),
            lock=read_lock(servers, LOCK, end_offsets(servers, [(LOCK, 0)], 30.0)[LOCK, 0], 60.0),
        )
        self.say("the log is read; stopping the brokers")
        self.report.anomalies += check_everything(evidence)
        for each in load.queues:
            self.report.anomalies += each.check()
        self._ground.stop_all()
        homes = {each.name: each.data for each in self._ground.all_machines}
        # Of the metadata only controllers must have everything.
        holders["__cluster_metadata-0"] = frozenset(self._machines)
        compacted = [f"{name}-" for name in (*evidence.compacted, *INTERNAL)]
        self.report.replicas = check_replicas(homes, holders, compacted, self.report.anomalies)
        self.report.operations = load.operations(evidence)


def unsettled(views: Sequence[View], brokers: int) -> list[str]:
    """Return what is not yet as it should be; with fewer views than brokers, that."""
    if len(views) < brokers:
        return [f"{len(views)} of {brokers} brokers answer"]
    found = []
    for where in sorted({where for view in views for where in view}):
        said = [view[where] for view in views if where in view]
        is_settled = (
            len(said) == len(views)
            and len({(each.leader, each.epoch) for each in said}) == 1
            and said[0].leader > 0
            and all(each.in_sync == each.replicas for each in said)
        )
        if not is_settled:
            told = ", ".join(f"{each.leader}@{each.epoch}{sorted(each.in_sync)}" for each in said)
            found.append(f"{where[0]}-{where[1]}: {told}")
    return found
