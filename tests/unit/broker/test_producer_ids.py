"""Producer ids: each given once, from blocks, however slow or unwilling the controller is."""

from kafkaesque.broker.controller.client import OnOutcome
from kafkaesque.broker.controller.producer_ids import BLOCK_SIZE, WAITING_MAX, ProducerIds
from kafkaesque.broker.requests.commands import ControllerCommand, ProducerIdBlock
from kafkaesque.model.errors import LeaderNotAvailable, OverBound, RequestRefused, RequestTimedOut
from kafkaesque.model.ids import NodeId


class Blocks:
    """Answers for blocks when it is told to."""

    def __init__(self) -> None:
        self.asked: list[OnOutcome] = []
        self._next = 0

    def submit(self, command: ControllerCommand, timeout_ms: int, on_done: OnOutcome) -> None:
        self.asked.append(on_done)

    def give(self) -> None:
        block = ProducerIdBlock(first=self._next, count=BLOCK_SIZE)
        self._next += BLOCK_SIZE
        self.asked.pop(0)(block)


def _ids(blocks: Blocks) -> ProducerIds:
    return ProducerIds(node=NodeId(1), controller=blocks)  # type: ignore[arg-type]


def test_ids_ascend_within_blocks_and_one_block_is_asked_for_at_a_time() -> None:
    blocks = Blocks()
    ids = _ids(blocks)
    got: list[int | RequestRefused] = []
    for _ in range(BLOCK_SIZE + 5):
        ids.allocate(got.append)
    assert not got
    assert len(blocks.asked) == 1
    blocks.give()
    assert got == list(range(BLOCK_SIZE))
    assert len(blocks.asked) == 1, "who was left over asks for the next block, once"
    blocks.give()
    assert got == list(range(BLOCK_SIZE + 5))


def test_a_block_that_cannot_be_had_is_an_error_to_try_again_after() -> None:
    blocks = Blocks()
    ids = _ids(blocks)
    got: list[int | RequestRefused] = []
    ids.allocate(got.append)
    blocks.asked.pop()(RequestTimedOut("no controller"))
    assert isinstance(got[0], LeaderNotAvailable)
    ids.allocate(got.append)
    blocks.give()
    assert got[1] == 0


def test_those_who_wait_have_a_bound() -> None:
    ids = _ids(Blocks())
    got: list[int | RequestRefused] = []
    for _ in range(WAITING_MAX + 1):
        ids.allocate(got.append)
    assert len(got) == 1
    assert isinstance(got[0], OverBound)
