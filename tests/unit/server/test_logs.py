"""How lines of the log look."""

import json
import logging
import sys
from collections.abc import Callable
from typing import Any

import pytest

from kafkaesque.env.event_limit import LINES_PER_EVENT_MAX, EventLimit
from kafkaesque.model.log_line import LogLine
from kafkaesque.server.logs import EventFormatter

LINE = LogLine("election.won", 'it "leads"\nnow', partition="t-0", term=7, leader=None)


def write(log_format: str, message: object, exc_info: Any = None) -> str:
    record = logging.LogRecord("kafkaesque.server", logging.INFO, "", 0, message, (), exc_info)
    record.created = 1_795_000_000.5
    return EventFormatter(log_format, 3).format(record)


def test_an_event_is_one_line_of_pairs_whatever_it_says() -> None:
    assert write("text", LINE) == (
        "time=2026-11-18T11:06:40.500Z level=info broker=3 event=election.won partition=t-0 term=7 "
        'message="it \\"leads\\"\\nnow"'
    )


def test_or_one_object() -> None:
    assert json.loads(write("json", LINE)) == {
        "time": "2026-11-18T11:06:40.500Z",
        "level": "info",
        "broker": 3,
        "event": "election.won",
        "partition": "t-0",
        "term": 7,
        "message": 'it "leads"\nnow',
    }


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_what_is_no_event_is_named_after_who_says_it(log_format: str) -> None:
    line = write(log_format, "100 % of it")
    assert "server.note" in line
    assert "100 % of it" in line


def test_what_was_raised_stands_on_the_same_line() -> None:
    try:
        raise ValueError("over there")
    except ValueError:
        line = write("text", "it failed", sys.exc_info())
    assert "\n" not in line
    assert "over there" in line


def test_of_each_event_only_so_many_lines_are_told_in_a_while() -> None:
    told: list[str] = []
    timers: list[Callable[[], None]] = []
    limit = EventLimit(told.append, lambda _, callback: timers.append(callback))
    for number in range(LINES_PER_EVENT_MAX + 3):
        limit.say(LogLine("isr.shrunk", f"line {number}"))
    limit.say(LogLine("election.won", "another event"))
    limit.say("no event")
    assert len(told) == LINES_PER_EVENT_MAX + 2
    for timer in timers:
        timer()
    assert told[-1] == "and 3 more of this kind within 10 s"
    last = told[-1]
    assert isinstance(last, LogLine)
    assert last.event == "isr.shrunk"
