"""Records, bytes and rates of topics, as an admin port tells them."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from kafkaesque.cli.screen import Cell, size_text

#: Of one page of the API.
PAGE_MAX: Final = 1_000
PAGES_MAX: Final = 1_000
#: Leaders add up what they lead once in two seconds.
RATE_S: Final = 2.5


class _Topic(msgspec.Struct):
    name: str
    messages: int | None
    bytes: int | None
    offsets: int | None = None


class _Page(msgspec.Struct):
    items: list[_Topic]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSizes:
    """What is known of topics, by name."""

    topics: Mapping[str, _Topic]
    #: When they were asked for, in seconds of a clock of its own.
    at_s: float
    #: Records per second; None: that was not measured.
    rates: Mapping[str, float] | None = None

    def document(self, name: str) -> dict[str, object]:
        """Return what is known of a topic."""
        found = self.topics.get(name)
        said: dict[str, object] = {
            "messages": None if found is None else found.messages,
            "bytes": None if found is None else found.bytes,
        }
        if self.rates is not None:
            said["messages_per_s"] = self.rates.get(name)
        return said


def read_sizes(bootstrap: str) -> TopicSizes | None:
    """Return the sizes of all topics; None where no admin port answers."""
    from kafkaesque.cli.admin_pages import read_page
    from kafkaesque.cli.alive_brokers import alive_addresses

    brokers = alive_addresses(bootstrap)
    topics: dict[str, _Topic] = {}
    after = ""
    for _ in range(PAGES_MAX):
        path = f"/api/v1/topics?internal=true&limit={PAGE_MAX}{after}"
        page = read_page(brokers, path, _Page)
        if page is None:
            return None
        topics.update({each.name: each for each in page.items})
        if page.next is None:
            break
        after = f"&after={_quote(page.next)}"
    return TopicSizes(topics=topics, at_s=time.monotonic())


def with_rates(bootstrap: str, before: TopicSizes | None) -> TopicSizes:
    """Return sizes of a moment later, with what was added meanwhile.

    Raises:
        CommandFailed: no admin port answers.
    """
    from kafkaesque.cli.admin_pages import no_admin_port

    if before is not None:
        time.sleep(RATE_S)
        after = read_sizes(bootstrap)
        if after is not None:
            return rated(before, after)
    raise no_admin_port()


def rated(before: TopicSizes, after: TopicSizes) -> TopicSizes:
    """Return the later sizes with rates since the earlier ones."""
    elapsed_s = max(after.at_s - before.at_s, 0.001)
    rates = {}
    for name, topic in after.topics.items():
        earlier = before.topics.get(name)
        if earlier is not None and earlier.offsets is not None and topic.offsets is not None:
            # A topic that was made again begins anew.
            rates[name] = max(0, topic.offsets - earlier.offsets) / elapsed_s
    return TopicSizes(topics=after.topics, at_s=after.at_s, rates=rates)


def size_columns(known: TopicSizes | None) -> Sequence[str]:
    """Return the names of the columns that there are."""
    if known is None:
        return ()
    return ("RECORDS", "SIZE") if known.rates is None else ("RECORDS", "SIZE", "RECORDS/S")


def size_cells(known: TopicSizes | None, name: str) -> tuple[Cell, ...]:
    """Return a topic's cells in these columns."""
    if known is None:
        return ()
    found = known.topics.get(name)
    cells: tuple[Cell, ...] = (
        None if found is None else found.messages,
        None if found is None or found.bytes is None else size_text(found.bytes),
    )
    if known.rates is None:
        return cells
    rate = known.rates.get(name)
    return (*cells, None if rate is None else f"{rate:.1f}")


def _quote(text: str) -> str:
    from urllib.parse import quote

    return quote(text, safe="")
