"""boto3, unchanged: every operation, FIFO, dead letters, moves, and the errors it knows by name."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.clients.sqs_cluster import Queues, SqsCluster, bodies, sqs_client
from tests.waiting import eventually


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqsCluster]:
    with SqsCluster(3, tmp_path_factory.mktemp("sqs")) as found:
        yield found


@pytest.fixture
def sqs(cluster: SqsCluster) -> Iterator[Queues]:
    with sqs_client(cluster.url()) as client:
        yield Queues(client)


def code_of(caught: pytest.ExceptionInfo[ClientError]) -> str:
    return str(caught.value.response["Error"]["Code"])


# -- queues


def test_queues_are_made_found_listed_and_deleted(sqs: Queues, cluster: SqsCluster) -> None:
    url = sqs.make("listed", VisibilityTimeout="45")
    name = url.rpartition("/")[2]
    assert url == f"{cluster.url()}/000000000000/{name}"
    assert sqs.client.get_queue_url(QueueName=name)["QueueUrl"] == url
    assert sqs.client.list_queues(QueueNamePrefix=name)["QueueUrls"] == [url]
    again = sqs.client.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "45"})
    assert again["QueueUrl"] == url
    with pytest.raises(sqs.client.exceptions.QueueNameExists):
        sqs.client.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "46"})
    with sqs_client(cluster.url(2)) as elsewhere:
        assert elsewhere.get_queue_url(QueueName=name)["QueueUrl"].endswith(name)
    sqs.client.delete_queue(QueueUrl=url)
    with pytest.raises(sqs.client.exceptions.QueueDoesNotExist) as caught:
        sqs.client.get_queue_url(QueueName=name)
    assert code_of(caught) == "AWS.SimpleQueueService.NonExistentQueue"
    with pytest.raises(sqs.client.exceptions.QueueDeletedRecently):
        sqs.client.create_queue(QueueName=name)


def test_lists_have_pages(sqs: Queues) -> None:
    urls = sorted(sqs.make("paged") for _ in range(7))
    pages = sqs.client.get_paginator("list_queues").paginate(
        QueueNamePrefix="paged-", PaginationConfig={"PageSize": 3}
    )
    found = [page.get("QueueUrls", []) for page in pages]
    assert [len(each) for each in found] == [3, 3, 1]
    assert [url for page in found for url in page] == urls


def test_attributes_are_set_and_shown(sqs: Queues) -> None:
    url = sqs.make("attributes")
    before = sqs.attributes(url)
    assert before["VisibilityTimeout"] == "30"
    assert before["MessageRetentionPeriod"] == "345600"
    assert before["MaximumMessageSize"] == "1048576"
    set_to = {
        "DelaySeconds": "900",
        "MaximumMessageSize": "1024",
        "MessageRetentionPeriod": "60",
        "ReceiveMessageWaitTimeSeconds": "20",
        "VisibilityTimeout": "0",
    }
    sqs.client.set_queue_attributes(QueueUrl=url, Attributes=set_to)
    after = sqs.attributes(url)
    assert {name: after[name] for name in set_to} == set_to
    assert int(after["LastModifiedTimestamp"]) >= int(after["CreatedTimestamp"])
    assert sqs.attributes(url, "DelaySeconds") == {"DelaySeconds": "900"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DelaySeconds", "901"),
        ("DelaySeconds", "-1"),
        ("MaximumMessageSize", "1023"),
        ("MaximumMessageSize", "1048577"),
        ("MessageRetentionPeriod", "59"),
        ("MessageRetentionPeriod", "1209601"),
        ("ReceiveMessageWaitTimeSeconds", "21"),
        ("VisibilityTimeout", "43201"),
        ("VisibilityTimeout", "soon"),
        ("RedrivePolicy", "{}"),
        ("RedrivePolicy", "not json"),
        ("RedriveAllowPolicy", '{"redrivePermission": "byQueue"}'),
        ("Policy", '{"Statement": [{"Effect": "Deny"}]}'),
        ("KmsMasterKeyId", "alias/aws/sqs"),
    ],
)
def test_attributes_that_may_not_be_so_are_refused(sqs: Queues, name: str, value: str) -> None:
    url = sqs.make("refusing")
    with pytest.raises(sqs.client.exceptions.InvalidAttributeValue):
        sqs.client.set_queue_attributes(QueueUrl=url, Attributes={name: value})


@pytest.mark.parametrize("name", ["QueueArn", "Colour", "ContentBasedDeduplication", "FifoQueue"])
def test_attributes_that_cannot_be_set_are_refused(sqs: Queues, name: str) -> None:
    url = sqs.make("refusing")
    with pytest.raises(sqs.client.exceptions.InvalidAttributeName):
        sqs.client.set_queue_attributes(QueueUrl=url, Attributes={name: "true"})


def test_tags(sqs: Queues) -> None:
    url = sqs.client.create_queue(QueueName="tagged", tags={"team": "a", "cost": "1"})["QueueUrl"]
    sqs.client.tag_queue(QueueUrl=url, Tags={"cost": "2", "env": "ü"})
    sqs.client.untag_queue(QueueUrl=url, TagKeys=["team", "missing"])
    assert sqs.client.list_queue_tags(QueueUrl=url)["Tags"] == {"cost": "2", "env": "ü"}
    with pytest.raises(ClientError) as caught:
        sqs.client.tag_queue(QueueUrl=url, Tags={f"t{n}": "" for n in range(51)})
    assert code_of(caught) == "InvalidParameterValue"


def test_permissions_are_shown(sqs: Queues) -> None:
    url = sqs.make("permitted")
    asked = {"QueueUrl": url, "AWSAccountIds": ["123456789012"], "Actions": ["SendMessage"]}
    sqs.client.add_permission(Label="one", **asked)
    for wrong in (
        {"Label": "one"},
        {"Label": "no label"},
        {"Actions": ["Nope"]},
        {"AWSAccountIds": ["1"]},
    ):
        with pytest.raises(ClientError) as caught:
            sqs.client.add_permission(**{"Label": "two", **asked, **wrong})
        assert code_of(caught) == "InvalidParameterValue", wrong
    (statement,) = json.loads(sqs.attributes(url, "Policy")["Policy"])["Statement"]
    assert (statement["Sid"], statement["Action"]) == ("one", ["SQS:SendMessage"])
    for number in range(6):
        sqs.client.add_permission(Label=f"more{number}", **asked)
    with pytest.raises(sqs.client.exceptions.OverLimit):
        sqs.client.add_permission(Label="last", **asked)
    for label in ["one", *(f"more{number}" for number in range(6))]:
        sqs.client.remove_permission(QueueUrl=url, Label=label)
    assert sqs.attributes(url, "Policy") == {}


def test_a_purge_leaves_nothing_and_is_not_repeated_at_once(sqs: Queues) -> None:
    url = sqs.make("purged")
    for number in range(5):
        sqs.send(url, str(number))
    assert len(sqs.receive(url, 2)) == 2
    sqs.client.purge_queue(QueueUrl=url)
    assert sqs.receive(url) == []
    assert sqs.attributes(url, "ApproximateNumberOfMessagesNotVisible") == {
        "ApproximateNumberOfMessagesNotVisible": "0"
    }
    with pytest.raises(sqs.client.exceptions.PurgeQueueInProgress):
        sqs.client.purge_queue(QueueUrl=url)


# -- messages


def test_a_message_comes_with_all_that_it_was_sent_with(sqs: Queues) -> None:
    url = sqs.make()
    attributes = {
        "text": {"DataType": "String", "StringValue": "grün\r\n<&>"},
        "number": {"DataType": "Number", "StringValue": "-1.5e3"},
        "typed": {"DataType": "Number.java.lang.Long", "StringValue": "7"},
        "bytes": {"DataType": "Binary.png", "BinaryValue": bytes(range(256))},
    }
    trace = {"DataType": "String", "StringValue": "Root=1-5759e988-bd862e3fe1be46a994272793"}
    sent = sqs.send(
        url,
        "schöne Grüße\t😀",
        MessageAttributes=attributes,
        MessageSystemAttributes={"AWSTraceHeader": trace},
    )
    (message,) = sqs.receive(url)
    assert message["Body"] == "schöne Grüße\t😀"
    assert message["MessageAttributes"] == attributes
    assert message["MessageId"] == sent["MessageId"]
    assert message["MD5OfBody"] == sent["MD5OfMessageBody"]
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    system = message["Attributes"]
    assert system["AWSTraceHeader"] == trace["StringValue"]
    assert (system["ApproximateReceiveCount"], system["SenderId"]) == ("1", "anonymous")
    assert abs(int(system["SentTimestamp"]) / 1000 - time.time()) < 60
    sqs.delete(url, message)
    sqs.delete(url, message)


def test_only_the_attributes_that_are_asked_for_come(sqs: Queues) -> None:
    url = sqs.make()
    value = {"DataType": "String", "StringValue": "x"}
    names = ["a", "b.one", "b.two"]
    sqs.send(url, "hello", MessageAttributes=dict.fromkeys(names, value))
    for wanted, found in [(["a"], ["a"]), (["b.*"], ["b.one", "b.two"]), ([], [])]:
        more: dict[str, Any] = {
            "MessageAttributeNames": wanted,
            "MessageSystemAttributeNames": ["SenderId"],
        }
        (message,) = sqs.receive(url, VisibilityTimeout=0, **more)
        assert sorted(message.get("MessageAttributes", {})) == found
        assert list(message["Attributes"]) == ["SenderId"]
    with pytest.raises(ClientError) as caught:
        sqs.receive(url, MessageSystemAttributeNames=["Colour"])
    assert code_of(caught) == "InvalidAttributeName"


def test_a_message_is_invisible_until_its_time_and_counts_its_receives(sqs: Queues) -> None:
    url = sqs.make(VisibilityTimeout="2")
    sqs.send(url, "hello")
    (first,) = sqs.receive(url)
    assert sqs.receive(url) == []
    (second,) = sqs.receive(url, WaitTimeSeconds=10)
    assert second["Attributes"]["ApproximateReceiveCount"] == "2"
    handle = second["ReceiptHandle"]
    sqs.client.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=600)
    assert sqs.attributes(url)["ApproximateNumberOfMessagesNotVisible"] == "1"
    assert sqs.receive(url, WaitTimeSeconds=3) == []
    sqs.client.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=0)
    (third,) = sqs.receive(url)
    assert third["Attributes"]["ApproximateReceiveCount"] == "3"
    with pytest.raises(sqs.client.exceptions.MessageNotInflight):
        sqs.client.change_message_visibility(
            QueueUrl=url, ReceiptHandle=first["ReceiptHandle"], VisibilityTimeout=5
        )


def test_delays_of_messages_and_of_queues(sqs: Queues) -> None:
    url = sqs.make(DelaySeconds="2")
    sqs.send(url, "later", DelaySeconds=600)
    sqs.send(url, "now", DelaySeconds=0)
    sqs.send(url, "soon")
    assert bodies(sqs.receive(url)) == ["now"]
    assert sqs.attributes(url)["ApproximateNumberOfMessagesDelayed"] == "2"
    assert bodies(sqs.receive(url, WaitTimeSeconds=10)) == ["soon"]
    with pytest.raises(ClientError) as caught:
        sqs.send(url, "too late", DelaySeconds=901)
    assert code_of(caught) == "InvalidParameterValue"


def test_a_long_poll_ends_when_a_message_comes(sqs: Queues, cluster: SqsCluster) -> None:
    from threading import Timer

    url = sqs.make(ReceiveMessageWaitTimeSeconds="20")
    with sqs_client(cluster.url(2)) as elsewhere:
        timer = Timer(1.0, lambda: elsewhere.send_message(QueueUrl=url, MessageBody="hello"))
        timer.start()
        began = time.monotonic()
        assert bodies(sqs.receive(url)) == ["hello"]
        assert time.monotonic() - began < 15
        timer.join()


# -- batches


def test_batches_succeed_in_part(sqs: Queues) -> None:
    url = sqs.make()
    entries = [
        {"Id": "good", "MessageBody": "hello"},
        {"Id": "late", "MessageBody": "hello", "DelaySeconds": 1000},
        {"Id": "empty", "MessageBody": "\x00"},
        {"Id": "also_good-2", "MessageBody": "world"},
    ]
    sent = sqs.client.send_message_batch(QueueUrl=url, Entries=entries)
    assert [each["Id"] for each in sent["Successful"]] == ["good", "also_good-2"]
    codes = {each["Id"]: (each["Code"], each["SenderFault"]) for each in sent["Failed"]}
    assert codes == {
        "late": ("InvalidParameterValue", True),
        "empty": ("InvalidMessageContents", True),
    }
    first, second = sqs.receive(url)
    receipts = [
        {"Id": "a", "ReceiptHandle": first["ReceiptHandle"]},
        {"Id": "b", "ReceiptHandle": "made up"},
        {"Id": "c", "ReceiptHandle": second["ReceiptHandle"]},
    ]
    timeouts = [
        dict(each, VisibilityTimeout=n) for n, each in zip((0, 60, 50000), receipts, strict=True)
    ]
    changed = sqs.client.change_message_visibility_batch(QueueUrl=url, Entries=timeouts)
    assert [each["Id"] for each in changed["Successful"]] == ["a"]
    assert {each["Id"]: each["Code"] for each in changed["Failed"]} == {
        "b": "ReceiptHandleIsInvalid",
        "c": "InvalidParameterValue",
    }
    (again,) = sqs.receive(url)
    receipts[0]["ReceiptHandle"] = again["ReceiptHandle"]
    deleted = sqs.client.delete_message_batch(QueueUrl=url, Entries=receipts)
    assert [each["Id"] for each in deleted["Successful"]] == ["a", "c"]
    assert [each["Code"] for each in deleted["Failed"]] == ["ReceiptHandleIsInvalid"]


@pytest.mark.parametrize(
    ("entries", "error"),
    [
        ([], "EmptyBatchRequest"),
        ([{"Id": str(n), "MessageBody": "x"} for n in range(11)], "TooManyEntriesInBatchRequest"),
        ([{"Id": "a", "MessageBody": "x"}] * 2, "BatchEntryIdsNotDistinct"),
        ([{"Id": "a b", "MessageBody": "x"}], "InvalidBatchEntryId"),
        ([{"Id": "x" * 81, "MessageBody": "x"}], "InvalidBatchEntryId"),
        ([{"Id": str(n), "MessageBody": "x" * 600_000} for n in range(2)], "BatchRequestTooLong"),
    ],
    ids=["empty", "too-many", "twice", "id", "long-id", "too-long"],
)
def test_batches_are_refused_as_a_whole(
    sqs: Queues, entries: list[dict[str, str]], error: str
) -> None:
    url = sqs.make()
    with pytest.raises(getattr(sqs.client.exceptions, error)):
        sqs.client.send_message_batch(QueueUrl=url, Entries=entries)
    assert sqs.receive(url) == []


# -- FIFO


def test_messages_of_a_group_come_in_order_one_after_the_other(sqs: Queues) -> None:
    url = sqs.make(fifo=True, ContentBasedDeduplication="true")
    for number in range(3):
        for group in "ab":
            sqs.send(url, f"{group}{number}", MessageGroupId=group)
    first = sqs.receive(url, 1)
    assert bodies(first) == ["a0"]
    others = sqs.receive(url, 10)
    assert bodies(others) == ["b0", "b1", "b2"], "all that are there of a group, in order"
    assert sqs.receive(url) == []
    sqs.delete(url, first[0])
    second, third = sqs.receive(url)
    assert third["Body"] == "a2"
    assert (second["Body"], second["Attributes"]["MessageGroupId"]) == ("a1", "a")
    assert second["Attributes"]["SequenceNumber"] > first[0]["Attributes"]["SequenceNumber"]


def test_duplicates_are_one_message(sqs: Queues) -> None:
    url = sqs.make(fifo=True)
    by_id = {"MessageGroupId": "g", "MessageDeduplicationId": "one"}
    first = sqs.send(url, "original", **by_id)
    again = sqs.send(url, "duplicate", **by_id)
    assert again["MessageId"] == first["MessageId"]
    assert again["SequenceNumber"] == first["SequenceNumber"]
    (message,) = sqs.receive(url)
    assert message["Body"] == "original"
    assert message["Attributes"]["MessageDeduplicationId"] == "one"
    sqs.delete(url, message)
    sqs.send(url, "still a duplicate", **by_id)
    assert sqs.receive(url) == []


def test_duplicates_of_a_group(sqs: Queues) -> None:
    high = {"DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"}
    url = sqs.make(fifo=True, **high)
    for group in "aab":
        sqs.send(url, group, MessageGroupId=group, MessageDeduplicationId="one")
    assert bodies(sqs.receive(url)) == ["a", "b"]
    assert {name: sqs.attributes(url)[name] for name in high} == high


def test_an_attempt_can_be_repeated(sqs: Queues) -> None:
    url = sqs.make(fifo=True, ContentBasedDeduplication="true")
    sqs.send(url, "one", MessageGroupId="g")
    (first,) = sqs.receive(url, ReceiveRequestAttemptId="attempt")
    (again,) = sqs.receive(url, ReceiveRequestAttemptId="attempt")
    assert again["ReceiptHandle"] == first["ReceiptHandle"]
    assert sqs.receive(url, ReceiveRequestAttemptId="another") == []
    sqs.delete(url, again)
    assert sqs.receive(url, ReceiveRequestAttemptId="attempt") == []


def test_an_expired_receipt_of_a_fifo_queue_is_refused(sqs: Queues) -> None:
    url = sqs.make(fifo=True, ContentBasedDeduplication="true")
    sqs.send(url, "one", MessageGroupId="g")
    (message,) = sqs.receive(url, VisibilityTimeout=1)
    (again,) = sqs.receive(url, WaitTimeSeconds=10)
    with pytest.raises(ClientError, match="expired"):
        sqs.delete(url, message)
    sqs.delete(url, again)
    sqs.delete(url, again)


def test_a_busy_tenant_of_a_standard_queue_does_not_let_the_others_wait(sqs: Queues) -> None:
    url = sqs.make()
    for number in range(30):
        sqs.send(url, f"busy {number}", MessageGroupId="busy")
    sqs.send(url, "quiet", MessageGroupId="quiet")
    first = sqs.receive(url, MessageSystemAttributeNames=["MessageGroupId"])
    assert [each["Body"] for each in first if "busy" not in each["Body"]] == ["quiet"]
    assert {each["Attributes"]["MessageGroupId"] for each in first} == {"busy", "quiet"}
    rest = sqs.receive(url)
    assert len(rest) == 10, "a group holds nothing back"


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"MessageDeduplicationId": "x"}, "MissingParameter"),
        ({"MessageGroupId": "g"}, "InvalidParameterValue"),
        ({"MessageGroupId": "g h", "MessageDeduplicationId": "x"}, "InvalidParameterValue"),
        ({"MessageGroupId": "g", "MessageDeduplicationId": "x" * 129}, "InvalidParameterValue"),
        (
            {"MessageGroupId": "g", "MessageDeduplicationId": "x", "DelaySeconds": 5},
            "InvalidParameterValue",
        ),
    ],
    ids=["no-group", "no-id", "group", "long-id", "delay"],
)
def test_what_fifo_needs_is_asked_for(sqs: Queues, more: dict[str, Any], code: str) -> None:
    url = sqs.make(fifo=True)
    with pytest.raises(ClientError) as caught:
        sqs.send(url, "hello", **more)
    assert code_of(caught) == code


def test_what_only_fifo_has_is_refused_elsewhere(sqs: Queues) -> None:
    url = sqs.make()
    with pytest.raises(ClientError):
        sqs.send(url, "hello", MessageDeduplicationId="x")
    with pytest.raises(ClientError):
        sqs.receive(url, ReceiveRequestAttemptId="x")
    for name, attributes in (("x.fifo", {}), ("x", {"FifoQueue": "true"})):
        with pytest.raises(ClientError):
            sqs.client.create_queue(QueueName=name, Attributes=attributes)


# -- dead letters


def _with_dead_letters(sqs: Queues, attempts: int = 2, **more: Any) -> tuple[str, str]:
    dead = sqs.make("dead", **more)
    policy = json.dumps({"deadLetterTargetArn": sqs.arn(dead), "maxReceiveCount": attempts})
    return sqs.make("work", RedrivePolicy=policy, **more), dead


def _give_up(sqs: Queues, url: str, times: int) -> None:
    for _ in range(times):
        for message in sqs.receive(url, VisibilityTimeout=0):
            assert message


def test_what_was_received_too_often_is_a_dead_letter(sqs: Queues) -> None:
    work, dead = _with_dead_letters(sqs)
    sent = sqs.send(work, "poison")
    assert sqs.client.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [work]
    _give_up(sqs, work, 2)
    assert sqs.receive(work, WaitTimeSeconds=1) == []
    (message,) = sqs.receive(dead, WaitTimeSeconds=10)
    assert (message["Body"], message["MessageId"]) == ("poison", sent["MessageId"])
    assert message["Attributes"]["DeadLetterQueueSourceArn"] == sqs.arn(work)
    assert json.loads(sqs.attributes(work)["RedrivePolicy"])["maxReceiveCount"] == 2


def test_dead_letters_of_fifo_have_their_message_id_for_duplicates(sqs: Queues) -> None:
    work, dead = _with_dead_letters(sqs, 1, fifo=True)
    sent = sqs.send(work, "poison", MessageGroupId="g", MessageDeduplicationId="mine")
    _give_up(sqs, work, 1)
    (message,) = sqs.receive(dead, WaitTimeSeconds=10)
    assert message["Attributes"]["MessageDeduplicationId"] == sent["MessageId"]
    assert message["Attributes"]["MessageGroupId"] == "g"


def test_a_queue_says_whose_dead_letters_it_takes(sqs: Queues) -> None:
    dead, source = sqs.make("dead"), sqs.make("source")
    policy = {
        "RedrivePolicy": json.dumps({"deadLetterTargetArn": sqs.arn(dead), "maxReceiveCount": "3"})
    }
    denied = json.dumps({"redrivePermission": "denyAll"})
    by_queue = json.dumps({"redrivePermission": "byQueue", "sourceQueueArns": [sqs.arn(source)]})
    other = sqs.make("other")
    for allow, url, is_allowed in (
        (denied, source, False),
        (by_queue, other, False),
        (by_queue, source, True),
    ):
        sqs.client.set_queue_attributes(QueueUrl=dead, Attributes={"RedriveAllowPolicy": allow})
        if is_allowed:
            sqs.client.set_queue_attributes(QueueUrl=url, Attributes=policy)
        else:
            with pytest.raises(sqs.client.exceptions.InvalidAttributeValue):
                sqs.client.set_queue_attributes(QueueUrl=url, Attributes=policy)
    fifo = sqs.make(fifo=True)
    with pytest.raises(sqs.client.exceptions.InvalidAttributeValue, match="same type"):
        sqs.client.set_queue_attributes(QueueUrl=fifo, Attributes=policy)


def test_dead_letters_are_moved_back(sqs: Queues) -> None:
    work, dead = _with_dead_letters(sqs, 1)
    ids = {sqs.send(work, str(number))["MessageId"] for number in range(5)}
    _give_up(sqs, work, 1)
    source = sqs.arn(dead)
    eventually(lambda: sqs.attributes(dead)["ApproximateNumberOfMessages"] == "5", "all are dead")
    handle = sqs.client.start_message_move_task(SourceArn=source)["TaskHandle"]
    assert handle
    eventually(lambda: _newest_task(sqs, source)["Status"] == "COMPLETED", "the task is completed")
    task = _newest_task(sqs, source)
    assert task["ApproximateNumberOfMessagesMoved"] == 5
    assert task["ApproximateNumberOfMessagesToMove"] == 5
    assert task["DestinationArn"] == sqs.arn(work)
    assert {each["MessageId"] for each in sqs.receive(work)} == ids
    with pytest.raises(sqs.client.exceptions.UnsupportedOperation):
        sqs.client.cancel_message_move_task(TaskHandle=handle)


def test_a_slow_move_runs_and_is_cancelled(sqs: Queues) -> None:
    _, dead = _with_dead_letters(sqs, 1)
    other = sqs.make("other")
    for _ in range(3):
        entries = [{"Id": str(number), "MessageBody": "x"} for number in range(10)]
        sqs.client.send_message_batch(QueueUrl=dead, Entries=entries)
    source = sqs.arn(dead)
    handle = sqs.client.start_message_move_task(
        SourceArn=source, DestinationArn=sqs.arn(other), MaxNumberOfMessagesPerSecond=1
    )["TaskHandle"]
    assert _newest_task(sqs, source)["Status"] == "RUNNING"
    assert _newest_task(sqs, source)["TaskHandle"] == handle
    with pytest.raises(sqs.client.exceptions.UnsupportedOperation):
        sqs.client.start_message_move_task(SourceArn=source)
    sqs.client.cancel_message_move_task(TaskHandle=handle)
    eventually(lambda: _newest_task(sqs, source)["Status"] == "CANCELLED", "it is cancelled")
    moved = _newest_task(sqs, source)["ApproximateNumberOfMessagesMoved"]
    assert moved < 30
    assert sqs.attributes(other)["ApproximateNumberOfMessages"] == str(moved)
    assert sqs.attributes(dead)["ApproximateNumberOfMessages"] == str(30 - moved)


def _newest_task(sqs: Queues, source: str) -> dict[str, Any]:
    answer = sqs.client.list_message_move_tasks(SourceArn=source, MaxResults=10)
    task: dict[str, Any] = answer["Results"][0]
    return task


def test_moves_that_cannot_be_are_refused(sqs: Queues) -> None:
    no_dead_letters = sqs.arn(sqs.make())
    with pytest.raises(ClientError) as caught:
        sqs.client.start_message_move_task(SourceArn=no_dead_letters)
    assert code_of(caught) == "InvalidParameterValue"
    missing = "arn:aws:sqs:us-east-1:000000000000:missing"
    with pytest.raises(sqs.client.exceptions.ResourceNotFoundException):
        sqs.client.start_message_move_task(SourceArn=missing)
    with pytest.raises(sqs.client.exceptions.ResourceNotFoundException):
        sqs.client.cancel_message_move_task(TaskHandle="made up")
    with pytest.raises(sqs.client.exceptions.ResourceNotFoundException):
        sqs.client.list_message_move_tasks(SourceArn="nonsense")


# -- what is refused


def test_receipts_that_are_made_up_or_of_another_queue_are_invalid(sqs: Queues) -> None:
    one, other = sqs.make(), sqs.make()
    sqs.send(one, "hello")
    (message,) = sqs.receive(one)
    altered = message["ReceiptHandle"].replace("AAAA", "AAAB", 1)
    for url, handle in ((other, message["ReceiptHandle"]), (one, altered), (one, "made up")):
        with pytest.raises(sqs.client.exceptions.ReceiptHandleIsInvalid):
            sqs.client.delete_message(QueueUrl=url, ReceiptHandle=handle)


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"MaxNumberOfMessages": 0}, "InvalidParameterValue"),
        ({"MaxNumberOfMessages": 11}, "InvalidParameterValue"),
        ({"WaitTimeSeconds": 21}, "InvalidParameterValue"),
        ({"VisibilityTimeout": 43201}, "InvalidParameterValue"),
        ({"QueueUrl": "http://localhost/somebody/queue"}, "InvalidAddress"),
        ({"QueueUrl": "queue"}, "InvalidAddress"),
        (
            {"QueueUrl": "http://localhost/000000000000/missing"},
            "AWS.SimpleQueueService.NonExistentQueue",
        ),
    ],
)
def test_requests_out_of_range_are_refused(sqs: Queues, asked: dict[str, Any], code: str) -> None:
    url = sqs.make()
    with pytest.raises(ClientError) as caught:
        sqs.client.receive_message(**{"QueueUrl": url, **asked})
    assert code_of(caught) == code


@pytest.mark.parametrize(
    ("attributes", "what"),
    [
        ({f"a{n}": {"DataType": "String", "StringValue": "x"} for n in range(11)}, "exceeds"),
        ({"AWS.x": {"DataType": "String", "StringValue": "x"}}, "must not begin"),
        ({"x": {"DataType": "Text", "StringValue": "x"}}, "type"),
        ({"x": {"DataType": "Number", "StringValue": "ten"}}, "number"),
        ({"x": {"DataType": "String", "StringValue": ""}}, "non-empty"),
        ({"x": {"DataType": "Binary", "StringValue": "x"}}, "BinaryValue"),
        ({"a..b": {"DataType": "String", "StringValue": "x"}}, "invalid"),
    ],
    ids=["many", "reserved", "type", "number", "empty", "binary", "dots"],
)
def test_attributes_of_messages_that_may_not_be_so_are_refused(
    sqs: Queues, attributes: dict[str, Any], what: str
) -> None:
    url = sqs.make()
    with pytest.raises(ClientError, match=what):
        sqs.send(url, "hello", MessageAttributes=attributes)


def test_the_longest_message_fits_and_one_more_byte_does_not(sqs: Queues) -> None:
    url = sqs.make()
    body = "\t" * (1024 * 1024)  # Two bytes each in JSON.
    sqs.send(url, body)
    (message,) = sqs.receive(url)
    assert message["Body"] == body
    with pytest.raises(ClientError, match="shorter"):
        sqs.send(url, body + "x")
    small = sqs.make(MaximumMessageSize="1024")
    with pytest.raises(ClientError, match="shorter"):
        sqs.send(
            small,
            "x" * 1000,
            MessageAttributes={"n" * 20: {"DataType": "String", "StringValue": "v"}},
        )


@pytest.mark.parametrize("name", ["", "a b", "x" * 81, "x/y", "x.fifo.fifo", "ü"])
def test_names_that_sqs_cannot_have_are_refused(sqs: Queues, name: str) -> None:
    with pytest.raises(ClientError):
        sqs.client.create_queue(QueueName=name)
