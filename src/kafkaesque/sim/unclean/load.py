"""The topic with everybody who uses it, and what must hold of it in the end."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kafkaesque.broker.metadata.cluster_state import PartitionState
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.env import Env
from kafkaesque.sim.agreement import read_committed
from kafkaesque.sim.clients.administrator import RecordDeleter
from kafkaesque.sim.clients.consumer import SimConsumer
from kafkaesque.sim.clients.findings import Findings
from kafkaesque.sim.clients.kafka_client import KafkaClient
from kafkaesque.sim.clients.observations import Observations
from kafkaesque.sim.clients.topic_load import TopicLoad, TopicSpec
from kafkaesque.sim.cluster import SimCluster
from kafkaesque.sim.options import SimOptions, name_brokers
from kafkaesque.sim.unclean.eras import Eras
from kafkaesque.sim.unclean.history import UncleanHistory
from kafkaesque.sim.unclean.producer import UncleanProducer
from kafkaesque.sim.unclean.reader import UncleanReader

TOPIC: Final = "unclean"
PARTITIONS: Final = 2
PRODUCERS: Final = 2
#: From one deletion to the next, about.
DELETE_MS: Final = 150
#: What retention leaves of a partition, in seeds in which it deletes.
RETENTION_BYTES: Final = 8_000


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanSpec:
    """What a seed draws of it."""

    #: Names of the machines that hold each partition.
    replicas: tuple[tuple[str, ...], ...]
    in_flight: int
    min_insync: int
    #: Whether records are deleted by request, and because there are too many.
    deletes: bool
    expires: bool


def place(
    names: Sequence[str], controllers: int, damaged: str | None
) -> tuple[tuple[str, ...], ...]:
    """Return who holds each partition: three that keep their disks, and few of the controllers.

    The last copy of a partition may be the one from which others are being copied; if it is lost,
    so is the partition. And controllers must be left to decide.
    """
    lasting = [name for name in names if name != damaged]
    others = [name for name in lasting if name not in names[:controllers]]
    order = others + [name for name in lasting if name not in others]
    last = len(order) - 1
    return tuple((*order[:2], order[min(2 + index, last)]) for index in range(PARTITIONS))


def draw_spec(seed: int, options: SimOptions) -> UncleanSpec:
    """Return what a seed makes of it: records are deleted in one way, in the other, or in none."""
    chance = random.Random(f"{seed}/unclean topic")
    names = name_brokers(options.brokers)
    deletes = chance.randrange(3) != 0
    return UncleanSpec(
        replicas=place(names, options.controllers, options.damaged),
        in_flight=options.in_flight,
        min_insync=1,
        deletes=deletes,
        expires=chance.randrange(3) == 0,
    )


class _Deletions:
    """What a deleter sees of the topic: see `RecordDeleter`."""

    def __init__(self, load: "UncleanLoad", client: KafkaClient) -> None:
        self.spec: Final = load.spec
        self.consumers: Final = load.readers
        self.observations: Final = self
        self._history: Final = load.history
        self._client: Final = client
        self._era = 0

    def note_deletion_asked(self, partition: int, offset: int) -> None:
        """Remember whom it is asked of."""
        link = self._client.leader_link(partition)
        host = "" if link is None else link.address.host
        self._era = self._history.era_at(host, partition)
        self._history.note_asked(partition, offset, host)

    def note_deletion_answered(self, partition: int) -> None:
        """It is done, or refused."""
        self._history.note_answered(partition)

    def note_deleted(self, partition: int, start: int) -> None:
        """It is answered."""
        self._history.note_deleted(partition, self._era, start)


class UncleanLoad:
    """Producers, readers that follow, one who deletes; in the end readers of all that is there."""

    def __init__(
        self,
        env: Env,
        cluster: SimCluster,
        findings: Findings,
        eras: Eras,
        spec: UncleanSpec,
    ) -> None:
        self.history: Final = UncleanHistory(findings, eras, cluster.world.loop, TOPIC)
        self.readers: Final[list[UncleanReader]] = []
        self._env: Final = env
        self._cluster: Final = cluster
        self._drawn: Final = spec
        self._producers: Final[list[UncleanProducer]] = []
        self._deleter: RecordDeleter | None = None
        self._present: Observations | None = None
        self._final: Final[list[SimConsumer]] = []
        #: The greatest start that was found to be right, by partition and era.
        self._right: Final[dict[tuple[int, int], int]] = {}
        configs = {
            "unclean.leader.election.enable": "true",
            "min.insync.replicas": str(spec.min_insync),
        }
        if spec.expires:
            configs["retention.bytes"] = str(RETENTION_BYTES)
        numbers = dict(zip(cluster.names, cluster.options.broker_ids, strict=True))
        self.spec: Final = TopicSpec(
            name=TOPIC,
            partitions=PARTITIONS,
            assignments=tuple(tuple(numbers[name] for name in each) for each in spec.replicas),
            configs=configs,
        )
        self._topic: Final = TopicLoad(env, cluster.addresses, self.spec, findings)

    def _client(self) -> KafkaClient:
        return KafkaClient(self._env, self._cluster.addresses, TOPIC)

    @property
    def is_made(self) -> bool:
        """Whether there is the topic."""
        return self._topic.is_made

    def start(self) -> None:
        """Let the clients begin."""
        history = self.history
        history.groups = [state.group for state in self._states()]
        for partition in range(PARTITIONS):
            for number in range(PRODUCERS):
                self._producers.append(
                    UncleanProducer(
                        self._client(),
                        f"{TOPIC}.p{number}.{partition}",
                        partition,
                        PARTITIONS,
                        history,
                        self._drawn.in_flight,
                    )
                )
            says_epochs = self._env.dice.below(2) == 0
            name = f"{TOPIC}.c{partition}"
            self.readers.append(
                UncleanReader(self._client(), name, partition, history, says_epochs=says_epochs)
            )
        if self._drawn.deletes:
            client = self._client()
            self._deleter = RecordDeleter(client, _Deletions(self, client), DELETE_MS)

    def counts(self) -> dict[str, int]:
        """Return what went on, by name."""
        counts = {
            "unclean elections": self.history.eras.count,
            "resets": sum(reader.count for reader in self.readers),
        }
        if self._present is not None:
            counts["given up"] = self.history.count_given_up(self._present)
        if self._deleter is not None:
            counts["deletions there"] = self._deleter.count
        return counts

    # -- while it goes on

    def look(self) -> None:
        """See that no log begins later than it may."""
        self.history.look()
        if self._drawn.expires or not self.history.groups:
            return
        for name, broker in self._cluster.trusted():
            for index, group in enumerate(self.history.groups):
                partition = broker.partitions.get(group)
                if partition is None or partition.replica is None:
                    continue
                era = self.history.eras.era_of(broker, partition.replica)
                if era is not None:
                    self._check_start(name, index, era, partition.log.start_offset)

    def _check_start(self, name: str, index: int, era: int, start: int) -> None:
        if start <= self._right.get((index, era), 0):
            return
        start_max = self.history.start_max(index, era)
        if start > start_max:
            self.history.note_anomaly(
                f"overdeleted: partition {index} begins at {start} on {name} in era {era}; nobody "
                f"asked for more than {start_max} of that"
            )
        # Said once.
        self._right[index, era] = start

    # -- coming to an end

    def stop_producing(self) -> None:
        """Send and delete nothing new."""
        for producer in self._producers:
            producer.is_stopped = True
        if self._deleter is not None:
            self._deleter.is_stopped = True

    @property
    def is_acknowledged(self) -> bool:
        """Whether all that was sent is acknowledged, or given up."""
        return all(producer.is_idle for producer in self._producers)

    def conclude(self) -> None:
        """All is healed, and the replicas agree: read all that there is."""
        starts = {index: each.log.start_offset for index, each in self._leaders().items()}
        present = self.history.make_present(starts, expires=self._drawn.expires)
        self._present = present
        for partition in range(PARTITIONS):
            name = f"{TOPIC}.all{partition}"
            self._final.append(SimConsumer(self._client(), name, partition, present))

    @property
    def is_read(self) -> bool:
        """Whether everybody has come to the end."""
        present = self._present
        return present is not None and all(
            reader.high_watermark == last.high_watermark
            and 0 <= last.high_watermark <= min(reader.position, last.position)
            and last.position >= present.acknowledged_end(partition)
            for partition, (reader, last) in enumerate(zip(self.readers, self._final, strict=True))
        )

    def describe(self) -> str:
        """Say who is where."""
        where = [(each.position, each.high_watermark) for each in self.readers]
        where += [(each.position, each.high_watermark) for each in self._final]
        return f"{TOPIC}: {where}"

    def check(self) -> None:
        """Compare, once everything has been read to the end."""
        self.history.check_founders()
        present = self._present
        if present is None:
            return
        for index, partition in self._leaders().items():
            present.check_start(index, partition.log.start_offset)
            if self._drawn.expires:
                self._check_retained(index, partition)
        present.check()
        self.history.check_seen(present)
        for index, reader in enumerate(self.readers):
            if reader.says_epochs:
                self._check_held(index, reader, present.seen[index])

    def _check_retained(self, index: int, partition: Partition) -> None:
        """Retention leaves so much, and what was deleted before is not to be deleted anew."""
        start, group = partition.log.start_offset, partition.state.group
        latest = self.history.eras.latest(group)
        start_max = max(self.history.start_max(index, latest), self.history.end_inherited(index))
        left = len(read_committed(partition))
        if start > start_max and left < RETENTION_BYTES:
            self.history.note_anomaly(
                f"overdeleted: partition {index} begins at {start} and has {left} bytes; "
                f"nobody asked for more than {start_max}, and retention keeps {RETENTION_BYTES}"
            )

    def _check_held(self, index: int, reader: UncleanReader, seen: dict[int, bytes]) -> None:
        """Who follows epochs has what the log has, from where it began."""
        for offset, (_, value) in reader.held.items():
            found = seen.get(offset, value)
            if found != value:
                self.history.note_anomaly(
                    f"inconsistent offsets: {value!r} is what a consumer has at {index}@{offset} "
                    f"that says epochs, and {found!r} is there"
                )
                return

    # -- inside

    def _states(self) -> list[PartitionState]:
        return next(
            broker.state.topics[TOPIC].partitions
            for _, broker in self._cluster.trusted()
            if TOPIC in broker.state.topics
        )

    def _leaders(self) -> dict[int, Partition]:
        found = {}
        for _, broker in self._cluster.trusted():
            for index, group in enumerate(self.history.groups):
                partition = broker.partitions.get(group)
                if partition is not None and partition.is_leader:
                    found[index] = partition
        return found
