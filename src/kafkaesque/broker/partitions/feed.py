"""A partition's batches, pushed against credit to a reader on any broker.

Theory of operation. A feed has a position and credit in bytes. While it has credit, one question is
open at the partition's leader, on this broker or another, and waits there until there is something
to read. So committed batches arrive after one way over the network, and nobody polls. The answer
uses up credit, and the next question is asked with what is left. Without credit nothing is asked
and nothing arrives: a slow reader costs nobody anything.

When the leader changes, the question is refused or its time is up; it is asked again at the next
leader, from the same position. Nothing is skipped and nothing comes twice: positions are offsets,
and only committed batches are read. A reader whose position is out of range is told so, once, and
decides itself where to continue (`seek`).
"""

from collections.abc import Callable
from typing import Protocol

from kafkaesque.broker.requests.commands import FetchResult
from kafkaesque.env.clock import Clock, Timer
from kafkaesque.model.batch import scan_batches
from kafkaesque.model.errors import (
    LeaderNotAvailable,
    NotLeader,
    RequestRefused,
    RequestTimedOut,
)
from kafkaesque.model.ids import TopicPartition

#: A question waits for so long at a leader; that is also what a lost one costs.
QUESTION_MS = 10_000
#: A leader of an earlier release answers at once, also with nothing: it is asked again after this.
AGAIN_MS = 50


class FeedHandler(Protocol):
    """The reader that a feed tells."""

    def on_batches(self, result: FetchResult) -> None:
        """Batches have come; `Feed.position` is already behind them.

        The first one may begin before the position that was asked for, as batches are whole.
        """

    def on_refused(self, refusal: RequestRefused) -> None:
        """Nothing comes any more until `seek`: the position is out of range, the topic is gone."""


class FetchFrom(Protocol):
    """How a feed reads; see `Forwarder.fetch`."""

    def __call__(
        self,
        where: TopicPartition,
        offset: int,
        bytes_max: int,
        timeout_ms: int,
        on_done: Callable[[object], None],
        *,
        wait_ms: int,
    ) -> None:
        """Read, or wait for so long until there is something."""


class Feed:
    """One reader of one partition; `close` it when it is not wanted any more."""

    __slots__ = (
        "_again",
        "_asked_ms",
        "_clock",
        "_credit_bytes",
        "_fetch",
        "_handler",
        "_is_closed",
        "_is_refused",
        "_round",
        "_where",
        "position",
    )

    def __init__(
        self, clock: Clock, fetch: FetchFrom, where: TopicPartition, handler: FeedHandler
    ) -> None:
        self._clock = clock
        self._fetch = fetch
        self._where = where
        self._handler = handler
        #: The offset from which on batches come next; `EARLIEST` or `LATEST` until one is known.
        self.position = 0
        self._credit_bytes = 0
        #: Counts seeks and closes: the answer to a question of an earlier round is dropped.
        self._round = 0
        self._asked_ms: int | None = None
        self._again: Timer | None = None
        self._is_closed = False
        self._is_refused = False

    def seek(self, offset: int) -> None:
        """Continue from an offset, also after a refusal."""
        self.position = offset
        self._is_refused = False
        self._begin_round()
        self._maybe_ask()

    def grant(self, credit_bytes: int) -> None:
        """Take so many bytes more. The first batch of an answer may be longer than what is left."""
        self._credit_bytes += credit_bytes
        self._maybe_ask()

    def close(self) -> None:
        """Take nothing more; the handler is not called again."""
        self._is_closed = True
        self._begin_round()

    def _begin_round(self) -> None:
        self._round += 1
        self._asked_ms = None
        if self._again is not None:
            self._again.cancel()
            self._again = None

    def _maybe_ask(self) -> None:
        if self._is_closed or self._asked_ms is not None or self._again is not None:
            return
        if self._credit_bytes <= 0 or self._is_refused:
            return
        self._asked_ms = self._clock.now_ms()
        asked_in = self._round

        def on_done(outcome: object) -> None:
            if asked_in == self._round:
                self._on_answer(outcome)

        self._fetch(
            self._where,
            self.position,
            self._credit_bytes,
            2 * QUESTION_MS,
            on_done,
            wait_ms=QUESTION_MS,
        )

    def _on_answer(self, outcome: object) -> None:
        asked_ms, self._asked_ms = self._asked_ms, None
        if isinstance(outcome, FetchResult):
            self._on_result(outcome, asked_ms or 0)
        elif isinstance(outcome, LeaderNotAvailable | NotLeader | RequestTimedOut):
            self._ask_later()
        elif isinstance(outcome, RequestRefused):
            self._is_refused = True
            self._begin_round()
            self._handler.on_refused(outcome)

    def _on_result(self, result: FetchResult, asked_ms: int) -> None:
        self._credit_bytes -= len(result.records)
        next_offset = _end_of(result)
        if next_offset is not None and next_offset > self.position:
            self.position = next_offset
            self._handler.on_batches(result)
            self._maybe_ask()
            return
        if self.position < 0:
            # Where there was nothing yet: from now on by the offset that it stands for.
            self.position = result.last_stable_offset
        if self._clock.now_ms() - asked_ms < AGAIN_MS:
            self._ask_later()
        else:
            self._maybe_ask()

    def _ask_later(self) -> None:
        self._again = self._clock.call_later(AGAIN_MS, self._on_again)

    def _on_again(self) -> None:
        self._again = None
        self._maybe_ask()


def _end_of(result: FetchResult) -> int | None:
    """Return the offset after the last whole batch, if there is one."""
    batches = scan_batches(memoryview(result.records)).batches
    return batches[-1].next_offset if batches else None
