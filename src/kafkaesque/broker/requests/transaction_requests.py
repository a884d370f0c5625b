"""Transactions that a broker runs for a client: puts, settlements and records, all or none."""

import msgspec

from kafkaesque.broker.peers.messages import PeerRequest
from kafkaesque.queues.requests import Claim

#: What one transaction has at most: logs, messages with claims, and bytes.
LOGS_MAX = 1_000
ENTRIES_MAX = 10_000
BYTES_MAX = 16 * 1024 * 1024


class TransactionPart(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of one log: a queue's, or a partition of a topic."""

    #: Of the queue's log, or of the topic.
    log_id: bytes
    partition: int = 0
    #: One batch, not compressed and of no producer; empty: none.
    records: bytes = b""
    #: Messages of a queue that are settled.
    claims: list[Claim] = []

    @property
    def entry_count(self) -> int:
        """How much it has of what `ENTRIES_MAX` counts, as far as can be said without reading."""
        return len(self.claims) + bool(self.records)


class RunTransaction(PeerRequest, frozen=True, tag="run-transaction", kw_only=True):
    """Asked of a coordinator's broker: run all of it, and answer when the end is decided."""

    #: Of the transactions' topic: whose leader is asked.
    coordinator: int
    parts: list[TransactionPart]
    timeout_ms: int


class JoinTransaction(PeerRequest, frozen=True, tag="join-transaction", kw_only=True):
    """Asked of a log's leader: append this in an open transaction. Answer: `JoinedTransaction`."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    part: TransactionPart
    timeout_ms: int


class JoinedTransaction(msgspec.Struct, frozen=True, array_like=True):
    """What stands in a log now, and holds if the transaction is committed."""

    #: Where each record is; of a duplicate, where its original is; -1: the queue is full.
    offsets: list[int]
    #: Claims that are not good any more; then nothing was appended.
    stale: list[Claim]


class TransactionOutcome(msgspec.Struct, frozen=True, array_like=True):
    """What became of a transaction: committed, or nothing was done."""

    #: For each part, in order.
    joined: list[JoinedTransaction]
    #: Whether it is committed; else some claims are stale, or a queue is full.
    is_committed: bool
