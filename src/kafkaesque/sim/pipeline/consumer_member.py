"""A member of a group whose partitions the broker assigns (KIP-848): one kind of heartbeat.

It gives back what it is told to give back at once, also with a transaction open, as `ClassicMember`
joins at once.
"""

from typing import Any, Final

from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from kafkaesque.sim.clients.coordinator_link import LOST, CoordinatorLink, KeyType
from kafkaesque.sim.clients.kafka_client import KafkaClient
from kafkaesque.sim.pipeline.ownership import (
    HEARTBEAT_INTERVAL_MS,
    NOTHING,
    REBALANCE_TIMEOUT_MS,
    Ownership,
)

HEARTBEAT_VERSION: Final = 1

_FENCED: Final = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)
_JOINING: Final = 0


class ConsumerMember:
    """Says what it owns, and takes and gives back what it is told to."""

    def __init__(self, client: KafkaClient, group_id: str) -> None:
        self.ownership = NOTHING
        self._client: Final = client
        self._group_id: Final = group_id
        self._coordinator: Final = CoordinatorLink(client, group_id, KeyType.GROUP)
        self._member_id = client.env.dice.unique_bytes(16).hex()
        self._epoch = _JOINING
        client.env.clock.call_soon(self._beat)

    def _beat(self) -> None:
        client = self._client
        if not any(client.topic_id):
            client.refresh()
            client.later(self._beat)
            return
        owned = sorted(self.ownership.partitions)
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            member_epoch=self._epoch,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            subscribed_topic_names=[client.topic],
            # It moves more partitions than the other one.
            server_assignor="range",
            topic_partitions=[TopicPartitions(client.topic_id, owned)] if owned else [],
        )
        api = ApiKey.CONSUMER_GROUP_HEARTBEAT
        self._coordinator.ask(api, HEARTBEAT_VERSION, request, self._on_beaten)

    def _on_beaten(self, response: Any) -> None:
        code = None if response is None else response.error_code
        if code == ErrorCode.NONE:
            self._take(response)
            return
        if code in LOST:
            self._coordinator.forget()
        elif code in _FENCED:
            self.ownership = NOTHING
            self._epoch = _JOINING
        self._client.later(self._beat)

    def _take(self, response: Any) -> None:
        partitions = self.ownership.partitions
        if response.assignment is not None:
            partitions = frozenset(
                each for topic in response.assignment.topic_partitions for each in topic.partitions
            )
        has_changed = partitions != self.ownership.partitions
        self._epoch = response.member_epoch
        self.ownership = Ownership(self._member_id, self._epoch, partitions)
        if has_changed:
            # Who waits for what was given back need not wait longer.
            self._client.env.clock.call_soon(self._beat)
        else:
            self._client.later(self._beat, HEARTBEAT_INTERVAL_MS)
