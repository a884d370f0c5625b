"""How long a client was throttled, written into an answer that is encoded already."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any, Final

from kafkaesque.protocols.kafka.api import ApiKey, is_flexible

#: Length and correlation id.
_HEAD_BYTES: Final = 8
_TIME: Final = Struct(">i")

#: Where the time comes first in the body, with the first version that has it.
_TIME_FIRST_FROM: Final = {ApiKey.FETCH: 1, ApiKey.METADATA: 3}


def with_throttle_time(
    api_key: int, api_version: int, parts: Sequence[Any], throttle_time_ms: int
) -> Sequence[Any]:
    """Returns a frame's parts with the time in its place; the parts themselves stay as they are.

    For the answers that are not encoded from a message: Produce without node endpoints, Fetch and
    Metadata. Others, and versions that have no such field, are returned as they are.
    """
    flexible = is_flexible(api_key, api_version)
    if api_key == ApiKey.PRODUCE:
        if not parts:
            return parts
        # Only the tagged fields come after it, of which there are none.
        frame = bytearray().join(parts)
        _TIME.pack_into(frame, len(frame) - (5 if flexible else 4), throttle_time_ms)
        return (frame,)
    first = _TIME_FIRST_FROM.get(api_key)  # type: ignore[call-overload]
    if first is None or api_version < first:
        return parts
    at = _HEAD_BYTES + flexible
    head = bytearray()
    for count, part in enumerate(parts, start=1):
        head += part
        if len(head) >= at + _TIME.size:
            _TIME.pack_into(head, at, throttle_time_ms)
            return (head, *parts[count:])
    return parts
