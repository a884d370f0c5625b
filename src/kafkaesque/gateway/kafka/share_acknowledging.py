"""What becomes of records that a member has: accepted, released, rejected, or kept for longer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.options.groups import ShareSettings
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.gateway.kafka.errors import code_of
from kafkaesque.gateway.kafka.share_partitions import TIMEOUT_MS, SharePartition
from kafkaesque.model.errors import RequestRefused
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.queues.requests import Claim

#: Offsets that one partition's acknowledgements may name.
OFFSETS_MAX = 100_000


class Acknowledge(IntEnum):
    """Kafka's types of acknowledgements."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class BadAcknowledgement(Exception):
    """The batches of acknowledgements are not what they have to be."""


def read_acknowledgements(batches: Sequence[Any], *, may_renew: bool) -> dict[int, Acknowledge]:
    """Return what becomes of each offset.

    Raises:
        BadAcknowledgement: an unknown type, offsets that do not rise, or another number of types.
    """
    found: dict[int, Acknowledge] = {}
    end = -1
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if not end < first <= last or last - first >= OFFSETS_MAX - len(found):
            raise BadAcknowledgement
        if len(types) not in (1, last - first + 1):
            raise BadAcknowledgement
        try:
            kinds = [Acknowledge(each) for each in types]
        except ValueError:
            raise BadAcknowledgement from None
        if Acknowledge.RENEW in kinds and not may_renew:
            raise BadAcknowledgement
        for at, offset in enumerate(range(first, last + 1)):
            found[offset] = kinds[0] if len(kinds) == 1 else kinds[at]
        end = last
    return found


def acknowledge(
    doors: Doors,
    partition: SharePartition,
    wanted: dict[int, Acknowledge],
    settings: ShareSettings,
    on_done: Callable[[ErrorCode], None],
) -> None:
    """Say what becomes of records; `on_done` when that is committed."""
    claims: dict[Acknowledge, list[Claim]] = {}
    code = ErrorCode.NONE
    for offset, kind in wanted.items():
        is_kept = kind is Acknowledge.RENEW
        acquired = partition.acquired
        attempt = acquired.get(offset) if is_kept else acquired.pop(offset, None)
        if attempt is not None:
            _extend(claims.setdefault(kind, []), offset, attempt)
        elif kind is not Acknowledge.GAP:
            code = ErrorCode.INVALID_RECORD_STATE
    requests = [_request(partition, kind, each, settings) for kind, each in claims.items()]
    left = len(requests) + 1
    partition.settling += 1

    def count_down(outcome: q.ClaimsResult | RequestRefused | None) -> None:
        nonlocal left, code
        left -= 1
        if isinstance(outcome, RequestRefused):
            code = code_of(outcome)
        elif outcome is not None and outcome.stale and code is ErrorCode.NONE:
            code = ErrorCode.INVALID_RECORD_STATE
        if not left:
            partition.on_settled()
            on_done(code)

    for request in requests:
        doors.queues.ask(request, q.ClaimsResult, TIMEOUT_MS, count_down)
    count_down(None)


def _extend(claims: list[Claim], offset: int, attempt: int) -> None:
    if claims and claims[-1].end == offset and claims[-1].attempt == attempt:
        claims[-1] = Claim(claims[-1].first, offset + 1, attempt)
    else:
        claims.append(Claim(offset, offset + 1, attempt))


def _request(
    partition: SharePartition, kind: Acknowledge, claims: list[Claim], settings: ShareSettings
) -> q.AnyQueueRequest:
    log_id, number = partition.log_id, partition.number
    match kind:
        case Acknowledge.RELEASE:
            return q.ReleaseMessages(log_id=log_id, partition=number, claims=claims, is_failed=True)
        case Acknowledge.REJECT:
            return q.RejectMessages(log_id=log_id, partition=number, claims=claims)
        case Acknowledge.RENEW:
            return q.ExtendLocks(
                log_id=log_id, partition=number, claims=claims, lock_ms=settings.lock_ms
            )
        case _:
            return q.SettleMessages(log_id=log_id, partition=number, claims=claims)
