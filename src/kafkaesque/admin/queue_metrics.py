"""What `/metrics` says of queues: all that are led here together, and single ones."""

from collections.abc import Iterable

from kafkaesque.admin import metric_table as table
from kafkaesque.admin.census import QueueCensus
from kafkaesque.admin.exposition import Sheet
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.doors.queues import LedQueue
from kafkaesque.queues.decisions import Reason
from kafkaesque.queues.tally import Tally

#: Why messages become dead letters.
_DEADLY = (Reason.EXPIRED, Reason.TOO_LONG, Reason.REJECTED, Reason.ATTEMPTS)


def write_queues(sheet: Sheet, doors: Doors, census: QueueCensus) -> None:
    """Write what all queues have that are led here, and what they have done."""
    sheet.add(table.QUEUES, doors.queues.count)
    sheet.add(table.QUEUES_LED, census.led)
    sheet.add(table.QUEUES_LEADERLESS, census.leaderless)
    for place, count in census.messages.items():
        sheet.add(table.QUEUES_PLACES, count, place)
    sheet.add(table.QUEUES_BYTES, census.log_bytes)
    sheet.add(table.QUEUES_MEMORY, doors.queues.memory_bytes)
    _write_tally(sheet, doors.queues.tally)


def _write_tally(sheet: Sheet, tally: Tally) -> None:
    sheet.add(table.QUEUES_ARRIVED, tally.arrived)
    sheet.add(table.QUEUES_ATTEMPTS, tally.attempts)
    sheet.add(table.QUEUES_REDELIVERIES, tally.redeliveries)
    sheet.add(table.QUEUES_SETTLED, tally.removed[Reason.SETTLED])
    for reason in _DEADLY:
        sheet.add(table.QUEUES_DEAD_LETTERS, tally.dead_letters[reason], reason.name.lower())
        sheet.add(table.QUEUES_PARKED, tally.parked[reason], reason.name.lower())
    sheet.add(table.QUEUES_REDRIVEN, tally.dead_letters[Reason.REDRIVEN])
    for reason in (*_DEADLY, Reason.PURGED):
        sheet.add(table.QUEUES_DROPPED, tally.removed[reason], reason.name.lower())


def write_single_queues(sheet: Sheet, doors: Doors, found: Iterable[LedQueue]) -> None:
    """Write the numbers of single queues, each once."""
    wall_ms = doors.clock.wall_ms()
    for each in {(one.queue.topic_id, one.partition): one for one in found}.values():
        _write_single_queue(sheet, each, wall_ms)


def _write_single_queue(sheet: Sheet, found: LedQueue, wall_ms: int) -> None:
    counts, labels = found.counts, (*found.queue.queue, found.partition)
    sheet.add(table.QUEUE_READY, counts.ready, *labels)
    sheet.add(table.QUEUE_DELAYED, counts.delayed, *labels)
    sheet.add(table.QUEUE_IN_FLIGHT, counts.in_flight, *labels)
    sheet.add(table.QUEUE_PARKED, counts.parked, *labels)
    sheet.add(table.QUEUE_MOVING, counts.moving, *labels)
    sheet.add(table.QUEUE_CONSUMERS, counts.consumers, *labels)
    sheet.add(table.QUEUE_UNWANTED, counts.unwanted_ms / 1000, *labels)
    oldest_ms = wall_ms - counts.oldest_ms if counts.oldest_ms else 0
    sheet.add(table.QUEUE_OLDEST, max(0, oldest_ms) / 1000, *labels)
    sheet.add(table.QUEUE_HEAD_FAILURES, counts.head_failures, *labels)
    sheet.add(table.QUEUE_BYTES, counts.log_bytes, *labels)
    sheet.add(table.QUEUE_HOLDER, 1, *labels, counts.held_by)
    sheet.add(table.QUEUE_ARRIVED, counts.arrived, *labels)
    for reason, count in counts.removed.items():
        sheet.add(table.QUEUE_REMOVED, count, *labels, reason)
