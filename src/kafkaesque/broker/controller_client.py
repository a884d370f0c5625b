"""Brings commands to the controller, wherever it is, until they are done or their time is up."""

from collections.abc import Callable

from kafkaesque.broker.cluster_state import ClusterState
from kafkaesque.broker.commands import (
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
    FinishMove,
    RegisterBroker,
    TakeUpMove,
)
from kafkaesque.broker.controller import Controller
from kafkaesque.broker.controller_voters import ControllerVoters
from kafkaesque.broker.peer_link import PeerUnreachable
from kafkaesque.broker.peer_requests import RemoteCaller
from kafkaesque.env.clock import Clock
from kafkaesque.model.errors import NotController, NotLeader, RequestRefused, RequestTimedOut
from kafkaesque.model.ids import NodeId

RETRY_MS = 10
DESCRIBE_RETRY_MS = 50
#: A broker's word that is passed on is answered within this; then the broker asks again.
PASS_ON_MS = 1_000

#: Doing them twice does no harm, so they are repeated even if the first may have been done.
_REPEATABLE = (
    RegisterBroker,
    AllocateProducerIds,
    ChangeConfig,
    ChangeGroupConfig,
    ChangeQuotas,
    AskMoves,
    AskMetadataEnd,
    TakeUpMove,
    FinishMove,
)

OnOutcome = Callable[[ControllerResult | RequestRefused], None]
ViewOutcome = ControllersView | RequestRefused


class ControllerClient:
    """This broker's way to the controller."""

    def __init__(
        self,
        *,
        node: NodeId,
        clock: Clock,
        caller: RemoteCaller,
        voters: ControllerVoters,
    ) -> None:
        self._node = node
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

    def submit(self, command: ControllerCommand, timeout_ms: int, on_done: OnOutcome) -> None:
        """Carry out a command; answered within about `timeout_ms`.

        `RequestTimedOut` means that it may or may not have been done.
        """
        deadline_ms = self._clock.now_ms() + timeout_ms
        self._attempt(command, deadline_ms, on_done)

    def _attempt(self, command: ControllerCommand, deadline_ms: int, on_done: OnOutcome) -> None:
        left_ms = deadline_ms - self._clock.now_ms()
        if left_ms <= 0:
            on_done(RequestTimedOut("no controller did it in time"))
            return

        def on_outcome(outcome: ControllerResult | RequestRefused | PeerUnreachable) -> None:
            if _is_worth_another_try(command, outcome):
                self._clock.call_later(
                    min(RETRY_MS, left_ms), lambda: self._attempt(command, deadline_ms, on_done)
                )
            elif isinstance(outcome, PeerUnreachable):
                on_done(RequestTimedOut("the controller went away; it may or may not be done"))
            else:
                on_done(outcome)

        leader = self.leader()
        if leader is None:
            leader = self._guess(command)
        if leader is None:
            on_outcome(NotController("there is no controller at the moment"))
        elif leader == self._node and self.controller is not None:
            self.controller.submit(command, on_outcome)
        else:
            self._caller.ask(leader, command, ControllerResult, left_ms, on_outcome)  # type: ignore[arg-type]

    def serve(self, node: NodeId, command: ControllerCommand, on_done: OnOutcome) -> None:
        """Carry out what another broker asks for.

        One that asks to be taken in may know no controller of today: its word is passed on, once.
        """
        leader, controller = self.leader(), self.controller
        is_own_word = isinstance(command, RegisterBroker) and command.node == node
        if not is_own_word or leader is None or leader in (node, self._node):
            if controller is None:
                on_done(NotController("this broker is starting"))
            else:
                controller.submit(command, on_done)
            return

        def on_outcome(outcome: ControllerResult | RequestRefused | PeerUnreachable) -> None:
            if isinstance(outcome, PeerUnreachable):
                outcome = NotController(f"broker {leader} leads, and cannot be reached")
            on_done(outcome)

        self._caller.ask(leader, command, ControllerResult, PASS_ON_MS, on_outcome)  # type: ignore[arg-type]

    def describe(
        self, state: ClusterState, timeout_ms: int, on_done: Callable[[ViewOutcome], None]
    ) -> None:
        """Return how the controllers' group is, as its leader sees it.

        Raises nothing: `on_done` gets `RequestTimedOut` if nobody who leads has said so in time.
        """
        deadline_ms = self._clock.now_ms() + timeout_ms

        def attempt() -> None:
            leader, left_ms = self.leader(), deadline_ms - self._clock.now_ms()
            if left_ms <= 0:
                on_done(RequestTimedOut("no controller leads, or it cannot be reached"))
            elif leader == self._node:
                on_outcome(self._voters.view(state))
            elif leader is None:
                self._clock.call_later(min(DESCRIBE_RETRY_MS, left_ms), attempt)
            else:
                self._caller.ask(leader, AskControllers(), ControllersView, left_ms, on_outcome)

        def on_outcome(outcome: ViewOutcome | PeerUnreachable) -> None:
            if isinstance(outcome, NotController | PeerUnreachable):
                self._clock.call_later(DESCRIBE_RETRY_MS, attempt)
            else:
                on_done(outcome)

        attempt()

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


def _is_worth_another_try(
    command: ControllerCommand, outcome: ControllerResult | RequestRefused | PeerUnreachable
) -> bool:
    if isinstance(outcome, NotController | NotLeader):
        return True
    if isinstance(outcome, PeerUnreachable | RequestTimedOut):
        return isinstance(command, _REPEATABLE)
    return False
