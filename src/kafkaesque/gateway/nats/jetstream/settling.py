"""Acknowledgements: what a client says of a message that it was given.

Those of one turn are one request for each queue. What is told to the client (`+ACK` with a reply)
is told when it is committed, and then no broker's death brings the message again. Whoever asks once
more of a message that is done with is told so once more (`repeats.py`).
"""

from __future__ import annotations

from typing import Final

import msgspec

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.broker.metadata.queue_names import queue_resource
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.gateway.nats.jetstream.configs import NS_PER_MS, read_config
from kafkaesque.gateway.nats.jetstream.consumers import Consumer
from kafkaesque.gateway.nats.jetstream.errors import ApiError
from kafkaesque.gateway.nats.jetstream.office import Office, Requester
from kafkaesque.gateway.nats.jetstream.repeats import OnSettled, Repeats
from kafkaesque.gateway.nats.jetstream.subjects import AckToken
from kafkaesque.gateway.nats.jetstream.times import read_duration
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import TopicId
from kafkaesque.queues.requests import Claim

#: What a message is done with.
_DONE: Final = frozenset((b"", b"+ACK", b"+OK"))
#: Claims of one request.
CLAIMS_MAX: Final = 1_000
#: Messages that one look at what is out shows.
PEEKED_MAX: Final = 1_000


class _NakBody(msgspec.Struct):
    """What may stand behind -NAK."""

    delay: int = 0


class Settling:
    """See the module."""

    __slots__ = ("_due", "_is_due", "_office")

    def __init__(self, office: Office) -> None:
        self._office: Final = office
        #: By the queue's log: what is to be settled at the end of the turn.
        self._due: dict[TopicId, list[tuple[Claim, OnSettled | None]]] = {}
        self._is_due = False

    def take(
        self,
        requester: Requester,
        consumer: Consumer,
        token: AckToken,
        payload: bytes,
        on_done: OnSettled | None,
    ) -> None:
        """Do what an acknowledgement says; call with whether it is done, and committed.

        None: nobody wants to know.
        """
        rights = requester.rights
        resource = queue_resource(consumer.queue.queue)
        if rights is not None and not rights.may(Operation.READ, ResourceType.QUEUE, resource):
            _tell(on_done, is_done=False)
            return
        word = payload.strip().partition(b" ")[0]
        claim, log_id = token.claim, consumer.log_id
        if word.startswith(b"-NAK"):
            delay_ms = _delay_ms(payload.strip()[4:])
            nak = q.ReleaseMessages(
                log_id=log_id, claims=[claim], is_failed=True, delay_ms=delay_ms
            )
            self._ask(consumer, nak, claim, on_done)
        elif word.startswith(b"+WPI"):
            self.extend(consumer, claim, on_done)
        elif word.startswith(b"+TERM"):
            self._ask(consumer, q.RejectMessages(log_id=log_id, claims=[claim]), claim, on_done)
        elif word not in _DONE and not word.startswith(b"+NXT"):
            # Whoever has a later release's word for something is not done with the message.
            _tell(on_done, is_done=False)
        elif consumer.config.ack_policy == "all":
            self._settle_up_to(consumer, claim, on_done)
        else:
            self.settle(log_id, claim, on_done)

    def extend(self, consumer: Consumer, claim: Claim, on_done: OnSettled | None = None) -> None:
        """A message is its receiver's for as long as the consumer says, from now on."""
        lock_ms = consumer.config.lock_ms(claim.attempt)
        request = q.ExtendLocks(log_id=consumer.log_id, claims=[claim], lock_ms=lock_ms)
        self._ask(consumer, request, claim, on_done)

    def _ask(
        self,
        consumer: Consumer,
        request: q.ReleaseMessages | q.ExtendLocks | q.RejectMessages,
        claim: Claim,
        on_done: OnSettled | None,
    ) -> None:
        def on_outcome(outcome: q.ClaimsResult | RequestRefused) -> None:
            if on_done is None:
                return
            if isinstance(outcome, q.ClaimsResult) and outcome.stale:
                found = Repeats(self._office, consumer.log_id, [(claim, on_done)], settles=False)
                found.find()
            else:
                on_done(isinstance(outcome, q.ClaimsResult))

        self._office.ask(request, q.ClaimsResult, on_outcome)

    # -- settling

    def settle(self, log_id: TopicId, claim: Claim, on_done: OnSettled | None = None) -> None:
        """A message is done with."""
        self._due.setdefault(log_id, []).append((claim, on_done))
        if not self._is_due:
            self._is_due = True
            self._office.doors.clock.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_due = False
        due, self._due = self._due, {}
        for log_id, claims in due.items():
            for at in range(0, len(claims), CLAIMS_MAX):
                self._settle(log_id, claims[at : at + CLAIMS_MAX])

    def _settle(self, log_id: TopicId, claims: list[tuple[Claim, OnSettled | None]]) -> None:
        def on_outcome(outcome: q.ClaimsResult | RequestRefused) -> None:
            # What somebody else has by now was settled too late, and comes again.
            stale = set(outcome.stale) if isinstance(outcome, q.ClaimsResult) else set()
            is_done = isinstance(outcome, q.ClaimsResult)
            late: list[tuple[Claim, OnSettled]] = []
            for claim, on_done in claims:
                if on_done is None:
                    continue
                if claim in stale:
                    late.append((claim, on_done))
                else:
                    on_done(is_done)
            if late:
                Repeats(self._office, log_id, late, settles=True).find()

        request = q.SettleMessages(
            log_id=log_id,
            claims=[claim for claim, _ in claims],
            may_be_late=True,
            is_patient=all(on_done is None for _, on_done in claims),
        )
        self._office.ask(request, q.ClaimsResult, on_outcome)

    def _settle_up_to(self, consumer: Consumer, last: Claim, on_done: OnSettled | None) -> None:
        """Settle a message, and all before it that are out."""
        log_id = consumer.log_id

        def look(start: int) -> None:
            request = q.PeekMessages(
                log_id=log_id, start=start, messages_max=PEEKED_MAX, bytes_max=1
            )
            self._office.ask(request, q.PeekedMessages, on_peeked)

        def on_peeked(outcome: q.PeekedMessages | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                _tell(on_done, is_done=False)
                return
            found = [each for each in outcome.messages if each.message.offset < last.first]
            for each in found:
                if each.place == "in-flight":
                    self.settle(log_id, each.message.claim)
            if found and len(found) == len(outcome.messages):
                look(found[-1].message.offset + 1)
            else:
                self.settle(log_id, last, on_done)

        look(0)


def _tell(on_done: OnSettled | None, *, is_done: bool) -> None:
    if on_done is not None:
        on_done(is_done)


def _delay_ms(raw: bytes) -> int:
    """Return how long a message is not to come again."""
    raw = raw.strip()
    if not raw:
        return 0
    if raw[:1] != b"{":
        return (read_duration(raw.decode(errors="replace")) or 0) // NS_PER_MS
    try:
        return max(0, read_config(raw, _NakBody).delay // NS_PER_MS)
    except ApiError:
        return 0
