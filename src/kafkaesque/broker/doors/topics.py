"""Topics and their partitions: waits for new ones, elections, and deletion of records."""

from collections.abc import Callable

from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.metadata.cluster_state import PartitionState
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.partitions.partition_table import PartitionTable
from kafkaesque.broker.peers.link import PeerUnreachable
from kafkaesque.broker.replication.leader_waits import LeaderWaits
from kafkaesque.broker.replication.raft_driver import RaftDriver
from kafkaesque.broker.requests.caller import RemoteCaller
from kafkaesque.broker.requests.client_command import OnBehalfOf
from kafkaesque.broker.requests.commands import Done, TransferLeadership
from kafkaesque.broker.upkeep.log_starts import LogStarts
from kafkaesque.broker.upkeep.unclean_election import OnElected, UncleanElections
from kafkaesque.model.errors import InvalidTopic, RequestRefused
from kafkaesque.model.ids import NodeId, TopicPartition

OnAsked = Callable[[Done | RequestRefused | PeerUnreachable], None]


class Topics:
    """What is done with a topic beside writing and reading; changes go through `Cluster.submit`."""

    __slots__ = (
        "_caller",
        "_driver",
        "_metadata",
        "_node",
        "_partitions",
        "delete_records",
        "elect_unclean",
        "when_led",
    )

    def __init__(
        self,
        *,
        node: NodeId,
        metadata: MetadataView,
        partitions: PartitionTable,
        driver: RaftDriver,
        caller: RemoteCaller,
        leader_waits: LeaderWaits,
        log_starts: LogStarts,
        elections: UncleanElections,
    ) -> None:
        self._node = node
        self._metadata = metadata
        self._partitions = partitions
        self._driver = driver
        self._caller = caller
        #: Gives up what lies before an offset of a `deletable` partition, on all replicas in sync.
        self.delete_records = log_starts.delete
        #: Calls when all partitions of a topic are known to have leaders, or the time is up.
        self.when_led: Callable[[str, int, Callable[[], None]], None] = leader_waits.wait
        #: Brings a partition that has lost its majority to a leader, perhaps losing records.
        self.elect_unclean: Callable[[PartitionState, int, OnElected, OnBehalfOf | None], None] = (
            elections.begin
        )

    def transfer_leadership(
        self,
        partition: PartitionState,
        leader: NodeId,
        successor: NodeId,
        timeout_ms: int,
        on_asked: OnAsked,
    ) -> None:
        """Ask a partition's leader to hand over; `Done` says that it tries, not that it is done."""
        if leader == self._node:
            try:
                self._driver.transfer_leadership(partition.group, successor)
            except RequestRefused as refusal:
                on_asked(refusal)
            else:
                on_asked(Done())
        else:
            request = TransferLeadership(group=partition.group, to_node=successor)
            self._caller.ask(leader, request, Done, timeout_ms, on_asked)

    def deletable(self, where: TopicPartition) -> Partition:
        """Return a partition that is led here and whose records clients may delete.

        Raises:
            InvalidTopic: the topic is the brokers' own.
            RequestRefused: the partition is not led here.
        """
        if self._metadata.state.topic(where.topic).is_internal:
            raise InvalidTopic(f"{where.topic} is the brokers' own: its records cannot be deleted")
        partition = self._partitions.find(where)
        partition.check_leader()
        return partition
