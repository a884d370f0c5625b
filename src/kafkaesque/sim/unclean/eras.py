"""Which unclean elections there were, as the brokers have committed them in the metadata (ADR 16).

From one unclean election of a partition to the next its log has one history: an *era*, known by the
formation that began it, 0 for the first. What is committed in an era is a promise as long as it
lasts. Replicas that have not heard of an election yet live on in an earlier era.
"""

from typing import Final

from kafkaesque.broker.broker import Broker
from kafkaesque.broker.metadata.recovery_state import NO_RECOVERY, FormationPlan
from kafkaesque.broker.replication.raft_driver import Replica
from kafkaesque.model.batch import scan_batches
from kafkaesque.model.ids import GroupId, Offset
from kafkaesque.model.records import decode_batch
from kafkaesque.sim.cluster import SimCluster
from kafkaesque.storage.group_log import GroupLog

READ_BYTES: Final = 1 << 20


class Eras:
    """Remembers the unclean elections that any broker has heard of."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster: Final = cluster
        #: group -> formation -> how it was decided
        self._plans: Final[dict[GroupId, dict[int, FormationPlan]]] = {}
        #: What the log held that an era began with, by offset; where one replica was left.
        self._inherited: Final[dict[tuple[GroupId, int], dict[int, bytes]]] = {}

    @property
    def count(self) -> int:
        """Unclean elections so far."""
        return sum(map(len, self._plans.values()))

    def look(self) -> None:
        """Hear of what was decided; brokers that were killed just now still know it."""
        for name, broker in self._cluster.brokers.items():
            if name == self._cluster.options.damaged:
                continue
            for group, recovery in broker.state.recoveries.items():
                plan = recovery.unclean
                if plan is not None and plan.formation not in self._plans.get(group, ()):
                    self._plans.setdefault(group, {})[plan.formation] = plan
                    self._tell(group, plan)

    def _tell(self, group: GroupId, plan: FormationPlan) -> None:
        self._cluster.world.loop.tell(
            "-",
            f"group {group} is elected uncleanly: formation {plan.formation} of {plan.voters} from "
            f"offset {plan.end_offset} on",
        )

    def plans(self, group: GroupId) -> list[FormationPlan]:
        """Return a group's unclean elections, in their order."""
        plans = self._plans.get(group, {})
        return [plans[formation] for formation in sorted(plans)]

    def latest(self, group: GroupId) -> int:
        """Return a group's newest era."""
        return max(self._plans.get(group, ()), default=0)

    def era_of(self, broker: Broker, replica: Replica) -> int | None:
        """Return in which era a replica is; None where nobody can tell.

        That is where it has entered a formation, and its broker has not heard yet how it began.
        """
        group = replica.group
        heard = _heard(broker, group)
        entered = replica.core.formation
        later = [each for each in self._plans.get(group, ()) if heard < each <= entered]
        return None if later else heard

    def era_at(self, host: str, group: GroupId) -> int:
        """Return the era in which a broker is, at least."""
        broker = self._cluster.brokers.get(host)
        return 0 if broker is None else _heard(broker, group)

    # -- what an era begins with

    def inherited(self, group: GroupId) -> dict[int, bytes]:
        """Return records that the newest era began with; none where that was not to be seen."""
        return self._inherited.get((group, self.latest(group)), {})

    def keep_inherited(self) -> None:
        """Remember what the logs hold that go on alone; to be called while reads do not fail."""
        for group, plans in self._plans.items():
            formation = max(plans)
            plan = plans[formation]
            if (group, formation) not in self._inherited and plan.voters == (plan.leader,):
                log = self._find_log(group, plan)
                if log is not None:
                    self._inherited[group, formation] = _read(log, plan.end_offset)

    def _find_log(self, group: GroupId, plan: FormationPlan) -> GroupLog | None:
        for _, broker in self._cluster.trusted():
            partition = broker.partitions.get(group)
            if int(broker.node) == plan.leader and partition is not None:
                replica = partition.replica
                if replica is not None and self.era_of(broker, replica) == plan.formation:
                    return partition.log
        return None


def _heard(broker: Broker, group: GroupId) -> int:
    unclean = broker.state.recoveries.get(group, NO_RECOVERY).unclean
    return 0 if unclean is None else unclean.formation


def _read(log: GroupLog, end: int) -> dict[int, bytes]:
    records: dict[int, bytes] = {}
    position = log.start_offset
    while position < end:
        ranges = log.locate_blocking(position, READ_BYTES, Offset(end))
        data = b"".join(each.file.read_blocking(each.position, each.length) for each in ranges)
        batches = scan_batches(data).batches
        if not batches:
            break
        for header in batches:
            for record in decode_batch(data, READ_BYTES, at=header.at):
                if log.start_offset <= record.offset < end:
                    records[record.offset] = bytes(record.value or b"")
        position = Offset(batches[-1].next_offset)
    return records
