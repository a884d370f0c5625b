"""The simulated brokers under both kinds of clusters: real broker code, in one process."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from kafkaesque.admin.health import reasons_against
from kafkaesque.broker.broker import Broker
from kafkaesque.broker.config import BrokerConfig
from kafkaesque.broker.listeners import KAFKA, default_listener
from kafkaesque.broker.options.tables import BROKER_OPTIONS
from kafkaesque.env.network import Address
from kafkaesque.model.options import OptionValue
from kafkaesque.sim.cluster import SimCluster
from kafkaesque.sim.env import Machine, World
from kafkaesque.sim.options import SimOptions
from kafkaesque.storage.config import StorageConfig
from kafkaesque.testing.arguments import is_whole, whole
from kafkaesque.testing.copies import find_lacking

BROKERS_MAX: Final = 9
CONTROLLERS_MAX: Final = 3
#: Virtual time that a start may take.
START_MS_MAX: Final = 60_000

_MIB = 1024 * 1024


class TestedCluster(SimCluster):
    """Brokers as users have them: ordinary sizes, and the options that a test asks for."""

    __test__ = False  # for pytest: it is no test

    def __init__(
        self,
        world: World,
        brokers: int,
        options: Mapping[str, OptionValue],
        advertised: Callable[[str], Address] | None = None,
    ) -> None:
        """`advertised` says where clients find the broker of a machine, if not in the simulator.

        Raises:
            ConfigError: an option is none, or has no such value.
            TypeError, ValueError: there cannot be so many brokers.
        """
        brokers = whole("the number of brokers", brokers, 1, BROKERS_MAX)
        self._extra: Final = BROKER_OPTIONS.parse(options)
        self._advertised: Final = advertised
        sizes = SimOptions(
            brokers=brokers,
            replicas=min(3, brokers),
            controllers=min(brokers, CONTROLLERS_MAX),
        )
        super().__init__(world, sizes)

    def machine(self, number: int) -> Machine:
        """Return the machine of broker `number`, which counts from 1.

        Raises:
            TypeError, ValueError: there is none.
        """
        if not is_whole(number):
            raise TypeError(f"a broker is named by its number, from 1 on, not by {number!r}")
        if not 1 <= number <= len(self.names):
            raise ValueError(f"there are brokers 1 to {len(self.names)}, and no broker {number}")
        return self.world.machines[self.names[number - 1]]

    def boot_if_broker(self, machine: Machine) -> None:
        """Start the machine's broker; other machines have none."""
        if machine.name in self.names:
            self.boot(machine)

    def reboot_failed(self) -> None:
        """Start those brokers anew, and at once, that have given up their disks."""
        for name in self.failed():
            machine = self.world.machines[name]
            machine.kill()
            self.boot(machine)

    def running(self) -> list[Broker]:
        """Return the brokers whose machines run and are not paused."""
        found = []
        for name, broker in self.brokers.items():
            machine = self.world.machines[name]
            if machine.running and not machine.paused:
                found.append(broker)
        return found

    def partition_counts(self) -> dict[str, int] | None:
        """Return how many partitions each topic has; None while no broker can be sure."""
        found: dict[str, int] = {}
        # One that has just started has not got all metadata yet.
        brokers = [each for each in self.running() if each.life.is_ready]
        for broker in brokers:
            for name, topic in broker.state.topics.items():
                found[name] = max(found.get(name, 0), len(topic.partitions))
        return found if brokers else None

    def stopped(self) -> list[int]:
        """Return the brokers whose machines do not run, or are paused."""
        machines = [self.world.machines[name] for name in self.names]
        return [n for n, each in enumerate(machines, 1) if not each.running or each.paused]

    def is_whole(self) -> bool:
        """Whether every broker is up, and every copy votes and is in sync again."""
        return self.is_up() and find_lacking(self.running()) is None

    def lacking(self) -> str:
        """Return why the cluster is not whole."""
        if stopped := self.stopped():
            return f"brokers that do not run: {', '.join(map(self._why_stopped, stopped))}"
        if not self.is_up():
            return "; ".join(self._why_not_up())
        lacking = find_lacking(self.running())
        return f"{lacking} has no leader, or not all copies vote and are in sync"

    def is_up(self) -> bool:
        """Whether every broker is ready and hears of all others."""
        return len(self.running()) == len(self.names) and all(
            broker.life.is_ready and len(broker.cluster.alive_brokers()) == len(self.names)
            for broker in self.running()
        )

    def _why_stopped(self, number: int) -> str:
        """Return a broker's number, and why it could not start, if that is what it tried last."""
        told = [line.split(maxsplit=3)[2:] for line in self.world.loop.history.lines()]
        own = [what for name, what in told if name == self.names[number - 1] and what != "killed"]
        return (
            f"{number}, which {own[-1]}"
            if own and own[-1].startswith("cannot start")
            else str(number)
        )

    def _why_not_up(self) -> list[str]:
        """Return what keeps the brokers that run from being up, a sentence each.

        Of one that is not ready nobody is told that others do not hear of it, too.
        """
        unready = [
            each
            for each in self.running()
            if each.life.failure is not None or not each.life.is_ready
        ]
        reasons = [reasons_against(each.doors)[0] for each in unready]
        unready_nodes = {int(each.node) for each in unready}
        for broker in self.running():
            heard = unready_nodes | {int(each.node) for each in broker.cluster.alive_brokers()}
            unheard = sorted(set(range(1, len(self.names) + 1)) - heard)
            if unheard and broker not in unready:
                others = ", ".join(map(str, unheard))
                reasons.append(f"broker {broker.node} does not hear of broker {others}")
        return reasons or ["a broker does not run yet"]

    def leader(self, topic: str, partition: int) -> int | None:
        """Return which broker leads, as a running one says that leads it; None if none does."""
        for broker in self.running():
            found = broker.state.topics.get(topic)
            if found is None or partition >= len(found.partitions):
                continue
            here = broker.partitions.get(found.partitions[partition].group)
            if here is not None and here.is_leader:
                return int(broker.node)
        return None

    def _config(self, name: str) -> BrokerConfig:
        config = super()._config(name)
        if self._advertised is not None:
            config = replace(config, listeners=[default_listener(KAFKA, self._advertised(name))])
        kept = {key: config.options[key] for key in _KEPT if key in config.options}
        return replace(
            config,
            options={**kept, **self._extra},
            storage=StorageConfig(
                segment_bytes_max=64 * _MIB,
                wal_bytes=4 * _MIB,
                cache_bytes_max=8 * _MIB,
                index_cache_bytes_max=4 * _MIB,
                free_bytes_min=64 * 1024,
            ),
        )


#: What the simulator's own runs set and tests want, too: nobody waits for a second member, and
#: clients may have another clock than the brokers.
_KEPT: Final = (
    "group.initial.rebalance.delay.ms",
    "log.message.timestamp.after.max.ms",
    "offsets.topic.num.partitions",
    "offsets.topic.replication.factor",
    "transaction.state.log.num.partitions",
    "transaction.state.log.replication.factor",
    "broker.session.timeout.ms",
)


def start_cluster(cluster: TestedCluster) -> None:
    """Start all brokers and let virtual time pass until they are one cluster."""
    cluster.start()
    cluster.world.loop.run_until(cluster.is_up, START_MS_MAX)
