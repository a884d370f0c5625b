"""How many bytes of a log compaction gets through per second, on one core.

    .venv/bin/python -m bench.compaction [MiB of input]

A log whose keys are rewritten ten times over, in batches of 16 KiB and in segments of 256 MiB, is
written to a directory of its own and cleaned there, both passes together, without a limit on bytes
per second. The files are in the page cache; what is left is synced, as in a broker. The last column
counts processor time only, for machines that have other things to do.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import tempfile
import time

from kafkaesque.model import kernel
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.compression import Codec
from kafkaesque.model.records import Record
from kafkaesque.runtime.disk import RealDisk
from kafkaesque.storage.compaction_plan import (
    CleanState,
    CompactionOptions,
    CompactionPlan,
    SourceSegment,
    plan_compaction,
)
from kafkaesque.storage.compactor import CleanedGroup, compact
from kafkaesque.storage.key_table import read_keys

MIB = 1024 * 1024
INPUT_MIB = 1024
SEGMENT_BYTES = 256 * MIB
BATCH_BYTES = 16 * 1024
#: Of ten records of a key one is live.
LIVE_PART = 0.1
DIRECTORY = "bench-0"
RECORD_BYTES = (1000, 100)
CODECS = (Codec.NONE, Codec.LZ4)


def write_log(disk: RealDisk, size: int, record_bytes: int, codec: Codec) -> list[SourceSegment]:
    """Write segments that count `size` bytes of records before compression."""
    chance = random.Random(1)
    count = max(BATCH_BYTES // record_bytes, 1)
    keys = max(int(size / record_bytes * LIVE_PART), 1)
    values = [chance.randbytes(record_bytes // 2).hex().encode()[16:] for _ in range(64)]
    found: list[SourceSegment] = []
    offset, written = 0, 0
    disk.make_dir(DIRECTORY)
    while written < size:
        base, position = offset, 0
        file = disk.open(f"{DIRECTORY}/{base:020d}.log", create=True)
        begun = written
        while written < size and written - begun < SEGMENT_BYTES:
            records = [
                Record(offset + at, 1_700_000_000_000, b"%016d" % chance.randrange(keys), value)
                for at, value in enumerate(chance.choices(values, k=count))
            ]
            position += file.write_at(position, [encode_batch(records, BatchOptions(codec=codec))])
            offset += count
            written += count * record_bytes
        file.close()
        found.append(SourceSegment(base, offset, position, 0, 0))
    return found


def plan_all(segments: list[SourceSegment]) -> CompactionPlan:
    """Return a plan that cleans everything."""
    plan = plan_compaction(
        directory=DIRECTORY,
        segments=segments,
        state=CleanState(),
        limit_offset=segments[-1].end_offset,
        everywhere_offset=segments[-1].end_offset,
        held_offset=-1,
        now_ms=0,
        options=CompactionOptions(dirty_ratio_min=0.0, key_bytes_max=1 << 40),
    )
    if plan is None:
        raise RuntimeError("nothing is to be cleaned")
    return plan


def first_pass(disk: RealDisk, plan: CompactionPlan) -> float:
    """Make the first pass alone; return how many seconds it took."""
    begun = time.perf_counter()
    for _ in read_keys(disk, plan):
        pass
    return time.perf_counter() - begun


def both_passes(disk: RealDisk, plan: CompactionPlan) -> tuple[int, float, float]:
    """Make both passes; return the bytes that are left, and seconds by the clock and of work."""
    left = 0
    begun, cpu_begun = time.perf_counter(), time.process_time()
    for step in compact(disk, plan):
        if isinstance(step, CleanedGroup):
            left += step.replacement.new.size_bytes
    return left, time.perf_counter() - begun, time.process_time() - cpu_begun


def measure(size: int, record_bytes: int, codec: Codec) -> str:
    """Return one row of the table."""
    loop = asyncio.new_event_loop()
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIRECTORY")) as root:
        disk = RealDisk(root, loop)
        try:
            plan = plan_all(write_log(disk, size, record_bytes, codec))
            first_s = first_pass(disk, plan)
            left, both_s, cpu_s = both_passes(disk, plan)
        finally:
            disk.close()
            loop.close()
    # What a codec saves is not counted: records are what has to be looked at.
    return (
        f"| {record_bytes:,} B | {codec.name.lower()} | {plan.size_bytes / MIB:,.0f} MiB"
        f" | {left / MIB:,.0f} MiB | {size / first_s / 1e6:,.0f} | {size / both_s / 1e6:,.0f}"
        f" | {size / cpu_s / 1e6:,.0f} |"
    )


def main() -> None:
    """Measure and print a table."""
    size = int(sys.argv[1] if len(sys.argv) > 1 else INPUT_MIB) * MIB
    sys.stdout.write(
        f"{size / MIB:,.0f} MiB of records, {LIVE_PART:.0%} of them live, kernel {kernel.name}\n\n"
        "| record | codec | before | after | pass one, MB/s | both passes, MB/s | of work |\n"
        "|---|---|---|---|---|---|---|\n"
    )
    for record_bytes in RECORD_BYTES:
        for codec in CODECS:
            sys.stdout.write(measure(size, record_bytes, codec) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
