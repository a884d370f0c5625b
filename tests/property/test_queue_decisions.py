"""Decisions, policies and snapshots are read as they were written; other bytes are refused."""

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.model.errors import InvalidConfig
from kafkaesque.queues import decisions as d
from kafkaesque.queues.arrival import Arrival, Details, group_of
from kafkaesque.queues.policy import (
    Overflow,
    Policy,
    Sharing,
    Undeliverable,
    read_policy,
    write_policy,
)
from kafkaesque.queues.runs import BadDecision, Reader, Run, Writer
from kafkaesque.queues.snapshot import read_state

NUMBERS = st.integers(0, 2**60)


@st.composite
def runs(draw: st.DrawFn) -> tuple[Run, ...]:
    at, found = 0, []
    for gap, length in draw(st.lists(st.tuples(st.integers(0, 2**40), st.integers(1, 500)))):
        found.append(Run(at + gap, at + gap + length))
        at += gap + length
    return tuple(found)


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    small = st.integers(0, 10**9)
    options: dict[str, Any] = {
        each.name: draw(small) for each in fields(Policy) if type(each.default) is int
    }
    options |= {"priorities": draw(st.integers(1, 32)), "is_ordered": False}
    try:
        policy = Policy(
            **options,
            is_fair=draw(st.booleans()),
            counts_bytes=draw(st.booleans()),
            counts_in_flight=draw(st.booleans()),
            overflow=draw(st.sampled_from(Overflow)),
            sharing=draw(st.sampled_from(Sharing)),
            undeliverable=draw(st.sampled_from(Undeliverable)),
            dead_letters_to=draw(st.text(max_size=9)),
        )
        policy.check()
    except InvalidConfig:
        return Policy()
    return policy


@st.composite
def arrivals(draw: st.DrawFn) -> Arrival:
    found = draw(runs().filter(bool))
    offsets = sorted({draw(st.sampled_from(found)).first for _ in range(draw(st.integers(0, 3)))})
    details = tuple(
        Details(
            o, draw(st.integers(0, 255)), draw(NUMBERS), draw(NUMBERS), draw(NUMBERS), b"i" * 16
        )
        for o in offsets
    )
    return Arrival(runs=found, wall_ms=draw(NUMBERS), sizes=(draw(NUMBERS),), details=details)


BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    int: NUMBERS,
    bool: st.booleans(),
    str: st.text(max_size=20),
    bytes: st.binary(max_size=20),
    d.Runs: runs(),
    d.Reason: st.sampled_from(d.Reason),
    Policy: policies(),
    Arrival: arrivals(),
}
DECISIONS = st.one_of(
    *(
        st.builds(kind, *(BY_TYPE[each] for each in kind.__annotations__.values()))
        for kind in d._KINDS
    )
)


@given(DECISIONS)
def test_a_decision_is_read_as_it_was_written(decision: d.Decision) -> None:
    assert d.read_decision(d.write_decision(decision)) == decision


@given(DECISIONS, st.data())
def test_a_decision_that_is_cut_off_is_refused(decision: d.Decision, data: st.DataObject) -> None:
    whole = d.write_decision(decision)
    with pytest.raises(BadDecision):
        d.read_decision(whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(st.binary(max_size=60))
def test_other_bytes_are_refused_or_read(data: bytes) -> None:
    for read in (d.read_decision, read_state):
        try:
            read(data)
        except BadDecision:
            pass


@given(policies())
def test_a_policy_is_read_as_it_was_written(policy: Policy) -> None:
    writer = Writer()
    write_policy(policy, writer)
    assert read_policy(Reader(bytes(writer.data))) == policy


def test_a_version_that_is_not_known_is_refused() -> None:
    with pytest.raises(BadDecision, match="version 2"):
        d.read_decision(bytes((2, 5)))


def test_options_of_later_releases_are_passed_over() -> None:
    writer = Writer()
    for number in (1, 200, 0, 7):
        writer.number(number)
    assert read_policy(Reader(bytes(writer.data))) == Policy()


def test_a_full_turn_of_decisions_is_small() -> None:
    settle = d.Remove(d.Reason.SETTLED, (Run(10**9, 10**9 + 64),))
    assign = d.Assign(3, 86_400_000, (Run(10**9, 10**9 + 64),))
    assert len(d.write_decision(settle)) <= 10
    assert len(d.write_decision(assign)) <= 16


def test_groups_are_told_apart() -> None:
    assert len({group_of(b"%d" % number) for number in range(20_000)}) == 20_000
