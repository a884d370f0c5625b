"""What members of a classic consumer group tell one another through the coordinator.

The coordinator passes these bytes on without reading them; administration reads them to say who
consumes what, and so do simulated clients. The first two bytes are the version of the rest.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from kafkaesque.protocols.kafka.errors import MalformedRequest
from kafkaesque.protocols.kafka.messages import (
    consumer_protocol_assignment,
    consumer_protocol_subscription,
)
from kafkaesque.protocols.kafka.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
)
from kafkaesque.protocols.kafka.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)
from kafkaesque.protocols.kafka.wire import Buffer

VERSION_MAX: Final = 3

_VERSION: Final = Struct(">h")


def _version(payload: memoryview) -> int:
    """Returns the version to read with; a newer one starts like the newest that is known."""
    if len(payload) < _VERSION.size:
        raise MalformedRequest("consumer protocol without a version")
    version: int = _VERSION.unpack_from(payload)[0]
    if version < 0:
        raise MalformedRequest(f"consumer protocol version {version}")
    return min(version, VERSION_MAX)


def read_subscription(payload: Buffer) -> ConsumerProtocolSubscription:
    """Returns what a member of a group wants.

    Raises:
        MalformedRequest: the bytes are not a subscription.
    """
    buf = memoryview(payload)
    return consumer_protocol_subscription.READ[_version(buf)](buf, _VERSION.size)


def read_assignment(payload: Buffer) -> ConsumerProtocolAssignment:
    """Returns what the leader of a group gave to a member; raises like `read_subscription`."""
    buf = memoryview(payload)
    return consumer_protocol_assignment.READ[_version(buf)](buf, _VERSION.size)


def write_subscription(message: ConsumerProtocolSubscription, version: int = VERSION_MAX) -> bytes:
    """Returns the bytes of a subscription, its version first."""
    parts: list[Buffer] = [_VERSION.pack(version)]
    consumer_protocol_subscription.WRITE[version](message, parts)
    return b"".join(parts)


def write_assignment(message: ConsumerProtocolAssignment, version: int = VERSION_MAX) -> bytes:
    """Returns the bytes of an assignment, its version first."""
    parts: list[Buffer] = [_VERSION.pack(version)]
    consumer_protocol_assignment.WRITE[version](message, parts)
    return b"".join(parts)
