"""A consumer that a queue knows: it is attached on one connection, and takes messages over that.

Theory of operation. The broker knows a consumer by its connection, and lets it be gone with that:
what it has is ready for others then. So the connection is kept from the first take on, and is no
other operation's. If it breaks, the consumer attaches again over another one, as a new consumer.
The queue may take the old one for living for a few seconds; until it is gone, an exclusive queue
refuses the new one, and is asked again.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, TypeVar

from kafkaesque.client.calls import ATTEMPT_S_MAX, SPARE_S, VERSION, Calls
from kafkaesque.client.connections import AGAIN_S_MAX, AGAIN_S_MIN, BROKEN, Link
from kafkaesque.client.delivery import Delivery
from kafkaesque.client.errors import (
    PASSING,
    UNCERTAIN,
    Closed,
    Timeout,
    error_of,
    name_of,
)
from kafkaesque.client.queue_calls import QueueCalls
from kafkaesque.client.steps import Sleep, Steps
from kafkaesque.model.records import Record
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.attach_consumer_request import AttachConsumerRequest
from kafkaesque.protocols.kafka.wire import Message

#: The consumer's number on its connection, which has no other one.
NUMBER: Final = 1
#: How long one request to attach may take.
ATTACH_S: Final = 10.0
#: How long it may take to say that it leaves; then the connection is closed, which says it, too.
LEAVE_S: Final = 2.0

DeliveryT = TypeVar("DeliveryT", bound=Delivery)


class Attachment:
    """See the module. One operation at a time."""

    __slots__ = (
        "_calls",
        "_is_closed",
        "_is_known",
        "_link",
        "_queues",
        "_was_attached",
        "is_active",
        "queue",
    )

    def __init__(self, calls: Calls, queues: QueueCalls, queue: str) -> None:
        self._calls = calls
        self._queues = queues
        self.queue = queue
        self._link: Link | None = None
        #: Whether the queue's leader knows the consumer; another leader has to be told of it again.
        self._is_known = False
        self._was_attached = False
        self._is_closed = False
        #: Whether the queue gave messages to this consumer when it was attached. Of a queue for one
        #: active consumer at a time, another one may be that: then this one waits for its turn.
        self.is_active = False

    @property
    def is_attached(self) -> bool:
        """Whether there is a connection over which the consumer is attached."""
        return self._link is not None and self._is_known

    def begin(self, left_s: float | None = None) -> Steps[None]:
        """Attach, if that is not done.

        Raises:
            QueueInUse: another consumer has the queue for itself.
            KafkaesqueError: as the broker refuses it.
        """
        yield from self._attached(self._calls.deadline(left_s))

    def take(
        self,
        count: int,
        lock: float | timedelta | None,
        wait_s: float,
        left_s: float | None,
        make: Callable[[str, Record, int, int, int], DeliveryT],
    ) -> Steps[list[DeliveryT]]:
        """Take messages as `QueueCalls.take` does, as the consumer that is attached."""
        request, wait_s = self._queues.take_request(self.queue, count, lock, wait_s, NUMBER)
        deadline_s = self._calls.deadline(self._queues.take_time(left_s))
        again_s = AGAIN_S_MIN
        while True:
            link = yield from self._attached(deadline_s)
            attempt_s = min(ATTEMPT_S_MAX, max(0.0, deadline_s - self._calls.monotonic()))
            answer, last = yield from self._ask(
                link, ApiKey.TAKE_MESSAGES, request, wait_s + attempt_s
            )
            if answer is not None and not answer.error_code:
                return self._queues.taken(self.queue, answer, make)
            if answer is not None:
                code = answer.error_code
                if code == ErrorCode.UNKNOWN_CONSUMER:
                    # The queue has another leader, or was made again. The connection stays, and so
                    # does what the consumer has.
                    self._is_known = False
                elif code not in PASSING and code not in UNCERTAIN:
                    raise error_of(code, answer.error_message, f"taking from {self.queue!r}")
            if self._calls.monotonic() + again_s >= deadline_s:
                raise Timeout(f"taking from queue {self.queue!r}: {last}")
            yield Sleep(again_s)
            again_s = min(2 * again_s, AGAIN_S_MAX)

    def stop(self) -> None:
        """Take no more; whoever takes at the moment ends with that."""
        self._is_closed = True

    def end(self) -> Steps[None]:
        """Leave: what was taken and not settled is ready for others, and not counted as failed."""
        self.stop()
        yield from self._leave()

    # -- inside

    def _attached(self, deadline_s: float) -> Steps[Link]:
        """Return the connection over which the consumer is attached."""
        if self._is_closed:
            raise Closed("the consumer has left the queue")
        link = self._link
        if link is not None:
            is_old = link.ends_at_s is not None and self._calls.monotonic() >= link.ends_at_s
            if is_old:
                yield from self._leave()
            elif self._is_known:
                return link
        again_s = AGAIN_S_MIN
        while True:
            link = self._link
            if link is None:
                link = yield from self._calls.connections.take(deadline_s)
            left_s = min(ATTACH_S, max(0.0, deadline_s - self._calls.monotonic()))
            request = self._request(is_leaving=False, timeout_s=left_s)
            self._link = link
            answer, last = yield from self._ask(link, ApiKey.ATTACH_CONSUMER, request, left_s)
            if answer is not None:
                code = answer.error_code
                if not code:
                    self.is_active = answer.is_active
                    self._is_known = self._was_attached = True
                    return link
                # It may be attached all the same, and would be another one for the next request.
                self._drop()
                is_passing = code in PASSING or code in UNCERTAIN
                is_passing |= code == ErrorCode.QUEUE_IN_USE and self._was_attached
                if not is_passing or self._calls.monotonic() + again_s >= deadline_s:
                    what = f"attaching to queue {self.queue!r}"
                    raise error_of(code, answer.error_message, what)
            if self._calls.monotonic() + again_s >= deadline_s:
                raise Timeout(f"attaching to queue {self.queue!r}: {last}")
            yield Sleep(again_s)
            again_s = min(2 * again_s, AGAIN_S_MAX)

    def _ask(
        self, link: Link, api_key: int, request: Message, timeout_s: float
    ) -> Steps[tuple[Any, str]]:
        """Return the answer, and what was last said; None if the connection broke."""
        try:
            answer = yield from self._calls.connections.ask(
                link, (api_key, VERSION), request, timeout_s + SPARE_S
            )
        except BROKEN as error:
            self._drop()
            return None, f"{link.address} did not answer: {error!r}"
        except BaseException:
            self._drop()
            raise
        code = answer.error_code
        return answer, (answer.error_message or name_of(code)) if code else ""

    def _request(self, *, is_leaving: bool, timeout_s: float) -> AttachConsumerRequest:
        return AttachConsumerRequest(
            self._calls.config.vhost,
            self.queue,
            NUMBER,
            is_leaving,
            max(1, int(timeout_s * 1000)),
        )

    def _leave(self) -> Steps[None]:
        link = self._link
        if link is None:
            return
        request = self._request(is_leaving=True, timeout_s=LEAVE_S)
        answer, _ = yield from self._ask(link, ApiKey.ATTACH_CONSUMER, request, LEAVE_S)
        if self._link is None:
            return
        if answer is None or answer.error_code:
            self._drop()
        else:
            self._link, self._is_known = None, False
            self._calls.connections.give_back(link)

    def _drop(self) -> None:
        link, self._link, self._is_known = self._link, None, False
        if link is not None:
            self._calls.connections.drop(link)
