"""How a broker is: for health, metrics and people; nothing here changes anything."""

from dataclasses import dataclass

from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.controller.voters import ControllerVoters
from kafkaesque.broker.joining.gossip_driver import GossipDriver
from kafkaesque.broker.life import Life
from kafkaesque.broker.partitions.partition_table import PartitionTable
from kafkaesque.broker.peers.link import PeerNetwork
from kafkaesque.broker.upkeep.log_cleaner import LogCleaner
from kafkaesque.broker.upkeep.log_scrubber import LogScrubber
from kafkaesque.broker.upkeep.space_watch import SpaceWatch
from kafkaesque.env.disk import Disk
from kafkaesque.storage.log_store import LogStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """The parts that say how they are."""

    life: Life
    disk: Disk
    store: LogStore
    metadata: MetadataView
    voters: ControllerVoters
    peers: PeerNetwork
    #: None where the cluster has no secret.
    gossip: GossipDriver | None
    partitions: PartitionTable
    cleaner: LogCleaner
    scrubber: LogScrubber
    space: SpaceWatch
