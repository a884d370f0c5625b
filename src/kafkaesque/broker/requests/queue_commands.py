"""What the controller can be asked of queues."""

import msgspec

from kafkaesque.broker.requests.client_command import ClientCommand


class CreateQueue(ClientCommand, frozen=True, tag="create-queue", kw_only=True):
    """Let a queue exist; one that is there with the same options is well. Answer: `QueueResult`."""

    vhost: str
    name: str
    options: dict[str, str] = msgspec.field(default_factory=dict)
    #: -1: as many as topics have by default.
    replication_factor: int = -1


class DeleteQueue(ClientCommand, frozen=True, tag="delete-queue", kw_only=True):
    """Delete a queue with all it holds. Answer: `Done`."""

    vhost: str
    name: str


class ChangeQueue(ClientCommand, frozen=True, tag="change-queue", kw_only=True):
    """Change a queue's options; None sets one back to its default. Answer: `Done`."""

    vhost: str
    name: str
    changes: dict[str, str | None]


QueueCommand = CreateQueue | DeleteQueue | ChangeQueue


class QueueResult(msgspec.Struct, frozen=True, kw_only=True, tag="queue"):
    """A queue as it is after the command."""

    log_id: bytes
