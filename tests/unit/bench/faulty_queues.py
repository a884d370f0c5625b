"""Queues in memory, by the interfaces of our client and of Amazon's, with one mistake at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from botocore.exceptions import ClientError

from kafkaesque import Message
from kafkaesque.client.errors import LockLost, Timeout

LOCK_MS = 3_000
LIMIT = 2
REASONS = ("settled", "expired", "too_long", "purged", "rejected", "attempts", "redriven")


class Clock:
    """Stands still, unless it is told."""

    now_ms = 1_000.0

    def __call__(self) -> float:
        self.now_ms += 1
        return self.now_ms


@dataclass(eq=False)
class Stored:
    queue: str
    offset: int
    value: bytes
    group: bytes
    attempt: int = 0
    failures: int = 0
    locked_until_ms: float = 0.0
    deaths: tuple[dict[str, Any], ...] = ()
    is_gone: bool = False


@dataclass
class Queues:
    """Queues in memory; `bug` is what they do wrong."""

    clock: Clock
    bug: str = ""
    stored: list[Stored] = field(default_factory=list)
    removed: dict[tuple[str, str], int] = field(default_factory=dict)

    def put(self, queue: str, value: bytes, group: bytes, *deaths: dict[str, Any]) -> int:
        offset = len(self.stored)
        each = Stored(queue, offset, value, group, deaths=deaths)
        each.is_gone = self.bug == "loses what it has confirmed"
        self.stored.append(each)
        return offset

    def take(self, queue: str, lock_ms: float) -> Stored | None:
        for each in self.stored:
            if each.queue != queue or each.is_gone or each.locked_until_ms > self.clock.now_ms:
                continue
            if each.group and self._is_held(each) and self.bug != "ignores groups":
                continue
            if each.attempt and each.locked_until_ms and self.fail(each):
                continue
            each.attempt += 1
            ends_early = self.bug == "ends locks early"
            each.locked_until_ms = self.clock.now_ms + (1 if ends_early else lock_ms)
            return each
        return None

    def _is_held(self, one: Stored) -> bool:
        return any(
            each.group == one.group and each.locked_until_ms > self.clock.now_ms
            for each in self.stored
            if each is not one and not each.is_gone
        )

    def holds(self, each: Stored, attempt: int) -> bool:
        return not each.is_gone and each.attempt == attempt and bool(each.locked_until_ms)

    def settle(self, each: Stored) -> None:
        self._remove(each, "settled")
        if self.bug == "gives again what is settled":
            each.is_gone, each.locked_until_ms = False, 0.0

    def fail(self, each: Stored) -> bool:
        """Count a failed attempt; return whether the message is a dead letter now."""
        each.failures += self.bug != "forgets attempts"
        each.locked_until_ms = 0.0
        if each.queue == "work" and each.failures >= LIMIT:
            self.bury(each, "attempts")
        return each.is_gone

    def bury(self, each: Stored, reason: str) -> None:
        self._remove(each, reason)
        death = {"queue": each.queue, "reason": reason, "attempts": each.attempt}
        times = {"loses dead letters": 0, "doubles dead letters": 2}.get(self.bug, 1)
        for _ in range(times):
            self.put("dead", each.value, b"", death)

    def _remove(self, each: Stored, reason: str) -> None:
        each.is_gone = True
        self.removed[each.queue, reason] = self.removed.get((each.queue, reason), 0) + 1

    def counts(self, queue: str) -> dict[str, int]:
        counts = dict.fromkeys(("ready", "delayed", "in_flight", "parked", "moving"), 0)
        removed = {f"removed_{each}": self.removed.get((queue, each), 0) for each in REASONS}
        arrived = sum(each.queue == queue for each in self.stored)
        return counts | removed | {"arrived": arrived}


class OurClient:
    """What the door uses of our client."""

    def __init__(self, queues: Queues) -> None:
        self._queues = queues

    def put(self, queue: str, message: Message) -> int:
        assert isinstance(message.value, bytes)
        assert isinstance(message.group, bytes)
        offset = self._queues.put(queue, message.value, message.group)
        if self._queues.bug == "keeps what it has refused":
            raise Timeout("nothing was done")
        return offset

    def get_many(self, queue: str, count: int, timeout: float, *, lock: float | None) -> list[Any]:
        lock_ms = LOCK_MS if lock is None else lock * 1_000
        each = self._queues.take(queue, lock_ms)
        if each is None:
            return []
        return [
            SimpleNamespace(
                partition=0,
                offset=each.offset,
                attempt=each.attempt,
                failures=each.failures,
                value=each.value,
                deaths=each.deaths,
                stored=each,
            )
        ]

    def _held(self, received: Any) -> Stored:
        each: Stored = received.stored
        if not self._queues.holds(each, received.attempt):
            raise LockLost("too late")
        return each

    def ack(self, received: Any) -> None:
        self._queues.settle(self._held(received))

    def release(self, received: Any, *, failed: bool = False) -> None:
        each = self._held(received)
        if failed:
            self._queues.fail(each)
        each.locked_until_ms = 0.0

    def reject(self, received: Any) -> None:
        self._queues.bury(self._held(received), "rejected")

    def extend(self, received: Any, *, lock: float) -> None:
        self._held(received).locked_until_ms = self._queues.clock.now_ms + lock * 1_000

    def close(self) -> None:
        pass


class AmazonsClient:
    """What the door uses of Amazon's client."""

    def __init__(self, queues: Queues) -> None:
        self._queues = queues
        #: Raised instead of the next answer.
        self.error: Exception | None = None
        self.asked: list[str] = []

    def _name(self, asked: dict[str, Any]) -> str:
        url: str = asked["QueueUrl"]
        self.asked.append(url)
        error, self.error = self.error, None
        if error is not None:
            raise error
        return url.rpartition("/")[2]

    def send_message(self, **asked: str) -> dict[str, Any]:
        group = asked.get("MessageGroupId", "").encode()
        offset = self._queues.put(self._name(asked), asked["MessageBody"].encode(), group)
        return {"MessageId": f"id {offset}"}

    def receive_message(self, **asked: Any) -> dict[str, Any]:
        lock_ms = asked.get("VisibilityTimeout", LOCK_MS // 1_000) * 1_000
        each = self._queues.take(self._name(asked), lock_ms)
        if each is None:
            return {}
        receipt = f"{each.offset} {each.attempt}"
        attributes = {"ApproximateReceiveCount": str(each.failures + 1)}
        message = {
            "MessageId": f"id {each.offset}",
            "Body": each.value.decode(),
            "ReceiptHandle": receipt,
            "Attributes": attributes,
        }
        return {"Messages": [message]}

    def _held(self, asked: dict[str, Any]) -> Stored | None:
        self._name(asked)
        offset, attempt = map(int, asked["ReceiptHandle"].split())
        each = self._queues.stored[offset]
        return each if self._queues.holds(each, attempt) else None

    def delete_message(self, **asked: Any) -> dict[str, Any]:
        each = self._held(asked)
        if each is not None:
            self._queues.settle(each)
        return {}

    def change_message_visibility(self, **asked: Any) -> dict[str, Any]:
        each = self._held(asked)
        if each is None:
            raise refusal("MessageNotInflight", 400)
        if asked["VisibilityTimeout"]:
            lock_ms = asked["VisibilityTimeout"] * 1_000
            each.locked_until_ms = self._queues.clock.now_ms + lock_ms
        else:
            self._queues.fail(each)
        return {}

    def close(self) -> None:
        pass


def refusal(code: str, status: int) -> ClientError:
    response: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(response, "Any")
