"""What consumers ask a partition's leader: what comes at an offset, and where the log begins."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
)
from kafkaesque.protocols.kafka.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafkaesque.sim.clients.kafka_client import BrokerLink, KafkaClient

FETCH_VERSION: Final = 13
LIST_OFFSETS_VERSION: Final = 6
#: In place of a time: the log's start.
EARLIEST: Final = -2
READ_COMMITTED: Final = 1


class FetchOptions(NamedTuple):
    """How much is asked for, and of what."""

    #: Of the partition at most; how much less is drawn.
    partition_bytes_max: int = 4_000
    bytes_max: int = 100_000
    #: None: as the client rests or not.
    wait_ms: int | None = None
    isolation_level: int = 0


USUAL: Final = FetchOptions()


def fetch(
    client: KafkaClient,
    link: BrokerLink,
    partition: int,
    offset: int,
    on_fetched: Callable[[Any], None],
    options: FetchOptions = USUAL,
    last_epoch: int = -1,
) -> None:
    """Ask once; what is answered of the partition, or None, goes to `on_fetched`.

    `last_epoch` is that of the last record before the offset, if the leader is to compare it.
    """
    asked = FetchPartition(
        partition=partition,
        current_leader_epoch=client.leader_epoch(partition),
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        partition_max_bytes=1 + client.env.dice.below(options.partition_bytes_max),
    )
    request = FetchRequest(
        max_wait_ms=client.fetch_wait_ms if options.wait_ms is None else options.wait_ms,
        min_bytes=1,
        max_bytes=options.bytes_max,
        isolation_level=options.isolation_level,
        session_id=0,
        session_epoch=-1,
        topics=[FetchTopic(topic_id=client.topic_id, partitions=[asked])],
    )

    def receive(response: Any) -> None:
        is_answered = response is not None and response.responses
        on_fetched(response.responses[0].partitions[0] if is_answered else None)

    link.send(ApiKey.FETCH, FETCH_VERSION, request, receive)


def find_start(
    client: KafkaClient, link: BrokerLink, partition: int, on_start: Callable[[int | None], None]
) -> None:
    """Ask once where the log begins; None is answered if nobody says."""
    asked = ListOffsetsPartition(
        partition_index=partition,
        current_leader_epoch=client.leader_epoch(partition),
        timestamp=EARLIEST,
    )
    topic = ListOffsetsTopic(name=client.topic, partitions=[asked])
    request = ListOffsetsRequest(replica_id=-1, topics=[topic])

    def receive(response: Any) -> None:
        found = None if response is None else response.topics[0].partitions[0]
        on_start(None if found is None or found.error_code else found.offset)

    link.send(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, request, receive)
