"""One topic with everybody who uses it: it is made, written, read, and maybe deleted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kafkaesque.env import Env
from kafkaesque.env.network import Address
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kafkaesque.protocols.kafka.messages.delete_topics_request import (
    DeleteTopicsRequest,
    DeleteTopicState,
)
from kafkaesque.sim.clients.consumer import SimConsumer
from kafkaesque.sim.clients.findings import Findings
from kafkaesque.sim.clients.kafka_client import KafkaClient
from kafkaesque.sim.clients.observations import Observations
from kafkaesque.sim.clients.producer import PAUSE_MS, SimProducer

CREATE_TOPICS_VERSION: Final = 5
DELETE_TOPICS_VERSION: Final = 6
ADMIN_TIMEOUT_MS: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """What a topic is like."""

    name: str
    partitions: int = 1
    replicas: int = 3
    #: Brokers of each partition; without, they are placed by the controller.
    assignments: tuple[tuple[int, ...], ...] = ()
    producers: int = 2
    #: About how long a producer waits between two batches for one partition.
    pause_ms: int = PAUSE_MS
    #: Batches that a producer has under way for one partition, at most.
    in_flight: int = 1
    configs: Mapping[str, str] = field(default_factory=dict)
    #: Bytes that each record has beside its value.
    padding_bytes: int = 0
    #: Its options delete records.
    expires: bool = False
    #: Of its records the last of each key stay.
    compacts: bool = False
    #: The name is used again after the topic was deleted.
    is_passing: bool = False

    @property
    def kept_bytes(self) -> int:
        """How much retention leaves at least; 0 where that depends on clocks, or on keys."""
        if self.compacts or "retention.ms" in self.configs:
            return 0
        return int(self.configs.get("retention.bytes", 0))


class TopicLoad:
    """Producers, and a consumer for each partition."""

    def __init__(
        self,
        env: Env,
        bootstrap: Sequence[Address],
        spec: TopicSpec,
        findings: Findings,
        distrusted: str | None = None,
        ignored_ids: Sequence[bytes] = (),
        label: str = "",
        observations: Observations | None = None,
    ) -> None:
        """`label` tells producers of namesakes apart; `observations` may know more than usual."""
        self.spec: Final = spec
        self.observations: Final = observations or Observations(
            findings, spec.name, expires=spec.expires, compacts=spec.compacts
        )
        self.producers: list[SimProducer] = []
        self.consumers: list[SimConsumer] = []
        self.is_made = False
        self.is_deleted = False
        self._env: Final = env
        self._bootstrap: Final = bootstrap
        self._distrusted: Final = distrusted
        self._ignored_ids: Final = ignored_ids
        self._label: Final = label
        self._admin: Final = self._client()
        self.make()

    def _client(self) -> KafkaClient:
        return KafkaClient(self._env, self._bootstrap, self.spec.name, self._ignored_ids)

    @property
    def topic_id(self) -> bytes:
        """The topic's id, as far as a consumer has learnt it."""
        return self.consumers[0].topic_id if self.consumers else bytes(16)

    # -- making it

    def make(self) -> None:
        """Ask for it; harmless if it is there."""
        spec = self.spec
        topic = CreatableTopic(
            name=spec.name,
            num_partitions=-1 if spec.assignments else spec.partitions,
            replication_factor=-1 if spec.assignments else spec.replicas,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=list(nodes))
                for index, nodes in enumerate(spec.assignments)
            ],
            configs=[CreatableTopicConfig(name=n, value=v) for n, v in spec.configs.items()],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=ADMIN_TIMEOUT_MS)

        def receive(response: Any) -> None:
            code = response.topics[0].error_code if response is not None else None
            if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                self.is_made = True
            else:
                self._admin.later(self.make)

        link = self._admin.any_link()
        link.send(ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION, request, receive)

    def start(self) -> None:
        """Let the clients begin."""
        spec = self.spec
        for number in range(spec.producers):
            name = f"{spec.name}{self._label}.p{number}"
            producer = SimProducer(
                self._client(),
                name,
                spec.partitions,
                self.observations,
                spec.pause_ms,
                spec.in_flight,
                spec.padding_bytes,
            )
            if spec.is_passing:
                producer.use_ids()
            self.producers.append(producer)
        for partition in range(spec.partitions):
            name = f"{spec.name}{self._label}.c{partition}"
            self.consumers.append(
                SimConsumer(self._client(), name, partition, self.observations, self._distrusted)
            )

    # -- coming to an end

    def stop_producing(self) -> None:
        """Send nothing new; what was sent is repeated until it is acknowledged."""
        for producer in self.producers:
            producer.is_stopped = True

    @property
    def is_acknowledged(self) -> bool:
        """Whether all that was sent is acknowledged."""
        return all(producer.is_idle for producer in self.producers)

    @property
    def is_read(self) -> bool:
        """Whether all that was acknowledged is read, and all that the brokers say there is."""
        observations = self.observations
        return all(
            consumer.position >= consumer.high_watermark
            and consumer.position >= observations.acknowledged_end(partition)
            for partition, consumer in enumerate(self.consumers)
        )

    def stop(self) -> None:
        """Stop reading, too."""
        for consumer in self.consumers:
            consumer.is_stopped = True

    def delete(self) -> None:
        """Delete the topic, by its id."""
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=None, topic_id=self.topic_id)],
            timeout_ms=ADMIN_TIMEOUT_MS,
        )

        def receive(response: Any) -> None:
            code = response.responses[0].error_code if response is not None else None
            if code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID):
                self.is_deleted = True
            else:
                self._admin.later(self.delete)

        link = self._admin.any_link()
        link.send(ApiKey.DELETE_TOPICS, DELETE_TOPICS_VERSION, request, receive)
