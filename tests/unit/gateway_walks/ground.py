"""Simulated brokers that speak every protocol, for random conversations."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from functools import partial
from typing import Final

from kafkaesque.broker.broker import Broker
from kafkaesque.broker.doors import Doors
from kafkaesque.chassis.chassis import Chassis
from kafkaesque.chassis.gateway import Gateway
from kafkaesque.chassis.stream_gateway import StreamGateway
from kafkaesque.chassis.web_socket_gateway import WebSocketGateway
from kafkaesque.model.errors import KafkaesqueError
from kafkaesque.sim import cluster as sim
from kafkaesque.sim.cluster import MakeGateway, SimCluster
from kafkaesque.sim.env import World
from kafkaesque.sim.loop import NS_PER_MS
from kafkaesque.sim.options import SimOptions

WEB_SOCKET_PORT: Final = 8090
PATIENCE_MS: Final = 120_000
#: What is spoken over WebSocket, and at which port without.
PATHS: Final = {"/mqtt": sim.MQTT_PORT, "/nats": sim.NATS_PORT, "/stomp": sim.STOMP_PORT}


def _gateways() -> Mapping[int, MakeGateway]:
    """Return what every broker speaks; over WebSocket it is the same gateways."""
    made: dict[int, dict[int, StreamGateway]] = {}

    def make(port: int, kind: MakeGateway, doors: Doors, chassis: Chassis) -> Gateway:
        gateway = kind(doors, chassis)
        if isinstance(gateway, StreamGateway):
            made.setdefault(id(chassis), {})[port] = gateway
        return gateway

    def make_web_socket(_: Doors, chassis: Chassis) -> Gateway:
        found = made.pop(id(chassis))
        return WebSocketGateway(chassis, {path: found[port] for path, port in PATHS.items()}, set)

    kinds = {
        **sim.SQS_GATEWAYS,
        **sim.REGISTRY_GATEWAYS,
        **sim.STOMP_GATEWAYS,
        **sim.MQTT_GATEWAYS,
        **sim.NATS_GATEWAYS,
    }
    makers = {port: partial(make, port, kind) for port, kind in kinds.items()}
    return {**makers, WEB_SOCKET_PORT: make_web_socket}


def exceptions_kept() -> list[KafkaesqueError]:
    """Return what was raised in this process, and is kept with its frames."""
    objects = gc.get_objects()
    return [each for each in objects if isinstance(each, KafkaesqueError) and each.__traceback__]


class Ground:
    """A small cluster that is used by one walk after the other."""

    def __init__(self, seed: int = 1, brokers: int = 1) -> None:
        #: Other tests keep some: they are the values of parameters there.
        self.raised_before: Final = exceptions_kept()
        self.world: Final = World(seed)
        self.loop: Final = self.world.loop
        self.cluster: Final = SimCluster(self.world, SimOptions(brokers=brokers), _gateways())
        self.cluster.start()
        self.env: Final = self.world.add_machine("client").boot()
        self.loop.run_until(self._are_ready, PATIENCE_MS)

    def _are_ready(self) -> bool:
        machines = self.world.machines
        return all(self.cluster.is_back(machines[name]) for name in self.cluster.names)

    @property
    def brokers(self) -> list[Broker]:
        return list(self.cluster.brokers.values())

    def gateways(self) -> list[Gateway]:
        """Return those of the brokers that run."""
        return [
            gateway
            for name in self.cluster.brokers
            for gateway in self.cluster._gateways[name].values()
        ]

    def wait(self, ms: float) -> None:
        """Let time go by."""
        self.loop.run_for(ms)

    def stop(self, name: str) -> None:
        """Stop a broker in order: it drains, its leaders move, and it is started again."""
        self.cluster.restart(self.world.machines[name])

    def kill(self, name: str) -> None:
        """Kill a broker's process, and start it again after a while."""
        machine = self.world.machines[name]
        machine.kill()

        def boot() -> None:
            if not machine.running:
                self.cluster.boot(machine)

        self.loop.after(1_000 * NS_PER_MS, "operator", boot)

    def settle(self) -> None:
        """Wait until every broker is back."""
        self.loop.run_until(self._are_ready, PATIENCE_MS)
