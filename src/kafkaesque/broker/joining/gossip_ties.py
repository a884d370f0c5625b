"""What gossip has to do with the rest of a broker: whom it tells, and what it asks."""

from collections.abc import Callable, Iterable, Mapping

from kafkaesque.broker.config import BrokerConfig
from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.joining.gossip_driver import GossipDriver
from kafkaesque.broker.life import Life
from kafkaesque.broker.partitions.partition_table import PartitionTable
from kafkaesque.broker.peers.link import PeerNetwork
from kafkaesque.broker.replication.leaders_table import LeadersTable
from kafkaesque.broker.reports import Reports
from kafkaesque.env import Env
from kafkaesque.env.disk import Disk
from kafkaesque.env.network import Address
from kafkaesque.membership.entries import Value
from kafkaesque.model.errors import DiskFailed
from kafkaesque.model.ids import GroupId, NodeId

_LOOPBACK = ("127.", "localhost", "::1")


class GossipTies:
    """See the module."""

    def __init__(
        self,
        *,
        metadata: MetadataView,
        leaders: LeadersTable,
        node: NodeId,
        disk: Disk,
        partitions: PartitionTable,
        reports: Reports,
        life: Life,
    ) -> None:
        self._metadata = metadata
        self._leaders = leaders
        self._node = node
        self._disk = disk
        self._partitions = partitions
        self._reports = reports
        self._life = life
        #: Told that another process, at this address, says that it is this broker.
        self.on_rival: Callable[[Address], None] = lambda address: None
        #: Told when this process is the one to stop.
        self.on_contested: Callable[[], None] = lambda: None

    def is_registered(self, node: NodeId) -> bool:
        """Return whether the metadata know a broker."""
        return node in self._metadata.state.brokers

    def led(self) -> Iterable[GroupId]:
        """Return the groups that this broker leads."""
        return [GroupId(report.group) for report in self._leaders.led_by(self._node)]

    def load(self) -> Mapping[str, Value]:
        """Return what placement and people may want to know of this broker."""
        figures: dict[str, Value] = {
            "partitions": len(self._partitions),
            "leaders": len(list(self.led())),
        }
        try:
            figures["disk.free.bytes"] = self._disk.free_bytes()
        except DiskFailed:
            figures["disk.free.bytes"] = None
        return figures

    def on_claimed(self, address: Address) -> None:
        """Another process is this broker, too: who is not registered yet is the one too many.

        A broker that is registered asks the others with which of the two they are linked.
        """
        sentence = (
            f"another process says that it is broker {self._node}, too, as heard from {address}"
        )
        if self._life.is_ready:
            self._reports.error(f"{sentence}. Give one of them another id")
            self.on_rival(address)
        elif not self._life.is_stopping:
            self._reports.error(f"{sentence}. This one stops: give it another id")
            self.on_contested()


def make_gossip(
    *,
    env: Env,
    config: BrokerConfig,
    peers: PeerNetwork,
    leaders: LeadersTable,
    reports: Reports,
    ties: GossipTies,
) -> GossipDriver | None:
    """Return a broker's gossip; None where the cluster has no secret."""
    if not config.secrets:
        if not config.peer_address.host.startswith(_LOOPBACK):
            reports.info(
                f"broker {config.node} has no cluster.secret.file: anybody who reaches "
                f"{config.peer_address} and knows the cluster's id can join as a broker"
            )
        return None
    gossip = GossipDriver(
        env=env,
        config=config,
        peers=peers,
        is_registered=ties.is_registered,
        load=ties.load,
        led=ties.led,
        on_hint=leaders.on_hint,
        on_contested=ties.on_claimed,
        report=reports.info,
        warn=reports.warning,
    )
    leaders.hint = gossip.leader
    return gossip
