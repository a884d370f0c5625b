"""One run: a cluster, clients, faults from a seed; then everything heals and is checked."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kafkaesque.sim.clients.consumer import SimConsumer
from kafkaesque.sim.clients.kafka_client import KafkaClient
from kafkaesque.sim.clients.observations import Observations
from kafkaesque.sim.clients.producer import SimProducer
from kafkaesque.sim.cluster import SimCluster
from kafkaesque.sim.env import World
from kafkaesque.sim.loop import NS_PER_MS, SimStuck
from kafkaesque.sim.nemesis import SURVIVABLE, Nemesis, PlanOptions, make_plan

TOPIC = "events"
PARTITIONS = 2
PRODUCERS = 2
#: After everything is healed, all that was begun must come to its end within this time.
SETTLE_MS_MAX = 60_000
FORM_MS_MAX = 30_000
CREATE_TOPICS_VERSION = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SimOptions:
    """What a run is made of."""

    brokers: int = 3
    duration_ms: int = 10_000
    #: From fault to fault, on average.
    between_ms: int = 1_500
    kinds: tuple[str, ...] = SURVIVABLE
    #: One process fault in so many strikes all brokers at once.
    all_one_in: int = 10


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
    simulated_ms: int
    #: The last lines of the history, where there are anomalies.
    lines: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing was wrong."""
        return not self.anomalies


def run_seed(seed: int, options: SimOptions | None = None) -> SimReport:
    """Run a seed; its report says what was wrong, if anything."""
    return _Run(seed, options or SimOptions()).go()


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


class _Run:
    def __init__(self, seed: int, options: SimOptions) -> None:
        self._seed = seed
        self._options = options
        self._world = World(seed)
        self._cluster = SimCluster(self._world, options.brokers)
        self._observations = Observations()
        self._producers: list[SimProducer] = []
        self._consumers: list[SimConsumer] = []
        self._topic_made = False
        self._plan = make_plan(
            seed,
            self._cluster.names,
            PlanOptions(
                duration_ms=options.duration_ms,
                between_ms=options.between_ms,
                kinds=options.kinds,
                all_one_in=options.all_one_in,
            ),
        )

    def go(self) -> SimReport:
        """Run, and report."""
        try:
            self._drive()
        except SimStuck as stuck:
            self._observations.note_anomaly(f"stuck: {stuck}")
        except Exception as defect:
            self._observations.note_anomaly(f"defect: {type(defect).__name__}: {defect}")
        observations = self._observations
        return SimReport(
            seed=self._seed,
            anomalies=observations.anomalies,
            digest=self._world.loop.history.digest(),
            sent=observations.sent_count,
            acknowledged=len(observations.acknowledged),
            read=observations.read_count,
            faults=len(self._plan),
            simulated_ms=self._world.loop.now_ns // NS_PER_MS,
            lines=self._world.loop.history.lines() if observations.anomalies else [],
        )

    def _drive(self) -> None:
        loop = self._world.loop
        self._cluster.start()
        machine = self._world.add_machine("client")
        env = machine.boot()
        client = KafkaClient(env, self._cluster.addresses, TOPIC)
        self._make_topic(client)
        loop.run_until(lambda: self._topic_made, FORM_MS_MAX)
        self._start_clients(client)
        nemesis = Nemesis(self._world, self._cluster.boot)
        nemesis.commit(self._plan, self._options.duration_ms)
        loop.run_until(lambda: nemesis.ended, self._options.duration_ms + 1_000)
        for producer in self._producers:
            producer.is_stopped = True
        loop.run_until(lambda: all(p.is_idle for p in self._producers), SETTLE_MS_MAX)
        loop.run_until(self._has_read_all, SETTLE_MS_MAX)
        loop.run_until(self._replicas_agree, SETTLE_MS_MAX)
        self._observations.check()

    def _make_topic(self, client: KafkaClient) -> None:
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=TOPIC,
                    num_partitions=PARTITIONS,
                    replication_factor=min(3, self._options.brokers),
                    configs=[CreatableTopicConfig(name="min.insync.replicas", value="1")],
                )
            ],
            timeout_ms=2_000,
        )

        def receive(response: Any) -> None:
            codes = [topic.error_code for topic in response.topics] if response else [-1]
            if codes[0] in (0, 36):
                self._topic_made = True
            else:
                client.later(lambda: self._make_topic(client))

        client.any_link().send(ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION, request, receive)

    def _start_clients(self, client: KafkaClient) -> None:
        for number in range(PRODUCERS):
            own = KafkaClient(client.env, self._cluster.addresses, TOPIC)
            self._producers.append(SimProducer(own, f"p{number}", PARTITIONS, self._observations))
        for partition in range(PARTITIONS):
            own = KafkaClient(client.env, self._cluster.addresses, TOPIC)
            self._consumers.append(SimConsumer(own, f"c{partition}", partition, self._observations))

    def _has_read_all(self) -> bool:
        ends = [0] * PARTITIONS
        for (partition, _), offset in self._observations.acknowledged.items():
            ends[partition] = max(ends[partition], offset + 1)
        return all(
            consumer.position >= end and consumer.position >= consumer.high_watermark
            for consumer, end in zip(self._consumers, ends, strict=True)
        )

    def _replicas_agree(self) -> bool:
        for partition in range(PARTITIONS):
            held = self._cluster.replica_bytes(TOPIC, partition)
            if len(held) < min(3, self._options.brokers) or len(set(held.values())) != 1:
                return False
        return True
