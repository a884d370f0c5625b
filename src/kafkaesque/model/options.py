"""Options: a name, a type, a default, a range and what it means; values are text on the wire."""

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from kafkaesque.model.errors import ConfigError

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
#: How alike a name has to be to one that is unknown: below, it is another option altogether.
NEAR_MIN = 0.65
#: The longest text that is a value. Values that clients set are in the memory of every broker.
VALUE_LENGTH_MAX = 1024 * 1024
#: No option has so long a name: what is longer is like none, and is not compared, which takes long.
NAME_LENGTH_MAX = 200
#: So much of a client's text is shown in a refusal.
SHOWN_LENGTH_MAX = 100


class OptionType(Enum):
    """Types of values, with Kafka's numbers for DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7


OptionValue = bool | int | float | str

#: As Markdown has it.
_LINK: Final = re.compile(r"\[([^]]+)]\([^)]+\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option."""

    name: str
    type: OptionType
    default: OptionValue
    doc: str
    minimum: float | None = None
    maximum: float | None = None
    #: Whether the minimum itself, and the infinite where there is no maximum, are not allowed.
    is_open: bool = False
    #: A number that is allowed although it is out of the range.
    also: int | None = None
    choices: tuple[str, ...] = ()
    #: Whether a list of choices may have none of them.
    may_be_empty: bool = False
    #: Whether it can be changed while the broker runs.
    dynamic: bool = True
    #: For a topic option: the broker option that gives its default, if that is set.
    broker_name: str | None = None
    #: Where that is not set in a broker's file, these are looked for, which count in other units.
    broker_synonyms: tuple[str, ...] = ()
    #: Whether the default is another option's, and is shown as that one's.
    is_unset: bool = False
    #: Why no other value is allowed, where that is to be said.
    why: str = ""

    @property
    def meaning(self) -> str:
        """What it does, for people who do not read it on a page: links are words."""
        return _LINK.sub(r"\1", self.doc)

    @property
    def allowed(self) -> str:
        """What values are allowed, for people to read."""
        if self.type is OptionType.BOOLEAN:
            return " or ".join(self.choices or ("true", "false"))
        if self.choices:
            if len(self.choices) == 1:
                return self.choices[0] or "empty"
            kind = "a list of " if self.type is OptionType.LIST else "one of "
            return kind + ", ".join(self.choices) + (", or empty" if self.may_be_empty else "")
        if self.minimum is None and self.maximum is None:
            return f"a {self.type.name.lower()}"
        if self.minimum == self.maximum:
            return _write_bound(self.minimum or 0)
        low = "-∞" if self.minimum is None else _write_bound(self.minimum)
        high = "∞" if self.maximum is None else _write_bound(self.maximum)
        if self.is_open:
            return f"a number above {low} and " + (
                "finite" if self.maximum is None else f"at most {high}"
            )
        also = "" if self.also is None else f"{self.also}, or "
        return f"{also}a number from {low} to {high}"

    def parse(self, value: object) -> OptionValue:
        """Return the value, checked; of a list, each word once.

        Raises:
            ConfigError: wrong type or out of range; the message names the option and what fits.
        """
        if isinstance(value, str) and len(value) > VALUE_LENGTH_MAX:
            raise ConfigError(
                f"{self.name} has {len(value):,} characters, and may have {VALUE_LENGTH_MAX:,}"
            )
        try:
            parsed = _PARSERS[self.type](value)
        except (TypeError, ValueError):
            raise self._refused(value) from None
        if isinstance(parsed, str | bool):
            text = write_value(parsed)
            is_list = self.type is OptionType.LIST
            words = [word.strip() for word in text.split(",")] if is_list else [text.strip()]
            if self.may_be_empty and not text.strip():
                return ""
            if self.choices and any(word not in self.choices for word in words):
                raise self._refused(value)
            if is_list:
                return ",".join(dict.fromkeys(words))
        elif not self._is_within(parsed):
            raise self._refused(value)
        return parsed

    def _is_within(self, number: float) -> bool:
        if number == self.also:
            return True
        if self.is_open and (number == self.minimum or math.isinf(number)):
            return False
        return (self.minimum is None or number >= self.minimum) and (
            self.maximum is None or number <= self.maximum
        )

    def _refused(self, value: object) -> ConfigError:
        why = self.why and f" ({self.why})"
        return ConfigError(
            f"{self.name} = {_shown(value)} is not allowed: it must be {self.allowed}{why}"
        )


def _shown(value: object) -> str:
    """Return what a client has sent, as it may stand in a refusal."""
    text = repr(value)
    return text if len(text) <= SHOWN_LENGTH_MAX else text[:SHOWN_LENGTH_MAX] + "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Two options of which one must not be above the other."""

    low: str
    high: str
    #: Whether they must not be equal either.
    is_strict: bool = False

    def find_contradiction(self, value_of: Callable[[str], OptionValue]) -> str | None:
        """Return what is wrong with the values, in a sentence; None where nothing is."""
        low, high = float(value_of(self.low)), float(value_of(self.high))
        if low < high or (low == high and not self.is_strict):
            return None
        relation = "not below" if self.is_strict else "above"
        return (
            f"{self.low} = {write_value(value_of(self.low))} is {relation} "
            f"{self.high} = {write_value(value_of(self.high))}"
        )


def _write_bound(bound: float) -> str:
    """Return a number with all its digits: who is to type it does not want an exponent."""
    return str(int(bound)) if bound == int(bound) else str(bound)


def write_value(value: OptionValue) -> str:
    """Return a value as text, as Kafka writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _parse_bool(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise ValueError(value)


def _parse_int(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(value)
    return int(value)


def _parse_float(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(value)
    parsed = float(value)
    if math.isnan(parsed):
        # It is neither below nor above anything: no range would refuse it.
        raise ValueError(value)
    return parsed


def _parse_text(value: object) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    if not isinstance(value, str):
        raise TypeError(value)
    return value


_PARSERS: dict[OptionType, Callable[[object], OptionValue]] = {
    OptionType.BOOLEAN: _parse_bool,
    OptionType.STRING: _parse_text,
    OptionType.LIST: _parse_text,
    OptionType.INT: _parse_int,
    OptionType.SHORT: _parse_int,
    OptionType.LONG: _parse_int,
    OptionType.DOUBLE: _parse_float,
}


class OptionTable:
    """All options of one kind (topic, broker), by name."""

    def __init__(
        self,
        kind: str,
        options: Iterable[Option],
        why_absent: Callable[[str], str | None] = lambda _: None,
        orders: Sequence[Order] = (),
    ) -> None:
        """`why_absent` says of a name why Apache Kafka has an option of it, and we do not."""
        self.kind = kind
        self.orders = orders
        self._why_absent = why_absent
        self._options = {option.name: option for option in options}

    def __iter__(self) -> Iterator[Option]:
        return iter(self._options.values())

    def __contains__(self, name: object) -> bool:
        return name in self._options

    def get(self, name: str) -> Option:
        """Return the option.

        Raises:
            ConfigError: there is none; the message names the nearest one, or says why.
        """
        option = self._options.get(name)
        if option is None:
            reason = self._why_absent(name)
            if reason is not None:
                raise ConfigError(
                    f"{name} is an option of Apache Kafka that Kafkaesque does not have: {reason}"
                )
            # Not loaded by brokers whose files have no mistake.
            import difflib

            near: list[str] = []
            if len(name) <= NAME_LENGTH_MAX:
                near = difflib.get_close_matches(name.lower(), self._options, n=1, cutoff=NEAR_MIN)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ConfigError(f"unknown {self.kind} option {_shown(name)}{hint}")
        return option

    def names(self) -> list[str]:
        """Return all names, in the order of declaration."""
        return list(self._options)

    def defaults(self) -> dict[str, OptionValue]:
        """Return every option's default."""
        return {option.name: option.default for option in self._options.values()}

    def parse(self, values: Mapping[str, object]) -> dict[str, OptionValue]:
        """Return the values, checked, for the names that are given.

        Raises:
            ConfigError: a name is unknown or a value not allowed.
        """
        return {name: self.get(name).parse(value) for name, value in values.items()}

    def check_orders(
        self, value_of: Callable[[str], OptionValue], names: Collection[str] | None = None
    ) -> None:
        """Check values in force against one another: all, or those that have to do with `names`.

        Raises:
            ConfigError: two contradict each other; the message names both with their values.
        """
        for order in self.orders:
            if names is None or order.low in names or order.high in names:
                sentence = order.find_contradiction(value_of)
                if sentence is not None:
                    raise ConfigError(sentence)

    def parse_stored(
        self, values: Mapping[str, object]
    ) -> tuple[dict[str, OptionValue], dict[str, str]]:
        """Return the values that are allowed, and of the others, by name, why they are not.

        What was stored has been checked, but maybe by an older release that allowed more.
        """
        parsed: dict[str, OptionValue] = {}
        refused: dict[str, str] = {}
        for name, value in values.items():
            try:
                parsed[name] = self.get(name).parse(value)
            except ConfigError as error:
                refused[name] = str(error)
        return parsed, refused
