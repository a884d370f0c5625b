"""What a connection tells of what has come."""

from __future__ import annotations

from enum import Enum

import msgspec

from kafkaesque.protocols.stomp.errors import StompError
from kafkaesque.protocols.stomp.frames import Headers
from kafkaesque.protocols.stomp.versions import Version


class AckMode(Enum):
    """How a subscription's messages are acknowledged."""

    #: When they are sent.
    AUTO = "auto"
    #: Each acknowledgement is for all messages of the subscription up to it.
    CLIENT = "client"
    #: Each is for one message.
    CLIENT_INDIVIDUAL = "client-individual"


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all events.

    `receipt` is what RECEIPT is to name when this and all before it is done; None: none is wanted.
    """

    receipt: str | None = None


class ConnectReceived(Event, frozen=True, kw_only=True):
    """CONNECT or STOMP: let the client in (`Connection.accept`) or refuse it (`fail`)."""

    version: Version
    host: str
    login: str | None
    #: It is shown in no log.
    passcode: str | None
    headers: Headers

    def __repr__(self) -> str:
        return f"ConnectReceived(version={self.version}, host={self.host!r}, login={self.login!r})"


class Sent(Event, frozen=True, kw_only=True):
    """SEND; the headers are all that came, of which the first of a name counts."""

    destination: str
    headers: Headers
    body: bytes
    transaction: str | None = None


class SentRun(Event, frozen=True, kw_only=True):
    """SENDs that have come together, and differ in their bodies and receipts alone.

    None of them is part of a transaction.
    """

    first: Sent
    #: Of each, the first one's among them.
    bodies: list[bytes]
    receipts: list[str | None]

    def singles(self) -> list[Sent]:
        """Return the same, one by one."""
        first = self.first
        others = zip(self.bodies[1:], self.receipts[1:], strict=True)
        return [first, *(_sent_like(first, body, receipt) for body, receipt in others)]


def _sent_like(first: Sent, body: bytes, receipt: str | None) -> Sent:
    # Of headers with one name the first counts, and it is the one that may differ.
    said = {"receipt": receipt or "", "content-length": str(len(body))}
    headers = tuple([(name, said.pop(name, value)) for name, value in first.headers])
    return Sent(destination=first.destination, headers=headers, body=body, receipt=receipt)


class Subscribed(Event, frozen=True, kw_only=True):
    """SUBSCRIBE; in 1.0 a destination may stand for an id."""

    subscription_id: str
    destination: str
    ack_mode: AckMode
    headers: Headers


class Unsubscribed(Event, frozen=True, kw_only=True):
    """UNSUBSCRIBE."""

    subscription_id: str
    #: Clients of durable subscriptions say in one that they are to be forgotten.
    headers: Headers


class Acknowledged(Event, frozen=True, kw_only=True):
    """ACK, or NACK.

    In 1.2 the id is that of the message's `ack` header, in 1.1 and 1.0 its `message-id`.
    """

    ack_id: str
    #: Of 1.1; in 1.0 maybe, in 1.2 never.
    subscription_id: str | None
    is_positive: bool
    #: Whether what was refused may come again: `requeue:false` says no (RabbitMQ's word).
    is_requeued: bool = True
    transaction: str | None = None


class AcknowledgedRun(Event, frozen=True, kw_only=True):
    """ACKs that have come together, and differ in their ids and receipts alone.

    None of them is part of a transaction.
    """

    #: Of all of them.
    subscription_id: str | None
    #: As ACKs say it, who are not asked.
    is_requeued: bool
    ack_ids: list[str]
    receipts: list[str | None]

    def singles(self) -> list[Acknowledged]:
        """Return the same, one by one."""
        return [
            Acknowledged(
                ack_id=ack_id,
                subscription_id=self.subscription_id,
                is_positive=True,
                is_requeued=self.is_requeued,
                receipt=receipt,
            )
            for ack_id, receipt in zip(self.ack_ids, self.receipts, strict=True)
        ]


class TransactionBegun(Event, frozen=True, kw_only=True):
    """BEGIN."""

    transaction: str


class TransactionEnded(Event, frozen=True, kw_only=True):
    """COMMIT or ABORT."""

    transaction: str
    is_committed: bool


class Disconnected(Event, frozen=True, kw_only=True):
    """DISCONNECT: open transactions are aborted, and nothing more is read."""


class HeartbeatDue(Event, frozen=True, kw_only=True):
    """Nothing was sent for long: send `HEARTBEAT`."""


class ConnectionFailed(Event, frozen=True, kw_only=True):
    """The client was wrong, or silent: send what `Connection.fail` returns, and close."""

    error: StompError
