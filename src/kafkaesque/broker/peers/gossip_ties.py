"""What gossip has to do with the rest of a broker: whom it tells, and what it asks."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kafkaesque.broker.peers.gossip_driver import GossipDriver
from kafkaesque.env.network import Address
from kafkaesque.membership.entries import Value
from kafkaesque.model.errors import DiskFailed
from kafkaesque.model.ids import GroupId, NodeId

if TYPE_CHECKING:
    from kafkaesque.broker.broker import Broker

_LOOPBACK = ("127.", "localhost", "::1")


def make_gossip(broker: "Broker") -> GossipDriver | None:
    """Return a broker's gossip; None where the cluster has no secret."""
    config = broker.config
    if not config.secrets:
        if not config.peer_address.host.startswith(_LOOPBACK):
            broker.report(
                f"broker {broker.node} has no cluster.secret.file: whoever reaches "
                f"{config.peer_address} and knows the cluster's id is let in as a broker"
            )
        return None
    ties = _Ties(broker)
    gossip = GossipDriver(
        env=broker.env,
        config=config,
        peers=broker.peers,
        is_registered=ties.is_registered,
        load=ties.load,
        led=ties.led,
        on_hint=broker.leaders.on_hint,
        on_contested=ties.on_contested,
        report=broker.report,
        warn=broker.report_warning,
    )
    broker.leaders.hint = gossip.leader
    return gossip


class _Ties:
    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    def is_registered(self, node: NodeId) -> bool:
        return node in self._broker.state.brokers

    def led(self) -> Iterable[GroupId]:
        broker = self._broker
        return [GroupId(report.group) for report in broker.leaders.led_by(broker.node)]

    def load(self) -> Mapping[str, Value]:
        """Return what placement and people may want to know of this broker."""
        broker = self._broker
        figures: dict[str, Value] = {
            "partitions": len(broker.partitions),
            "leaders": len(list(self.led())),
        }
        try:
            figures["disk.free.bytes"] = broker.env.disk.free_bytes()
        except DiskFailed:
            figures["disk.free.bytes"] = None
        return figures

    def on_contested(self, address: Address) -> None:
        """Another process is this broker, too: who is not registered yet is the one too many.

        A broker that is registered asks the others with which of the two they are linked.
        """
        broker = self._broker
        sentence = (
            f"another process says that it is broker {broker.node}, too, as heard from {address}"
        )
        if broker.is_ready:
            broker.report_error(f"{sentence}. Give one of them another id")
            broker.identity.doubt(address)
        elif not broker.is_stopping:
            broker.report_error(f"{sentence}. This one stops: give it another id")
            broker.on_contested()
