"""Clients of Amazon SQS, in both of its protocols."""

from __future__ import annotations

from typing import Any, ClassVar, Final
from urllib.parse import urlencode

from kafkaesque.protocols.sqs.service import OPERATIONS
from kafkaesque.sim.cluster import SQS_PORT
from tests.unit.gateway_walks.http import HttpSpeaker

URL: Final = "http://localhost:9324/000000000000/"
QUEUES: Final = ("q0", "q1", "f0.fifo", "f1.fifo")
ATTRIBUTES: Final = (
    ("VisibilityTimeout", ("0", "1", "30", "x", "43201")),
    ("DelaySeconds", ("0", "5", "901")),
    ("MaximumMessageSize", ("1024", "1048576", "5")),
    ("MessageRetentionPeriod", ("60", "1209600", "1")),
    ("ReceiveMessageWaitTimeSeconds", ("0", "20", "21")),
    (
        "RedrivePolicy",
        (
            '{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:q1","maxReceiveCount":"1"}',
            "x",
            "",
        ),
    ),
    ("RedriveAllowPolicy", ('{"redrivePermission":"denyAll"}', "x")),
    ("FifoQueue", ("true", "false")),
    ("ContentBasedDeduplication", ("true", "false", "x")),
    ("DeduplicationScope", ("queue", "messageGroup")),
    ("FifoThroughputLimit", ("perQueue", "perMessageGroupId")),
    ("Policy", ("{}", "x")),
    ("KmsMasterKeyId", ("x", "")),
    ("X", ("x",)),
)


class SqsSpeaker(HttpSpeaker):
    port: ClassVar = SQS_PORT
    words: ClassVar = {
        "QueueName": QUEUES,
        "QueueUrl": tuple(URL + each for each in (*QUEUES, *QUEUES, "none", "q2")),
        "MessageBody": ("b", "x" * 5_000, "\u00e9", "\0", "", "\ufffe", "\ud800"),
        "Id": ("a", "b", "c"),
        "DelaySeconds": (0, 0, 1, 5, 900, -1, 901),
        "VisibilityTimeout": (0, 1, 30, 43_200, -1),
        "WaitTimeSeconds": (0, 0, 1, 5, 20, 21),
        "MaxNumberOfMessages": (1, 10, 0, 11),
        "MessageGroupId": ("g", "h", "", "\u00e9"),
        "MessageDeduplicationId": ("d", "e"),
        "AttributeNames": ("All", "QueueArn", "x"),
        "MessageAttributeNames": ("All", ".*", "a.*", "x"),
        "MessageSystemAttributeNames": ("All", "SentTimestamp"),
        "DataType": ("String", "Number", "Binary", "String.x", "x", ""),
        "StringValue": ("x", "5", "", "1e400"),
        "BinaryValue": ("YQ==", "x"),
        "SourceArn": tuple(f"arn:aws:sqs:us-east-1:000000000000:{each}" for each in QUEUES),
        "DestinationArn": tuple(f"arn:aws:sqs:us-east-1:000000000000:{each}" for each in QUEUES),
        "MaxResults": (1, 1_000, 0, -1),
        "ReceiveRequestAttemptId": ("r",),
        "QueueNamePrefix": ("q", "", "f"),
    }
    often: ClassVar = (
        "SendMessage",
        "ReceiveMessage",
        "ReceiveMessage",
        "DeleteMessage",
        "SendMessageBatch",
        "CreateQueue",
        "ChangeMessageVisibility",
        "DeleteMessageBatch",
    )

    def say(self) -> bytes:
        dice = self.dice
        name = dice.choice(self.often) if dice.randrange(3) else dice.choice(tuple(OPERATIONS))
        given = self.fill.struct(OPERATIONS[name].request)
        if name in ("CreateQueue", "SetQueueAttributes"):
            given["Attributes"] = {}
            for _ in range(dice.choice((0, 0, 1, 2))):
                key, values = dice.choice(ATTRIBUTES)
                given["Attributes"][key] = dice.choice(values)
            if str(given.get("QueueName", "")).endswith(".fifo"):
                given["Attributes"]["FifoQueue"] = "true"
        if self.one_in(4):
            flat = {"Action": name, "Version": "2012-11-05"}
            flatten("", given, flat)
            form = urlencode(
                {key: str(value).encode("utf-8", "replace") for key, value in flat.items()}
            ).encode()
            if self.one_in(3):
                return self.request("GET", "/?" + form.decode()[:8_000], None)
            return self.request(
                "POST",
                dice.choice(("/", "/000000000000/q0")),
                form,
                Content_Type="application/x-www-form-urlencoded",
            )
        return self.request(
            "POST",
            "/",
            self.json(given),
            X_Amz_Target=f"AmazonSQS.{name}",
            Content_Type="application/x-amz-json-1.0",
        )


def flatten(prefix: str, found: Any, into: dict[str, Any]) -> None:
    if isinstance(found, dict):
        for key, value in found.items():
            flatten(f"{prefix}.{key}" if prefix else key, value, into)
    elif isinstance(found, list):
        for number, value in enumerate(found, 1):
            flatten(f"{prefix}.{number}", value, into)
    elif found is not None:
        into[prefix] = found
