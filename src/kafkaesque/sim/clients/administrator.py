"""An administrator: lets preferred leaders lead, deletes records."""

from collections.abc import Sequence
from typing import Any, Final, Protocol

from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kafkaesque.protocols.kafka.messages.elect_leaders_request import ElectLeadersRequest
from kafkaesque.sim.clients.kafka_client import KafkaClient
from kafkaesque.sim.clients.topic_load import TopicSpec

ELECT_LEADERS_VERSION: Final = 2
DELETE_RECORDS_VERSION: Final = 2
#: From one election to the next, about; and from one deletion to the next.
ELECT_MS: Final = 1_200
DELETE_MS: Final = 600
TIMEOUT_MS: Final = 2_000


class LeaderElector:
    """Asks for preferred leaders everywhere, again and again."""

    def __init__(self, client: KafkaClient) -> None:
        self._client: Final = client
        #: Elections that have brought another leader.
        self.count = 0
        self.is_stopped = False
        self._elect_later()

    def _elect_later(self) -> None:
        self._client.rest(self._elect, ELECT_MS)

    def _elect(self) -> None:
        if self.is_stopped:
            return
        request = ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=TIMEOUT_MS)
        link = self._client.any_link()
        link.send(ApiKey.ELECT_LEADERS, ELECT_LEADERS_VERSION, request, self._on_elected)

    def _on_elected(self, response: Any) -> None:
        if response is not None:
            self.count += sum(
                result.error_code == ErrorCode.NONE
                for topic in response.replica_election_results
                for result in topic.partition_result
            )
        self._elect_later()


class Reader(Protocol):
    """Somebody who reads a partition."""

    @property
    def position(self) -> int:
        """What it reads next."""


class Deletions(Protocol):
    """Is told of deletions."""

    def note_deletion_asked(self, partition: int, offset: int) -> None:
        """Somebody asks that the log begin at an offset."""

    def note_deletion_answered(self, partition: int) -> None:
        """It is done, or refused, and nothing more comes of it."""

    def note_deleted(self, partition: int, start: int) -> None:
        """The answer says where the log begins now."""


class Deletable(Protocol):
    """A topic whose records are deleted."""

    @property
    def spec(self) -> TopicSpec:
        """What it is like."""

    @property
    def consumers(self) -> Sequence[Reader]:
        """Who reads its partitions, in their order."""

    @property
    def observations(self) -> Deletions:
        """Who is told."""


class RecordDeleter:
    """Deletes what a topic's consumers have read, some of it."""

    def __init__(self, client: KafkaClient, load: Deletable, every_ms: int = DELETE_MS) -> None:
        self._every_ms: Final = every_ms
        self._client: Final = client
        self._load: Final = load
        #: Deletions that were acknowledged.
        self.count = 0
        self.is_stopped = False
        self._delete_later()

    def _delete_later(self) -> None:
        self._client.rest(self._delete, self._every_ms)

    def _delete(self) -> None:
        if self.is_stopped:
            return
        client = self._client
        partition = client.env.dice.below(self._load.spec.partitions)
        link = client.leader_link(partition)
        if link is None:
            client.refresh()
            client.later(self._delete)
            return
        read = self._load.consumers[partition].position
        offset = read - client.env.dice.below(1 + read // 2)
        self._load.observations.note_deletion_asked(partition, offset)
        wanted = DeleteRecordsPartition(partition_index=partition, offset=offset)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=client.topic, partitions=[wanted])],
            timeout_ms=TIMEOUT_MS,
        )

        def receive(response: Any) -> None:
            result = None if response is None else response.topics[0].partitions[0]
            if result is not None:
                self._load.observations.note_deletion_answered(partition)
            if result is None or result.error_code:
                client.refresh()
            else:
                self.count += 1
                self._load.observations.note_deleted(partition, result.low_watermark)
            self._delete_later()

        link.send(ApiKey.DELETE_RECORDS, DELETE_RECORDS_VERSION, request, receive)
