"""The audit chain: whatever is done to an entry is found."""

from __future__ import annotations

import hashlib
import json

import pytest

from kafkaesque.access.audit import (
    GENESIS,
    OTHERS,
    SUMS_MAX,
    AccessSums,
    AuditChain,
    AuditEvent,
    ChainBroken,
    verify,
)
from kafkaesque.access.decisions import Judge
from kafkaesque.access.operations import Operation, ResourceType
from tests.unit.access.makers import ALICE, HOST, NOW_MS, rule, state_of

EVENTS = [
    AuditEvent(at_ms=NOW_MS + each, kind="change", principal=ALICE, detail={"b": "2", "a": "1"})
    for each in range(5)
]


def chain() -> tuple[list[bytes], AuditChain]:
    written, now = [], AuditChain()
    for event in EVENTS:
        entry, now = now.append(event)
        written.append(entry)
    return written, now


def test_entries_are_json_with_sorted_keys_and_the_hash_of_the_one_before() -> None:
    written, end = chain()
    assert written[0] == (
        b'{"event":{"at_ms":1700000000000,"detail":{"a":"1","b":"2"},"kind":"change",'
        b'"principal":"User:alice"},"number":0,"previous":"' + GENESIS.encode() + b'"}'
    )
    assert json.loads(written[1])["previous"] == hashlib.sha256(written[0]).hexdigest()
    assert end == AuditChain(number=5, head=hashlib.sha256(written[4]).hexdigest())
    assert verify(written) == end


def test_a_chain_is_verified_from_anywhere() -> None:
    written, end = chain()
    middle = verify(written[:3])
    assert verify(written[3:], middle) == end


def test_whatever_is_done_to_an_entry_is_found_there() -> None:
    written, _ = chain()
    changed = written[2].replace(b"alice", b"aiice")
    for tampered, number in (
        ([*written[:2], changed, *written[3:]], 3),
        ([*written[:2], *written[3:]], 2),
        ([written[1], written[0], *written[2:]], 0),
        ([*written[:2], written[1], *written[2:]], 2),
        ([*written[:2], b"{}", *written[2:]], 2),
        ([*written[:2], written[2].replace(b":2,", b": 2,"), *written[3:]], 2),
        (written[1:], 0),
    ):
        with pytest.raises(ChainBroken) as caught:
            verify(tampered)
        assert caught.value.number == number


def test_a_chain_that_was_cut_is_known_by_its_head_alone() -> None:
    written, end = chain()
    assert verify(written[:-1]).head != end.head


def test_access_to_data_is_counted_by_the_minute() -> None:
    judge = Judge(state_of(rule("allow", ALICE)))
    sums, read = AccessSums(), Operation.READ
    topic = ResourceType.TOPIC
    assert sums.take(NOW_MS) == ()
    for name in ("orders", "orders", "secret"):
        sums.count(ALICE, read, topic, name, judge.decide(ALICE, HOST, read, topic, name))
    assert sums.take(NOW_MS + 1) == ()
    events = sums.take(NOW_MS + 60_000)
    assert [(each.resource, each.outcome, each.count) for each in events] == [
        ("orders", "allowed", 2),
        ("secret", "refused", 1),
    ]
    assert sums.take(NOW_MS + 120_000) == ()


def test_what_is_too_much_for_a_minute_is_counted_together() -> None:
    judge = Judge(state_of())
    sums, read, topic = AccessSums(), Operation.READ, ResourceType.TOPIC
    refused = judge.decide(ALICE, HOST, read, topic, "x")
    for number in range(SUMS_MAX + 50):
        sums.count(ALICE, read, topic, f"topic-{number}", refused)
    events = sums.take(NOW_MS)
    assert len(events) == SUMS_MAX + 1
    assert (events[-1].principal, events[-1].resource, events[-1].count) == (OTHERS, OTHERS, 50)
    assert sum(each.count for each in events) == SUMS_MAX + 50
