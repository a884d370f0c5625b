"""How values become bytes, and bytes values."""

import json
from collections.abc import Callable
from typing import Any, Final, Generic, NamedTuple, TypeVar

from kafkaesque.client.errors import InvalidArgument
from kafkaesque.client.message import encode_body

T = TypeVar("T")


class Serializer(NamedTuple, Generic[T]):
    """Both ways; a None of Kafka's (a tombstone) is None on both sides and never comes here."""

    encode: Callable[[T], bytes]
    decode: Callable[[bytes], T]


def _encode_raw(value: bytes) -> bytes:
    if not isinstance(value, bytes):
        raise InvalidArgument(f"bytes were expected, not {type(value).__name__}")
    return value


def _encode_text(value: str) -> bytes:
    if not isinstance(value, str):
        raise InvalidArgument(f"text was expected, not {type(value).__name__}")
    return value.encode()


def _encode_json(value: Any) -> bytes:
    return _dumps(value).encode()


def _dumps(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"it cannot be written as JSON: {error}") from None


def _encode_any(value: Any) -> bytes:
    return encode_body(value) or b""


#: Bytes as they are.
RAW: Final = Serializer[bytes](_encode_raw, bytes)
#: Text as UTF-8.
TEXT: Final = Serializer[str](_encode_text, bytes.decode)
#: Whatever JSON can say.
JSON: Final = Serializer[Any](_encode_json, json.loads)
#: As queues have it: bytes as they are, text as UTF-8, all else as JSON; read as bytes.
ANY: Final = Serializer[Any](_encode_any, bytes)
