"""Delays per carrier and hour, computed directly from the data: what the pipeline must find."""

import csv
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

#: Columns of a flight (the row number comes first) and of the weather.
DEPARTURE_DELAY, CARRIER, ORIGIN, HOUR = 6, 10, 13, 19
WIND_SPEED, PRECIPITATION, VISIBILITY, WEATHER_HOUR = 9, 11, 13, 14
NOT_KNOWN = "NA"
LATE_FROM_MINUTES = 15


@dataclass(slots=True, kw_only=True)
class Delays:
    """Of one carrier in one hour; as Spark's JSON, None stands for what is not in it."""

    carrier: str
    name: str | None
    hour: str
    flights: int = 0
    departed: int = 0
    delayed: int = 0
    delay_sum: int | None = None
    delay_max: int | None = None
    with_weather: int = 0
    in_rain: int = 0
    visibility_min: float | None = None
    wind_max: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """Of one airport in one hour."""

    precipitation: float | None
    visibility: float | None
    wind_speed: float | None


def delays_of(
    flights: Iterable[bytes], weather: Iterable[bytes], airlines: Iterable[tuple[bytes, bytes]]
) -> dict[str, dict[str, Any]]:
    """Return what is to be known of each "carrier hour", as it stands in the JSON of the topic."""
    names = {carrier.decode(): name.decode() for carrier, name in airlines}
    observed = dict(_observation(row) for row in _rows(weather))
    found: dict[str, Delays] = {}
    for row in _rows(flights):
        carrier, hour = row[CARRIER], row[HOUR]
        key = f"{carrier} {hour}"
        if key not in found:
            found[key] = Delays(carrier=carrier, name=names.get(carrier), hour=hour)
        _add(found[key], row[DEPARTURE_DELAY], observed.get((row[ORIGIN], hour)))
    return {key: _without_none(each) for key, each in found.items()}


def _add(total: Delays, delay_text: str, weather: Weather | None) -> None:
    total.flights += 1
    if delay_text != NOT_KNOWN:
        delay = int(delay_text)
        total.departed += 1
        total.delayed += delay >= LATE_FROM_MINUTES
        total.delay_sum = (total.delay_sum or 0) + delay
        total.delay_max = delay if total.delay_max is None else max(total.delay_max, delay)
    if weather is None:
        return
    total.with_weather += 1
    total.in_rain += (weather.precipitation or 0) > 0
    total.visibility_min = min(_known(total.visibility_min, weather.visibility), default=None)
    total.wind_max = max(_known(total.wind_max, weather.wind_speed), default=None)


def _known(*numbers: float | None) -> list[float]:
    return [number for number in numbers if number is not None]


def _observation(row: list[str]) -> tuple[tuple[str, str], Weather]:
    precipitation, visibility, wind_speed = (
        None if row[column] == NOT_KNOWN else float(row[column])
        for column in (PRECIPITATION, VISIBILITY, WIND_SPEED)
    )
    weather = Weather(precipitation=precipitation, visibility=visibility, wind_speed=wind_speed)
    return (row[0], row[WEATHER_HOUR]), weather


def _rows(lines: Iterable[bytes]) -> Iterable[list[str]]:
    return csv.reader(line.decode() for line in lines)


def _without_none(delays: Delays) -> dict[str, Any]:
    return {name: value for name, value in asdict(delays).items() if value is not None}
