"""Waiting until all brokers that live go by a change of the metadata.

A change is committed when the controller has answered, but a broker applies it when it hears of it.
Whoever promises that something holds at every broker from then on waits here. All who come while a
round goes on share the next one: this broker first finds out how far the metadata's log goes, and
asks each of the others to answer when it has applied it up to there. Nobody waits for a broker that
is lost, or for one of an earlier release, which does not know the question.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.peers.link import PeerNetwork, PeerUnreachable
from kafkaesque.broker.requests.caller import RemoteCaller
from kafkaesque.broker.requests.commands import AwaitMetadata, Done
from kafkaesque.env.clock import Clock
from kafkaesque.model.errors import RequestRefused, RequestTimedOut
from kafkaesque.model.ids import NodeId

#: So long one round may take; then its waits end all the same.
ROUND_MS: Final = 10_000
#: So long a broker is waited for before it is looked again whether it lives.
ASK_MS: Final = 1_000
AGAIN_MS: Final = 50
#: Those who wait; more are told at once that it is not known.
WAITS_MAX: Final = 10_000

#: Whether all living brokers go by it; False: that could not be found out in time.
OnEverywhere = Callable[[bool], None]


class MetadataEverywhere:
    """See the module."""

    __slots__ = (
        "_asked",
        "_caller",
        "_clock",
        "_deadline_ms",
        "_left",
        "_metadata",
        "_peers",
        "_round",
        "_unasked",
    )

    def __init__(
        self, *, clock: Clock, metadata: MetadataView, peers: PeerNetwork, caller: RemoteCaller
    ) -> None:
        self._clock: Final = clock
        self._metadata: Final = metadata
        self._peers: Final = peers
        self._caller: Final = caller
        #: Who waits for the round that goes on, and for the next one.
        self._asked: list[OnEverywhere] = []
        self._unasked: list[OnEverywhere] = []
        #: The brokers that this round waits for.
        self._left: set[NodeId] = set()
        self._deadline_ms = 0
        self._round = 0

    def wait(self, on_done: OnEverywhere) -> None:
        """Call once, in a later turn, when all living brokers have what was decided before."""
        if len(self._asked) + len(self._unasked) >= WAITS_MAX:
            self._clock.call_soon(lambda: on_done(False))
            return
        self._unasked.append(on_done)
        if not self._asked:
            self._begin()

    def _begin(self) -> None:
        self._asked, self._unasked = self._unasked, []
        self._round += 1
        self._deadline_ms = self._clock.now_ms() + ROUND_MS
        self._metadata.when_current(ROUND_MS, self._on_current)

    def _on_current(self, is_current: bool) -> None:
        if not is_current:
            self._end(False)
            return
        offset = int(self._metadata.applied_offset)
        self._left = set(self._peers.peers())
        for node in self._peers.peers():
            self._ask(node, offset)
        self._maybe_end()

    def _ask(self, node: NodeId, offset: int) -> None:
        if node not in self._left:
            return
        if not self._peers.may_live(node):
            self._left.discard(node)
            return
        round_ = self._round
        left_ms = max(1, min(ASK_MS, self._deadline_ms - self._clock.now_ms()))

        def on_answer(outcome: Done | RequestRefused | PeerUnreachable) -> None:
            if round_ != self._round:
                return
            if isinstance(outcome, PeerUnreachable | RequestTimedOut):
                self._clock.call_later(AGAIN_MS, again)
            else:
                self._left.discard(node)
                self._maybe_end()

        def again() -> None:
            if round_ == self._round:
                self._ask(node, offset)
                self._maybe_end()

        request = AwaitMetadata(offset=offset, timeout_ms=left_ms)
        self._caller.ask(node, request, Done, left_ms + AGAIN_MS, on_answer)

    def _maybe_end(self) -> None:
        if not self._left:
            self._end(True)
        elif self._clock.now_ms() >= self._deadline_ms:
            self._end(False)

    def _end(self, is_everywhere: bool) -> None:
        asked, self._asked = self._asked, []
        self._left = set()
        # Answers that come later are not the next round's.
        self._round += 1
        for each in asked:
            each(is_everywhere)
        if self._unasked and not self._asked:
            self._begin()
