"""Topic permissions: which routing keys a user may use at one exchange, as RabbitMQ has them.

They allow nothing: rules do that. Where a user has one for an exchange of the type topic, `write`
has to fit each routing key that the user publishes with, and `read` each key that the user binds
with. Where there is none, all keys may be used.

Patterns are RE2's, which takes time linear in the key, and fit anywhere in a key. Variables stand
for what a client is called. Their values are put in as they are, never as a part of the pattern: a
name such as `.*` fits nothing but itself. `{client_id}` fits nothing: it is what clients of MQTT
are called, who are not asked here, because rules say which topics they may use.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

import msgspec

from kafkaesque.access.operations import Operation
from kafkaesque.model.errors import InvalidRequest

#: Characters of a pattern.
PATTERN_LENGTH_MAX: Final = 1_000
#: Characters of the name of a virtual host or an exchange.
NAME_LENGTH_MAX: Final = 255
#: Patterns that are kept compiled, each with the values of its variables.
COMPILED_MAX: Final = 4_096
_MEMORY_BYTES_MAX: Final = 1 << 20
_VARIABLE: Final = re.compile(rb"\{(username|vhost|client_id)\}")
#: What an empty pattern is.
_EMPTY: Final = "^$"
#: What `{client_id}` is.
_NOTHING: Final = rb"[^\x00-\x{10FFFF}]"


class TopicPermission(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """See the module. An empty pattern fits the empty key alone, as RabbitMQ's does."""

    user: str
    vhost: str
    exchange: str
    write: str = ""
    read: str = ""
    #: Of the change that made it so.
    epoch: int = 0

    @property
    def key(self) -> "TopicPermissionKey":
        """What no other one has."""
        return TopicPermissionKey(self.user, self.vhost, self.exchange)

    def allows(self, operation: Operation, routing_key: str) -> bool:
        """Tell whether the user may publish (Write) or bind (Read) with a routing key."""
        pattern = self.write if operation is Operation.WRITE else self.read
        compiled = _compiled(pattern or _EMPTY, self.user, self.vhost)
        # One that cannot be read lets nobody through.
        return compiled is not None and (
            compiled.search(routing_key.encode("utf-8", "surrogateescape")) is not None
        )

    def refusal(self, operation: Operation, routing_key: str) -> str:
        """Return what a client is told that may not, in RabbitMQ's words."""
        return (
            f"{operation.name.lower()} access to topic '{routing_key}' in exchange "
            f"'{self.exchange}' in vhost '{self.vhost}' refused for user '{self.user}'"
        )


class TopicPermissionKey(NamedTuple):
    """Whose it is, and for which exchange."""

    user: str
    vhost: str
    exchange: str


TopicPermissions = Mapping[TopicPermissionKey, TopicPermission]


class _Pattern(Protocol):
    def search(self, text: bytes) -> object: ...


def check_topic_permission(permission: TopicPermission) -> None:
    """Check a topic permission that somebody wants to add.

    Raises:
        InvalidRequest: a name is not possible, or RE2 does not take a pattern.
    """
    for name in (permission.vhost, permission.exchange):
        if len(name) > NAME_LENGTH_MAX or not name.isprintable():
            raise InvalidRequest(
                f"a virtual host or an exchange has at most {NAME_LENGTH_MAX} visible characters"
            )
    for pattern in (permission.write, permission.read):
        if len(pattern) > PATTERN_LENGTH_MAX:
            raise InvalidRequest(f"a pattern has at most {PATTERN_LENGTH_MAX} characters")
        if not pattern.isprintable() or _compiled(pattern, "x", "x") is None:
            raise InvalidRequest(f"{pattern[:200]!r} is no pattern that RE2 takes")


@lru_cache(COMPILED_MAX)
def _compiled(pattern: str, user: str, vhost: str) -> _Pattern | None:
    # With the first topic permission: most clusters have none.
    import re2

    values = {b"username": user, b"vhost": vhost}

    def value_of(variable: re.Match[bytes]) -> bytes:
        value = values.get(variable[1])
        if value is None:
            return _NOTHING
        escaped: bytes = re2.escape(value.encode("utf-8", "surrogateescape"))
        # A group: a sign before or behind it concerns the whole of it, and escapes none of it.
        return b"(?:" + escaped + b")"

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY_BYTES_MAX
    expanded = _VARIABLE.sub(value_of, pattern.encode("utf-8", "surrogateescape"))
    try:
        found: _Pattern = re2.compile(expanded, options)
    except re2.error:
        return None
    return found
