"""Somebody who puts messages into a queue; never twice, unless they have identities."""

from collections.abc import Callable
from typing import Final

from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.records import Record
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.messages.put_messages_request import PutMessagesRequest
from kafkaesque.protocols.kafka.messages.put_messages_response import PutMessagesResponse
from kafkaesque.sim.queues.client import TIMEOUT_MS, VHOST, QueueClient, is_refused
from kafkaesque.sim.queues.history import Outcome, QueueSpec, Sent
from kafkaesque.sim.queues.letters import headers_of

#: One put in so many is not waited for, and one message in so many is long.
FORGETS_ONE_IN: Final = 10
LONG_ONE_IN: Final = 25
LONG_BYTES: Final = 3_000
#: A message has a twin in its own batch in one of so many, where messages have identities.
TWIN_ONE_IN: Final = 8
#: Where it matters, one message in so many is delayed, and one lives for a while only.
DELAYED_ONE_IN: Final = 3
DELAY_MS_MAX: Final = 1_500
LIFE_MS_MAX: Final = 3_000


class QueuePublisher:
    """Puts numbered messages, until it is stopped."""

    def __init__(self, client: QueueClient, spec: QueueSpec, name: str) -> None:
        self.is_stopped = False
        self._client: Final = client
        self._spec: Final = spec
        self._name: Final = name
        self._number = 0
        #: Puts whose outcome is not known, of those that are waited for.
        self._due = 0
        client.env.clock.call_soon(self._next)

    @property
    def is_idle(self) -> bool:
        """Whether all outcomes are known that this one waits for."""
        return self._due == 0

    def _next(self) -> None:
        if self.is_stopped:
            return
        self._client.maybe_leave()
        dice = self._client.env.dice
        messages = [self._make() for _ in range(1 + dice.below(self._spec.put_max))]
        if self._spec.is_unique and dice.below(TWIN_ONE_IN) == 0:
            messages.append(messages[dice.below(len(messages))])
        if not self._spec.is_unique and dice.below(FORGETS_ONE_IN) == 0:
            self._put(messages, lambda _: None)
            self._rest(len(messages))
            return
        self._due += 1
        self._put_until_known(messages)

    def _rest(self, count: int) -> None:
        pause_ms = self._spec.put_pause_ms if self._number > self._spec.put_at_once else 0
        self._client.rest(self._next, max(1, pause_ms * count))

    def _make(self) -> Sent:
        dice, spec = self._client.env.dice, self._spec
        value = b"%s/%s/%d" % (spec.name.encode(), self._name.encode(), self._number)
        if dice.below(LONG_ONE_IN) == 0:
            value += b"/" + bytes(LONG_BYTES)
        sent = Sent(queue=spec.name, value=value, sent_ms=self._client.true_ms())
        if spec.is_ordered and (spec.grouped_one_in == 1 or dice.below(spec.grouped_one_in) == 0):
            sent.group = b"group-%d" % dice.below(spec.groups)
        if spec.is_unique:
            sent.identity = (b"%s/%d" % (self._name.encode(), self._number)).rjust(16, b".")
        if spec.priorities > 1:
            sent.priority = dice.below(spec.priorities + 2)
        if spec.has_lives:
            now_ms = self._client.env.clock.wall_ms()
            if dice.below(DELAYED_ONE_IN) == 0:
                sent.not_before_ms = now_ms + dice.below(DELAY_MS_MAX)
            if dice.below(DELAYED_ONE_IN) == 0:
                sent.not_after_ms = now_ms + dice.below(LIFE_MS_MAX)
        self._number += 1
        self._client.history.note_sent(sent)
        return sent

    def _put_until_known(self, messages: list[Sent]) -> None:
        def on_put(is_known: bool) -> None:
            if not is_known and self._spec.is_unique:
                self._client.later(lambda: self._put_until_known(messages))
                return
            self._due -= 1
            self._rest(len(messages))

        self._put(messages, on_put)

    def _put(self, messages: list[Sent], on_put: Callable[[bool], None]) -> None:
        records = [
            Record(place, 0, b"k" if place % 2 else None, sent.value, headers_of(sent))
            for place, sent in enumerate(messages)
        ]

        def on_answer(answer: PutMessagesResponse | None) -> None:
            self._note(messages, answer)
            on_put(answer is not None and answer.error_code == 0)

        request = PutMessagesRequest(VHOST, self._spec.name, TIMEOUT_MS, encode_batch(records))
        self._client.ask(ApiKey.PUT_MESSAGES, request, on_answer)

    def _note(self, messages: list[Sent], answer: PutMessagesResponse | None) -> None:
        if answer is None:
            return
        if is_refused(answer.error_code):
            for sent in messages:
                if not self._spec.is_unique:
                    sent.outcome = Outcome.REFUSED
            return
        if answer.error_code == 0:
            for sent, offset in zip(messages, answer.offsets, strict=True):
                if offset >= 0:
                    sent.outcome = Outcome.DONE
                    sent.offsets.add(offset)
                elif not sent.offsets:
                    sent.outcome = Outcome.REFUSED
