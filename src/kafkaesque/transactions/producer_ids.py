"""Handing out producer ids.

An id must be unique in the cluster for ever. So the controller's log gives out blocks of ids, and
each broker hands out its block's ids by itself. Before a block runs out the next one is asked for;
only who comes when there is none left has to wait. What is left of a block when a broker stops is
never used.
"""

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple, NewType

from kafkaesque.model.errors import ConfigError, InvariantBroken

#: Names one request for an id; chosen by whoever asks.
IdToken = NewType("IdToken", int)

PRODUCER_ID_MAX = 2**63 - 1


class ProducerIdBlock(NamedTuple):
    """Ids from `first_id` on that belong to one broker."""

    first_id: int
    id_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdConfig:
    """Options and bounds of handing out ids.

    Raises:
        ConfigError: a value is out of range.
    """

    #: Ids that the controller gives at once.
    block_ids: int = 1_000
    #: With so few left the next block is asked for.
    refill_ids: int = 100
    #: Requests that may wait for a block; one more is refused.
    waiting_max: int = 10_000

    def __post_init__(self) -> None:
        if self.waiting_max < 1 or not 0 <= self.refill_ids < self.block_ids:
            raise ConfigError(
                f"producer ids: refill_ids={self.refill_ids} must be from 0 up to below "
                f"block_ids={self.block_ids}, waiting_max={self.waiting_max} at least 1"
            )


class GiveId(NamedTuple):
    """Answer a request with this id, epoch 0."""

    token: IdToken
    producer_id: int


class RefuseId(NamedTuple):
    """Answer a request: not now, try again."""

    token: IdToken


class AskBlock(NamedTuple):
    """Ask the controller for a block; then `on_block` or `on_block_failed`."""

    id_count: int


IdWork = GiveId | RefuseId | AskBlock


class ProducerIdPool:
    """One broker's producer ids."""

    __slots__ = ("_blocks", "_config", "_is_asking", "_lowest_free_id", "_ready", "_waiting")

    def __init__(self, config: ProducerIdConfig) -> None:
        self._config = config
        self._blocks: deque[ProducerIdBlock] = deque()
        self._lowest_free_id = 0
        self._is_asking = False
        self._waiting: deque[IdToken] = deque()
        self._ready: list[IdWork] = []

    @property
    def ids_left(self) -> int:
        """How many ids can be handed out at once."""
        return sum(block.id_count for block in self._blocks)

    def request(self, token: IdToken) -> None:
        """Ask for an id; the answer comes out of `take_ready` now or later."""
        if self._blocks:
            self._give(token)
        elif len(self._waiting) < self._config.waiting_max:
            self._waiting.append(token)
        else:
            self._ready.append(RefuseId(token))
        self._maybe_ask()

    def on_block(self, block: ProducerIdBlock) -> None:
        """Take the block that the controller has given, as committed in its log.

        Raises:
            InvariantBroken: it was not asked for, or its ids have been given out before.
        """
        first_id, count = block
        if not self._is_asking:
            raise InvariantBroken(f"{block} was not asked for")
        if first_id < self._lowest_free_id or count < 1 or first_id + count - 1 > PRODUCER_ID_MAX:
            raise InvariantBroken(f"{block}, but ids below {self._lowest_free_id} are taken")
        self._is_asking = False
        self._lowest_free_id = first_id + count
        self._blocks.append(block)
        while self._waiting and self._blocks:
            self._give(self._waiting.popleft())
        self._maybe_ask()

    def on_block_failed(self) -> None:
        """Take note that there is no block; whoever comes next makes us ask again."""
        self._is_asking = False
        while self._waiting:
            self._ready.append(RefuseId(self._waiting.popleft()))

    def take_ready(self) -> list[IdWork]:
        """Return what is to be done since the last call, in order."""
        ready, self._ready = self._ready, []
        return ready

    def _give(self, token: IdToken) -> None:
        first_id, count = self._blocks.popleft()
        if count > 1:
            self._blocks.appendleft(ProducerIdBlock(first_id + 1, count - 1))
        self._ready.append(GiveId(token, first_id))

    def _maybe_ask(self) -> None:
        if not self._is_asking and self.ids_left <= self._config.refill_ids:
            self._is_asking = True
            self._ready.append(AskBlock(self._config.block_ids))
