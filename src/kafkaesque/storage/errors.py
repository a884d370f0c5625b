"""What can go wrong with a data directory, by whose fault it is."""

from kafkaesque.model.errors import KafkaesqueError


class WrongDirectory(KafkaesqueError):
    """The data directory belongs to another cluster, another broker or another format."""


class StorageCorrupt(KafkaesqueError):
    """Durable bytes are not what was written; the message says where and what to do."""


class EntriesGone(KafkaesqueError):
    """The entries asked for are before the log's start: the peer needs a snapshot."""
