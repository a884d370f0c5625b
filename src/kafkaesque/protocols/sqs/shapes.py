"""How operations of SQS are described; `service` has them."""

from enum import Enum, auto
from typing import NamedTuple

import msgspec


class Kind(Enum):
    """What a member of a structure is."""

    TEXT = auto()
    NUMBER = auto()
    BOOLEAN = auto()
    BLOB = auto()
    STRUCT = auto()
    LIST = auto()
    MAP = auto()


class Field(NamedTuple):
    """A member of a structure, in both protocols."""

    #: In JSON.
    name: str
    #: In a query and in XML: of a list or a map, what one element is called.
    wire: str
    kind: Kind
    #: Of a list or a map: what its elements or values are.
    inner: Kind = Kind.TEXT
    struct: str = ""
    #: Of a map, in a query.
    key: str = ""
    value: str = ""


class Shape(msgspec.Struct, frozen=True):
    """What is asked, answered, or a part of it."""


class Operation(NamedTuple):
    """One operation."""

    name: str
    request: type[Shape]
    #: None: the answer is empty.
    result: type[Shape] | None
