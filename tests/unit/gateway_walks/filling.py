"""Values for fields of requests, by the fields' types and names, and by what was heard before."""

from __future__ import annotations

import enum
import inspect
import random
import sys
import types
import typing
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, Union

import msgspec

from tests.unit.gateway_walks.speaker import BODIES, HOSTILE, NAMES

NUMBERS: Final = (-1, 0, 0, 1, 1, 2, 3, 5, 10, 100)
LARGE: Final = (30_000, 60_000, 2**31 - 1, 2**31, -(2**31), 2**63 - 1, -(2**63), 2**64)
ELEMENTS_MAX: Final = 3
DEPTH_MAX: Final = 6
KEPT_MAX: Final = 8


class Memory:
    """What was heard, by the name of the field."""

    def __init__(self) -> None:
        self._values: Final[dict[str, deque[Any]]] = defaultdict(lambda: deque(maxlen=KEPT_MAX))

    def note(self, found: object, name: str = "", depth: int = 0) -> None:
        """Keep the values of an answer's fields."""
        if depth > DEPTH_MAX:
            return
        if isinstance(found, Mapping):
            for key, value in list(found.items())[:50]:
                self.note(value, str(key), depth + 1)
        elif isinstance(found, list | tuple):
            for value in found[:5]:
                self.note(value, name, depth + 1)
        elif isinstance(found, str | int | bytes):
            self._values[plain(name)].append(found)
        elif hasattr(found, "__slots__"):
            for key in type(found).__slots__:
                self.note(getattr(found, key, None), key, depth + 1)

    def known(self, name: str) -> Sequence[Any]:
        return self._values.get(plain(name), ())


def plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "").removesuffix("s")


class Filler:
    """Makes values."""

    def __init__(
        self,
        dice: random.Random,
        memory: Memory,
        words: Mapping[str, Sequence[Any]],
        *,
        is_small: bool = False,
    ) -> None:
        """`words` are what a field of a name may well hold."""
        self.dice: Final = dice
        self.memory: Final = memory
        self.words: Final = {plain(name): values for name, values in words.items()}
        self.is_small = is_small

    def one_in(self, count: int) -> bool:
        return self.dice.randrange(count) == 0

    def struct(self, kind: type, depth: int = 0) -> dict[str, Any]:
        """Return fields of a msgspec struct, by their names on the wire."""
        found: dict[str, Any] = {}
        hints = typing.get_type_hints(kind)
        for field in msgspec.structs.fields(kind):
            if (field.required and not self.one_in(60)) or self.one_in(3):
                found[field.encode_name] = self.value(
                    hints[field.name], field.encode_name, depth + 1
                )
        return found

    def message(self, kind: type, depth: int = 0) -> Any:
        """Return a message of Kafka's, which has slots."""
        hints = typing.get_type_hints(kind.__init__, vars(sys.modules[kind.__module__]))  # type: ignore[misc]
        hints.pop("return", None)
        given = {}
        for name, parameter in inspect.signature(kind).parameters.items():
            if parameter.default is inspect.Parameter.empty or not self.one_in(4):
                given[name] = self.value(hints[name], name, depth + 1)
        return kind(**given)

    def value(self, kind: Any, name: str, depth: int = 0) -> Any:
        """Return a value of a type for a field of a name."""
        dice, origin, inner = self.dice, typing.get_origin(kind), typing.get_args(kind)
        if origin in (Union, types.UnionType):
            kinds = [each for each in inner if each not in (msgspec.UnsetType,)]
            return self.value(dice.choice(kinds), name, depth)
        if kind is type(None):
            return None
        if origin in (list, tuple, Sequence) or (
            origin is not None and issubclass_of(origin, (list, tuple, Sequence))
        ):
            element = inner[0] if inner else str
            count = 0 if depth > DEPTH_MAX else dice.randrange(ELEMENTS_MAX + 1)
            return [self.value(element, name, depth + 1) for _ in range(count)]
        if origin is not None and issubclass_of(origin, (dict, Mapping)):
            count = dice.randrange(ELEMENTS_MAX)
            return {self.text("key"): self.value(inner[1], name, depth + 1) for _ in range(count)}
        if origin is Literal:
            return dice.choice(inner)
        return self.single(kind, name, depth)

    def single(self, kind: Any, name: str, depth: int) -> Any:
        dice = self.dice
        words = self.words.get(plain(name))
        known = self.memory.known(name)
        if words and not self.one_in(8) and (not known or self.one_in(2)):
            return dice.choice(words)
        if known and not self.one_in(5):
            found = dice.choice(known)
            if not isinstance(kind, type) or isinstance(found, kind) or not self.one_in(20):
                if (
                    isinstance(kind, type)
                    and kind in (str, int, bytes, bool)
                    and not isinstance(found, kind)
                ):
                    return self.plain_value(kind, name, depth)
                return found
        return self.plain_value(kind, name, depth)

    def plain_value(self, kind: Any, name: str, depth: int) -> Any:
        dice = self.dice
        if kind is bool:
            return dice.randrange(2) == 0
        if kind is int:
            return (
                dice.choice(NUMBERS) if self.is_small or not self.one_in(9) else dice.choice(LARGE)
            )
        if kind is float:
            return dice.choice((0.0, 1.5, -1.0, 1e300))
        if kind is bytes:
            return dice.choice(BODIES)
        if kind is str:
            return self.text(name)
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return dice.choice([each.value for each in kind])
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return {} if depth > DEPTH_MAX else self.struct(kind, depth + 1)
        if isinstance(kind, type) and hasattr(kind, "__slots__") and kind is not object:
            return self.message(kind, depth + 1)
        return dice.choice((None, 1, "x", True, [], {}, {"a": 1}, "q0", 1.5))

    def text(self, name: str) -> str:
        dice = self.dice
        return dice.choice(HOSTILE) if self.one_in(10) else dice.choice(NAMES)


def issubclass_of(origin: Any, kinds: tuple[type, ...]) -> bool:
    return isinstance(origin, type) and issubclass(origin, kinds)
