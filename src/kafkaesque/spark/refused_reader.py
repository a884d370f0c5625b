"""How the refusal of a stream's options comes to be the last words of the query that ends.

PySpark 4.3 stops a stream's reader also where `streamReader` has raised and there is none: what it
reports then ends with an error of its own, about a variable. A reader that is there and refuses
whatever it is asked first is reported as any other one that fails.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from kafkaesque.spark.errors import ConnectorError

Source = TypeVar("Source")
Reader = TypeVar("Reader")


class RefusedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Answers everything with the error that kept the real reader from being made."""

    def __init__(self, error: ConnectorError) -> None:
        self._error = error

    def initialOffset(self) -> NoReturn:  # noqa: N802 - Spark's name
        """Refuse to begin."""
        raise self._error

    def getDefaultReadLimit(self) -> NoReturn:  # noqa: N802 - Spark's name
        """Refuse it."""
        raise self._error

    def latestOffset(self, start: Any, limit: ReadLimit) -> NoReturn:  # noqa: N802 - Spark's name
        """Refuse to go on."""
        raise self._error

    def reportLatestOffset(self) -> NoReturn:  # noqa: N802 - Spark's name
        """Refuse it."""
        raise self._error

    def prepareForTriggerAvailableNow(self) -> NoReturn:  # noqa: N802 - Spark's name
        """Refuse to begin or go on."""
        raise self._error

    def partitions(self, start: Any, end: Any) -> NoReturn:
        """Refuse to repeat a micro-batch."""
        raise self._error

    def read(self, partition: InputPartition) -> NoReturn:
        raise self._error

    def commit(self, end: Any) -> NoReturn:
        """Refuse it."""
        raise self._error


def refusing_when_asked(
    make: Callable[[Source, Any], Reader],
) -> Callable[[Source, Any], Reader | RefusedReader]:
    """Have a `streamReader` return a reader that refuses, where it would raise a refusal."""

    @wraps(make)
    def made(source: Source, schema: Any) -> Reader | RefusedReader:
        try:
            return make(source, schema)
        except ConnectorError as error:
            return RefusedReader(error)

    return made
