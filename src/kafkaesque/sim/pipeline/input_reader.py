"""Reads what comes next in some partitions, once."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from kafkaesque.model.batch import scan_batches
from kafkaesque.model.records import decode_batch
from kafkaesque.sim.clients.fetched import BATCH_BYTES_MAX
from kafkaesque.sim.clients.kafka_client import KafkaClient
from kafkaesque.sim.clients.partition_requests import READ_COMMITTED, FetchOptions, fetch

_OPTIONS: Final = FetchOptions(
    partition_bytes_max=2_000, bytes_max=2_000, wait_ms=30, isolation_level=READ_COMMITTED
)

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
            def receive(fetched: Any) -> None:
                records = self._records(fetched, positions[partition])
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
        fetch(client, link, partition, position, receive, _OPTIONS)

    def _records(self, fetched: Any, position: int) -> list[tuple[int, bytes]]:
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
