"""The audit log's entries: chains of hashes, in which no entry can be changed, left out or moved.

Each process of a broker writes one chain. An entry is JSON with sorted keys; it names its broker,
its chain, its number in that, and the hash of the entry before, and is hashed as it is written. A
chain says nothing of entries that were cut off at its end: for that the newest hash has to be known
from elsewhere. So each chain names, in its checkpoints, how far the others were seen to have come.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import msgspec

from kafkaesque.model.errors import KafkaesqueError

#: What the first entry names as the hash before it.
GENESIS: Final = "0" * 64
#: Characters of a text in an event, most of which clients choose; and texts in its details.
TEXT_MAX: Final = 256
DETAILS_MAX: Final = 20
#: Stands where a text was cut off.
CUT: Final = "…"


class AuditKind(StrEnum):
    """What an entry is about."""

    LOG_IN = "log-in"
    REFUSAL = "refusal"
    CHANGE = "change"
    KEY = "key"
    #: The first entry of a chain, and the last one of a process that was stopped.
    BEGIN = "begin"
    END = "end"
    #: How far the other chains had come, as this one's broker has seen them.
    CHECKPOINT = "checkpoint"
    #: How many events had no room.
    DROPPED = "dropped"


#: The kinds that an operator chooses from.
EVENT_KINDS: Final = (AuditKind.LOG_IN, AuditKind.REFUSAL, AuditKind.CHANGE, AuditKind.KEY)


class DataChange(StrEnum):
    """Changes that are none of the metadata; whoever may do them can do many in a second."""

    DELETE_RECORDS = "delete-records"
    DELETE_GROUP = "delete-group"
    #: Outside of a group's members: by an administrator, or by a consumer that is in no group.
    COMMIT_OFFSETS = "commit-offsets"
    DELETE_OFFSETS = "delete-offsets"
    PURGE = "purge"
    REDRIVE = "redrive"
    UNPARK = "unpark"
    CLOSE_CONNECTION = "close-connection"
    #: By an administrator: of a transactional id, or what hangs in a partition.
    ABORT_TRANSACTION = "abort-transaction"
    #: In a partition, by an administrator's marker over Kafka.
    COMMIT_TRANSACTION = "commit-transaction"


class Outcome(StrEnum):
    """How it ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REFUSED = "refused"
    DONE = "done"
    #: Who was to do it went away, or did not answer in time: it may or may not be done.
    UNKNOWN = "unknown"


class ClientOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a client has come from."""

    host: str
    #: The name of the listener that it came by.
    listener: str


class AuditEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What has happened. It holds text and numbers alone, so that no secret gets in unnoticed."""

    #: Unix time; of the first, where several are counted.
    at_ms: int
    kind: AuditKind
    principal: str = ""
    host: str = ""
    #: The name of the listener that the client came by.
    listener: str = ""
    #: Of a log-in.
    mechanism: str = ""
    operation: str = ""
    resource_type: str = ""
    resource: str = ""
    outcome: Outcome | None = None
    #: Why, in words.
    because: str = ""
    count: int = 1
    #: When the last one was, where several are counted.
    until_ms: int = 0
    detail: dict[str, str] = msgspec.field(default_factory=dict)


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An event in its place in the chain."""

    broker: int
    #: Which process of the broker.
    chain: str
    number: int
    previous: str
    event: AuditEvent


class ChainBroken(KafkaesqueError):
    """An entry is not what was written, or not where it was; `number` is that of its place."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(f"entry {number}: {message}")
        self.number = number


_encoder = msgspec.json.Encoder(order="sorted")
_decoder = msgspec.json.Decoder(AuditEntry)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditChain:
    """How far a chain has come."""

    broker: int
    #: Which process of the broker.
    name: str
    #: Of the next entry.
    number: int = 0
    #: Of the newest entry.
    head: str = GENESIS

    def append(self, event: AuditEvent) -> tuple[bytes, "AuditChain"]:
        """Return the entry as it is to be written, and the chain after it.

        Raises:
            TypeError: something in the event is neither text nor a number.
        """
        entry = AuditEntry(
            broker=self.broker,
            chain=self.name,
            number=self.number,
            previous=self.head,
            event=event,
        )
        written = _encoder.encode(entry)
        return written, self._after(written)

    def follow(self, written: bytes) -> tuple[AuditEntry, "AuditChain"]:
        """Return an entry that was written, and the chain after it.

        Raises:
            ChainBroken: it is not the entry that comes next.
        """
        try:
            entry = read_entry(written)
        except ValueError as error:
            raise ChainBroken(self.number, str(error)) from None
        if (entry.broker, entry.chain) != (self.broker, self.name):
            raise ChainBroken(self.number, "is of another chain")
        if entry.number != self.number:
            raise ChainBroken(self.number, f"entry {entry.number} stands in its place")
        if entry.previous != self.head:
            raise ChainBroken(self.number, "does not follow from the entry before it")
        return entry, self._after(written)

    def _after(self, written: bytes) -> "AuditChain":
        return replace(self, number=self.number + 1, head=hash_of(written))


def read_entry(written: bytes) -> AuditEntry:
    """Return an entry that was written.

    Raises:
        ValueError: nobody who writes entries has written this.
    """
    try:
        entry = _decoder.decode(written)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise ValueError("cannot be read") from None
    if _encoder.encode(entry) != written:
        raise ValueError("is not written as entries are")
    return entry


def hash_of(written: bytes) -> str:
    """Return the hash by which the next entry names this one."""
    return hashlib.sha256(written).hexdigest()


def shortened(text: str) -> str:
    """Return a text that a client may have chosen, as it may stand in an event.

    A name that was no UTF-8 holds letters that none can be written with: they are told as escapes.
    """
    if not text.isascii():
        text = text[: TEXT_MAX + 1].encode(errors="backslashreplace").decode()
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - len(CUT)] + CUT


def numbered(texts: Iterable[str]) -> dict[str, str]:
    """Return texts as details; how many more there are, where not all have room."""
    found = list(texts)
    shown = found if len(found) <= DETAILS_MAX else found[: DETAILS_MAX - 1]
    detail = {str(number): text for number, text in enumerate(shown, 1)}
    if len(shown) < len(found):
        detail["more"] = str(len(found) - len(shown))
    return detail


def bounded(event: AuditEvent) -> AuditEvent:
    """Return an event whose texts are as short as they have to be."""
    detail = {
        shortened(name): shortened(text) for name, text in list(event.detail.items())[:DETAILS_MAX]
    }
    return msgspec.structs.replace(
        event,
        principal=shortened(event.principal),
        resource=shortened(event.resource),
        because=shortened(event.because),
        detail=detail,
    )
