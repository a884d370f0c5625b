"""Which logs there are beside topics, as the command line asks for them."""

import pytest

from kafkaesque.cli import moving_replicas, queue_logs
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.moving_replicas import Move, Where, moves_document, moves_table
from kafkaesque.cli.queue_logs import read_logs
from kafkaesque.protocols.kafka.messages.describe_logs_response import (
    DescribedLog,
    DescribeLogsResponse,
)

QUEUE = DescribedLog(bytes([1]) * 16, "__queue-01", "/", "orders")
OTHER = DescribedLog(bytes([2]) * 16, "__queue-02", "shop", "orders")
GROUP = DescribedLog(bytes([3]) * 16, "__queue-03", share_group="g", topic="flights")


def test_pages_are_put_together_and_named_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [
        DescribeLogsResponse(logs=[QUEUE, OTHER], has_more=True),
        DescribeLogsResponse(logs=[GROUP]),
    ]
    asked: list[bytes] = []

    def ask(_: str, __: int, ___: int, request: object) -> DescribeLogsResponse:
        asked.append(getattr(request, "after", b""))
        return pages.pop(0)

    monkeypatch.setattr(queue_logs, "ask", ask)
    assert [each.label for each in read_logs("-")] == [
        "queue orders",
        "queue orders of virtual host shop",
        "share group g, topic flights",
    ]
    assert asked == [bytes(16), OTHER.log_id]


@pytest.mark.parametrize(("silence", "is_well"), [("", True), ("no answer in time", False)])
def test_brokers_that_know_no_queues_have_no_such_logs(
    monkeypatch: pytest.MonkeyPatch, silence: str, is_well: bool
) -> None:
    def ask(*_: object) -> DescribeLogsResponse:
        raise CommandFailed("no broker answers at b:9092 (closed the connection)")

    monkeypatch.setattr(queue_logs, "ask", ask)
    monkeypatch.setattr(queue_logs, "greet_all", lambda _: {"b:9092": silence})
    if is_well:
        assert read_logs("-") == []
    else:
        with pytest.raises(CommandFailed, match="no broker answers"):
            read_logs("-")


def test_a_move_of_a_queues_log_is_told_by_the_queues_name() -> None:
    moves = {
        Where("__queue-01", 0, "queue orders"): Move(replicas=[1, 2], adding=[2], removing=[1])
    }
    assert moves_table(moves).rows == [("queue orders-0", "1", "2")]
    (document,) = moves_document(moves)
    assert (document["topic"], document["log"]) == ("__queue-01", "queue orders")
    assert moving_replicas.sentences(moves) == [
        "replicas move from broker 1 to broker 2: queue orders-0"
    ]
