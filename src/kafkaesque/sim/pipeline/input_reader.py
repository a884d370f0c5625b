"""Reads what comes next in some partitions, once."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from kafkaesque.model.batch import scan_batches
from kafkaesque.model.records import decode_batch
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
)
from kafkaesque.sim.clients.kafka_client import KafkaClient

FETCH_VERSION: Final = 13
READ_COMMITTED: Final = 1
BATCH_BYTES_MAX: Final = 16 * 1024 * 1024
MAX_WAIT_MS: Final = 30
FETCH_BYTES_MAX: Final = 2_000

#: By partition: offset and value.
Taken = dict[int, list[tuple[int, bytes]]]


class InputReader:
    """A consumer without positions of its own."""

    def __init__(self, client: KafkaClient) -> None:
        self._client: Final = client

    def fetch(self, positions: Mapping[int, int], on_taken: Callable[[Taken], None]) -> None:
        """Get some of what comes at these positions; of a partition that fails, nothing."""
        taken: Taken = {}
        left = set(positions)

        def receiver(partition: int) -> Callable[[Any], None]:
            def receive(response: Any) -> None:
                records = self._records(response, positions[partition])
                if records:
                    taken[partition] = records
                left.discard(partition)
                if not left:
                    on_taken(dict(sorted(taken.items())))

            return receive

        for partition in sorted(positions):
            self._ask(partition, positions[partition], receiver(partition))

    def _ask(self, partition: int, position: int, receive: Callable[[Any], None]) -> None:
        client = self._client
        link = client.leader_link(partition)
        if link is None:
            client.refresh()
            client.later(lambda: receive(None))
            return
        asked = FetchPartition(
            partition=partition,
            current_leader_epoch=client.leader_epoch(partition),
            fetch_offset=position,
            partition_max_bytes=1 + client.env.dice.below(FETCH_BYTES_MAX),
        )
        request = FetchRequest(
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES_MAX,
            isolation_level=READ_COMMITTED,
            session_id=0,
            session_epoch=-1,
            topics=[FetchTopic(topic_id=client.topic_id, partitions=[asked])],
        )
        link.send(ApiKey.FETCH, FETCH_VERSION, request, receive)

    def _records(self, response: Any, position: int) -> list[tuple[int, bytes]]:
        fetched = None
        if response is not None and response.responses:
            fetched = response.responses[0].partitions[0]
        if fetched is None or fetched.error_code:
            self._client.refresh()
            return []
        data = bytes(fetched.records or b"")
        return [
            (record.offset, record.value or b"")
            for header in scan_batches(data).batches
            for record in decode_batch(data, BATCH_BYTES_MAX, at=header.at)
            if record.offset >= position
        ]
