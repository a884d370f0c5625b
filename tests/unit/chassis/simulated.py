"""Simulated brokers with the ports of some gateways, and a machine for clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from kafkaesque.sim.cluster import MakeGateway, SimCluster
from kafkaesque.sim.env import World
from kafkaesque.sim.options import SimOptions

_READY_MS_MAX = 60_000


class SimulatedBrokers:
    """Brokers that are ready; a protocol's kit says which gateways they have, and adds clients."""

    gateways: ClassVar[Mapping[int, MakeGateway]]

    def __init__(self, seed: int = 1, brokers: int = 1, *, is_encrypted: bool = False) -> None:
        self.world = World(seed)
        self.loop = self.world.loop
        options = SimOptions(brokers=brokers, is_encrypted=is_encrypted)
        self.cluster = SimCluster(self.world, options, self.gateways)
        self.cluster.start()
        self.env = self.world.add_machine("client").boot()
        self.loop.run_until(self._are_ready, _READY_MS_MAX)

    def _are_ready(self) -> bool:
        brokers = self.cluster.brokers
        is_ready = all(each.life.is_ready for each in brokers.values())
        return len(brokers) == len(self.cluster.names) and is_ready

    def wait(self, ms: int) -> None:
        """Let time go by."""
        until_ms = self.env.clock.now_ms() + ms
        self.loop.run_until(lambda: self.env.clock.now_ms() >= until_ms, ms + 1_000)

    def kill(self, broker: int) -> None:
        """Kill a broker's process."""
        self.cluster._machines[self.cluster.names[broker - 1]].kill()
