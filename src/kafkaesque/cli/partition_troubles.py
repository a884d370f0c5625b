"""Partitions that are not well, as a table that fits on a screen: users' topics come first."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from kafkaesque.cli.doctor.findings import in_words
from kafkaesque.cli.screen import Cell, Table, counted

#: With more of them, partitions are counted by topic; of more topics, the rest is counted.
ROWS_MAX: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Troubles:
    """What is the matter, with partitions named topic-number."""

    leaderless: Collection[str]
    under_replicated: Collection[str]
    #: On which brokers the replicas are that cannot be reached.
    offline: Mapping[str, Collection[int]]

    @property
    def names(self) -> list[str]:
        """All of them; users' topics first, and of each kind of topics those without a leader."""
        leaderless = set(self.leaderless)
        names = {*leaderless, *self.under_replicated, *self.offline}

        def place(name: str) -> tuple[bool, bool, str, int]:
            topic, _, number = name.rpartition("-")
            return topic.startswith("__"), name not in leaderless, topic, int(number)

        return sorted(names, key=place)


@dataclass(slots=True)
class _Topic:
    """How many partitions of a topic are in which trouble."""

    count: int = 0
    leaderless: int = 0
    under_replicated: int = 0
    offline: set[int] = field(default_factory=set)


def troubles_table(found: Troubles) -> Table | None:
    """Return a row for each partition, or of many for each topic; None where all is well."""
    names = found.names
    if not names:
        return None
    rows = _by_partition(found, names) if len(names) <= ROWS_MAX else _by_topic(found, names)
    return Table(title="problems", columns=("PARTITION", "PROBLEM"), rows=rows)


def _by_partition(found: Troubles, names: list[str]) -> list[tuple[Cell, ...]]:
    leaderless, missing = set(found.leaderless), set(found.under_replicated)
    rows: list[tuple[Cell, ...]] = []
    for name in names:
        words = ["no leader"] if name in leaderless else []
        words += ["replicas missing"] if name in missing else []
        offline = sorted(found.offline.get(name, ()))
        words += [f"offline on {in_words(offline)}"] if offline else []
        rows.append((name, "; ".join(words)))
    return rows


def _by_topic(found: Troubles, names: list[str]) -> list[tuple[Cell, ...]]:
    leaderless, missing = set(found.leaderless), set(found.under_replicated)
    topics: defaultdict[str, _Topic] = defaultdict(_Topic)
    for name in names:
        topic = topics[name.rpartition("-")[0]]
        topic.count += 1
        topic.leaderless += name in leaderless
        topic.under_replicated += name in missing
        topic.offline.update(found.offline.get(name, ()))
    shown = list(topics.items())[:ROWS_MAX]
    rows: list[tuple[Cell, ...]] = [
        (f"{topic.count} of {name}", _in_words(topic)) for name, topic in shown
    ]
    rest = list(topics.values())[ROWS_MAX:]
    if rest:
        partitions = counted(sum(topic.count for topic in rest), "partition")
        rows.append((f"{partitions} of {counted(len(rest), 'more topic')}", "--json names each"))
    return rows


def _in_words(topic: _Topic) -> str:
    words = [f"{topic.leaderless} without a leader"] if topic.leaderless else []
    words += [f"{topic.under_replicated} with replicas missing"] if topic.under_replicated else []
    words += [f"offline on {in_words(sorted(topic.offline))}"] if topic.offline else []
    return "; ".join(words)
