"""Whether what follows a group's committed offsets is anything that a consumer gets."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from kafkaesque.admin.api.calls import Call
from kafkaesque.admin.api.part_pages import GroupAnswer
from kafkaesque.admin.api.why_inquiry import Inquiry
from kafkaesque.admin.api.why_links import Placed
from kafkaesque.admin.api.why_reader_links import lagging_partitions
from kafkaesque.broker.requests.commands import FetchResult
from kafkaesque.model.batch import scan_batches
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import TopicPartition
from kafkaesque.transactions.committed_filter import CommittedFilter

#: So many partitions are looked into, those with the shortest tails.
TAILS_MAX: Final = 64
TAIL_BYTES_MAX: Final = 16 * 1024


def is_empty_tail(result: FetchResult, start: int, end: int) -> bool:
    """Tell whether nothing from `start` to `end` is given to consumers of what is committed.

    Ends of transactions and aborted records are not. False, too, if not all of it was read.
    """
    committed, reached = CommittedFilter(result.aborted), start
    for batch in scan_batches(memoryview(result.records)).batches:
        is_shown = committed.is_shown(batch) and batch.record_count > 0
        if batch.next_offset > start:
            if is_shown:
                return False
            reached = batch.next_offset
    return reached >= end


class Tails:
    """Looks behind what a group has committed."""

    def __init__(self, inquiry: Inquiry, call: Call[Any, Any]) -> None:
        self._inquiry = inquiry
        self._call = call

    def cut(
        self,
        answer: GroupAnswer,
        placed: Sequence[Placed],
        on_cut: Callable[[Sequence[Placed]], None],
    ) -> None:
        """Go on with partitions that end where nothing more comes that consumers are given."""
        behind = sorted(lagging_partitions(answer, placed, None), key=lambda each: each[0])
        found = {
            TopicPartition(each.topic, each.partition): (position, each.led.high_watermark)
            for _, position, each in behind
            if each.led is not None and position < each.led.stable_offset
        }
        tails = dict(list(found.items())[:TAILS_MAX])
        ends: dict[TopicPartition, int] = {}
        left = len(tails)
        if not left:
            on_cut(placed)
            return

        def on_read(where: TopicPartition, outcome: FetchResult | RequestRefused) -> None:
            nonlocal left
            left -= 1
            position, end = tails[where]
            if not isinstance(outcome, RequestRefused) and is_empty_tail(outcome, position, end):
                ends[where] = position
            if not left:
                on_cut([_cut(each, ends) for each in placed])

        fetch, left_ms = self._inquiry.context.doors.reading.fetch, self._inquiry.left_ms()
        for where, (position, _) in tails.items():
            on_done = self._call.later(lambda outcome, where=where: on_read(where, outcome))
            fetch(where, position, TAIL_BYTES_MAX, left_ms, on_done)


def _cut(placed: Placed, ends: Mapping[TopicPartition, int]) -> Placed:
    end = ends.get(TopicPartition(placed.topic, placed.partition))
    if end is None or placed.led is None:
        return placed
    return replace(placed, led=msgspec.structs.replace(placed.led, high_watermark=end))
