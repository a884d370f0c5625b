"""How fast both record kernels check, decode and encode: `python -m bench.records`.

Rough figures for whoever changes a kernel, one core, best of several rounds; nothing to publish.
"""

from collections.abc import Callable
from functools import partial
from time import perf_counter

from kafkaesque.model.batch import assign_offsets, check_batches, scan_batches
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.compression import Codec
from kafkaesque.model.kernel import load_kernel, use_kernel
from kafkaesque.model.records import Record, decode_batch, decode_columns, gather_values

RECORD_COUNT = 1_000
VALUE_BYTES = 100
NOW_MS = 1_700_000_000_000
ROUND_SECONDS = 0.05
ROUNDS = 5
PLENTY = 1 << 24


def seconds_per_call(call: Callable[[], object]) -> float:
    """Return the best round's time for one call."""
    best = float("inf")
    for _ in range(ROUNDS):
        count, began = 0, perf_counter()
        while perf_counter() - began < ROUND_SECONDS:
            call()
            count += 1
        best = min(best, (perf_counter() - began) / count)
    return best


def measure(name: str) -> None:
    """Print one kernel's figures."""
    records = [
        Record(row, NOW_MS + row, b"key-%d" % row, bytes([row % 251]) * VALUE_BYTES)
        for row in range(RECORD_COUNT)
    ]
    batch, one = encode_batch(records), encode_batch(records[:1])
    columns = decode_columns(batch, PLENTY)
    calls: dict[str, Callable[[], object]] = {
        "check, records walked": lambda: check_batches(batch, PLENTY),
        "scan, checksum only": lambda: scan_batches(batch),
        "decode to columns": lambda: decode_columns(batch, PLENTY),
        "gather values for Arrow": lambda: gather_values(columns),
        "decode to Records": lambda: decode_batch(batch, PLENTY),
        "encode": lambda: encode_batch(records),
    }
    print(f"{name}: {RECORD_COUNT} records of {VALUE_BYTES} bytes, {len(batch)} bytes in all")
    for what, call in calls.items():
        seconds = seconds_per_call(call)
        rate = RECORD_COUNT / seconds / 1e6
        print(f"  {what:<26}{rate:9.2f} M records/s{len(batch) / seconds / 1e6:10.0f} MB/s")
    singles: dict[str, Callable[[], object]] = {
        "check a batch of one": lambda: check_batches(one, PLENTY),
        "assign offsets": lambda: assign_offsets(one, 0, 5, 5),
    }
    for what, call in singles.items():
        print(f"  {what:<26}{seconds_per_call(call) * 1e6:9.2f} µs")


def measure_codecs() -> None:
    """Print what decompression leaves of that."""
    records = [
        Record(row, NOW_MS + row, b"key-%d" % row, (b"%d " % (row * 7919)) * 14)
        for row in range(RECORD_COUNT)
    ]
    print("codecs, compiled where it can be: encode, check with walk")
    for codec in Codec:
        options = BatchOptions(codec=codec)
        batch = encode_batch(records, options)
        encoding = seconds_per_call(partial(encode_batch, records, options))
        checking = seconds_per_call(
            partial(check_batches, batch, PLENTY, decompressed_bytes_max=PLENTY)
        )
        print(
            f"  {codec.name.lower():<8}{len(batch):8d} bytes"
            f"{RECORD_COUNT / encoding / 1e6:9.2f}{RECORD_COUNT / checking / 1e6:9.2f} M records/s"
        )


def main() -> None:
    """Measure whatever kernels are there."""
    for name in ("compiled", "python"):
        try:
            load_kernel(name)
        except ImportError:
            print(f"{name}: not built")
            continue
        with use_kernel(name):
            measure(name)
    measure_codecs()


if __name__ == "__main__":
    main()
