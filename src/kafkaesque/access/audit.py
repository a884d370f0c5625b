"""The audit log's entries: a chain of hashes, in which no entry can be changed, left out or moved.

Each entry is JSON with sorted keys, names its number and the hash of the one before, and is hashed
as it is written. A chain says nothing of entries that were cut off at its end: for that the newest
hash has to be known from elsewhere.

Access to data is not written call by call: `AccessSums` counts it, for each minute.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from kafkaesque.access.decisions import Decision
from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.access.principals import Principal
from kafkaesque.model.errors import KafkaesqueError

#: What the first entry names as the hash before it.
GENESIS: Final = "0" * 64
#: Different things that one minute counts; the rest is counted together.
SUMS_MAX: Final = 1_000
MINUTE_MS: Final = 60_000
#: Stands for the principal and the name of what was counted together.
OTHERS: Final = "(others)"


class AuditEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What has happened. It holds text and numbers alone, so that no secret gets in unnoticed."""

    #: Unix time.
    at_ms: int
    #: `log-in`, `refusal`, `change`, `key`, `sum`.
    kind: str
    principal: str = ""
    host: str = ""
    operation: str = ""
    resource_type: str = ""
    resource: str = ""
    outcome: str = ""
    #: Why, in words: `Decision.because`, `FailureReason`.
    because: str = ""
    count: int = 1
    detail: dict[str, str] = msgspec.field(default_factory=dict)


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An event in its place in the chain."""

    number: int
    previous: str
    event: AuditEvent


class ChainBroken(KafkaesqueError):
    """An entry is not what was written, or not where it was; `number` is that of its place."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(f"audit entry {number}: {message}")
        self.number = number


_encoder = msgspec.json.Encoder(order="sorted")
_decoder = msgspec.json.Decoder(AuditEntry)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditChain:
    """How far a chain has come."""

    #: Of the next entry.
    number: int = 0
    #: Of the newest entry.
    head: str = GENESIS

    def append(self, event: AuditEvent) -> tuple[bytes, "AuditChain"]:
        """Return the entry as it is to be written, and the chain after it.

        Raises:
            TypeError: something in the event is neither text nor a number.
        """
        entry = AuditEntry(number=self.number, previous=self.head, event=event)
        written = _encoder.encode(entry)
        return written, AuditChain(number=self.number + 1, head=_hash(written))

    def follow(self, written: bytes) -> tuple[AuditEntry, "AuditChain"]:
        """Return an entry that was written, and the chain after it.

        Raises:
            ChainBroken: it is not the entry that comes next.
        """
        try:
            entry = _decoder.decode(written)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise ChainBroken(self.number, "cannot be read") from None
        if entry.number != self.number:
            raise ChainBroken(self.number, f"entry {entry.number} stands in its place")
        if entry.previous != self.head:
            raise ChainBroken(self.number, "does not follow from the entry before it")
        if _encoder.encode(entry) != written:
            raise ChainBroken(self.number, "is not written as entries are")
        return entry, AuditChain(number=self.number + 1, head=_hash(written))


def verify(entries: Iterable[bytes], start: AuditChain = AuditChain()) -> AuditChain:
    """Return the chain after these entries; its head is to be compared with what is known of it.

    Raises:
        ChainBroken: at the first entry that does not fit.
    """
    chain = start
    for written in entries:
        _, chain = chain.follow(written)
    return chain


def _hash(written: bytes) -> str:
    return hashlib.sha256(written).hexdigest()


#: Who, what, on which type, which resource, whether it was allowed.
_Counted = tuple[str, str, str, str, bool]


class AccessSums:
    """How often whom was allowed or refused what, in the current minute."""

    __slots__ = ("_counts", "_minute")

    def __init__(self) -> None:
        self._minute = 0
        self._counts: dict[_Counted, int] = {}

    def count(
        self,
        principal: Principal,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        decision: Decision,
    ) -> None:
        """Count one decision."""
        kind, allowed = (operation.name, resource_type.name), decision.allowed
        key: _Counted = (principal, *kind, name, allowed)
        if key not in self._counts and len(self._counts) >= SUMS_MAX:
            key = (OTHERS, *kind, OTHERS, allowed)
        self._counts[key] = self._counts.get(key, 0) + 1

    def take(self, now_ms: int) -> tuple[AuditEvent, ...]:
        """Return the sums of the minute that is over and begin another; none while it goes on."""
        minute = now_ms // MINUTE_MS
        if minute == self._minute or not self._counts:
            self._minute = minute
            return ()
        counts, self._counts, self._minute = self._counts, {}, minute
        return tuple(
            AuditEvent(
                at_ms=now_ms,
                kind="sum",
                principal=key[0],
                operation=key[1],
                resource_type=key[2],
                resource=key[3],
                outcome="allowed" if key[4] else "refused",
                count=number,
            )
            for key, number in counts.items()
        )
