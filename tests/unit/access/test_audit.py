"""Audit chains: whatever is done to an entry is found, and named."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import pytest

from kafkaesque.access.audit import (
    DETAILS_MAX,
    GENESIS,
    TEXT_MAX,
    AuditChain,
    AuditEvent,
    AuditKind,
    ChainBroken,
    bounded,
    hash_of,
)
from kafkaesque.access.audit_verifier import AuditVerifier, Head, chain_name, write_head
from tests.unit.access.makers import ALICE, NOW_MS

BEGIN = AuditEvent(at_ms=NOW_MS, kind=AuditKind.BEGIN)
CHANGES = [
    AuditEvent(
        at_ms=NOW_MS + each, kind=AuditKind.CHANGE, principal=ALICE, detail={"b": "2", "a": "1"}
    )
    for each in range(1, 6)
]
END = AuditEvent(at_ms=NOW_MS, kind=AuditKind.END)
#: What a test calls the chains of broker 1 and 2.
ONE, TWO = "1/a", "2/b"


def written(
    events: Sequence[AuditEvent] = (BEGIN, *CHANGES), broker: int = 1, name: str = "a"
) -> list[bytes]:
    entries, chain = [], AuditChain(broker=broker, name=name)
    for event in events:
        entry, chain = chain.append(event)
        entries.append(entry)
    return entries


def looked_through(entries: Sequence[bytes], start: int = 0) -> AuditVerifier:
    verifier = AuditVerifier(start)
    for offset, entry in enumerate(entries, start):
        verifier.take(offset, b"key", entry)
    return verifier


def faults(entries: Sequence[bytes], start: int = 0) -> list[tuple[str, int, str]]:
    """The chain, the number and the first words of each fault."""
    found = looked_through(entries, start).faults
    return [(each.chain, each.number, each.problem.partition(":")[0]) for each in found]


def checkpoint(**heads: tuple[int, bytes, int]) -> AuditEvent:
    detail = {
        {"one": ONE, "two": TWO}[name]: write_head(
            Head(number=number, hash=hash_of(entry), offset=offset)
        )
        for name, (number, entry, offset) in heads.items()
    }
    return AuditEvent(at_ms=NOW_MS, kind=AuditKind.CHECKPOINT, detail=detail)


def test_entries_are_json_with_sorted_keys_and_the_hash_of_the_one_before() -> None:
    entries = written()
    assert entries[0] == (
        b'{"broker":1,"chain":"a","event":{"at_ms":1700000000000,"kind":"begin"},"number":0,'
        b'"previous":"' + GENESIS.encode() + b'"}'
    )
    assert json.loads(entries[1])["previous"] == hashlib.sha256(entries[0]).hexdigest()


def test_a_chain_is_followed_entry_by_entry() -> None:
    entries, chain = written(), AuditChain(broker=1, name="a")
    for entry in entries:
        _, chain = chain.follow(entry)
    assert (chain.number, chain.head) == (6, hash_of(entries[-1]))
    with pytest.raises(ChainBroken):
        chain.follow(written(broker=2)[0])


def test_an_untouched_log_of_two_brokers_has_no_fault() -> None:
    one, two = written(), written(broker=2, name="b")
    mixed = [each for pair in zip(one, two, strict=True) for each in pair]
    verifier = looked_through(mixed)
    assert verifier.faults == []
    assert verifier.heads[TWO] == Head(number=5, hash=hash_of(two[-1]), offset=11)


def test_a_changed_byte_is_found_at_its_entry() -> None:
    entries = written()
    entries[2] = entries[2].replace(b"alice", b"aiice")
    assert faults(entries) == [(ONE, 2, "it was altered")]


def test_a_removed_entry_is_found() -> None:
    entries = written()
    assert faults([*entries[:2], *entries[3:]]) == [(ONE, 2, "it is missing before entry 3")]
    assert faults([*entries[:2], *entries[4:]]) == [
        (ONE, 2, "entries up to 3 are missing before entry 4")
    ]


def test_two_entries_that_were_swapped_are_found() -> None:
    entries = written()
    entries[2], entries[3] = entries[3], entries[2]
    assert faults(entries) == [
        (ONE, 2, "it is missing before entry 3"),
        (ONE, 2, "it stands after entry 3"),
    ]


def test_a_removed_record_is_found_by_its_offset_too() -> None:
    verifier = AuditVerifier(0)
    entries = written()
    for offset in (0, 1, 3):
        verifier.take(offset, b"key", entries[offset])
    assert [(each.offset, each.problem) for each in verifier.faults] == [
        (2, "no records up to offset 3"),
        (3, "it is missing before entry 3"),
    ]


def test_what_is_no_entry_is_found() -> None:
    entries = written()
    for strange in (b"{}", b"", entries[2].replace(b'"number":2', b'"number": 2')):
        found = faults([*entries[:2], strange, *entries[3:]])
        assert found[0][:2] == ("key", -1)
        assert found[1] == (ONE, 2, "it is missing before entry 3")


def test_a_batch_that_was_written_twice_is_no_fault() -> None:
    entries = written()
    assert faults([*entries[:4], *entries[2:4], *entries[4:], *entries[1:3]]) == []


def test_the_first_entries_may_be_missing_only_where_the_log_has_lost_its_first_records() -> None:
    entries = written()
    assert faults(entries[2:], start=7) == []
    assert faults(entries[2:]) == [(ONE, 0, "entries up to 1 are missing before entry 2")]


def test_nothing_comes_after_the_end_and_no_chain_begins_otherwise() -> None:
    assert faults(written((BEGIN, END, *CHANGES[:1]))) == [
        (ONE, 2, "it stands after the end of its chain")
    ]
    assert faults(written(CHANGES[:2])) == [(ONE, 0, "no chain begins like this")]


def test_the_end_of_a_chain_that_was_cut_off_is_found_by_a_checkpoint_of_another() -> None:
    one = written()
    two = written((BEGIN, checkpoint(one=(5, one[5], 5))), broker=2, name="b")
    assert faults([*one, *two]) == []
    assert faults([*one[:4], *two]) == [(ONE, 5, "it is missing")]
    forged = one[5].replace(b"alice", b"aiice")
    assert faults([*one[:5], forged, *two]) == [(ONE, 5, "it was altered")]


def test_a_checkpoint_that_names_what_was_deleted_by_its_age_is_no_fault() -> None:
    one = written()
    two = written((BEGIN, checkpoint(one=(5, one[5], 5))), broker=2, name="b")
    assert faults(two, start=6) == []


def test_a_log_that_was_cut_at_its_end_is_known_by_saved_heads_alone() -> None:
    entries = written()
    saved = looked_through(entries).heads
    verifier = looked_through(entries[:-1])
    assert verifier.faults == []
    verifier.check_against(saved)
    assert [(each.chain, each.number) for each in verifier.faults] == [(ONE, 5)]
    whole = looked_through([*entries, *written((BEGIN,), broker=2, name="b")])
    whole.check_against(saved)
    assert whole.faults == []


def test_a_chain_without_end_is_told_once_its_broker_has_begun_another() -> None:
    first, second = written(), written(name="z")
    assert looked_through(first).unended == []
    assert looked_through([*first, *second]).unended == [ONE]
    ended = written((BEGIN, *CHANGES, END))
    assert looked_through([*ended, *second]).unended == []


def test_texts_of_an_event_are_bounded() -> None:
    long = "x" * 10_000
    event = AuditEvent(
        at_ms=0,
        kind=AuditKind.CHANGE,
        principal=long,
        resource=long,
        because=long,
        detail={f"{number}{long}": long for number in range(100)},
    )
    entry, _ = AuditChain(broker=1, name="a").append(bounded(event))
    assert len(entry) < (2 * DETAILS_MAX + 4) * (TEXT_MAX + 10)


def test_a_chain_has_one_name() -> None:
    assert chain_name(1, "a") == ONE
