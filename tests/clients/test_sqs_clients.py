"""Amazon's other clients, unchanged: JavaScript, and the older query protocol."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.httpsession import URLLib3Session
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.parsers import QueryParser
from botocore.serialize import QuerySerializer

from tests.clients.node_client import missing, run_node
from tests.clients.sqs_cluster import SqsCluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqsCluster]:
    with SqsCluster(3, tmp_path_factory.mktemp("sqs")) as found:
        yield found


# -- JavaScript


@pytest.mark.skipif(bool(missing()), reason=missing() or "it is there")
def test_the_sdk_for_javascript(cluster: SqsCluster) -> None:
    found = run_node("sqs", "", endpoint=cluster.url(), key="any", secret="any", name="from-js")
    assert found == {
        "url": f"{cluster.url()}/000000000000/from-js",
        "sent": 9,
        "bodies": ["hällo", *(f"m{n}" for n in range(9))],
        "sameId": True,
        "bytes": [0, 255, 1],
        "text": "grün",
        "again": ["hällo"],
        "deleted": 10,
        "left": "0",
        "listed": [f"{cluster.url()}/000000000000/from-js"],
        "error": "QueueDoesNotExist",
        "isService": True,
    }


# -- the query protocol


#: What botocore's description called these when it spoke the query protocol.
ELEMENTS = {
    "AttributeNameList": "AttributeName",
    "ActionNameList": "ActionName",
    "AWSAccountIdList": "AWSAccountId",
    "MessageAttributeNameList": "MessageAttributeName",
    "MessageList": "Message",
    "QueueUrlList": "QueueUrl",
    "TagKeyList": "TagKey",
}
MAPS = {
    "MessageBodyAttributeMap": ("MessageAttribute", "Name", "Value"),
    "MessageBodySystemAttributeMap": ("MessageSystemAttribute", "Name", "Value"),
    "MessageSystemAttributeMap": ("Attribute", "Name", "Value"),
    "QueueAttributeMap": ("Attribute", "Name", "Value"),
    "TagMap": ("Tag", "Key", "Value"),
}


def _query_model() -> ServiceModel:
    described: Any = copy.deepcopy(Loader().load_service_model("sqs", "service-2"))
    described["metadata"]["protocol"] = "query"
    for operation in described["operations"].values():
        if "output" in operation:
            operation["output"]["resultWrapper"] = f"{operation['name']}Result"
    shapes = described["shapes"]
    for name, shape in shapes.items():
        if shape["type"] == "list":
            inner = shape["member"]["shape"]
            shape["member"]["locationName"] = ELEMENTS.get(name, inner)
        elif shape["type"] == "map":
            _, key, value = MAPS[name]
            shape["key"]["locationName"], shape["value"]["locationName"] = key, value
        for member in shape.get("members", {}).values():
            if member["shape"] in MAPS:
                member["locationName"] = MAPS[member["shape"]][0]
    return ServiceModel(described, "sqs")


class QueryClient:
    """Speaks as botocore did: its serializer, its parser, its signatures."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._model = _query_model()
        self._http = URLLib3Session()

    def __getattr__(self, operation: str) -> Any:
        def ask(**asked: Any) -> Any:
            model = self._model.operation_model(operation)
            said = QuerySerializer().serialize_to_request(asked, model)
            request = AWSRequest("POST", self._url, dict(said["headers"]), said["body"])
            request.data = request.prepare().body
            SigV4Auth(Credentials("any", "any"), "sqs", "us-east-1").add_auth(request)
            answer = self._http.send(request.prepare())
            response = {
                "headers": answer.headers,
                "status_code": answer.status_code,
                "body": answer.content,
            }
            return QueryParser().parse(response, model.output_shape)

        return ask

    def close(self) -> None:
        self._http.close()


@pytest.fixture
def old(cluster: SqsCluster) -> Iterator[QueryClient]:
    client = QueryClient(cluster.url())
    yield client
    client.close()


def test_the_query_protocol_makes_and_describes_queues(old: QueryClient) -> None:
    asked = {"QueueName": "old", "Attributes": {"VisibilityTimeout": "45"}, "tags": {"a": "1"}}
    url = old.CreateQueue(**asked)["QueueUrl"]
    assert old.GetQueueUrl(QueueName="old")["QueueUrl"] == url
    assert url in old.ListQueues(QueueNamePrefix="ol")["QueueUrls"]
    found = old.GetQueueAttributes(QueueUrl=url, AttributeNames=["VisibilityTimeout", "QueueArn"])
    assert found["Attributes"] == {
        "QueueArn": "arn:aws:sqs:us-east-1:000000000000:old",
        "VisibilityTimeout": "45",
    }
    old.SetQueueAttributes(QueueUrl=url, Attributes={"DelaySeconds": "1", "VisibilityTimeout": "9"})
    old.TagQueue(QueueUrl=url, Tags={"b": "2"})
    old.UntagQueue(QueueUrl=url, TagKeys=["a"])
    assert old.ListQueueTags(QueueUrl=url)["Tags"] == {"b": "2"}
    old.AddPermission(
        QueueUrl=url, Label="one", AWSAccountIds=["123456789012"], Actions=["SendMessage"]
    )
    old.RemovePermission(QueueUrl=url, Label="one")
    old.PurgeQueue(QueueUrl=url)
    assert old.ListDeadLetterSourceQueues(QueueUrl=url).get("queueUrls", []) == []
    arn = found["Attributes"]["QueueArn"]
    assert old.ListMessageMoveTasks(SourceArn=arn).get("Results", []) == []
    old.DeleteQueue(QueueUrl=url)
    error = old.GetQueueUrl(QueueName="old")["Error"]
    assert (error["Code"], error["Type"]) == (
        "AWS.SimpleQueueService.NonExistentQueue",
        "Sender",
    )


def test_the_query_protocol_moves_messages(old: QueryClient) -> None:
    url = old.CreateQueue(QueueName="old-messages")["QueueUrl"]
    attributes = {
        "n": {"DataType": "Number", "StringValue": "1"},
        "b": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
    }
    body = "a\rb <&> ü"
    sent = old.SendMessage(QueueUrl=url, MessageBody=body, MessageAttributes=attributes)
    batch = old.SendMessageBatch(
        QueueUrl=url,
        Entries=[
            {"Id": "x", "MessageBody": "x", "MessageAttributes": attributes},
            {"Id": "y", "MessageBody": "y", "DelaySeconds": 5000},
        ],
    )
    assert [each["Id"] for each in batch["Successful"]] == ["x"]
    assert [each["SenderFault"] for each in batch["Failed"]] == [True]
    first, second = old.ReceiveMessage(
        QueueUrl=url,
        MaxNumberOfMessages=10,
        AttributeNames=["All"],
        MessageAttributeNames=["All"],
        WaitTimeSeconds=1,
    )["Messages"]
    assert (first["Body"], second["Body"]) == (body, "x")
    assert first["MessageAttributes"] == second["MessageAttributes"] == attributes
    assert first["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    assert first["Attributes"]["ApproximateReceiveCount"] == "1"
    old.ChangeMessageVisibility(
        QueueUrl=url, ReceiptHandle=first["ReceiptHandle"], VisibilityTimeout=60
    )
    changed = old.ChangeMessageVisibilityBatch(
        QueueUrl=url,
        Entries=[{"Id": "a", "ReceiptHandle": "no", "VisibilityTimeout": 1}],
    )
    assert [each["Code"] for each in changed["Failed"]] == ["ReceiptHandleIsInvalid"]
    old.DeleteMessage(QueueUrl=url, ReceiptHandle=first["ReceiptHandle"])
    deleted = old.DeleteMessageBatch(
        QueueUrl=url, Entries=[{"Id": "a", "ReceiptHandle": second["ReceiptHandle"]}]
    )
    assert [each["Id"] for each in deleted["Successful"]] == ["a"]
    assert old.ReceiveMessage(QueueUrl=url).get("Messages", []) == []
