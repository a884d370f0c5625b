"""Lists as clients want them: sorted, searched, by page, and with some of their columns."""

from collections.abc import Sequence
from functools import cmp_to_key
from typing import Any, Final, NamedTuple

import msgspec

from kafkaesque.admin.rabbitmq.errors import ApiRefused
from kafkaesque.model.pattern_errors import reason_of

PAGE_SIZE: Final = 100
PAGE_SIZE_MAX: Final = 500
#: The longest pattern by which lists are searched.
PATTERN_LENGTH_MAX: Final = 500


class ListQuery(NamedTuple):
    """What the query of a request says of a list."""

    name: str
    #: Whether the name is a regular expression, and not a part of one.
    is_pattern: bool
    sort: str
    is_reversed: bool
    columns: Sequence[str]
    #: Empty: all at once.
    page: str
    page_size: str


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a list."""

    filtered_count: int
    item_count: int
    items: list[dict[str, object]]
    page: int
    page_count: int
    page_size: int
    total_count: int


_Item = dict[str, Any]


def shown_item(item: msgspec.Struct, columns: Sequence[str]) -> _Item:
    """Return one thing with nothing but the columns that are named; none named: all."""
    plain: _Item = msgspec.to_builtins(item)
    return _with_columns(plain, columns)


def shown_list(items: Sequence[msgspec.Struct], query: ListQuery) -> list[_Item] | Page:
    """Return a list as it is asked for.

    Raises:
        ApiRefused: the query says what cannot be.
    """
    every: list[_Item] = msgspec.to_builtins(items)
    wanted = _filtered(every, query)
    sort, columns = query.sort, query.columns
    if sort:
        wanted = sorted(
            wanted,
            key=cmp_to_key(lambda one, other: _compare(_at(one, sort), _at(other, sort))),
            reverse=query.is_reversed,
        )
    if not query.page:
        return [_with_columns(each, columns) for each in wanted]
    page, size = _place(query)
    count = -(-len(wanted) // size)
    if page > max(1, count):
        reason = f"Page out of range, page: {page} page size: {size}, len: {len(wanted)}"
        raise ApiRefused(400, reason, "page_out_of_range")
    here = wanted[(page - 1) * size : page * size]
    return Page(
        filtered_count=len(wanted),
        item_count=len(here),
        items=[_with_columns(each, columns) for each in here],
        page=page,
        page_count=count,
        page_size=size,
        total_count=len(every),
    )


def _filtered(items: list[_Item], query: ListQuery) -> list[_Item]:
    text = query.name
    if not text:
        return items
    if len(text) > PATTERN_LENGTH_MAX:
        raise ApiRefused(400, f"name has more than {PATTERN_LENGTH_MAX} characters")
    if not query.is_pattern:
        return [each for each in items if text.lower() in str(each.get("name", "")).lower()]
    import re2

    options = re2.Options()
    # It would write what a client has sent into this broker's log, as lines of its own.
    options.log_errors = False
    try:
        # Its time is bounded by the length of what it searches, whatever the pattern.
        pattern = re2.compile(text, options)
    except re2.error as error:
        raise ApiRefused(400, f"name is no regular expression: {reason_of(error)}") from None
    return [each for each in items if pattern.search(str(each.get("name", "")))]


def _place(query: ListQuery) -> tuple[int, int]:
    """Return the number of a page, and how long pages are.

    Raises:
        ApiRefused: one cannot be so; RabbitMQ's clients know its words.
    """
    page = _number(query.page)
    size = _number(query.page_size) if query.page_size else PAGE_SIZE
    if page < 1 or not 1 <= size <= PAGE_SIZE_MAX:
        said = size if query.page_size else "undefined"
        reason = f"Invalid pagination parameters: page number {page}, page size {said}"
        raise ApiRefused(400, reason, "invalid_pagination_parameters")
    return page, size


def _number(text: str) -> int:
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdecimal() or len(digits) > 9:
        raise ApiRefused(400, "Pagination parameters are invalid")
    return int(text)


def _with_columns(item: _Item, columns: Sequence[str]) -> _Item:
    """Return an item with nothing but these; a dot leads into what is nested."""
    if not columns:
        return item
    shown: _Item = {}
    for name in columns:
        value, target, parts = _at(item, name), shown, name.split(".")
        if value is None and parts[0] not in item:
            continue
        for part in parts[:-1]:
            target = target.setdefault(part, {})
        target[parts[-1]] = value
    return shown


def _at(item: object, path: str) -> object:
    for part in path.split("."):
        item = item.get(part) if isinstance(item, dict) else None
    return item


def _compare(one: object, other: object) -> int:
    """Numbers are compared as such, all else as text."""
    if isinstance(one, int | float) and isinstance(other, int | float):
        return (one > other) - (one < other)
    left, right = str(one), str(other)
    return (left > right) - (left < right)
