"""RunTransaction: puts into queues, settlements and records of topics, all or none."""

from __future__ import annotations

from typing import Final

from kafkaesque.broker.metadata.queue_names import QueueName
from kafkaesque.broker.metadata.queue_planner import MESSAGE_BYTES_MAX
from kafkaesque.broker.requests.transaction_requests import (
    BYTES_MAX,
    ENTRIES_MAX,
    LOGS_MAX,
    TransactionOutcome,
    TransactionPart,
)
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.errors import code_of, message_of
from kafkaesque.gateway.kafka.queue_lookups import when_known
from kafkaesque.gateway.kafka.queue_parts import QueueParts
from kafkaesque.model.batch import check_batches
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.buffers import Buffer
from kafkaesque.model.errors import (
    InvalidRequest,
    OverBound,
    RequestRefused,
    TopicNotAuthorized,
    UnknownTopicOrPartition,
)
from kafkaesque.model.murmur2 import partition_for_key
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.protocols.kafka.messages.run_transaction_request import (
    RunTransactionRequest,
    TransactionQueue,
    TransactionTopic,
)
from kafkaesque.protocols.kafka.messages.run_transaction_response import RunTransactionResponse

#: By key, or, where a record has none, in turn.
ANY_PARTITION: Final = -1


def on_run(context: Context, call: Call) -> None:
    """Run a transaction; answered when its end is decided."""
    request: RunTransactionRequest = call.read()
    names = [QueueName(request.vhost, each.queue) for each in request.queues]
    when_known(context, call, names, RunTransactionResponse, lambda: _run(context, call, request))


def _run(context: Context, call: Call, request: RunTransactionRequest) -> None:
    def refuse(refusal: RequestRefused) -> None:
        call.answer(
            RunTransactionResponse(error_code=code_of(refusal), error_message=message_of(refusal))
        )

    def on_done(outcome: TransactionOutcome | RequestRefused) -> None:
        if isinstance(outcome, RequestRefused):
            refuse(outcome)
        else:
            answer = RunTransactionResponse(
                is_committed=outcome.is_committed, queues=queues.results(outcome.joined)
            )
            call.answer(answer)

    queues = QueueParts(context.doors.dice)
    try:
        parts = _parts_of(context, request, queues)
    except RequestRefused as refusal:
        refuse(refusal)
        return
    if parts:
        context.doors.transactions.run(parts, max(1, request.timeout_ms), on_done)
    else:
        call.answer(RunTransactionResponse(is_committed=True))


def _parts_of(
    context: Context, request: RunTransactionRequest, queues: QueueParts
) -> list[TransactionPart]:
    """Return what becomes of each log: first of those of queues, then of topics.

    Raises:
        RequestRefused: a queue or topic does not exist, or there is too much.
    """
    if len(request.queues) + len(request.topics) > LOGS_MAX:
        raise OverBound(f"a transaction has at most {LOGS_MAX} queues and topics")
    for asked in request.queues:
        _add_queue(context, request.vhost, asked, queues)
    parts = list(queues.parts)
    for topic in request.topics:
        parts += _topic_parts(context, topic)
    entries = sum(part.entry_count for part in parts)
    size = sum(len(part.records) for part in parts)
    if entries > ENTRIES_MAX or len(parts) > LOGS_MAX or size > BYTES_MAX:
        raise OverBound(
            f"a transaction has at most {ENTRIES_MAX:,} entries, {LOGS_MAX:,} logs and "
            f"{BYTES_MAX:,} bytes"
        )
    places = {(part.log_id, part.partition) for part in parts}
    if len(places) < len(parts):
        raise InvalidRequest("a transaction names each queue and each partition once")
    return parts


def _add_queue(context: Context, vhost: str, asked: TransactionQueue, queues: QueueParts) -> None:
    queue = context.doors.queues.find(QueueName(vhost, asked.queue))
    if not 0 <= asked.partition < len(queue.partitions):
        raise InvalidRequest(f"queue {queue.queue} has no partition {asked.partition}")
    if queue.home is not None:
        raise InvalidRequest(f"queue {queue.queue} is transient: it takes part in no transactions")
    queues.add(queue, asked, _checked(asked.records))


def _topic_parts(context: Context, asked: TransactionTopic) -> list[TransactionPart]:
    topic = context.doors.cluster.state.topics.get(asked.topic)
    if topic is None:
        raise UnknownTopicOrPartition(f"topic {asked.topic!r} does not exist")
    if topic.is_internal:
        raise TopicNotAuthorized(f"{asked.topic} is written by brokers only")
    count = len(topic.partitions)
    data = _checked(asked.records)
    if not data:
        return []
    if asked.partition != ANY_PARTITION:
        if not 0 <= asked.partition < count:
            raise UnknownTopicOrPartition(f"topic {asked.topic!r} has no {asked.partition}")
        return [TransactionPart(log_id=topic.topic_id, partition=asked.partition, records=data)]
    found: dict[int, list[Record]] = {}
    first = context.doors.dice.below(count)
    for number, record in enumerate(decode_batch(data, MESSAGE_BYTES_MAX)):
        key = record.key
        where = (first + number) % count if key is None else partition_for_key(key, count)
        records = found.setdefault(where, [])
        records.append(record._replace(offset=len(records)))
    return [
        TransactionPart(
            log_id=topic.topic_id, partition=number, records=bytes(encode_batch(records))
        )
        for number, records in sorted(found.items())
    ]


def _checked(records: Buffer | None) -> bytes:
    if not records:
        return b""
    # The leader checks it again, but its words do not say so well what is wrong.
    check_batches(records, MESSAGE_BYTES_MAX)
    return bytes(records)
