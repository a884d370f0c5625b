"""Random messages as kio sees them, and the same messages as the generated classes hold them."""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import io
import pkgutil
import random
import types
import typing
import uuid
from collections.abc import Iterator
from typing import Any

from kio.index import EntityType
from kio.schema.errors import ErrorCode
from kio.schema.index import LoadableEntityType, schema_name_map
from kio.serial import entity_writer

from kafkaesque.protocols.kafka import messages
from kafkaesque.protocols.kafka.api import OWN_FIRST
from kafkaesque.protocols.kafka.api_table import CODEC_VERSIONS
from kafkaesque.protocols.kafka.wire import ZERO_UUID

RENAMED = {"enable2_pc": "enable_2pc"}
ERROR_CODES = list(ErrorCode)
#: The modules of our own APIs begin with these: kio does not know them.
_OWN = tuple(f"{stem}_re" for key, (*_, stem) in CODEC_VERSIONS.items() if key >= OWN_FIRST)
#: Our modules that kio has messages for.
MODULES = [
    info.name for info in pkgutil.iter_modules(messages.__path__) if not info.name.startswith(_OWN)
]
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "timedelta_i32": 32}


def entity_type(module: str, version: int) -> type:
    """Returns kio's class for one version of the message in our module of that name."""
    name, _, suffix = module.rpartition("_")
    kind: LoadableEntityType = EntityType.data
    if suffix in ("request", "response"):
        kind = EntityType.request if suffix == "request" else EntityType.response
    else:
        name = module
    path, _, attribute = schema_name_map[name][version][kind].partition(":")
    return typing.cast(type, getattr(importlib.import_module(path), attribute))


def kio_bytes(entity: Any) -> bytes:
    """Returns the message as kio writes it."""
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


def _inner(annotation: Any) -> tuple[Any, bool, bool]:
    nullable = False
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        nullable = True
        (annotation,) = (a for a in typing.get_args(annotation) if a is not type(None))
    if typing.get_origin(annotation) is tuple:
        return typing.get_args(annotation)[0], True, nullable
    return annotation, False, nullable


def _text(dice: random.Random) -> str:
    length = dice.choice((0, 1, 3, 10, 126, 127, 128, 300))
    return "".join(dice.choice("abcxyz019._-é漢🙂") for _ in range(length))


def _primitive(kind: str, dice: random.Random, nullable: bool) -> Any:
    if kind in ("string", "bytes", "records"):
        text = _text(dice)
        return text if kind == "string" else text.encode()
    if kind == "bool":
        return dice.random() < 0.5
    if kind == "error_code":
        return dice.choice(ERROR_CODES)
    if kind == "uuid":
        return None if dice.random() < 0.2 else uuid.UUID(int=dice.getrandbits(128) | 1)
    if kind == "float64":
        return dice.choice((0.0, -1.5, 1e300, 0.1))
    if kind == "uint16":
        return dice.choice((0, 9092, 65535))
    if kind == "timedelta_i64":
        return datetime.timedelta(milliseconds=dice.choice((0, -1, 5, 10**12)))
    if kind == "datetime_i64":
        if nullable and dice.random() < 0.5:
            return None
        return EPOCH + datetime.timedelta(seconds=dice.choice((0, 1, 2**31, 10**10)))
    top = 1 << (INTEGER_BITS[kind] - 1)
    number = dice.choice((0, 1, -1, top - 1, -top, dice.randrange(-top, top)))
    return datetime.timedelta(milliseconds=number) if kind == "timedelta_i32" else number


def random_entity(cls: Any, dice: random.Random, *, tagged: bool, elements_max: int = 2) -> Any:
    """Returns a random instance of a kio class, its tagged fields as they are if not `tagged`."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        element, is_array, nullable = _inner(field.type)
        kind = field.metadata.get("kafka_type", "struct")
        skip = "tag" in field.metadata and (not tagged or dice.random() < 0.4)
        if skip and field.default is not dataclasses.MISSING:
            continue
        may_be_null = nullable and kind not in ("uuid", "datetime_i64")
        if may_be_null and "tag" not in field.metadata and dice.random() < 0.3:
            values[field.name] = None
            continue
        count = (0 if skip else dice.randint(0, elements_max)) if is_array else 1
        made = [
            random_entity(element, dice, tagged=tagged, elements_max=elements_max)
            if kind == "struct"
            else _element(kind, dice, nullable, is_array)
            for _ in range(count)
        ]
        values[field.name] = tuple(made) if is_array else made[0]
    return cls(**values)


def _element(kind: str, dice: random.Random, nullable: bool, is_array: bool) -> Any:
    value = _primitive(kind, dice, nullable)
    return uuid.UUID(int=7) if is_array and kind == "uuid" and value is None else value


def _plain(value: Any, kind: str, tagged: bool, module: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(element, kind, False, module) for element in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        converted = to_ours(value, module)
        return None if tagged and converted == type(converted)() else converted
    if kind == "uuid":
        return ZERO_UUID if value is None else value.bytes
    if kind == "datetime_i64":
        return -1 if value is None else round((value - EPOCH).total_seconds() * 1000)
    if isinstance(value, datetime.timedelta):
        return round(value / datetime.timedelta(milliseconds=1))
    return int(value) if isinstance(value, ErrorCode) else value


def to_ours(entity: Any, module: Any) -> Any:
    """Returns the instance of our class with the values of kio's; `module` holds our classes."""
    values = {}
    for field in dataclasses.fields(entity):
        kind = field.metadata.get("kafka_type", "struct")
        name = RENAMED.get(field.name, field.name)
        instant = kind == "datetime_i64" and not name.endswith("timestamp")
        if kind.startswith("timedelta") or instant:
            name += "_ms"
        tagged = "tag" in field.metadata
        values[name] = _plain(getattr(entity, field.name), kind, tagged, module)
    return getattr(module, type(entity).__name__)(**values)


def samples(module: str, version: int, count: int, *, tagged: bool = True) -> Iterator[Any]:
    """Yields `count` random kio instances, the same ones on every run."""
    cls = entity_type(module, version)
    for number in range(count):
        yield random_entity(cls, random.Random(f"{module} {version} {number}"), tagged=tagged)
