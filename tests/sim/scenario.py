"""A cluster in which a test, not a nemesis, says what goes wrong, and when."""

from collections.abc import Callable, Mapping

from kafkaesque.broker.broker import Broker
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.model.errors import UnknownTopicOrPartition
from kafkaesque.model.ids import GroupId, Offset
from kafkaesque.sim.agreement import read_committed
from kafkaesque.sim.clients.consumer import SimConsumer
from kafkaesque.sim.clients.findings import Findings
from kafkaesque.sim.clients.kafka_client import KafkaClient
from kafkaesque.sim.clients.topic_load import TopicLoad, TopicSpec
from kafkaesque.sim.cluster import GATEWAYS, MakeGateway, SimCluster
from kafkaesque.sim.env import World
from kafkaesque.sim.options import SimOptions
from kafkaesque.storage.segment import Segment

TOPIC = "events"


class Scenario:
    """Brokers, one topic of one partition, its producers and its consumer."""

    def __init__(
        self,
        seed: int,
        options: SimOptions | None = None,
        configs: Mapping[str, str] | None = None,
        *,
        compacts: bool = False,
        prepare: Callable[[Broker], None] = lambda _: None,
        gateways: Mapping[int, MakeGateway] = GATEWAYS,
    ) -> None:
        """`prepare` is told of each broker before it starts."""
        options = options or SimOptions()
        self.world = World(seed)
        self.loop = self.world.loop
        self.cluster = SimCluster(self.world, options, gateways=gateways)
        self.findings = Findings()
        self.env = self.world.add_machine("client").boot()
        self.cluster.prepare = prepare
        self.cluster.start()
        replicas = min(options.replicas, options.brokers)
        configs = {**(configs or {}), **({"cleanup.policy": "compact"} if compacts else {})}
        spec = TopicSpec(name=TOPIC, replicas=replicas, configs=configs, compacts=compacts)
        self.load = TopicLoad(self.env, self.cluster.addresses, spec, self.findings)
        self.loop.run_until(lambda: self.load.is_made, 30_000)
        self.loop.run_until(lambda: self.leaders() != [], 30_000)

    # -- who is there

    @property
    def group(self) -> GroupId:
        """The group of the partition."""
        broker = next(iter(self.cluster.brokers.values()))
        return broker.state.topic(TOPIC).partitions[0].group

    def broker(self, name: str) -> Broker:
        """Return a machine's broker."""
        return self.cluster.brokers[name]

    def running(self) -> list[str]:
        """Return the machines that run."""
        return [name for name in self.cluster.names if self.world.machines[name].running]

    def partition(self, name: str) -> Partition:
        """Return a machine's replica."""
        partition = self.find(name)
        assert partition is not None, f"{name} has not opened it"
        return partition

    def find(self, name: str) -> Partition | None:
        """Return a machine's replica, if it is open."""
        broker = self.cluster.brokers.get(name)
        if broker is None or not self.world.machines[name].running:
            return None
        try:
            group = self.group
        except UnknownTopicOrPartition:
            return None
        partition = broker.partitions.get(group)
        return partition if partition is not None and partition.replica is not None else None

    def leaders(self) -> list[str]:
        """Return who leads."""
        found = [(name, self.find(name)) for name in self.running()]
        return [name for name, partition in found if partition is not None and partition.is_leader]

    @property
    def leader(self) -> str:
        """The machine that leads."""
        (leader,) = self.leaders()
        return leader

    # -- what happens

    def start_writing(self) -> None:
        """Let producers write from now on."""
        if not self.load.producers:
            self.load.start()
        for producer in self.load.producers:
            if producer.is_stopped:
                producer.is_stopped = False
                producer._next(0)

    def write(self, count: int) -> None:
        """Let producers write at least so many records more; all of it is acknowledged then."""
        load = self.load
        self.start_writing()
        wanted = len(load.observations.acknowledged) + count
        self.loop.run_until(lambda: len(load.observations.acknowledged) >= wanted)
        load.stop_producing()
        self.loop.run_until(lambda: load.is_acknowledged)

    def settle(self) -> None:
        """Wait until all that run have all."""
        self.loop.run_until(lambda: len({self.end(name) for name in self.running()}) == 1)
        self.loop.run_for(500)

    def kill(self, name: str) -> None:
        """End a broker."""
        self.world.machines[name].kill()

    def boot(self, name: str) -> None:
        """Start it again."""
        self.cluster.boot(self.world.machines[name])

    def read_from_start(self) -> SimConsumer:
        """Let another consumer read everything."""
        client = KafkaClient(self.env, self.cluster.addresses, TOPIC)
        return SimConsumer(client, "reader", 0, self.load.observations)

    # -- damage

    def batch_in_closed_segment(self, name: str, segment: int, batch: int) -> tuple[Segment, int]:
        """Return a segment of a machine's log, and where in it a batch begins."""
        log = self.partition(name).log
        found = log.segments.segments[segment]
        assert segment < len(log.segments.segments) - 1, "it is still written"
        data = self.world.machines[name].drive.volume.find(found.path)
        at = 0
        for _ in range(batch):
            at += int.from_bytes(data.content[at + 8 : at + 12], "big") + 12  # type: ignore[union-attr]
        assert at < found.size
        return found, at

    def damage(
        self, name: str, *, segment: int = 0, batch: int, byte: int, is_cut: bool = False
    ) -> Offset:
        """Flip a bit of a batch on a machine's disk, or let the file end there.

        Returns the batch's first offset.
        """
        found, at = self.batch_in_closed_segment(name, segment, batch)
        inode = self.world.machines[name].drive.volume.find(found.path)
        content = inode.content  # type: ignore[union-attr]
        offset = Offset(int.from_bytes(content[at : at + 8], "big"))
        if is_cut:
            inode.lose_end(at + byte)  # type: ignore[union-attr]
        else:
            content[at + byte] ^= 1
        return offset

    # -- what came of it

    def end(self, name: str) -> int:
        """Return the end of a machine's log."""
        partition = self.find(name)
        return -1 if partition is None else partition.log.end_offset

    def committed(self, name: str) -> bytes:
        """Return what a machine's replica has committed."""
        with self.cluster.unhindered():
            return read_committed(self.partition(name))

    def told(self, what: str) -> list[str]:
        """Return lines of history."""
        return [line for line in self.loop.history.lines() if what in line]
