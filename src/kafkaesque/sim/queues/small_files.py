"""Queues' logs and snapshots as small as everything else in a simulated cluster."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kafkaesque.broker.metadata.queue_planner import LOG_CONFIGS
from kafkaesque.tables import replicated

_SEGMENT_BYTES: Final = "8192"
#: A snapshot follows so many bytes of decisions, and so many of records.
_SNAPSHOT_BYTES: Final = (1_500, 6_000, 256 * 1024)
_RECORD_BYTES: Final = (8_000, 20_000)
#: Or so many of batches, with as many times the size of the last one at least.
_BATCH_BYTES: Final = ((2_000, 4), (16 * 1024, 32))


@contextmanager
def small_files(seed: int) -> Iterator[None]:
    """Let queues that are made meanwhile give up segments, and snapshots come, within a run."""
    chance = random.Random(f"{seed}/small files")
    before = replicated.SNAPSHOT_BYTES, replicated.SNAPSHOT_RECORD_BYTES
    of_batches = replicated.SNAPSHOT_BATCH_BYTES, replicated.SNAPSHOT_FACTOR_OF_BATCHES
    segment_bytes = LOG_CONFIGS["segment.bytes"]
    replicated.SNAPSHOT_BYTES = chance.choice(_SNAPSHOT_BYTES)
    replicated.SNAPSHOT_RECORD_BYTES = chance.choice(_RECORD_BYTES)
    chosen = chance.choice(_BATCH_BYTES)
    replicated.SNAPSHOT_BATCH_BYTES, replicated.SNAPSHOT_FACTOR_OF_BATCHES = chosen
    LOG_CONFIGS["segment.bytes"] = _SEGMENT_BYTES
    try:
        yield
    finally:
        replicated.SNAPSHOT_BYTES, replicated.SNAPSHOT_RECORD_BYTES = before
        replicated.SNAPSHOT_BATCH_BYTES, replicated.SNAPSHOT_FACTOR_OF_BATCHES = of_batches
        LOG_CONFIGS["segment.bytes"] = segment_bytes
