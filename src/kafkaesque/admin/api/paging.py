"""Searching, sorting and paging of lists: the same for all of them, and in the broker."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import msgspec

from kafkaesque.model.errors import InvalidRequest

LIMIT_MAX: Final = 1_000
#: The longest text that is searched for.
TEXT_MAX: Final = 200

T = TypeVar("T")

#: Of an item: what it is sorted by; a name makes it unique.
Key = Callable[[T], Any]


class ListQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which page of a list."""

    #: Only items whose name contains this, whatever the case.
    q: Annotated[str, msgspec.Meta(max_length=TEXT_MAX)] = ""
    #: A field; with a minus before it, the highest first.
    sort: str = ""
    #: `next` of the page before.
    after: Annotated[str, msgspec.Meta(max_length=2_000)] = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=LIMIT_MAX)] = 100


class PageOf(NamedTuple):
    """Part of a list, and where the next part begins."""

    items: list[Any]
    total: int
    next: str | None


def wants(query: ListQuery, name: str) -> bool:
    """Tell whether an item of this name is searched for."""
    return query.q.lower() in name.lower()


def sort_field(query: ListQuery, keys: Mapping[str, Key[Any]], default: str) -> str:
    """Return by what to sort; what is asked for may be looked for in a later turn.

    Raises:
        InvalidRequest: it is no field of this list, or begins after what is none of a page.
    """
    if query.after:
        _read_cursor(query.after)
    name = (query.sort or default).removeprefix("-")
    if name not in keys:
        raise InvalidRequest(f"sort is one of {', '.join(keys)}, not {name!r}")
    return name


def take_page(
    items: Sequence[T], query: ListQuery, keys: Mapping[str, Key[T]], default: str
) -> PageOf:
    """Return a page; items with the same value are sorted by their first key, which is unique.

    Raises:
        InvalidRequest: the field or the cursor is none of this list.
    """
    key = keys[sort_field(query, keys, default)]
    unique = next(iter(keys.values()))
    is_falling = (query.sort or default).startswith("-")

    def place(item: T) -> tuple[Any, ...]:
        value = key(item)
        return (value is not None, value if value is not None else 0, unique(item))

    found = sorted(items, key=place, reverse=is_falling)
    begin = 0
    if query.after:
        cursor = _read_cursor(query.after)
        try:
            begin = _after(found, place, cursor, is_falling=is_falling)
        except TypeError:
            raise InvalidRequest("after is `next` of another list") from None
    page = found[begin : begin + query.limit]
    is_last = begin + len(page) >= len(found)
    return PageOf(page, len(found), None if is_last or not page else _cursor(place(page[-1])))


def _after(
    found: Sequence[T],
    place: Callable[[T], tuple[Any, ...]],
    cursor: tuple[Any, ...],
    *,
    is_falling: bool,
) -> int:
    if not is_falling:
        return bisect_right(found, cursor, key=place)
    # From the highest to the lowest: the first one that is below the cursor.
    low, high = 0, len(found)
    while low < high:
        middle = (low + high) // 2
        if place(found[middle]) < cursor:
            high = middle
        else:
            low = middle + 1
    return low


def _cursor(place: tuple[Any, ...]) -> str:
    return urlsafe_b64encode(msgspec.msgpack.encode(place)).decode().rstrip("=")


def _read_cursor(text: str) -> tuple[Any, ...]:
    try:
        data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        is_known, value, unique = msgspec.msgpack.decode(data)
    except (ValueError, TypeError, RecursionError, msgspec.MsgspecError):
        raise InvalidRequest("after is no `next` of a page") from None
    return (is_known, value, tuple(unique) if isinstance(unique, list) else unique)
