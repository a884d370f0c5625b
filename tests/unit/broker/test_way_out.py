"""Bounds of what a queue's way out hands out, and what those that fail say."""

from __future__ import annotations

import json

import pytest

from kafkaesque.broker.queues.transforming import FAILED_HEADER, failed_of
from kafkaesque.broker.queues.way_out import WayOut
from kafkaesque.model.message_headers import STORED_AMQP
from kafkaesque.model.records import Record
from kafkaesque.protocols.amqp.properties import Properties, write_properties
from kafkaesque.protocols.amqp.stored_message import write_stored
from kafkaesque.routing.transformations.rules import read_rule
from kafkaesque.routing.transformations.transformation import Transformation

LONGER = {"do": "template", "at": "$.long", "text": "{$.a}{$.a}{$.a}{$.a}{$.a}{$.a}{$.a}{$.a}"}


def way_out(*steps: object) -> WayOut:
    return WayOut("t", Transformation(read_rule(json.dumps({"steps": steps}).encode())))


def records(*values: bytes) -> list[tuple[int, Record]]:
    return [(offset, Record(offset, 0, None, each, ())) for offset, each in enumerate(values)]


@pytest.mark.parametrize(
    ("bytes_max", "given", "left"),
    [(0, [0], [2, 3, 4]), (10_000, [0], [2, 3, 4]), (25_000, [0, 2], [3, 4])],
)
def test_what_comes_out_is_bounded_and_nothing_overtakes(
    bytes_max: int, given: list[int], left: list[int]
) -> None:
    long, short = json.dumps({"a": "x" * 1_000}).encode(), b'{"a":"x"}'
    found = way_out(LONGER).change_all(records(long, b"-", long, long, short), bytes_max)
    assert [offset for offset, _ in found.records] == given
    assert (found.failed, found.left) == ([1], left)
    found = way_out(LONGER).change_all(records(long, b"-", long, long, short), 99_000)
    assert ([offset for offset, _ in found.records], found.left) == ([0, 2, 3, 4], [])


def test_what_fails_says_why_and_nothing_else_changes() -> None:
    ((_, record),) = records(b"-")
    told = way_out(LONGER).told(record)
    why = (FAILED_HEADER, b"t: the body is no JSON, or too large")
    assert told == record._replace(headers=(why,))
    ((_, record),) = records(b"{}")
    assert way_out(LONGER).told(record) is record
    nothing = WayOut("t", None)
    assert nothing.change_all([(0, record)], 9).failed == [0]
    assert (
        dict(nothing.told(record).headers)[FAILED_HEADER] == b"t: there is no such transformation"
    )


def test_what_a_message_says_of_it_can_be_shown_whoever_has_written_it() -> None:
    ((_, record),) = records(b"-")
    stored = write_stored("", "q", write_properties(Properties(headers={"a": 1})))
    of_amqp = record._replace(headers=((STORED_AMQP, stored),))
    for each in (record, of_amqp):
        assert failed_of(each) == ""
        assert failed_of(way_out(LONGER).told(each)) == "t: the body is no JSON, or too large"
    assert failed_of(record._replace(headers=((FAILED_HEADER, b"\xff"),))) == "?"
