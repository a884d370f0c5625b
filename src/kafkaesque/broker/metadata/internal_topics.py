"""What the brokers' own topics are created with."""

from typing import Final

from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.features import LEVEL_WITH_ACCESS, METADATA
from kafkaesque.broker.options.encryption import ENCRYPTION, NONE
from kafkaesque.model.options import OptionValue

_DAY_MS: Final = 86_400_000
#: The largest message that sessions of MQTT have together.
SESSION_MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024
#: For what a record and its batch have beside the message.
_AROUND_BYTES: Final = 1024 * 1024
#: Of the topic that has them, whoever makes it.
SESSION_MESSAGES_CONFIGS: Final = {
    "cleanup.policy": "delete",
    # Twice as long as a session lives without its client. Nothing is kept for longer, though a
    # session may want it.
    "retention.ms": str(14 * _DAY_MS),
    "retention.bytes": "-1",
    # A whole segment is given up when nobody wants any of it (`SessionMessagesTrimming`).
    "segment.ms": "3600000",
    "segment.bytes": str(64 * 1024 * 1024),
    "max.message.bytes": str(SESSION_MESSAGE_BYTES_MAX + _AROUND_BYTES),
    # By the clock of the broker that gives up what is old, and not of any other.
    "message.timestamp.type": "LogAppendTime",
}


def sealing_of_internal_topics(chosen: OptionValue, state: ClusterState) -> dict[str, str]:
    """Return the topic option that has batches sealed, if `internal.topics.encryption` asks for it.

    None where a broker of an earlier release may be there: it could not open them.
    """
    if chosen == NONE or state.level(METADATA) < LEVEL_WITH_ACCESS:
        return {}
    return {ENCRYPTION: str(chosen)}
