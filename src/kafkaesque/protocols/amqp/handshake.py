"""What both sides say of themselves when a connection begins, and how clients say who they are."""

from __future__ import annotations

from typing import Final, NamedTuple

from kafkaesque.protocols.amqp.errors import AmqpError, ReplyCode
from kafkaesque.protocols.amqp.methods import ConnectionStartOk
from kafkaesque.protocols.amqp.wire import (
    MALFORMED,
    Table,
    read_table,
    write_long_string,
)

PLAIN: Final = "PLAIN"
AMQPLAIN: Final = "AMQPLAIN"
EXTERNAL: Final = "EXTERNAL"

#: A client with this capability is told that its login failed; from others it is kept.
TELLS_FAILED_LOGIN: Final = "authentication_failure_close"
CANCEL_NOTIFY: Final = "consumer_cancel_notify"
BLOCKED: Final = "connection.blocked"

#: What RabbitMQ calls the extensions that this codec has.
CAPABILITIES: Final[Table] = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    CANCEL_NOTIFY: True,
    BLOCKED: True,
    "consumer_priorities": True,
    TELLS_FAILED_LOGIN: True,
    "per_consumer_qos": True,
    "direct_reply_to": True,
}


class Login(NamedTuple):
    """A name and its password, as a client has sent them."""

    user: str
    password: bytes


def server_properties(version: str, cluster_name: str) -> Table:
    """Return what the broker says of itself in connection.start."""
    return {
        "product": "Kafkaesque",
        "version": version,
        "cluster_name": cluster_name,
        "platform": "Python",
        "capabilities": dict(CAPABILITIES),
    }


def has_capability(start_ok: ConnectionStartOk, name: str) -> bool:
    """Tell whether a client has said that it has a capability."""
    capabilities = start_ok.client_properties.get("capabilities")
    return isinstance(capabilities, dict) and capabilities.get(name) is True


def read_login(start_ok: ConnectionStartOk) -> Login:
    """Return who a client says to be, by PLAIN (RFC 4616) or AMQPLAIN.

    Raises:
        AmqpError: the response does not say it, or the mechanism is another one.
    """
    match start_ok.mechanism:
        case "PLAIN":
            found = _read_plain(start_ok.response)
        case "AMQPLAIN":
            found = _read_amqplain(start_ok.response)
        case mechanism:
            what = f"unknown authentication mechanism '{mechanism}'"
            raise _failed(ReplyCode.COMMAND_INVALID, what)
    if found is None:
        raise _failed(ReplyCode.SYNTAX_ERROR, f"a response of {start_ok.mechanism} is malformed")
    return found


def _read_plain(response: bytes) -> Login | None:
    parts = response.split(b"\0")
    if len(parts) != 3:
        return None
    # Before the first zero stands whom to act for, which RabbitMQ's clients leave empty.
    try:
        return Login(parts[1].decode(), parts[2])
    except UnicodeDecodeError:
        return None


def _read_amqplain(response: bytes) -> Login | None:
    """Read a table without the length before it."""
    try:
        table, _ = read_table(write_long_string(response), 0)
    except (AmqpError, *MALFORMED):
        return None
    user, password = table.get("LOGIN"), table.get("PASSWORD")
    if not isinstance(user, str) or not isinstance(password, str):
        return None
    return Login(user, password.encode(errors="surrogateescape"))


def _failed(code: ReplyCode, what: str) -> AmqpError:
    return AmqpError(code, what, ConnectionStartOk.class_id, ConnectionStartOk.method_id)
