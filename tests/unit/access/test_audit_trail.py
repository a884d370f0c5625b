"""What waits for the audit log: counted where it repeats, and bounded whatever comes."""

from __future__ import annotations

import pytest

from kafkaesque.access.audit import (
    EVENT_KINDS,
    TEXT_MAX,
    AuditChain,
    AuditEvent,
    AuditKind,
    DataChange,
    Outcome,
    read_entry,
)
from kafkaesque.access.audit_trail import (
    COUNTED_EVENTS_MAX,
    DISTINCT_MAX,
    EVENTS_MAX,
    OTHERS,
    SUCCESSES_MAX,
    WINDOW_MS,
    AuditTrail,
)

WALL_MS = 1_700_000_000_000


def refusal(resource: str, principal: str = "User:app", at_ms: int = WALL_MS) -> AuditEvent:
    return AuditEvent(
        at_ms=at_ms,
        kind=AuditKind.REFUSAL,
        principal=principal,
        operation="read",
        resource_type="topic",
        resource=resource,
        outcome=Outcome.REFUSED,
        because="no rule allows it",
    )


def log_in(principal: str, outcome: Outcome, host: str = "10.0.0.1") -> AuditEvent:
    return AuditEvent(
        at_ms=WALL_MS, kind=AuditKind.LOG_IN, principal=principal, host=host, outcome=outcome
    )


def change(number: int) -> AuditEvent:
    return AuditEvent(at_ms=WALL_MS, kind=AuditKind.CHANGE, resource=str(number))


def trail(*kinds: AuditKind) -> AuditTrail:
    return AuditTrail(kinds or EVENT_KINDS)


def test_the_first_comes_at_once_and_those_like_it_as_one_when_their_minute_is_over() -> None:
    noting = trail()
    for number in range(5):
        noting.note(refusal("orders", at_ms=WALL_MS + number), 1_000 + number)
    assert noting.take(1_010, WALL_MS) == [refusal("orders")]
    assert noting.take(1_000 + WINDOW_MS - 1, WALL_MS) == []
    (summed,) = noting.take(1_000 + WINDOW_MS, WALL_MS)
    assert (summed.resource, summed.count) == ("orders", 4)
    assert (summed.at_ms, summed.until_ms) == (WALL_MS + 1, WALL_MS + 4)
    assert noting.take(1_000 + 2 * WINDOW_MS, WALL_MS) == []
    noting.note(refusal("orders"), 200_000)
    assert noting.take(200_000, WALL_MS) == [refusal("orders")]


def test_what_differs_is_not_counted_together() -> None:
    noting = trail()
    events = [
        refusal("orders"),
        refusal("salaries"),
        refusal("orders", principal="User:mia"),
        log_in("User:app", Outcome.FAILED),
        log_in("User:app", Outcome.SUCCEEDED),
        log_in("User:app", Outcome.FAILED, host="10.0.0.2"),
    ]
    for event in events:
        noting.note(event, 0)
    assert noting.take(0, WALL_MS) == events


def test_changes_and_keys_come_one_by_one() -> None:
    noting = trail()
    key = AuditEvent(at_ms=WALL_MS, kind=AuditKind.KEY, resource="orders")
    for _ in range(3):
        noting.note(change(1), 0)
        noting.note(key, 0)
    assert noting.take(0, WALL_MS) == [change(1), key] * 3


def test_only_what_is_wanted_is_kept() -> None:
    noting = trail(AuditKind.CHANGE)
    for event in (refusal("orders"), log_in("User:app", Outcome.FAILED), change(1)):
        noting.note(event, 0)
    assert noting.take(0, WALL_MS) == [change(1)]


def test_100_000_refusals_of_different_things_are_a_few_events() -> None:
    """Nobody fills a disk by asking for what is forbidden, whatever is asked for."""
    noting = trail()
    for number in range(100_000):
        noting.note(refusal(f"topic-{number}"), number // 100)
    events = noting.take(1_000, WALL_MS) + noting.take(WINDOW_MS, WALL_MS)
    assert len(events) == DISTINCT_MAX + 1
    assert sum(each.count for each in events) == 100_000
    assert (events[-1].principal, events[-1].resource) == ("User:app", OTHERS)
    assert noting.dropped == 0
    assert len(noting._repeats) == 0


def test_100_000_failures_of_different_users_and_addresses_hide_no_success() -> None:
    noting = trail()
    for number in range(100_000):
        host = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
        noting.note(log_in(f"User:u{number}", Outcome.FAILED, host), 0)
    noting.note(log_in("User:root", Outcome.SUCCEEDED), 0)
    events = noting.take(WINDOW_MS, WALL_MS)
    assert len(events) == 2 * DISTINCT_MAX + 2
    assert sum(each.count for each in events) == 100_001
    assert log_in("User:root", Outcome.SUCCEEDED) in events
    assert events[-1].principal == OTHERS


def test_many_users_log_in_with_their_names() -> None:
    noting = trail()
    for number in range(SUCCESSES_MAX):
        noting.note(log_in(f"User:u{number}", Outcome.SUCCEEDED), 0)
    names = {each.principal for each in noting.take(0, WALL_MS)}
    assert len(names) == SUCCESSES_MAX
    assert OTHERS not in names


def test_many_log_ins_hide_no_failure() -> None:
    noting = trail()
    for number in range(2 * DISTINCT_MAX):
        noting.note(log_in(f"User:u{number}", Outcome.SUCCEEDED), 0)
    noting.note(log_in("User:root", Outcome.FAILED), 0)
    assert log_in("User:root", Outcome.FAILED) in noting.take(0, WALL_MS)


def test_what_is_not_taken_is_dropped_and_counted_and_refusals_leave_room_for_changes() -> None:
    noting = trail()
    for minute in range(400):
        for number in range(DISTINCT_MAX):
            noting.note(refusal(f"topic-{minute}-{number}"), minute * WINDOW_MS)
        noting._end_window()  # Nobody takes anything: the partition has no leader.
    assert len(noting) == COUNTED_EVENTS_MAX
    for number in range(EVENTS_MAX):
        noting.note(change(number), 0)
    assert len(noting) == EVENTS_MAX
    assert noting.dropped == 400 * DISTINCT_MAX
    *_, told = noting.take(0, WALL_MS)
    assert told.kind is AuditKind.DROPPED
    assert told.count == noting.dropped
    assert told.detail == {"refusal": "12000", "change": "8000"}
    assert len(noting) == 0
    assert noting.take(0, WALL_MS) == []


def test_the_last_take_brings_what_is_counted() -> None:
    noting = trail()
    for _ in range(3):
        noting.note(refusal("orders"), 0)
    assert [each.count for each in noting.take(1, WALL_MS, is_last=True)] == [1, 2]


def of_data(operation: DataChange, resource: str, principal: str = "User:app") -> AuditEvent:
    return AuditEvent(
        at_ms=WALL_MS,
        kind=AuditKind.CHANGE,
        principal=principal,
        operation=operation,
        resource_type="group",
        resource=resource,
        outcome=Outcome.DONE,
        detail={"1": resource},
    )


def test_changes_of_data_are_counted_where_they_repeat() -> None:
    noting = trail()
    for _ in range(3):
        noting.note(of_data(DataChange.COMMIT_OFFSETS, "billing"), 0)
    assert noting.take(0, WALL_MS) == [of_data(DataChange.COMMIT_OFFSETS, "billing")]
    (summed,) = noting.take(WINDOW_MS, WALL_MS)
    assert (summed.operation, summed.resource, summed.count) == ("commit-offsets", "billing", 2)


def test_no_change_of_data_hides_behind_others() -> None:
    noting = trail()
    for number in range(3 * SUCCESSES_MAX):
        noting.note(of_data(DataChange.COMMIT_OFFSETS, str(number)), 0)
    noting.note(of_data(DataChange.DELETE_RECORDS, "orders"), 0)
    noting.note(change(1), 0)
    told = noting.take(0, WALL_MS)
    assert len(told) == SUCCESSES_MAX + 2
    assert [each.operation for each in told[-2:]] == ["delete-records", ""]
    (rest,) = noting.take(WINDOW_MS, WALL_MS)
    assert (rest.operation, rest.resource, rest.count) == (
        "commit-offsets",
        OTHERS,
        2 * SUCCESSES_MAX,
    )


def test_changes_of_data_leave_room_for_others() -> None:
    noting = trail()
    now_ms = 0
    while len(noting) < COUNTED_EVENTS_MAX:
        for number in range(SUCCESSES_MAX):
            noting.note(of_data(DataChange.PURGE, str(number)), now_ms)
        now_ms += 1
        noting._end_window()
    noting.note(of_data(DataChange.PURGE, "one more"), now_ms)
    noting.note(change(1), now_ms)
    told = noting.take(now_ms, WALL_MS)
    assert "one more" not in {each.resource for each in told}
    assert told[-2].resource == "1"
    assert told[-1].kind is AuditKind.DROPPED


@pytest.mark.parametrize("name", ["\udcff", "a\ud800b" * 100, "é" * 300])
def test_whatever_is_asked_for_can_be_written(name: str) -> None:
    """A name that is no UTF-8 was refused, and the refusal stopped the broker that wrote it."""
    noting = trail()
    noting.note(refusal(name, principal=f"User:{name}"), 0)
    (event,) = noting.take(0, WALL_MS)
    written, _ = AuditChain(broker=1, name="a").append(event)
    assert read_entry(written).event == event
    assert len(event.resource) <= TEXT_MAX
