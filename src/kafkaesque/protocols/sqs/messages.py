"""What a message may be: its body, its attributes, the entries of a batch."""

import re
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from kafkaesque.protocols.sqs.errors import SqsError, invalid_value
from kafkaesque.protocols.sqs.service import (
    MessageAttributeValue,
    MessageSystemAttributeValue,
)

BATCH_MAX: Final = 10
BATCH_BYTES_MAX: Final = 1024 * 1024
ATTRIBUTES_MAX: Final = 10
NAME_LENGTH_MAX: Final = 256
ID_LENGTH_MAX: Final = 128
TRACE_HEADER: Final = "AWSTraceHeader"

_BATCH_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,80}")
#: Of groups, of deduplication and of attempts.
_ID: Final = re.compile(r"[A-Za-z0-9!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]{1,128}")
_ATTRIBUTE: Final = re.compile(r"(?!\.)(?!.*\.\.)[A-Za-z0-9_.-]{1,256}(?<!\.)")
_RESERVED: Final = ("aws.", "amazon.", "kafkaesque.", "sqs.")
_TYPE: Final = re.compile(r"(String|Number|Binary)(\.[^.].{0,248})?")
_NUMBER: Final = re.compile(r"[+-]?(\d{1,130}(\.\d{0,130})?|\.\d{1,130})([eE][+-]?\d{1,3})?")
#: What XML 1.0 does not have, a body does not have.
_ALLOWED_ASCII: Final = bytes((0x09, 0x0A, 0x0D, *range(0x20, 0x80)))
_FORBIDDEN: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Entry(Protocol):
    """An entry of a batch."""

    @property
    def id(self) -> str:
        """What the client calls it."""


def check_batch(entries: Sequence[Entry]) -> None:
    """Refuse a batch as a whole.

    Raises:
        SqsError: it is empty, too long, or its ids are not ids, or not distinct.
    """
    if not entries:
        raise SqsError("EmptyBatchRequest", "There should be at least one entry in the request.")
    if len(entries) > BATCH_MAX:
        raise SqsError(
            "TooManyEntriesInBatchRequest",
            f"Maximum number of entries per request are {BATCH_MAX}. You have sent {len(entries)}.",
        )
    seen: set[str] = set()
    for each in entries:
        if not _BATCH_ID.fullmatch(each.id):
            raise SqsError(
                "InvalidBatchEntryId",
                "A batch entry id can only contain alphanumeric characters, hyphens and "
                "underscores. It can be at most 80 letters long.",
            )
        if each.id in seen:
            raise SqsError("BatchEntryIdsNotDistinct", f"Id {each.id} repeated.")
        seen.add(each.id)


def check_id(parameter: str, value: str) -> None:
    """Refuse what cannot be an id of a group, a duplicate or an attempt.

    Raises:
        SqsError: it has other characters, or is too long.
    """
    if not _ID.fullmatch(value):
        raise invalid_value(
            f"Value {value[:ID_LENGTH_MAX]} for parameter {parameter} is invalid. Reason: "
            f"{parameter} can only include alphanumeric and punctuation characters. 1 to "
            f"{ID_LENGTH_MAX} in length."
        )


def check_body(body: str) -> None:
    """Refuse a body.

    Raises:
        SqsError: it is empty, or has characters that it may not have.
    """
    if not body:
        raise SqsError("MissingParameter", "The request must contain the parameter MessageBody.")
    if _has_forbidden(body):
        raise SqsError(
            "InvalidMessageContents",
            "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to "
            "#xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF.",
        )


def _has_forbidden(text: str) -> bool:
    if text.isascii():
        # A quarter of the time that the expression takes, and most bodies are ASCII.
        return bool(text.encode().translate(None, _ALLOWED_ASCII))
    return _FORBIDDEN.search(text) is not None


def check_attributes(attributes: Mapping[str, MessageAttributeValue]) -> None:
    """Refuse a message's attributes.

    Raises:
        SqsError: there are too many, or a name, a type or a value is not allowed.
    """
    if len(attributes) > ATTRIBUTES_MAX:
        raise invalid_value(
            f"Number of message attributes [{len(attributes)}] exceeds the allowed maximum "
            f"[{ATTRIBUTES_MAX}]."
        )
    for name, value in attributes.items():
        if not _ATTRIBUTE.fullmatch(name) or name.lower().startswith(_RESERVED):
            raise invalid_value(
                f"The message attribute name '{name[:NAME_LENGTH_MAX]}' is invalid. It can contain "
                "alphanumeric characters, underscores, hyphens and periods, and must not begin "
                f"with {', '.join(_RESERVED)}."
            )
        _check_value(name, value)


def _check_value(name: str, value: MessageAttributeValue) -> None:
    kind = _TYPE.fullmatch(value.data_type)
    if kind is None:
        raise invalid_value(
            f"The type of message attribute '{name}' is invalid. You must use only the following "
            "supported type prefixes: Binary, Number, String."
        )
    if value.string_list_values or value.binary_list_values:
        raise invalid_value(
            f"The message attribute '{name}' has a list of values, which is not supported."
        )
    is_binary = kind[1] == "Binary"
    wanted = value.binary_value if is_binary else value.string_value
    other = value.string_value if is_binary else value.binary_value
    if not wanted or other is not None:
        field = "BinaryValue" if is_binary else "StringValue"
        raise invalid_value(
            f"The message attribute '{name}' must contain a non-empty {field}, and no other value, "
            f"for its type {value.data_type}."
        )
    if not is_binary and _FORBIDDEN.search(value.string_value or ""):
        raise invalid_value(f"The message attribute '{name}' has characters that are not allowed.")
    if kind[1] == "Number" and not _NUMBER.fullmatch(value.string_value or ""):
        raise invalid_value(f"Can't cast the value of message attribute '{name}' to a number.")


def check_system_attributes(attributes: Mapping[str, MessageSystemAttributeValue]) -> str | None:
    """Return the trace header of a message, if it has one.

    Raises:
        SqsError: there is another attribute, or the trace header is no text.
    """
    for name, value in attributes.items():
        if name != TRACE_HEADER or value.data_type != "String" or not value.string_value:
            raise invalid_value(
                f"Message system attribute '{name[:NAME_LENGTH_MAX]}' is invalid: there is "
                f"{TRACE_HEADER}, which has the type String and a value."
            )
    found = attributes.get(TRACE_HEADER)
    return None if found is None else found.string_value


def size_of(body: str, attributes: Mapping[str, MessageAttributeValue]) -> int:
    """Return a message's length in bytes, as the limits count it."""
    return len(body.encode()) + sum(
        len(name) + len(value.data_type.encode()) + _value_bytes(value)
        for name, value in attributes.items()
    )


def _value_bytes(value: MessageAttributeValue) -> int:
    if value.string_value is not None:
        return len(value.string_value.encode())
    return len(value.binary_value or b"")
