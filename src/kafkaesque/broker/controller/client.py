"""Brings commands to the controller, wherever it is, until they are done or their time is up.

A command that surely was not done is brought to the next controller. One that was sent to a
controller of which nothing is heard any more may have been done: unless doing it twice does no
harm, whoever asked for it is told so.

A topic is asked for with another id each time. The next controller is told the ids of the times
before, so it can tell a topic that was made then from one that somebody else has made; and as no id
is asked for twice, one that was made and deleted meanwhile does not come back with its id.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from kafkaesque.broker.controller.controller import Controller
from kafkaesque.broker.controller.voters import ControllerVoters
from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.peers.link import PeerNotAsked, PeerUnreachable
from kafkaesque.broker.requests.caller import RemoteCaller, refused_where_unreachable
from kafkaesque.broker.requests.commands import (
    AllocateProducerIds,
    AskControllers,
    AskMetadataEnd,
    AskMoves,
    ChangeConfig,
    ChangeGroupConfig,
    ChangeQuotas,
    ControllerCommand,
    ControllerResult,
    ControllersView,
    CreateTopic,
    FinishMove,
    RegisterBroker,
    TakeUpMove,
)
from kafkaesque.broker.requests.exchange_commands import (
    BindDestination,
    CreateVhost,
    DeclareExchange,
    PutTransformation,
)
from kafkaesque.broker.requests.queue_commands import (
    ChangeQueue,
    CreateQueue,
    CreateShareQueue,
    DeleteShareGroup,
)
from kafkaesque.broker.requests.retries import retry
from kafkaesque.env.clock import Clock
from kafkaesque.model.errors import NotController, NotLeader, RequestRefused, RequestTimedOut
from kafkaesque.model.ids import NodeId, TopicId

RETRY_MS = 10
#: So long commands wait for a controller on a broker that is cut off: a moment after the network is
#: healed it knows one. Then they are refused: other brokers may know a controller now.
CUT_OFF_MS = 5_000
#: So often a topic is asked for, and nobody knows whether it was made.
DOUBTS_MAX = 8
#: A broker's word that is passed on is answered within this; then the broker asks again.
PASS_ON_MS = 1_000

#: Doing them twice does no harm, so they are repeated even if the first may have been done.
_REPEATABLE = (
    RegisterBroker,
    AllocateProducerIds,
    ChangeConfig,
    ChangeGroupConfig,
    ChangeQuotas,
    CreateQueue,
    ChangeQueue,
    CreateShareQueue,
    DeleteShareGroup,
    CreateVhost,
    DeclareExchange,
    BindDestination,
    PutTransformation,
    AskMoves,
    AskMetadataEnd,
    TakeUpMove,
    FinishMove,
)

OnOutcome = Callable[[ControllerResult | RequestRefused], None]
Outcome = ControllerResult | RequestRefused | PeerUnreachable
ViewOutcome = ControllersView | RequestRefused
#: From a command, the metadata before it and what is to be told its outcome, what is to be instead.
Audited = Callable[[ControllerCommand, ClusterState, OnOutcome], OnOutcome]


class ControllerClient:
    """This broker's way to the controller."""

    def __init__(
        self,
        *,
        node: NodeId,
        clock: Clock,
        caller: RemoteCaller,
        voters: ControllerVoters,
        is_cut_off: Callable[[], bool],
        new_topic_id: Callable[[], TopicId],
        audited: Audited | None,
    ) -> None:
        """`audited` tells the audit log what becomes of commands; None: there is none."""
        self._node = node
        self._audited = audited
        self.is_cut_off = is_cut_off
        self.new_topic_id = new_topic_id
        self._voters = voters
        self._tries = 0
        self._clock = clock
        self._caller = caller
        self.controller: Controller | None = None

    def leader(self) -> NodeId | None:
        """Return which broker's controller leads, as far as is known here."""
        controller = self.controller
        if controller is None or controller.replica is None:
            return None
        return controller.replica.leader

    @property
    def is_here(self) -> bool:
        """Whether this broker's own controller leads, as far as it knows."""
        return self.controller is not None and self.controller.is_leader

    def expected_brokers(self, state: ClusterState) -> int:
        """Return how many brokers there are to be: those that are registered, or will be soon."""
        return max(len(state.brokers), len(self._voters.current()))

    def submit_here(self, command: ControllerCommand, on_done: OnOutcome) -> None:
        """Have this broker's own controller carry out a command, or refuse it: it may not lead."""
        if self.controller is None:
            on_done(NotController("this broker is starting"))
        else:
            self.controller.submit(command, on_done)

    def submit(self, command: ControllerCommand, timeout_ms: int, on_done: OnOutcome) -> None:
        """Carry out a command; answered within about `timeout_ms`.

        `NotController` means that no controller was found, and that it was not done;
        `RequestTimedOut` that it may or may not have been done.
        """
        if self._audited is not None and self.controller is not None:
            on_done = self._audited(command, self.controller.state, on_done)
        _Errand(self, command, self._clock, self._clock.now_ms() + timeout_ms, on_done).attempt()

    def ask_controller(
        self, command: ControllerCommand, timeout_ms: int, on_outcome: Callable[[Outcome], None]
    ) -> None:
        """Ask whoever leads now, once."""
        leader = self.leader()
        if leader is None:
            leader = self._guess(command)
        if leader is None:
            on_outcome(NotController("there is no controller at the moment"))
        elif leader == self._node and self.controller is not None:
            self.controller.submit(command, on_outcome)
        else:
            self._caller.ask(leader, command, ControllerResult, timeout_ms, on_outcome)  # type: ignore[arg-type]

    def serve(self, node: NodeId, command: ControllerCommand, on_done: OnOutcome) -> None:
        """Carry out what another broker asks for.

        One that asks to be taken in may know no controller of today: its word is passed on, once.
        """
        leader = self.leader()
        is_own_word = isinstance(command, RegisterBroker) and command.node == node
        if not is_own_word or leader is None or leader in (node, self._node):
            self.submit_here(command, on_done)
            return

        def on_outcome(outcome: ControllerResult | RequestRefused | PeerUnreachable) -> None:
            if isinstance(outcome, PeerUnreachable):
                outcome = NotController(
                    f"broker {leader} is the leading controller, and cannot be reached"
                )
            on_done(outcome)

        self._caller.ask(leader, command, ControllerResult, PASS_ON_MS, on_outcome)  # type: ignore[arg-type]

    def describe(
        self, state: ClusterState, timeout_ms: int, on_done: Callable[[ViewOutcome], None]
    ) -> None:
        """Return how the controllers' group is, as its leader sees it.

        Raises nothing: `on_done` gets `RequestTimedOut` if nobody who leads has said so in time.
        """

        def attempt(left_ms: int, on_outcome: Callable[[ViewOutcome], None]) -> None:
            leader = self.leader()
            if leader is None:
                raise NotController("there is no controller at the moment")
            if leader == self._node:
                on_outcome(self._voters.view(state))
                return
            settle = refused_where_unreachable(NotController, on_outcome)
            self._caller.ask(leader, AskControllers(), ControllersView, left_ms, settle)

        def too_late(_: object) -> RequestRefused:
            return RequestTimedOut("no controller leads, or it cannot be reached")

        retry(self._clock, timeout_ms, attempt, on_done, too_late, passing=(NotController,))

    def _guess(self, command: ControllerCommand) -> NodeId | None:
        """Return whom to ask where no leader is known; nobody if that will be known soon.

        A broker that is new to the group, or has left it, is told nothing by it: it asks one after
        the other to be taken in.
        """
        votes = self._node in self._voters.current()
        others = [each for each in self._voters.known() if each != self._node]
        if not others or (votes and not isinstance(command, RegisterBroker)):
            return None
        self._tries += 1
        return others[self._tries % len(others)]


class _Errand:
    """One command on its way, until it is done, refused or late."""

    __slots__ = (
        "_client",
        "_clock",
        "_command",
        "_cut_off_ms",
        "_deadline_ms",
        "_doubts",
        "_has_missed",
        "_on_done",
    )

    def __init__(
        self,
        client: ControllerClient,
        command: ControllerCommand,
        clock: Clock,
        deadline_ms: int,
        on_done: OnOutcome,
    ) -> None:
        self._client = client
        self._command = command
        self._clock = clock
        self._deadline_ms = deadline_ms
        self._on_done = on_done
        #: Whether it was tried, and there was no controller.
        self._has_missed = False
        #: How many controllers may have done it of which nothing was heard.
        self._doubts = 0
        #: Since when this broker has been seen to be cut off.
        self._cut_off_ms: int | None = None

    def attempt(self) -> None:
        """Bring it to the controller of this moment."""
        left_ms = self._deadline_ms - self._clock.now_ms()
        if left_ms <= 0 or self._is_hopeless():
            self._on_done(self._failure())
            return
        if isinstance(self._command, CreateTopic):
            self._command = replace(self._command, topic_id=self._client.new_topic_id())
        self._client.ask_controller(self._command, left_ms, self._on_outcome)

    def _is_hopeless(self) -> bool:
        """Whether this broker has been cut off for so long that others are to be asked."""
        if not self._has_missed or not self._client.is_cut_off():
            self._cut_off_ms = None
            return False
        now_ms = self._clock.now_ms()
        if self._cut_off_ms is None:
            self._cut_off_ms = now_ms
        return now_ms - self._cut_off_ms >= CUT_OFF_MS

    def _failure(self) -> RequestRefused:
        if self._doubts:
            return RequestTimedOut(
                "no controller answered in time; the request may or may not have been carried out"
            )
        if self._has_missed:
            return NotController("no controller was found in time, and nothing was done")
        return RequestTimedOut("no controller carried out the request in time")

    def _on_outcome(self, outcome: Outcome) -> None:
        if isinstance(outcome, NotController | NotLeader | PeerNotAsked):
            self._has_missed = True
        elif isinstance(outcome, PeerUnreachable | RequestTimedOut):
            self._doubts += 1
            if not self._may_repeat():
                self._on_done(_doubt_of(outcome))
                return
        else:
            self._on_done(outcome)
            return
        left_ms = max(0, self._deadline_ms - self._clock.now_ms())
        self._clock.call_later(min(RETRY_MS, left_ms), self.attempt)

    def _may_repeat(self) -> bool:
        """Tell whether it does no harm to have it done again; a topic knows of the times before."""
        command = self._command
        if isinstance(command, CreateTopic) and self._doubts <= DOUBTS_MAX:
            ids = (*command.doubtful_ids, command.topic_id)
            self._command = replace(command, doubtful_ids=ids)
            return True
        return isinstance(command, _REPEATABLE)


def _doubt_of(outcome: PeerUnreachable | RequestTimedOut) -> RequestTimedOut:
    if isinstance(outcome, RequestTimedOut):
        return outcome
    return RequestTimedOut(
        "the controller went away; the request may or may not have been carried out"
    )
