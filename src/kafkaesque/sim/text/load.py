"""A topic that is written and read by lines, while Kafka's clients write and read it, too."""

from collections.abc import Mapping
from typing import Final

from kafkaesque.env import Env
from kafkaesque.env.network import Address
from kafkaesque.sim.clients.kafka_client import KafkaClient
from kafkaesque.sim.clients.topic_load import TopicLoad
from kafkaesque.sim.cluster import TEXT_PORT, SimCluster
from kafkaesque.sim.text.client import TextClient
from kafkaesque.sim.text.group_reader import GroupReader
from kafkaesque.sim.text.observations import TextObservations
from kafkaesque.sim.text.publisher import TextPublisher
from kafkaesque.sim.text.reader import TextReader
from kafkaesque.sim.text.visitor import AdminVisitor

TOPIC: Final = "lines"
PARTITIONS: Final = 3
PUBLISHERS: Final = 2


class TextLoad:
    """People with telnet, and somebody who watches the brokers."""

    def __init__(
        self,
        env: Env,
        cluster: SimCluster,
        topic: TopicLoad,
        observations: TextObservations,
        distrusted: str | None,
    ) -> None:
        """`topic` is made, and written and read by Kafka's clients, and has these observations.

        `distrusted` is a machine whose disk may give it anything.
        """
        self._env: Final = env
        self._cluster: Final = cluster
        self._topic: Final = topic
        self._observations: Final = observations
        self._is_wary: Final = distrusted is not None
        self._publishers: list[TextPublisher] = []
        self._reader: TextReader | None = None
        self._group: GroupReader | None = None
        self._visitor: AdminVisitor | None = None

    def start(self) -> None:
        """Let everybody begin."""
        observations = self._observations
        for number in range(PUBLISHERS):
            name = f"{TOPIC}.t{number}"
            self._publishers.append(TextPublisher(self._client(), name, observations))
        self._reader = TextReader(
            self._client(), f"{TOPIC}.reader", observations, is_wary=self._is_wary
        )
        kafka = KafkaClient(self._env, self._cluster.addresses, TOPIC)
        self._group = GroupReader(
            self._client(), kafka, f"{TOPIC}.group", observations, is_wary=self._is_wary
        )
        self._visitor = AdminVisitor(self._env, self._cluster, observations.findings)

    def _client(self) -> TextClient:
        addresses = [Address(name, TEXT_PORT) for name in self._cluster.names]
        return TextClient(self._env, addresses, TOPIC, self._observations.note_anomaly)

    def counts(self) -> dict[str, int]:
        """Return what went on, by name."""
        observations = self._observations
        return {
            "lines refused": observations.refused_count,
            "lines in doubt": observations.doubtful_count,
            "groups of lines": 0 if self._group is None else self._group.groups,
            "admin pages": 0 if self._visitor is None else self._visitor.count,
        }

    # -- coming to an end

    def stop_publishing(self) -> None:
        """Publish nothing new."""
        for each in self._publishers:
            each.is_stopped = True

    @property
    def is_answered(self) -> bool:
        """Whether nobody waits for an outcome."""
        return all(each.is_idle for each in self._publishers)

    def conclude(self) -> None:
        """Nothing goes wrong any more, and all is published."""
        if self._group is not None and self._visitor is not None:
            self._group.conclude()
            self._visitor.conclude()

    @property
    def is_read(self) -> bool:
        """Whether everybody has got everything, and every broker is ready."""
        reader, group, visitor = self._reader, self._group, self._visitor
        if reader is None or group is None or visitor is None:
            return False
        has_all = self._has_all(reader.positions) and self._has_all(group.positions)
        return has_all and group.is_agreed and visitor.are_all_ready

    def _has_all(self, positions: Mapping[int, int]) -> bool:
        return all(
            positions[partition] >= consumer.position
            for partition, consumer in enumerate(self._topic.consumers)
        )

    def describe(self) -> str:
        """Say what is waited for."""
        reader, group, visitor = self._reader, self._group, self._visitor
        ends = [each.position for each in self._topic.consumers]
        return (
            f"Kafka's consumers are at {ends}, "
            f"the reader at {None if reader is None else reader.positions}, "
            f"the group at {None if group is None else group.positions} "
            f"(agreed: {group is not None and group.is_agreed}); "
            f"not ready: {'' if visitor is None else visitor.describe()}"
        )
