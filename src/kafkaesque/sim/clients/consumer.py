"""A consumer that reads one partition from its start, and finds it again where records go."""

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
from kafkaesque.protocols.kafka.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafkaesque.sim.clients.fetched import are_in_place
from kafkaesque.sim.clients.kafka_client import KafkaClient
from kafkaesque.sim.clients.observations import Observations

FETCH_VERSION = 13
LIST_OFFSETS_VERSION = 6
#: In place of a time: the log's start.
EARLIEST = -2
BATCH_BYTES_MAX = 16 * 1024 * 1024


class SimConsumer:
    """Follows one partition."""

    def __init__(
        self,
        client: KafkaClient,
        name: str,
        partition: int,
        observations: Observations,
        distrusted: str | None = None,
    ) -> None:
        """`distrusted` is a machine whose disk may give it anything; it is asked again, then."""
        self._client = client
        self._distrusted = distrusted
        self._name = name
        self._partition = partition
        self._observations = observations
        self.position = 0
        self.high_watermark = -1
        self.is_stopped = False
        client.env.clock.call_soon(self._fetch)

    @property
    def topic_id(self) -> bytes:
        """The topic's id, as far as it is known."""
        return self._client.topic_id

    def _fetch(self) -> None:
        if self.is_stopped:
            return
        client = self._client
        link = client.leader_link(self._partition)
        if link is None:
            client.refresh()
            client.later(self._fetch)
            return
        asked = FetchPartition(
            partition=self._partition,
            current_leader_epoch=client.leader_epoch(self._partition),
            fetch_offset=self.position,
            partition_max_bytes=1 + client.env.dice.below(4_000),
        )
        request = FetchRequest(
            max_wait_ms=client.fetch_wait_ms,
            min_bytes=1,
            max_bytes=100_000,
            session_id=0,
            session_epoch=-1,
            topics=[FetchTopic(topic_id=client.topic_id, partitions=[asked])],
        )
        host = link.address.host
        link.send(
            ApiKey.FETCH, FETCH_VERSION, request, lambda response: self._on_fetched(host, response)
        )

    def _try_again(self) -> None:
        self._client.refresh()
        self._client.later(self._fetch)

    def _on_fetched(self, host: str, response: Any) -> None:
        if response is None or not response.responses:
            self._try_again()
            return
        fetched = response.responses[0].partitions[0]
        if fetched.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._find_start()
        elif fetched.error_code:
            self._try_again()
        elif self._take(bytes(fetched.records or b""), fetched.high_watermark, host):
            self.high_watermark = fetched.high_watermark
            self._client.env.clock.call_soon(self._fetch)
        else:
            self._try_again()

    def _find_start(self) -> None:
        client = self._client
        link = client.leader_link(self._partition)
        if link is None:
            self._try_again()
            return
        asked = ListOffsetsPartition(
            partition_index=self._partition,
            current_leader_epoch=client.leader_epoch(self._partition),
            timestamp=EARLIEST,
        )
        topic = ListOffsetsTopic(name=client.topic, partitions=[asked])
        request = ListOffsetsRequest(replica_id=-1, topics=[topic])
        link.send(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, request, self._on_start)

    def _on_start(self, response: Any) -> None:
        found = None if response is None else response.topics[0].partitions[0]
        if found is not None and not found.error_code:
            self._observations.note_skipped(
                self._name, self._partition, self.position, found.offset
            )
            self.position = max(self.position, found.offset)
        self._try_again()

    def _take(self, data: bytes, high_watermark: int, host: str) -> bool:
        """Note what came; False if it is not what a broker may send."""
        scan = scan_batches(data)
        if scan.end != len(data):
            if host != self._distrusted:
                self._observations.note_anomaly(
                    f"{self._name}: a fetch answer of partition {self._partition} at "
                    f"{self.position} is broken at byte {scan.end}: {scan.fault.name}"
                )
            return False
        if host == self._distrusted and not are_in_place(
            scan.batches, self.position, high_watermark, has_holes=self._observations.compacts
        ):
            return False
        spans = [(header.base_offset, header.last_offset) for header in scan.batches]
        self._observations.note_polled(self._name, self._partition, self.position, spans)
        for header in scan.batches:
            if header.next_offset > high_watermark:
                self._observations.note_anomaly(
                    f"{self._name}: offset {header.last_offset} was given out above the high "
                    f"watermark {high_watermark}"
                )
            if header.is_control:
                # What brokers write for themselves takes offsets, and is no application's.
                self._observations.note_control(
                    self._partition, header.base_offset, header.last_offset
                )
                self.position = max(self.position, header.next_offset)
                continue
            for record in decode_batch(data, BATCH_BYTES_MAX, at=header.at):
                if record.offset >= self.position:
                    self._observations.note_read(
                        self._name,
                        self._partition,
                        record.offset,
                        record.value or b"",
                        record.key,
                    )
            self.position = max(self.position, header.next_offset)
        return True
