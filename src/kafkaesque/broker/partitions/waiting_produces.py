"""Produce requests that wait for their acknowledgement, in the order of their offsets."""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kafkaesque.broker.requests.commands import ProduceResult
from kafkaesque.model.errors import RequestRefused, RequestTimedOut
from kafkaesque.model.ids import Offset

OnProduced = Callable[[ProduceResult | RequestRefused], None]


@dataclass(slots=True)
class WaitingProduce:
    """A produce request that waits; it is done when a mark reaches `next_offset`.

    Treat as immutable; not frozen, as every produce makes one.
    """

    next_offset: Offset
    deadline_ms: int
    result: ProduceResult
    on_done: OnProduced


def add_in_order(waiting: deque[WaitingProduce], item: WaitingProduce) -> None:
    """Put an item where its offset belongs: a repeated batch waits for where it was first."""
    if not waiting or waiting[-1].next_offset <= item.next_offset:
        waiting.append(item)
        return
    position = len(waiting) - 1
    while position > 0 and waiting[position - 1].next_offset > item.next_offset:
        position -= 1
    waiting.insert(position, item)


def expire(waiting: deque[WaitingProduce], now_ms: int) -> None:
    """Answer all whose time is up, whatever their offset."""
    if not waiting or all(item.deadline_ms > now_ms for item in waiting):
        return
    expired = [item for item in waiting if item.deadline_ms <= now_ms]
    kept = [item for item in waiting if item.deadline_ms > now_ms]
    waiting.clear()
    waiting.extend(kept)
    for item in expired:
        item.on_done(RequestTimedOut("not acknowledged within the request's timeout"))


def answer_until(
    waiting: deque[WaitingProduce], mark: Offset, refusal: RequestRefused | None = None
) -> None:
    """Answer all that a mark has reached, with a refusal if there is one."""
    while waiting and waiting[0].next_offset <= mark:
        item = waiting.popleft()
        item.on_done(refusal or item.result)


def refuse_after(
    queues: Iterable[deque[WaitingProduce]], mark: Offset, refusal: Callable[[], RequestRefused]
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
