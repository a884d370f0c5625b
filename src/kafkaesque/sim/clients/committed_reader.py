"""A consumer with `isolation.level=read_committed`: it leaves out what was aborted.

As Kafka's consumers do it: the broker names the producers whose transactions were aborted, and from
which offset on; their batches are left out up to the next marker of an abort.
"""

from typing import Any, Final, Protocol

from kafkaesque.model.batch import Attribute, scan_batches
from kafkaesque.model.batch_encoder import MarkerType, decode_end_marker
from kafkaesque.model.record_errors import InvalidRecord
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.sim.clients.fetched import BATCH_BYTES_MAX, are_in_place
from kafkaesque.sim.clients.kafka_client import KafkaClient
from kafkaesque.sim.clients.partition_requests import READ_COMMITTED, FetchOptions, fetch

_OPTIONS: Final = FetchOptions(isolation_level=READ_COMMITTED)


class Reads(Protocol):
    """Who is told what was read."""

    def note_anomaly(self, what: str) -> None:
        """Something that must never be was seen."""

    def note_read(self, partition: int, offset: int, value: bytes) -> None:
        """A committed reader got a record."""


class CommittedReader:
    """Follows one partition from its start."""

    def __init__(
        self,
        client: KafkaClient,
        partition: int,
        history: Reads,
        distrusted: str | None = None,
    ) -> None:
        """`distrusted` is a machine whose disk may give it anything; it is asked again, then."""
        self._client: Final = client
        self._partition: Final = partition
        self._history: Final = history
        self._distrusted: Final = distrusted
        self._position = 0
        #: Where the log ends, and where it ends for a committed reader.
        self._ends = (-1, -1)
        #: What was asked before says no more where the ends are.
        self._is_concluding = False
        #: Read no more.
        self.is_stopped = False
        client.env.clock.call_soon(self._fetch)

    def conclude(self) -> None:
        """Nothing more is written: read up to the ends that are told from now on."""
        self._ends = (-1, -1)
        self._is_concluding = True

    @property
    def is_at_end(self) -> bool:
        """Whether all that is there is decided and read."""
        high_watermark, stable_offset = self._ends
        return 0 <= high_watermark == stable_offset <= self._position

    def __str__(self) -> str:
        return f"partition {self._partition}: read up to {self._position} of {self._ends}"

    def _fetch(self) -> None:
        client = self._client
        if self.is_stopped:
            return
        link = client.leader_link(self._partition)
        if link is None:
            self._try_again()
            return
        host = link.address.host
        was_concluding = self._is_concluding

        def receive(fetched: Any) -> None:
            if fetched is None or fetched.error_code or not self._take(fetched, host):
                self._try_again()
                return
            if was_concluding is self._is_concluding:
                self._ends = (fetched.high_watermark, fetched.last_stable_offset)
            client.env.clock.call_soon(self._fetch)

        fetch(client, link, self._partition, self._position, receive, _OPTIONS)

    def _try_again(self) -> None:
        self._client.refresh()
        self._client.later(self._fetch)

    def _take(self, fetched: Any, host: str) -> bool:
        """Note what came; False if it is not what a broker may send."""
        data = bytes(fetched.records or b"")
        scan = scan_batches(data)
        if scan.end != len(data):
            if host != self._distrusted:
                self._history.note_anomaly(f"an answer of {host} is broken at byte {scan.end}")
            return False
        if host == self._distrusted and not are_in_place(
            scan.batches, self._position, fetched.last_stable_offset
        ):
            return False
        aborted = sorted(
            (a.first_offset, a.producer_id) for a in fetched.aborted_transactions or ()
        )
        left_out: set[int] = set()
        for header in scan.batches:
            if header.next_offset > fetched.last_stable_offset:
                self._history.note_anomaly(
                    f"{self._partition}@{header.last_offset} was given out above the last stable "
                    f"offset {fetched.last_stable_offset}"
                )
            while aborted and aborted[0][0] <= header.last_offset:
                left_out.add(aborted.pop(0)[1])
            records = decode_batch(data, BATCH_BYTES_MAX, at=header.at)
            if header.is_control:
                if is_abort(records[0]):
                    left_out.discard(header.producer_id)
            elif not (
                header.attributes & Attribute.TRANSACTIONAL and header.producer_id in left_out
            ):
                for record in records:
                    if record.offset >= self._position:
                        self._history.note_read(self._partition, record.offset, record.value or b"")
            self._position = max(self._position, header.next_offset)
        return True


class CommittedReaders:
    """Readers of some partitions that come to their end together."""

    def __init__(self) -> None:
        self._readers: Final[list[CommittedReader]] = []

    def add(self, reader: CommittedReader) -> None:
        """Wait for this one, too."""
        self._readers.append(reader)

    def conclude(self) -> None:
        """All is ended: let the readers read what there is now."""
        for reader in self._readers:
            reader.conclude()

    def stop(self) -> None:
        """Read no more."""
        for reader in self._readers:
            reader.is_stopped = True

    @property
    def are_at_end(self) -> bool:
        """Whether no transaction is open in any partition, and all is read."""
        return all(reader.is_at_end for reader in self._readers)

    def __str__(self) -> str:
        return "; ".join(map(str, self._readers))


def is_abort(record: Record) -> bool:
    """Return whether a control record ends a transaction so; there are others than ends."""
    try:
        return decode_end_marker(record).type is MarkerType.ABORT
    except InvalidRecord:
        return False
