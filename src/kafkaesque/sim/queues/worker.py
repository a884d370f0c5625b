"""Workers of queues: they settle what they take, or give it back, or sleep over it, or die."""

from collections.abc import Callable
from typing import Final

from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.messages.attach_consumer_request import AttachConsumerRequest
from kafkaesque.protocols.kafka.messages.attach_consumer_response import AttachConsumerResponse
from kafkaesque.protocols.kafka.messages.settle_messages_request import (
    Claim,
    SettleMessagesRequest,
)
from kafkaesque.sim.queues.client import ANSWER_BYTES_MAX, TIMEOUT_MS, VHOST, QueueClient
from kafkaesque.sim.queues.history import FOREVER, Delivery, QueueSpec, What

PAUSE_MS: Final = 60
WAIT_MS_MAX: Final = 800
#: Answers with room for one long message only, in one of so many requests.
NARROW_ONE_IN: Final = 6
NARROW_BYTES: Final = 200
#: What becomes of a message; None: its lock runs out.
_FATES: Final = (
    *[What.SETTLE] * 12,
    *[What.RELEASE] * 2,
    *[What.FAIL] * 3,
    What.REJECT,
    What.EXTEND,
    None,
)
#: A worker dies in the midst of its work in one of so many rounds.
DIES_ONE_IN: Final = 20
#: In one of so many cases it works longer than most locks last.
SLEEPS_ONE_IN: Final = 12
SLEEP_MS_MAX: Final = 2_500


class QueueWorker:
    """Takes and settles, until it is stopped; a worker that died is another one at once."""

    def __init__(self, client: QueueClient, spec: QueueSpec) -> None:
        self.is_stopped = False
        self.is_idle = False
        self._client: Final = client
        self._spec: Final = spec
        client.env.clock.call_soon(self._next)

    def _next(self) -> None:
        if self.is_stopped:
            self.is_idle = True
            return
        self._client.maybe_leave()
        dice = self._client.env.dice
        self._client.take(
            self._spec,
            self._on_taken,
            count=1 + dice.below(self._spec.take_max),
            lock_ms=self._spec.locks_ms[dice.below(len(self._spec.locks_ms))],
            wait_ms=dice.below(WAIT_MS_MAX),
            bytes_max=ANSWER_BYTES_MAX if dice.below(NARROW_ONE_IN) else NARROW_BYTES,
        )

    def _on_taken(self, deliveries: list[Delivery], error_code: int | None) -> None:
        if error_code is None or error_code:
            self._client.later(self._next)
        else:
            self._work(deliveries)

    def _work(self, deliveries: list[Delivery]) -> None:
        dice = self._client.env.dice
        if deliveries and dice.below(DIES_ONE_IN) == 0:
            self._die(deliveries)
            return
        plan: dict[What, list[Delivery]] = {}
        for each in deliveries:
            fate = _FATES[dice.below(len(_FATES))]
            if fate is not None:
                plan.setdefault(fate, []).append(each)
        self._do(list(plan.items()))

    def _die(self, _: list[Delivery]) -> None:
        self._client.hang_up()
        self._client.rest(self._next, PAUSE_MS)

    def _do(self, plan: list[tuple[What, list[Delivery]]]) -> None:
        if not plan:
            self._client.rest(self._next, PAUSE_MS)
            return
        dice = self._client.env.dice
        what, some = plan[0]
        left = plan[1:] if what is not What.EXTEND else [*plan[1:], (What.SETTLE, some)]
        least, most = self._spec.work_ms
        if dice.below(SLEEPS_ONE_IN) == 0:
            most += SLEEP_MS_MAX
        self._client.env.clock.call_later(
            least + dice.below(most - least),
            lambda: self._client.settle(
                what,
                some,
                lambda: self._do(left),
                lock_ms=500 + dice.below(2_000) if what is What.EXTEND else 0,
                delay_ms=dice.below(400) if dice.below(3) == 0 else -1,
                may_be_late=dice.below(3) == 0,
            ),
        )


class AttachedWorker(QueueWorker):
    """A consumer that is attached: what it has ends with its connection, or when it leaves."""

    #: By the client's own count.
    NUMBER: Final = 1

    def __init__(self, client: QueueClient, spec: QueueSpec) -> None:
        #: The connection that it is attached on, and the one that it has what it has on.
        self._attached_on = self._has_on = -1
        self._has: list[Delivery] = []
        super().__init__(client, spec)

    def _next(self) -> None:
        if self.is_stopped:
            self._leave()
            return
        if self._attached_on != self._client.links or not self._client.is_connected:
            self._attach()
            return
        dice = self._client.env.dice
        self._client.take(
            self._spec,
            self._on_taken,
            consumer=self.NUMBER,
            count=1 + dice.below(self._spec.take_max),
            lock_ms=(0, 0, 0, 2_000)[dice.below(4)],
            wait_ms=dice.below(WAIT_MS_MAX),
        )

    def _on_taken(self, deliveries: list[Delivery], error_code: int | None) -> None:
        self._has += deliveries
        if error_code:
            # It may have been given something that it has not heard of.
            self._attached_on = -1
        super()._on_taken(deliveries, error_code)

    def _ask_attach(
        self, on_answer: Callable[[AttachConsumerResponse | None], None], *, is_leaving: bool
    ) -> None:
        request = AttachConsumerRequest(VHOST, self._spec.name, self.NUMBER, is_leaving, TIMEOUT_MS)
        self._client.ask(ApiKey.ATTACH_CONSUMER, request, on_answer)

    def _attach(self) -> None:
        def on_answer(answer: AttachConsumerResponse | None) -> None:
            if answer is None or answer.error_code:
                self._client.later(self._next)
                return
            self._attached_on = links
            if self._has_on != links:
                self._let_go()
                self._has_on = links
            self._give_back([Claim(e.first_offset, e.end_offset, e.attempt) for e in answer.claims])

        self._ask_attach(on_answer, is_leaving=False)
        links = self._client.links

    def _give_back(self, claims: list[Claim]) -> None:
        """Release what was given with answers that did not come."""
        known = {(each.offset, each.attempt) for each in self._has}
        unknown = [
            Claim(offset, offset + 1, each.attempt)
            for each in claims
            for offset in range(each.first_offset, each.end_offset)
            if (offset, each.attempt) not in known
        ]
        if not unknown:
            self._next()
            return
        request = SettleMessagesRequest(
            VHOST, self._spec.name, 1, unknown, timeout_ms=TIMEOUT_MS, delay_ms=0
        )
        self._client.ask(ApiKey.SETTLE_MESSAGES, request, lambda _: self._next())

    def _let_go(self) -> None:
        for each in self._has:
            each.let_go_ms = min(each.let_go_ms, self._client.true_ms())
        self._has = []

    def _die(self, deliveries: list[Delivery]) -> None:
        self._let_go()
        super()._die(deliveries)

    def _leave(self) -> None:
        if self._attached_on != self._client.links or not self._client.is_connected:
            self._client.hang_up()
            self.is_idle = True
            return
        for each in self._has:
            if each.let_go_ms == FOREVER:
                each.is_left = True
        self._let_go()

        def on_answer(_: AttachConsumerResponse | None) -> None:
            self._client.hang_up()
            self.is_idle = True

        self._ask_attach(on_answer, is_leaving=True)
