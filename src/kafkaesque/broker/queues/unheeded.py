"""What a message asks of a queue that has no option for it: it would be put, and not heeded."""

from typing import Final

from kafkaesque.model.message_headers import GROUP, IDENTITY, PREFIX, PRIORITY
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.queues.policy import Policy

_BYTES_MAX: Final = 64 * 1024 * 1024
_MARK: Final = PREFIX.encode()


def unheeded(batch: bytes | bytearray, policy: Policy) -> str:
    """Return why messages of a batch are not to be put as they ask; empty if all is heeded."""
    if _MARK not in batch:
        return ""
    for record in decode_batch(batch, _BYTES_MAX):
        found = _unheeded(record, policy)
        if found:
            return found
    return ""


def _unheeded(record: Record, policy: Policy) -> str:
    said = {name: value for name, value in record.headers if value}
    if PRIORITY in said and said[PRIORITY] != b"0" and policy.priorities < 2:
        return _lacks("priorities", "max.priority")
    if GROUP in said and not policy.reads_groups:
        return _lacks("groups", "ordered.groups or fair.groups")
    if IDENTITY in said and not policy.deduplication_ms:
        return _lacks("ids of messages", "deduplication.ms")
    return ""


def _lacks(what: str, option: str) -> str:
    return f"this queue does not know {what}: set its option {option}, or put the message without"
