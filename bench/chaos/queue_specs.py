"""The queues of `scripts/chaos --queues` that users' own clients use, and who makes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafkaesque import Client
from kafkaesque.sim.queues.history import QueueSpec

#: Longer than clocks jump in all: identities are not forgotten, and no message gets old.
DEDUPLICATION_MS: Final = 7 * 24 * 3_600 * 1_000
RETENTION_S: Final = 14 * 24 * 3_600
LOCK_MS: Final = 3_000
LIMIT: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class UserQueue:
    """A queue, and by which door it is used."""

    spec: QueueSpec
    is_sqs: bool = False


def _work(name: str, dead: str, **more: Any) -> QueueSpec:
    said: dict[str, Any] = {"limit": LIMIT, "dead_letters_to": dead, "lock_ms_min": LOCK_MS}
    return QueueSpec(name=name, **said, **more)


#: Dead letters come after what they come from: so they are emptied in the end.
USER_QUEUES: Final = (
    UserQueue(spec=_work("client-work", "client-dead", is_plain=True, publishers=2, workers=3)),
    UserQueue(spec=_work("client-ordered", "client-dead", is_ordered=True, workers=3)),
    UserQueue(spec=QueueSpec(name="client-unique", is_unique=True, lock_ms_min=LOCK_MS)),
    UserQueue(spec=_work("sqs-work", "sqs-dead", publishers=2, workers=3), is_sqs=True),
    UserQueue(
        spec=_work("sqs-ordered.fifo", "sqs-dead.fifo", is_ordered=True, is_unique=True, workers=3),
        is_sqs=True,
    ),
    # Our client empties these in the end: it is told of what a message died.
    UserQueue(spec=QueueSpec(name="client-dead", publishers=0, workers=0)),
    UserQueue(spec=QueueSpec(name="sqs-dead", publishers=0, workers=0)),
    UserQueue(spec=QueueSpec(name="sqs-dead.fifo", publishers=0, workers=0)),
)


def makers(client: Client, sqs: Any) -> Mapping[str, Callable[[], object]]:
    """Return what makes each queue, by name, in an order that does; all may be repeated."""
    arn = "arn:aws:sqs:us-east-1:000000000000:"
    common = {"VisibilityTimeout": str(LOCK_MS // 1_000), "MessageRetentionPeriod": RETENTION_S}
    common = {name: str(value) for name, value in common.items()}

    def redrive(target: str) -> dict[str, str]:
        policy = {"deadLetterTargetArn": arn + target, "maxReceiveCount": LIMIT}
        return {"RedrivePolicy": json.dumps(policy)}

    def of_client(name: str, **options: Any) -> Callable[[], object]:
        return lambda: client.create_queue(name, visibility_timeout_ms=LOCK_MS, **options)

    def of_sqs(name: str, **attributes: str) -> Callable[[], object]:
        asked = {**common, **attributes}
        return lambda: sqs.create_queue(QueueName=name, Attributes=asked)

    dead = {"delivery_limit": LIMIT, "dead_letter_queue": "client-dead"}
    fifo = {"FifoQueue": "true"}
    ordered = "sqs-ordered.fifo"
    return {
        "client-dead": of_client("client-dead"),
        "client-work": of_client("client-work", **dead),
        "client-ordered": of_client("client-ordered", ordered_groups=True, **dead),
        "client-unique": of_client("client-unique", deduplication_ms=DEDUPLICATION_MS),
        "sqs-dead": of_sqs("sqs-dead"),
        "sqs-work": of_sqs("sqs-work", **redrive("sqs-dead")),
        "sqs-dead.fifo": of_sqs("sqs-dead.fifo", **fifo),
        ordered: of_sqs(ordered, **fifo, **redrive("sqs-dead.fifo")),
        "identities": lambda: client.alter_queue(ordered, deduplication_ms=DEDUPLICATION_MS),
    }
