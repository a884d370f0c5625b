"""What a connection tells of what has come."""

from __future__ import annotations

import msgspec

from kafkaesque.protocols.nats.errors import ErrorText, NatsError


class ConnectOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """What a client says of itself in CONNECT; what it leaves out is as nats-server takes it.

    A null is as good as nothing.
    """

    verbose: bool | None = True
    pedantic: bool | None = True
    #: Whether it gets its own messages.
    echo: bool | None = True
    headers: bool | None = False
    #: Whether it is told where a request has met nobody.
    no_responders: bool | None = False
    tls_required: bool | None = False
    protocol: int | None = 0
    name: str | None = None
    lang: str | None = None
    version: str | None = None
    user: str | None = None
    #: The password; it is shown in no log.
    password: str | None = msgspec.field(name="pass", default=None)
    auth_token: str | None = None
    jwt: str | None = None
    nkey: str | None = None
    #: Of the nonce in INFO, by the key.
    sig: str | None = None

    def __repr__(self) -> str:
        return f"ConnectOptions(name={self.name!r}, lang={self.lang!r}, user={self.user!r})"


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all events."""


class Connected(Event, frozen=True, kw_only=True):
    """CONNECT: let the client in (`Connection.accept`) or refuse it (`Connection.fail`)."""

    options: ConnectOptions


class Published(Event, frozen=True, kw_only=True):
    """PUB or HPUB."""

    subject: str
    #: Empty: none is wanted.
    reply: str
    #: As they came; empty: none.
    headers: bytes
    payload: bytes


class Subscribed(Event, frozen=True, kw_only=True):
    """SUB."""

    subject: str
    #: The queue group; empty: none.
    queue: str
    sid: str


class Unsubscribed(Event, frozen=True, kw_only=True):
    """UNSUB."""

    sid: str
    #: Deliver so many in all, then end it; 0: end it now.
    messages_max: int


class PingReceived(Event, frozen=True, kw_only=True):
    """PING: answer `PONG`, after what came before it is done."""


class PongReceived(Event, frozen=True, kw_only=True):
    """PONG: the client lives."""


class PingDue(Event, frozen=True, kw_only=True):
    """The client has been silent: send `PING`."""


class CommandRefused(Event, frozen=True, kw_only=True):
    """The client was wrong, and stays: send `write_error`."""

    text: ErrorText


class ConnectionFailed(Event, frozen=True, kw_only=True):
    """The client was wrong, or silent: send what `Connection.fail` returns, and close."""

    error: NatsError
