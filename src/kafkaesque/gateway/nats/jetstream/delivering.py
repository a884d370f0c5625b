"""Sending a consumer's messages to a subject, each with the subject that acknowledges it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.gateway.nats.jetstream.configs import NS_PER_MS
from kafkaesque.gateway.nats.jetstream.consumers import Consumer
from kafkaesque.gateway.nats.jetstream.office import Office
from kafkaesque.gateway.nats.jetstream.records import Message, read_message, read_removal
from kafkaesque.gateway.nats.jetstream.settling import Settling
from kafkaesque.gateway.nats.jetstream.streams import Stream
from kafkaesque.gateway.nats.jetstream.subjects import AckToken
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.records import Record

TOO_LARGE: Final = -1


class Delivering:
    """See the module."""

    __slots__ = ("_numbers", "_office", "_settling")

    def __init__(self, office: Office, settling: Settling) -> None:
        self._office: Final = office
        self._settling: Final = settling
        #: Consumers' own count of deliveries, as far as this broker has made them.
        self._numbers: Final[dict[bytes, int]] = {}

    def deliver(
        self,
        stream: Stream,
        consumer: Consumer,
        taken: q.QueueMessage,
        to: str,
        bytes_max: int | None = None,
    ) -> int | None:
        """Send a message that was taken; return its bytes.

        0: it is not for this consumer, and is settled. None: nobody listens, and it was not sent.
        `TOO_LARGE`: it has more bytes than may be sent, and was not.
        """
        record = Record(taken.offset, taken.timestamp_ms, taken.key, taken.value, taken.headers)
        message = read_message(record, stream.name)
        view = stream.log.view
        is_gone = message.sequence <= view.last_sequence and not view.has(message.sequence)
        if is_gone or read_removal(record) is not None or not consumer.wants(message.subject):
            self._settling.settle(consumer.log_id, taken.claim)
            return 0
        token = AckToken(
            stream.name,
            consumer.name,
            taken.attempt,
            message.sequence,
            self.number_of(consumer) + 1,
            message.timestamp_ms * NS_PER_MS,
            view.pending_behind(consumer.config.filters, message.sequence),
        )
        if bytes_max is not None:
            size = len(message.subject) + len(message.headers) + len(message.payload)
            if size + len(token.write()) > bytes_max:
                return TOO_LARGE
        if not send_message(self._office, message, to, token, consumer.config.headers_only):
            return None
        self._numbers[consumer.log_id] = token.consumer_sequence
        config = consumer.config
        if not consumer.needs_ack:
            self._settling.settle(consumer.log_id, taken.claim)
        elif config.lock_ms(taken.attempt) != config.ack_wait_ms:
            # All were taken for as long as the first time.
            self._settling.extend(consumer, taken.claim)
        return len(message.subject) + len(message.headers) + len(message.payload)

    def number_of(self, consumer: Consumer) -> int:
        """Return how many messages this broker has delivered for a consumer."""
        return self._numbers.get(consumer.log_id, 0)

    def give_back(self, consumer: Consumer, messages: Sequence[q.QueueMessage]) -> None:
        """Let others have messages that were not sent."""
        request = q.ReleaseMessages(
            log_id=consumer.log_id, claims=[each.claim for each in messages], delay_ms=0
        )
        self._office.ask(request, q.ClaimsResult, _ignore)


def _ignore(_: q.ClaimsResult | RequestRefused) -> None:
    """Their locks end by themselves."""


def send_message(
    office: Office, message: Message, to: str, token: AckToken, headers_only: bool | None
) -> bool:
    """Send a stream's message to a subject; say whether anybody listens there."""
    headers, payload = message.headers, message.payload
    if headers_only:
        head = headers[:-2] if headers else b"NATS/1.0\r\n"
        headers, payload = b"%bNats-Msg-Size: %d\r\n\r\n" % (head, len(payload)), b""
    return office.send(
        to, subject=message.subject, reply=token.write(), headers=headers, payload=payload
    )
