"""When a committed reader has read all: not by what it was told before all was decided."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from kafkaesque.sim.clients.committed_reader import CommittedReader
from kafkaesque.sim.clients.findings import Findings
from kafkaesque.sim.clients.kafka_client import KafkaClient
from kafkaesque.sim.clients.transaction_history import TransactionHistory


class Client:
    """Stands for a client whose requests the test answers."""

    fetch_wait_ms = 300

    def __init__(self) -> None:
        self.asked: list[Callable[[Any], None]] = []
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

    def answer(self, high_watermark: int, stable_offset: int) -> None:
        fetched = SimpleNamespace(
            error_code=0,
            records=b"",
            aborted_transactions=[],
            high_watermark=high_watermark,
            last_stable_offset=stable_offset,
        )
        response = SimpleNamespace(responses=[SimpleNamespace(partitions=[fetched])])
        self.asked.pop(0)(response)


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
