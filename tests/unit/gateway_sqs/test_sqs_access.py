"""Access keys and rights over SQS: boto3 signs, and brokers judge."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from typing import Any, Final, TypeVar

import boto3
import msgspec
import pytest
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError

from kafkaesque.access.administration import (
    ChangeUser,
    DeleteAccessKey,
    MadeAccessKey,
    MakeAccessKey,
)
from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.broker.listeners import KAFKA, AccessMode, Listener
from kafkaesque.broker.listeners import SQS as PROTOCOL
from kafkaesque.broker.metadata.queue_names import QueueName
from kafkaesque.chassis.body_room import BodyRoom
from kafkaesque.chassis.rights import check_rows
from kafkaesque.env.network import Address
from kafkaesque.gateway.sqs import authorization, receiving
from kafkaesque.gateway.sqs.gateway import SqsGateway
from kafkaesque.model.errors import InvariantBroken
from kafkaesque.model.message_headers import DEATH, ORIGIN, STORED_SQS
from kafkaesque.protocols.kafka.messages.alter_access_request import AlterAccessRequest
from kafkaesque.protocols.sqs.service import OPERATIONS
from tests.unit.gateway_kafka.live import LiveCluster
from tests.unit.gateway_kafka.secured import Client, allow, forget_rules
from tests.unit.gateway_kafka.secured_ports import SecuredPorts, at_secured_ports

ResultT = TypeVar("ResultT")
ROOT: Final = "root"


class Secured(SecuredPorts):
    """A broker with a port for SQS where clients sign, and one where they may."""

    def __init__(self, live: LiveCluster) -> None:
        super().__init__(live, SqsGateway, PROTOCOL, users=[ROOT])
        self.kafka = Client(live)
        self.kafka.log_in(ROOT)

    def change(self, change: MakeAccessKey | DeleteAccessKey | ChangeUser) -> Any:
        answer = self.kafka.ask(AlterAccessRequest(msgspec.json.encode(change)))
        assert answer.error_code == 0, answer.error_message
        return answer.answer

    def from_outside(self) -> Client:
        """Somebody at a port that other machines reach, and that is in the clear."""
        node = self.live.nodes[1]
        listener = Listener(
            protocol=KAFKA,
            name="outside",
            advertised=Address("127.0.0.1", 1),
            bind=Address("0.0.0.0", 0),
            access=AccessMode.REQUIRED,
        )
        inside = node._address
        node._address = Address("127.0.0.1", node.gateway.start(listener).port)
        try:
            client = Client(self.live)
        finally:
            node._address = inside
        client.log_in(ROOT)
        return client

    def key(self, user: str) -> MadeAccessKey:
        return msgspec.json.decode(self.change(MakeAccessKey(user=user)), type=MadeAccessKey)

    def ask(
        self,
        operation: str,
        key: MadeAccessKey | None,
        mode: AccessMode = AccessMode.REQUIRED,
        secret: str = "",
        **asked: Any,
    ) -> Any:
        """Have boto3 do something, signed with a key."""
        client = self.client(key, mode, secret)
        try:
            return self.in_thread(lambda: getattr(client, operation)(**asked))
        finally:
            client.close()

    def client(
        self,
        key: MadeAccessKey | None,
        mode: AccessMode = AccessMode.REQUIRED,
        secret: str = "",
    ) -> Any:
        """Return a client that signs with a key."""
        config: dict[str, Any] = {"retries": {"total_max_attempts": 1}}
        if key is None:
            config["signature_version"] = UNSIGNED
        return boto3.client(
            "sqs",
            endpoint_url=f"http://127.0.0.1:{self.ports[mode]}",
            region_name="us-east-1",
            aws_access_key_id=key.access_key_id if key else "none",
            aws_secret_access_key=secret or (key.secret if key else "none"),
            config=Config(**config),
        )

    def refusal(self, operation: str, key: MadeAccessKey | None, **more: Any) -> str:
        with pytest.raises(ClientError) as caught:
            self.ask(operation, key, **more)
        return str(caught.value.response["Error"]["Code"])


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with at_secured_ports(tmp_path_factory.mktemp("sqs"), Secured) as found:
        yield found


def test_who_signs_with_a_key_is_its_user(secured: Secured) -> None:
    key = secured.key(ROOT)
    url = secured.ask("create_queue", key, QueueName="mine")["QueueUrl"]
    secured.ask("send_message", key, QueueUrl=url, MessageBody="hello")
    found = secured.ask(
        "receive_message", key, QueueUrl=url, MessageSystemAttributeNames=["SenderId"]
    )
    assert found["Messages"][0]["Attributes"] == {"SenderId": ROOT}


def test_who_does_not_sign_or_signs_wrong_is_refused(secured: Secured) -> None:
    key = secured.key(ROOT)
    made_up = MadeAccessKey(access_key_id="KFQMADEUP", secret="secret")
    assert secured.refusal("list_queues", None) == "MissingAuthenticationToken"
    assert secured.refusal("list_queues", made_up) == "InvalidClientTokenId"
    assert secured.refusal("list_queues", key, secret="wrong") == "SignatureDoesNotMatch"
    assert "ResponseMetadata" in secured.ask("list_queues", key)


def test_a_request_that_was_signed_long_ago_is_refused(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, now = secured.key(ROOT), dt.datetime.now(dt.UTC)
    for minutes, code in ((-16, "RequestExpired"), (16, "RequestExpired")):
        then = now + dt.timedelta(minutes=minutes)
        monkeypatch.setattr("botocore.auth.get_current_datetime", lambda then=then: then)
        assert secured.refusal("list_queues", key) == code
    monkeypatch.undo()
    assert "ResponseMetadata" in secured.ask("list_queues", key)


def test_a_key_that_is_removed_lets_nobody_in(secured: Secured) -> None:
    key = secured.key(ROOT)
    secured.ask("list_queues", key)
    secured.change(DeleteAccessKey(access_key_id=key.access_key_id))
    assert secured.refusal("list_queues", key) == "InvalidClientTokenId"


def test_a_user_that_is_disabled_does_not_get_in(secured: Secured) -> None:
    key = secured.key("leaver")
    secured.ask("list_queues", key)
    secured.change(ChangeUser(name="leaver", is_disabled=True))
    assert secured.refusal("list_queues", key) == "InvalidClientTokenId"
    secured.change(ChangeUser(name="leaver", is_disabled=False))
    secured.ask("list_queues", key)


def test_a_secret_is_not_sent_where_others_can_read_along(secured: Secured) -> None:
    client = secured.from_outside()
    change = msgspec.json.encode(MakeAccessKey(user="spied"))
    answer = client.ask(AlterAccessRequest(change))
    assert answer.error_code
    assert "TLS" in answer.error_message
    assert "spied" not in secured.live.broker.doors.access.state.users


def test_a_rule_that_goes_while_a_request_waits_for_messages(secured: Secured) -> None:
    root, other = secured.key(ROOT), secured.key("waiter")
    url = secured.ask("create_queue", root, QueueName="awaited")["QueueUrl"]
    allow(secured.live, "waiter", Operation.READ, ResourceType.QUEUE, "awaited")
    client = secured.client(other)
    waiting = secured.begin_in_thread(
        lambda: client.receive_message(QueueUrl=url, WaitTimeSeconds=10)
    )
    secured.live.run_for(0.5)
    assert not waiting.done()
    forget_rules(secured.live, "waiter")
    secured.ask("send_message", root, QueueUrl=url, MessageBody="not for everybody")
    secured.live.wait(waiting.done, "the request is answered")
    with pytest.raises(ClientError) as caught:
        waiting.result()
    assert caught.value.response["Error"]["Code"] == "AccessDenied"
    # It was given back.
    found = secured.ask("receive_message", root, QueueUrl=url, WaitTimeSeconds=5)
    assert [each["Body"] for each in found["Messages"]] == ["not for everybody"]
    client.close()


def test_rules_say_who_may_do_what(secured: Secured) -> None:
    root, other = secured.key(ROOT), secured.key("other")
    url = secured.ask("create_queue", root, QueueName="guarded")["QueueUrl"]
    assert secured.refusal("create_queue", other, QueueName="theirs") == "AccessDenied"
    assert secured.refusal("send_message", other, QueueUrl=url, MessageBody="x") == "AccessDenied"
    assert secured.ask("list_queues", other).get("QueueUrls", []) == []
    allow(secured.live, "other", Operation.WRITE, ResourceType.QUEUE, "guarded")
    secured.ask("send_message", other, QueueUrl=url, MessageBody="x")
    assert secured.ask("list_queues", other)["QueueUrls"] == [url]
    assert secured.refusal("receive_message", other, QueueUrl=url) == "AccessDenied"
    allow(secured.live, "other", Operation.READ, ResourceType.QUEUE, "guarded")
    assert len(secured.ask("receive_message", other, QueueUrl=url)["Messages"]) == 1
    assert secured.refusal("delete_queue", other, QueueUrl=url) == "AccessDenied"
    assert (
        secured.refusal("set_queue_attributes", other, QueueUrl=url, Attributes={})
        == "AccessDenied"
    )
    forget_rules(secured.live, "other")


def test_moving_needs_the_right_to_write_where_it_goes(secured: Secured) -> None:
    root, mover = secured.key(ROOT), secured.key("mover")
    dead = secured.ask("create_queue", root, QueueName="dead")["QueueUrl"]
    arn = "arn:aws:sqs:us-east-1:000000000000:dead"
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    secured.ask("create_queue", root, QueueName="work", Attributes={"RedrivePolicy": policy})
    for operation in (Operation.READ, Operation.WRITE):
        allow(secured.live, "mover", operation, ResourceType.QUEUE, "dead")
    assert secured.refusal("start_message_move_task", mover, SourceArn=arn) == "AccessDenied"
    allow(secured.live, "mover", Operation.WRITE, ResourceType.QUEUE, "work")
    handle = secured.ask("start_message_move_task", mover, SourceArn=arn)["TaskHandle"]
    other = secured.key("other")
    assert secured.refusal("cancel_message_move_task", other, TaskHandle=handle) == "AccessDenied"
    assert dead
    forget_rules(secured.live, "mover")


def test_where_dead_letters_go_does_not_tell_what_there_is(secured: Secured) -> None:
    root, maker = secured.key(ROOT), secured.key("maker")
    secured.ask("create_queue", root, QueueName="salaries")
    allow(secured.live, "maker", Operation.CREATE, ResourceType.QUEUE, "maker-*")

    def said(target: str) -> str:
        arn = f"arn:aws:sqs:us-east-1:000000000000:{target}"
        policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
        with pytest.raises(ClientError) as caught:
            secured.ask(
                "create_queue", maker, QueueName="maker-q", Attributes={"RedrivePolicy": policy}
            )
        return str(caught.value).replace(target, "it")

    assert said("salaries") == said("salariez")
    forget_rules(secured.live, "maker")


def test_a_queue_that_was_not_named_is_not_named_in_a_refusal(secured: Secured) -> None:
    root, mover = secured.key(ROOT), secured.key("unnamed")
    secured.ask("create_queue", root, QueueName="letters")
    arn = "arn:aws:sqs:us-east-1:000000000000:letters"
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    secured.ask("create_queue", root, QueueName="hushhush", Attributes={"RedrivePolicy": policy})
    for operation in (Operation.READ, Operation.WRITE):
        allow(secured.live, "unnamed", operation, ResourceType.QUEUE, "letters")
    with pytest.raises(ClientError) as caught:
        secured.ask("start_message_move_task", mover, SourceArn=arn)
    assert caught.value.response["Error"]["Code"] == "AccessDenied"
    assert "hushhush" not in str(caught.value)
    forget_rules(secured.live, "unnamed")


def test_a_message_that_somebody_has_made_up_is_received(secured: Secured) -> None:
    """It would otherwise stop the broker of whoever receives it, in the turn it comes in."""
    root = secured.key(ROOT)
    url = secured.ask("create_queue", root, QueueName="poisoned")["QueueUrl"]
    doors = secured.live.broker.doors
    queue = doors.cluster.state.queues[QueueName("/", "poisoned")]
    nested = b'{"x": ' + b"[" * 2_000 + b"]" * 2_000 + b"}"
    headers = ((STORED_SQS, nested), (ORIGIN, nested), (DEATH, nested), ("a", b"\xff"))
    outcomes: list[object] = []
    message = NewMessage(b"\xff", headers=headers)
    doors.queues.put(queue.topic_id, [message], 5_000, outcomes.append)
    secured.live.wait(lambda: bool(outcomes), "the message is put")
    found = secured.ask(
        "receive_message",
        root,
        QueueUrl=url,
        WaitTimeSeconds=5,
        MessageSystemAttributeNames=["All"],
        MessageAttributeNames=["All"],
    )
    assert len(found["Messages"]) == 1
    assert not secured.live.fatal


def test_a_defect_in_a_later_turn_costs_its_request(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = secured.key(ROOT)
    url = secured.ask("create_queue", root, QueueName="defect")["QueueUrl"]
    secured.ask("send_message", root, QueueUrl=url, MessageBody="x")

    def fail(*_: object) -> None:
        raise KeyError("a defect")

    monkeypatch.setattr(receiving, "message_of", fail)
    assert secured.refusal("receive_message", root, QueueUrl=url) in ("InternalFailure", "500")
    assert not secured.live.fatal


def test_attempts_are_remembered_within_bounds(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each had up to 4 MiB kept for five minutes, a thousand times."""
    monkeypatch.setattr(receiving, "ATTEMPTS_BYTES_MAX", 5_000)
    root = secured.key(ROOT)
    fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "true", "VisibilityTimeout": "0"}
    url = secured.ask("create_queue", root, QueueName="many.fifo", Attributes=fifo)["QueueUrl"]
    secured.ask("send_message", root, QueueUrl=url, MessageBody="x" * 2_000, MessageGroupId="g")
    attempts = secured.gateway._handlers["ReceiveMessage"].__self__
    for number in range(5):
        found = secured.ask(
            "receive_message",
            root,
            QueueUrl=url,
            WaitTimeSeconds=5,
            VisibilityTimeout=0,
            ReceiveRequestAttemptId=f"attempt-{number}",
        )
        assert len(found["Messages"]) == 1
    assert 1 <= len(attempts._attempts) <= 2
    assert attempts._attempts_bytes <= 5_000


def test_where_nobody_has_to_sign_all_signatures_are_well(secured: Secured) -> None:
    made_up = MadeAccessKey(access_key_id="anybody", secret="anything")
    mode = AccessMode.OPEN
    url = secured.ask("create_queue", made_up, mode, QueueName="open")["QueueUrl"]
    secured.ask("send_message", None, mode, QueueUrl=url, MessageBody="hello")


def test_where_clients_may_sign_those_who_do_are_judged(secured: Secured) -> None:
    mode = AccessMode.OPTIONAL
    url = secured.ask("create_queue", None, mode, QueueName="optional")["QueueUrl"]
    stranger = secured.key("stranger")
    assert secured.refusal("purge_queue", stranger, mode=mode, QueueUrl=url) == "AccessDenied"
    secured.ask("purge_queue", None, mode, QueueUrl=url)


def test_strangers_may_not_send_much(secured: Secured) -> None:
    made_up = MadeAccessKey(access_key_id="KFQMADEUP", secret="secret")
    asked = {"QueueUrl": "http://x/000000000000/mine", "MessageBody": "x" * 100_000}
    refusal = secured.refusal("send_message", made_up, **asked)
    assert refusal in ("RequestEntityTooLarge", "413")


def test_who_finds_no_room_is_told_to_try_again(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = secured.key(ROOT)
    monkeypatch.setattr(BodyRoom, "take", lambda *_: False)
    assert secured.refusal("list_queues", key) == "ServiceUnavailable"


def test_an_operation_without_a_row_stops_the_start() -> None:
    check_rows(authorization.ROWS, OPERATIONS)
    rows = {name: row for name, row in authorization.ROWS.items() if name != "PurgeQueue"}
    with pytest.raises(InvariantBroken, match="PurgeQueue"):
        check_rows(rows, OPERATIONS)
