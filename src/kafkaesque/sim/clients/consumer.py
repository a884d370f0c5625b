"""A consumer that reads one partition from its start, and finds it again where records go."""

from typing import Any

from kafkaesque.model.batch import scan_batches
from kafkaesque.model.records import decode_batch
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.sim.clients.fetched import BATCH_BYTES_MAX, are_in_place
from kafkaesque.sim.clients.kafka_client import KafkaClient
from kafkaesque.sim.clients.observations import Observations
from kafkaesque.sim.clients.partition_requests import fetch, find_start


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
            self._try_again()
            return
        host = link.address.host

        def receive(fetched: Any) -> None:
            self._on_fetched(host, fetched)

        fetch(client, link, self._partition, self.position, receive)

    def _try_again(self) -> None:
        self._client.refresh()
        self._client.later(self._fetch)

    def _on_fetched(self, host: str, fetched: Any) -> None:
        if fetched is None:
            self._try_again()
            return
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
        find_start(client, link, self._partition, self._on_start)

    def _on_start(self, start: int | None) -> None:
        if start is not None:
            self._observations.note_skipped(self._name, self._partition, self.position, start)
            self.position = max(self.position, start)
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
