"""What the controller can be asked of queues."""

import msgspec

from kafkaesque.broker.peers.messages import PeerRequest
from kafkaesque.broker.requests.client_command import ClientCommand


class CreateQueue(ClientCommand, frozen=True, tag="create-queue", kw_only=True):
    """Let a queue exist; one that is there with the same options is well. Answer: `QueueResult`."""

    vhost: str
    name: str
    options: dict[str, str] = msgspec.field(default_factory=dict)
    #: -1: as many as topics have by default.
    replication_factor: int = -1
    #: The broker that has it in memory, if it is transient; the door fills it in.
    home: int | msgspec.UnsetType = msgspec.UNSET


class DeleteQueue(ClientCommand, frozen=True, tag="delete-queue", kw_only=True):
    """Delete a queue with all it holds. Answer: `Done`."""

    vhost: str
    name: str


class ChangeQueue(ClientCommand, frozen=True, tag="change-queue", kw_only=True):
    """Change a queue's options; None sets one back to its default. Answer: `Done`."""

    vhost: str
    name: str
    changes: dict[str, str | None]


class CreateShareQueue(PeerRequest, frozen=True, tag="create-share-queue", kw_only=True):
    """Let a share group have a cursor over a topic, as long as the topic. Answer: `QueueResult`."""

    group: str
    topic_id: bytes


class DeleteShareGroup(PeerRequest, frozen=True, tag="delete-share-group", kw_only=True):
    """Delete a share group's cursors: over one topic, or all. Answer: `Done`."""

    group: str
    #: None: all.
    topic_id: bytes | None = None


#: What clients may ask for; the rest brokers ask, for share groups.
ClientQueueCommand = CreateQueue | DeleteQueue | ChangeQueue
QueueCommand = CreateQueue | DeleteQueue | ChangeQueue | CreateShareQueue | DeleteShareGroup


class QueueResult(msgspec.Struct, frozen=True, kw_only=True, tag="queue"):
    """A queue as it is after the command."""

    log_id: bytes
