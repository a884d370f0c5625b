"""Who a broker is and how it behaves, fixed when it starts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kafkaesque.access.credentials import FirstCredential
from kafkaesque.access.principal_mapping import read_mapping_rules
from kafkaesque.access.principals import Principal
from kafkaesque.access.rules import Rule
from kafkaesque.access.secret import Secret
from kafkaesque.broker.listeners import (
    ADMIN,
    KAFKA,
    Listener,
    check_access,
    default_listener,
    first_of,
)
from kafkaesque.broker.options.log import with_units
from kafkaesque.broker.options.tables import BROKER_OPTIONS
from kafkaesque.env.network import Address
from kafkaesque.membership.config import MembershipConfig
from kafkaesque.model.errors import ConfigError
from kafkaesque.model.ids import NodeId
from kafkaesque.model.options import OptionValue
from kafkaesque.raft.config import RaftConfig
from kafkaesque.storage.config import StorageConfig

#: Broker ids are from 1 to this.
NODE_ID_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerTimings:
    """How brokers watch one another."""

    heartbeat_ms: int = 100
    peer_timeout_ms: int = 1_500


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """One broker.

    Raises:
        ConfigError: values contradict each other.
    """

    node: NodeId
    cluster_id: str
    rack: str | None = None
    #: Where other brokers find it.
    peer_address: Address = Address("127.0.0.1", 9190)
    #: Where it listens for them, if that is another address.
    peer_listener: Address | None = None
    #: What brokers speak TLS by, as in `ListenOptions.tls`; empty: they speak in the clear.
    peer_tls: str = ""
    #: With TLS between brokers, while a cluster goes over to it: see `peers.papers`.
    dials_peers_with_tls: bool = True
    takes_peers_in_the_clear: bool = False
    #: Where it listens for clients; at least once for those of Kafka.
    listeners: Sequence[Listener] = (default_listener(KAFKA, Address("127.0.0.1", 9092)),)
    #: The first controllers of a new cluster, who are asked first in an older one, each with its
    #: peer address, or None where gossip has to find it; this broker may be among them.
    controllers: Mapping[NodeId, Address | None]
    #: The cluster's secret, and another one while it is changed; with one, brokers gossip.
    secrets: tuple[bytes, ...] = field(default=(), repr=False)
    #: The keys of the key keeper `file`, the one that wraps first; empty: there is no keeper.
    keeper_keys: tuple[Secret, ...] = field(default=(), repr=False)
    #: Who may log in to a new cluster; for one that exists they mean nothing.
    first_users: tuple[FirstCredential, ...] = field(default=(), repr=False)
    first_rules: tuple[Rule, ...] = ()
    #: Who may do everything, whatever the rules say, such as `User:admin`.
    super_users: tuple[Principal, ...] = ()
    #: Kafka's `ssl.principal.mapping.rules`; empty: the common name.
    principal_mapping_rules: str = ""
    #: Peer addresses of any brokers; without them, those of the controllers.
    seeds: Sequence[Address] = ()
    #: Broker options by their Kafka names, checked; those that are not named have their default.
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    timings: PeerTimings = PeerTimings()
    membership: MembershipConfig = MembershipConfig()
    #: Where the disk's root is, for people to read.
    data_dir: str = ""
    tick_ms: int = 50
    raft: RaftConfig = RaftConfig()
    #: A snapshot of the metadata is made when this many records came after the last one.
    metadata_snapshot_records: int = 10_000
    storage: StorageConfig = StorageConfig()

    def __post_init__(self) -> None:
        if not 0 <= self.node <= NODE_ID_MAX:
            raise ConfigError(f"broker id {self.node} is not from 0 to {NODE_ID_MAX}")
        if not self.cluster_id:
            raise ConfigError("the cluster id is empty")
        self._check_listeners()
        if not self.controllers:
            raise ConfigError("no broker is named as a controller")
        if self.seeds and not self.secrets:
            raise ConfigError("seeds need gossip, and gossip needs a cluster.secret.file")
        lost = [node for node, where in self.controllers.items() if where is None]
        if lost and not self.secrets:
            raise ConfigError(
                f"controller {lost[0]} has no address: set it, or let gossip find it, "
                "which needs a cluster.secret.file"
            )
        if self.timings.peer_timeout_ms < 3 * self.timings.heartbeat_ms:
            raise ConfigError(
                f"a peer timeout of {self.timings.peer_timeout_ms} ms is less than three "
                f"heartbeats of {self.timings.heartbeat_ms} ms"
            )
        BROKER_OPTIONS.check_orders(self.option)
        read_mapping_rules(self.principal_mapping_rules)

    @property
    def kafka_address(self) -> Address:
        """What Kafka's clients are told to connect to at the first such listener."""
        return next(each.advertised for each in self.listeners if each.protocol == KAFKA)

    @property
    def admin_address(self) -> Address | None:
        """Where metrics and health are; None where there is no such listener."""
        found = first_of(self.listeners, ADMIN)
        return None if found is None else found.advertised

    def _check_listeners(self) -> None:
        if first_of(self.listeners, KAFKA) is None:
            raise ConfigError("no listener speaks the protocol kafka: a broker needs one")
        names = [each.name for each in self.listeners]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ConfigError(f"two listeners are called {twice!r}: each needs a name of its own")
        check_access(self.listeners, has_secret=bool(self.secrets))

    def option(self, name: str) -> OptionValue:
        """Return a broker option as it was when the broker started."""
        value = with_units(self.options).get(name)
        return BROKER_OPTIONS.get(name).default if value is None else value

    @property
    def lag_ticks_max(self) -> int:
        """So many ticks a replica may be behind and is in sync."""
        return max(1, int(self.option("replica.lag.time.max.ms")) // self.tick_ms)

    def option_values(self) -> dict[str, OptionValue]:
        """Return all broker options as they were when the broker started."""
        return {**BROKER_OPTIONS.defaults(), **with_units(self.options)}

    def seed_addresses(self) -> list[Address]:
        """Return whom gossip asks first; nobody for a cluster's first broker."""
        known = self.seeds or [each for each in self.controllers.values() if each is not None]
        return [address for address in dict.fromkeys(known) if address != self.peer_address]
