"""What a queue of several partitions has, made of what each of them has."""

from __future__ import annotations

from typing import Any

from kafkaesque.broker.queues.counting import whole_counts
from kafkaesque.broker.requests.queue_requests import QueueCounts


def counts(**said: Any) -> QueueCounts:
    numbers = ("ready", "delayed", "in_flight", "parked", "moving", "consumers", "oldest_ms")
    more = ("floor", "end", "arrived", "log_start", "log_end", "log_bytes")
    known = {**dict.fromkeys((*numbers, *more), 0), "has_begun": True, "removed": {}, **said}
    return QueueCounts(**known)


def test_what_partitions_have_is_added() -> None:
    parts = [
        counts(
            ready=1, in_flight=2, log_bytes=10, consumers=3, removed={"settled": 4, "purged": 0}
        ),
        counts(
            ready=5, in_flight=0, log_bytes=30, consumers=2, removed={"settled": 6, "purged": 1}
        ),
    ]
    whole = whole_counts(parts)
    assert (whole.ready, whole.in_flight, whole.log_bytes) == (6, 2, 40)
    assert whole.removed == {"settled": 10, "purged": 1}
    assert whole.consumers == 3


def test_the_head_is_the_oldest_message_of_all() -> None:
    empty = counts(unwanted_ms=100, held_by="snapshot")
    young = counts(oldest_ms=9, newest_ms=9, head_place="ready", unwanted_ms=50)
    old = counts(oldest_ms=3, newest_ms=4, head_place="delayed", unwanted_ms=70, held_by="message")
    for parts in ([empty, young, old], [old, empty, young]):
        whole = whole_counts(parts)
        assert (whole.oldest_ms, whole.head_place, whole.held_by) == (3, "delayed", "message")
        assert (whole.newest_ms, whole.unwanted_ms) == (9, 50)


def test_one_that_fails_again_and_again_is_seen_behind_another_partition_s_head() -> None:
    parts = [counts(oldest_ms=1, head_failures=0), counts(oldest_ms=2, head_failures=12)]
    assert whole_counts(parts).head_failures == 12


def test_of_one_partition_it_is_what_that_has() -> None:
    one = counts(ready=1, read_to=7)
    assert whole_counts([one]) == one
