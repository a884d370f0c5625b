"""What a pipeline's workers took, wrote and committed; and whether it was exactly once.

Every output says which input it comes of, so that outputs can be counted for each input. Every
committed offset says which transaction has committed it. Beside what `TransactionHistory` knows the
checker knows: *lost* (an input without an output), *doubled* (an input with several), *made up* (an
output without an input), and of *torn* that the offsets of a transaction count, and not its
outputs. The other way round its inputs are doubled.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from kafkaesque.sim.clients.findings import Findings
from kafkaesque.sim.clients.transaction_history import SimTransaction, TransactionHistory

_SEPARATOR: Final = b"|"


class Source(NamedTuple):
    """The input that an output comes of."""

    partition: int
    offset: int
    value: bytes


def transform(transaction: SimTransaction, source: Source, number: int) -> bytes:
    """Return the output of an input; `number` tells a transaction's outputs apart."""
    place = b"%d|%d" % (source.partition, source.offset)
    # `TransactionHistory` reads the order from what stands behind the last slash.
    return _SEPARATOR.join((str(transaction).encode(), place, source.value, b"/%d" % number))


def _read_output(value: bytes) -> tuple[str, Source]:
    """Return the transaction that an output says it is of, and its input."""
    name, partition, offset, source, _ = value.split(_SEPARATOR)
    return name.decode(), Source(int(partition), int(offset), source)


class PipelineHistory:
    """The clients' side of one pipeline."""

    def __init__(self, findings: Findings) -> None:
        self.transactions: Final = TransactionHistory(findings)
        self._findings: Final = findings
        #: Which transaction has committed an offset: by partition and offset, as far as was seen.
        self._committers: Final[dict[tuple[int, int], str]] = {}
        #: Transactions whose offsets the group did not take: their worker was none of its members.
        self.left_count = 0
        #: How often a worker was told that its transaction is over, or its id somebody else's.
        self.shut_out_count = 0
        self.crash_count = 0
        self.pause_count = 0

    def note_anomaly(self, what: str) -> None:
        """Something that must never be was seen."""
        self._findings.note(f"pipeline: {what}")

    def note_committed(self, partition: int, offset: int, transaction: str) -> None:
        """Somebody has read this committed offset, with the name of who has committed it."""
        self._committers[partition, offset] = transaction

    def check(self, inputs: Mapping[int, Mapping[int, bytes]]) -> None:
        """Compare with the input, once everything has been read: by partition and offset."""
        self.transactions.check()
        outputs = Counter[Source]()
        seen: set[str] = set()
        for _, value in self.transactions.read():
            name, source = _read_output(value)
            outputs[source] += 1
            seen.add(name)
        sources = {
            Source(partition, offset, value)
            for partition, records in inputs.items()
            for offset, value in records.items()
        }
        for source in sorted(sources):
            self._check_input(source, outputs[source])
        for source in sorted(outputs.keys() - sources):
            self.note_anomaly(f"made up: {_name(source)} is no input, and has an output")
        for (partition, offset), name in sorted(self._committers.items()):
            if name not in seen:
                self.note_anomaly(
                    f"torn: {name} has committed {partition}@{offset}, and its outputs are gone"
                )

    def _check_input(self, source: Source, count: int) -> None:
        if not count:
            self.note_anomaly(f"lost: {_name(source)} has no output")
        elif count > 1:
            self.note_anomaly(f"doubled: {_name(source)} has {count} outputs")


def _name(source: Source) -> str:
    return f"{source.value!r} at {source.partition}@{source.offset}"
