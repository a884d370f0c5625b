"""What replicas of a compacted log are compared by."""

from typing import cast

import pytest

from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.model.batch_encoder import (
    BatchOptions,
    EndMarker,
    MarkerType,
    encode_batch,
    encode_end_marker,
)
from kafkaesque.model.records import Record
from kafkaesque.sim import agreement


def written(value: bytes, producer_id: int, offset: int) -> bytes:
    options = BatchOptions(
        producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True
    )
    return bytes(encode_batch([Record(offset, 0, b"key", value, ())], options))


def ended(kind: MarkerType, producer_id: int, offset: int) -> bytes:
    marker = EndMarker(type=kind, coordinator_epoch=0)
    return bytes(
        encode_end_marker(
            marker, producer_id=producer_id, producer_epoch=0, timestamp_ms=0, base_offset=offset
        )
    )


def test_what_was_aborted_is_in_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = written(b"kept", 1, 0) + ended(MarkerType.COMMIT, 1, 1)
    aborted = written(b"aborted", 1, 2) + written(b"open", 2, 3) + ended(MarkerType.ABORT, 1, 4)
    logs = {"whole": kept + aborted, "compacted": kept + written(b"open", 2, 3), "first": kept}
    monkeypatch.setattr(agreement, "read_committed", lambda name: logs[name])
    tables = {name: agreement.read_table(cast(Partition, name)) for name in logs}
    assert tables["whole"][b"key"][1] == b"open", "what is not decided counts"
    assert tables["whole"] == tables["compacted"] != tables["first"]
    logs["whole"] = kept + written(b"aborted", 1, 2) + ended(MarkerType.ABORT, 1, 4)
    assert agreement.read_table(cast(Partition, "whole")) == tables["first"]
