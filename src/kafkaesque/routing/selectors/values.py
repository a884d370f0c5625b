"""Values in selectors, and what is done with them: three-valued logic, comparisons, arithmetic.

Unknown is None. It comes from headers that are missing and JSON's null, and goes through all
operations as SQL-92 has it. Values that are not alike (a text and a number) are neither equal nor
unequal, nor before one another: such comparisons are false (JMS 3.8.1.2). Beyond JMS, texts have an
order, by code points.
"""

from collections.abc import Callable
from decimal import Decimal
from operator import eq, ge, gt, le, lt, ne
from typing import Any

Value = object
Operation = Callable[[Value, Value], Value]

_PLAIN = frozenset((type(None), bool, str, float))
_NUMBERS = frozenset((int, float))
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


def plain(value: object) -> Value:
    """Return a header's value as selectors have it."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, int):
        # Protocols have whole numbers of types of their own, such as AMQP's timestamps.
        return bounded(int(value))
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, bytes | bytearray | memoryview):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return value
    return value


def bounded(value: float) -> float | None:
    """Return a number: a whole one of more than 64 bits as float, and None for what is none."""
    if type(value) is int:
        if _INT64_MIN <= value <= _INT64_MAX:
            return value
        try:
            return float(value)
        except OverflowError:
            return None
    return value if -float("inf") < value < float("inf") else None


# -- logic


def conjunction(values: list[Value]) -> bool | None:
    """Return the AND of values; what is no truth value is unknown."""
    if any(value is False for value in values):
        return False
    return True if all(value is True for value in values) else None


def negation(value: Value) -> bool | None:
    """Return the NOT of a value."""
    return not value if isinstance(value, bool) else None


# -- comparisons


def comparison(sign: str) -> Operation:
    """Return what compares two values: true, false, or None if one is unknown."""
    compare = _COMPARISONS[sign]
    is_order = sign not in ("=", "<>")

    def run(left: Value, right: Value) -> Value:
        if left is None or right is None:
            return None
        kind, other = type(left), type(right)
        if kind is other or (kind in _NUMBERS and other in _NUMBERS):
            if kind is str or kind in _NUMBERS or (kind is bool and not is_order):
                return compare(left, right)
        return False

    return run


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": eq,
    "<>": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}


def membership(texts: frozenset[str], numbers: frozenset[float]) -> Callable[[Value], Value]:
    """Return what tells whether a value is one of these."""

    def run(value: Value) -> Value:
        if value is None:
            return None
        if isinstance(value, str):
            return value in texts
        return type(value) in _NUMBERS and value in numbers

    return run


# -- arithmetic


def _divide(left: float, right: float) -> float | None:
    return left / right if right else None


_ARITHMETIC: dict[str, Callable[[float, float], float | None]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": _divide,
}


def arithmetic(sign: str) -> Operation:
    """Return what calculates; unknown for what are no numbers, and for what is divided by zero.

    A division of whole numbers is exact: 7 / 2 is 3.5.
    """
    calculate = _ARITHMETIC[sign]

    def run(left: Value, right: Value) -> Value:
        if type(left) not in _NUMBERS or type(right) not in _NUMBERS:
            return None
        try:
            found = calculate(left, right)  # type: ignore[arg-type]
        except OverflowError:
            return None
        return None if found is None else bounded(found)

    return run


def negative(value: Value) -> Value:
    """Return a number with the other sign; unknown for what is none."""
    return bounded(-value) if isinstance(value, int | float) and type(value) is not bool else None
