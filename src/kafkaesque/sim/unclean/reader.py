"""A consumer that follows a partition across unclean elections.

What Kafka promises it there: an offset after the end of what is left is out of range, and it begins
anew where the log begins. Or it says the epoch of what it has read last, and is told up to where
the leader's log has that epoch, or an earlier one; if it goes back as followers do, to where it has
itself nothing later, it has in the end what the log has (KIP-320, KIP-595).
"""

from typing import Any, Final

from kafkaesque.model.batch import scan_batches
from kafkaesque.model.records import decode_batch
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.sim.clients.fetched import BATCH_BYTES_MAX
from kafkaesque.sim.clients.kafka_client import KafkaClient
from kafkaesque.sim.clients.partition_requests import fetch, find_start
from kafkaesque.sim.unclean.history import UncleanHistory


class UncleanReader:
    """Follows one partition."""

    def __init__(
        self,
        client: KafkaClient,
        name: str,
        partition: int,
        history: UncleanHistory,
        *,
        says_epochs: bool,
    ) -> None:
        self.position = 0
        self.high_watermark = -1
        #: Epoch and value of what it has read since it began anew, without what was taken back.
        self.held: dict[int, tuple[int, bytes]] = {}
        self.says_epochs: Final = says_epochs
        #: How often it had to begin anew, or was told to go back.
        self.count = 0
        self._client: Final = client
        self._name: Final = name
        self._partition: Final = partition
        self._history: Final = history
        #: The epoch of the last batch before its position; -1: it has none.
        self._epoch = -1
        #: The era in which it has come to its position, or an earlier one.
        self._era = 0
        client.env.clock.call_soon(self._fetch)

    def _try_again(self) -> None:
        self._client.refresh()
        self._client.later(self._fetch)

    def _fetch(self) -> None:
        client = self._client
        link = client.leader_link(self._partition)
        if link is None:
            self._try_again()
            return
        host = link.address.host
        era = self._history.era_at(host, self._partition)
        last_epoch = self._epoch if self.says_epochs else -1

        def receive(fetched: Any) -> None:
            self._on_fetched(host, era, fetched)

        fetch(client, link, self._partition, self.position, receive, last_epoch=last_epoch)

    def _on_fetched(self, host: str, era: int, fetched: Any) -> None:
        if fetched is None:
            self._try_again()
            return
        diverging = fetched.diverging_epoch
        if fetched.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._find_start()
        elif fetched.error_code:
            self._try_again()
        elif diverging is not None and diverging.end_offset >= 0:
            self._go_back(era, diverging.epoch, diverging.end_offset)
        else:
            self._take(bytes(fetched.records or b""), host, era)
            self.high_watermark = fetched.high_watermark
            self._era = max(self._era, era)
            self._client.env.clock.call_soon(self._fetch)

    def _go_back(self, era: int, epoch: int, end: int) -> None:
        """The leader's log has less of what it has read, or something else."""
        self._expect_election(f"is told to go back to {end}, in epoch {epoch}")
        self.count += 1
        later = (at for at, (its, _) in self.held.items() if its > epoch)
        self.position = min(self.position, end, min(later, default=end))
        self.held = {at: each for at, each in self.held.items() if at < self.position}
        # Epochs grow with offsets.
        self._epoch = max((its for its, _ in self.held.values()), default=-1)
        self._era = max(self._era, era)
        self._client.env.clock.call_soon(self._fetch)

    def _find_start(self) -> None:
        client = self._client
        link = client.leader_link(self._partition)
        if link is None:
            self._try_again()
            return
        era = self._history.era_at(link.address.host, self._partition)
        find_start(client, link, self._partition, lambda start: self._on_start(era, start))

    def _on_start(self, era: int, start: int | None) -> None:
        if start is not None:
            if start <= self.position:
                self._expect_election(f"is out of range, and the log begins at {start}")
            self.count += 1
            self.position = start
            self.held = {}
            self._epoch = -1
            self._era = max(self._era, era)
        self._try_again()

    def _expect_election(self, what: str) -> None:
        if self._history.latest(self._partition) <= self._era:
            self._history.note_anomaly(
                f"out of range: {self._name} at {self._partition}@{self.position} {what}, and no "
                f"unclean election was since era {self._era}"
            )

    def _take(self, data: bytes, host: str, era: int) -> None:
        scan = scan_batches(data)
        if scan.end != len(data):
            self._history.note_anomaly(
                f"{self._name}: a fetch answer of partition {self._partition} at {self.position} "
                f"is broken at byte {scan.end}: {scan.fault.name}"
            )
            return
        is_sure = era == self._history.era_at(host, self._partition)
        for header in scan.batches:
            for record in decode_batch(data, BATCH_BYTES_MAX, at=header.at):
                value = bytes(record.value or b"")
                if record.offset >= self.position:
                    self.held[record.offset] = header.partition_leader_epoch, value
                    if is_sure:
                        self._history.note_read(
                            self._name, self._partition, era, record.offset, value
                        )
            self._epoch = header.partition_leader_epoch
            self.position = max(self.position, header.next_offset)
