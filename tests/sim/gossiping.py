"""Whole brokers on simulated machines, which find one another by gossip or by their files."""

from collections.abc import Sequence
from typing import Any

from kafkaesque.broker.broker import Broker
from kafkaesque.broker.config import BrokerConfig
from kafkaesque.broker.joining.gossip_driver import GossipDriver
from kafkaesque.broker.listeners import KAFKA, default_listener
from kafkaesque.env.network import Address
from kafkaesque.membership.entries import MemberState
from kafkaesque.model.ids import NodeId
from kafkaesque.sim.env import World
from kafkaesque.storage.config import StorageConfig

OLD, NEW = b"the secret of the cluster", b"the secret after that one"
PORT = 9190
ALIVE, DEAD, LEFT = MemberState.ALIVE, MemberState.DEAD, MemberState.LEFT


class Cluster:
    """Brokers, each on the machine of its name; the controllers of 1 and 2 vote."""

    def __init__(self, seed: int = 1) -> None:
        self.world = World(seed)
        self.loop = self.world.loop
        self.brokers: dict[str, Broker] = {}
        self.reports: dict[str, list[str]] = {}
        #: Of these, what somebody has to look after.
        self.errors: dict[str, list[str]] = {}
        self.contested: list[str] = []

    def start(
        self,
        node: int,
        seeds: Sequence[int] = (),
        *,
        machine: str = "",
        secrets: tuple[bytes, ...] = (OLD,),
        knows: bool = False,
        **fields: Any,
    ) -> Broker:
        """Boot a broker; `knows`: its file has the controllers' addresses."""
        name = machine or f"b{node}"
        if name not in self.world.machines:
            self.world.add_machine(name)
        reports = self.reports.setdefault(name, [])
        controllers = {
            NodeId(each): Address(f"b{each}", PORT) if knows else None for each in (1, 2)
        }
        config = BrokerConfig(
            **{
                "node": NodeId(node),
                "cluster_id": "gossiping",
                "rack": f"rack{node}",
                "peer_address": Address(name, PORT),
                "listeners": [default_listener(KAFKA, Address(name, 9092))],
                "controllers": controllers,
                "secrets": secrets,
                "seeds": [Address(f"b{each}", PORT) for each in seeds],
                "storage": StorageConfig(wal_bytes=64 * 1024, free_bytes_min=4096),
                **fields,
            }
        )
        env = self.world.machines[name].boot()
        errors = self.errors.setdefault(name, [])

        def report_error(line: str) -> None:
            errors.append(str(line))
            reports.append(str(line))

        broker = Broker(
            env=env,
            config=config,
            report=lambda line: reports.append(str(line)),
            report_error=report_error,
            report_warning=lambda line: reports.append(str(line)),
        )
        broker.on_contested = lambda: self._on_contested(name)
        broker.start(lambda: None)
        self.brokers[name] = broker
        return broker

    def _on_contested(self, name: str) -> None:
        """End a process that is one too many, as the server does."""
        self.contested.append(name)
        self.brokers.pop(name).stop(self.world.machines[name].kill)

    def found(self) -> None:
        """Start three that know one another only around a ring."""
        self.start(1, [3])
        self.start(2, [3])
        self.start(3, [1])
        self.until_whole()

    def gossip(self, node: int) -> GossipDriver:
        gossip = self.brokers[f"b{node}"].gossip
        assert gossip is not None
        return gossip

    def state(self, at: int, of: int) -> MemberState | None:
        return self.gossip(at).state(NodeId(of))

    def until_whole(self) -> None:
        """Let time pass until all are registered and see and reach all."""

        def is_whole() -> bool:
            nodes = [broker.node for broker in self.brokers.values()]
            return all(
                broker.life.is_ready
                and len(broker.state.brokers) >= len(nodes)
                and all(broker.peers.is_alive(node) for node in nodes)
                and all(broker.gossip and broker.gossip.state(node) is ALIVE for node in nodes)
                for broker in self.brokers.values()
            )

        self.loop.run_until(is_whole, 30_000, every_ms=10)

    def kill(self, node: int) -> None:
        self.world.machines[f"b{node}"].kill()
        del self.brokers[f"b{node}"]

    def told(self, name: str, what: str) -> list[str]:
        return [line for line in self.reports[name] if what in line]
