"""What a cluster's members know of one another by gossip, asked at a broker's admin port."""

from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from typing import Final

import msgspec

from kafkaesque.cli.kafka_request import Exchange
from kafkaesque.cli.screen import Table
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.errors import MalformedRequest
from kafkaesque.protocols.kafka.messages.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)

TIMEOUT_S: Final = 5.0
ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
_CONFIGS: Final = 4
_BROKER: Final = 4


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


def read_members(brokers: Sequence[tuple[int, str, int]]) -> GossipMembers | None:
    """Return what the first broker that answers knows; None without gossip or admin ports."""
    for number, host, port in brokers:
        try:
            admin = _admin_address(number, host, port)
            found = _get(admin) if admin else None
        except (OSError, EOFError, MalformedRequest, HTTPException, ValueError):
            continue
        if found is not None:
            return found
    return None


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
        columns=("BROKER", "STATE", "FOR", "PEER ADDRESS", "RACK", "RELEASE"),
        rows=rows,
    )


def _duration(ms: int) -> str:
    seconds = ms // 1000
    if seconds < 120:
        return f"{seconds} s"
    minutes = seconds // 60
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"


def _admin_address(number: int, host: str, port: int) -> str:
    resource = DescribeConfigsResource(_BROKER, str(number), ["admin.listener"])
    with Exchange(host, port) as exchange:
        answer = exchange.ask(
            ApiKey.DESCRIBE_CONFIGS, _CONFIGS, DescribeConfigsRequest([resource], False, False)
        )
    values = [str(each.value or "") for result in answer.results for each in result.configs]
    return values[0] if values else ""


def _get(admin: str) -> GossipMembers | None:
    host, _, port = admin.rpartition(":")
    connection = HTTPConnection(host, int(port), timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/members")
        answer = connection.getresponse()
        if answer.status != 200:
            return None
        return msgspec.json.decode(answer.read(ANSWER_BYTES_MAX), type=GossipMembers)
    finally:
        connection.close()
