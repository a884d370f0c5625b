"""An unclean election that an administrator has asked for (ADR 16).

A partition without a leader is recovered from the surviving replicas, at once, and also where its
topic does not allow unclean elections. The controller decides, as always; this request gives the
permission, which ends with the request. Every replica gets time to report its log before the
partition continues without it. Where enough replicas report, the recovery is clean.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kafkaesque.broker.controller.client import ControllerClient
from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.metadata.cluster_state import PartitionState
from kafkaesque.broker.metadata.recovery_state import NO_RECOVERY, RecoveryState
from kafkaesque.broker.peers.link import PeerNetwork
from kafkaesque.broker.replication.leaders_table import LeadersTable
from kafkaesque.broker.requests.client_command import OnBehalfOf
from kafkaesque.broker.requests.commands import AskElection, ControllerCommand, DecideRecovery, Done
from kafkaesque.broker.upkeep.recovery_watch import GATHER_MS
from kafkaesque.env.clock import Clock
from kafkaesque.model.errors import (
    ElectionNotNeeded,
    NotController,
    OverBound,
    RequestRefused,
    RequestTimedOut,
    UnknownTopicOrPartition,
)

#: How often it is looked how far it is.
CHECK_MS = 50
#: So long a majority that lives may take to elect by itself.
ELECT_MS = 3_000
#: What is asked of the controller is asked again after this.
ASK_MS = 1_000

OnElected = Callable[[Done | RequestRefused], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanElections:
    """Begins unclean elections from this broker, whichever broker's controller decides."""

    clock: Clock
    metadata: MetadataView
    leaders: LeadersTable
    peers: PeerNetwork
    controller: ControllerClient

    def begin(
        self,
        partition: PartitionState,
        deadline_ms: int,
        on_done: OnElected,
        client: OnBehalfOf | None,
    ) -> None:
        """Bring a partition to a leader; `on_done` gets `Done` or why not, perhaps at once.

        The controller asks its rules about the client, if it is one that has logged in.
        """
        _Election(self, partition, deadline_ms, on_done, client).start()


class _Election:
    """Brings one partition to a leader, or says why that is not done; `on_done` comes once."""

    def __init__(
        self,
        parts: UncleanElections,
        partition: PartitionState,
        deadline_ms: int,
        on_done: OnElected,
        client: OnBehalfOf | None,
    ) -> None:
        self._parts = parts
        self._client = client
        self._clock = parts.clock
        self._partition = partition
        self._begun_ms = self._clock.now_ms()
        self._deadline_ms = deadline_ms
        self._on_done = on_done
        self._is_done = False
        self._is_asking = False
        #: The newest formation that was seen to wait for its decision, and since when.
        self._open: tuple[int, int] | None = None

    def start(self) -> None:
        """Begin; the outcome may be told at once."""
        self._step()

    def _step(self) -> None:
        if self._is_done:
            return
        group = self._partition.group
        name, now_ms = self._partition.topic_partition, self._clock.now_ms()
        leader = self._parts.leaders.leader(group)
        recovery = self._parts.metadata.state.recoveries.get(group, NO_RECOVERY)
        if group not in self._parts.metadata.state.partitions_by_group:
            self._finish(UnknownTopicOrPartition(f"{name} was deleted"))
        elif leader is not None and self._open is None:
            self._finish(ElectionNotNeeded(f"broker {leader} leads {name}"))
        elif leader is not None and not recovery.is_open:
            self._finish(Done())
        elif now_ms >= self._deadline_ms:
            self._finish(RequestTimedOut(self._how_far(recovery)))
        else:
            if not self._is_asking:
                self._advance(recovery, now_ms)
            self._clock.call_later(CHECK_MS, self._step)

    def _finish(self, outcome: Done | RequestRefused) -> None:
        if not self._is_done:
            self._is_done = True
            self._on_done(outcome)

    def _advance(self, recovery: RecoveryState, now_ms: int) -> None:
        if recovery is NO_RECOVERY or not recovery.is_open:
            if self._open is None and (now_ms - self._begun_ms >= ELECT_MS or self._is_lost()):
                self._ask(
                    AskElection(
                        group=self._partition.group,
                        after=recovery.formation,
                        at_ms=self._clock.wall_ms(),
                        on_behalf_of=self._client,
                    )
                )
            return
        if self._open is None or self._open[0] != recovery.formation:
            self._open = (recovery.formation, now_ms)
        told = {report.node for report in recovery.reports}
        is_gathered = now_ms - self._open[1] >= GATHER_MS
        if told and (is_gathered or told.issuperset(self._partition.replicas)):
            self._ask(
                DecideRecovery(
                    group=self._partition.group,
                    formation=recovery.formation,
                    may_be_unclean=True,
                    at_ms=self._clock.wall_ms(),
                    on_behalf_of=self._client,
                )
            )

    def _is_lost(self) -> bool:
        """Tell whether no majority lives, as far as is known here."""
        replicas = self._partition.replicas
        return 2 * sum(map(self._parts.peers.is_alive, replicas)) <= len(replicas)

    def _ask(self, command: ControllerCommand) -> None:
        self._is_asking = True
        clock = self._clock

        def on_outcome(outcome: object) -> None:
            may_pass = isinstance(outcome, RequestTimedOut | NotController | OverBound)
            if isinstance(outcome, RequestRefused) and not may_pass:
                self._finish(outcome)
            # What was decided is seen in the metadata, a moment later.
            clock.call_later(ASK_MS if may_pass else CHECK_MS, self._may_ask_again)

        self._parts.controller.submit(command, ASK_MS, on_outcome)

    def _may_ask_again(self) -> None:
        self._is_asking = False

    def _how_far(self, recovery: RecoveryState) -> str:
        name = self._partition.topic_partition
        if recovery is NO_RECOVERY or self._open is None:
            return f"no controller has begun to recover {name} in time"
        if recovery.is_open:
            told = ", ".join(str(report.node) for report in recovery.reports) or "no broker"
            return (
                f"{name} was not recovered in time: its replicas are on brokers "
                f"{', '.join(map(str, self._partition.replicas))}; reports came from: {told}"
            )
        return f"{name} is recovered, and has no leader yet"
