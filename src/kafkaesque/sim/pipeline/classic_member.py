"""A member of a group of the classic protocol: JoinGroup, SyncGroup, Heartbeat.

It joins as soon as it hears of a rebalance, also with a transaction open: what that transaction
commits for the generation before must be refused, or must be waited for by who comes after it.
"""

from struct import Struct
from typing import Any, Final

from kafkaesque.groups.consumer.classic_protocol import read_assignment, write_assignment
from kafkaesque.model.ids import TopicPartition
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.heartbeat_request import HeartbeatRequest
from kafkaesque.protocols.kafka.messages.join_group_request import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from kafkaesque.protocols.kafka.messages.sync_group_request import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from kafkaesque.sim.clients.coordinator_link import LOST, CoordinatorLink, KeyType
from kafkaesque.sim.clients.kafka_client import KafkaClient
from kafkaesque.sim.pipeline.ownership import (
    HEARTBEAT_INTERVAL_MS,
    NOTHING,
    REBALANCE_TIMEOUT_MS,
    SESSION_TIMEOUT_MS,
    Ownership,
)

JOIN_GROUP_VERSION: Final = 5
SYNC_GROUP_VERSION: Final = 3
HEARTBEAT_VERSION: Final = 3

_PROTOCOL_TYPE: Final = "consumer"
_ASSIGNOR: Final = "range"
#: A subscription of version 0: how many topics, the topic's name; no user data.
_SUBSCRIPTION: Final = Struct(">hih")
_NO_USER_DATA: Final = b"\xff\xff\xff\xff"


class ClassicMember:
    """Joins, assigns partitions where it leads, and joins again whenever it must."""

    def __init__(self, client: KafkaClient, group_id: str, partitions: int) -> None:
        self.ownership = NOTHING
        self._client: Final = client
        self._group_id: Final = group_id
        self._partitions: Final = partitions
        self._coordinator: Final = CoordinatorLink(client, group_id, KeyType.GROUP)
        self._member_id = ""
        self._generation = -1
        client.env.clock.call_soon(self._join)

    # -- joining

    def _join(self) -> None:
        self.ownership = NOTHING
        name = self._client.topic.encode()
        subscription = _SUBSCRIPTION.pack(0, 1, len(name)) + name + _NO_USER_DATA
        request = JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self._member_id,
            protocol_type=_PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(_ASSIGNOR, subscription)],
        )
        self._coordinator.ask(ApiKey.JOIN_GROUP, JOIN_GROUP_VERSION, request, self._on_joined)

    def _on_joined(self, response: Any) -> None:
        code = None if response is None else response.error_code
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = response.member_id
            self._join()
        elif code != ErrorCode.NONE:
            self._join_again(code)
        else:
            self._member_id = response.member_id
            self._generation = response.generation_id
            is_leader = response.leader == response.member_id
            self._sync([each.member_id for each in response.members] if is_leader else [])

    def _sync(self, members: list[str]) -> None:
        topic = self._client.topic
        assignments = [
            SyncGroupRequestAssignment(
                member_id,
                write_assignment(
                    TopicPartition(topic, each)
                    for each in range(self._partitions)
                    # With each generation partitions move: so there is more that can go wrong.
                    if (each + self._generation) % len(members) == place
                ),
            )
            for place, member_id in enumerate(sorted(members))
        ]
        request = SyncGroupRequest(
            group_id=self._group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            assignments=assignments,
        )
        self._coordinator.ask(ApiKey.SYNC_GROUP, SYNC_GROUP_VERSION, request, self._on_synced)

    def _on_synced(self, response: Any) -> None:
        code = None if response is None else response.error_code
        if code != ErrorCode.NONE:
            self._join_again(code)
            return
        assigned = read_assignment(bytes(response.assignment)) or frozenset()
        partitions = frozenset(each.partition for each in assigned)
        self.ownership = Ownership(self._member_id, self._generation, partitions)
        self._client.later(self._beat, HEARTBEAT_INTERVAL_MS)

    def _join_again(self, code: int | None) -> None:
        self.ownership = NOTHING
        self._note(code)
        self._client.later(self._join)

    def _note(self, code: int | None) -> None:
        if code in LOST:
            self._coordinator.forget()
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""

    # -- staying

    def _beat(self) -> None:
        request = HeartbeatRequest(self._group_id, self._generation, self._member_id)
        self._coordinator.ask(ApiKey.HEARTBEAT, HEARTBEAT_VERSION, request, self._on_beaten)

    def _on_beaten(self, response: Any) -> None:
        code = None if response is None else response.error_code
        if code is None or code == ErrorCode.NONE or code in LOST:
            self._note(code)
            self._client.later(self._beat, HEARTBEAT_INTERVAL_MS)
        elif code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._join()
        else:
            self._join_again(code)
