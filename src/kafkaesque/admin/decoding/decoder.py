"""Chooses how a key or a value is read, and reads it.

A value says which schema it was written with: Confluent's serializers put a zero and the schema's
id, four bytes, before it, or into a header.
"""

from dataclasses import dataclass
from typing import Final

import msgspec

from kafkaesque.admin.decoding.avro_data import read_avro
from kafkaesque.admin.decoding.bounds import (
    VALUE_BYTES_MAX,
    Allowance,
    UndecodableError,
)
from kafkaesque.admin.decoding.msgpack_data import FIRST_BYTES, is_surely_msgpack, read_msgpack
from kafkaesque.admin.decoding.protobuf_data import read_indexes, read_protobuf
from kafkaesque.admin.decoding.schema_book import KnownSchema, SchemaBook
from kafkaesque.registry.avro import AvroSchema
from kafkaesque.registry.schemas import SchemaType

#: Headers in which newer serializers name the schemas of keys and of values.
KEY_HEADER: Final = "__key_schema_id"
VALUE_HEADER: Final = "__value_schema_id"
_ID_MAGIC: Final = b"\0"
_GUID_MAGIC: Final = b"\1"
#: A zero and an id.
ID_BYTES: Final = 5
#: With another byte, and no header that names its schema, no value begins that `auto` decodes.
ENCODED_FIRST: Final = frozenset({_ID_MAGIC[0], *FIRST_BYTES})
_FORMATS: Final = {
    SchemaType.AVRO: "avro",
    SchemaType.JSON: "json",
    SchemaType.PROTOBUF: "protobuf",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """A value that was understood."""

    #: `json`, `avro`, `protobuf` or `msgpack`.
    format: str
    #: What was written in JSON is as it was written.
    json: bytes
    #: What it was written with, where it says that.
    schema: KnownSchema | None = None


@dataclass(frozen=True, slots=True)
class _Frame:
    """A value that names its schema."""

    schema_id: int
    #: The numbers of a message of Protocol Buffers begin here, in the header or in the value.
    indexes: bytes
    at: int
    body: bytes


class Decoder:
    """Decodes values of one question, with what it may take altogether."""

    __slots__ = ("_book", "allowance")

    def __init__(self, book: SchemaBook, allowance: Allowance) -> None:
        self._book: Final = book
        self.allowance: Final = allowance

    @property
    def is_spent(self) -> bool:
        """Whether a value may not be decoded that another question would decode."""
        return self.allowance.is_spent or self._book.is_full

    def avro(self, schema_id: int) -> AvroSchema | None:
        """Return a schema if it is one of Avro and known; nothing is noted if it is not.

        Raises:
            UndecodableError: it cannot be parsed, or there is no room for it.
        """
        found = self._book.schemas.get(schema_id)
        if not isinstance(found, KnownSchema) or found.type is not SchemaType.AVRO:
            return None
        return self._book.avro(found)

    def decode(self, data: bytes, wanted: str, header: bytes | None = None) -> Decoded | None:
        """Return what a value is; None: it is not known to be anything, if `auto` is wanted.

        Wanted is `auto`, `json`, `avro`, `protobuf` or `msgpack`.
        `header` is the value of `KEY_HEADER` or `VALUE_HEADER`.

        Raises:
            UndecodableError: it cannot be read as what it seems, or is wanted, to be.
        """
        frame = None if wanted == "msgpack" else _frame_of(data, header)
        if len(data) > VALUE_BYTES_MAX:
            if wanted == "auto" and frame is None:
                return None
            raise UndecodableError(f"only values of up to {VALUE_BYTES_MAX} bytes are decoded")
        if frame is not None:
            return self._framed(frame, wanted)
        if wanted == "msgpack":
            return self._msgpack(data)
        if wanted == "json":
            return Decoded(format="json", json=_checked_json(data))
        if header is not None and header[:1] == _GUID_MAGIC:
            raise UndecodableError(
                "its header names a schema by a GUID, which the registry has not"
            )
        if wanted != "auto":
            raise UndecodableError("it does not begin with a zero and the id of a schema")
        return self._msgpack(data) if is_surely_msgpack(data) else None

    def _framed(self, frame: _Frame, wanted: str) -> Decoded:
        schema = self._book.find(frame.schema_id)
        found = _FORMATS[schema.type]
        if wanted not in ("auto", found):
            raise UndecodableError(f"its schema {schema.id} is {schema.type.value}")
        if schema.type is SchemaType.JSON:
            return Decoded(format=found, json=_checked_json(frame.body), schema=schema)
        self.allowance.begin()
        if schema.type is SchemaType.AVRO:
            parsed = self._book.avro(schema)
            value = read_avro(frame.body, parsed.root, parsed.names, self.allowance)
        else:
            indexes, at = read_indexes(frame.indexes, frame.at)
            body = frame.body if frame.indexes is not frame.body else frame.body[at:]
            file, types = self._book.protobuf(schema).file, self._book.types(schema)
            value = read_protobuf(body, types.find(file, indexes), types, self.allowance)
        return Decoded(format=found, json=_written(value), schema=schema)

    def _msgpack(self, data: bytes) -> Decoded:
        self.allowance.begin()
        return Decoded(format="msgpack", json=_written(read_msgpack(data, self.allowance)))


def _frame_of(data: bytes, header: bytes | None) -> _Frame | None:
    """Return a value that names its schema, in a header or itself; None: it does not."""
    if header is not None and (schema_id := _id_in(header)):
        return _Frame(schema_id, header, ID_BYTES, data)
    if schema_id := _id_in(data):
        body = data[ID_BYTES:]
        return _Frame(schema_id, body, 0, body)
    return None


def _id_in(data: bytes) -> int:
    """Return the id at the beginning, or 0: that is nobody's, and many numbers begin with zeros."""
    if len(data) < ID_BYTES or data[:1] != _ID_MAGIC:
        return 0
    schema_id = int.from_bytes(data[1:ID_BYTES], "big")
    return schema_id if schema_id < 1 << 31 else 0


def _checked_json(data: bytes) -> bytes:
    """Return JSON; nothing is built of it.

    Raises:
        UndecodableError: it is none.
    """
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
        data.decode()
    except RecursionError:
        raise UndecodableError("it is nested too deeply") from None
    except (ValueError, msgspec.MsgspecError) as error:
        raise UndecodableError(f"it is no JSON: {error}") from None
    return data


def _written(value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UndecodableError(f"it cannot be shown: {error}") from None
