"""What a transaction does to queues, by the logs that it does it in.

A queue of one partition is one log, and its entry one part. In a queue of several, an entry names
the partition of what it settles; what it puts goes where messages of their groups and ids go, and
all others to one partition.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.queues.whole_numbers import shares_of, whole_number
from kafkaesque.broker.requests.transaction_requests import JoinedTransaction, TransactionPart
from kafkaesque.env.dice import Dice
from kafkaesque.model.batch import read_batch_header
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.errors import InvalidRequest
from kafkaesque.model.ids import TopicId
from kafkaesque.protocols.kafka.messages.run_transaction_request import TransactionQueue
from kafkaesque.protocols.kafka.messages.run_transaction_response import (
    StaleTransactionClaim,
    TransactionQueueResult,
)
from kafkaesque.queues.requests import Claim

_Place = tuple[TopicId, int]


@dataclass(slots=True)
class _Entry:
    """In which parts an entry's claims and messages are."""

    claims_in: int | None
    #: By part: which of the entry's messages it has, and in which partition.
    puts: dict[int, tuple[int, list[int]]] = field(default_factory=dict)


class QueueParts:
    """See the module; `parts` are in the order in which they are to be asked for."""

    __slots__ = ("_dice", "_entries", "_named", "_numbers", "_puts", "parts")

    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        self._entries: list[_Entry] = []
        self._named: set[_Place] = set()
        self._numbers: dict[_Place, int] = {}
        self._puts: set[TopicId] = set()
        self.parts: Final[list[TransactionPart]] = []

    def add(self, queue: QueueState, asked: TransactionQueue, records: bytes) -> None:
        """Add what is asked of a queue's partition.

        Raises:
            RequestRefused: it is named twice, or the records are damaged.
        """
        place = queue.topic_id, asked.partition
        if place in self._named:
            raise InvalidRequest("a transaction names each queue and each partition once")
        self._named.add(place)
        claims = [Claim(each.first_offset, each.end_offset, each.attempt) for each in asked.claims]
        entry = _Entry(self._note(place, claims, b"") if claims else None)
        self._entries.append(entry)
        if not records:
            return
        if queue.topic_id in self._puts:
            raise InvalidRequest(f"a transaction has one batch for queue {queue.queue}")
        self._puts.add(queue.topic_id)
        count = len(queue.partitions)
        is_spread = count > 1 and queue.source is None
        otherwise = self._dice.below(count) if is_spread else asked.partition
        shares = shares_of(records, count, otherwise) if is_spread else {}
        if len(shares) <= 1:
            number = next(iter(shares), otherwise)
            places = list(range(read_batch_header(records).record_count))
            entry.puts[self._note((queue.topic_id, number), [], records)] = number, places
            return
        for number, share in shares.items():
            batch = bytes(encode_batch(share.records))
            part = self._note((queue.topic_id, number), [], batch)
            entry.puts[part] = number, list(share.places)

    def _note(self, place: _Place, claims: list[Claim], records: bytes) -> int:
        """Return the number of a place's part, which has this, too, now."""
        number = self._numbers.get(place)
        if number is None:
            number = self._numbers[place] = len(self.parts)
            self.parts.append(TransactionPart(log_id=place[0], partition=place[1]))
        part = self.parts[number]
        self.parts[number] = replace(
            part, claims=[*part.claims, *claims], records=records or part.records
        )
        return number

    def results(self, joined: list[JoinedTransaction]) -> list[TransactionQueueResult]:
        """Return what has become of each entry; messages have their numbers in the whole queue."""
        return [
            TransactionQueueResult(
                offsets=_offsets(entry, joined),
                stale=[]
                if entry.claims_in is None
                else [StaleTransactionClaim(*each) for each in joined[entry.claims_in].stale],
            )
            for entry in self._entries
        ]


def _offsets(entry: _Entry, joined: list[JoinedTransaction]) -> list[int]:
    found: dict[int, int] = {}
    for part, (number, places) in entry.puts.items():
        # There are none where claims are stale.
        for place, offset in zip(places, joined[part].offsets, strict=False):
            found[place] = offset if offset < 0 else whole_number(number, offset)
    return [found[place] for place in sorted(found)]
