"""Brokers with ports for SQS, and Amazon's client for Python at them."""

from __future__ import annotations

import itertools
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from prometheus_client.parser import text_string_to_metric_families

from kafkaesque.cli.broker_ports import unused_ports
from tests.clients.cluster import KafkaesqueCluster
from tests.waiting import DEADLINE_S

_numbers = itertools.count()


class SqsCluster(KafkaesqueCluster):
    """Brokers of ours, each with a port for SQS and one for its metrics."""

    def __init__(self, brokers: int, directory: Path) -> None:
        ports = unused_ports(2 * brokers)
        self.sqs_ports, self._admin_ports = ports[:brokers], ports[brokers:]
        super().__init__(brokers, directory=directory, sections=self._section)

    def _section(self, number: int) -> str:
        ports = {"sqs": self.sqs_ports[number - 1], "admin": self._admin_ports[number - 1]}
        return "".join(
            f'\n[[listener]]\nprotocol = "{protocol}"\nport = {port}\n'
            for protocol, port in ports.items()
        )

    def url(self, number: int = 1) -> str:
        """Where a broker is asked."""
        return f"http://127.0.0.1:{self.sqs_ports[number - 1]}"

    def requests_begun(self, number: int) -> float:
        """How many requests over SQS a broker has begun with."""
        url = f"http://127.0.0.1:{self._admin_ports[number - 1]}/metrics"
        with urllib.request.urlopen(url, timeout=DEADLINE_S) as page:
            families = text_string_to_metric_families(page.read().decode())
            samples = [sample for family in families for sample in family.samples]
        return sum(
            sample.value
            for sample in samples
            if sample.name == "kafkaesque_listener_requests_total"
            and sample.labels["protocol"] == "sqs"
        )


@contextmanager
def sqs_client(url: str, key: str = "any", secret: str = "any", **more: Any) -> Iterator[Any]:
    """Amazon's client, unchanged."""
    client = boto3.client(
        "sqs",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        config=Config(**{"retries": {"total_max_attempts": 1}, "read_timeout": 60, **more}),
    )
    try:
        yield client
    finally:
        client.close()


class Queues:
    """Queues of one test, and what it does with them most."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def make(self, name: str = "queue", *, fifo: bool = False, **attributes: str) -> str:
        """Make a queue of a name of its own; return its URL."""
        name = f"{name}-{next(_numbers)}"
        if fifo:
            name, attributes = f"{name}.fifo", {"FifoQueue": "true", **attributes}
        url: str = self.client.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        return url

    def arn(self, url: str) -> str:
        found = self.attributes(url, "QueueArn")
        return found["QueueArn"]

    def attributes(self, url: str, *names: str) -> dict[str, str]:
        answer = self.client.get_queue_attributes(
            QueueUrl=url, AttributeNames=list(names) or ["All"]
        )
        found: dict[str, str] = answer.get("Attributes", {})
        return found

    def send(self, url: str, body: str, **more: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self.client.send_message(QueueUrl=url, MessageBody=body, **more)
        return answer

    def receive(self, url: str, count: int = 10, **more: Any) -> list[dict[str, Any]]:
        answer = self.client.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=count,
            **{"MessageSystemAttributeNames": ["All"], "MessageAttributeNames": ["All"], **more},
        )
        found: list[dict[str, Any]] = answer.get("Messages", [])
        return found

    def delete(self, url: str, message: dict[str, Any]) -> None:
        self.client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


def bodies(messages: list[dict[str, Any]]) -> list[str]:
    return [each["Body"] for each in messages]
