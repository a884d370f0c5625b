"""A whole cluster of real brokers in one process, on simulated machines."""

from typing import Final

from kafkaesque.broker.broker import Broker
from kafkaesque.broker.config import BrokerConfig
from kafkaesque.env import Env
from kafkaesque.env.network import Address
from kafkaesque.gateway.kafka.gateway import KafkaGateway
from kafkaesque.model.batch import read_batch_header
from kafkaesque.model.errors import KafkaesqueError
from kafkaesque.model.ids import NodeId, Offset
from kafkaesque.sim.env import Machine, World
from kafkaesque.storage.config import StorageConfig

KAFKA_PORT: Final = 9092
PEER_PORT: Final = 9190
#: A broker that cannot start is started again by its operator after this long.
RETRY_START_MS: Final = 1_000

_KIB = 1024


class SimCluster:
    """Machines `b1`, `b2`, ... with a broker each."""

    def __init__(self, world: World, brokers: int = 3) -> None:
        self.world = world
        self.names = [f"b{number}" for number in range(1, brokers + 1)]
        self.brokers: dict[str, Broker] = {}
        self._machines = [world.add_machine(name) for name in self.names]

    @property
    def addresses(self) -> list[Address]:
        """Where clients find the brokers."""
        return [Address(name, KAFKA_PORT) for name in self.names]

    def start(self) -> None:
        """Start every broker."""
        for machine in self._machines:
            self.boot(machine)

    def boot(self, machine: Machine) -> None:
        """Start the broker of a machine."""
        self.brokers.pop(machine.name, None)
        machine.start(lambda env: self._run(machine, env))

    def _run(self, machine: Machine, env: Env) -> None:
        name = machine.name

        def report(what: str) -> None:
            self.world.loop.tell(name, what)

        broker = Broker(env=env, config=self._config(name), report=report)
        gateway = KafkaGateway(broker, report)
        self.brokers[name] = broker
        try:
            broker.start(lambda: self._open_port(gateway, name))
        except KafkaesqueError as error:
            report(f"cannot start: {error}")
            env.clock.call_soon(lambda: self._start_again(machine))

    def _open_port(self, gateway: KafkaGateway, name: str) -> None:
        gateway.start(Address(name, KAFKA_PORT))

    def _start_again(self, machine: Machine) -> None:
        machine.kill()

        def again() -> None:
            if not machine.running:
                self.boot(machine)

        self.world.loop.after(RETRY_START_MS * 1_000_000, "operator", again)

    def _config(self, name: str) -> BrokerConfig:
        controllers = {
            NodeId(number): Address(each, PEER_PORT)
            for number, each in enumerate(self.names, start=1)
        }
        return BrokerConfig(
            node=NodeId(self.names.index(name) + 1),
            cluster_id="sim",
            peer_address=Address(name, PEER_PORT),
            kafka_address=Address(name, KAFKA_PORT),
            controllers=controllers,
            options={"offsets.topic.num.partitions": 2, "group.initial.rebalance.delay.ms": 0},
            # Small files, so that rolling, checkpoints and reuse happen all the time.
            storage=StorageConfig(
                segment_bytes_max=32 * _KIB,
                wal_bytes=64 * _KIB,
                index_interval_bytes=256,
                cache_bytes_max=16 * _KIB,
                free_bytes_min=4 * _KIB,
            ),
        )

    # -- for checkers

    def replica_bytes(self, topic: str, partition: int) -> dict[str, bytes]:
        """Return what every broker's replica of a partition holds up to its high watermark."""
        held: dict[str, bytes] = {}
        for name, broker in self.brokers.items():
            state = broker.state.topics.get(topic)
            if state is None:
                continue
            replica = broker.partitions.get(state.partitions[partition].group)
            if replica is None or replica.replica is None:
                continue
            log, pieces, offset = replica.log, [], replica.log.start_offset
            end = replica.high_watermark
            while offset < end:
                ranges = log.locate_blocking(offset, 1 << 20, end)
                if not ranges:
                    break
                data = b"".join(r.file.read_blocking(r.position, r.length) for r in ranges)
                pieces.append(data)
                offset = _next_offset(data)
            held[name] = b"".join(pieces)
        return held


def _next_offset(data: bytes) -> Offset:
    at = 0
    offset = 0
    while at < len(data):
        header = read_batch_header(data, at)
        offset = header.next_offset
        at = header.end
    return Offset(offset)
