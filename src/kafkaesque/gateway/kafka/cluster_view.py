"""The cluster as clients are told about it: which brokers are alive, and who leads what."""

from typing import NamedTuple

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.listeners import KAFKA
from kafkaesque.broker.metadata.cluster_state import PartitionState
from kafkaesque.broker.metadata.records import BrokerRegistered
from kafkaesque.broker.metadata.topic_names import check_topic_name
from kafkaesque.env.network import Address
from kafkaesque.gateway.kafka.errors import code_of
from kafkaesque.model.errors import InvalidTopic, InvariantBroken
from kafkaesque.model.ids import NO_NODE, NodeId
from kafkaesque.protocols.kafka.error_codes import ErrorCode


class Placement(NamedTuple):
    """Where a partition is, as clients are told."""

    error_code: int
    leader: int
    leader_epoch: int
    in_sync: tuple[int, ...]
    offline: tuple[int, ...]


class ClusterView:
    """The cluster as this broker sees it at one moment, for clients that came by one listener.

    Brokers without a listener of that name do not exist for them, as in Kafka.
    """

    __slots__ = ("_alive", "_listener", "doors")

    def __init__(self, doors: Doors, listener: str) -> None:
        self.doors = doors
        self._listener = listener
        alive = sorted(doors.cluster.alive_brokers(), key=lambda found: found.node)
        self._alive = {NodeId(found.node): found for found in alive if self._has_listener(found)}

    def address(self, broker: BrokerRegistered) -> Address:
        """Return where the client finds a broker of this view."""
        found = broker.endpoint(KAFKA, self._listener)
        if found is None:
            raise InvariantBroken(f"broker {broker.node} has no listener {self._listener}")
        return found

    def _has_listener(self, broker: BrokerRegistered) -> bool:
        return broker.endpoint(KAFKA, self._listener) is not None

    @property
    def is_cut_off(self) -> bool:
        """Whether this broker knows no controller, and hears of no majority of the brokers."""
        return self.doors.cluster.is_cut_off()

    @property
    def registered(self) -> list[BrokerRegistered]:
        """All registered brokers, by their ids."""
        known = self.doors.cluster.state.brokers
        return [found for _, found in sorted(known.items()) if self._has_listener(found)]

    @property
    def brokers(self) -> list[BrokerRegistered]:
        """The brokers that clients are to know, by their ids: alive, or lost a moment ago.

        A client gives up all that it has with a broker that is listed no more. One that is just
        being restarted is listed throughout: until its session is over, as Kafka does.

        While no controller is known, all that there are: a broker that is cut off hears of nobody,
        and clients that it told of itself alone would forget the others, and stay with it.
        """
        registered = self.registered
        if self.doors.cluster.controller() not in self._alive:
            return registered
        session_ms = int(self.doors.configuration.get("broker.session.timeout.ms"))
        was_alive = self.doors.cluster.was_alive
        return [each for each in registered if was_alive(NodeId(each.node), session_ms)]

    @property
    def way_to_controller(self) -> int:
        """Where to send what the controller decides: always a broker (ADR 23).

        Every broker passes such requests on, and of this one it is certain that the client reaches
        it. If it is cut off it can pass nothing on, and names one on the other side of the cut. One
        that is not registered is not listed: clients would look for it in vain.
        """
        if self.is_cut_off:
            return self._elsewhere()
        node = self.doors.cluster.node
        return node if node in self._alive else min(self._alive, default=node)

    @property
    def controller(self) -> int:
        """Which broker is the controller; if that is not known, where to send what it decides."""
        controller = self.doors.cluster.controller()
        if controller is not None and controller in self._alive:
            return int(controller)
        return self.way_to_controller

    def _elsewhere(self) -> NodeId:
        """Return by chance one of the brokers that were lost last: a cut loses many at once.

        One that was lost long before is more likely to be down than to be behind the cut, and one
        whose machine says that nobody listens surely is. If all are, it is not this broker that is
        cut off: it waits, as its clients do, until others are there.
        """
        cluster = self.doors.cluster
        session_ms = int(self.doors.configuration.get("broker.session.timeout.ms"))
        unheard = [
            node
            for node in (NodeId(found.node) for found in self.registered)
            if node not in self._alive and not cluster.is_refused(node)
        ]
        newest_ms = max(map(cluster.lost_ms, unheard), default=0)
        found = [node for node in unheard if newest_ms - cluster.lost_ms(node) <= session_ms]
        return found[self.doors.dice.below(len(found))] if found else cluster.node

    def find_broker(self, node: int) -> BrokerRegistered | None:
        """Return a broker if it is alive."""
        return self._alive.get(NodeId(node))

    def leader_of(self, partition: PartitionState) -> BrokerRegistered | None:
        """Return who leads a partition, if it is known and alive."""
        leader = self.doors.cluster.leaders.leader(partition.group)
        return None if leader is None else self._alive.get(leader)

    def place(self, partition: PartitionState) -> Placement:
        """Return where a partition is."""
        alive = self._alive
        report = self.doors.cluster.leaders.get(partition.group)
        told = report.offline if report is not None else ()
        offline = tuple(n for n in partition.replicas if n not in alive or n in told)
        leading = self.doors.cluster.leaders.leader_and_term(partition.group)
        if leading is not None and self._is_elsewhere(leading.node):
            code = ErrorCode.LISTENER_NOT_FOUND
            return Placement(code, NO_NODE, leading.term, report.in_sync if report else (), offline)
        if report is None or leading is None or leading.node not in alive:
            # Clients that hear of no epoch believe the next one, however old it is.
            term, in_sync = (-1, ()) if report is None else (report.term, report.in_sync)
            term = max(term, self._own_epoch(partition))
            return Placement(ErrorCode.LEADER_NOT_AVAILABLE, NO_NODE, term, in_sync, offline)
        return Placement(0, leading.node, leading.term, report.in_sync, offline)

    def _is_elsewhere(self, node: NodeId) -> bool:
        """Tell whether a broker is there, and has no listener by which clients could reach it."""
        registered = self.doors.cluster.state.brokers.get(node)
        return (
            node not in self._alive
            and registered is not None
            and not self._has_listener(registered)
            and self.doors.cluster.is_alive(node)
        )

    def _own_epoch(self, partition: PartitionState) -> int:
        """Return the newest leader epoch that is in this broker's log, -1 if there is none.

        Not that of its newest vote: perhaps nobody was elected.
        """
        return self.doors.cluster.newest_epoch_here(partition.group) or -1

    def as_of(self) -> tuple[object, ...]:
        """Return what changes whenever an answer that is derived from the cluster may change."""
        doors = self.doors
        return (
            self._listener,
            doors.cluster.state.version,
            doors.cluster.leaders.version,
            doors.cluster.controller(),
            tuple(self._alive),
            tuple(found.node for found in self.brokers),
        )


def error_of_missing(name: str) -> ErrorCode:
    """Return what is wrong with a topic that does not exist."""
    try:
        check_topic_name(name)
    except InvalidTopic as refusal:
        return code_of(refusal)
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
