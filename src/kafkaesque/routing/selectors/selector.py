"""Compiles selectors to functions, once.

    weight > 10 AND color IN ('red', 'blue') AND NOT $.order.express = TRUE

A name stands for a header of that name, and `properties.priority` for a property of the message;
`headers.priority` says that a header is meant. The names of JMS (`JMSPriority`) stand for
properties where there is no header of the name. A name with other signs is put in double quotes:
`"content-type"`. A path begins with `$` and leads into a body that is JSON: `$.items[0].price`,
`$["unit price"]`. `properties.routing_key` is the message's name.

The grammar is that of SQL-92's conditions as JMS 2.0 (section 3.8) has it. Length, depth of nesting
and steps of paths are bounded; a selector's time is bounded by its length times what it looks at.
"""

from collections.abc import Callable
from typing import NoReturn

from kafkaesque.routing.errors import BadSelector
from kafkaesque.routing.message import RoutedMessage
from kafkaesque.routing.selectors.like import LikePattern
from kafkaesque.routing.selectors.tokens import Kind, Steps, Token, read_tokens
from kafkaesque.routing.selectors.values import (
    Operation,
    Value,
    arithmetic,
    comparison,
    conjunction,
    membership,
    negation,
    negative,
    plain,
)

#: How deep parentheses, NOTs and signs may be nested.
NESTING_MAX = 48

#: What a part of a selector is compiled to.
Term = Callable[[RoutedMessage], Value]

#: JMS' names of a message's properties.
_JMS_PROPERTIES = {
    "JMSCorrelationID": "correlation_id",
    "JMSDeliveryMode": "delivery_mode",
    "JMSExpiration": "expiration",
    "JMSMessageID": "message_id",
    "JMSPriority": "priority",
    "JMSReplyTo": "reply_to",
    "JMSTimestamp": "timestamp",
    "JMSType": "type",
    "JMSXUserID": "user_id",
}
_JMS_DELIVERY_MODES = {1: "NON_PERSISTENT", 2: "PERSISTENT"}
_COMPARISON_SIGNS = frozenset(("=", "<>", "<", "<=", ">", ">="))


class Selector:
    """A compiled selector."""

    __slots__ = ("_term", "looks_into_body", "misfit", "text")

    def __init__(self, text: str) -> None:
        """Compile a selector.

        Raises:
            BadSelector: it is none; says what is wrong, and where.
        """
        parser = _Parser(read_tokens(text))
        self.text = text
        self._term = parser.parse()
        #: Whether a message's body decides.
        self.looks_into_body = parser.looks_into_body
        #: Why it is true for no message, whatever is in it: see `read_selector`.
        self.misfit = parser.misfit

    def matches(self, message: RoutedMessage) -> bool:
        """Tell whether the selector is true for a message: neither false nor unknown."""
        return self._term(message) is True

    def value(self, message: RoutedMessage) -> bool | None:
        """Return what the selector says of a message; None for unknown, and for no truth value."""
        value = self._term(message)
        return value if isinstance(value, bool) else None


def read_selector(text: str) -> Selector:
    """Return a selector that somebody gives now, compiled.

    A text or a number in the place of a condition is refused here alone: it has been taken before,
    and what is kept has to be read again.

    Raises:
        BadSelector: it is none; says what is wrong, and where.
    """
    found = Selector(text)
    if found.misfit is not None:
        raise found.misfit
    return found


class _Parser:
    """Recursive descent: each method reads what its name says, and returns it compiled."""

    __slots__ = ("_at", "_depth", "_is_value", "_tokens", "looks_into_body", "misfit")

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        #: Whether what was read last is a text or a number, and so neither true nor false.
        self._is_value = False
        self.looks_into_body = False
        #: The first value that stands where a condition has to.
        self.misfit: BadSelector | None = None

    def parse(self) -> Term:
        position = self._token.position
        term = self._disjunction()
        self._want_condition(position)
        if self._token.kind is not Kind.END:
            self._fail("the selector should end here")
        return term

    # -- tokens

    @property
    def _token(self) -> Token:
        return self._tokens[self._at]

    def _takes(self, kind: Kind, *values: str) -> str | None:
        """Pass over the next token if it is one of these; return which."""
        token = self._tokens[self._at]
        if token.kind is not kind or token.value not in values:
            return None
        self._at += 1
        return str(token.value)

    def _expect(self, kind: Kind, value: str) -> None:
        if self._takes(kind, value) is None:
            self._fail(f"{value} is missing")

    def _text(self, what: str) -> str:
        token = self._token
        if token.kind is not Kind.STRING or not isinstance(token.value, str):
            self._fail(f"{what} is a text in single quotes")
        self._at += 1
        return token.value

    def _fail(self, what: str) -> NoReturn:
        token = self._token
        if token.kind is Kind.END:
            raise BadSelector(f"{what}, and the selector ends", token.position)
        raise BadSelector(what, token.position)

    def _nested(self, read: Callable[[], Term]) -> Term:
        if self._depth == NESTING_MAX:
            self._fail(f"a selector is nested at most {NESTING_MAX} deep")
        self._depth += 1
        term = read()
        self._depth -= 1
        return term

    # -- logic

    def _want_condition(self, position: int) -> None:
        """Note that what was read last, from a position on, has to be a condition."""
        if self._is_value and self.misfit is None:
            self.misfit = BadSelector(
                "a text or a number is no condition: compare it with something", position
            )

    def _disjunction(self) -> Term:
        return self._joined(self._conjunction, "OR", _any_of)

    def _conjunction(self) -> Term:
        return self._joined(self._negation, "AND", _all_of)

    def _joined(
        self, read: Callable[[], Term], word: str, join: Callable[[list[Term]], Term]
    ) -> Term:
        position = self._token.position
        terms = [read()]
        while self._takes(Kind.KEYWORD, word):
            self._want_condition(position)
            position = self._token.position
            terms.append(read())
        if len(terms) == 1:
            return terms[0]
        self._want_condition(position)
        self._is_value = False
        return join(terms)

    def _negation(self) -> Term:
        if not self._takes(Kind.KEYWORD, "NOT"):
            return self._condition()
        position = self._token.position
        term = self._nested(self._negation)
        self._want_condition(position)
        self._is_value = False
        return _not(term)

    def _condition(self) -> Term:
        left = self._sum()
        start = self._at
        term = self._predicate(left)
        if self._at != start:
            self._is_value = False
        return term

    def _predicate(self, left: Term) -> Term:
        sign = self._takes(Kind.SIGN, *_COMPARISON_SIGNS)
        if sign is not None:
            return _two(comparison(sign), left, self._sum())
        if self._takes(Kind.KEYWORD, "IS"):
            is_not = self._takes(Kind.KEYWORD, "NOT") is not None
            self._expect(Kind.KEYWORD, "NULL")
            return _is_null(left, is_not)
        is_not = self._takes(Kind.KEYWORD, "NOT") is not None
        match self._takes(Kind.KEYWORD, "BETWEEN", "IN", "LIKE"):
            case "BETWEEN":
                term = self._between(left)
            case "IN":
                term = self._in(left)
            case "LIKE":
                term = self._like(left)
            case _ if is_not:
                self._fail("NOT is followed by BETWEEN, IN or LIKE here")
            case _:
                return left
        return _not(term) if is_not else term

    def _between(self, operand: Term) -> Term:
        lowest = self._sum()
        self._expect(Kind.KEYWORD, "AND")
        highest = self._sum()
        at_least, at_most = comparison(">="), comparison("<=")

        def run(message: RoutedMessage) -> Value:
            value = operand(message)
            return conjunction([at_least(value, lowest(message)), at_most(value, highest(message))])

        return run

    def _in(self, operand: Term) -> Term:
        self._expect(Kind.SIGN, "(")
        texts: list[str] = []
        numbers: list[float] = []
        while True:
            is_negative = self._takes(Kind.SIGN, "-") is not None
            token = self._token
            if token.kind is Kind.NUMBER and isinstance(token.value, int | float):
                numbers.append(-token.value if is_negative else token.value)
                self._at += 1
            elif is_negative:
                self._fail("a number is missing")
            else:
                texts.append(self._text("what IN lists"))
            if self._takes(Kind.SIGN, ")"):
                break
            self._expect(Kind.SIGN, ",")
        return _one(membership(frozenset(texts), frozenset(numbers)), operand)

    def _like(self, operand: Term) -> Term:
        position = self._token.position
        pattern = self._text("LIKE's pattern")
        escape = None
        if self._takes(Kind.KEYWORD, "ESCAPE"):
            escape = self._text("what ESCAPE names")
            if len(escape) != 1:
                raise BadSelector("ESCAPE names one character", position)
        try:
            matches = LikePattern(pattern, escape).matches
        except ValueError as error:
            raise BadSelector(str(error), position) from None

        def like(value: Value) -> Value:
            if isinstance(value, str):
                return matches(value)
            return None if value is None else False

        return _one(like, operand)

    # -- values

    def _sum(self) -> Term:
        return self._chain(self._product, "+", "-")

    def _product(self) -> Term:
        return self._chain(self._signed, "*", "/")

    def _chain(self, read: Callable[[], Term], *signs: str) -> Term:
        first = read()
        rest: list[tuple[Operation, Term]] = []
        while (sign := self._takes(Kind.SIGN, *signs)) is not None:
            rest.append((arithmetic(sign), read()))
        if not rest:
            return first
        self._is_value = True
        return _chain(first, rest)

    def _signed(self) -> Term:
        sign = self._takes(Kind.SIGN, "+", "-")
        if sign is None:
            return self._primary()
        term = self._nested(self._signed)
        self._is_value = True
        return _one(negative, term) if sign == "-" else _one(_positive, term)

    def _primary(self) -> Term:
        token = self._token
        if self._takes(Kind.SIGN, "("):
            term = self._nested(self._disjunction)
            self._expect(Kind.SIGN, ")")
            return term
        self._is_value = token.kind in (Kind.STRING, Kind.NUMBER)
        if token.kind is Kind.KEYWORD and token.value in ("TRUE", "FALSE"):
            self._at += 1
            return _constant(token.value == "TRUE")
        if token.kind in (Kind.STRING, Kind.NUMBER):
            self._at += 1
            return _constant(token.value)
        if isinstance(token.value, tuple):
            self._at += 1
            self.looks_into_body = True
            return _path(token.value)
        if token.kind is Kind.NAME:
            return self._name()
        return self._fail("a value is missing")

    def _name(self) -> Term:
        name = str(self._token.value)
        self._at += 1
        if not self._takes(Kind.SIGN, "."):
            return _header(name)
        token = self._token
        if token.kind is not Kind.NAME or name not in ("headers", "properties"):
            self._fail("only headers.NAME and properties.NAME have a dot")
        self._at += 1
        second = str(token.value)
        return _header_alone(second) if name == "headers" else _property(second)


# -- what parts are compiled to


def _constant(value: Value) -> Term:
    return lambda message: value


def _header_alone(name: str) -> Term:
    return lambda message: plain(message.headers.get(name))


def _header(name: str) -> Term:
    name_of_property = _JMS_PROPERTIES.get(name)
    if name_of_property is None:
        return _header_alone(name)
    read = _property(name_of_property)

    def run(message: RoutedMessage) -> Value:
        value = message.headers.get(name)
        if value is not None:
            return plain(value)
        value = read(message)
        if name == "JMSDeliveryMode" and isinstance(value, int):
            return _JMS_DELIVERY_MODES.get(value)
        return value

    return run


def _property(name: str) -> Term:
    if name == "routing_key":
        return lambda message: message.key
    return lambda message: plain(message.properties.get(name))


def _path(steps: Steps) -> Term:
    def run(message: RoutedMessage) -> Value:
        value = message.json
        for step in steps:
            if isinstance(value, dict) and isinstance(step, str):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int) and step < len(value):
                value = value[step]
            else:
                return None
        return plain(value)

    return run


def _one(operation: Callable[[Value], Value], operand: Term) -> Term:
    return lambda message: operation(operand(message))


def _two(operation: Operation, left: Term, right: Term) -> Term:
    return lambda message: operation(left(message), right(message))


def _chain(first: Term, rest: list[tuple[Operation, Term]]) -> Term:
    """Apply operations from left to right; in a loop, because there may be thousands."""

    def run(message: RoutedMessage) -> Value:
        value = first(message)
        for operation, operand in rest:
            value = operation(value, operand(message))
        return value

    return run


def _not(term: Term) -> Term:
    return lambda message: negation(term(message))


def _is_null(term: Term, is_not: bool) -> Term:
    return lambda message: (term(message) is None) is not is_not


def _all_of(terms: list[Term]) -> Term:
    def run(message: RoutedMessage) -> Value:
        is_true = True
        for term in terms:
            value = term(message)
            if value is False:
                return False
            if value is not True:
                is_true = False
        return True if is_true else None

    return run


def _any_of(terms: list[Term]) -> Term:
    def run(message: RoutedMessage) -> Value:
        is_false = True
        for term in terms:
            value = term(message)
            if value is True:
                return True
            if value is not False:
                is_false = False
        return False if is_false else None

    return run


def _positive(value: Value) -> Value:
    """Return a number as it is; unknown for what is none."""
    return value if type(value) in (int, float) else None
