"""A group that commits offsets and reads them back: a committed offset never goes back.

It is a group without members, as of consumers that assign partitions themselves. Each commit sets
all partitions to the next number. A commit whose answer did not come is repeated; its first request
may still be on its way and take effect at any later time, so its number is tolerated from then on,
until `conclude` has waited for everything to be over.
"""

from collections.abc import Callable
from typing import Any, Final

from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkaesque.protocols.kafka.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from kafkaesque.sim.clients.coordinator_link import CoordinatorLink, KeyType
from kafkaesque.sim.clients.findings import Findings
from kafkaesque.sim.clients.kafka_client import BrokerLink, KafkaClient

OFFSET_COMMIT_VERSION: Final = 8
OFFSET_FETCH_VERSION: Final = 7
PAUSE_MS: Final = 100
#: One step in so many reads.
READ_ONE_IN: Final = 3
#: Longer than any request stays on its way in a network without faults.
CONCLUDE_MS: Final = 4_000

#: What a group without members is never told.
_NEVER = (
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.INVALID_GROUP_ID,
)


class SimCommitter:
    """One group."""

    def __init__(
        self, client: KafkaClient, group_id: str, partitions: int, findings: Findings
    ) -> None:
        self._client: Final = client
        self._group_id: Final = group_id
        self._partitions: Final = range(partitions)
        self._findings: Final = findings
        self._coordinator: Final = CoordinatorLink(client, group_id, KeyType.GROUP, is_patient=True)
        self._number = 0
        self._acknowledged = -1
        #: Numbers of requests that nobody answered.
        self._stray: set[int] = set()
        self._is_concluding = False
        #: Whether the last word is said: what was committed last is there.
        self.is_concluded = False
        client.env.clock.call_soon(self._step)

    @property
    def count(self) -> int:
        """How many commits were acknowledged."""
        return self._acknowledged + 1

    def conclude(self) -> None:
        """Nothing goes wrong any more: wait, then commit and read one last time."""

        def begin() -> None:
            self._is_concluding = True
            self._stray.clear()

        self._client.env.clock.call_later(CONCLUDE_MS, begin)

    # -- the way to the coordinator

    def _step(self) -> None:
        self._coordinator.reach(self._go_on)

    def _go_on(self, link: BrokerLink | None) -> None:
        if link is None:
            return
        is_final = self._is_concluding and self._acknowledged >= 0 and not self._stray
        if is_final or self._client.env.dice.below(READ_ONE_IN) == 0:
            self._read(link, is_final=is_final)
        else:
            self._commit(link)

    def _on_error(self, code: int | None) -> None:
        if code is not None and code in _NEVER:
            self._findings.note(f"group {self._group_id}: refused with {ErrorCode(code).name}")
        self._coordinator.forget()
        self._client.later(self._step, PAUSE_MS)

    # -- committing

    def _commit(self, link: BrokerLink) -> None:
        number = self._number
        partitions = [
            OffsetCommitRequestPartition(partition_index=each, committed_offset=number)
            for each in self._partitions
        ]
        request = OffsetCommitRequest(
            group_id=self._group_id,
            topics=[OffsetCommitRequestTopic(name=self._client.topic, partitions=partitions)],
        )
        link.send(ApiKey.OFFSET_COMMIT, OFFSET_COMMIT_VERSION, request, self._on_committed(number))

    def _on_committed(self, number: int) -> Callable[[Any], None]:
        def receive(response: Any) -> None:
            if response is None:
                self._note_stray(number)
                self._on_error(None)
                return
            codes = [each.error_code for each in response.topics[0].partitions]
            if any(codes):
                # Some errors leave open whether it was done.
                self._note_stray(number)
                self._on_error(next(code for code in codes if code))
                return
            self._acknowledged = number
            self._number = number + 1
            self._client.rest(self._step, PAUSE_MS)

        return receive

    def _note_stray(self, number: int) -> None:
        self._stray.add(number)
        if self._is_concluding:
            # It was sent to a broker that is gone for good: wait once more.
            self._is_concluding = False
            self.conclude()

    # -- reading

    def _read(self, link: BrokerLink, *, is_final: bool) -> None:
        topic = OffsetFetchRequestTopic(
            name=self._client.topic, partition_indexes=list(self._partitions)
        )
        request = OffsetFetchRequest(group_id=self._group_id, topics=[topic])
        wanted = self._acknowledged

        def receive(response: Any) -> None:
            if response is None or response.error_code:
                self._on_error(None if response is None else response.error_code)
                return
            for partition in response.topics[0].partitions:
                if partition.error_code:
                    self._on_error(partition.error_code)
                    return
                self._judge(partition.partition_index, partition.committed_offset, wanted)
            self.is_concluded = self.is_concluded or is_final
            self._client.rest(self._step, PAUSE_MS)

        link.send(ApiKey.OFFSET_FETCH, OFFSET_FETCH_VERSION, request, receive)

    def _judge(self, partition: int, found: int, wanted: int) -> None:
        if found > self._number:
            self._findings.note(
                f"group {self._group_id}: partition {partition} has {found} committed, and nobody "
                f"has committed more than {self._number}"
            )
        elif found < wanted and found not in self._stray:
            self._findings.note(
                f"lost commit: group {self._group_id}, partition {partition} has {found} committed "
                f"after {wanted} was acknowledged"
            )
