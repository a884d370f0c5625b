"""Reading from partitions: on this broker, or wherever they are led, now or when more comes."""

from collections.abc import Callable, Iterator, Sequence

from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.metadata.live_options import LiveOptions
from kafkaesque.broker.options.replication import RACK_SELECTOR, SELECTOR
from kafkaesque.broker.partitions.feed import Feed, FeedHandler
from kafkaesque.broker.partitions.forwarder import Forwarder
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.partitions.partition_sealing import Located
from kafkaesque.broker.partitions.partition_table import PartitionTable
from kafkaesque.broker.partitions.read_ranges import read_ranges
from kafkaesque.broker.peers.link import PeerNetwork
from kafkaesque.env.clock import Clock
from kafkaesque.env.disk import Disk
from kafkaesque.model.ids import NodeId, Offset, TopicId, TopicPartition
from kafkaesque.raft.progress import PeerProgress


class Reading:
    """Readers see committed records only."""

    __slots__ = (
        "_clock",
        "_disk",
        "_metadata",
        "_options",
        "_partitions",
        "_peers",
        "_rack",
        "fetch",
        "log_of",
        "partition",
    )

    def __init__(
        self,
        *,
        rack: str | None,
        clock: Clock,
        disk: Disk,
        partitions: PartitionTable,
        forwarder: Forwarder,
        metadata: MetadataView,
        peers: PeerNetwork,
        options: LiveOptions,
    ) -> None:
        self._rack = rack
        self._clock = clock
        self._disk = disk
        self._partitions = partitions
        self._metadata = metadata
        self._peers = peers
        self._options = options
        #: Returns a partition's replica on this broker; raises a `RequestRefused` otherwise.
        self.partition: Callable[[TopicPartition], Partition] = partitions.find
        #: Returns the same of a topic or of a queue's log, by its id and the partition's number.
        self.log_of: Callable[[TopicId, int], Partition] = partitions.find_log
        #: Reads committed batches at the leader, on whatever broker; see `Forwarder.fetch`.
        self.fetch = forwarder.fetch

    def all_here(self) -> Iterator[Partition]:
        """Return all replicas on this broker."""
        return iter(self._partitions)

    def feed(self, where: TopicPartition, handler: FeedHandler) -> Feed:
        """Return a feed of a partition, led on whatever broker: `seek`, then `grant` credit."""
        return Feed(self._clock, self.fetch, where, handler)

    def read_bytes(
        self,
        partition: Partition,
        offset: Offset,
        bytes_max: int,
        end: Offset,
        on_read: Callable[[bytes | Exception], None],
    ) -> None:
        """Read committed batches into memory as `Partition.read_now` finds them.

        `on_read` is called within this call if all of it is cached.

        Raises:
            KafkaesqueError: see `Partition.read_now`.
        """

        def on_located(ranges: Sequence[Located] | Exception) -> None:
            if isinstance(ranges, Exception):
                on_read(ranges)
            else:
                read_ranges(self._disk, ranges, on_read)

        ranges = partition.read_now(offset, bytes_max, end)
        if ranges is None:
            partition.read_later(offset, bytes_max, on_located, end)
        else:
            on_located(ranges)

    # -- replicas near to a consumer (KIP-392)

    @property
    def _selects_by_rack(self) -> bool:
        return self._options.get(SELECTOR) == RACK_SELECTOR

    def is_served_by_follower(
        self, partition: Partition, rack: str, current_leader_epoch: int, offset: Offset
    ) -> bool:
        """Tell whether this replica serves a consumer of its rack though it does not lead.

        Raises:
            RequestRefused: it would, and cannot serve this offset.
        """
        if not rack or rack != self._rack or partition.is_leader:
            return False
        leader = partition.replica.leader if partition.replica is not None else None
        if not self._selects_by_rack or leader is None or not self._peers.is_alive(leader):
            return False
        partition.check_following(current_leader_epoch, offset)
        return True

    def nearer_replica(self, partition: Partition, rack: str, offset: Offset) -> NodeId | None:
        """Return a replica in a consumer's rack that can go on where the consumer is."""
        replica = partition.replica
        if not rack or rack == self._rack or replica is None or not self._selects_by_rack:
            return None
        best: PeerProgress | None = None
        for peer in replica.core.peers:
            registered = self._metadata.state.brokers.get(peer.node)
            if (
                registered is not None
                and registered.rack == rack
                and peer.is_in_sync
                and peer.is_alive
                and peer.peer_commit_index >= replica.core.log.start_index
                and partition.log.offset_after(peer.peer_commit_index) >= offset
                and (best is None or peer.peer_commit_index > best.peer_commit_index)
            ):
                best = peer
        return None if best is None else best.node
