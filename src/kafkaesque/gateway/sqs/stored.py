"""Messages of SQS as queues keep them, and messages of all protocols as SQS shows them.

An attribute is a header of its name, so that clients of other protocols see it; what a header
cannot say stands in one header of ours. A message that came by another protocol has its headers for
attributes, as far as SQS can have them.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Annotated, Final, TypeVar

import msgspec

from kafkaesque.broker.requests.queue_requests import QueueMessage
from kafkaesque.chassis.meanings import shown_headers
from kafkaesque.model.kernel_types import Headers
from kafkaesque.model.message_headers import DEATH, GROUP, ORIGIN, STORED_SQS
from kafkaesque.protocols.sqs.digests import digest_of_attributes, digest_of_body
from kafkaesque.protocols.sqs.errors import SqsError
from kafkaesque.protocols.sqs.messages import TRACE_HEADER, check_attributes
from kafkaesque.protocols.sqs.names import (
    Place,
    is_fifo_name,
    is_queue_name,
    message_id,
    sequence_number,
    write_arn,
    write_receipt,
)
from kafkaesque.protocols.sqs.service import Message, MessageAttributeValue

ReadT = TypeVar("ReadT")

#: Who sends, where nobody has to say who he is.
NOBODY: Final = "anonymous"


class Extra(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What stands in the header of ours."""

    version: int = 1
    #: Types of attributes that are not plain strings.
    types: dict[str, str] = msgspec.field(default_factory=dict)
    sender: str = NOBODY
    deduplication_id: str = ""
    group: str = ""
    trace: str = ""


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a message was first that was moved."""

    log: Annotated[str, msgspec.Meta(pattern="^([0-9a-f][0-9a-f])*$")]
    offset: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    at_ms: int


class Death(msgspec.Struct, frozen=True, kw_only=True):
    """Of which queue a message is a dead letter."""

    queue: str


#: What most messages have: nothing but defaults.
_NO_EXTRA: Final = Extra()
_NO_EXTRA_RAW: Final = msgspec.json.encode(_NO_EXTRA)
_extra: Final = msgspec.json.Decoder(Extra)
_origin: Final = msgspec.json.Decoder(Origin)
_death: Final = msgspec.json.Decoder(Death)


def headers_of(attributes: dict[str, MessageAttributeValue], extra: Extra) -> Headers:
    """Return a message's headers."""
    if not attributes:
        return ((STORED_SQS, msgspec.json.encode(extra)),)
    types = {
        name: value.data_type for name, value in attributes.items() if value.data_type != "String"
    }
    said: list[tuple[str, bytes | None]] = [
        (name, _raw(value)) for name, value in sorted(attributes.items())
    ]
    said.append((STORED_SQS, msgspec.json.encode(msgspec.structs.replace(extra, types=types))))
    return tuple(said)


def _raw(value: MessageAttributeValue) -> bytes:
    return value.binary_value or (value.string_value or "").encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a client wants to know of each message."""

    system: Collection[str]
    attributes: Collection[str]


def message_of(
    log_id: bytes, queue: str, found: QueueMessage, wanted: Wanted, now_ms: int
) -> Message:
    """Return a message as it is given to a client."""
    shown = _Shown(log_id, queue, found)
    body = (found.value or b"").decode(errors="replace")
    attributes: dict[str, MessageAttributeValue] = {}
    if wanted.attributes:
        attributes = _wanted_attributes(_attributes(shown.headers, shown.extra), wanted.attributes)
    system = shown.system_attributes(now_ms) if wanted.system else {}
    return Message(
        message_id=shown.message_id,
        receipt_handle=write_receipt(log_id, Place(found.offset, found.attempt)),
        md5_of_body=digest_of_body(body),
        body=body,
        attributes={
            name: value
            for name, value in system.items()
            if value and ("All" in wanted.system or name in wanted.system)
        },
        md5_of_message_attributes=digest_of_attributes(attributes),
        message_attributes=attributes,
    )


class _Shown:
    """One message, with what its headers say."""

    def __init__(self, log_id: bytes, queue: str, found: QueueMessage) -> None:
        self._queue = queue
        self._found = found
        headers = shown_headers(found.headers)
        self.headers = {name: value for name, value in headers if value is not None}
        said = self.headers.get(STORED_SQS)
        is_plain = said is None or said == _NO_EXTRA_RAW
        self.extra = _NO_EXTRA if is_plain else _read(_extra.decode, said) or _NO_EXTRA
        self._origin = _read(_origin.decode, self.headers.get(ORIGIN))
        #: It keeps its id where it is moved.
        self.message_id = (
            message_id(log_id, found.offset)
            if self._origin is None
            else message_id(bytes.fromhex(self._origin.log), self._origin.offset)
        )

    def system_attributes(self, now_ms: int) -> dict[str, str]:
        """Return what is known of it; empty where there is nothing to know."""
        found, origin, is_fifo = self._found, self._origin, is_fifo_name(self._queue)
        death = _read(_death.decode, self.headers.get(DEATH))
        group = self.headers.get(GROUP, b"").decode(errors="replace") or self.extra.group
        # Where messages are moved, two that were duplicates elsewhere are two.
        duplicate = self.message_id if origin is not None else self.extra.deduplication_id
        return {
            "SenderId": self.extra.sender,
            "SentTimestamp": str(found.timestamp_ms if origin is None else origin.at_ms),
            "ApproximateReceiveCount": str(found.failures + 1),
            # When it was first given out is not kept: not before it came.
            "ApproximateFirstReceiveTimestamp": str(
                found.timestamp_ms if found.failures else now_ms
            ),
            "SequenceNumber": sequence_number(found.offset) if is_fifo else "",
            "MessageDeduplicationId": duplicate if is_fifo else "",
            "MessageGroupId": group,
            TRACE_HEADER: self.extra.trace,
            "DeadLetterQueueSourceArn": (
                write_arn(death.queue) if death is not None and is_queue_name(death.queue) else ""
            ),
        }


def _attributes(headers: dict[str, bytes], extra: Extra) -> dict[str, MessageAttributeValue]:
    found: dict[str, MessageAttributeValue] = {}
    for name, raw in headers.items():
        if name == STORED_SQS:
            # Of all messages that came by SQS: refused below, too, and an error takes long.
            continue
        value = _attribute(raw, extra.types.get(name, "String"))
        try:
            check_attributes({name: value})
        except SqsError:
            # Not one that SQS can have: a header of ours, or of another protocol.
            continue
        found[name] = value
    return found


def _attribute(raw: bytes, data_type: str) -> MessageAttributeValue:
    if data_type.partition(".")[0] != "Binary":
        try:
            return MessageAttributeValue(data_type=data_type, string_value=raw.decode())
        except UnicodeDecodeError:
            data_type = "Binary"
    return MessageAttributeValue(data_type=data_type, binary_value=raw)


def _wanted_attributes(
    attributes: dict[str, MessageAttributeValue], wanted: Collection[str]
) -> dict[str, MessageAttributeValue]:
    if "All" in wanted or ".*" in wanted:
        return attributes
    prefixes = tuple(each.removesuffix("*") for each in wanted if each.endswith(".*"))
    return {
        name: value
        for name, value in attributes.items()
        if name in wanted or (prefixes and name.startswith(prefixes))
    }


def _read(decode: Callable[[bytes], ReadT], header: bytes | None) -> ReadT | None:
    """Return what a header says; None where it is not there, or somebody else's."""
    if header is None:
        return None
    try:
        return decode(header)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
