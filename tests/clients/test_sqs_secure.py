"""`kafkaesque up --secure` with a port for SQS: TLS, signatures, and rules, by Amazon's clients."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, SSLError

from tests.clients.node_client import missing, run_node
from tests.clients.test_up_secure import SecureUp
from tests.waiting import eventually


class SecureSqs:
    """A cluster of one broker, and a user's key."""

    def __init__(self, data: Path) -> None:
        self.up = SecureUp(data, "--secure", brokers=1)
        self.url = f"https://127.0.0.1:{self.up.ports['sqs']}"
        self.ca = str(data / "certs" / "ca.pem")

    def prepare(self) -> None:
        assert self.up.event("ready")["is_secure"] is True
        done = self.up.command("admin", "user", "key", "create", "worker", "--json")
        assert done.returncode == 0, done.stderr
        self.key: dict[str, str] = json.loads(done.stdout)
        for operation in ("create", "read", "write", "describe", "delete"):
            words = (
                "rule",
                "create",
                "User:worker",
                "-o",
                operation,
                "--queue",
                "work-",
                "--prefix",
            )
            done = self.up.command("admin", *words)
            assert done.returncode == 0, done.stderr

    def client(self, **more: Any) -> Any:
        return boto3.client(
            "sqs",
            endpoint_url=self.url,
            region_name="eu-west-1",
            config=Config(retries={"total_max_attempts": 1}),
            **{
                "aws_access_key_id": self.key["access_key_id"],
                "aws_secret_access_key": self.key["secret"],
                "verify": self.ca,
                **more,
            },
        )


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureSqs]:
    found = SecureSqs(tmp_path_factory.mktemp("secure") / "data")
    try:
        found.prepare()
        yield found
    finally:
        found.up.close()


def _may(client: Any, operation: str, **asked: Any) -> bool:
    try:
        getattr(client, operation)(**asked)
    except ClientError as error:
        if error.response["Error"]["Code"] != "AccessDenied":
            raise
        return False
    return True


def test_boto3_over_tls_does_what_its_key_may(secure: SecureSqs) -> None:
    client = secure.client()
    try:
        eventually(lambda: _may(client, "create_queue", QueueName="work-a"), "the rules count")
        url = client.get_queue_url(QueueName="work-a")["QueueUrl"]
        assert url.startswith(secure.url)
        client.send_message(QueueUrl=url, MessageBody="hello")
        (message,) = client.receive_message(QueueUrl=url, MessageSystemAttributeNames=["SenderId"])[
            "Messages"
        ]
        assert (message["Body"], message["Attributes"]["SenderId"]) == ("hello", "worker")
        assert not _may(client, "create_queue", QueueName="other")
        assert not _may(client, "tag_queue", QueueUrl=url, Tags={"a": "b"})
    finally:
        client.close()


def test_the_audit_log_tells_of_queues_that_are_purged_and_redriven(secure: SecureSqs) -> None:
    client = secure.client()
    try:
        eventually(lambda: _may(client, "create_queue", QueueName="work-dead"), "the rules count")
        client.create_queue(QueueName="work-target")
        dead = client.get_queue_url(QueueName="work-dead")["QueueUrl"]
        names = ["QueueArn"]
        arn = client.get_queue_attributes(QueueUrl=dead, AttributeNames=names)["Attributes"][
            "QueueArn"
        ]
        client.purge_queue(QueueUrl=dead)
        policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 3})
        client.create_queue(QueueName="work-source", Attributes={"RedrivePolicy": policy})
        target = arn.replace("work-dead", "work-target")
        client.start_message_move_task(SourceArn=arn, DestinationArn=target)
    finally:
        client.close()

    def told() -> set[tuple[str, str, str]]:
        shown = secure.up.command("admin", "audit", "show", "--what", "change", "--json").stdout
        found = [json.loads(line) for line in shown.splitlines()]
        return {(e["operation"], e.get("resource", ""), e.get("principal", "")) for e in found}

    wanted = {(each, "work-dead", "User:worker") for each in ("purge", "redrive", "alter-configs")}
    eventually(lambda: wanted <= told(), lambda: f"{wanted} in {told()}")


def test_a_wrong_secret_and_an_unknown_authority_are_refused(secure: SecureSqs) -> None:
    wrong = secure.client(aws_secret_access_key="wrong")
    with pytest.raises(ClientError) as caught:
        wrong.list_queues()
    assert caught.value.response["Error"]["Code"] == "SignatureDoesNotMatch"
    wrong.close()
    trusting_others = secure.client(verify=True)
    with pytest.raises(SSLError):
        trusting_others.list_queues()
    trusting_others.close()


@pytest.mark.skipif(bool(missing()), reason=missing() or "it is there")
def test_the_sdk_for_javascript_signs_as_it_should(
    secure: SecureSqs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODE_EXTRA_CA_CERTS", secure.ca)
    key = {"key": secure.key["access_key_id"], "secret": secure.key["secret"]}
    found = run_node("sqs", "", endpoint=secure.url, name="work-js", **key)
    assert found["url"] == f"{secure.url}/000000000000/work-js"
    assert (found["deleted"], found["error"]) == (10, "QueueDoesNotExist")
