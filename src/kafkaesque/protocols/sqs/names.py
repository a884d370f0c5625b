"""What queues and messages are called: names, URLs, ARNs, message ids, receipts."""

import base64
import binascii
import hashlib
import hmac
import json
import re
import struct
from typing import Final, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from kafkaesque.protocols.sqs.errors import SqsError, invalid_value

#: There are no accounts: all queues are of this one.
ACCOUNT: Final = "000000000000"
#: Nor are there regions, but an ARN has one.
REGION: Final = "us-east-1"
FIFO_SUFFIX: Final = ".fifo"
NAME_LENGTH_MAX: Final = 80

_NAME: Final = re.compile(r"[A-Za-z0-9_-]+(\.fifo)?")
_ARN_PREFIX: Final = "arn:aws:sqs:"
_PLACE: Final = struct.Struct(">QI")
_TAG_BYTES: Final = 20


class Place(NamedTuple):
    """A message as it was given out: where it is, and which attempt it was."""

    offset: int
    attempt: int


# -- queues


def is_queue_name(name: str) -> bool:
    """Tell whether SQS can have a queue of this name."""
    return len(name) <= NAME_LENGTH_MAX and _NAME.fullmatch(name) is not None


def check_queue_name(name: str) -> None:
    """Refuse a name for a new queue.

    Raises:
        SqsError: SQS cannot have it.
    """
    if not is_queue_name(name):
        raise invalid_value(
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to "
            f"{NAME_LENGTH_MAX} in length, with {FIFO_SUFFIX} at the end for a FIFO queue."
        )


def is_fifo_name(name: str) -> bool:
    """Tell whether a queue is FIFO: its name says so."""
    return name.endswith(FIFO_SUFFIX)


def write_url(base: str, name: str) -> str:
    """Return a queue's URL; `base` is where the client has sent its request."""
    return f"{base}/{ACCOUNT}/{quote(name, safe='')}"


def read_url(url: str) -> str:
    """Return the name of the queue that a URL is for.

    Raises:
        SqsError: it is not for a queue.
    """
    try:
        parts = [each for each in urlsplit(url).path.split("/") if each]
    except ValueError:
        parts = []
    if len(parts) != 2 or parts[0] != ACCOUNT:
        raise SqsError("InvalidAddress", f"The address {url} is not valid for this endpoint.")
    return unquote(parts[1])


def write_arn(name: str) -> str:
    """Return a queue's ARN."""
    return f"{_ARN_PREFIX}{REGION}:{ACCOUNT}:{name}"


def read_arn(arn: str) -> str | None:
    """Return the name of a queue; None if it is no ARN of one. The region does not matter."""
    parts = arn.removeprefix(_ARN_PREFIX).split(":")
    if not arn.startswith(_ARN_PREFIX) or len(parts) != 3 or not is_queue_name(parts[2]):
        return None
    return parts[2]


# -- messages


def message_id(log_id: bytes, offset: int) -> str:
    """Return a message's id: always the same for the same place, in the form of a UUID."""
    digest = bytearray(hashlib.sha256(b"message %d " % offset + log_id).digest()[:16])
    # A UUID of version 8: made in a way of one's own (RFC 9562).
    digest[6] = digest[6] & 0x0F | 0x80
    digest[8] = digest[8] & 0x3F | 0x80
    text = digest.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def sequence_number(offset: int) -> str:
    """Return a message's number among those of its queue: later ones have higher ones."""
    return f"{offset:020d}"


def write_receipt(log_id: bytes, place: Place) -> str:
    """Return what a client names a message by that it was given.

    It is signed with the id of the queue's log: 128 random bits that no client of SQS is told.
    """
    packed = _PLACE.pack(*place)
    return base64.b64encode(packed + _tag(log_id, packed)).decode()


def read_receipt(log_id: bytes, receipt: str) -> Place:
    """Return what a receipt names.

    Raises:
        SqsError: it is made up, or was given with a message of another queue.
    """
    try:
        data = base64.b64decode(receipt, validate=True)
    except (binascii.Error, ValueError):
        data = b""
    packed, tag = data[: _PLACE.size], data[_PLACE.size :]
    if len(tag) != _TAG_BYTES or not hmac.compare_digest(tag, _tag(log_id, packed)):
        raise SqsError(
            "ReceiptHandleIsInvalid", "The input receipt handle is invalid for this queue."
        )
    return Place(*_PLACE.unpack(packed))


def _tag(log_id: bytes, packed: bytes) -> bytes:
    return hmac.digest(log_id, b"receipt " + packed, "sha256")[:_TAG_BYTES]


def write_handle(words: list[str]) -> str:
    """Return text of our own as a client keeps and returns it: a token or a task's handle."""
    return base64.urlsafe_b64encode(json.dumps(words, separators=(",", ":")).encode()).decode()


def read_handle(handle: str, count: int) -> list[str] | None:
    """Return so many words; None if it is no handle of ours."""
    try:
        words = json.loads(base64.b64decode(handle, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        return None
    is_ours = (
        isinstance(words, list)
        and len(words) == count
        and all(isinstance(each, str) for each in words)
    )
    return words if is_ours else None
