"""The option `where`: which records a batch table has, by partition, offset and timestamp.

    where      = comparison { "and" comparison }
    comparison = column operator literal
               | column [ "not" ] "between" literal "and" literal
               | column [ "not" ] "in" "(" literal { "," literal } ")"

A literal is a whole number, for timestamps also a time with its zone as SQL writes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from kafkaesque.spark.errors import WrongOption
from kafkaesque.spark.intervals import EVERY, Intervals, among, at_least, at_most, between

#: Characters; a condition becomes as many intervals at most as it has literals.
LENGTH_MAX = 10_000
_COLUMNS = ("partition", "offset", "timestamp")
#: Literals beyond this say the same as this does: no column has 40 digits.
_DIGITS_MAX = 40
_SHOWN_MAX = 40
_END = "its end"

_FORMS = (
    "it is comparisons of partition, offset and timestamp with whole numbers or times, joined by"
    " and, with the operators =, !=, <>, <, <=, >, >=, [not] between … and … and [not] in (…),"
    " such as partition in (0, 2) and offset >= 100 and timestamp >= '2026-01-01 00:00:00Z'"
)
_SPACE = re.compile(r"\s*")
_TOKEN = re.compile(
    r"""
    (?P<number>[-+]?[0-9]+(?![\w.]))
    | '(?P<text>[^']*)'
    | `(?P<quoted>[^`]*)`
    | (?P<word>[A-Za-z_]\w*)
    | (?P<sign><=|>=|<>|!=|==|[=<>(),])
    """,
    re.VERBOSE,
)
_TIME = re.compile(
    r"\s*(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?"
    r"\s*(Z|UTC|[-+](\d\d):([0-5]\d))?\s*",
    re.ASCII | re.IGNORECASE,
)
#: As far as Spark's zones go.
_ZONE_MINUTES_MAX = 18 * 60
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OPERATORS: dict[str, Callable[[int], Intervals]] = {
    "=": lambda number: between(number, number),
    "==": lambda number: between(number, number),
    "!=": lambda number: ~between(number, number),
    "<>": lambda number: ~between(number, number),
    "<": lambda number: at_most(number - 1),
    "<=": at_most,
    ">": lambda number: at_least(number + 1),
    ">=": at_least,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """What all comparisons together leave of each column."""

    partition: Intervals = EVERY
    offset: Intervals = EVERY
    #: Microseconds since 1970 UTC, as Spark has them.
    timestamp: Intervals = EVERY

    @property
    def earliest_ms(self) -> int | None:
        """The first millisecond since 1970 of which records are wanted; None: all are from 1970.

        Kafka tells the offset at a time after 1970 only.
        """
        if not self.timestamp.parts:
            return None
        milliseconds = -(-self.timestamp.parts[0][0] // 1000)
        return milliseconds if milliseconds > 0 else None

    def and_also(self, column: str, numbers: Intervals) -> Where:
        """Return what is left if a column is to be in a set, too."""
        match column:
            case "partition":
                return replace(self, partition=self.partition & numbers)
            case "offset":
                return replace(self, offset=self.offset & numbers)
            case _:
                return replace(self, timestamp=self.timestamp & numbers)


EVERYTHING = Where()


def parse_where(text: str) -> Where:
    """Return what a condition leaves.

    Raises:
        WrongOption: it is empty or too long, or something in it is not understood.
    """
    if not text.strip():
        raise WrongOption("the option where is empty; leave it out to read everything")
    if len(text) > LENGTH_MAX:
        raise WrongOption(f"the option where has {len(text)} characters, and may have {LENGTH_MAX}")
    return _Parser(text).parse()


@dataclass(frozen=True, slots=True)
class _Token:
    #: `number`, `text`, `quoted`, `word` or `sign`; `end` of what follows the last.
    kind: str
    #: Without quotes; words in lower case.
    value: str
    #: As it was written.
    shown: str
    at: int


class _Parser:
    """Reads a condition from left to right, one token ahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._token = self._next()

    def parse(self) -> Where:
        where = self._comparison(EVERYTHING)
        while self._token.kind != "end":
            self._expect("and")
            where = self._comparison(where)
        return where

    def _comparison(self, where: Where) -> Where:
        token = self._token
        column = token.value.lower()
        if token.kind not in ("word", "quoted") or column not in _COLUMNS:
            raise self._refusal()
        self._step()
        is_negated = self._take("not")
        if self._take("between"):
            first = self._literal(column)
            self._expect("and")
            numbers = between(first, self._literal(column))
        elif self._take("in"):
            numbers = among(self._literals(column))
        elif not is_negated and self._token.kind == "sign" and self._token.value in _OPERATORS:
            operator = self._step().value
            numbers = _OPERATORS[operator](self._literal(column))
        else:
            raise self._refusal()
        return where.and_also(column, ~numbers if is_negated else numbers)

    def _literals(self, column: str) -> list[int]:
        self._expect("(")
        found = [self._literal(column)]
        while self._take(","):
            found.append(self._literal(column))
        self._expect(")")
        return found

    def _literal(self, column: str) -> int:
        """Return a number; of a timestamp its microseconds."""
        is_time = column == "timestamp"
        has_name = is_time and self._take("timestamp")
        token = self._token
        if token.kind == "number" and not has_name:
            self._step()
            return _number(token.value) * (1000 if is_time else 1)
        if token.kind == "text" and is_time:
            self._step()
            return _time_us(token.value)
        raise self._refusal()

    def _take(self, value: str) -> bool:
        """Whether this word or sign is next; it is passed over."""
        is_next = self._token.kind in ("word", "sign") and self._token.value == value
        if is_next:
            self._step()
        return is_next

    def _expect(self, value: str) -> None:
        if not self._take(value):
            raise self._refusal()

    def _step(self) -> _Token:
        """Return the token and go to the next one."""
        token = self._token
        self._token = self._next()
        return token

    def _next(self) -> _Token:
        space = _SPACE.match(self._text, self._position)
        at = space.end() if space else self._position
        if at == len(self._text):
            return _Token("end", "", _END, at)
        found = _TOKEN.match(self._text, at)
        if found is None:
            raise _refusal(repr(self._text[at : at + _SHOWN_MAX].split()[0]), at)
        self._position = found.end()
        kind = found.lastgroup or ""
        value = found[kind]
        shown = repr(found[0][:_SHOWN_MAX])
        return _Token(kind, value.lower() if kind == "word" else value, shown, at)

    def _refusal(self) -> WrongOption:
        return _refusal(self._token.shown, self._token.at)


def _refusal(shown: str, at: int) -> WrongOption:
    return WrongOption(
        f"the option where does not understand {shown} at character {at + 1}: {_FORMS}"
    )


def _number(text: str) -> int:
    sign, digits = (-1 if text.startswith("-") else 1), text.lstrip("+-0")
    return sign * (int(digits or "0") if len(digits) <= _DIGITS_MAX else 10**_DIGITS_MAX)


def _time_us(text: str) -> int:
    """Return a time's microseconds since 1970 UTC.

    Raises:
        WrongOption: it is no time, or has no zone: nothing tells a source that of the session.
    """
    found = _TIME.fullmatch(text)
    forms = "'2026-01-01 00:00:00Z', '2026-01-01 00:00:00+02:00' or milliseconds since 1970"
    shown = repr(text[:_SHOWN_MAX])
    if found is None:
        raise WrongOption(f"the option where has {shown} for a timestamp; it is a time as {forms}")
    day, minute, second, fraction, zone, zone_hours, zone_minutes = found.groups(default="")
    if not zone:
        raise WrongOption(
            f"the option where has the time {shown} without a zone, and Spark does not tell data"
            f" sources the session's time zone: write a time as {forms}"
        )
    if 60 * int(zone_hours or 0) + int(zone_minutes or 0) > _ZONE_MINUTES_MAX:
        raise WrongOption(
            f"the option where has the time {shown} with the zone {zone}; Spark knows from -18:00"
            " to +18:00"
        )
    offset = zone if zone_hours else "+00:00"
    try:
        time = datetime.fromisoformat(
            f"{day}T{minute}:{second or '00'}.{fraction.ljust(6, '0')}{offset}"
        )
    except ValueError as error:
        raise WrongOption(f"the option where has {shown} for a timestamp: {error}") from None
    return (time - _EPOCH) // timedelta(microseconds=1)
