"""What may be asked for as a stream's origins, with nats-server's numbers for what may not."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from kafkaesque.gateway.nats.jetstream.configs import StreamConfig
from kafkaesque.gateway.nats.jetstream.errors import ApiCode, ApiError
from kafkaesque.gateway.nats.jetstream.sources import StreamSource
from kafkaesque.protocols.nats.subjects import is_subject

#: A topic's name, which is more than a stream may be called.
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
SOURCES_MAX: Final = 100


def sources_of(config: StreamConfig) -> list[StreamSource]:
    """Return where a stream has its messages from, beside its own subjects."""
    return [config.mirror] if config.mirror is not None else config.sources or []


def check_origins(config: StreamConfig) -> None:
    """Check where a stream is to have its messages from.

    Raises:
        ApiError: it is not supported, or says nothing that could be done.
    """
    if config.mirror is not None:
        if config.subjects:
            raise ApiError(ApiCode.MIRROR_WITH_SUBJECTS)
        if config.sources:
            raise ApiError(ApiCode.MIRROR_WITH_SOURCES)
        _check_one(config.mirror, config.name, _MIRROR)
    sources = config.sources or []
    if len(sources) > SOURCES_MAX:
        raise ApiError(ApiCode.STREAM_CONFIG, f"a stream has at most {SOURCES_MAX} sources")
    seen: set[tuple[str, bytes]] = set()
    for each in sources:
        _check_one(each, config.name, _SOURCE)
        if (each.name, each.mark) in seen:
            raise ApiError(ApiCode.SOURCE_TWICE)
        seen.add((each.name, each.mark))


class _Codes:
    """What is said of a mirror's origin, or of a source."""

    def __init__(
        self, word: str, name: ApiCode, filter_: ApiCode, both: ApiCode, transform: ApiCode
    ) -> None:
        self.word: Final = word
        self.name: Final = name
        self.filter: Final = filter_
        self.both: Final = both
        self.transform: Final = transform


_MIRROR: Final = _Codes(
    "mirror",
    ApiCode.MIRROR_NAME,
    ApiCode.MIRROR_FILTER,
    ApiCode.MIRROR_FILTER_AND_TRANSFORMS,
    ApiCode.MIRROR_TRANSFORM,
)
_SOURCE: Final = _Codes(
    "source",
    ApiCode.SOURCE_NAME,
    ApiCode.SOURCE_FILTER,
    ApiCode.SOURCE_FILTER_AND_TRANSFORMS,
    ApiCode.SOURCE_TRANSFORM,
)


def _check_one(source: StreamSource, own_name: str, codes: _Codes) -> None:
    if not _NAME.fullmatch(source.name):
        raise ApiError(codes.name)
    if source.external or source.consumer:
        what = "origins outside of this cluster are not supported by this server"
        raise ApiError(ApiCode.STREAM_CONFIG, what)
    if source.name == own_name:
        raise ApiError(ApiCode.STREAM_CONFIG, f"the {codes.word} is the stream itself")
    if source.opt_start_seq and source.opt_start_time:
        if codes is _MIRROR:
            raise ApiError(ApiCode.MIRROR_TWO_STARTS)
        what = "a source can not have both start seq and start time configured"
        raise ApiError(ApiCode.STREAM_CONFIG, what)
    try:
        _ = source.start_ms
    except (ValueError, OverflowError):
        what = f"opt_start_time {source.opt_start_time!r} is no time"
        raise ApiError(ApiCode.INVALID_JSON, f"invalid JSON: {what}") from None
    if source.opt_start_seq < 0:
        raise ApiError(ApiCode.STREAM_CONFIG, "opt_start_seq is not negative")
    if source.filter_subject and not is_subject(source.filter_subject):
        raise ApiError(codes.filter)
    if source.filter_subject and source.subject_transforms:
        raise ApiError(codes.both)
    if not all(each.is_good for each in source.transforms):
        raise ApiError(codes.transform)


def check_circles(config: StreamConfig, look: Callable[[str], StreamConfig | None]) -> None:
    """Check that what a stream has does not come from itself.

    Raises:
        ApiError: it would, and its messages would go round and round.
    """
    seen, left = set[str](), [each.name for each in sources_of(config)]
    while left:
        name = left.pop()
        if name == config.name:
            raise ApiError(ApiCode.STREAM_CONFIG, f"stream {name} would have its own messages")
        if name not in seen:
            seen.add(name)
            origin = look(name)
            left += [] if origin is None else [each.name for each in sources_of(origin)]
