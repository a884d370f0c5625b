"""A list that all brokers have a part in: they are asked, and one page of it is the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kafkaesque.admin.api.calls import Call
from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.fan_out import Gathered, PartPage
from kafkaesque.admin.api.paging import ListQuery, sort_field, take_page, wants
from kafkaesque.admin.api.part_pages import Nothing

#: What a list can be sorted by; the first one is unique, and counts where nobody chooses.
Keys = Mapping[str, Callable[[Any], Any]]


def answer_list(
    context: Context,
    call: Call[Any, None],
    page_kind: PartPage[Nothing, Any],
    attribute: str,
    keys: Keys,
    listing: Any,
    words: Callable[[Any], str],
    is_wanted: Callable[[Any], bool] = lambda _: True,
) -> None:
    """Answer with a page of what is in `attribute` of all brokers' parts.

    `words` are what `q` searches.

    Raises:
        InvalidRequest: the list cannot be sorted so.
    """
    query: ListQuery = call.query
    default = next(iter(keys))
    sort_field(query, keys, default)

    def on_gathered(gathered: Gathered[Any]) -> None:
        told = [e for answer in gathered.answers.values() for e in getattr(answer, attribute)]
        found = [each for each in told if wants(query, words(each)) and is_wanted(each)]
        page = take_page(found, query, keys, default)
        call.answer(context.page_view(listing, page, gathered.sources))

    context.fan_out.ask_all(
        page_kind, Nothing(), lambda gathered: call.guard(lambda: on_gathered(gathered))
    )
