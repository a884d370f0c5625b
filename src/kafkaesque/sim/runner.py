"""One run: a cluster, clients, faults from a seed; then everything heals and is checked."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Final

from kafkaesque.broker.partitions.refused_batches import GAPS_MS
from kafkaesque.env import Env
from kafkaesque.sim.agreement import describe, disagreement
from kafkaesque.sim.clients.administrator import LeaderElector, RecordDeleter
from kafkaesque.sim.clients.bursts import Bursts, ClientEnv
from kafkaesque.sim.clients.committer import SimCommitter
from kafkaesque.sim.clients.controller_changer import ControllerChanger
from kafkaesque.sim.clients.copy_throttle import CopyThrottle
from kafkaesque.sim.clients.findings import Findings
from kafkaesque.sim.clients.kafka_client import KafkaClient
from kafkaesque.sim.clients.lock_load import CANDIDATES, LockLoad
from kafkaesque.sim.clients.observations import Observations
from kafkaesque.sim.clients.replica_shuffler import ReplicaShuffler
from kafkaesque.sim.clients.topic_churn import TopicChurn
from kafkaesque.sim.clients.topic_load import TopicLoad, TopicSpec
from kafkaesque.sim.clients.transaction_load import TransactionLoad
from kafkaesque.sim.cluster import AMQP_GATEWAYS, GATEWAYS, SimCluster
from kafkaesque.sim.env import Machine, World
from kafkaesque.sim.exchanges.load import ExchangeLoad
from kafkaesque.sim.faults import Fault, Ground
from kafkaesque.sim.log_checks import check_kept, check_starts, check_tables
from kafkaesque.sim.loop import NS_PER_MS, SimStuck
from kafkaesque.sim.movers import start_changes, start_moves, start_throttles
from kafkaesque.sim.namesakes.load import NamesakeLoad
from kafkaesque.sim.nemesis import (
    LOSING,
    OF_CLOCKS,
    Nemesis,
    check_plan,
    plan_lost_majorities,
)
from kafkaesque.sim.options import SimOptions, draw_options
from kafkaesque.sim.pipeline.load import (
    INPUT_PARTITIONS,
    INPUT_PAUSE_MS,
    INPUT_TOPIC,
    WORKERS,
    PipelineLoad,
)
from kafkaesque.sim.plans import draw_plan
from kafkaesque.sim.queues.load import QueueLoad
from kafkaesque.sim.queues.small_files import small_files
from kafkaesque.sim.queues.specs import draw_queues, sealed
from kafkaesque.sim.text.load import PARTITIONS as TEXT_PARTITIONS
from kafkaesque.sim.text.load import TOPIC as TEXT_TOPIC
from kafkaesque.sim.text.load import TextLoad
from kafkaesque.sim.text.observations import TextObservations
from kafkaesque.sim.topics import lasting_topics
from kafkaesque.sim.unclean.eras import Eras
from kafkaesque.sim.unclean.history import UncleanHistory
from kafkaesque.sim.unclean.load import UncleanLoad, UncleanSpec, draw_spec
from kafkaesque.sim.witness import Witness

__all__ = ["SimOptions", "SimReport", "draw_options", "run_seed", "run_seeds"]

#: After everything is healed, all that was begun must come to its end within this time.
SETTLE_MS_MAX: Final = 60_000
FORM_MS_MAX: Final = 30_000
#: A session that is gone keeps its messages for half a minute after a change of leader.
DRAIN_MS_MAX: Final = 150_000
#: Conditions that cost much are looked at no more often than this.
LOOK_MS: Final = 20
WITNESS_MS: Final = 250
#: What the brokers, and no clients, come to.
AGREEMENT: Final = "agreement"
#: Clients of the topic that is elected uncleanly work around each fault by which it is.
ALWAYS_PERCENT: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class SimReport:
    """What came of a run; the same seed on the same code gives the same digest."""

    seed: int
    anomalies: list[str]
    digest: str
    sent: int
    acknowledged: int
    read: int
    faults: int
    #: They, to be cut down by hand to those that matter and run again with the same seed.
    plan: tuple[Fault, ...]
    simulated_ms: int
    #: What else went on, by name: committed offsets, elections, deletions, topics, transactions.
    counts: dict[str, int] = field(default_factory=dict)
    #: The last lines of the history, where there are anomalies.
    lines: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing was wrong."""
        return not self.anomalies


def run_seed(
    seed: int, options: SimOptions | None = None, plan: Sequence[Fault] | None = None
) -> SimReport:
    """Run a seed; its report says what was wrong, if anything.

    Without options the seed draws them: see `draw_options`. With a plan these faults happen, and
    not what the seed draws; those of them that last beyond `duration_ms` end then.

    Raises:
        ValueError: the plan has a fault that does not exist, or that strikes no broker of these.
    """
    options = options or draw_options(seed)
    has_queues = {"queues", "exchanges"} & set(options.activities)
    with small_files(seed) if has_queues else nullcontext():
        return _Run(seed, options, plan).go()


def run_seeds(
    seeds: Sequence[int],
    options: SimOptions | None = None,
    on_report: Callable[[SimReport, float], None] | None = None,
) -> list[SimReport]:
    """Run seeds one after the other; `on_report` gets each report and its seconds."""
    reports = []
    for seed in seeds:
        begun = time.monotonic()
        report = run_seed(seed, options)
        reports.append(report)
        if on_report is not None:
            on_report(report, time.monotonic() - begun)
    return reports


class StuckClient(SimStuck):
    """A client does not come to its end though nothing is wrong any more."""


class _Run:
    def __init__(self, seed: int, options: SimOptions, plan: Sequence[Fault] | None) -> None:
        self._seed = seed
        self._options = options
        self._world = World(seed)
        gateways = AMQP_GATEWAYS if "exchanges" in options.activities else GATEWAYS
        self._cluster = SimCluster(self._world, options, gateways)
        self._findings = Findings()
        self._eras = Eras(self._cluster)
        self._witness = Witness(self._cluster, self._findings, self._eras)
        #: Whether somebody looks after brokers that have given up their disk.
        self._has_operator = False
        self._loads: list[TopicLoad] = []
        self._churn: TopicChurn | None = None
        self._committer: SimCommitter | None = None
        self._elector: LeaderElector | None = None
        self._deleter: RecordDeleter | None = None
        self._shuffler: ReplicaShuffler | None = None
        self._throttle: CopyThrottle | None = None
        self._changer: ControllerChanger | None = None
        self._transactions: TransactionLoad | None = None
        self._pipeline: PipelineLoad | None = None
        self._lock: LockLoad | None = None
        self._namesakes: NamesakeLoad | None = None
        self._text: TextLoad | None = None
        self._queues: QueueLoad | None = None
        self._exchanges: ExchangeLoad | None = None
        self._unclean: UncleanLoad | None = None
        #: What is drawn for it; and by which faults it loses its majorities.
        self._unclean_spec = draw_spec(seed, options) if "unclean" in options.activities else None
        names = self._cluster.names
        workers = [*WORKERS] if "exactly-once" in options.activities else []
        workers += CANDIDATES if "lock" in options.activities else []
        self._plan = draw_plan(seed, names, workers, options) if plan is None else list(plan)
        self._losses = self._draw_losses()
        self._plan += self._losses if plan is None else []
        check_plan(self._plan, [*names, *workers])
        #: When the plan begins.
        self._begun_ns = -1
        percent = options.busy_percent
        self._bursts = self._make_bursts(self._plan, percent, "bursts")
        # Nothing of what that topic is about happens elsewhere.
        self._unclean_bursts = self._make_bursts(
            self._losses, percent and ALWAYS_PERCENT, "unclean bursts"
        )

    def _draw_losses(self) -> list[Fault]:
        spec, options = self._unclean_spec, self._options
        if spec is None:
            return []
        names = self._cluster.names
        return plan_lost_majorities(self._seed, names, spec.replicas, options.duration_ms)

    def _make_bursts(self, plan: Sequence[Fault], percent: int | None, label: str) -> Bursts | None:
        loop = self._world.loop

        def now_ms() -> float:
            return -1 if self._begun_ns < 0 else (loop.now_ns - self._begun_ns) / NS_PER_MS

        if percent is None:
            return None
        return Bursts(plan, percent, loop.chance(label), now_ms)

    def go(self) -> SimReport:
        """Run, and report."""
        try:
            self._drive()
        except StuckClient as stuck:
            self._findings.note(f"stuck client: {stuck}")
            for load in self._loads:
                load.observations.note_unseen()
        except SimStuck as stuck:
            self._findings.note(f"stuck: {stuck}")
        except Exception as defect:
            self._findings.note(f"defect: {type(defect).__name__}: {defect}")
        anomalies, history = self._findings.anomalies, self._world.loop.history
        clients: list[Observations | UncleanHistory] = []
        clients += [load.observations for load in self._loads]
        clients += [] if self._unclean is None else [self._unclean.history]
        return SimReport(
            seed=self._seed,
            anomalies=anomalies,
            digest=history.digest(),
            sent=sum(each.sent_count for each in clients),
            acknowledged=sum(each.acknowledged_count for each in clients),
            read=sum(each.read_count for each in clients),
            faults=len(self._plan),
            plan=tuple(self._plan),
            simulated_ms=self._world.loop.now_ns // NS_PER_MS,
            counts=self._counts(),
            lines=history.lines() if anomalies else [],
        )

    def _counts(self) -> dict[str, int]:
        counted = {
            "commits": self._committer,
            "elections": self._elector,
            "deletions": self._deleter,
            "topics": self._churn,
            "moves": self._shuffler,
            "throttles": self._throttle,
            "controllers": self._changer,
            "transactions": self._transactions,
            "decisions": self._lock,
            "namesakes": self._namesakes,
        }
        counts = {name: each.count for name, each in counted.items() if each is not None}
        if "compaction" in self._options.activities:
            brokers = self._cluster.brokers.values()
            # Since their last starts.
            counts["compactions"] = sum(broker.log_cleaner.count for broker in brokers)
        if self._namesakes is not None:
            counts["commits to namesakes"] = self._namesakes.history.committed_count
        if self._pipeline is not None:
            counts |= self._pipeline.counts()
        if self._unclean is not None:
            counts |= self._unclean.counts()
        for each in (self._text, self._queues, self._exchanges):
            if each is not None:
                counts |= each.counts()
        return counts

    # -- the course of a run

    def _drive(self) -> None:
        loop, options = self._world.loop, self._options
        self._cluster.start()
        self._make_topics()
        self._await("topics", self._are_topics_made, FORM_MS_MAX)
        self._start_clients()
        self._look()
        cluster = self._cluster
        ground = Ground(
            self._world, self._boot, cluster.restart, cluster.is_back, lambda: cluster.controller
        )
        nemesis = Nemesis(ground)
        self._begun_ns = loop.now_ns
        nemesis.commit(self._plan, options.duration_ms)
        loop.run_until(lambda: nemesis.ended, options.duration_ms + 1_000)
        if options.damaged is not None:
            end = self._cluster.retire if options.loses_damaged else self._cluster.readmit
            end(options.damaged)
        self._settle()
        for load in self._loads:
            check_starts(self._cluster, load)
            check_tables(self._cluster, load)
            load.observations.check()
        for writers in self._transactional:
            writers.history.check()
        if self._pipeline is not None:
            self._pipeline.check()
        if self._queues is not None:
            self._queues.note_records(self._loads[0].observations.acknowledged)
            self._queues.check()
        if self._exchanges is not None:
            self._exchanges.check()
        if self._unclean is not None:
            self._unclean.check()
        self._witness.look()

    def _boot(self, machine: Machine) -> None:
        for load in (self._pipeline, self._lock):
            if load is not None and load.has(machine):
                load.boot(machine)
                return
        self._cluster.boot(machine)

    def _settle(self) -> None:
        """Everything is healed: let all that was begun come to its end."""
        for bursts in (self._bursts, self._unclean_bursts):
            if bursts is not None:
                bursts.end()
        for load in (*self._loads, self._unclean):
            if load is not None:
                load.stop_producing()
        for each in (self._churn, self._elector, self._deleter, self._shuffler, self._changer):
            if each is not None:
                each.is_stopped = True
        if self._throttle is not None:
            self._throttle.end()
        committer, churn = self._committer, self._churn
        if committer is not None:
            committer.conclude()
        for writers in self._transactional:
            writers.stop()
        if self._pipeline is not None:
            self._pipeline.calm()
        if self._text is not None:
            self._text.stop_publishing()
        for behind in (self._queues, self._exchanges):
            if behind is not None:
                behind.stop()
        throttle, loads, text = self._throttle, self._loads, self._text
        if throttle is not None:
            self._await("limits to be lifted", lambda: throttle.is_lifted)
        if text is not None:
            self._await("outcomes of lines", lambda: text.is_answered)
        self._await("acknowledgements", lambda: all(load.is_acknowledged for load in loads))
        self._await("readers", lambda: all(load.is_read for load in loads))
        # So far the others had to do without a broker that has failed.
        self._has_operator = True
        if churn is not None:
            self._await("passing topics", lambda: churn.is_idle, describe_it=churn.describe)
        if committer is not None:
            self._await("committed offsets", lambda: committer.is_concluded)
        for writers in self._transactional:
            self._settle_transactions(writers)
        if self._pipeline is not None:
            self._settle_pipeline(self._pipeline)
        self._await(AGREEMENT, lambda: disagreement(self._cluster) is None)
        if text is not None:
            text.conclude()
            self._await("readers of lines", lambda: text.is_read, describe_it=text.describe)
        for behind in (self._queues, self._exchanges):
            if behind is not None:
                self._settle_queues(behind)
        if self._unclean is not None:
            self._settle_unclean(self._unclean)

    def _settle_queues(self, queues: QueueLoad | ExchangeLoad) -> None:
        self._await("clients of queues", lambda: queues.is_idle, describe_it=queues.describe)
        self._await(AGREEMENT, lambda: disagreement(self._cluster) is None)
        queues.conclude()
        self._await("empty queues", lambda: queues.is_drained, DRAIN_MS_MAX, queues.describe)
        self._await(AGREEMENT, lambda: disagreement(self._cluster) is None)

    def _settle_unclean(self, load: UncleanLoad) -> None:
        # So long a producer may hear that it is to send again what does not follow any more.
        ms_max = GAPS_MS + SETTLE_MS_MAX
        self._await("acknowledgements", lambda: load.is_acknowledged, ms_max, load.describe)
        self._await(AGREEMENT, lambda: disagreement(self._cluster) is None)
        load.conclude()
        self._await("readers", lambda: load.is_read, describe_it=load.describe)

    def _settle_transactions(self, load: TransactionLoad | LockLoad | NamesakeLoad) -> None:
        self._await("ends of transactions", lambda: load.is_idle, describe_it=load.describe)
        # Or somebody might answer the readers who leads no more.
        self._await(AGREEMENT, lambda: disagreement(self._cluster) is None)
        load.conclude()
        self._await("committed readers", lambda: load.is_read, describe_it=load.describe)

    def _settle_pipeline(self, pipeline: PipelineLoad) -> None:
        self._await("workers", lambda: pipeline.is_caught_up, describe_it=pipeline.describe)
        pipeline.stop()
        self._await("ends of workers", lambda: pipeline.is_idle, describe_it=pipeline.describe)
        self._await(AGREEMENT, lambda: disagreement(self._cluster) is None)
        pipeline.conclude()
        self._await("readers of outputs", lambda: pipeline.is_read, describe_it=pipeline.describe)

    def _await(
        self,
        what: str,
        condition: Callable[[], bool],
        ms_max: float = SETTLE_MS_MAX,
        describe_it: Callable[[], str] = str,
    ) -> None:
        try:
            self._world.loop.run_until(condition, ms_max, every_ms=LOOK_MS)
        except SimStuck as stuck:
            for line in describe(self._cluster):
                self._world.loop.tell("-", line)
            missing = disagreement(self._cluster) or "brokers agree"
            kind = SimStuck if what == AGREEMENT else StuckClient
            raise kind(f"{what}: {stuck}; {missing}; {describe_it()}") from stuck

    def _look(self) -> None:
        """Look into the brokers every now and then."""
        self._witness.look()
        for each in (self._unclean, self._queues, self._exchanges):
            if each is not None:
                each.look()
        for name in self._cluster.failed():
            if name != self._options.damaged:
                self._findings.note(f"{name} has given up a disk without faults")
        for name, broker in self._cluster.trusted():
            for partition, why in broker.log_scrubber.damaged.items():
                self._findings.note(f"{name} takes its {partition} for damaged: {why}")
            for load in self._loads:
                check_kept(broker, load)
        if self._has_operator:
            self._cluster.restart_failed()
        self._world.loop.after(WITNESS_MS * NS_PER_MS, "witness", self._look)

    # -- clients

    @property
    def _transactional(self) -> list[TransactionLoad | LockLoad | NamesakeLoad]:
        """Who writes in transactions, but for the pipeline."""
        loads = (self._transactions, self._lock, self._namesakes)
        return [each for each in loads if each is not None]

    @property
    def _distrusted(self) -> str | None:
        return self._options.damaged

    def _make_topics(self) -> None:
        options = self._options
        self._env = self._boot_clients()
        specs = lasting_topics(self._seed, options)
        for spec in specs:
            self._add_load(spec)
        self._replicas = replicas = specs[0].replicas
        configs = specs[0].configs
        if "transactions" in options.activities:
            self._transactions = TransactionLoad(
                self._env,
                self._cluster.addresses,
                self._findings,
                replicas=replicas,
                configs=configs,
                distrusted=self._distrusted,
            )
        if "lock" in options.activities:
            self._lock = LockLoad(
                self._world,
                self._env,
                self._cluster.addresses,
                self._findings,
                replicas=replicas,
                configs=configs,
                distrusted=self._distrusted,
            )
        if "namesakes" in options.activities:
            self._make_namesakes(configs)
        if "exactly-once" in options.activities:
            self._make_pipeline(configs)
        if "text" in options.activities:
            self._make_text(configs)
        if "queues" in options.activities:
            queues = draw_queues(self._seed)
            self._queues = QueueLoad(
                sealed(queues) if options.is_encrypted else queues,
                self._env,
                self._cluster,
                self._findings,
                replicas=replicas,
                do_clocks_tell=self._do_clocks_tell,
            )
        if "exchanges" in options.activities:
            self._exchanges = ExchangeLoad(self._env, self._cluster, self._findings)
        if self._unclean_spec is not None:
            self._make_unclean(self._unclean_spec)

    def _boot_clients(self, name: str = "client", bursts: Bursts | None = None) -> Env:
        env = self._world.add_machine(name).boot()
        bursts = bursts or self._bursts
        if bursts is None:
            return env
        return ClientEnv(
            clock=env.clock, dice=env.dice, disk=env.disk, network=env.network, bursts=bursts
        )

    def _make_namesakes(self, configs: Mapping[str, str]) -> None:
        self._namesakes = NamesakeLoad(
            self._env,
            self._cluster.addresses,
            self._findings,
            replicas=self._replicas,
            replicas_min=self._passing_replicas_min,
            configs=configs,
            do_clocks_tell=self._do_clocks_tell,
            distrusted=self._distrusted,
        )

    @property
    def _do_clocks_tell(self) -> bool:
        return not any(fault.kind in OF_CLOCKS for fault in self._plan)

    @property
    def _passing_replicas_min(self) -> int:
        """Return how many copies outlast a lost disk: nothing without a majority does."""
        return self._replicas if set(self._options.kinds) & set(LOSING) else 1

    def _make_unclean(self, spec: UncleanSpec) -> None:
        env = self._boot_clients("unclean", self._unclean_bursts)
        self._unclean = UncleanLoad(env, self._cluster, self._findings, self._eras, spec)

    def _make_pipeline(self, configs: Mapping[str, str]) -> None:
        spec = TopicSpec(
            name=INPUT_TOPIC,
            partitions=INPUT_PARTITIONS,
            replicas=self._replicas,
            producers=1,
            pause_ms=INPUT_PAUSE_MS,
            configs=configs,
        )
        self._add_load(spec)
        self._pipeline = PipelineLoad(
            self._world,
            self._env,
            self._cluster.addresses,
            self._findings,
            self._loads[-1],
            configs=configs,
        )

    def _make_text(self, configs: Mapping[str, str]) -> None:
        spec = TopicSpec(
            name=TEXT_TOPIC,
            partitions=TEXT_PARTITIONS,
            replicas=self._replicas,
            producers=1,
            configs=configs,
        )
        observations = TextObservations(self._findings, spec.name, spec.partitions)
        self._add_load(spec, observations)
        self._text = TextLoad(
            self._env, self._cluster, self._loads[-1], observations, self._distrusted
        )

    def _are_topics_made(self) -> bool:
        made = (*self._loads, *self._transactional, self._pipeline, self._unclean)
        behind = (self._queues, self._exchanges)
        return all(each is None or each.is_made for each in (*made, *behind))

    def _add_load(self, spec: TopicSpec, observations: Observations | None = None) -> None:
        self._loads.append(
            TopicLoad(
                self._env,
                self._cluster.addresses,
                spec,
                self._findings,
                self._distrusted,
                observations=observations,
            )
        )

    def _start_clients(self) -> None:
        env, addresses = self._env, self._cluster.addresses
        activities, findings = self._options.activities, self._findings
        for load in self._loads:
            load.start()
        if "commits" in activities:
            client = KafkaClient(env, addresses, "events")
            self._committer = SimCommitter(client, "group", self._options.partitions, findings)
        for writers in self._transactional:
            writers.start()
        loads = (self._pipeline, self._unclean, self._text, self._queues, self._exchanges)
        for each in loads:
            if each is not None:
                each.start()
        if "transfers" in activities:
            self._elector = LeaderElector(KafkaClient(env, addresses, "events"))
        if "deletions" in activities:
            deleted = self._loads[1]
            self._deleter = RecordDeleter(KafkaClient(env, addresses, "deleted"), deleted)
        if "moves" in activities:
            specs = [load.spec for load in self._loads]
            sound = [] if self._unclean is None else [self._unclean.spec]
            self._shuffler = start_moves(env, self._cluster, specs, sound)
        if "throttles" in activities:
            self._throttle = start_throttles(env, self._cluster)
        if "controllers" in activities:
            self._changer = start_changes(env, self._cluster)
        # Where a machine is lost for good, a topic that has too few replicas is lost with it.
        if "topics" in activities and not self._options.loses_damaged:
            self._churn = TopicChurn(
                env,
                addresses,
                findings,
                self._replicas,
                self._passing_replicas_min,
                distrusted=self._distrusted,
            )
