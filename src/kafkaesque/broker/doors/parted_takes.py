"""Taking messages from a queue that has several partitions: whichever has some answers.

Theory of operation. Each partition is asked in turn for what it has now, but for those without a
leader, if the request may wait. If none has anything, all are asked to wait. Those who take alike
(the same consumer, or nobody in particular) share these waits: what a second partition brings goes
to the next of them. Only if there is none, it is given back, as not attempted. So a partition has
at most `WAITS_MAX` waits of one kind from this broker, and no wait is asked for while one is under
way that will do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from kafkaesque.broker.queues.calls import QueueCalls
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.env.clock import Clock, Timer
from kafkaesque.model.errors import LeaderNotAvailable, RequestRefused, RequestTimedOut

#: What a question has beyond its wait.
TIMEOUT_MS: Final = 30_000
#: Waits of one kind that a partition has from one broker.
WAITS_MAX: Final = 16
#: After a wait that has brought nothing.
AGAIN_MS: Final = 100

#: Gets the partition and its messages, or why there are none; called once.
OnTaken = Callable[[int, q.TakenMessages | RequestRefused], None]
_Kind = tuple[object, ...]


@dataclass(slots=True, eq=False)
class _Taker:
    """One request."""

    take: q.TakeMessages
    order: Sequence[int]
    #: Those of them that are asked for what they have now.
    first: Sequence[int]
    on_taken: OnTaken
    kind: _Kind
    deadline_ms: int = 0
    timer: Timer | None = None
    is_over: bool = False
    #: Why a partition could not be asked: told if no other one has anything.
    refusal: LeaderNotAvailable | None = None

    def end(self, partition: int, outcome: q.TakenMessages | RequestRefused) -> None:
        self.is_over = True
        if self.timer is not None:
            self.timer.cancel()
        self.on_taken(partition, outcome)

    def end_without(self) -> None:
        self.end(self.order[0], self.refusal or q.TakenMessages([]))


@dataclass(slots=True, eq=False)
class _Line:
    """Those who take alike, and wait."""

    takers: deque[_Taker] = field(default_factory=deque)
    #: Waits that are under way, by partition.
    asked: dict[int, int] = field(default_factory=dict)


class PartedTakes:
    """See the module."""

    __slots__ = ("_calls", "_clock", "_lines")

    def __init__(self, clock: Clock, calls: QueueCalls) -> None:
        self._clock = clock
        self._calls = calls
        self._lines: dict[_Kind, _Line] = {}

    def take(
        self,
        take: q.TakeMessages,
        order: Sequence[int],
        on_taken: OnTaken,
        *,
        leaderless: Container[int] = (),
    ) -> None:
        """Take messages of one of these partitions; they are asked in this order.

        Who waits does not ask those first that are `leaderless`: it could take the whole wait.

        Any refusal but that there is no leader ends it: messages may have been taken, or the
        consumer is not known and has to attach again.
        """
        kind = (take.log_id, take.consumer, take.lock_ms, take.has_groups is True)
        first = [each for each in order if not take.wait_ms or each not in leaderless]
        self._ask_now(_Taker(take, order, first, on_taken, kind), 0)

    def _ask_now(self, taker: _Taker, at: int) -> None:
        line = self._lines.get(taker.kind)
        waits = bool(taker.take.wait_ms)
        # A partition that is asked to wait has nothing now.
        while waits and line is not None and at < len(taker.first):
            if not line.asked.get(taker.first[at]):
                break
            at += 1
        if at == len(taker.first):
            if waits:
                self._wait(taker)
            else:
                taker.end_without()
            return
        number = taker.first[at]

        def on_done(outcome: q.TakenMessages | RequestRefused) -> None:
            if isinstance(outcome, LeaderNotAvailable):
                taker.refusal = outcome
            elif isinstance(outcome, RequestRefused):
                self._refuse(self._lines.get(taker.kind), taker, outcome)
                return
            elif outcome.messages:
                taker.end(number, outcome)
                return
            self._ask_now(taker, at + 1)

        take = replace(taker.take, partition=number, wait_ms=0)
        self._calls.ask(take, q.TakenMessages, TIMEOUT_MS, on_done)

    # -- waiting

    def _wait(self, taker: _Taker) -> None:
        wait_ms = min(taker.take.wait_ms, q.WAIT_MS_MAX)
        line = self._lines.setdefault(taker.kind, _Line())
        line.takers.append(taker)
        taker.deadline_ms = self._clock.now_ms() + wait_ms

        def expire() -> None:
            if taker in line.takers:
                line.takers.remove(taker)
                taker.end_without()

        taker.timer = self._clock.call_later(wait_ms, expire)
        self._fill(line)

    def _fill(self, line: _Line) -> None:
        """See to it that each partition is asked for those who wait."""
        if not line.takers:
            return
        last = line.takers[-1]
        wait_ms = last.deadline_ms - self._clock.now_ms()
        wanted = min(len(line.takers), WAITS_MAX)
        for number in last.order if wait_ms > 0 else ():
            if line.asked.get(number, 0) < wanted:
                line.asked[number] = line.asked.get(number, 0) + 1
                self._ask_to_wait(line, replace(last.take, partition=number, wait_ms=wait_ms), last)

    def _ask_to_wait(self, line: _Line, take: q.TakeMessages, asker: _Taker) -> None:
        number = take.partition

        def on_done(outcome: q.TakenMessages | RequestRefused) -> None:
            line.asked[number] -= 1
            if isinstance(outcome, LeaderNotAvailable):
                for each in line.takers:
                    each.refusal = outcome
            elif isinstance(outcome, RequestRefused):
                self._refuse(line, asker, outcome)
            elif outcome.messages:
                self._hand_over(line, take, outcome)
            # Not at once after one that has brought nothing: the next may bring nothing again.
            again_ms = 0 if isinstance(outcome, q.TakenMessages) and outcome.messages else AGAIN_MS
            self._clock.call_later(again_ms, lambda: self._fill(line))
            self._maybe_forget(asker.kind, line)

        self._calls.ask(take, q.TakenMessages, take.wait_ms + TIMEOUT_MS, on_done)

    def _hand_over(self, line: _Line, take: q.TakeMessages, taken: q.TakenMessages) -> None:
        messages: Sequence[q.QueueMessage] = taken.messages
        while messages and line.takers:
            taker = line.takers.popleft()
            count = max(1, taker.take.messages_max)
            share = q.TakenMessages(list(messages[:count]), taken.unsent_from)
            taker.end(take.partition, share)
            messages = messages[count:]
        release(self._calls, take, messages)

    def _refuse(self, line: _Line | None, first: _Taker, refusal: RequestRefused) -> None:
        """End who has asked, if it waits, and those who take alike.

        A consumer attaches again then, and gives back what it does not know. So what other waits
        of it still bring is not handed to it. Without a consumer, a lost answer is one request's.
        """
        ended = [] if first.is_over else [first]
        if first.take.consumer is None and isinstance(refusal, RequestTimedOut):
            if not ended and line is not None and line.takers:
                ended.append(line.takers[0])
        elif line is not None:
            ended += [each for each in line.takers if each is not first]
            if self._lines.get(first.kind) is line:
                del self._lines[first.kind]
        for each in ended:
            if line is not None and each in line.takers:
                line.takers.remove(each)
            each.end(first.order[0], refusal)

    def _maybe_forget(self, kind: _Kind, line: _Line) -> None:
        if not line.takers and not any(line.asked.values()) and self._lines.get(kind) is line:
            del self._lines[kind]


def release(
    calls: QueueCalls, taken_from: q.TakeMessages, messages: Sequence[q.QueueMessage]
) -> None:
    """Nobody is there to whom messages could be handed: others may have them."""
    if messages:
        claims = [each.claim for each in messages]
        given_back = q.ReleaseMessages(
            log_id=taken_from.log_id, partition=taken_from.partition, claims=claims
        )
        calls.ask(given_back, q.ClaimsResult, TIMEOUT_MS, lambda _: None)
