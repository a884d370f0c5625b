"""Clients of SQS use a queue of several partitions as any other one."""

from __future__ import annotations

from typing import Any

import pytest

from kafkaesque.broker.queues.calls import QueueCalls
from kafkaesque.broker.queues.whole_numbers import part_of
from kafkaesque.broker.requests import queue_requests as q
from tests.sim.sqs_scenario import SqsScenario, bodies

URL = "http://b1:9324/000000000000/{}"


def entries(count: int) -> list[dict[str, str]]:
    """Return messages of five groups, in turn."""
    return [
        {"Id": str(at), "MessageBody": str(at), "MessageGroupId": f"g{at % 5}"}
        for at in range(count)
    ]


def test_messages_are_sent_received_hidden_and_deleted() -> None:
    queues = SqsScenario(1)
    queues.create("parted", {"partitions": "3"})
    url, client = URL.format("parted"), queues.client()
    for number in range(9):
        client.do("SendMessage", QueueUrl=url, MessageBody=str(number))
    shown = client.do("GetQueueAttributes", QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert shown["ApproximateNumberOfMessages"] == "9"
    found: list[dict[str, str]] = []
    while more := client.receive(url, VisibilityTimeout=600):
        found += more
    assert sorted(bodies(found)) == [str(number) for number in range(9)]
    assert len({each["MessageId"] for each in found}) == 9
    first, *rest = found
    client.do(
        "ChangeMessageVisibility",
        QueueUrl=url,
        ReceiptHandle=first["ReceiptHandle"],
        VisibilityTimeout=0,
    )
    (again,) = client.receive(url, WaitTimeSeconds=5)
    assert (again["Body"], again["MessageId"]) == (first["Body"], first["MessageId"])
    for each in [again, *rest]:
        client.do("DeleteMessage", QueueUrl=url, ReceiptHandle=each["ReceiptHandle"])
    shown = client.do("GetQueueAttributes", QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert (
        shown["ApproximateNumberOfMessages"],
        shown["ApproximateNumberOfMessagesNotVisible"],
    ) == ("0", "0")


def test_groups_of_a_fifo_queue_are_in_order_and_ids_are_a_group_s() -> None:
    queues = SqsScenario(2)
    options = {
        "partitions": "3",
        "ordered.groups": "true",
        "deduplication.ms": "300000",
        "deduplication.scope": "group",
        "content.based.deduplication": "true",
    }
    queues.create("parted.fifo", options)
    url, client = URL.format("parted.fifo"), queues.client()
    sent = client.do("SendMessageBatch", QueueUrl=url, Entries=entries(10))
    numbers = [int(each["SequenceNumber"]) for each in sent["Successful"]]
    assert len({part_of(each)[0] for each in numbers}) > 1
    again = client.do("SendMessageBatch", QueueUrl=url, Entries=entries(10))
    assert [int(each["SequenceNumber"]) for each in again["Successful"]] == numbers
    found: list[str] = []
    while more := client.receive(url, WaitTimeSeconds=1):
        found += bodies(more)
        for each in more:
            client.do("DeleteMessage", QueueUrl=url, ReceiptHandle=each["ReceiptHandle"])
    assert sorted(found) == [str(number) for number in range(10)]
    for group in range(5):
        assert found.index(str(group)) < found.index(str(group + 5))


def test_a_receipt_that_was_used_asks_its_own_partition_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queues = SqsScenario(3)
    options = {"partitions": "3", "ordered.groups": "true", "deduplication.scope": "group"}
    queues.create("parted.fifo", {**options, "deduplication.ms": "300000"})
    url, client = URL.format("parted.fifo"), queues.client()
    sent = {"MessageBody": "a", "MessageGroupId": "g", "MessageDeduplicationId": "a"}
    client.do("SendMessage", QueueUrl=url, **sent)
    (found,) = client.receive(url, WaitTimeSeconds=5)
    client.do("DeleteMessage", QueueUrl=url, ReceiptHandle=found["ReceiptHandle"])
    asked: list[int] = []
    ask = QueueCalls.ask

    def note(calls: QueueCalls, request: Any, *more: Any) -> None:
        if isinstance(request, q.PeekMessages):
            asked.append(request.partition)
        ask(calls, request, *more)

    monkeypatch.setattr(QueueCalls, "ask", note)
    client.do("DeleteMessage", QueueUrl=url, ReceiptHandle=found["ReceiptHandle"])
    assert len(asked) == 1
