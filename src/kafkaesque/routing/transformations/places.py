"""Places in a message: a header, a property, or a path into a body that is JSON."""

from collections.abc import Callable
from enum import Enum

from kafkaesque.routing.errors import BadSelector
from kafkaesque.routing.message import RoutedMessage
from kafkaesque.routing.selectors.tokens import Kind, Steps, read_tokens
from kafkaesque.routing.transformations.errors import BadRule, TransformationFailed

#: Stands for a value where there is none; JSON's null is one.
NOTHING = object()


class Part(Enum):
    """Which part of a message a place is in."""

    HEADERS = "headers"
    PROPERTIES = "properties"
    BODY = "body"


class Draft:
    """A message that is being changed: copies that nobody else has."""

    __slots__ = ("body", "headers", "is_body_changed", "properties", "written")

    def __init__(self, message: RoutedMessage, decode: Callable[[], object]) -> None:
        """`decode` gives the body as JSON, whenever it is called as a new value."""
        self.headers: dict[str, object] = dict(message.headers)
        self.properties: dict[str, object] = dict(message.properties)
        self.body = decode()
        self.is_body_changed = False
        #: Headers and properties that were put or taken away, whatever they were before.
        self.written: set[tuple[Part, str]] = set()


class Place:
    """One place, ready to be read, filled and emptied."""

    __slots__ = ("_steps", "lacks_quotes", "name", "part", "text")

    def __init__(self, text: str) -> None:
        """Read a place.

        Raises:
            BadRule: the text names none.
        """
        self.text = text
        self.part = Part.HEADERS
        #: Of a header or a property; empty: it is in the body.
        self.name = ""
        self._steps: Steps = ()
        try:
            tokens = read_tokens(text)[:-1]
        except BadSelector as error:
            raise BadRule(f"{text!r} is no place: {error}") from None
        kinds = [each.kind for each in tokens]
        #: Whether a name has the sign of paths and stands in no quotes; it was taken before.
        self.lacks_quotes = any(
            each.kind is Kind.NAME and "$" in str(each.value) and text[each.position] != '"'
            for each in tokens
        )
        if kinds == [Kind.PATH] and isinstance(tokens[0].value, tuple) and tokens[0].value:
            self.part, self._steps = Part.BODY, tokens[0].value
        elif kinds == [Kind.NAME]:
            self.name = str(tokens[0].value)
        elif kinds == [Kind.NAME, Kind.SIGN, Kind.NAME] and tokens[1].value == ".":
            self.part = self._named_part(str(tokens[0].value))
            self.name = str(tokens[2].value)
        else:
            raise self.no_place()

    def no_place(self) -> BadRule:
        """Return why its text names no place."""
        return BadRule(
            f"{self.text!r} is no place: it is headers.NAME, properties.NAME or $.path; names with "
            'other signs than letters, digits and _ stand in quotes, as headers."x-name"'
        )

    def _named_part(self, word: str) -> Part:
        if word not in ("headers", "properties"):
            raise BadRule(f"{self.text!r} is no place: only headers and properties have a dot")
        return Part(word)

    def get(self, draft: Draft) -> object:
        """Return what is there, or `NOTHING`."""
        if self.part is not Part.BODY:
            return self._table(draft).get(self.name, NOTHING)
        value = draft.body
        for step in self._steps:
            value = _inside(value, step)
        return value

    def put(self, draft: Draft, value: object) -> None:
        """Put a value there; objects on the way are made.

        Raises:
            TransformationFailed: something else is in the way, or JSON has no such value.
        """
        if self.part is not Part.BODY:
            self._table(draft)[self.name] = value
            draft.written.add((self.part, self.name))
            return
        if isinstance(value, bytes | bytearray | memoryview):
            raise TransformationFailed(
                f"JSON has no bytes for {self.text}: cast it to a text first"
            )
        if draft.body is None:
            draft.body = {}
        inside = draft.body
        for step in self._steps[:-1]:
            found = _inside(inside, step)
            if found is NOTHING:
                found = {}
                self._put_inside(inside, step, found)
            inside = found
        self._put_inside(inside, self._steps[-1], value)
        draft.is_body_changed = True

    def drop(self, draft: Draft) -> None:
        """Take away what is there; an array's later values move up."""
        if self.part is not Part.BODY:
            self._table(draft).pop(self.name, None)
            draft.written.add((self.part, self.name))
            return
        inside = draft.body
        for step in self._steps[:-1]:
            inside = _inside(inside, step)
        last = self._steps[-1]
        if _inside(inside, last) is not NOTHING:
            del inside[last]  # type: ignore[attr-defined]
            draft.is_body_changed = True

    def _table(self, draft: Draft) -> dict[str, object]:
        return draft.headers if self.part is Part.HEADERS else draft.properties

    def _put_inside(self, inside: object, step: str | int, value: object) -> None:
        if isinstance(inside, dict) and isinstance(step, str):
            inside[step] = value
        elif isinstance(inside, list) and isinstance(step, int) and step < len(inside):
            inside[step] = value
        else:
            raise TransformationFailed(
                f"nothing can be put at {self.text}: something is in the way"
            )


def _inside(value: object, step: str | int) -> object:
    if isinstance(value, dict) and isinstance(step, str):
        return value.get(step, NOTHING)
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        return value[step]
    return NOTHING
