"""Looks at queues: what they have, and since when; any broker asks their leaders."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kafkaesque.broker.options.queues import DEFAULT_EXCHANGE_WORD
from kafkaesque.cli.doctor.facts import Facts, QueueFacts
from kafkaesque.cli.exchange_requests import describe as describe_exchanges
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.queue_requests import describe_all, list_queues
from kafkaesque.cli.screen import counted
from kafkaesque.protocols.kafka.messages.describe_queues_response import DescribedQueue

#: Queues whose messages are counted; beyond them it takes too long.
QUEUES_MAX: Final = 2_000
#: Brokers look for a queue's leader for so long.
LOOK_MS: Final = 3_000


def look_at_queues(facts: Facts, unseen: list[str]) -> list[QueueFacts]:
    """Return the queues that the user may see; of those without a leader, that they have none."""
    if not facts.alive_addresses:
        return []
    bootstrap = facts.alive_addresses
    try:
        listed = list_queues(bootstrap)
        led = [each for each in listed if each.leader_id >= 0]
        described = describe_all(bootstrap, led[:QUEUES_MAX], timeout_ms=LOOK_MS)
    except CommandFailed as failure:
        unseen.append(f"queues: {failure.message}")
        return []
    if len(led) > QUEUES_MAX:
        unseen.append(f"messages of {len(led) - QUEUES_MAX} of {len(led)} queues: too many")
    silent = [each.queue for each in described if each.error_code]
    if silent:
        unseen.append(
            f"messages of {counted(len(silent), 'queue')}, {silent[0]} for one: no answer in time"
        )
    found = facts_of(listed, described, time.time() * 1000)
    return _with_exchanges(bootstrap, found, unseen)


def _with_exchanges(
    bootstrap: str, queues: list[QueueFacts], unseen: list[str]
) -> list[QueueFacts]:
    """Return queues with whether the exchange for dead letters is there, if they name one."""
    if not any(_exchange_of(each) for each in queues):
        return queues
    try:
        vhosts = describe_exchanges(bootstrap, None)
    except CommandFailed as failure:
        unseen.append(f"exchanges for dead letters: {failure.message}")
        return queues
    there = {(vhost.vhost, one.exchange) for vhost in vhosts for one in vhost.exchanges}
    return [
        replace(each, lacks_exchange=bool(name) and (each.vhost, name) not in there)
        for each in queues
        for name in (_exchange_of(each),)
    ]


def _exchange_of(queue: QueueFacts) -> str:
    """Return the exchange for dead letters; empty: none, or the one that is always there."""
    name = queue.options.get("dead.letter.exchange", "")
    return "" if name == DEFAULT_EXCHANGE_WORD else name


def facts_of(
    listed: Sequence[DescribedQueue], described: Sequence[DescribedQueue], now_ms: float
) -> list[QueueFacts]:
    """Return queues with what is known of them."""
    by_name = {(each.vhost, each.queue): each for each in described if not each.error_code}
    found = []
    for each in listed:
        known = by_name.get((each.vhost, each.queue))
        counts = {} if known is None else {one.name: one.count for one in known.counts}
        options = {one.name: one.value for one in each.options if one.is_set}
        found.append(
            QueueFacts(
                vhost=each.vhost,
                name=each.queue,
                leader=each.leader_id,
                options=options,
                counts=counts,
                oldest_s=_age_s(counts.get("oldest_ms", 0), now_ms),
                newest_s=_age_s(counts.get("newest_ms", 0), now_ms),
            )
        )
    return found


def _age_s(came_ms: int, now_ms: float) -> float | None:
    return max(0.0, (now_ms - came_ms) / 1000) if came_ms else None
