"""Which names a topic may have: Kafka's rules; and those of the brokers' own."""

import re
from collections.abc import Iterable

from kafkaesque.model.errors import InvalidTopic

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
#: Who has logged in, was refused something, and has changed what; see `AuditWriter`.
AUDIT_TOPIC = "__audit"
#: Schemas of records, and what new ones have to fit; see `SchemaLog`.
SCHEMAS_TOPIC = "__schemas"
#: The last retained message of each name; see `RetainedLog`.
RETAINED_TOPIC = "__retained"
#: Messages that several sessions of MQTT have, once for all of them; see `SessionMessages`.
SESSION_MESSAGES_TOPIC = "__session_messages"
#: Topics that the brokers make, and write to alone; and those of them that hold tables.
INTERNAL_TOPICS = (
    OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
    AUDIT_TOPIC,
    SCHEMAS_TOPIC,
    RETAINED_TOPIC,
    SESSION_MESSAGES_TOPIC,
)
TABLE_TOPICS = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)
#: Logs of queues have this and their id as names. They are no topics: no client sees them.
QUEUE_LOG_PREFIX = "__queue-"
#: The controllers' own log stands under this name, and is no topic.
METADATA_TOPIC = "__cluster_metadata"

TOPIC_NAME_LENGTH_MAX = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def is_internal(topic: str) -> bool:
    """Tell whether only brokers write to a topic, or to a log of this name."""
    return topic in INTERNAL_TOPICS or topic.startswith(QUEUE_LOG_PREFIX)


def check_topic_name(name: str) -> None:
    """Refuse what is no legal name.

    Raises:
        InvalidTopic: empty, too long, a dot or two, or with other characters than letters, digits,
            `.`, `_` and `-`; or a name for logs that are no topics.
    """
    if name in ("", ".", ".."):
        raise InvalidTopic(f"a topic cannot be called {name!r}")
    if len(name) > TOPIC_NAME_LENGTH_MAX:
        raise InvalidTopic(
            f"a topic's name has at most {TOPIC_NAME_LENGTH_MAX} characters, this has {len(name)}"
        )
    if not _LEGAL.fullmatch(name):
        raise InvalidTopic(
            f"topic name {name!r} has characters other than letters, digits, '.', '_' and '-'"
        )
    if name == METADATA_TOPIC:
        raise InvalidTopic(f"{METADATA_TOPIC} is the controllers' own log, not a topic")
    if name.startswith(QUEUE_LOG_PREFIX):
        raise InvalidTopic(f"names that begin with {QUEUE_LOG_PREFIX} belong to logs of queues")


def find_collision(name: str, existing: Iterable[str]) -> str | None:
    """Return a topic whose name differs only by `.` and `_`: metrics could not tell them apart."""
    folded = name.replace(".", "_")
    for other in existing:
        if other != name and other.replace(".", "_") == folded:
            return other
    return None
