"""The end of a run: one consumer empties all queues, and counts them."""

from typing import Any, Final

from kafkaesque.model.records import decode_batch
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.messages.alter_queue_request import AlterQueueRequest, SetOption
from kafkaesque.protocols.kafka.messages.describe_queues_request import (
    DescribeQueuesRequest,
    QueueName,
)
from kafkaesque.protocols.kafka.messages.maintain_queue_request import MaintainQueueRequest
from kafkaesque.protocols.kafka.messages.peek_messages_request import PeekMessagesRequest
from kafkaesque.sim.queues.client import ANSWER_BYTES_MAX, TIMEOUT_MS, VHOST, QueueClient
from kafkaesque.sim.queues.history import Delivery, Purged, QueueSpec, What

#: Messages that are delayed are waited for so long; a clock that jumped may have sent them far off.
DELAYED_MS_MAX: Final = 5_000
LOOK_MS: Final = 200
LOCK_MS: Final = 60_000
#: Of a topic, messages are known a little before somebody asks: so often nothing comes at the end.
TRIES: Final = 3
WAIT_MS: Final = 2_000
#: Few at a time, so that the order of answers says something.
MESSAGES_MAX: Final = 5
PURGE, UNPARK = 0, 2


class Drain:
    """Empties queues in turn: what is given up comes into those that follow."""

    def __init__(self, client: QueueClient, specs: list[QueueSpec]) -> None:
        self._client: Final = client
        self._left: Final = specs
        self._counts: dict[str, int] = {}
        self._tries_left = TRIES
        #: Since when only delayed messages are waited for.
        self._waits_since_ms: float | None = None
        self._begin()

    @property
    def is_done(self) -> bool:
        """Whether all queues are empty and counted."""
        return not self._left

    def describe(self) -> str:
        """Say what is waited for."""
        return f"{self._left[0].name} has {self._counts}" if self._left else "nothing"

    def _begin(self) -> None:
        """One consumer is to have all: also of a queue that gives only to who is attached."""
        self._waits_since_ms = None
        self._tries_left = TRIES
        if self._left:
            options = [
                SetOption("sharing", "all"),
                SetOption("max.in.flight", "0"),
                SetOption("message.ttl.ms", "0"),
            ]
            request = AlterQueueRequest(VHOST, self._left[0].name, options, TIMEOUT_MS)
            self._client.ask(ApiKey.ALTER_QUEUE, request, self._on_altered)

    def _on_altered(self, answer: Any) -> None:
        if answer is None or answer.error_code:
            self._client.later(self._begin)
        else:
            self._client.later(self._look, LOOK_MS)

    def _look(self) -> None:
        request = DescribeQueuesRequest([QueueName(VHOST, self._left[0].name)], True, TIMEOUT_MS)
        self._client.ask(ApiKey.DESCRIBE_QUEUES, request, self._on_counted)

    def _again(self) -> None:
        self._client.later(self._look, LOOK_MS)

    def _on_counted(self, answer: Any) -> None:
        if answer is None or answer.error_code or answer.queues[0].error_code:
            self._again()
            return
        spec = self._left[0]
        self._counts = counts = {each.name: each.count for each in answer.queues[0].counts}
        # All consumers have hung up.
        if counts["in_flight"] or counts["moving"] or counts["consumers"]:
            self._again()
        elif counts["parked"]:
            self._maintain(UNPARK)
        elif counts["delayed"] and not self._has_waited():
            self._again()
        elif counts["ready"] or (spec.topic and self._tries_left):
            count = max(MESSAGES_MAX, spec.take_max // 2)
            self._client.take(
                spec,
                self._on_taken,
                count=count,
                lock_ms=LOCK_MS,
                wait_ms=WAIT_MS if spec.topic else 0,
                is_drain=True,
            )
        elif counts["delayed"]:
            self._account(0)
        else:
            self._client.history.counts[spec.name] = counts
            del self._left[0]
            self._begin()

    def _has_waited(self) -> bool:
        now_ms = self._client.true_ms()
        if self._waits_since_ms is None:
            self._waits_since_ms = now_ms
        return now_ms - self._waits_since_ms > DELAYED_MS_MAX

    def _on_taken(self, deliveries: list[Delivery], error_code: int | None) -> None:
        if not deliveries:
            self._tries_left -= error_code == 0
            self._again()
        else:
            self._client.settle(What.SETTLE, deliveries, self._look)

    def _maintain(self, action: int) -> None:
        name = self._left[0].name
        if action == PURGE:
            self._client.history.purges.append(Purged(queue=name, sent_ms=0, answered_ms=-1))
        request = MaintainQueueRequest(VHOST, name, action, "", TIMEOUT_MS)
        self._client.ask(ApiKey.MAINTAIN_QUEUE, request, lambda _: self._again())

    def _account(self, start: int) -> None:
        """Note which messages still wait for their time, and remove them."""

        def on_answer(answer: Any) -> None:
            if answer is None or answer.error_code:
                self._again()
            elif answer.records is None:
                self._maintain(PURGE)
            else:
                records = list(decode_batch(answer.records, ANSWER_BYTES_MAX))
                for record in records:
                    value = bytes(record.value or b"")
                    self._client.history.waiting.add((self._left[0].name, value))
                self._account(records[-1].offset + 1)

        request = PeekMessagesRequest(
            VHOST, self._left[0].name, start, MESSAGES_MAX, ANSWER_BYTES_MAX, TIMEOUT_MS
        )
        self._client.ask(ApiKey.PEEK_MESSAGES, request, on_answer)
