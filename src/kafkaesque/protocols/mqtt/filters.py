"""Topic names and filters, as far as a packet has to be refused for them (section 4.7).

What a filter matches is decided by `routing`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kafkaesque.protocols.mqtt.reasons import ReasonCode

_SHARE: Final = "$share/"


class SharedFilter(NamedTuple):
    """A shared subscription: its members get each message once (section 4.8.2)."""

    group: str
    topic_filter: str


def is_topic_name(text: str) -> bool:
    """Tell whether a message can be published to it (4.7.1-1, 4.7.3-1)."""
    return text != "" and "+" not in text and "#" not in text


def is_topic_filter(text: str) -> bool:
    """Tell whether it can be subscribed to (4.7.1-2, 4.7.1-3, 4.7.3-1)."""
    if not text:
        return False
    if "+" not in text and "#" not in text:
        return True
    levels = text.split("/")
    if "#" in text and ("#" in text[:-1] or levels[-1] != "#"):
        return False
    return all(level == "+" or "+" not in level for level in levels)


def filter_reason(text: str) -> ReasonCode:
    """Return SUCCESS, or why there can be no such subscription."""
    if is_shared(text):
        is_valid = read_shared(text) is not None
    else:
        is_valid = is_topic_filter(text)
    return ReasonCode.SUCCESS if is_valid else ReasonCode.TOPIC_FILTER_INVALID


def is_shared(text: str) -> bool:
    """Tell whether a filter is meant to be shared; `$share` alone is a level like others."""
    return text.startswith(_SHARE)


def read_shared(text: str) -> SharedFilter | None:
    """Return group and filter of a shared subscription (4.8.2-1, 4.8.2-2); None if it is wrong."""
    group, slash, topic_filter = text.removeprefix(_SHARE).partition("/")
    if not group or not slash or "+" in group or "#" in group or not is_topic_filter(topic_filter):
        return None
    return SharedFilter(group, topic_filter)
