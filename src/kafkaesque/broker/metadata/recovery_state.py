"""What the metadata know of one group's formations (ADR 16): values, and how they follow."""

import msgspec

from kafkaesque.broker.requests.survivor_report import SurvivorReport
from kafkaesque.model.ids import NodeId
from kafkaesque.raft.configuration import Configuration
from kafkaesque.raft.formation import formation_of
from kafkaesque.raft.recovery import Founding, find_founding


class FormationPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How a formation is to begin."""

    formation: int
    voters: tuple[int, ...]
    #: Who founds it, and where its log ends: with another one it is not the same replica any more.
    leader: int
    last_index: int
    last_term: int
    end_offset: int
    #: Whether no committed record can be missing.
    is_clean: bool = True
    #: When it was decided, by some broker's clock; 0: that was not written down.
    at_ms: int = 0


class RecoveryState(msgspec.Struct, frozen=True, kw_only=True):
    """Where a group is; of most there is none, as they are in the formation that they began with.

    Treat as immutable: each method returns the state that follows.
    """

    #: The newest that was begun.
    formation: int = 0
    #: When, by some broker's clock.
    begun_ms: int = 0
    #: What was told for it, until it is decided.
    reports: tuple[SurvivorReport, ...] = ()
    #: The decisions that a later one may have to look at; the newest is last.
    plans: tuple[FormationPlan, ...] = ()
    #: The newest decision that gave up what may have been committed.
    unclean: FormationPlan | None = None
    #: Records that the unclean decision gave up, committed or not, as far as replicas have told.
    given_up: int = 0

    @property
    def is_open(self) -> bool:
        """Whether a formation has begun that is not decided."""
        return self.plan is None or self.plan.formation < self.formation

    @property
    def plan(self) -> FormationPlan | None:
        """The newest decision."""
        return self.plans[-1] if self.plans else None

    def begun(self, formation: int, at_ms: int = 0) -> "RecoveryState":
        """Another formation begins."""
        return msgspec.structs.replace(self, formation=formation, begun_ms=at_ms, reports=())

    def told(self, report: SurvivorReport) -> "RecoveryState":
        """A replica has told what it has; a later word replaces an earlier one."""
        others = tuple(each for each in self.reports if each.node != report.node)
        return msgspec.structs.replace(self, reports=(*others, report))

    def decided(self, plan: FormationPlan) -> "RecoveryState":
        """The formation is to begin so."""
        reached = formation_of(plan.last_term)
        plans = tuple(each for each in self.plans if each.formation > reached)
        unclean = self.unclean if plan.is_clean else plan
        given_up = self.given_up if plan.is_clean else 0
        return msgspec.structs.replace(
            self, reports=(), plans=(*plans, plan), unclean=unclean, given_up=given_up
        )

    def gave_up(self, count: int) -> "RecoveryState":
        """A replica had so many committed records that are not there any more."""
        return msgspec.structs.replace(self, given_up=max(self.given_up, count))

    def has_given_up_after(self, last_term: int) -> bool:
        """Tell whether what came after a log of this term was given up by an unclean decision."""
        return self.unclean is not None and formation_of(last_term) < self.unclean.formation

    def is_given_up(self, node: NodeId, last_index: int, last_term: int) -> bool:
        """Tell whether a replica's log is of what an unclean decision has given up.

        It may hold committed records that the group no longer has: it is copied again.
        """
        return last_index > 0 and self.is_without(node) and self.has_given_up_after(last_term)

    def is_without(self, node: NodeId) -> bool:
        """Tell whether the newest unclean decision was made without a replica."""
        return self.unclean is not None and node not in self.unclean.voters

    def find_plan(self, replicas: tuple[NodeId, ...]) -> FormationPlan | None:
        """Return how the open formation can begin with those that have told; None if not at all."""
        place = {int(node): at for at, node in enumerate(replicas)}
        told = sorted(self.reports, key=lambda each: (place.get(each.node, len(place)), each.node))
        decided = [
            (plan.formation, Configuration(voters=tuple(NodeId(node) for node in plan.voters)))
            for plan in self.plans
        ]
        founding = find_founding([report.as_survivor() for report in told], decided)
        return None if founding is None else self._plan(founding)

    def _plan(self, founding: Founding) -> FormationPlan:
        best = next(report for report in self.reports if report.node == founding.leader)
        return FormationPlan(
            formation=self.formation,
            voters=founding.voters,
            leader=founding.leader,
            last_index=best.last_index,
            last_term=best.last_term,
            end_offset=best.end_offset,
            is_clean=founding.is_clean,
        )


#: Of a group that was never recovered.
NO_RECOVERY = RecoveryState()
