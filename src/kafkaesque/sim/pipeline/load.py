"""A pipeline in a run: its topics, its workers on machines of their own, and who reads its output.

Two of the workers share a transactional id, and shut each other out. Whether a group speaks the
classic protocol, the one in which the broker assigns partitions, or both, is drawn, and for each
transactional id which kind of producer has it.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from kafkaesque.env import Env
from kafkaesque.env.network import Address
from kafkaesque.sim.clients.committed_reader import CommittedReader, CommittedReaders
from kafkaesque.sim.clients.findings import Findings
from kafkaesque.sim.clients.kafka_client import KafkaClient
from kafkaesque.sim.clients.topic_load import TopicLoad, TopicSpec
from kafkaesque.sim.clients.transaction_history import Who
from kafkaesque.sim.env import Machine, World
from kafkaesque.sim.loop import NS_PER_MS
from kafkaesque.sim.pipeline.committed_offsets import CommittedOffsets
from kafkaesque.sim.pipeline.history import PipelineHistory
from kafkaesque.sim.pipeline.ownership import SESSION_TIMEOUT_MS
from kafkaesque.sim.pipeline.producer import ProducerKind
from kafkaesque.sim.pipeline.worker import Job, Worker

INPUT_TOPIC: Final = "orders"
INPUT_PARTITIONS: Final = 4
#: Slowly, so that the workers are never far behind: what they do is what is to be seen.
INPUT_PAUSE_MS: Final = 160
OUTPUT_TOPIC: Final = "invoices"
OUTPUT_PARTITIONS: Final = 3
GROUP: Final = "billing"
#: Machine and transactional id of each worker.
WORKERS: Final = {"w1": "billing-1", "w2": "billing-2", "w3": "billing-3", "w4": "billing-3"}
#: It has the transactional id of another one, and stays away when nothing goes wrong any more.
SPARE: Final = "w4"

STRIKE_ONE_IN: Final = 20
#: A worker is struck so long after it has begun a step: before, while or after its request is done.
STRIKE_NS_MAX: Final = 5 * NS_PER_MS
#: Longer than a session lasts, and than some transactions may.
PAUSED_MS_MIN: Final = SESSION_TIMEOUT_MS
PAUSED_MS_MAX: Final = 6_000
TRANSACTION_TIMEOUTS_MS: Final = (1_500, 3_000, 10_000)
AWAY_MS_MAX: Final = 2_000
WATCH_MS: Final = 300


class PipelineLoad:
    """Workers, a reader for each partition of the output, and somebody who watches the group."""

    def __init__(
        self,
        world: World,
        env: Env,
        bootstrap: Sequence[Address],
        findings: Findings,
        inputs: TopicLoad,
        *,
        configs: Mapping[str, str],
    ) -> None:
        self.history: Final = PipelineHistory(findings)
        self.is_calm = False
        self.is_stopped = False
        self._world: Final = world
        self._env: Final = env
        self._inputs: Final = inputs
        self._job: Final = Job(
            bootstrap=bootstrap,
            group_id=GROUP,
            input_topic=INPUT_TOPIC,
            input_partitions=INPUT_PARTITIONS,
            output_topic=OUTPUT_TOPIC,
            output_partitions=OUTPUT_PARTITIONS,
        )
        self._machines: Final = {name: world.add_machine(name) for name in WORKERS}
        self._lives: Final = dict.fromkeys(WORKERS, 0)
        self._workers: Final[dict[str, Worker]] = {}
        self._readers: Final = CommittedReaders()
        chance = world.loop.chance("pipeline")
        self._chance: Final = chance
        #: What a worker speaks; of several it is drawn for each life.
        self._protocols: Final = chance.choice(((True,), (False,), (True, False)))
        self._kinds: Final = {
            each: ProducerKind(chance.randrange(2) == 0, chance.choice(TRANSACTION_TIMEOUTS_MS))
            for each in sorted(set(WORKERS.values()))
        }
        spec = TopicSpec(
            name=OUTPUT_TOPIC,
            partitions=OUTPUT_PARTITIONS,
            replicas=inputs.spec.replicas,
            configs=configs,
        )
        self._topic: Final = TopicLoad(env, bootstrap, spec, findings)
        self._offsets: Final = CommittedOffsets(
            KafkaClient(env, bootstrap, INPUT_TOPIC), GROUP, self.history
        )
        self._committed: dict[int, int] = {}

    @property
    def is_made(self) -> bool:
        """Whether there is a topic for the output."""
        return self._topic.is_made

    def start(self) -> None:
        """Let the workers begin."""
        for machine in self._machines.values():
            self.boot(machine)
        for partition in range(OUTPUT_PARTITIONS):
            client = KafkaClient(self._env, self._job.bootstrap, OUTPUT_TOPIC)
            self._readers.add(CommittedReader(client, partition, self.history.transactions))
        self._watch()

    # -- workers

    def has(self, machine: Machine) -> bool:
        """Return whether a machine is a worker's."""
        return machine.name in self._machines

    def boot(self, machine: Machine) -> None:
        """Start a worker."""
        name = machine.name
        if machine.running or (name == SPARE and self.is_calm):
            return
        self._lives[name] += 1
        who = Who(f"{name}.{self._lives[name]}", WORKERS[name])
        is_classic = self._chance.choice(self._protocols)

        def run(env: Env) -> None:
            self._workers[name] = Worker(
                env,
                self._job,
                who,
                self.history,
                _Fate(self, machine),
                self._kinds[who.transactional_id],
                is_classic=is_classic,
            )

        machine.start(run)

    def strike(self, machine: Machine) -> None:
        """Let a worker crash or be paused in a moment, or not."""
        drawn = self._chance.randrange(STRIKE_ONE_IN)
        if self.is_calm or drawn > 1:
            return
        in_ns = self._chance.randrange(STRIKE_NS_MAX)
        if drawn:
            self.history.crash_count += 1
            self.end(machine, in_ns)
            return
        self.history.pause_count += 1
        lasting_ns = self._chance.randrange(PAUSED_MS_MIN, PAUSED_MS_MAX) * NS_PER_MS
        self._world.loop.after(in_ns, "pause", machine.pause)
        self._world.loop.after(in_ns + lasting_ns, "resume", machine.resume)

    def end(self, machine: Machine, in_ns: int = 0) -> None:
        """End a worker, and start another one in its place after a while."""
        away_ns = self._chance.randrange(AWAY_MS_MAX) * NS_PER_MS
        self._world.loop.after(in_ns, "exit", machine.kill)
        self._world.loop.after(in_ns + away_ns, "operator", lambda: self.boot(machine))

    # -- coming to an end

    def calm(self) -> None:
        """Let nothing befall the workers any more."""
        self.is_calm = True

    def stop(self) -> None:
        """Begin no transaction any more."""
        self.is_stopped = True

    def _watch(self) -> None:
        def take(offsets: dict[int, int] | None) -> None:
            self._committed = offsets or self._committed
            self._env.clock.call_later(WATCH_MS, self._watch)

        self._offsets.fetch(range(INPUT_PARTITIONS), None, take)

    @property
    def is_caught_up(self) -> bool:
        """Whether the group has committed the end of each partition that it consumes."""
        return all(
            self._committed.get(partition, 0) >= consumer.high_watermark
            for partition, consumer in enumerate(self._inputs.consumers)
        )

    @property
    def is_idle(self) -> bool:
        """Whether all workers have ended what they had begun."""
        return all(
            self._workers[name].is_idle
            for name, machine in self._machines.items()
            if machine.running
        )

    def conclude(self) -> None:
        """All is ended: let the readers read what there is now."""
        self._readers.conclude()

    @property
    def is_read(self) -> bool:
        """Whether no transaction is open in any partition, and all is read."""
        return self._readers.are_at_end

    def check(self) -> None:
        """Compare the output with the input."""
        self.history.check(self._inputs.observations.seen)

    def counts(self) -> dict[str, int]:
        """Return what went on, by name."""
        history = self.history
        return {
            "inputs": sum(map(len, self._inputs.observations.seen.values())),
            "outputs": len(history.transactions.read()),
            "committed": history.transactions.committed_count,
            "aborted": history.transactions.aborted_count,
            "undecided": history.transactions.undecided_count,
            "lives": sum(self._lives.values()),
            "crashes": history.crash_count,
            "pauses": history.pause_count,
            "left by their group": history.left_count,
            "shut out": history.shut_out_count,
        }

    def describe(self) -> str:
        """Say what is waited for."""
        return f"committed {self._committed}; {self._readers}"


class _Fate:
    """One worker's."""

    def __init__(self, load: PipelineLoad, machine: Machine) -> None:
        self._load: Final = load
        self._machine: Final = machine

    @property
    def is_calm(self) -> bool:
        return self._load.is_calm

    @property
    def is_stopped(self) -> bool:
        return self._load.is_stopped

    def strike(self) -> None:
        self._load.strike(self._machine)

    def end(self) -> None:
        self._load.end(self._machine)
