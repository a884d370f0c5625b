"""Reads what a group has committed: only what no open transaction may change (KIP-447)."""

from collections.abc import Callable, Collection
from typing import Any, Final

from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kafkaesque.sim.clients.coordinator_link import LOST, CoordinatorLink, KeyType
from kafkaesque.sim.clients.kafka_client import KafkaClient
from kafkaesque.sim.pipeline.history import PipelineHistory
from kafkaesque.sim.pipeline.ownership import Ownership

#: The first that says as which member it asks.
OFFSET_FETCH_VERSION: Final = 9
NOT_COMMITTED: Final = -1

#: Gets the next offset of each partition, or None: ask again later.
OnOffsets = Callable[[dict[int, int] | None], None]


class CommittedOffsets:
    """One group's offsets of one topic."""

    def __init__(self, client: KafkaClient, group_id: str, history: PipelineHistory) -> None:
        self._client: Final = client
        self._group_id: Final = group_id
        self._history: Final = history
        self._coordinator: Final = CoordinatorLink(client, group_id, KeyType.GROUP)

    def fetch(
        self, partitions: Collection[int], member: Ownership | None, on_offsets: OnOffsets
    ) -> None:
        """Ask once, as this member of a group whose partitions the broker assigns, or as nobody."""
        topic = OffsetFetchRequestTopics(
            name=self._client.topic, partition_indexes=sorted(partitions)
        )
        group = OffsetFetchRequestGroup(group_id=self._group_id, topics=[topic])
        if member is not None:
            group.member_id, group.member_epoch = member.member_id, member.generation
        request = OffsetFetchRequest(groups=[group], require_stable=True)

        def receive(response: Any) -> None:
            on_offsets(None if response is None else self._read(response.groups[0]))

        self._coordinator.ask(ApiKey.OFFSET_FETCH, OFFSET_FETCH_VERSION, request, receive)

    def _read(self, group: Any) -> dict[int, int] | None:
        if group.error_code:
            if group.error_code in LOST:
                self._coordinator.forget()
            return None
        found: dict[int, int] = {}
        for each in group.topics[0].partitions:
            if each.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
                return None
            if each.error_code:
                self._history.note_anomaly(
                    f"the committed offset of partition {each.partition_index} is refused with "
                    f"{ErrorCode(each.error_code).name}"
                )
                return None
            found[each.partition_index] = max(0, each.committed_offset)
            if each.committed_offset != NOT_COMMITTED:
                self._history.note_committed(
                    each.partition_index, each.committed_offset, each.metadata
                )
        return found
