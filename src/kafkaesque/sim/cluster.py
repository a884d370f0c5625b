"""A whole cluster of real brokers in one process, on simulated machines."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final

from kafkaesque.access.secret import Secret
from kafkaesque.admin.gateway import AdminGateway
from kafkaesque.admin.process_facts import ProcessFacts
from kafkaesque.broker.broker import Broker
from kafkaesque.broker.config import BrokerConfig, PeerTimings
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.listeners import (
    ADMIN,
    AMQP,
    KAFKA,
    MQTT,
    NATS,
    REGISTRY,
    SQS,
    STOMP,
    TEXT,
    AccessMode,
    Listener,
    LogInBy,
    default_listener,
)
from kafkaesque.chassis.chassis import Chassis
from kafkaesque.chassis.gateway import Gateway, drain_all
from kafkaesque.env import Env
from kafkaesque.env.certificate import PeerCertificate
from kafkaesque.env.network import Address
from kafkaesque.gateway.amqp.gateway import AmqpGateway
from kafkaesque.gateway.chassis_of import make_chassis
from kafkaesque.gateway.kafka.gateway import KafkaGateway
from kafkaesque.gateway.mqtt.gateway import MqttGateway
from kafkaesque.gateway.nats.gateway import NatsGateway
from kafkaesque.gateway.registry.gateway import RegistryGateway
from kafkaesque.gateway.sqs.gateway import SqsGateway
from kafkaesque.gateway.stomp.gateway import StompGateway
from kafkaesque.gateway.text.gateway import TextGateway
from kafkaesque.membership.config import MembershipConfig
from kafkaesque.model.errors import KafkaesqueError
from kafkaesque.model.ids import CONTROLLER_GROUP, NodeId
from kafkaesque.model.options import INT64_MAX, OptionValue
from kafkaesque.sim.env import Machine, World
from kafkaesque.sim.loop import NS_PER_MS
from kafkaesque.sim.options import SimOptions, name_brokers
from kafkaesque.sim.pipeline.ownership import HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS
from kafkaesque.sim.tls import SimTls
from kafkaesque.storage.config import StorageConfig

KAFKA_PORT: Final = 9092
TEXT_PORT: Final = 7070
ADMIN_PORT: Final = 8080
SQS_PORT: Final = 9324
REGISTRY_PORT: Final = 8081
AMQP_PORT: Final = 5672
MQTT_PORT: Final = 1883
NATS_PORT: Final = 4222
STOMP_PORT: Final = 61613
PEER_PORT: Final = 9190
SECURED_PORT: Final = 9093
#: The name of that listener, and of what it speaks TLS by.
SECURED: Final = "secured"
SECRET: Final = b"only for the simulator"
#: Where clients' topics are encrypted, the brokers' own are, too.
_SEALED_WITHIN: Final = {"internal.topics.encryption": "aes256-gcm"}
#: Wraps the keys of encrypted topics.
KEEPER_KEY: Final = Secret(b"only for the simulator, 32 bytes")
#: A broker that cannot start, or whose disk failed, is started again by its operator after this.
RETRY_START_MS: Final = 1_000
#: A broker that was stopped is started again after this.
RESTART_MS: Final = 200

_KIB = 1024
#: Compaction goes on all the time, and what it waits for comes within a run.
_COMPACTION: Final[dict[str, OptionValue]] = {
    "log.cleaner.backoff.ms": 100,
    "log.cleaner.min.cleanable.ratio": 0.1,
    "log.cleaner.max.compaction.lag.ms": 700,
    "log.cleaner.delete.retention.ms": 500,
}
#: Members of groups are given up while they are paused, and come back.
_SHORT_SESSIONS: Final[dict[str, OptionValue]] = {
    "group.min.session.timeout.ms": 500,
    "group.consumer.min.session.timeout.ms": 500,
    "group.consumer.session.timeout.ms": SESSION_TIMEOUT_MS,
    "group.consumer.min.heartbeat.interval.ms": 50,
    "group.consumer.heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
}

#: Makes a gateway of a broker.
MakeGateway = Callable[[Doors, Chassis], Gateway]


def _no_process() -> ProcessFacts:
    """Brokers here share a process, and what that has used differs from run to run."""
    return ProcessFacts(
        resident_bytes=None, cpu_seconds=0.0, open_files=None, open_files_max=0, start_seconds=None
    )


def _make_admin(doors: Doors, chassis: Chassis) -> Gateway:
    return AdminGateway(doors, chassis, process_facts=_no_process)


GATEWAYS: Final[Mapping[int, MakeGateway]] = {
    KAFKA_PORT: KafkaGateway,
    TEXT_PORT: TextGateway,
    ADMIN_PORT: _make_admin,
}
#: For what speaks SQS. Brokers register each port, so that one more gives a seed another run.
SQS_GATEWAYS: Final[Mapping[int, MakeGateway]] = {**GATEWAYS, SQS_PORT: SqsGateway}
#: For the schema registry, the same.
REGISTRY_GATEWAYS: Final[Mapping[int, MakeGateway]] = {
    **GATEWAYS,
    REGISTRY_PORT: RegistryGateway,
}
AMQP_GATEWAYS: Final[Mapping[int, MakeGateway]] = {**GATEWAYS, AMQP_PORT: AmqpGateway}
MQTT_GATEWAYS: Final[Mapping[int, MakeGateway]] = {**AMQP_GATEWAYS, MQTT_PORT: MqttGateway}
NATS_GATEWAYS: Final[Mapping[int, MakeGateway]] = {**AMQP_GATEWAYS, NATS_PORT: NatsGateway}
#: STOMP, beside AMQP: both meet at the same queues.
STOMP_GATEWAYS: Final[Mapping[int, MakeGateway]] = {**AMQP_GATEWAYS, STOMP_PORT: StompGateway}
#: What is spoken at these ports, and registered with the controller.
PROTOCOLS: Final[Mapping[int, str]] = {
    KAFKA_PORT: KAFKA,
    TEXT_PORT: TEXT,
    ADMIN_PORT: ADMIN,
    SQS_PORT: SQS,
    REGISTRY_PORT: REGISTRY,
    AMQP_PORT: AMQP,
    MQTT_PORT: MQTT,
    NATS_PORT: NATS,
    STOMP_PORT: STOMP,
}
#: Open from the start of a broker to its end, as it is at a real one.
EARLY: Final = (ADMIN_PORT,)


class SimCluster:
    """Machines `b1`, `b2`, ... with a broker each."""

    def __init__(
        self,
        world: World,
        options: SimOptions | None = None,
        gateways: Mapping[int, MakeGateway] = GATEWAYS,
        *,
        is_secured: bool = False,
        stale_ms_max: int = 60_000,
    ) -> None:
        """`gateways` are those that every broker has, by port.

        Where it `is_secured`, brokers also listen at `SECURED_PORT`, where a client's certificate,
        by `show_certificate`, says who it is; rules may be `stale_ms_max` old there. No other port
        than that of `KAFKA_PORT` may be open beside it.
        """
        self._is_secured = is_secured
        self._stale_ms_max = stale_ms_max
        self.world = world
        self.options = options or SimOptions()
        self.names = name_brokers(self.options.brokers)
        #: The brokers that have been started and have not been ended on purpose.
        self.brokers: dict[str, Broker] = {}
        #: Told of each broker that is made, before it is started.
        self.prepare: Callable[[Broker], None] = lambda _: None
        #: Of each machine's broker, by port.
        self._gateways: dict[str, dict[int, Gateway]] = {}
        self._make_gateways = dict(gateways)
        self._machines = {name: world.add_machine(name) for name in self.names}
        if is_secured:
            for name, machine in self._machines.items():
                machine.host.tls[SECURED] = _tls_of(name)
        self._retired: str | None = None
        #: The machine whose disk may give anything, for as long as it may.
        self._distrusted = self.options.damaged

    @property
    def addresses(self) -> list[Address]:
        """Where clients find the brokers."""
        return [Address(name, KAFKA_PORT) for name in self.names]

    @property
    def secured_addresses(self) -> list[Address]:
        """Where clients find the brokers that are known by a certificate."""
        return [Address(name, SECURED_PORT) for name in self.names]

    def show_certificate(self, machine: Machine, user: str) -> str:
        """Give a client's machine a user's certificate; return its name for `ListenOptions`."""
        machine.host.tls[user] = _tls_of(user)
        return user

    def trusted(self) -> list[tuple[str, Broker]]:
        """Return the brokers that run, but for one on a damaged machine."""
        return [
            (name, broker)
            for name, broker in self.brokers.items()
            if name != self._distrusted and self._machines[name].running
        ]

    def is_back(self, machine: Machine) -> bool:
        """Return whether a machine's broker does its work."""
        broker = self.brokers.get(machine.name)
        if broker is None or not machine.running or machine.paused:
            return False
        return broker.life.is_ready and not broker.life.is_stopping

    @property
    def controller(self) -> str | None:
        """The machine of the controller; of several that take themselves for it, the newest."""
        terms = []
        for name, broker in self.brokers.items():
            replica = broker.driver.get(CONTROLLER_GROUP)
            if self._machines[name].running and replica is not None and replica.is_leader:
                terms.append((replica.term, name))
        return max(terms)[1] if terms else None

    @contextmanager
    def unhindered(self) -> Iterator[None]:
        """Let whoever looks into the brokers read, whatever is wrong with the disks."""
        faults = [machine.drive.faults for machine in self._machines.values()]
        before = [each.failing_reads for each in faults]
        for each in faults:
            each.failing_reads = 0
        try:
            yield
        finally:
            for each, count in zip(faults, before, strict=True):
                each.failing_reads = count

    # -- starting and stopping

    def start(self) -> None:
        """Start every broker."""
        for machine in self._machines.values():
            self.boot(machine)

    def boot(self, machine: Machine) -> None:
        """Start the broker of a machine."""
        self.brokers.pop(machine.name, None)
        if machine.name != self._retired:
            machine.start(lambda env: self._run(machine, env))

    def restart(self, machine: Machine) -> None:
        """Stop a broker in order, and start it again."""
        broker = self.brokers.get(machine.name)
        if broker is None or not machine.running or broker.life.is_stopping:
            return

        gateways = self._gateways[machine.name]

        def on_stopped() -> None:
            _stop(gateways.values())
            self.world.loop.after(0, "exit", machine.kill)
            self._boot_later(machine, RESTART_MS)

        self.world.loop.tell(machine.name, "is asked to stop")
        broker.stop(on_stopped, partial(drain_all, _for_clients(gateways)))

    def retire(self, name: str) -> None:
        """Take a machine away for good."""
        self._retired = name
        self.brokers.pop(name, None)
        self._machines[name].cut_power()

    def readmit(self, name: str) -> None:
        """Give a machine an empty disk without faults, and start its broker."""
        machine = self._machines[name]
        machine.kill()
        machine.drive.volume.clear()
        self.world.loop.tell(name, "gets a new disk")
        self._distrusted = None
        self.boot(machine)

    def failed(self) -> list[str]:
        """Return the machines whose brokers have given up their disk."""
        return [name for name, broker in self.brokers.items() if broker.life.failure is not None]

    def restart_failed(self) -> None:
        """Start those brokers again, as an operator would."""
        for name in self.failed():
            machine = self._machines[name]
            if machine.running and not machine.paused:
                self._start_again(machine)

    def _run(self, machine: Machine, env: Env) -> None:
        name = machine.name

        def report(what: str) -> None:
            self.world.loop.tell(name, what)

        broker = Broker(env=env, config=self._config(name), report=report)
        self.prepare(broker)
        chassis = make_chassis(broker.doors, report)
        gateways = {port: make(broker.doors, chassis) for port, make in self._make_gateways.items()}
        try:
            broker.on_failed = lambda: _stop(_for_clients(gateways))
            broker.start(lambda: self._open_ports(gateways, name, early=False))
            self._open_ports(gateways, name, early=True)
        except KafkaesqueError as error:
            report(f"cannot start: {error}")
            env.clock.call_soon(lambda: self._start_again(machine))
        else:
            self.brokers[name] = broker
            self._gateways[name] = gateways

    def _open_ports(self, gateways: Mapping[int, Gateway], name: str, *, early: bool) -> None:
        for port, gateway in gateways.items():
            if (port in EARLY) == early:
                protocol = PROTOCOLS.get(port, str(port))
                gateway.start(default_listener(protocol, Address(name, port)))
                if port == KAFKA_PORT and self._is_secured:
                    gateway.start(_secured_listener(name))

    def _start_again(self, machine: Machine) -> None:
        machine.kill()
        self._boot_later(machine, RETRY_START_MS)

    def _boot_later(self, machine: Machine, ms: int) -> None:
        def boot() -> None:
            if not machine.running:
                self.boot(machine)

        self.world.loop.after(ms * NS_PER_MS, "operator", boot)

    # -- how brokers are configured

    def _id(self, name: str) -> NodeId:
        return NodeId(self.options.broker_ids[self.names.index(name)])

    def _listeners(self, name: str) -> tuple[Listener, ...]:
        found = [
            default_listener(protocol, Address(name, port))
            for port, protocol in PROTOCOLS.items()
            if port in self._make_gateways
        ]
        return (*found, _secured_listener(name)) if self._is_secured else tuple(found)

    def _config(self, name: str) -> BrokerConfig:
        controllers: dict[NodeId, Address | None] = {
            self._id(each): Address(each, PEER_PORT)
            for each in self.names[: self.options.controllers]
        }
        options: dict[str, OptionValue] = {
            "offsets.topic.num.partitions": 2,
            "offsets.topic.replication.factor": self.options.replicas,
            "transaction.state.log.num.partitions": 2,
            "transaction.state.log.replication.factor": self.options.replicas,
            "group.initial.rebalance.delay.ms": 0,
            "log.retention.check.interval.ms": 500,
            # Small files, so that rolling, checkpoints and reuse happen all the time.
            "log.segment.bytes": 8 * _KIB,
            "log.scrub.interval.ms": 20_000,
            # Clocks of brokers jump back by a day: they would take nothing that clients say is new.
            "log.message.timestamp.after.max.ms": INT64_MAX,
            "broker.session.timeout.ms": self.options.session_timeout_ms,
            "authorization.stale.ms.max": self._stale_ms_max,
        }
        if {"compaction", "throttles"} & set(self.options.activities):
            options |= _COMPACTION
        if {"exactly-once", "lock"} & set(self.options.activities):
            options |= _SHORT_SESSIONS
        if self.options.is_encrypted:
            options |= _SEALED_WITHIN
        return BrokerConfig(
            node=self._id(name),
            cluster_id="sim",
            peer_address=Address(name, PEER_PORT),
            listeners=self._listeners(name),
            controllers=controllers,
            secrets=(SECRET,),
            keeper_keys=(KEEPER_KEY,) if self.options.is_encrypted else (),
            timings=PeerTimings(heartbeat_ms=self.options.heartbeat_ms),
            membership=MembershipConfig(probe_ms=self.options.probe_ms),
            options=options,
            rack=dict(zip(self.names, self.options.racks, strict=False)).get(name),
            metadata_snapshot_records=self.options.snapshot_records,
            storage=StorageConfig(
                segment_bytes_max=32 * _KIB,
                wal_bytes=64 * _KIB,
                index_interval_bytes=256,
                cache_bytes_max=16 * _KIB,
                free_bytes_min=8 * _KIB,
            ),
        )


def _secured_listener(name: str) -> Listener:
    return Listener(
        protocol=KAFKA,
        name=SECURED,
        advertised=Address(name, SECURED_PORT),
        tls=SECURED,
        access=AccessMode.REQUIRED,
        log_in_by=LogInBy.CERTIFICATE,
    )


def _tls_of(name: str) -> SimTls:
    certificate = PeerCertificate(
        subject=f"CN={name}",
        issuer="sim",
        serial=1,
        not_after_ms=INT64_MAX,
        attributes=(("commonName", name),),
    )
    return SimTls(certificate=certificate, trusted=frozenset({"sim"}))


def _for_clients(gateways: Mapping[int, Gateway]) -> list[Gateway]:
    return [gateway for port, gateway in gateways.items() if port not in EARLY]


def _stop(gateways: Iterable[Gateway]) -> None:
    for gateway in gateways:
        gateway.stop()
