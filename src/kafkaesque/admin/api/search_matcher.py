"""Tells which records of a batch fit a filter of a search.

Theory of operation. `matches` decides, record by record: it decodes a value and looks at what is
there. `candidates` only leaves out records that would be refused, and may let pass any others. It
looks for bytes that have to be there in some form, for a name in JSON with what may be the value
behind it (`json_path_bytes`), and for a field in Avro (`avro_path`). None of these has to know
whether a value is well-formed, so they are several times as fast.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from kafkaesque.admin.api.json_path_bytes import PathBytes
from kafkaesque.admin.api.messages import SearchFilter, schema_header
from kafkaesque.admin.decoding.avro_path import AvroPath
from kafkaesque.admin.decoding.bounds import UndecodableError
from kafkaesque.admin.decoding.decoder import ENCODED_FIRST, VALUE_HEADER, Decoder
from kafkaesque.model.errors import InvalidRequest
from kafkaesque.model.records import RecordColumns

#: What may stand for another character in JSON.
_ESCAPE: Final = b"\\"
_HEADER: Final = VALUE_HEADER.encode()
#: Names that stand in JSON as they are.
_PLAIN_NAMES: Final = re.compile(r'[^"\\\x00-\x1f]+')
#: Names on the way to a value in JSON.
JSON_DEPTH_MAX: Final = 10


class Matcher:
    """A filter, ready to be asked often."""

    def __init__(self, wanted: SearchFilter) -> None:
        """Raises `InvalidRequest` where the filter makes no sense."""
        self._contains = wanted.contains.encode()
        self._key = None if wanted.key is None else wanted.key.encode()
        self._since = wanted.since
        self._before = wanted.before
        self._value = wanted.json_value
        self._value_bytes = None if wanted.json_value is None else wanted.json_value.encode()
        self._path = wanted.json_path.split(".") if wanted.json_path else []
        if len(self._path) > JSON_DEPTH_MAX or not all(self._path or ["-"]):
            raise InvalidRequest(f"json_path is 1 to {JSON_DEPTH_MAX} names with points between")
        if wanted.json_path and not _PLAIN_NAMES.fullmatch(wanted.json_path):
            raise InvalidRequest("json_path has no quotes, backslashes or control characters")
        self._decode = _projection(self._path) if self._path else None
        #: Whether values are decoded before they are looked at.
        self.is_decoded = wanted.decoded and self._decode is not None
        #: All of these are in the bytes of whatever fits.
        self._needed = [each for each in (self._contains, self._key) if each]
        #: These as well, or there is an escape, or the value is encoded.
        self._needed_json = _literals(self._path, wanted.json_value)
        #: And this.
        self._path_bytes = (
            None if wanted.json_value is None or not self._path
            else PathBytes(self._path[-1], wanted.json_value)
        )  # fmt: skip
        self._avro_path = AvroPath(self._path, wanted.json_value) if self.is_decoded else None

    def candidates(
        self, columns: RecordColumns, rows: range, decoder: Decoder | None = None
    ) -> Iterable[int]:
        """Return the rows, in order, that may fit; those that are left out do not."""
        texts = [*self._needed, *self._needed_json]
        if not texts:
            return rows
        payload = columns.payload
        data = payload if isinstance(payload, bytes) else bytes(payload)
        if not all(each in data for each in self._needed):
            return ()
        times, rarest = min((data.count(each), each) for each in texts)
        found: Iterable[int]
        # To look at each row takes less than to look for most of them.
        if 2 * times < len(rows):
            found = _rows_with(columns, data, rarest, rows)
            if rarest in self._needed:
                return found
        elif self._path_bytes is not None:
            found = self._path_bytes.rows(columns.header_starts, data, rows)
        else:
            return rows
        # An escape may stand for it. The byte is also in what is around values: as the number of
        # the 46th record of a batch, for one.
        found = {*found, *_rows_with(columns, data, _ESCAPE, rows)}
        if self._avro_path is not None and decoder is not None:
            found.update(_encoded(columns, data, rows, self._avro_path, decoder))
        return sorted(found)

    def matches(self, columns: RecordColumns, row: int, decoder: Decoder | None = None) -> bool:
        """Tell whether a record fits; a filter that `is_decoded` needs a decoder."""
        if self._since is not None and columns.timestamps_ms[row] < self._since:
            return False
        if self._before is not None and columns.timestamps_ms[row] >= self._before:
            return False
        if self._key is not None and columns.key(row) != self._key:
            return False
        if self._contains and not self._holds(columns, row):
            return False
        if self._decode is None:
            return True
        value = columns.value(row)
        if self.is_decoded and value is not None and decoder is not None:
            value = _decoded(value, columns, row, decoder)
        return value is not None and self._fits_json(value, self._decode)

    def _holds(self, columns: RecordColumns, row: int) -> bool:
        text = self._contains
        for each in (columns.value(row), columns.key(row)):
            if each is not None and text in each:
                return True
        return any(
            text in name.encode() or (data is not None and text in data)
            for name, data in columns.headers(row)
        )

    def _fits_json(self, value: bytes, decode: Callable[[bytes], Any]) -> bool:
        try:
            found = decode(value)
        except (ValueError, RecursionError, msgspec.MsgspecError):
            return False
        for _ in self._path:
            found = getattr(found, "inner", msgspec.UNSET)
            if found is msgspec.UNSET:
                return False
        if self._value is None:
            return True
        if isinstance(found, str):
            return found == self._value
        return msgspec.json.encode(found) == self._value_bytes


def _decoded(value: bytes, columns: RecordColumns, row: int, decoder: Decoder) -> bytes | None:
    """Return a value as JSON, if it can be decoded; as it is, if it does not seem to be encoded."""
    try:
        found = decoder.decode(value, "auto", schema_header(columns.headers(row), VALUE_HEADER))
    except UndecodableError:
        return None
    return value if found is None else found.json


def _encoded(
    columns: RecordColumns, data: bytes, rows: range, wanted: AvroPath, decoder: Decoder
) -> Iterator[int]:
    """Return the rows that may fit and whose values may be no JSON as it was written."""
    starts, ends, counts = columns.value_starts, columns.header_starts, columns.header_counts
    if _HEADER in data:
        yield from (row for row in rows if counts[row] or data[starts[row]] in ENCODED_FIRST)
        return
    for row in rows:
        start = starts[row]
        first = data[start]
        if first in ENCODED_FIRST and (first or wanted.may_fit(data[start : ends[row]], decoder)):
            yield row


def _rows_with(columns: RecordColumns, data: bytes, needle: bytes, rows: range) -> Iterator[int]:
    """Return rows that may hold some bytes; one more may be among them, and none is left out."""
    starts, last, at = columns.header_starts, rows.start - 1, data.find(needle)
    while at >= 0:
        # Headers are a record's end: the bytes are in those of a row, or in the key or value of
        # the next one.
        row = bisect_right(starts, at)
        for each in (row - 1, row):
            if last < each < rows.stop:
                last = each
                yield each
        # Further finds in the same row say nothing new.
        beyond = starts[row] if row < len(starts) else len(data)
        at = data.find(needle, max(at + 1, beyond - len(needle) + 1))


def _literals(path: Sequence[str], value: str | None) -> list[bytes]:
    """Return what stands as it is in JSON that has a value at a path, if nothing is escaped."""
    found = [each.encode() for each in path]
    if path and value:
        try:
            msgspec.json.decode(value)
        except (ValueError, RecursionError, msgspec.MsgspecError):
            # It can only be a text: a number may be written in many ways.
            found.insert(0, value.encode())
    return found


def _projection(path: Sequence[str]) -> Callable[[bytes], Any]:
    """Return a decoder that looks only at what lies on a path."""
    kind: Any = Any
    for name in reversed(path):
        kind = msgspec.defstruct(
            "Projection",
            [("inner", kind | msgspec.UnsetType if kind is not Any else Any, msgspec.UNSET)],
            rename={"inner": name},
        )
    decode: Callable[[bytes], Any] = msgspec.json.Decoder(kind).decode
    return decode
