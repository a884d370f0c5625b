"""W3C trace context in the headers of a record (https://www.w3.org/TR/trace-context/)."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
#: As a record has it: what batches are searched for.
TRACEPARENT_BYTES: Final = TRACEPARENT.encode()
#: Of a longer one nothing is kept: the specification lets vendors drop it.
STATE_BYTES_MAX: Final = 512

_SAMPLED: Final = 1
#: Version, trace id, parent id, flags; later versions may say more behind.
_FORM: Final = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_NO_TRACE: Final = b"0" * 32
_NO_PARENT: Final = b"0" * 16


class TraceContext(NamedTuple):
    """Which trace a message belongs to, and which span has sent it."""

    trace_id: bytes
    parent_id: bytes
    is_sampled: bool
    state: str = ""


def read_context(headers: Sequence[tuple[str, bytes | None]]) -> TraceContext | None:
    """Return what the headers of a record say; None where they say nothing that holds.

    Whoever names itself twice names itself by neither.
    """
    parents = [value for name, value in headers if name == TRACEPARENT]
    found = _FORM.fullmatch(parents[0] or b"") if len(parents) == 1 else None
    if found is None:
        return None
    version, trace_id, parent_id, flags, rest = found.groups()
    is_known = version != b"ff" and (version != b"00" or rest is None)
    if not is_known or trace_id == _NO_TRACE or parent_id == _NO_PARENT:
        return None
    return TraceContext(
        trace_id=bytes.fromhex(trace_id.decode()),
        parent_id=bytes.fromhex(parent_id.decode()),
        is_sampled=bool(int(flags, 16) & _SAMPLED),
        state=_state_of(headers),
    )


def _state_of(headers: Sequence[tuple[str, bytes | None]]) -> str:
    states = [value or b"" for name, value in headers if name == TRACESTATE]
    joined = b",".join(states)
    return joined.decode(errors="replace") if len(joined) <= STATE_BYTES_MAX else ""
