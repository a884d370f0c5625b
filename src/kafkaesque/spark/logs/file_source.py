"""The format `kafkaesque-lines`: the lines of files that grow and are rotated, as a stream.

Offsets say of each file, by its identity, how far it has been read. The files have to be seen,
under the same names, by the driver and by all executors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)

from kafkaesque.spark.errors import DataLoss, WrongOption
from kafkaesque.spark.logs.followed_files import (
    PIECE_BYTES,
    FoundFile,
    find_files,
    open_file,
    read_lines,
    readable_end,
)
from kafkaesque.spark.options import OptionReader
from kafkaesque.spark.refused_reader import refusing_when_asked
from kafkaesque.spark.subscription import tell

_NAMES = ("path", "maxBytesPerTrigger", "failOnDataLoss")
_BATCH_BYTES = 64 << 20
_BATCH_BYTES_MAX = 1 << 40
_SCHEMA = (
    "line BINARY, source STRING, partition INT, position BIGINT, arrived TIMESTAMP, sender STRING"
)
_ARROW = pa.schema(
    [
        ("line", pa.binary()),
        ("source", pa.string()),
        ("partition", pa.int32()),
        ("position", pa.int64()),
        ("arrived", pa.timestamp("us", tz="UTC")),
        ("sender", pa.string()),
    ]
)

#: As Spark keeps it: of a file's identity its name, how far, and when it was changed.
FilesJson = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesOptions:
    """All that a user can say about files."""

    patterns: tuple[str, ...]
    #: Of a micro-batch, shared by the files, the oldest first.
    batch_bytes: int
    fails_on_data_loss: bool


class LinesSource(DataSource):
    """Lines with where they stand, in the columns of `kafkaesque.spark.logs.parse.topic_lines`."""

    @classmethod
    def name(cls) -> str:
        return "kafkaesque-lines"

    def schema(self) -> str:
        """Return the columns; checks all options on the way."""
        _parse(self.options)
        return _SCHEMA

    @refusing_when_asked
    def streamReader(self, schema: Any) -> LinesReader:  # noqa: N802 - Spark's name
        """Return the reader of a stream."""
        return LinesReader(_parse(self.options))


def _parse(given: Mapping[str, str]) -> FilesOptions:
    options = OptionReader(given)
    options.refuse_unknown(_NAMES)
    patterns = options.words("path", options.required("path"))
    for pattern in patterns:
        if not Path(pattern).is_absolute():
            raise WrongOption(f"the option path has {pattern!r}, which does not begin with /")
    return FilesOptions(
        patterns=patterns,
        batch_bytes=options.number(
            "maxBytesPerTrigger", least=2 * PIECE_BYTES, most=_BATCH_BYTES_MAX, default=_BATCH_BYTES
        ),
        fails_on_data_loss=options.flag("failOnDataLoss", default=True),
    )


class FileRange(InputPartition):
    """What one task reads."""

    def __init__(self, identity: str, path: str, begin: int, end: int, modified_ms: int) -> None:
        super().__init__(identity)
        self.identity, self.path = identity, path
        self.begin, self.end, self.modified_ms = begin, end, modified_ms


class LinesReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Says how far the files have come, and reads between two such answers."""

    def __init__(self, options: FilesOptions) -> None:
        self._options = options
        #: The sizes at which a query ends that reads what is available now.
        self._target: dict[str, int] | None = None

    def initialOffset(self) -> FilesJson:  # noqa: N802 - Spark's name
        """Begin with the first line of every file."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Leave it to the option maxBytesPerTrigger."""
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Remember how large the files are: the query ends there."""
        found = find_files(self._options.patterns)
        self._target = {identity: file.size for identity, file in found.items()}

    def latestOffset(self, start: FilesJson, limit: ReadLimit) -> FilesJson:  # noqa: N802
        """Return where the next micro-batch ends: `start` itself where there is nothing to read."""
        found = find_files(self._options.patterns)
        budget, ends = self._options.batch_bytes, self._kept(start, found)
        for identity, file in sorted(found.items(), key=lambda each: each[1].modified_ms):
            size = file.size if self._target is None else self._target.get(identity, 0)
            begin = _begin(start, identity, file.size)
            stop = min(size, begin + budget)
            end = readable_end(file.path, begin, stop) if stop > begin else begin
            if end > begin:
                ends[identity] = [file.path, end, file.modified_ms]
                budget -= end - begin
        return ends

    def partitions(self, start: FilesJson, end: FilesJson) -> list[InputPartition]:
        """Return one piece for each file that has lines between the two."""
        ranges: list[InputPartition] = []
        for identity, (path, stop, modified_ms) in end.items():
            begin = _begin(start, identity, stop)
            if stop > begin:
                ranges.append(FileRange(identity, path, begin, stop, modified_ms))
        return ranges

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield a file's lines as Arrow record batches.

        Raises:
            DataLoss: they are not there any more.
        """
        if not isinstance(partition, FileRange):
            return
        file = open_file(partition.identity, partition.path, self._options.patterns)
        if file is None:
            self._lost(f"{partition.path} is gone, or another file", partition)
            return
        with file:
            try:
                for lines, starts in read_lines(file, partition.begin, partition.end):
                    yield _table(lines, starts, partition)
            except EOFError:
                self._lost(f"{partition.path} is shorter than it was", partition)

    def _lost(self, what: str, wanted: FileRange) -> None:
        message = f"{what}, and its bytes {wanted.begin} to {wanted.end} have not been read"
        if self._options.fails_on_data_loss:
            raise DataLoss(f"{message}; failOnDataLoss=false would continue with what is there")
        tell(message)

    def _kept(self, start: FilesJson, found: Mapping[str, FoundFile]) -> FilesJson:
        """Return what is still to be known: all, but for files that are gone beside others.

        A directory in which no file is found may be one that is not mounted just now.
        """
        alive = {Path(file.path).parent for file in found.values()}
        return {
            identity: entry
            for identity, entry in start.items()
            if identity in found or Path(entry[0]).parent not in alive
        }


def _begin(start: FilesJson, identity: str, size: int) -> int:
    """Return where to go on: at the beginning if the file is new, or has been cut off since."""
    begin = start[identity][1] if identity in start else 0
    return begin if begin <= size else 0


def _table(lines: list[bytes], starts: list[int], wanted: FileRange) -> Any:
    rows = len(lines)
    at = pa.scalar(1000 * wanted.modified_ms, pa.timestamp("us", tz="UTC"))
    return pa.RecordBatch.from_arrays(
        [
            pa.array(lines, pa.binary()),
            pa.repeat(pa.scalar(wanted.path), rows),
            pa.nulls(rows, pa.int32()),
            pa.array(starts, pa.int64()),
            pa.repeat(at, rows),
            pa.nulls(rows, pa.string()),
        ],
        schema=_ARROW,
    )
