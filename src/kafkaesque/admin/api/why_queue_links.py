"""What holds up a message of a queue: its links, made of facts that others have gathered."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from kafkaesque.admin.api.why_links import (
    BLOCKING,
    PASSED,
    UNKNOWN,
    Link,
    leaderless_link,
)
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST, QueueName
from kafkaesque.broker.requests.queue_requests import PeekedMessage, QueueCounts
from kafkaesque.model.counted import are, counted, have
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
    partition: int = 0
    options: Mapping[str, str]
    replicas: Sequence[int]
    leader: int | None
    #: Why the leader has not answered; empty: it has.
    refusal: str = ""
    counts: QueueCounts | None = None
    message: PeekedMessage | None = None
    #: An earlier one of the same ordered group that is not settled.
    ahead: PeekedMessage | None = None
    #: Whether all messages before it were looked at.
    is_order_known: bool = True
    burial: Burial | None = None
    #: Of the replicas, those that are not heard of, and for how long in ms, if that is known.
    lost: Mapping[int, int | None] = field(default_factory=dict)
    #: Why the leader's disk takes nothing; None: it does.
    disk_refusal: str | None = None
    #: Who may have been kept from putting it.
    writers: Sequence[Link] = ()

    def command(self, verb: str, rest: str = "") -> str:
        """Return a command of queues as a shell takes it: clients choose names."""
        words = f"kafkaesque {verb} {shlex.quote(self.name.name)}{rest}"
        is_default = self.name.vhost == DEFAULT_VHOST
        return words if is_default else f"{words} --vhost {shlex.quote(self.name.vhost)}"

    @property
    def which_partition(self) -> str:
        """How a command names the partition."""
        return f" --partition {self.partition}" if self.partition else ""


def queue_links(facts: QueueFacts, now_ms: int) -> Iterator[Link]:
    """Say what a message of a queue has passed, and what holds it up."""
    name, offset = facts.name, facts.offset
    if facts.leader is None:
        yield leaderless_link(
            f"{name} has no leader: nothing can be put or taken",
            facts.replicas,
            facts.lost,
            now_ms,
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
        yield from _absent_links(facts, facts.counts)
        return
    yield Link(name="present", state=PASSED, what=f"message {offset} is in {name}")
    if facts.message.place == "ready":
        yield from _ready_links(facts, facts.counts, facts.message)
    else:
        yield _place_link(facts, facts.message)


def _absent_links(facts: QueueFacts, counts: QueueCounts) -> Iterator[Link]:
    name, offset, burial = facts.name, facts.offset, facts.burial
    if offset >= counts.end:
        if facts.disk_refusal is not None:
            yield Link(
                name="disk",
                state=BLOCKING,
                what=f"broker {facts.leader} takes no messages: its disk has too little space",
                evidence=[facts.disk_refusal],
                command="free space on its volume",
            )
        yield from facts.writers
        yield Link(
            name="written",
            state=BLOCKING,
            what=f"nobody has put message {offset} into {name} yet",
            evidence=[
                f"{counted(counts.arrived, 'message')} {have(counts.arrived)} come, "
                f"the next one is {counts.end}"
            ],
            command=facts.command("queue describe"),
        )
        return
    if burial is not None:
        yield Link(
            name="dead-letter",
            state=BLOCKING,
            what=f"message {offset} was given up, and is in {burial.queue} now",
            evidence=[f"{burial.reason.replace('_', ' ')} after {burial.attempts} attempts"],
            since=burial.at_ms or None,
            command=replace(facts, name=name._replace(name=burial.queue)).command(
                "queue redrive", f" --to {shlex.quote(name.name)}"
            ),
        )
        return
    yield _gone_link(facts, counts)


def _gone_link(facts: QueueFacts, counts: QueueCounts) -> Link:
    """Say why a message is gone: for certain where all that are gone are so for one reason.

    A log has other entries, too: an offset is a message's for certain only if all of them are.
    """
    name, offset = facts.name, facts.offset
    is_message = counts.arrived >= counts.end
    reasons = {why: count for why, count in sorted(counts.removed.items()) if count}
    gone = [f"{count} {why.replace('_', ' ')}" for why, count in reasons.items()]
    evidence = [f"of all that came are gone: {', '.join(gone) or 'none'}"]
    if not is_message:
        evidence.append(f"of {counts.end} offsets {counts.arrived} were messages, this one perhaps")
    command = facts.command("queue peek", facts.which_partition)
    said = _GONE.get(next(iter(reasons))) if len(reasons) == 1 else None
    if said is None:
        doubt = (
            "which of them it was is not known" if gone else "none is gone: it may be no message"
        )
        return Link(
            name="present",
            state=UNKNOWN,
            what=f"message {offset} is {'no longer' if gone else 'not'} in {name}; {doubt}",
            evidence=evidence,
            command=command,
        )
    link, what = said
    return Link(
        name=link,
        state=BLOCKING if is_message else UNKNOWN,
        what=f"message {offset} is no longer in {name}: {what}",
        evidence=evidence,
        command=command,
    )


#: The link that stands for a reason by which messages are gone, and what it says.
_GONE: Final = {
    "settled": ("settled", "a consumer is done with it"),
    "expired": ("expired", "it lived for longer than it was to"),
    "too_long": ("dropped", "the queue was full, and it was the oldest"),
    "purged": ("purged", "the queue was purged"),
    "rejected": ("dead-letter", "a consumer rejected it"),
    "attempts": ("dead-letter", "its attempts are used up"),
    "redriven": ("redriven", "it was moved to another queue"),
}


def _ready_links(facts: QueueFacts, counts: QueueCounts, message: PeekedMessage) -> Iterator[Link]:
    name, ahead = facts.name.name, facts.ahead
    describe = facts.command("queue describe")
    if ahead is not None:
        failed = ahead.message.failures
        yield Link(
            name="order",
            state=BLOCKING,
            what=f"message {ahead.message.offset} of the same group comes first, and is not done",
            evidence=[f"it is {ahead.place}, {_failed(failed)}"],
            since=ahead.message.timestamp_ms,
            command=facts.command("why queue", f" {ahead.message.offset}{facts.which_partition}"),
        )
        return
    if not facts.is_order_known:
        yield Link(
            name="order",
            state=UNKNOWN,
            what="an earlier message of the same group may come first: there are too many to look",
            command=describe,
        )
    if counts.in_flight_max and counts.in_flight >= counts.in_flight_max:
        yield Link(
            name="credit",
            state=BLOCKING,
            what=f"consumers of {name} have as many messages as max.in.flight lets them",
            evidence=[f"{counts.in_flight} in flight, max.in.flight={counts.in_flight_max}"],
            command=facts.command("queue alter", " --config max.in.flight=..."),
        )
        return
    has_credit = counts.unwanted_ms == 0 or not (counts.consumers and counts.in_flight)
    if counts.unwanted_ms >= UNWANTED_MS_MIN or not has_credit:
        yield _unwanted_link(counts, describe)
        return
    yield Link(
        name="ready",
        state=PASSED,
        what="it waits for its turn: consumers are asking for messages",
        evidence=[
            f"{counts.ready} {are(counts.ready)} ready, {counted(counts.consumers, 'consumer')}",
            _failed(message.message.failures),
        ],
        command=describe,
    )


def _failed(count: int) -> str:
    return f"{counted(count, 'attempt')} {have(count)} failed"


def _unwanted_link(counts: QueueCounts, command: str) -> Link:
    evidence = [
        f"for {counts.unwanted_ms} ms nobody has asked for messages",
        f"{counted(counts.consumers, 'consumer')}, "
        f"{counted(counts.in_flight, 'message')} in flight",
    ]
    if counts.consumers and counts.in_flight:
        return Link(
            name="credit",
            # A consumer that works asks again in a moment.
            state=BLOCKING if counts.unwanted_ms >= UNWANTED_MS_MIN else UNKNOWN,
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
        evidence=[_failed(found.message.failures), *until],
        since=found.message.timestamp_ms,
        command=facts.command(f"queue {verb or 'describe'}"),
    )


def group_of(message: PeekedMessage) -> bytes | None:
    """Return the group that a message is ordered within; None: in none."""
    return next((value for name, value in message.message.headers if name == GROUP), None)


def burial_of(
    message: PeekedMessage, name: QueueName, partition: int, offset: int
) -> tuple[str, int, int] | None:
    """Return reason, attempts and time of the death of a queue's message, if this is that one."""
    for header, value in message.message.headers:
        if header != DEATH:
            continue
        try:
            said = json.loads(value or b"")
            place = said.get("partition", 0), said.get("offset")
            if (said["vhost"], said["queue"], *place) == (*name, partition, offset):
                return str(said["reason"]), int(said["attempts"]), int(said["at_ms"])
        except (ValueError, KeyError, TypeError):
            continue
    return None
