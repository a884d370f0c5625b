"""Who has said the same filter: one number, or a sorted array of them.

Most filters have one subscriber, and a number takes 32 bytes where an array would take 90. Of
thousands of subscribers each takes four bytes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import TypeAlias

#: Numbers of subscribers are from 0 up to here.
SUBSCRIBER_MAX = 2**32 - 1

#: Whoever receives one must not change it.
Subscribers: TypeAlias = "int | array[int]"


def with_one(found: Subscribers | None, subscriber: int) -> Subscribers | None:
    """Return the subscribers and one more, perhaps as the same array; None: it was there."""
    if found is None:
        return subscriber
    if isinstance(found, int):
        if found == subscriber:
            return None
        return array("I", sorted((found, subscriber)))
    at = bisect_left(found, subscriber)
    if at < len(found) and found[at] == subscriber:
        return None
    found.insert(at, subscriber)
    return found


def without(found: Subscribers, subscriber: int) -> tuple[bool, Subscribers | None]:
    """Return whether it was there, and the subscribers without it; None: nobody is left."""
    if isinstance(found, int):
        return (True, None) if found == subscriber else (False, found)
    at = bisect_left(found, subscriber)
    if at == len(found) or found[at] != subscriber:
        return False, found
    del found[at]
    return True, found[0] if len(found) == 1 else found
