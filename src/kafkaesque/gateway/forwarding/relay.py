"""Passes on what one queue's log has, in order, to the exchange that its options name.

Theory of operation. It is a consumer of the queue at the queue's leader. It takes messages,
publishes them to the exchange, and settles those that all their places have committed; then it
takes the next ones. So nothing is lost: what was taken and not settled comes again, also at the
next leader. If a leader dies between the publish and the settlement, the message is published
twice; it has the same identity both times, by which queues with `deduplication.ms` know it.

What could not be published is released, and tried again later; meanwhile others may overtake it.
Where the message itself is the reason, the attempt counts as failed, so that `delivery.limit` makes
it a dead letter. A message that was passed on too often goes in a circle, and is given up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.doors.publication import Publication
from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.options.encryption import is_encrypted
from kafkaesque.broker.options.queues import (
    DEFAULT_EXCHANGE_WORD,
    FORWARD_EXCHANGE,
    FORWARD_KEY,
)
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.commands import Done
from kafkaesque.gateway.forwarding.forwarded_message import hops_of, publication_of
from kafkaesque.model.errors import MessageTooLarge, RequestRefused
from kafkaesque.model.record_errors import RecordError
from kafkaesque.queues.requests import Claim

#: Messages that are taken at a time, and their bytes; one alone may be larger.
TAKEN_MAX: Final = 256
TAKEN_BYTES_MAX: Final = 1024 * 1024
#: So long one request for messages waits; then the relay looks whether it is still wanted.
WAIT_MS: Final = 5_000
TIMEOUT_MS: Final = 30_000
#: After a refusal.
AGAIN_MS: Final = 500
#: So long a message waits that could not be published.
LATER_MS: Final = 2_000
#: So often a message may be passed on.
HOPS_MAX: Final = 16


class Relay:
    """See the module."""

    __slots__ = ("_doors", "_has_said", "_is_over", "_name", "_partition", "_queue", "_say")

    def __init__(
        self, doors: Doors, queue: QueueState, partition: int, say: Callable[[str], None]
    ) -> None:
        self._doors: Final = doors
        self._queue: Final = queue
        self._partition: Final = partition
        self._say: Final = say
        self._name: Final = doors.queues.new_consumer()
        self._is_over = False
        #: Whether operators have heard of what is wrong now.
        self._has_said = False

    def begin(self) -> None:
        """Be known to the queue's leader, and take messages."""
        attach = q.AttachConsumer(
            log_id=self._queue.topic_id,
            partition=self._partition,
            consumer=self._name,
            is_anew=True,
        )
        self._doors.queues.ask(attach, q.AttachedConsumer, TIMEOUT_MS, self._on_attached)

    def end(self) -> None:
        """Take no more; what was taken and is not settled comes again."""
        if self._is_over:
            return
        self._is_over = True
        detach = q.DetachConsumer(
            log_id=self._queue.topic_id,
            partition=self._partition,
            consumer=self._name,
            is_failed=False,
        )
        self._doors.queues.ask(detach, Done, TIMEOUT_MS, lambda _: None)

    def _on_attached(self, outcome: q.AttachedConsumer | RequestRefused) -> None:
        if isinstance(outcome, RequestRefused):
            self._later(self.begin)
            return
        # After an answer that was lost, it holds what it does not know of.
        self._release(outcome.claims, is_failed=False, delay_ms=0)
        self._take()

    def _later(self, act: Callable[[], None]) -> None:
        if not self._is_over:
            self._doors.clock.call_later(AGAIN_MS, act)

    # -- taking

    def _take(self) -> None:
        if self._is_over:
            return
        if self._is_sealed():
            self._tell("its messages are encrypted, and would be passed on in the clear")
            self._later(self._take)
            return
        take = q.TakeMessages(
            log_id=self._queue.topic_id,
            partition=self._partition,
            consumer=self._name,
            messages_max=TAKEN_MAX,
            bytes_max=TAKEN_BYTES_MAX,
            lock_ms=0,
            wait_ms=WAIT_MS,
        )
        self._doors.queues.ask(take, q.TakenMessages, WAIT_MS + TIMEOUT_MS, self._on_taken)

    def _is_sealed(self) -> bool:
        state = self._doors.cluster.state
        source = None if self._queue.source is None else state.topics_by_id.get(self._queue.source)
        return is_encrypted(self._queue.options) or (
            source is not None and is_encrypted(source.configs)
        )

    def _on_taken(self, outcome: q.TakenMessages | RequestRefused) -> None:
        if isinstance(outcome, RequestRefused):
            self._later(self.begin)
        elif not outcome.messages:
            self._take()
        elif self._is_over:
            claims = [each.claim for each in outcome.messages]
            self._release(claims, is_failed=False, delay_ms=0)
        else:
            self._pass_on(outcome.messages)

    # -- publishing

    def _pass_on(self, messages: Sequence[q.QueueMessage]) -> None:
        circling = [each.claim for each in messages if hops_of(each) >= HOPS_MAX]
        if circling:
            self._tell(f"a message was passed on {HOPS_MAX} times: it goes in a circle")
            reject = q.RejectMessages(
                log_id=self._queue.topic_id, partition=self._partition, claims=circling
            )
            self._doors.queues.ask(reject, q.ClaimsResult, TIMEOUT_MS, lambda _: None)
        left = [each for each in messages if hops_of(each) < HOPS_MAX]
        # Options may have changed since the relay began.
        queue = self._doors.cluster.state.queues_by_log.get(self._queue.topic_id, self._queue)
        word = queue.options.get(FORWARD_EXCHANGE, "")
        exchange = "" if word == DEFAULT_EXCHANGE_WORD else word
        key = queue.options.get(FORWARD_KEY, "")
        publications = [
            publication_of(each, queue, self._partition, exchange, key) for each in left
        ]
        self._publish(left, publications, exchange)

    def _publish(
        self,
        messages: Sequence[q.QueueMessage],
        publications: Sequence[Publication],
        exchange: str,
    ) -> None:
        if not messages:
            self._take()
            return

        def on_published(outcomes: Sequence[int | RequestRefused]) -> None:
            self._on_published(messages, outcomes)

        self._doors.exchanges.publish(
            self._queue.queue.vhost, exchange, publications, TIMEOUT_MS, on_published
        )

    def _on_published(
        self, messages: Sequence[q.QueueMessage], outcomes: Sequence[int | RequestRefused]
    ) -> None:
        done: list[Claim] = []
        waiting: list[Claim] = []
        bad: list[Claim] = []
        for message, outcome in zip(messages, outcomes, strict=True):
            if not isinstance(outcome, RequestRefused):
                done.append(message.claim)
                continue
            self._tell(str(outcome))
            is_at_fault = isinstance(outcome, RecordError | MessageTooLarge)
            (bad if is_at_fault else waiting).append(message.claim)
        if not waiting and not bad:
            self._has_said = False
        self._release(waiting, is_failed=False, delay_ms=LATER_MS)
        self._release(bad, is_failed=True, delay_ms=LATER_MS)
        self._settle(done)

    def _settle(self, claims: list[Claim]) -> None:
        if not claims:
            self._later(self._take)
            return
        settle = q.SettleMessages(
            log_id=self._queue.topic_id,
            partition=self._partition,
            claims=claims,
            may_be_late=True,
        )

        def on_settled(outcome: q.ClaimsResult | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                self._later(self.begin)
            else:
                self._take()

        self._doors.queues.ask(settle, q.ClaimsResult, TIMEOUT_MS, on_settled)

    def _release(self, claims: list[Claim], *, is_failed: bool, delay_ms: int) -> None:
        if not claims:
            return
        release = q.ReleaseMessages(
            log_id=self._queue.topic_id,
            partition=self._partition,
            claims=claims,
            is_failed=is_failed,
            delay_ms=delay_ms,
        )
        self._doors.queues.ask(release, q.ClaimsResult, TIMEOUT_MS, lambda _: None)

    def _tell(self, what: str) -> None:
        """Say what is wrong, once until it is well again."""
        if not self._has_said:
            self._has_said = True
            self._say(f"the queue {self._queue.queue.name!r} is not passed on: {what}")
