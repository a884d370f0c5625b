"""Acknowledgements that come again: what is done with is confirmed once more.

A claim that fits nothing is of a message that is done with, of one that waits again or that
somebody else has, or of one that was never given out. The queue knows which: it shows all messages
that it has, and how far it has come. What it shows need not be committed yet, so one more request
is asked last, whose answer comes when all before it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.gateway.nats.jetstream.office import Office
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import TopicId
from kafkaesque.queues.requests import Claim

#: Is told whether a message is done with, and that is committed.
OnSettled = Callable[[bool], None]


class Repeats:
    """Claims of one queue that fit nothing, and who is to be told of each."""

    __slots__ = ("_gone", "_left", "_log_id", "_office", "_settles")

    def __init__(
        self,
        office: Office,
        log_id: TopicId,
        stale: Sequence[tuple[Claim, OnSettled]],
        *,
        settles: bool,
    ) -> None:
        """`settles`: they were to be settled, and not to be had again."""
        self._office: Final = office
        self._log_id: Final = log_id
        self._settles: Final = settles
        self._left: Final = list(reversed(stale))
        self._gone: Final[list[tuple[Claim, OnSettled]]] = []

    def find(self) -> None:
        """Find out, and tell."""
        self._office.ask(q.AskQueue(log_id=self._log_id), q.QueueCounts, self._on_counted)

    def _on_counted(self, outcome: q.QueueCounts | RequestRefused) -> None:
        end = 0 if isinstance(outcome, RequestRefused) else outcome.end
        known = [each for each in self._left if each[0].first < end]
        for claim, on_done in self._left:
            if claim.first >= end:
                on_done(False)
        self._left[:] = known
        self._look()

    def _look(self) -> None:
        """Look for the next message in the queue."""
        if not self._left:
            self._commit()
            return
        claim, on_done = self._left.pop()

        def on_peeked(outcome: q.PeekedMessages | RequestRefused) -> None:
            shown = [] if isinstance(outcome, RequestRefused) else outcome.messages
            is_there = any(each.message.offset == claim.first for each in shown)
            if isinstance(outcome, RequestRefused) or is_there:
                on_done(False)
            else:
                self._gone.append((claim, on_done))
            # Not at once: there may be many, and others have their turn in between.
            self._office.doors.clock.call_soon(self._look)

        peek = q.PeekMessages(log_id=self._log_id, start=claim.first, messages_max=1, bytes_max=1)
        self._office.ask(peek, q.PeekedMessages, on_peeked)

    def _commit(self) -> None:
        """Tell of those that are gone, once that is committed."""
        gone = self._gone
        if not gone:
            return

        def on_committed(outcome: q.ClaimsResult | RequestRefused) -> None:
            for _, on_done in gone:
                on_done(isinstance(outcome, q.ClaimsResult))

        # Another leader than the one that was looked at may have one of them still.
        claims = [claim for claim, _ in gone] if self._settles else []
        settle = q.SettleMessages(log_id=self._log_id, claims=claims, may_be_late=True)
        self._office.ask(settle, q.ClaimsResult, on_committed)
