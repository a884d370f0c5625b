"""What can be seen of a cluster from outside; None is what could not be seen."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkaesque.access.administration import Exposure, ShownUser
from kafkaesque.cli.access_requests import ShownRule
from kafkaesque.cli.moving_replicas import Move, Where
from kafkaesque.cli.quorum import Quorum
from kafkaesque.cli.recoveries import Recovery


class PartitionName(NamedTuple):
    """A partition, by its topic's name."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """A partition, as one broker sees it."""

    leader: int
    epoch: int
    replicas: Sequence[int]
    in_sync: Sequence[int]
    offline: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The cluster's metadata, as one broker sees it."""

    cluster_id: str
    #: Which controller it names; negative: none.
    controller: int
    #: Where those are that it hears of, itself included.
    brokers: Mapping[int, str]
    partitions: Mapping[PartitionName, PartitionFacts]

    @property
    def known_controller(self) -> int | None:
        """The controller that this broker hears of.

        One that is cut off names one of those that it does not hear of (ADR 23), or none if it is
        of an earlier release.
        """
        return self.controller if self.controller in self.brokers else None


def most_agreed(views: Sequence[View]) -> View:
    """Return what most see, as their controller tells: a broker that is cut off sees nobody."""
    followers = Counter(each.known_controller for each in views)
    return max(
        views,
        key=lambda each: (
            followers[each.known_controller],
            sum(partition.leader >= 0 for partition in each.partitions.values()),
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """A broker's data directory; sizes are of its volume."""

    directory: str
    total_bytes: int | None
    free_bytes: int | None
    has_failed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminFacts:
    """What a broker's admin port says."""

    #: Of metrics without labels, or the first sample of those that have some.
    metrics: Mapping[str, float]
    version: str
    #: Why the broker is not ready, if it is not.
    reasons: Sequence[str]
    #: By how much the broker's clock is ahead of the one here, and how uncertain that is.
    clock_ahead_s: float
    clock_error_s: float
    #: Copies that it cannot read, or not all of: what is wrong, in which file, and what helps.
    damaged: Mapping[str, str] = field(default_factory=dict)
    #: Copies that it is replacing from other brokers; they have no vote until that is done.
    copied: Sequence[str] = ()
    #: The controllers, as it knows them; none in earlier releases.
    controllers: Sequence[int] = ()
    #: Whether it is one of them and has lost its disk: no vote until they have re-admitted it.
    has_lost_log: bool = False

    @property
    def has_failed(self) -> bool:
        """Whether its disk has failed, and only a restart helps."""
        return self.metrics.get("kafkaesque_broker_failed", 0.0) > 0

    @property
    def is_full(self) -> bool:
        """Whether it takes no records, because its disk has too little space."""
        return self.metrics.get("kafkaesque_appends_refused", 0.0) > 0 and not self.has_failed


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFacts:
    """What a listener shows who it is by."""

    listener: str
    #: Unix time; None where it could not be seen.
    ends_s: float | None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessFacts:
    """Who there is, and what they may do."""

    users: Sequence[ShownUser]
    super_users: Sequence[str]
    rules: Sequence[ShownRule]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFacts:
    """One broker that the others name."""

    id: int
    address: str
    #: Why its Kafka port does not answer, if it does not.
    problem: str | None = None
    #: Somebody accepts connections there, and says nothing.
    hangs: bool = False
    view: View | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    disk: Disk | None = None
    admin: AdminFacts | None = None
    #: Why the admin port could not be asked; empty where there is none.
    admin_problem: str = ""
    #: Why its disk could not be looked at, if it answers and this was refused.
    disk_problem: str = ""
    #: It names itself as the controller, and DescribeQuorum there does not deny that one leads: it
    #: says which one, or no rule allows to ask.
    may_be_led: bool = False
    #: Transactional ids whose transactions are open for longer than was asked.
    hanging: Sequence[str] = ()
    #: How it listens and how new its rules are, if it says so.
    exposure: Exposure | None = None
    certificates: Sequence[CertificateFacts] = ()

    @property
    def controller(self) -> int | None:
        """Which controller it knows to lead.

        One that knows none names itself, or another one if it is cut off; at its admin port it
        says the truth.
        """
        named = None if self.view is None else self.view.known_controller
        if named is None or self.admin is None or named != self.id:
            return named
        known = self.admin.metrics.get("kafkaesque_controller_node", self.id)
        return self.id if known == self.id else None

    @property
    def has_failed(self) -> bool:
        """Whether it has given up its disk, as it says itself, at whichever port still answers."""
        by_disk = self.disk is not None and self.disk.has_failed
        return by_disk or (self.admin is not None and self.admin.has_failed)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """A group that is behind."""

    name: str
    messages: int
    #: Since when the oldest unread record is there; None where that cannot be said.
    seconds: float | None
    members: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFacts:
    """A queue, as the leader of its log says."""

    vhost: str
    name: str
    #: Negative: nobody leads.
    leader: int
    #: Those that are set.
    options: Mapping[str, str] = field(default_factory=dict)
    #: By the names that DescribeQueues has; empty: not known.
    counts: Mapping[str, int] = field(default_factory=dict)
    #: How old the oldest message is that is not done with, and the newest that has come.
    oldest_s: float | None = None
    newest_s: float | None = None
    #: Whether dead letters go to an exchange that is not there, or that this user may not see.
    lacks_exchange: bool = False

    def __str__(self) -> str:
        return self.name if self.vhost == "/" else f"{self.vhost}:{self.name}"

    @property
    def key(self) -> tuple[str, str]:
        """No other queue has it."""
        return self.vhost, self.name

    @property
    def dead_letter_queue(self) -> str:
        """Where its dead letters go; empty: to no queue."""
        return self.options.get("dead.letter.queue", "")

    @property
    def waits(self) -> bool:
        """Whether messages wait for a consumer."""
        return self.of("ready") > 0

    def of(self, count: str) -> int:
        """Return a number; 0 if it is not known."""
        return self.counts.get(count, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All of it."""

    #: What most brokers see.
    view: View
    brokers: Sequence[BrokerFacts]
    #: Brokers that belong to the cluster, up or not: all but those that were removed.
    registered: Sequence[int] = ()
    #: Options in force, by topic.
    topics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    groups: Sequence[GroupFacts] = ()
    queues: Sequence[QueueFacts] = ()
    #: Partitions that were recovered; those that are being recovered come first.
    recoveries: Sequence[Recovery] = ()
    #: Whether there are, or may be, others of them.
    has_unseen_recoveries: bool = False
    #: Partitions whose replicas move, by topic and number.
    moves: Mapping[Where, Move] = field(default_factory=dict)
    has_unseen_moves: bool = False
    #: The controllers, as the one that leads says.
    quorum: Quorum | None = None
    #: Users and rules, if whoever asks may see them.
    access: AccessFacts | None = None
    #: Whether brokers name all topics, groups and transactions to whoever asks, also those of
    #: others.
    names_all: bool = True
    #: What could not be looked at, one sentence each.
    unseen: Sequence[str] = ()

    @property
    def controller(self) -> int | None:
        """Which controller leads, as most brokers say that know one."""
        named = [self.led_by(each) for each in self.brokers]
        known = Counter(node for node in named if node is not None)
        return known.most_common(1)[0][0] if known else None

    @property
    def has_no_controller(self) -> bool:
        """Whether brokers answer, and none of them knows a controller that leads.

        One without an admin port that names itself may know none: it is believed if it could say
        so to whoever asks for the quorum, and does not.
        """
        seen = [each for each in self.brokers if each.view is not None]
        return bool(seen) and all(
            self.led_by(each) is None
            or (each.controller == each.id and each.admin is None and not each.may_be_led)
            for each in seen
        )

    def led_by(self, broker: BrokerFacts) -> int | None:
        """Return which controller a broker knows to lead, if that one does not deny it.

        A broker that is no controller goes on believing in one that has lost its majority.
        """
        node = broker.controller
        denied = any(
            e.id == node and e.view is not None and e.controller != node for e in self.brokers
        )
        return None if denied else node

    @property
    def controllers(self) -> list[int]:
        """The brokers that are controllers, as the leading one says, or most admin ports."""
        if self.quorum is not None:
            return self.quorum.voters
        told = Counter(
            tuple(sorted(each.admin.controllers))
            for each in self.brokers
            if each.admin is not None and each.admin.controllers
        )
        return list(told.most_common(1)[0][0]) if told else []

    @property
    def lost_controllers(self) -> list[int]:
        """Controllers that have lost their disks, while none leads that could take them in."""
        if not self.has_no_controller:
            return []
        return [e.id for e in self.brokers if e.admin is not None and e.admin.has_lost_log]

    @property
    def alive_addresses(self) -> str:
        """The Kafka ports that answer, as one list of servers."""
        return ",".join(each.address for each in self.brokers if each.problem is None)

    @property
    def known_brokers(self) -> list[int]:
        """All brokers that are named anywhere, whether they are up or not."""
        named = {node for each in self.view.partitions.values() for node in each.replicas}
        return sorted(named | {each.id for each in self.brokers} | set(self.registered))

    @property
    def dead_brokers(self) -> list[int]:
        """Those that do not answer, or that nobody says how to reach."""
        return [node for node in self.known_brokers if not self.answers(node)]

    @property
    def hanging_brokers(self) -> list[int]:
        """Those that accept connections and answer nothing."""
        return [each.id for each in self.brokers if each.hangs]

    def recovery_of(self, name: PartitionName) -> Recovery | None:
        """Return what is known of a partition that was recovered, or is being recovered."""
        return next((e for e in self.recoveries if (e.topic, e.partition) == name), None)

    def min_insync(self, topic: str) -> int:
        """Return how many replicas are to be in sync for `acks=all`, 1 where that is not known."""
        return int(self.topics.get(topic, {}).get("min.insync.replicas", "1"))

    def answers(self, node: int) -> bool:
        """Tell whether a broker's Kafka port does."""
        return any(each.problem is None for each in self.brokers if each.id == node)
