"""Produce requests that wait for their acknowledgement, in the order of their offsets.

Those with `acks=1` wait until the log is durable here, those with `acks=all` for the commit; a step
of either mark answers a prefix. When another broker takes over, as on each planned change of
leader, it mostly commits what this log has: whoever waits for a commit is answered by that, unless
the new leader cuts the batch off or is not heard of for `HANDOVER_MS`.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from kafkaesque.broker.requests.commands import ProduceResult
from kafkaesque.model.errors import RequestRefused, RequestTimedOut
from kafkaesque.model.ids import Offset

#: Produce requests that wait for their acknowledgement, per partition.
WAITING_PRODUCES_MAX: Final = 50_000
#: How long those that wait for a commit wait for what the next leader commits.
HANDOVER_MS: Final = 1_000

OnProduced = Callable[[ProduceResult | RequestRefused], None]
#: Makes a refusal for one request.
OnRefusal = Callable[[], RequestRefused]


@dataclass(slots=True)
class WaitingProduce:
    """A produce request that waits; it is done when a mark reaches `next_offset`.

    Treat as immutable; not frozen, as every produce makes one.
    """

    next_offset: Offset
    deadline_ms: int
    result: ProduceResult
    on_done: OnProduced


class WaitingProduces:
    """Those of one partition; every one is answered exactly once."""

    __slots__ = ("_commit", "_durable", "_handover_until_ms", "_on_waiting")

    def __init__(self, on_waiting: Callable[[], None]) -> None:
        """`on_waiting` is told when a request begins to wait where none did."""
        self._on_waiting = on_waiting
        self._commit: Final[deque[WaitingProduce]] = deque()
        self._durable: Final[deque[WaitingProduce]] = deque()
        #: None: this broker leads.
        self._handover_until_ms: int | None = None

    def __bool__(self) -> bool:
        return bool(self._commit or self._durable)

    @property
    def is_full(self) -> bool:
        """Whether no more may wait."""
        return len(self._commit) + len(self._durable) >= WAITING_PRODUCES_MAX

    def add(self, item: WaitingProduce, *, for_commit: bool) -> None:
        """Let a request wait; a repeated batch waits for where it was first."""
        if not self:
            self._on_waiting()
        _add_in_order(self._commit if for_commit else self._durable, item)

    def is_committed(self, high_watermark: Offset) -> bool:
        """Tell whether somebody waits for this high watermark, or one before it."""
        return bool(self._commit) and self._commit[0].next_offset <= high_watermark

    def on_committed(self, high_watermark: Offset, refusal: RequestRefused | None = None) -> None:
        """Answer those whose batches are committed, with a refusal if there is one."""
        _answer_until(self._commit, high_watermark, refusal)

    def on_durable(self, end_offset: Offset) -> None:
        """Answer those whose batches are durable here."""
        _answer_until(self._durable, end_offset)

    def on_leading(self) -> None:
        """This broker appends from now on."""
        self._handover_until_ms = None

    def on_following(self, now_ms: int, refusal: OnRefusal) -> None:
        """Another broker leads: what is durable here alone it may not have."""
        if self._handover_until_ms is None:
            self._handover_until_ms = now_ms + HANDOVER_MS
        _refuse_after((self._durable,), Offset(0), refusal)

    def refuse_after(self, end_offset: Offset, refusal: OnRefusal) -> None:
        """Refuse those whose batches are not before an offset; 0: all."""
        _refuse_after((self._commit, self._durable), end_offset, refusal)

    def expire(self, now_ms: int, refusal: OnRefusal) -> None:
        """Answer those whose time is up, or whose next leader was not heard of in time."""
        for waiting in (self._commit, self._durable):
            _expire(waiting, now_ms)
        if self._handover_until_ms is not None and now_ms >= self._handover_until_ms:
            _refuse_after((self._commit,), Offset(0), refusal)


def _add_in_order(waiting: deque[WaitingProduce], item: WaitingProduce) -> None:
    """Put an item where its offset belongs: a repeated batch waits for where it was first."""
    if not waiting or waiting[-1].next_offset <= item.next_offset:
        waiting.append(item)
        return
    position = len(waiting) - 1
    while position > 0 and waiting[position - 1].next_offset > item.next_offset:
        position -= 1
    waiting.insert(position, item)


def _expire(waiting: deque[WaitingProduce], now_ms: int) -> None:
    """Answer all whose time is up, whatever their offset."""
    if not waiting or all(item.deadline_ms > now_ms for item in waiting):
        return
    expired = [item for item in waiting if item.deadline_ms <= now_ms]
    kept = [item for item in waiting if item.deadline_ms > now_ms]
    waiting.clear()
    waiting.extend(kept)
    for item in expired:
        item.on_done(RequestTimedOut("not acknowledged within the request's timeout"))


def _answer_until(
    waiting: deque[WaitingProduce], mark: Offset, refusal: RequestRefused | None = None
) -> None:
    """Answer all that a mark has reached, with a refusal if there is one."""
    while waiting and waiting[0].next_offset <= mark:
        item = waiting.popleft()
        item.on_done(refusal or item.result)


def _refuse_after(
    queues: Iterable[deque[WaitingProduce]], mark: Offset, refusal: OnRefusal
) -> None:
    """Answer all that wait for more than a mark, each with a refusal of its own."""
    refused: list[WaitingProduce] = []
    for waiting in queues:
        first = len(refused)
        while waiting and waiting[-1].next_offset > mark:
            refused.append(waiting.pop())
        refused[first:] = reversed(refused[first:])
    for item in refused:
        item.on_done(refusal())
