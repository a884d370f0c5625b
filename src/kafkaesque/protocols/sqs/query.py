"""The query protocol: parameters of a form to structures, and structures to XML."""

import re
from collections.abc import Mapping
from typing import Final, TypeAlias, TypeVar
from xml.sax.saxutils import escape

import msgspec

from kafkaesque.protocols.sqs.errors import SqsError, invalid_value
from kafkaesque.protocols.sqs.service import FIELDS
from kafkaesque.protocols.sqs.shapes import Field, Kind, Shape

NAMESPACE: Final = "http://queue.amazonaws.com/doc/2012-11-05/"
#: Elements of one list. A batch has ten entries, and a list of names not many more.
ELEMENTS_MAX: Final = 100
#: What a list or a map may be numbered up to: gaps are allowed.
NUMBER_DIGITS_MAX: Final = 4

Value: TypeAlias = "str | dict[str, Value] | list[Value]"
#: Parameters as a tree: `Entry.1.Id=a` is {"Entry": {"1": {"Id": "a"}}}.
Tree: TypeAlias = "dict[str, str | Tree]"

ShapeT = TypeVar("ShapeT", bound=Shape)

#: What XML 1.0 cannot have; Amazon refuses it in bodies.
_NO_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def read_request(kind: type[ShapeT], parameters: Mapping[str, str]) -> ShapeT:
    """Return what is asked.

    Raises:
        SqsError: a parameter is missing, or is not of its kind.
    """
    found = _read_struct(FIELDS[kind.__name__], _grow(parameters))
    return convert(kind, found, is_text=True)


def convert(kind: type[ShapeT], found: object, *, is_text: bool) -> ShapeT:
    """Return a structure.

    Raises:
        SqsError: a member is missing, or is not of its kind.
    """
    try:
        return msgspec.convert(found, kind, strict=not is_text)
    except msgspec.ValidationError as error:
        raise fault_of(error) from None


def fault_of(error: msgspec.ValidationError) -> SqsError:
    """Return what a client is told of a request that is not as it should be."""
    said = str(error)
    missing = re.match(r"Object missing required field `(\w+)`(.*)", said)
    if missing is not None:
        where = missing[2].replace(" - at `$", " in `")
        return SqsError(
            "MissingParameter", f"The request must contain the parameter {missing[1]}{where}."
        )
    return invalid_value(f"A parameter has a value of another kind: {said}.")


def _grow(parameters: Mapping[str, str]) -> Tree:
    tree: Tree = {}
    for name, value in parameters.items():
        *path, last = name.split(".", 7)
        branch = tree
        for step in path:
            next_branch = branch.setdefault(step, {})
            if isinstance(next_branch, str):
                raise SqsError("MalformedQueryString", f"The parameter {name} contradicts another.")
            branch = next_branch
        if isinstance(branch.get(last), dict):
            raise SqsError("MalformedQueryString", f"The parameter {name} contradicts another.")
        branch[last] = value
    return tree


def _read_struct(fields: tuple[Field, ...], tree: Tree) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for field in fields:
        at = tree.get(field.wire)
        if at is None:
            continue
        if field.kind is Kind.LIST:
            found[field.name] = [_read_inner(field, each) for each in _elements(field, at)]
        elif field.kind is Kind.MAP:
            found[field.name] = dict(_read_entry(field, each) for each in _elements(field, at))
        elif isinstance(at, str):
            found[field.name] = at
        else:
            raise invalid_value(f"The parameter {field.wire} has no parts.")
    return found


def _elements(field: Field, at: "str | Tree") -> list["str | Tree"]:
    if isinstance(at, str):
        # One element may come without a number.
        return [at]
    numbers = [each for each in at if each.isdecimal() and len(each) <= NUMBER_DIGITS_MAX]
    if len(numbers) < len(at) or len(numbers) > ELEMENTS_MAX:
        raise invalid_value(f"The parameter {field.wire} has at most {ELEMENTS_MAX} elements.")
    return [at[each] for each in sorted(numbers, key=int)]


def _read_inner(field: Field, at: "str | Tree") -> Value:
    if field.inner is Kind.STRUCT and isinstance(at, dict):
        return _read_struct(FIELDS[field.struct], at)
    if field.inner is not Kind.STRUCT and isinstance(at, str):
        return at
    raise invalid_value(f"An element of the parameter {field.wire} is of another kind.")


def _read_entry(field: Field, at: "str | Tree") -> tuple[str, Value]:
    key = at.get(field.key) if isinstance(at, dict) else None
    value = at.get(field.value) if isinstance(at, dict) else None
    if not isinstance(key, str) or value is None:
        raise SqsError(
            "MissingParameter",
            f"The request must contain the parameter {field.wire}.N.{field.key} and its "
            f"{field.value}.",
        )
    return key, _read_inner(field, value)


# -- XML


def write_result(operation: str, result: Shape | None, request_id: str) -> bytes:
    """Return an answer as XML."""
    inner = ""
    if result is not None:
        body = _write_struct(FIELDS[type(result).__name__], msgspec.to_builtins(result))
        inner = f"<{operation}Result>{body}</{operation}Result>"
    return (
        f'<?xml version="1.0"?><{operation}Response xmlns="{NAMESPACE}">{inner}'
        f"<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata>"
        f"</{operation}Response>"
    ).encode()


def write_error(error: SqsError, request_id: str) -> bytes:
    """Return an error as XML."""
    fault = "Sender" if error.is_senders else "Receiver"
    return (
        f'<?xml version="1.0"?><ErrorResponse xmlns="{NAMESPACE}"><Error><Type>{fault}</Type>'
        f"<Code>{error.code}</Code><Message>{_text(error.message)}</Message><Detail/></Error>"
        f"<RequestId>{request_id}</RequestId></ErrorResponse>"
    ).encode()


def _write_struct(fields: tuple[Field, ...], found: Mapping[str, object]) -> str:
    parts = []
    for field in fields:
        value = found.get(field.name)
        if value is None:
            continue
        if field.kind is Kind.LIST and isinstance(value, list | tuple):
            parts += [_element(field.wire, _write_inner(field, each)) for each in value]
        elif field.kind is Kind.MAP and isinstance(value, dict):
            parts += [
                _element(
                    field.wire,
                    _element(field.key, _text(key))
                    + _element(field.value, _write_inner(field, each)),
                )
                for key, each in value.items()
            ]
        else:
            parts.append(_element(field.wire, _scalar(value)))
    return "".join(parts)


def _write_inner(field: Field, value: object) -> str:
    if isinstance(value, dict):
        return _write_struct(FIELDS[field.struct], value)
    return _scalar(value)


def _scalar(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return _text(str(value))


def _element(name: str, content: str) -> str:
    return f"<{name}>{content}</{name}>"


def _text(value: str) -> str:
    """Return text as XML has it; a carriage return would be read as a line feed."""
    return escape(_NO_XML.sub("\ufffd", value), {"\r": "&#xD;"})
