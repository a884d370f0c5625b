"""Somebody who asks brokers about queues by Kafka's protocol, whichever broker it is."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from kafkaesque.env import Env
from kafkaesque.env.network import Address
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.settle_messages_request import (
    Claim,
    SettleMessagesRequest,
)
from kafkaesque.protocols.kafka.messages.settle_messages_response import SettleMessagesResponse
from kafkaesque.protocols.kafka.messages.take_messages_request import TakeMessagesRequest
from kafkaesque.protocols.kafka.messages.take_messages_response import TakeMessagesResponse
from kafkaesque.sim.clients.bursts import rest_ms
from kafkaesque.sim.clients.kafka_client import RESTING_TIMES, BrokerLink
from kafkaesque.sim.queues.history import Act, Delivery, Outcome, QueueHistory, QueueSpec, What
from kafkaesque.sim.queues.letters import deaths_of

VHOST: Final = "/"
#: A broker tries so long; the client gives the connection up a little later.
TIMEOUT_MS: Final = 2_000
RETRY_MS: Final = 150
#: Somebody goes to another broker after one of so many requests.
LEAVES_ONE_IN: Final = 40
ANSWER_BYTES_MAX: Final = 1 << 22

#: As SettleMessages numbers them.
_ACTIONS: Final = {
    What.SETTLE: 0,
    What.RELEASE: 1,
    What.FAIL: 1,
    What.REJECT: 2,
    What.EXTEND: 3,
}


class QueueClient:
    """One connection at a time, and one request at a time on it."""

    def __init__(
        self,
        env: Env,
        bootstrap: Sequence[Address],
        history: QueueHistory,
        true_ms: Callable[[], float],
    ) -> None:
        self.env: Final = env
        self.history: Final = history
        self.true_ms: Final = true_ms
        self._bootstrap: Final = bootstrap
        self._link: BrokerLink | None = None
        #: Connections that this client has had.
        self.links = 0

    @property
    def is_connected(self) -> bool:
        """Whether the last connection is still there, as far as is known."""
        return self._link is not None and not self._link.is_closed

    def ask(self, api_key: int, message: Any, on_answer: Callable[[Any], None]) -> None:
        """Send a request; without an answer `on_answer` gets None."""
        link = self._link
        if link is None or link.is_closed:
            address = self._bootstrap[self.env.dice.below(len(self._bootstrap))]
            link = self._link = BrokerLink(self.env, address)
            self.links += 1
        link.send(api_key, 0, message, on_answer)

    def hang_up(self) -> None:
        """Close the connection."""
        if self._link is not None:
            self._link.close()

    def maybe_leave(self) -> None:
        """Go to another broker now and then; nothing is asked at the moment."""
        if self.env.dice.below(LEAVES_ONE_IN) == 0:
            self.hang_up()

    def rest(self, act: Callable[[], None], ms: int) -> None:
        """Begin the next piece of work after a pause; where clients rest, when they go on."""
        self.env.clock.call_later(rest_ms(self.env) + ms // 2 + self.env.dice.below(ms), act)

    def later(self, act: Callable[[], None], ms: int = RETRY_MS) -> None:
        """Try again after a moment."""
        ms *= RESTING_TIMES if rest_ms(self.env) else 1
        self.env.clock.call_later(ms // 2 + self.env.dice.below(ms), act)

    # -- messages

    def take(
        self,
        spec: QueueSpec,
        on_taken: Callable[[list[Delivery], int | None], None],
        *,
        consumer: int = 0,
        count: int = 1,
        lock_ms: int = -1,
        wait_ms: int = 0,
        bytes_max: int = ANSWER_BYTES_MAX,
        is_drain: bool = False,
    ) -> None:
        """Take messages; `on_taken` gets them with the error's code, None if nobody answered."""
        request = TakeMessagesRequest(
            VHOST, spec.name, consumer, count, bytes_max, lock_ms, wait_ms
        )
        sent_ms, sent_wall_ms = self.true_ms(), self.env.clock.wall_ms()
        held_ms = spec.lock_ms_min if lock_ms < 0 else lock_ms

        def on_answer(answer: TakeMessagesResponse | None) -> None:
            if answer is None:
                on_taken([], None)
                return
            deliveries = [
                Delivery(
                    queue=spec.name,
                    partition=answer.partition,
                    offset=record.offset,
                    attempt=attempt,
                    failures=failures,
                    value=bytes(record.value or b""),
                    deaths=deaths_of(record.headers),
                    sent_ms=sent_ms,
                    answered_ms=self.true_ms(),
                    # A consumer does not know when it is taken for gone.
                    lock_ms=0 if consumer else held_ms,
                    sent_wall_ms=sent_wall_ms,
                    answered_wall_ms=self.env.clock.wall_ms(),
                )
                for record, attempt, failures in zip(
                    _records(answer), answer.attempts, answer.failures, strict=True
                )
            ]
            self.history.note_deliveries(deliveries, is_drain=is_drain)
            on_taken(deliveries, answer.error_code)

        self.ask(ApiKey.TAKE_MESSAGES, request, on_answer)

    def settle(
        self,
        what: What,
        deliveries: Sequence[Delivery],
        on_done: Callable[[], None],
        *,
        lock_ms: int = 0,
        delay_ms: int = -1,
        may_be_late: bool = False,
    ) -> None:
        """Say what becomes of messages of one answer; `on_done` is called in any case."""
        acts = [Act(what=what, sent_ms=self.true_ms(), lock_ms=lock_ms) for _ in deliveries]
        for delivery, act in zip(deliveries, acts, strict=True):
            delivery.acts.append(act)
        claims = [Claim(each.offset, each.offset + 1, each.attempt) for each in deliveries]

        def on_answer(answer: SettleMessagesResponse | None) -> None:
            if answer is not None and answer.error_code == 0:
                stale = {
                    (offset, each.attempt)
                    for each in answer.stale
                    for offset in range(each.first_offset, each.end_offset)
                }
                for delivery, act in zip(deliveries, acts, strict=True):
                    is_stale = (delivery.offset, delivery.attempt) in stale
                    act.outcome = Outcome.REFUSED if is_stale else Outcome.DONE
            on_done()

        request = SettleMessagesRequest(
            VHOST,
            deliveries[0].queue,
            _ACTIONS[what],
            claims,
            is_failed=what is What.FAIL,
            may_be_late=may_be_late,
            delay_ms=delay_ms,
            lock_ms=lock_ms,
            timeout_ms=TIMEOUT_MS,
            partition=deliveries[0].partition,
        )
        self.ask(ApiKey.SETTLE_MESSAGES, request, on_answer)


def is_refused(error_code: int) -> bool:
    """Return whether an error says that nothing was done, and that nothing will be."""
    return error_code not in (0, ErrorCode.REQUEST_TIMED_OUT)


def _records(answer: TakeMessagesResponse) -> list[Record]:
    if answer.records is None:
        return []
    return list(decode_batch(answer.records, ANSWER_BYTES_MAX))
