"""An administrator who moves replicas about, again and again, and often changes his mind."""

from collections.abc import Sequence
from typing import Any, Final

from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kafkaesque.sim.clients.kafka_client import KafkaClient

VERSION: Final = 0
TIMEOUT_MS: Final = 2_000
#: From one request to the next, about.
MOVE_MS: Final = 700
#: One request in so many stops the move that is under way, if there is one.
STOP_ONE_IN: Final = 6


class ReplicaShuffler:
    """Asks for other replicas of some partition."""

    def __init__(
        self,
        client: KafkaClient,
        topics: Sequence[tuple[str, int]],
        *,
        brokers: Sequence[int],
        fewest: int,
    ) -> None:
        """`topics` are names and partition counts, `brokers` those that replicas are moved to.

        No partition gets fewer replicas than `fewest`.
        """
        self._client: Final = client
        self._topics: Final = topics
        self._brokers: Final = tuple(brokers)
        self._fewest: Final = fewest
        #: Requests that were taken.
        self.count = 0
        self.is_stopped = False
        self._move_later()

    def _move_later(self) -> None:
        self._client.rest(self._move, MOVE_MS)

    def _move(self) -> None:
        if self.is_stopped:
            return
        below = self._client.env.dice.below
        name, partitions = self._topics[below(len(self._topics))]
        wanted = ReassignablePartition(below(partitions), self._draw())
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=TIMEOUT_MS, topics=[ReassignableTopic(name, [wanted])]
        )
        link = self._client.any_link()
        link.send(ApiKey.ALTER_PARTITION_REASSIGNMENTS, VERSION, request, self._on_answer)

    def _draw(self) -> list[int] | None:
        below = self._client.env.dice.below
        if below(STOP_ONE_IN) == 0:
            return None
        left = list(self._brokers)
        count = self._fewest + below(len(left) - self._fewest + 1)
        return [left.pop(below(len(left))) for _ in range(count)]

    def _on_answer(self, response: Any) -> None:
        if response is not None and not response.error_code:
            self.count += sum(
                not partition.error_code
                for topic in response.responses
                for partition in topic.partitions
            )
        self._move_later()
