"""A consumer that reads every partition from its start, and a group that remembers how far."""

from typing import Any

from kafkaesque.model.batch import scan_batches
from kafkaesque.model.records import decode_batch
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
)
from kafkaesque.sim.clients.kafka_client import KafkaClient
from kafkaesque.sim.clients.observations import Observations

FETCH_VERSION = 12
BATCH_BYTES_MAX = 16 * 1024 * 1024


class SimConsumer:
    """Follows one partition."""

    def __init__(
        self, client: KafkaClient, name: str, partition: int, observations: Observations
    ) -> None:
        self._client = client
        self._name = name
        self._partition = partition
        self._observations = observations
        self.position = 0
        self.high_watermark = -1
        client.env.clock.call_soon(self._fetch)

    def _fetch(self) -> None:
        client = self._client
        link = client.leader_link(self._partition)
        if link is None:
            client.refresh()
            client.later(self._fetch)
            return
        asked = FetchPartition(
            partition=self._partition,
            fetch_offset=self.position,
            partition_max_bytes=1 + client.env.dice.below(4_000),
        )
        request = FetchRequest(
            max_wait_ms=300,
            min_bytes=1,
            max_bytes=100_000,
            session_id=0,
            session_epoch=-1,
            topics=[FetchTopic(topic=client.topic, partitions=[asked])],
        )
        link.send(ApiKey.FETCH, FETCH_VERSION, request, self._on_fetched)

    def _on_fetched(self, response: Any) -> None:
        client = self._client
        if response is None or not response.responses:
            client.refresh()
            client.later(self._fetch)
            return
        fetched = response.responses[0].partitions[0]
        if fetched.error_code:
            if fetched.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self._observations.note_out_of_range(self._name, self._partition, self.position)
            client.refresh()
            client.later(self._fetch)
            return
        self.high_watermark = fetched.high_watermark
        self._take(bytes(fetched.records or b""), fetched.high_watermark)
        client.env.clock.call_soon(self._fetch)

    def _take(self, data: bytes, high_watermark: int) -> None:
        scan = scan_batches(data)
        if scan.end != len(data):
            self._observations.note_anomaly(
                f"{self._name}: a fetch answer of partition {self._partition} at {self.position} "
                f"is broken at byte {scan.end}: {scan.fault.name}"
            )
        for header in scan.batches:
            if header.next_offset > high_watermark:
                self._observations.note_anomaly(
                    f"{self._name}: offset {header.last_offset} was given out above the high "
                    f"watermark {high_watermark}"
                )
            for record in decode_batch(data, BATCH_BYTES_MAX, at=header.at):
                if record.offset >= self.position:
                    self._observations.note_read(
                        self._name, self._partition, record.offset, record.value or b""
                    )
            self.position = max(self.position, header.next_offset)
