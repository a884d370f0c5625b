"""Two doors to the same queues: our client for Python, and Amazon's for SQS.

Both note what was asked, told and given as the checker of queues wants to have it
(`kafkaesque.sim.queues.history`). What a client promises is taken at its word: a put that raises
what says "nothing was done" is a refused one, whose message must never be seen.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from kafkaesque import Client, Message
from kafkaesque.client.errors import KafkaesqueError, LockLost, OutcomeUnknown, QueueNotFound
from kafkaesque.client.queue_client import Received
from kafkaesque.sim.queues.checks import held_until
from kafkaesque.sim.queues.history import (
    Act,
    Delivery,
    Outcome,
    QueueHistory,
    QueueSpec,
    Sent,
    What,
)

TIMEOUT_S: Final = 20.0
ACCOUNT: Final = "000000000000"
#: What the server says went wrong at its own side.
SERVER_ERROR: Final = 500

#: Is told by name what a client was told of that may be.
Tell = Callable[[str], None]


def true_ms() -> float:
    """Return the time by which locks are judged."""
    return time.monotonic() * 1_000


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


class Door(Protocol):
    """How somebody uses queues; each has one for himself."""

    def put(self, sent: Sent) -> None:
        """Put a message, and note in it what is known of it."""

    def take(self, spec: QueueSpec, count: int, lock_ms: int, wait_ms: int) -> Sequence[Delivery]:
        """Take messages, and note them; a lock of -1: as the queue has it."""

    def act(self, what: What, delivery: Delivery, lock_ms: int = 0) -> None:
        """Say what becomes of a message that was taken here, and note it."""

    def close(self) -> None:
        """Hang up; what was taken stays locked."""


@dataclass(slots=True, kw_only=True, eq=False)
class ClientDelivery(Delivery):
    """A message as our client gave it."""

    received: Received


@dataclass(slots=True, kw_only=True, eq=False)
class SqsDelivery(Delivery):
    """A message as SQS gave it."""

    receipt: str


class ClientDoor:
    """Our client for Python."""

    def __init__(self, client: Client, history: QueueHistory, tell: Tell) -> None:
        self._client: Final = client
        self._history: Final = history
        self._tell: Final = tell

    def close(self) -> None:
        """See `Door`."""
        self._client.close()

    def put(self, sent: Sent) -> None:
        """See `Door`."""
        message = Message(sent.value, group=sent.group, id=sent.identity or None)
        try:
            sent.offsets.add(self._client.put(sent.queue, message))
        except QueueNotFound:
            raise
        except OutcomeUnknown as error:
            self._tell(type(error).__name__)
        except KafkaesqueError as error:
            self._tell(type(error).__name__)
            # It may be there since the last time, if it was put before.
            if not sent.identity:
                sent.outcome = Outcome.REFUSED
        else:
            sent.outcome = Outcome.DONE

    def take(self, spec: QueueSpec, count: int, lock_ms: int, wait_ms: int) -> Sequence[Delivery]:
        """See `Door`."""
        sent_ms, sent_wall_ms = true_ms(), _wall_ms()
        lock = None if lock_ms < 0 else lock_ms / 1_000
        try:
            found = self._client.get_many(spec.name, count, wait_ms / 1_000, lock=lock)
        except QueueNotFound:
            raise
        except KafkaesqueError as error:
            self._tell(type(error).__name__)
            return []
        deliveries = [
            ClientDelivery(
                queue=spec.name,
                partition=each.partition,
                offset=each.offset,
                attempt=each.attempt,
                failures=each.failures,
                value=each.value,
                deaths=tuple(
                    (death["queue"], death["reason"], death["attempts"]) for death in each.deaths
                ),
                sent_ms=sent_ms,
                answered_ms=true_ms(),
                lock_ms=spec.lock_ms_min if lock_ms < 0 else lock_ms,
                sent_wall_ms=sent_wall_ms,
                answered_wall_ms=_wall_ms(),
                received=each,
            )
            for each in found
        ]
        self._history.note_deliveries(list(deliveries))
        return deliveries

    def act(self, what: What, delivery: Delivery, lock_ms: int = 0) -> None:
        """See `Door`."""
        assert isinstance(delivery, ClientDelivery)
        received = delivery.received
        calls: dict[What, Callable[[], None]] = {
            What.SETTLE: lambda: self._client.ack(received),
            What.RELEASE: lambda: self._client.release(received),
            What.FAIL: lambda: self._client.release(received, failed=True),
            What.REJECT: lambda: self._client.reject(received),
            What.EXTEND: lambda: self._client.extend(received, lock=lock_ms / 1_000),
        }
        act = Act(what=what, sent_ms=true_ms(), lock_ms=lock_ms)
        delivery.acts.append(act)
        try:
            calls[what]()
        except QueueNotFound:
            raise
        except LockLost:
            act.outcome = Outcome.REFUSED
        except KafkaesqueError as error:
            self._tell(type(error).__name__)
        else:
            act.outcome = Outcome.DONE


class MessageNumbers:
    """Numbers for the ids of messages, which say nothing themselves."""

    def __init__(self) -> None:
        self._next: Final = itertools.count()
        self._numbers: Final[dict[str, int]] = {}

    def of(self, message: Mapping[str, Any]) -> int:
        """Return the sequence number of a message that has one, and else a number for its id."""
        sequence = message.get("Attributes", message).get("SequenceNumber")
        if sequence is not None:
            return int(sequence)
        return self._numbers.setdefault(message["MessageId"], next(self._next))


class SqsDoor:
    """Amazon's client; it changes the broker when one does not answer.

    Each request is sent once: what is repeated is repeated here, where it is noted. As SQS counts
    receives, and nothing else, an attempt is what it says.
    """

    def __init__(
        self,
        clients: Sequence[tuple[str, Any]],
        history: QueueHistory,
        numbers: MessageNumbers,
        dice: random.Random,
        tell: Tell,
    ) -> None:
        """`clients` are those of each broker, with its address."""
        self._clients: Final = clients
        self._history: Final = history
        self._numbers: Final = numbers
        self._tell: Final = tell
        self._at = dice.randrange(len(clients))

    def close(self) -> None:
        """See `Door`."""
        for _, client in self._clients:
            client.close()

    def _ask(self, operation: str, queue: str, **asked: Any) -> dict[str, Any]:
        address, client = self._clients[self._at]
        url = f"{address}/{ACCOUNT}/{queue}"
        try:
            answer: dict[str, Any] = getattr(client, operation)(QueueUrl=url, **asked)
        except (ClientError, BotoCoreError) as error:
            if _code_of(error) == "AWS.SimpleQueueService.NonExistentQueue":
                raise
            self._tell(_code_of(error))
            self._at = (self._at + 1) % len(self._clients)
            raise _NotDoneError(is_refused=_is_refused(error)) from error
        return answer

    def put(self, sent: Sent) -> None:
        """See `Door`."""
        asked: dict[str, Any] = {"MessageBody": sent.value.decode()}
        if sent.group:
            asked["MessageGroupId"] = sent.group.decode()
        if sent.identity:
            asked["MessageDeduplicationId"] = sent.identity.decode()
        try:
            answer = self._ask("send_message", sent.queue, **asked)
        except _NotDoneError as error:
            if error.is_refused and not sent.identity:
                sent.outcome = Outcome.REFUSED
            return
        sent.outcome = Outcome.DONE
        sent.offsets.add(self._numbers.of(answer))

    def take(self, spec: QueueSpec, count: int, lock_ms: int, wait_ms: int) -> Sequence[Delivery]:
        """See `Door`; locks and waits are whole seconds."""
        asked: dict[str, Any] = {} if lock_ms < 0 else {"VisibilityTimeout": lock_ms // 1_000}
        sent_ms, sent_wall_ms = true_ms(), _wall_ms()
        try:
            answer = self._ask(
                "receive_message",
                spec.name,
                # More than one of a group would be given to one consumer at once.
                MaxNumberOfMessages=1 if spec.is_ordered else count,
                WaitTimeSeconds=wait_ms // 1_000,
                MessageSystemAttributeNames=["All"],
                **asked,
            )
        except _NotDoneError:
            return []
        deliveries = [
            SqsDelivery(
                queue=spec.name,
                partition=0,
                offset=self._numbers.of(each),
                attempt=int(each["Attributes"]["ApproximateReceiveCount"]),
                failures=int(each["Attributes"]["ApproximateReceiveCount"]) - 1,
                value=each["Body"].encode(),
                deaths=(),
                sent_ms=sent_ms,
                answered_ms=true_ms(),
                lock_ms=spec.lock_ms_min if lock_ms < 0 else lock_ms,
                sent_wall_ms=sent_wall_ms,
                answered_wall_ms=_wall_ms(),
                receipt=each["ReceiptHandle"],
            )
            for each in answer.get("Messages", [])
        ]
        self._history.note_deliveries(list(deliveries))
        return deliveries

    def act(self, what: What, delivery: Delivery, lock_ms: int = 0) -> None:
        """See `Door`; SQS knows no release that does not count, and no rejection."""
        assert isinstance(delivery, SqsDelivery)
        until_ms = held_until(delivery)
        asked: dict[str, Any] = {"ReceiptHandle": delivery.receipt}
        operation = "delete_message"
        if what is not What.SETTLE:
            operation = "change_message_visibility"
            asked["VisibilityTimeout"] = 0 if what is What.FAIL else lock_ms // 1_000
        act = Act(what=what, sent_ms=true_ms(), lock_ms=lock_ms)
        delivery.acts.append(act)
        try:
            self._ask(operation, delivery.queue, **asked)
        except _NotDoneError as error:
            if error.is_refused:
                act.outcome = Outcome.REFUSED
            return
        # Deleting succeeds, too, where the lock has ended and somebody else has the message.
        if what is not What.SETTLE or true_ms() < until_ms:
            act.outcome = Outcome.DONE


class _NotDoneError(Exception):
    """A request was not answered as it should be."""

    def __init__(self, *, is_refused: bool) -> None:
        super().__init__()
        self.is_refused: Final = is_refused


def _code_of(error: ClientError | BotoCoreError) -> str:
    if isinstance(error, ClientError):
        return str(error.response["Error"]["Code"])
    return type(error).__name__


def _is_refused(error: ClientError | BotoCoreError) -> bool:
    """Return whether it is certain that nothing was done, and that nothing will be."""
    if not isinstance(error, ClientError):
        return False
    status = error.response["ResponseMetadata"]["HTTPStatusCode"]
    return int(status) < SERVER_ERROR


def sqs_clients(addresses: Sequence[str]) -> list[tuple[str, Any]]:
    """Return Amazon's clients of all brokers; of one thread each."""
    config = Config(
        retries={"total_max_attempts": 1}, connect_timeout=3, read_timeout=TIMEOUT_S + 5
    )
    session = boto3.session.Session(
        aws_access_key_id="any", aws_secret_access_key="any", region_name="us-east-1"
    )
    return [
        (address, session.client("sqs", endpoint_url=address, config=config))
        for address in addresses
    ]
