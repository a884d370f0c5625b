"""What a broker says to a consumer's client beside messages."""

from __future__ import annotations

from kafkaesque.protocols.nats.headers import Headers, write_headers

Pairs = tuple[tuple[str, str], ...]

IDLE_HEARTBEAT = "Idle Heartbeat"
FLOW_CONTROL = "FlowControl Request"


def status(code: int, what: str, pairs: Pairs = ()) -> bytes:
    """Return the headers of a message that has a status and nothing else."""
    return write_headers(Headers(pairs, code, what))


def heartbeat(consumer_sequence: int, stream_sequence: int, stalled: str = "") -> bytes:
    """Return the headers of a sign of life, by which clients see whether they miss something."""
    pairs: Pairs = (
        ("Nats-Last-Consumer", str(consumer_sequence)),
        ("Nats-Last-Stream", str(stream_sequence)),
    )
    if stalled:
        pairs = (*pairs, ("Nats-Consumer-Stalled", stalled))
    return status(100, IDLE_HEARTBEAT, pairs)
