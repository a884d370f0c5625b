"""How far the chains in the audit log have come, as this broker reads it for its checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from kafkaesque.access.audit import hash_of, read_entry
from kafkaesque.access.audit_verifier import Head, chain_name
from kafkaesque.broker.requests.commands import LATEST, FetchResult
from kafkaesque.model.batch import scan_batches
from kafkaesque.model.errors import OffsetOutOfRange, RequestRefused
from kafkaesque.model.ids import TopicPartition
from kafkaesque.model.records import decode_batch

#: Where nothing was read yet, the newest records are, and no others.
FIRST_RECORDS: Final = 1_000
#: Chains that are remembered; the one that was silent for longest is forgotten.
CHAINS_MAX: Final = 1_000
READ_BYTES: Final = 1024 * 1024
READ_MS_MAX: Final = 10_000
#: So many answers are read at a time; the rest is read for the next checkpoint.
ANSWERS_MAX: Final = 64
_BATCH_BYTES_MAX: Final = 64 * 1024 * 1024


class Fetch(Protocol):
    """`Forwarder.fetch`."""

    def __call__(
        self,
        where: TopicPartition,
        offset: int,
        bytes_max: int,
        timeout_ms: int,
        on_done: Callable[[FetchResult | RequestRefused], None],
    ) -> None:
        """Read committed batches."""


class AuditHeads:
    """Reads on from where it has stopped."""

    def __init__(self, where: TopicPartition, fetch: Fetch, report: Callable[[str], None]) -> None:
        self._where: Final = where
        self._fetch: Final = fetch
        self._report: Final = report
        self._position: int | None = None
        #: By the chains' names, the one that was silent for longest first.
        self.heads: Final[dict[str, Head]] = {}

    def read(self, on_done: Callable[[], None]) -> None:
        """Read what there is; `on_done` is called whatever comes of it."""
        self._step(ANSWERS_MAX, on_done)

    def _step(self, answers_left: int, on_done: Callable[[], None]) -> None:
        position = self._position

        def on_answer(outcome: FetchResult | RequestRefused) -> None:
            if isinstance(outcome, OffsetOutOfRange) and position is not None:
                self._position = None
                self._fetch(self._where, LATEST, 1, READ_MS_MAX, on_end)
            elif isinstance(outcome, RequestRefused):
                on_done()
            elif position is None:
                end = outcome.last_stable_offset
                self._position = max(outcome.log_start_offset, end - FIRST_RECORDS)
                self._step(answers_left, on_done)
            elif self._take(outcome) and answers_left > 0:
                self._step(answers_left - 1, on_done)
            else:
                on_done()

        def on_end(outcome: FetchResult | RequestRefused) -> None:
            if isinstance(outcome, FetchResult) and outcome.last_stable_offset < (position or 0):
                self._report(
                    f"the audit log ends at offset {outcome.last_stable_offset}, and was read up "
                    f"to {position} before: its end was cut off"
                )
            on_done()

        if position is None:
            self._fetch(self._where, LATEST, 1, READ_MS_MAX, on_answer)
        else:
            self._fetch(self._where, position, READ_BYTES, READ_MS_MAX, on_answer)

    def _take(self, result: FetchResult) -> bool:
        """Take what was read; False if that is nothing new."""
        position = self._position or 0
        data = memoryview(result.records)
        is_new = False
        for batch in scan_batches(data).batches:
            for record in decode_batch(data, _BATCH_BYTES_MAX, at=batch.at):
                if record.offset >= position and record.value is not None:
                    self._note(record.offset, record.value)
            if batch.next_offset > position:
                self._position = batch.next_offset
                is_new = True
        return is_new

    def _note(self, offset: int, written: bytes) -> None:
        try:
            entry = read_entry(written)
        except ValueError:
            return  # `audit verify` tells.
        name = chain_name(entry.broker, entry.chain)
        before = self.heads.pop(name, None)
        if before is None or entry.number > before.number:
            before = Head(number=entry.number, hash=hash_of(written), offset=offset)
        self.heads[name] = before
        if len(self.heads) > CHAINS_MAX:
            del self.heads[next(iter(self.heads))]
