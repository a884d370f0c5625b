"""Looks through an audit log for what was altered, removed, moved or cut off.

Theory of operation. Records come in the order of the log, from all brokers. Each chain is followed
by itself. After a fault the chain goes on with what is there, so that one fault is told once. What
is there twice, byte by byte, is no fault: whoever wrote it did not hear that it was written, and
wrote it again. The first entries of a chain may be missing only where the log's own first records
were deleted by their age.

What this cannot find: an altered newest entry of a chain, or entries cut off at its end, that no
checkpoint of another chain and no head from elsewhere names; an order between chains that no
checkpoint says; and a log that was written anew as a whole by somebody who could write to it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from kafkaesque.access.audit import GENESIS, AuditChain, AuditEntry, AuditKind, hash_of, read_entry

#: Hashes that are remembered of each chain, the newest.
HASHES_MAX: Final = 10_000
#: Faults that are told; what comes after them is counted.
FAULTS_MAX: Final = 1_000


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """How far a chain had come: its newest entry."""

    number: int
    hash: str
    #: Where it stands in the log.
    offset: int


def write_head(head: Head) -> str:
    """Return a head as it stands in a checkpoint."""
    return f"{head.number} {head.hash} {head.offset}"


def read_head(text: str) -> Head:
    """Return a head from a checkpoint.

    Raises:
        ValueError: it is none.
    """
    number, hashed, offset = text.split(" ")
    return Head(number=int(number), hash=hashed, offset=int(offset))


def chain_name(broker: int, chain: str) -> str:
    """Return what a chain is called in checkpoints, and as the key of its records."""
    return f"{broker}/{chain}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that is not as it was written."""

    #: The chain, as `chain_name` writes it; empty where that cannot be told.
    chain: str
    #: Of the entry within its chain; -1 where that cannot be told.
    number: int
    #: Where the entry stands, or should stand.
    offset: int
    problem: str


class _Chain:
    """One chain, as far as it has been followed."""

    __slots__ = ("ended", "hashes", "newest_offset", "now")

    def __init__(self, now: AuditChain) -> None:
        self.now = now
        self.hashes: dict[int, str] = {}
        self.newest_offset = -1
        self.ended = False

    def advance(self, entry: AuditEntry, hashed: str, offset: int) -> None:
        self.now = AuditChain(
            broker=entry.broker, name=entry.chain, number=entry.number + 1, head=hashed
        )
        self.hashes[entry.number] = hashed
        if len(self.hashes) > HASHES_MAX:
            del self.hashes[next(iter(self.hashes))]
        self.newest_offset = offset
        self.ended = entry.event.kind is AuditKind.END


class AuditVerifier:
    """Take all records in their order, then ask for what was found."""

    def __init__(self, log_start_offset: int) -> None:
        self._log_start: Final = log_start_offset
        self._next_offset = log_start_offset
        self._chains: Final[dict[str, _Chain]] = {}
        self.faults: Final[list[Fault]] = []
        #: All that were found, told or not.
        self.fault_count = 0
        self.entry_count = 0

    @property
    def heads(self) -> dict[str, Head]:
        """How far each chain has come; to be kept elsewhere, and compared another day."""
        return {
            name: Head(number=chain.now.number - 1, hash=chain.now.head, offset=chain.newest_offset)
            for name, chain in self._chains.items()
        }

    @property
    def unended(self) -> list[str]:
        """Chains without an end although their broker has begun another: it was killed, or cut."""
        newest: dict[int, str] = {}
        for name, chain in self._chains.items():
            newest[chain.now.broker] = name
        return [
            name
            for name, chain in self._chains.items()
            if not chain.ended and newest[chain.now.broker] != name
        ]

    def take(self, offset: int, key: bytes | None, written: bytes | None) -> AuditEntry | None:
        """Take the next record; return its entry, if it is one."""
        if offset != self._next_offset:
            self._find("", -1, self._next_offset, f"no records up to offset {offset}")
        self._next_offset = offset + 1
        self.entry_count += 1
        try:
            entry = read_entry(written or b"")
        except ValueError as error:
            self._find((key or b"").decode(errors="replace"), -1, offset, str(error))
            return None
        self._follow(entry, written or b"", offset)
        if entry.event.kind is AuditKind.CHECKPOINT:
            self._check_heads(entry, offset)
        return entry

    def check_against(self, known: Mapping[str, Head]) -> None:
        """Compare with the heads that somebody has kept elsewhere."""
        for name, head in known.items():
            self._check_head(name, head, "it was there when the heads were saved")

    def _find(self, chain: str, number: int, offset: int, problem: str) -> None:
        self.fault_count += 1
        if len(self.faults) < FAULTS_MAX:
            self.faults.append(Fault(chain=chain, number=number, offset=offset, problem=problem))

    def _follow(self, entry: AuditEntry, written: bytes, offset: int) -> None:
        name, number = chain_name(entry.broker, entry.chain), entry.number
        hashed = hash_of(written)
        chain = self._chains.get(name)
        if chain is None:
            chain = self._chains[name] = self._begin(entry, name, offset)
        now = chain.now
        if number < now.number:
            if chain.hashes.get(number) != hashed:
                problem = f"it stands after entry {now.number - 1}: it was moved, or is not genuine"
                self._find(name, number, offset, problem)
            return
        if number > now.number:
            missing = (
                f"entries up to {number - 1} are missing"
                if number - 1 > now.number
                else ("it is missing")
            )
            self._find(name, now.number, offset, f"{missing} before entry {number}")
        elif entry.previous != now.head:
            problem = f"it was altered: entry {number} follows one with another hash"
            self._find(name, number - 1, chain.newest_offset, problem)
        if chain.ended:
            self._find(name, number, offset, "it stands after the end of its chain")
        chain.advance(entry, hashed, offset)

    def _begin(self, entry: AuditEntry, name: str, offset: int) -> _Chain:
        begun = AuditChain(broker=entry.broker, name=entry.chain)
        is_first = entry.number == 0
        if is_first and (entry.previous != GENESIS or entry.event.kind is not AuditKind.BEGIN):
            self._find(name, 0, offset, "no chain begins like this")
        if not is_first and self._log_start > 0:
            # What was before it may have been deleted by its age.
            begun = AuditChain(
                broker=entry.broker, name=entry.chain, number=entry.number, head=entry.previous
            )
        elif is_first:
            begun = AuditChain(broker=entry.broker, name=entry.chain, head=entry.previous)
        return _Chain(begun)

    def _check_heads(self, entry: AuditEntry, offset: int) -> None:
        for name, text in entry.event.detail.items():
            try:
                head = read_head(text)
            except ValueError:
                self._find(name, -1, offset, "a checkpoint names a head that cannot be read")
                continue
            self._check_head(name, head, f"broker {entry.broker} saw it (offset {offset})")

    def _check_head(self, name: str, head: Head, who: str) -> None:
        chain = self._chains.get(name)
        if head.offset < self._log_start and (chain is None or head.number not in chain.hashes):
            return
        if chain is None or chain.now.number <= head.number:
            self._find(name, head.number, head.offset, f"it is missing: {who}")
            return
        hashed = chain.hashes.get(head.number)
        if hashed is not None and hashed != head.hash:
            self._find(name, head.number, head.offset, f"it was altered: {who} with another hash")
