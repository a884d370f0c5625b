"""Until when a consumer gives out nothing: times as its configuration has them."""

from __future__ import annotations

from typing import Final

from kafkaesque.gateway.nats.jetstream.configs import NS_PER_MS, ConsumerConfig, shown_config
from kafkaesque.gateway.nats.jetstream.errors import ApiCode, ApiError
from kafkaesque.gateway.nats.jetstream.times import read_time, rfc3339

#: What of a configuration's metadata is the server's to say.
SERVERS: Final = "_nats."
#: Which level of the API a consumer needs; pauses came with the first.
_LEVEL: Final = SERVERS + "req.level"
#: What nats-server calls no time at all.
NEVER: Final = "0001-01-01T00:00:00Z"


def read_pause(text: str) -> str | None:
    """Return a time as it is kept; None: it is no time at all.

    Raises:
        ApiError: it cannot be read.
    """
    if not text or text == NEVER:
        return None
    end_ms = _read_ms(text)
    if end_ms is None:
        raise ApiError(ApiCode.INVALID_JSON, f"invalid JSON: {text!r} is no time")
    return rfc3339(end_ms)


def paused_ms(config: ConsumerConfig, wall_ms: int) -> int:
    """Return for how long a consumer gives out nothing, from now on."""
    if not config.pause_until:
        return 0
    return max(0, (_read_ms(config.pause_until) or 0) - wall_ms)


def shown_pause(config: ConsumerConfig, wall_ms: int) -> dict[str, object]:
    """Return what is said of a pause in a consumer's info: nothing, if it is over."""
    left_ms = paused_ms(config, wall_ms)
    return {"paused": True, "pause_remaining": left_ms * NS_PER_MS} if left_ms else {}


def shown_consumer(config: ConsumerConfig) -> dict[str, object]:
    """Return a configuration as clients are shown it, with what the server says in its metadata."""
    shown = shown_config(config)
    if config.pause_until:
        shown["metadata"] = {**(config.metadata or {}), _LEVEL: "1"}
    return shown


def own_metadata(config: ConsumerConfig) -> dict[str, str] | None:
    """Return a configuration's metadata without what a client was shown and gives back."""
    found = config.metadata or {}
    return {name: text for name, text in found.items() if not name.startswith(SERVERS)} or None


def _read_ms(text: str) -> int | None:
    try:
        return read_time(text)
    except (ValueError, OverflowError):
        return None
