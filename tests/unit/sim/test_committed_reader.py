"""When a committed reader has read all, and what it does not believe.

Not what it was told before all was decided, nor batches of a damaged disk that have moved.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafkaesque.model.batch import scan_batches
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.records import Record
from kafkaesque.sim.clients.committed_reader import CommittedReader
from kafkaesque.sim.clients.fetched import are_in_place
from kafkaesque.sim.clients.findings import Findings
from kafkaesque.sim.clients.kafka_client import KafkaClient
from kafkaesque.sim.clients.transaction_history import TransactionHistory


class Client:
    """Stands for a client whose requests the test answers."""

    fetch_wait_ms = 300

    def __init__(self) -> None:
        self.asked: list[Callable[[Any], None]] = []
        self.refreshed = 0
        self.topic_id = bytes(16)
        self.address = SimpleNamespace(host="b1")
        self.env = SimpleNamespace(
            clock=SimpleNamespace(call_soon=lambda act: act()),
            dice=SimpleNamespace(below=lambda _: 0),
        )

    def leader_link(self, _: int) -> "Client":
        return self

    def leader_epoch(self, _: int) -> int:
        return 1

    def send(self, _: Any, __: int, ___: Any, receive: Callable[[Any], None]) -> None:
        self.asked.append(receive)

    def refresh(self) -> None:
        self.refreshed += 1

    def later(self, act: Callable[[], None]) -> None:
        act()

    def answer(self, high_watermark: int, stable_offset: int, records: bytes = b"") -> None:
        fetched = SimpleNamespace(
            error_code=0,
            records=records,
            aborted_transactions=[],
            high_watermark=high_watermark,
            last_stable_offset=stable_offset,
        )
        response = SimpleNamespace(responses=[SimpleNamespace(partitions=[fetched])])
        self.asked.pop(0)(response)


class Reads:
    """Notes what a reader says."""

    def __init__(self) -> None:
        self.anomalies: list[str] = []
        self.offsets: list[int] = []

    def note_anomaly(self, what: str) -> None:
        self.anomalies.append(what)

    def note_read(self, partition: int, offset: int, value: bytes) -> None:
        self.offsets.append(offset)


def test_the_end_is_what_is_told_after_all_is_ended() -> None:
    client = Client()
    reader = CommittedReader(cast(KafkaClient, client), 0, TransactionHistory(Findings()))
    told = []

    def answer(high_watermark: int, stable_offset: int) -> None:
        client.answer(high_watermark, stable_offset)
        told.append(reader.is_at_end)

    answer(0, 0)
    reader.conclude()
    answer(0, 0)  # asked before
    answer(2, 0)  # a transaction is open
    answer(0, 0)
    assert told == [True, False, False, True]


def _batches(*bases: int) -> bytes:
    """Return batches of two records each."""
    return b"".join(
        bytes(encode_batch([Record(base + at, 0, None, b"x") for at in range(2)])) for base in bases
    )


@pytest.mark.parametrize(
    "moved",
    [(0, 2 + 2**40, 4), (0, 2 + 2**40), (0, 2, 4 + 1), (0, 0, 4), (8,)],
    ids=["far, in between", "far, at the end", "near", "back", "at once"],
)
def test_a_batch_that_a_damaged_disk_has_moved_is_asked_for_again(moved: tuple[int, ...]) -> None:
    """Seed 7572 under all faults: what moved had the right checksum, and the reader followed it."""
    client = Client()
    history = Reads()
    reader = CommittedReader(cast(KafkaClient, client), 0, history, distrusted="b1")
    client.answer(10, 10, _batches(*moved))
    assert client.refreshed == 1
    client.answer(10, 10, _batches(0, 2))
    client.answer(10, 10, _batches(4, 6, 8))
    assert reader.is_at_end
    assert client.refreshed == 1
    assert history.offsets == list(range(10))
    assert history.anomalies == []


def test_a_batch_that_a_sound_machine_has_moved_is_an_anomaly() -> None:
    client = Client()
    history = Reads()
    CommittedReader(cast(KafkaClient, client), 0, history, distrusted="b2")
    client.answer(10, 10, _batches(0, 2 + 2**40))
    (told,) = history.anomalies
    assert "above the last stable offset 10" in told


@pytest.mark.parametrize(
    ("bases", "position", "has_holes", "expected"),
    [
        ((), 4, False, True),
        ((4, 6), 4, False, True),
        ((4, 6), 5, False, True),
        ((4, 7), 4, False, False),
        ((4, 7), 4, True, True),
        ((6,), 4, True, True),
        ((4, 5), 4, True, False),
        ((2,), 4, True, False),
        ((9,), 4, True, False),
    ],
)
def test_which_batches_are_in_place(
    bases: tuple[int, ...], position: int, has_holes: bool, expected: bool
) -> None:
    batches = scan_batches(_batches(*bases)).batches
    assert are_in_place(batches, position, 10, has_holes=has_holes) is expected
