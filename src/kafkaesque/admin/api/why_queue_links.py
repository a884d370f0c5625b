"""What holds up a message of a queue: its links, made of facts that others have gathered."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kafkaesque.admin.api.why_links import BLOCKING, PASSED, UNKNOWN, Link
from kafkaesque.broker.metadata.queue_names import QueueName
from kafkaesque.broker.requests.queue_requests import PeekedMessage, QueueCounts
from kafkaesque.model.message_headers import DEATH, GROUP

#: Nobody has asked for messages for so long: then nobody wants any.
UNWANTED_MS_MIN: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Burial:
    """That a queue's message became a dead letter."""

    queue: str
    reason: str
    attempts: int
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFacts:
    """A message of a queue, as far as it could be found out."""

    name: QueueName
    offset: int
    options: Mapping[str, str]
    replicas: Sequence[int]
    leader: int | None
    #: Why the leader has not answered; empty: it has.
    refusal: str = ""
    counts: QueueCounts | None = None
    message: PeekedMessage | None = None
    #: An earlier one of the same ordered group that is not settled.
    ahead: PeekedMessage | None = None
    burial: Burial | None = None


def queue_links(facts: QueueFacts) -> Iterator[Link]:
    """Say what a message of a queue has passed, and what holds it up."""
    name, offset = facts.name, facts.offset
    if facts.leader is None:
        yield Link(
            name="leader",
            state=BLOCKING,
            what=f"{name} has no leader: nothing can be put or taken",
            evidence=[f"replicas: {', '.join(map(str, facts.replicas))}"],
            command="kafkaesque doctor",
        )
        return
    if facts.counts is None:
        yield Link(
            name="leader",
            state=UNKNOWN,
            what=f"the leader of {name} does not answer",
            evidence=[facts.refusal],
            command="kafkaesque doctor",
        )
        return
    yield Link(name="leader", state=PASSED, what=f"broker {facts.leader} leads {name}")
    if facts.message is None:
        yield _absent_link(facts, facts.counts)
        return
    yield Link(name="present", state=PASSED, what=f"message {offset} is in {name}")
    if facts.message.place == "ready":
        yield from _ready_links(facts, facts.counts, facts.message)
    else:
        yield _place_link(facts, facts.message)


def _absent_link(facts: QueueFacts, counts: QueueCounts) -> Link:
    name, offset, burial = facts.name, facts.offset, facts.burial
    if offset >= counts.end:
        return Link(
            name="written",
            state=BLOCKING,
            what=f"nobody has put message {offset} into {name} yet",
            evidence=[f"{counts.arrived} messages have come, the next one is {counts.end}"],
            command=f"kafkaesque queue describe {name.name}",
        )
    if burial is not None:
        return Link(
            name="dead-letter",
            state=BLOCKING,
            what=f"message {offset} was given up, and is in {burial.queue} now",
            evidence=[f"{burial.reason.replace('_', ' ')} after {burial.attempts} attempts"],
            since=burial.at_ms or None,
            command=f"kafkaesque queue redrive {burial.queue} --to {name.name}",
        )
    gone = [
        f"{count} {why.replace('_', ' ')}" for why, count in sorted(counts.removed.items()) if count
    ]
    return Link(
        name="present",
        state=BLOCKING,
        what=f"message {offset} is no longer in {name}",
        evidence=[f"of all that came are gone: {', '.join(gone) or 'none'}"],
        command=f"kafkaesque queue peek {name.name}",
    )


def _ready_links(facts: QueueFacts, counts: QueueCounts, message: PeekedMessage) -> Iterator[Link]:
    name, ahead = facts.name.name, facts.ahead
    describe = f"kafkaesque queue describe {name}"
    if ahead is not None:
        failed = ahead.message.failures
        yield Link(
            name="order",
            state=BLOCKING,
            what=f"message {ahead.message.offset} of the same group comes first, and is not done",
            evidence=[f"it is {ahead.place}, {failed} attempts have failed"],
            since=ahead.message.timestamp_ms,
            command=f"kafkaesque why queue {name} {ahead.message.offset}",
        )
        return
    if counts.in_flight_max and counts.in_flight >= counts.in_flight_max:
        yield Link(
            name="credit",
            state=BLOCKING,
            what=f"consumers of {name} have as many messages as max.in.flight lets them",
            evidence=[f"{counts.in_flight} in flight, max.in.flight={counts.in_flight_max}"],
            command=f"kafkaesque queue alter {name} --config max.in.flight=...",
        )
        return
    if counts.unwanted_ms >= UNWANTED_MS_MIN:
        yield _unwanted_link(counts, describe)
        return
    yield Link(
        name="ready",
        state=PASSED,
        what="it waits for its turn: consumers are asking for messages",
        evidence=[
            f"{counts.ready} are ready, {counts.consumers} consumers",
            f"{message.message.failures} attempts have failed",
        ],
        command=describe,
    )


def _unwanted_link(counts: QueueCounts, command: str) -> Link:
    evidence = [
        f"for {counts.unwanted_ms} ms nobody has asked for messages",
        f"{counts.consumers} consumers, {counts.in_flight} messages in flight",
    ]
    if counts.consumers and counts.in_flight:
        return Link(
            name="credit",
            state=BLOCKING,
            what="consumers want no more before they have settled what they have",
            evidence=evidence,
            command=command,
        )
    what = "its consumers ask for nothing" if counts.consumers else "nobody consumes"
    return Link(name="consumers", state=BLOCKING, what=what, evidence=evidence, command=command)


def _place_link(facts: QueueFacts, found: PeekedMessage) -> Link:
    said = {
        "delayed": (BLOCKING, "delay", "it is delayed", None),
        "in-flight": (BLOCKING, "lock", "a consumer has it and has not settled it", None),
        "parked": (BLOCKING, "parked", "it was given up after too many attempts", "redrive"),
        "moving": (BLOCKING, "moving", "it is being moved to another queue", None),
    }
    state, link, what, verb = said.get(found.place, (UNKNOWN, "place", found.place, None))
    until = [f"until {found.not_before_ms} (Unix ms)"] if found.not_before_ms > 0 else []
    return Link(
        name=link,
        state=state,
        what=what,
        evidence=[f"{found.message.failures} attempts have failed", *until],
        since=found.message.timestamp_ms,
        command=f"kafkaesque queue {verb or 'describe'} {facts.name.name}",
    )


def group_of(message: PeekedMessage) -> bytes | None:
    """Return the group that a message is ordered within; None: in none."""
    return next((value for name, value in message.message.headers if name == GROUP), None)


def burial_of(message: PeekedMessage, name: QueueName, offset: int) -> tuple[str, int, int] | None:
    """Return reason, attempts and time of the death of a queue's message, if this is that one."""
    for header, value in message.message.headers:
        if header != DEATH:
            continue
        try:
            said = json.loads(value or b"")
            if (said["vhost"], said["queue"], said.get("offset")) == (*name, offset):
                return str(said["reason"]), int(said["attempts"]), int(said["at_ms"])
        except (ValueError, KeyError, TypeError):
            continue
    return None
