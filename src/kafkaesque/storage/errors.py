"""What can go wrong with a data directory, by whose fault it is."""

from kafkaesque.model.errors import KafkaesqueError

#: What to do about durable bytes without which a broker cannot start.
ADVICE = (
    "it was damaged after it was synced: check the disk, then start this broker with an empty"
    " directory, so that its replicas are copied from the other brokers"
)


class WrongDirectory(KafkaesqueError):
    """The data directory belongs to another cluster, another broker or another format."""


class StorageCorrupt(KafkaesqueError):
    """Durable bytes are not what was written; the message says where and what to do."""


class EntriesGone(KafkaesqueError):
    """The entries asked for are before the log's start: the peer needs a snapshot."""
