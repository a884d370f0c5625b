"""Applies rules to messages: nothing but the rule and the message decides what comes out."""

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from kafkaesque.routing.errors import BadSelector
from kafkaesque.routing.message import JSON_BYTES_MAX, RoutedMessage, read_json
from kafkaesque.routing.selectors.selector import Selector
from kafkaesque.routing.transformations.errors import BadRule, TransformationFailed
from kafkaesque.routing.transformations.places import NOTHING, Draft, Part, Place
from kafkaesque.routing.transformations.rules import (
    AnyStep,
    Cast,
    Drop,
    Kind,
    Rename,
    Rule,
    Set,
    Split,
    Template,
)

STEPS_MAX = 64
#: Characters of a template or a constant.
TEXT_LENGTH_MAX = 4096
#: Places in one template, and that a text is split into.
PLACES_MAX = 64
#: Characters of what a template gives.
RESULT_LENGTH_MAX = 64 * 1024

_INT64_MAX = 2**63 - 1
_TRUTHS = {"true": True, "false": False, "1": True, "0": False}
#: What stands in a template: braces, a place, and any other text.
_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[^{}]+|[{}]")

_Change = Callable[[Draft], None]


def _plain_number(value: object) -> object:
    """Return a whole number of a protocol's own type, such as a time, as a plain one."""
    if isinstance(value, int):
        return int(value)
    raise TypeError(f"JSON has no {type(value).__name__}")


_encoder = msgspec.json.Encoder(enc_hook=_plain_number)


class Transformed(NamedTuple):
    """What comes out; parts that no step concerns are the message's own."""

    headers: dict[str, object]
    properties: dict[str, object]
    body: bytes | memoryview
    #: Names of those that are others than before, or gone.
    changed_headers: frozenset[str] = frozenset()
    changed_properties: frozenset[str] = frozenset()


class Transformation:
    """A rule, compiled."""

    __slots__ = ("_changes", "_needs_body", "_selector", "places", "rule", "written")

    def __init__(self, rule: Rule) -> None:
        """Compile a rule.

        Raises:
            BadRule: a step, or the selector, is none.
        """
        if len(rule.steps) > STEPS_MAX:
            raise BadRule(f"a rule has at most {STEPS_MAX} steps")
        self.rule = rule
        self._selector = _read_selector(rule.when)
        places: list[Place] = []
        self._changes = []
        for number, step in enumerate(rule.steps, 1):
            try:
                self._changes.append(_compile(step, places))
            except BadRule as error:
                raise BadRule(f"step {number}: {error}") from None
        self._needs_body = any(place.part is Part.BODY for place in places)
        #: All places that steps name.
        self.places: Final = tuple(places)
        #: Places whose value it changes, puts or takes away.
        self.written: Final = tuple(
            Place(text) for text in sorted({each for step in rule.steps for each in _written(step)})
        )

    def applies_to(self, message: RoutedMessage) -> bool:
        """Tell whether the rule is for a message."""
        return self._selector is None or self._selector.matches(message)

    def apply(self, message: RoutedMessage) -> Transformed:
        """Return what the rule makes of a message, which stays as it is.

        Raises:
            TransformationFailed: the message does not have what a step needs.
        """
        if not self.applies_to(message):
            return Transformed(dict(message.headers), dict(message.properties), message.body)
        # Decoded anew: what the message has decoded is shared with whoever looked into it.
        draft = Draft(message, lambda: read_json(message.body) if self._needs_body else None)
        is_json = draft.body is not None or not message.body
        if self._needs_body and not is_json and bytes(message.body).strip() != b"null":
            raise TransformationFailed("the body is no JSON, or too large")
        for change in self._changes:
            change(draft)
        body = _encoded(draft.body) if draft.is_body_changed else message.body
        return Transformed(
            draft.headers,
            draft.properties,
            body,
            _changed(draft, Part.HEADERS, message.headers, draft.headers),
            _changed(draft, Part.PROPERTIES, message.properties, draft.properties),
        )


def _changed(
    draft: Draft, part: Part, before: Mapping[str, object], after: Mapping[str, object]
) -> frozenset[str]:
    """Return which of the names that steps have written say something else now."""
    return frozenset(
        name
        for each, name in draft.written
        if each is part and not _is_same(before.get(name, NOTHING), after.get(name, NOTHING))
    )


def _is_same(before: object, after: object) -> bool:
    # Not all that is equal is the same: 1, 1.0 and True are equal, and are written otherwise.
    return before is after or (isinstance(before, str) and before == after)


def _written(step: AnyStep) -> tuple[str, ...]:
    match step:
        case Rename(at=at, to=to):
            return (at, to)
        case Split(into=into):
            return into
        case _:
            return (step.at,)


def _read_selector(text: str | None) -> Selector | None:
    if text is None:
        return None
    try:
        return Selector(text)
    except BadSelector as error:
        raise BadRule(f"when: {error}") from None


def _encoded(body: object) -> bytes:
    try:
        raw = _encoder.encode(body)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise TransformationFailed(f"the body cannot be written as JSON: {error}") from None
    if len(raw) > JSON_BYTES_MAX:
        raise TransformationFailed(f"the body would have more than {JSON_BYTES_MAX} bytes")
    return raw


# -- steps


def _compile(step: AnyStep, places: list[Place]) -> _Change:
    """Return what a step does, and note the places that it looks at."""

    def place(text: str) -> Place:
        found = Place(text)
        places.append(found)
        return found

    at = place(step.at)
    match step:
        case Rename(to=to):
            return _rename(at, place(to))
        case Cast(to=kind):
            return _cast(at, kind)
        case Template(text=text):
            return _template(at, text, place)
        case Drop():
            return at.drop
        case Split(by=by, into=into):
            if not by or not into or len(into) > PLACES_MAX:
                raise BadRule(f"a split has a separator, and 1 to {PLACES_MAX} places")
            return _split(at, by, [place(each) for each in into])
        case Set(value=value):
            if isinstance(value, str) and len(value) > TEXT_LENGTH_MAX:
                raise BadRule(f"a constant has at most {TEXT_LENGTH_MAX} characters")
            return lambda draft: at.put(draft, value)


def _rename(at: Place, to: Place) -> _Change:
    def run(draft: Draft) -> None:
        value = at.get(draft)
        if value is not NOTHING:
            at.drop(draft)
            to.put(draft, value)

    return run


def _cast(at: Place, kind: Kind) -> _Change:
    def run(draft: Draft) -> None:
        value = at.get(draft)
        if value is NOTHING or value is None:
            return
        found = cast(value, kind)
        if found is None:
            raise TransformationFailed(f"what is at {at.text} cannot become a {kind.value}")
        at.put(draft, found)

    return run


def cast(value: object, kind: Kind) -> str | int | float | bool | None:
    """Return a value as one of a kind; None if it cannot be."""
    text = shown(value)
    if text is None or (kind is not Kind.TEXT and len(text) > TEXT_LENGTH_MAX):
        return None
    match kind:
        case Kind.TEXT:
            return text
        case Kind.TRUTH:
            return _TRUTHS.get(text.strip().lower())
        case _:
            return _number(text.strip(), is_whole=kind is Kind.WHOLE)


def _number(text: str, *, is_whole: bool) -> int | float | None:
    try:
        # Twenty signs at most: longer ones take long, and do not fit.
        if len(text) <= 20 and text.lstrip("+-").isdecimal():
            whole = int(text)
            return whole if abs(whole) <= _INT64_MAX else None
        value = float(text)
    except ValueError:
        return None
    if not -float("inf") < value < float("inf"):
        return None
    if not is_whole:
        return value
    return int(value) if value.is_integer() and abs(value) < 2**63 else None


def shown(value: object) -> str | None:
    """Return a value as a text; None if it is neither a text, a number nor a truth value."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value) if not isinstance(value, int) else str(int(value))
        case bytes() | memoryview():
            try:
                return bytes(value).decode()
            except UnicodeDecodeError:
                return None
    return None


def _template(at: Place, text: str, place: Callable[[str], Place]) -> _Change:
    if len(text) > TEXT_LENGTH_MAX:
        raise BadRule(f"a template has at most {TEXT_LENGTH_MAX} characters")
    pieces: list[str | Place] = []
    for found in _PIECE.finditer(text):
        if found[1] is not None:
            pieces.append(place(found[1]))
        elif found[0] in ("{", "}"):
            raise BadRule(f"a brace stands alone at character {found.start() + 1}")
        else:
            pieces.append({"{{": "{", "}}": "}"}.get(found[0], found[0]))
    if sum(isinstance(piece, Place) for piece in pieces) > PLACES_MAX:
        raise BadRule(f"a template has at most {PLACES_MAX} places")

    def run(draft: Draft) -> None:
        parts = [each if isinstance(each, str) else _filled(each, draft) for each in pieces]
        if sum(map(len, parts)) > RESULT_LENGTH_MAX:
            raise TransformationFailed(
                f"what is put at {at.text} would have more than {RESULT_LENGTH_MAX} characters"
            )
        at.put(draft, "".join(parts))

    return run


def _filled(place: Place, draft: Draft) -> str:
    value = place.get(draft)
    if value is NOTHING or value is None:
        return ""
    text = shown(value)
    if text is None:
        raise TransformationFailed(f"what is at {place.text} cannot be part of a text")
    return text


def _split(at: Place, by: str, into: list[Place]) -> _Change:
    def run(draft: Draft) -> None:
        value = at.get(draft)
        if value is NOTHING or value is None:
            return
        text = shown(value)
        if text is None:
            raise TransformationFailed(f"what is at {at.text} cannot be split")
        for place, piece in zip(into, text.split(by, len(into) - 1), strict=False):
            place.put(draft, piece)

    return run
