"""The dials of membership, and who a member is."""

from collections.abc import Sequence
from dataclasses import dataclass

from kafkaesque.env.network import Address
from kafkaesque.membership.entries import ACCUSERS_MAX, INCARNATION_MAX, NODE_MAX
from kafkaesque.membership.rumours import Interest
from kafkaesque.membership.seal import SEAL_BYTES
from kafkaesque.membership.wire import BUCKETS_BYTES
from kafkaesque.model.errors import ConfigError
from kafkaesque.model.ids import NodeId

#: A frame that every path carries in one piece: IPv6 promises 1,280 bytes, of which 48 are heads.
FRAME_BYTES = 1_200
FRAME_BYTES_MIN = SEAL_BYTES + BUCKETS_BYTES
FRAME_BYTES_MAX = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """One run of one node.

    Raises:
        ConfigError: a value is out of range.
    """

    cluster_id: str
    node: NodeId
    #: Where others reach it.
    address: Address
    #: Greater than those of earlier runs, as a rule: Unix time in milliseconds.
    life: int
    #: The cluster's secret and, while it is changed, the other one; see `membership.seal`.
    secrets: Sequence[bytes]
    #: Addresses of any other members; none for the first one.
    seeds: Sequence[Address] = ()

    def __post_init__(self) -> None:
        if not self.cluster_id:
            raise ConfigError("membership: the cluster id is empty")
        if not 0 <= self.node <= NODE_MAX:
            raise ConfigError(f"membership: node id {self.node} is not from 0 to {NODE_MAX}")
        if not 1 <= self.life <= INCARNATION_MAX:
            raise ConfigError(f"membership: life {self.life} is not from 1 to {INCARNATION_MAX}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipConfig:
    """Delays and bounds, the same for all members of a cluster.

    Raises:
        ConfigError: a value is out of range or contradicts another.
    """

    #: Each so long two members are probed: the next one in the ring, and one by lot.
    probe_ms: int = 200
    #: Without an answer for this long others are asked to probe, and the place is knocked at.
    ack_ms: int = 100
    #: Without an answer through anybody for this much longer it is a suspect.
    indirect_ms: int = 200
    #: So many others are asked.
    helpers: int = 3
    #: A suspect is dead when it has been one for this long, if nobody else accuses it, ...
    suspicion_ms_max: int = 30_000
    #: ... and for this long when `suspicion_confirmations` others do.
    suspicion_ms_min: int = 5_000
    suspicion_confirmations: int = 3
    #: So many members that are refused a connection prove that no process is there.
    refusals: int = 2
    #: Delays of a member that is slow itself grow up to one more than this many times.
    health_max: int = 8
    #: A member that was itself held up for this long forgives the others as much.
    stall_ms: int = 100
    #: While there are rumours they are told so often, to so many members by lot.
    gossip_ms: int = 50
    gossip_fanout: int = 3
    #: Tellings of a rumour by each member, for every factor of ten in the number of members.
    tellings_per_decade: int = 6
    #: A variant of rumour mongering in place of that; see `membership.rumours`.
    interest: Interest | None = None
    #: How often one member by lot is compared with.
    sync_ms: int = 5_000
    #: How often one that is taken for dead is tried, so that a cluster that was parted heals.
    reconnect_ms: int = 2_000
    #: How often a seed is asked while nobody has answered; the pauses double up to the maximum.
    join_ms: int = 200
    join_ms_max: int = 5_000
    #: Who has said that it leaves goes on telling so for this long.
    leave_ms: int = 500
    #: The dead and what was withdrawn are remembered for so long.
    forget_ms: int = 24 * 60 * 60 * 1000
    frame_bytes_max: int = FRAME_BYTES
    #: Members of any state; facts of all and of each; rumours.
    members_max: int = 1_000
    facts_max: int = 50_000
    facts_per_member_max: int = 16_384
    rumours_max: int = 8_192
    #: Probes that are made for others at a time.
    relays_max: int = 256
    #: Frames with entries that one step of repair sends.
    sync_frames_max: int = 8

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            least = 0 if name in ("health_max", "helpers", "suspicion_confirmations") else 1
            if isinstance(value, int) and value < least:
                raise ConfigError(f"membership: {name} must be at least {least}, not {value}")
        orders = (
            ("suspicion_ms_min", "suspicion_ms_max"),
            ("join_ms", "join_ms_max"),
            ("facts_per_member_max", "facts_max"),
        )
        for lesser, greater in orders:
            if getattr(self, lesser) > getattr(self, greater):
                raise ConfigError(
                    f"membership: {lesser} ({getattr(self, lesser)}) must not exceed"
                    f" {greater} ({getattr(self, greater)})"
                )
        for name in ("refusals", "suspicion_confirmations"):
            most = ACCUSERS_MAX - (name == "suspicion_confirmations")
            if getattr(self, name) > most:
                raise ConfigError(
                    f"membership: {name} must be at most {most}, not {getattr(self, name)}"
                )
        if not FRAME_BYTES_MIN <= self.frame_bytes_max <= FRAME_BYTES_MAX:
            raise ConfigError(
                f"membership: frame_bytes_max must be from {FRAME_BYTES_MIN} to"
                f" {FRAME_BYTES_MAX}, not {self.frame_bytes_max}"
            )
