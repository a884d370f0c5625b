"""One subscription: what its queue has is sent as MESSAGE."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from itertools import takewhile
from typing import Final, Protocol

from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.gateway.queueing.consumer import Consumer
from kafkaesque.gateway.queueing.needs import Need
from kafkaesque.gateway.queueing.settlements import UNACKED_MAX, Delivery, Settlements
from kafkaesque.gateway.stomp.messages import head_of, is_lasting
from kafkaesque.gateway.stomp.ports import StompLink
from kafkaesque.model.ids import TopicId
from kafkaesque.protocols.stomp.errors import StompError
from kafkaesque.protocols.stomp.events import AckMode
from kafkaesque.protocols.stomp.versions import Version
from kafkaesque.protocols.stomp.writing import MessageHead, escaped

#: Between a subscription's number and a message's id; it is not escaped, and no id holds it.
ACK_SEPARATOR: Final = "."
#: A message's headers and its key.
_Said = tuple[tuple[tuple[str, bytes | None], ...], bytes | None]


class Owner(Protocol):
    """Who has the subscription."""

    @property
    def unacked_count(self) -> int:
        """Messages that the client has, over all its subscriptions."""

    def on_queue_deleted(self, subscription: Subscription) -> None:
        """A subscription's queue is gone."""


class Subscription(Consumer):
    """See the module."""

    __slots__ = (
        "_ack_prefix",
        "_exchange",
        "_id_prefix",
        "_last",
        "_last_head",
        "_owner",
        "_stomp",
        "_subscription_id",
        "held",
        "id",
        "mode",
        "need",
        "number",
    )

    def __init__(
        self,
        owner: Owner,
        link: StompLink,
        settlements: Settlements,
        queue: QueueState,
        *,
        subscription_id: str,
        number: int,
        mode: AckMode,
        prefetch: int,
        need: Need | None,
        exchange: str,
    ) -> None:
        """`number` is the connection's for it, and `need` what its client has to be allowed.

        `exchange` is what the client has subscribed to; the default exchange: to a queue.
        """
        super().__init__(
            link,
            settlements,
            queue,
            prefetch=prefetch,
            lock_ms=link.desk.consumer_timeout_ms(queue),
            is_settled_when_sent=mode is AckMode.AUTO,
        )
        self._owner: Final = owner
        self._stomp: Final = link
        self.id: Final = subscription_id
        self.number: Final = number
        self.mode: Final = mode
        self.need: Final = need
        self._subscription_id: Final = escaped(subscription_id, link.codec.version)
        self._exchange: Final = exchange
        #: What the last message has said, and how that is written.
        self._last: _Said | None = None
        self._last_head = MessageHead(link.codec.version, (), ())
        self._ack_prefix: Final = f"{number}{ACK_SEPARATOR}".encode()
        #: Of all its messages' ids: they are those of one log.
        self._id_prefix: Final = message_id_of(queue.topic_id, "")
        #: What the client has said nothing about, by message id, in the order of delivery.
        self.held: Final[dict[str, Delivery]] = {}

    @property
    def credit_of_client(self) -> int:
        """See `Consumer`."""
        return UNACKED_MAX - self._owner.unacked_count

    @property
    def is_closed(self) -> bool:
        """See `Consumer`."""
        return self._stomp.is_closed

    def may_deliver(self) -> bool:
        """See `Consumer`."""
        if self.need is None or self.is_closed:
            return True
        try:
            self._stomp.check(self.need)
        except StompError as error:
            self._stomp.fail(error)
            return False
        return True

    def write(self, message: q.QueueMessage, delivery: Delivery, now_ms: int) -> bytes:
        """See `Consumer`."""
        version = self._stomp.codec.version
        message_id = f"{self._id_prefix}{delivery.offset}"
        head = self._head_of(message, now_ms, version)
        # Neither id has anything that would be escaped.
        raw_id = message_id.encode()
        ack_id = b""
        if self.is_settled_when_sent:
            self._settlements.settle(delivery)
        else:
            self.held[message_id] = delivery
            if version is Version.V1_2:
                ack_id = self._ack_prefix + raw_id
        return head.write(self._subscription_id, ack_id, raw_id, message.value or b"")

    def _head_of(self, message: q.QueueMessage, now_ms: int, version: Version) -> MessageHead:
        """Write what a message says of itself, unless the one before it has said just that."""
        said = (message.headers, message.key)
        if message.attempt <= 1 and said == self._last:
            return self._last_head
        head = head_of(message, self.queue, now_ms, self._exchange, version)
        if is_lasting(message):
            self._last, self._last_head = said, head
        return head

    def take(self, message_id: str) -> list[Delivery]:
        """Return the deliveries that an acknowledgement of one means, and forget them."""
        ids = [message_id]
        if self.mode is AckMode.CLIENT:
            ids = [*takewhile(lambda each: each != message_id, self.held), message_id]
        return [self.held.pop(each) for each in ids]

    def on_deleted(self) -> None:
        """See `Consumer`."""
        self._owner.on_queue_deleted(self)


def message_id_of(log_id: TopicId, offset: int | str) -> str:
    """Return a message's id: the same at each delivery, and no other message's."""
    return f"{urlsafe_b64encode(log_id).decode().rstrip('=')}-{offset}"
