"""Producer ids for the clients of this broker, from blocks that the controller gives out."""

from collections import deque
from collections.abc import Callable

from kafkaesque.broker.controller.client import ControllerClient
from kafkaesque.broker.requests.commands import AllocateProducerIds, ProducerIdBlock
from kafkaesque.model.errors import LeaderNotAvailable, OverBound, RequestRefused
from kafkaesque.model.ids import NodeId

BLOCK_SIZE = 1000
ALLOCATE_TIMEOUT_MS = 5_000
#: Clients that wait for an id while a block is being fetched.
WAITING_MAX = 10_000

OnProducerId = Callable[[int | RequestRefused], None]


class ProducerIds:
    """Hands out ids that no other producer has or will have."""

    def __init__(self, *, node: NodeId, controller: ControllerClient) -> None:
        self._node = node
        self._controller = controller
        self._next = 0
        self._end = 0
        self._waiting: deque[OnProducerId] = deque()
        self._asking = False

    def allocate(self, on_done: OnProducerId) -> None:
        """Give an id to `on_done`, at once if one is left in the block."""
        if self._next < self._end:
            self._next += 1
            on_done(self._next - 1)
        elif len(self._waiting) >= WAITING_MAX:
            on_done(OverBound(f"{WAITING_MAX} clients wait for a producer id"))
        else:
            self._waiting.append(on_done)
            self._ask()

    def _ask(self) -> None:
        if not self._asking:
            self._asking = True
            command = AllocateProducerIds(node=self._node, count=BLOCK_SIZE)
            self._controller.submit(command, ALLOCATE_TIMEOUT_MS, self._on_block)

    def _on_block(self, outcome: object) -> None:
        self._asking = False
        waiting, self._waiting = self._waiting, deque()
        if isinstance(outcome, ProducerIdBlock):
            self._next, self._end = outcome.first, outcome.first + outcome.count
            for on_done in waiting:
                self.allocate(on_done)
        else:
            for on_done in waiting:
                on_done(LeaderNotAvailable(f"no producer id could be allocated: {outcome}"))
