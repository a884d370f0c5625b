"""Brings commands to the controller, wherever it is, until they are done or their time is up."""

from collections.abc import Callable, Sequence

from kafkaesque.broker.commands import (
    AllocateProducerIds,
    ChangeConfig,
    ChangeQuotas,
    ControllerCommand,
    ControllerResult,
    FinishMove,
    RegisterBroker,
    TakeUpMove,
)
from kafkaesque.broker.controller import Controller
from kafkaesque.broker.peer_link import PeerUnreachable
from kafkaesque.broker.peer_requests import RemoteCaller
from kafkaesque.env.clock import Clock
from kafkaesque.model.errors import NotController, NotLeader, RequestRefused, RequestTimedOut
from kafkaesque.model.ids import NodeId

RETRY_MS = 10

#: Doing them twice does no harm, so they are repeated even if the first may have been done.
_REPEATABLE = (
    RegisterBroker,
    AllocateProducerIds,
    ChangeConfig,
    ChangeQuotas,
    TakeUpMove,
    FinishMove,
)

OnOutcome = Callable[[ControllerResult | RequestRefused], None]


class ControllerClient:
    """This broker's way to the controller."""

    def __init__(
        self,
        *,
        node: NodeId,
        clock: Clock,
        caller: RemoteCaller,
        controllers: Sequence[NodeId],
    ) -> None:
        self._node = node
        self._others = [each for each in controllers if each != node]
        self._node_votes = node in controllers
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
        if leader == self._node and self.controller is not None:
            self.controller.submit(command, on_outcome)
        elif leader is None and (self._node_votes or not self._others):
            on_outcome(NotController("there is no controller at the moment"))
        else:
            if leader is None:
                # A broker that is new to the group is told nothing by it: ask one after the other.
                self._tries += 1
                leader = self._others[self._tries % len(self._others)]
            self._caller.ask(leader, command, ControllerResult, left_ms, on_outcome)  # type: ignore[arg-type]


def _is_worth_another_try(
    command: ControllerCommand, outcome: ControllerResult | RequestRefused | PeerUnreachable
) -> bool:
    if isinstance(outcome, NotController | NotLeader):
        return True
    if isinstance(outcome, PeerUnreachable | RequestTimedOut):
        return isinstance(command, _REPEATABLE)
    return False
