"""The cluster's metadata as one broker has it, and whether that is the newest there is."""

from collections.abc import Callable

from kafkaesque.broker.controller.client import ControllerClient
from kafkaesque.broker.controller.controller import Controller
from kafkaesque.broker.controller.metadata_barrier import MetadataBarrier
from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.env.clock import Clock
from kafkaesque.model.ids import Offset


class MetadataView:
    """What the broker's own replica of the controller's group has applied; there once it `follow`s.

    Everything read from `state` is committed. It may be behind what the controller has decided:
    `when_current` waits for that.
    """

    __slots__ = ("_barrier", "_controller")

    def __init__(self, clock: Clock, client: ControllerClient) -> None:
        self._controller: Controller
        self._barrier = MetadataBarrier(clock, client, lambda: self.applied_offset)

    def follow(self, controller: Controller) -> None:
        """Take the state from this replica from now on."""
        self._controller = controller
        controller.on_applied = self._barrier.on_applied

    @property
    def state(self) -> ClusterState:
        """The cluster's metadata; the same object as long as nothing replaces it by a snapshot."""
        return self._controller.state

    @property
    def applied_offset(self) -> Offset:
        """The offset after the last record that is in `state`."""
        return self._controller.applied_offset

    @property
    def is_caught_up(self) -> bool:
        """Whether all that was committed when this broker started is in `state`."""
        return self._controller.is_caught_up

    def when_current(self, timeout_ms: int, on_done: Callable[[bool], None]) -> None:
        """Call in a later turn, with True once `state` has all that was decided before this call.

        With False if that could not be found out in time.
        """
        self._barrier.wait(timeout_ms, on_done)

    def when_applied(self, offset: int, timeout_ms: int, on_done: Callable[[bool], None]) -> None:
        """Call with True once all before an offset is in `state`, maybe at once.

        With False if that was not so in time.
        """
        self._barrier.wait_for(offset, timeout_ms, on_done)
