"""Records of aborted transactions are left out, those around them are not."""

from __future__ import annotations

from kafkaesque.model.batch import scan_batches
from kafkaesque.model.batch_encoder import (
    BatchOptions,
    EndMarker,
    MarkerType,
    encode_batch,
    encode_end_marker,
)
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.protocols.kafka.messages.fetch_response import AbortedTransaction
from kafkaesque.spark.partition_reader import AbortedFilter

ABORT, COMMIT = MarkerType.ABORT, MarkerType.COMMIT


def data(offset: int, producer_id: int, *, transactional: bool = True) -> bytes:
    options = BatchOptions(
        producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=transactional
    )
    value = b"%d at %d" % (producer_id, offset)
    return bytes(encode_batch([Record(offset, 1, None, value)], options))


def end(offset: int, producer_id: int, kind: MarkerType) -> bytes:
    marker = EndMarker(type=kind, coordinator_epoch=0)
    return bytes(
        encode_end_marker(
            marker, producer_id=producer_id, producer_epoch=0, timestamp_ms=1, base_offset=offset
        )
    )


def test_only_what_the_index_names_is_left_out() -> None:
    log = memoryview(
        data(0, 1)
        + data(1, 2)
        + end(2, 1, ABORT)
        + data(3, 1)
        + end(4, 2, COMMIT)
        + end(5, 1, COMMIT)
        + data(6, 2)
        + data(7, 1, transactional=False)
        + end(8, 2, ABORT)
        + data(9, 2)
    )
    # As brokers may give it: in any order.
    found = AbortedFilter([AbortedTransaction(2, 6), AbortedTransaction(1, 0)])
    kept = [
        decode_batch(log, 1000, at=batch.at)[0].value
        for batch in scan_batches(log).batches
        if not (found.is_aborted(batch, log) or batch.is_control)
    ]
    assert kept == [b"2 at 1", b"1 at 3", b"1 at 7", b"2 at 9"]
