"""What a cluster's members know of one another by gossip, asked at a broker's admin port."""

from collections.abc import Sequence
from dataclasses import dataclass

from kafkaesque.cli.admin_pages import BrokerAddress, read_page
from kafkaesque.cli.screen import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class GossipMember:
    """A member as the broker that was asked sees it."""

    id: int
    state: str
    for_ms: int
    address: str
    facts: dict[str, str | int | float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class GossipMembers:
    """All members, and which broker sees them so."""

    seen_by: int
    members: list[GossipMember]


def read_members(brokers: Sequence[BrokerAddress]) -> GossipMembers | None:
    """Return what the first broker that answers knows; None without gossip or admin ports."""
    return read_page(brokers, "/members", GossipMembers)


def members_table(found: GossipMembers) -> Table:
    """Return the table for people."""
    rows = [
        (
            each.id,
            each.state,
            _duration(each.for_ms),
            each.address,
            str(each.facts.get("rack", "-")),
            str(each.facts.get("release", "-")),
        )
        for each in found.members
    ]
    return Table(
        title=f"members, as broker {found.seen_by} knows them by gossip",
        columns=("BROKER", "STATE", "FOR", "PEER-ADDRESS", "RACK", "RELEASE"),
        rows=rows,
    )


def _duration(ms: int) -> str:
    seconds = ms // 1000
    if seconds < 120:
        return f"{seconds} s"
    minutes = seconds // 60
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"
