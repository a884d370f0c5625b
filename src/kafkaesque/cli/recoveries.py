"""Partitions that are or ever were recovered (ADR 16), asked at a broker's admin port."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlencode

from kafkaesque.cli.admin_pages import BrokerAddress, read_page
from kafkaesque.cli.screen import Cell, Table

#: Rows that `cluster status` shows; what waits and what is newest comes first.
ROWS_MAX: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """A partition whose group has had more than one formation."""

    topic: str
    partition: int
    #: The newest; the one that the partition began with is 0.
    formation: int
    #: Whether it waits for replicas, for how long, and which of them have told what they have.
    is_open: bool
    open_ms: int
    replicas: list[int]
    told: list[int]
    #: The newest decision; 0 where the time was not written down.
    at_ms: int
    is_clean: bool
    voters: list[int]
    #: The newest unclean one, and from which offset on it gave records up.
    unclean_at_ms: int | None
    unclean_offset: int | None
    #: Records that it gave up, as far as replicas that had them have come back.
    given_up: int

    @property
    def name(self) -> str:
        """Topic and number."""
        return f"{self.topic}-{self.partition}"

    @property
    def state(self) -> str:
        """What has come of it, for people."""
        if self.is_open:
            told = ",".join(map(str, self.told)) or "nobody"
            return f"recovering for {self.open_ms // 1000} s; answers from: {told}"
        at = _time(self.at_ms)
        return f"recovered{at} ({'clean' if self.is_clean else 'unclean'})"

    @property
    def lost(self) -> str | None:
        """What an unclean election has given up, for people."""
        if self.unclean_at_ms is None:
            return None
        return (
            f"unclean{_time(self.unclean_at_ms)}: records from offset {self.unclean_offset} on"
            f" given up; {self.given_up} known"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recoveries:
    """What one broker knows of all of them."""

    seen_by: int
    count: int
    #: How many wait.
    open: int
    #: Those that wait first, then the newest; not all where they are many.
    recoveries: list[Recovery]


def read_recoveries(
    brokers: Sequence[BrokerAddress], topics: Sequence[str] = ()
) -> Recoveries | None:
    """Return what the first broker that answers knows; None without admin ports."""
    query = f"?{urlencode([('topic', each) for each in topics])}" if topics else ""
    return read_page(brokers, f"/recoveries{query}", Recoveries)


def recoveries_table(found: Recoveries) -> Table:
    """Return the table for people."""
    rows: list[tuple[Cell, ...]] = [
        (each.name, each.formation, each.state, each.lost) for each in found.recoveries[:ROWS_MAX]
    ]
    more = found.count - len(rows)
    return Table(
        title="recoveries" + (f", without {more} more" if more > 0 else ""),
        columns=("PARTITION", "FORMATION", "STATE", "GIVEN-UP"),
        rows=rows,
    )


def _time(wall_ms: int) -> str:
    if not wall_ms:
        return ""
    return f" at {datetime.fromtimestamp(wall_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
