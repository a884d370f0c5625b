"""What holds a message up: a chain of links, each passed, blocking or unknown.

Theory of operation. A message, a group or a transaction passes one thing after another; each is a
link, made here from facts that others have gathered, and nothing is asked here. The first link that
blocks is the cause: what comes after it may only follow from it. A link is `unknown` where whoever
would know was not asked or did not answer; then no cause behind it is called certain.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from kafkaesque.admin.api.part_pages import GroupAnswer
from kafkaesque.admin.api.values import Transaction, View

PASSED: Final = "passed"
BLOCKING: Final = "blocking"
UNKNOWN: Final = "unknown"
#: Names that a sentence lists.
NAMES_MAX: Final = 5


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """One thing on the way."""

    #: Such as leader, committed, lag: docs/admin-api.md has them.
    name: str
    #: passed, blocking or unknown.
    state: str
    #: In one sentence.
    what: str
    evidence: list[str] = []
    #: Since when, as far as that is known.
    since: int | None = None
    #: What helps, to be typed.
    command: str | None = None


class WhyView(View, frozen=True, kw_only=True):
    """The chain, in the order of the way."""

    about: str
    #: The name of the first link that blocks; null: nothing does, as far as is known.
    cause: str | None
    #: Whether nothing before the cause is unknown.
    is_certain: bool
    links: list[Link]


class OpenTransaction(msgspec.Struct, frozen=True, array_like=True):
    """A producer whose transaction is open in a partition."""

    producer_id: int
    producer_epoch: int
    start_offset: int
    #: Of its last record.
    at_ms: int


class WhyPartitionQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Of which partitions, by topic."""

    partitions: dict[str, list[int]]


class WhyPartition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition as its leader knows it."""

    topic: str
    partition: int
    start_offset: int
    high_watermark: int
    stable_offset: int
    end_offset: int
    in_sync: list[int]
    min_in_sync: int
    #: Why the leader's disk takes no records; null: it does.
    disk_refusal: str | None
    #: The oldest ones.
    open: list[OpenTransaction]
    cleanup_policy: str
    retention_ms: int
    retention_bytes: int


class WhyPartitionAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Those that are led here."""

    partitions: list[WhyPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A partition, as the metadata have it."""

    topic: str
    partition: int
    replicas: Sequence[int]
    #: Of these, those that are not heard of, and for how long in ms, if that is known.
    lost: dict[int, int | None]
    leader: int | None
    is_recovering: bool
    #: What the leader says; None: it has not answered.
    led: WhyPartition | None

    @property
    def name(self) -> str:
        """Topic and partition."""
        return f"{self.topic}-{self.partition}"


def make_view(view: View, about: str, links: Sequence[Link]) -> WhyView:
    """Return links with their cause; `view` says when and by whom it was seen."""
    cause, is_certain = None, True
    for each in links:
        if each.state == BLOCKING:
            cause = each.name
            break
        is_certain = is_certain and each.state != UNKNOWN
    return WhyView(
        as_of=view.as_of,
        seen_by=view.seen_by,
        sources=view.sources,
        about=about,
        cause=cause,
        is_certain=is_certain,
        links=list(links),
    )


# -- partitions


def leader_link(placed: Placed, now_ms: int) -> Link:
    """Say whether somebody leads a partition, and answers."""
    if placed.leader is None:
        lost = sorted(placed.lost)
        since = max((each for each in placed.lost.values() if each is not None), default=None)
        down = ", ".join(map(str, lost[:NAMES_MAX]))
        return Link(
            name="leader",
            state=BLOCKING,
            what=f"{placed.name} has no leader: nothing can be written or read",
            evidence=[
                f"replicas: {', '.join(map(str, placed.replicas))}",
                f"not heard of: {down}" if lost else "all its brokers are heard of",
                *(["the controller recovers it"] if placed.is_recovering else []),
            ],
            since=None if since is None else now_ms - since,
            command=(f"start broker {down}" if lost else f"kafkaesque topic elect {placed.topic}"),
        )
    if placed.led is None:
        return Link(
            name="leader",
            state=UNKNOWN,
            what=f"broker {placed.leader} leads {placed.name} and does not answer",
            command="kafkaesque doctor",
        )
    return Link(name="leader", state=PASSED, what=f"broker {placed.leader} leads {placed.name}")


def writing_links(placed: Placed, led: WhyPartition) -> Iterator[Link]:
    """Say whether records are taken."""
    if led.disk_refusal is not None:
        yield Link(
            name="disk",
            state=BLOCKING,
            what=f"broker {placed.leader} takes no records: its disk has too little space",
            evidence=[led.disk_refusal],
            command="free space on its volume, or shorten retention: kafkaesque topic config",
        )
    needed = min(led.min_in_sync, len(placed.replicas))
    if len(led.in_sync) < needed:
        missing = sorted(set(placed.replicas) - set(led.in_sync))
        yield Link(
            name="min-insync",
            state=BLOCKING,
            what=f"{placed.name} refuses acks=all: too few replicas are in sync",
            evidence=[
                f"in sync: {', '.join(map(str, led.in_sync))}; min.insync.replicas={needed}",
                f"not in sync: {', '.join(map(str, missing[:NAMES_MAX]))}",
            ],
            since=None,
            command=f"start or repair broker {missing[0]}" if missing else "kafkaesque doctor",
        )


def record_links(placed: Placed, offset: int, presence: str, now_ms: int) -> Iterator[Link]:
    """Say what has become of the record at an offset.

    `presence`: there, compacted, aborted, marker, or empty where that is not known.
    """
    yield leader_link(placed, now_ms)
    led = placed.led
    if led is None:
        return
    if offset >= led.end_offset:
        yield from writing_links(placed, led)
        yield Link(
            name="written",
            state=BLOCKING,
            what=f"nobody has written offset {offset} yet",
            evidence=[f"the log of {placed.name} ends at {led.end_offset}"],
            command=f"kafkaesque topic describe {placed.topic}",
        )
        return
    yield Link(name="written", state=PASSED, what=f"offset {offset} was written")
    if offset < led.start_offset:
        yield Link(
            name="retained",
            state=BLOCKING,
            what=f"offset {offset} was deleted: the log begins at {led.start_offset}",
            evidence=[
                f"cleanup.policy={led.cleanup_policy}",
                f"retention.ms={led.retention_ms}, retention.bytes={led.retention_bytes}",
            ],
            command=f"kafkaesque config --topic {placed.topic} set retention.ms=...",
        )
        return
    yield Link(name="retained", state=PASSED, what=f"the log begins at {led.start_offset}")
    if offset >= led.high_watermark:
        yield from writing_links(placed, led)
        behind = sorted(set(placed.replicas) - set(led.in_sync))
        yield Link(
            name="committed",
            state=BLOCKING,
            what=f"offset {offset} is not on a majority of the replicas yet",
            evidence=[
                f"committed up to {led.high_watermark}, written up to {led.end_offset}",
                f"not in sync: {', '.join(map(str, behind)) or 'none'}",
            ],
            command=f"start or repair broker {behind[0]}" if behind else "kafkaesque doctor",
        )
        return
    yield Link(name="committed", state=PASSED, what=f"committed up to {led.high_watermark}")
    yield stable_link(placed, led, offset)
    if offset < led.stable_offset:
        yield _presence_link(placed, led, offset, presence)


def stable_link(placed: Placed, led: WhyPartition, offset: int) -> Link:
    """Say whether an open transaction is before an offset."""
    if offset < led.stable_offset:
        return Link(
            name="transaction", state=PASSED, what=f"no transaction is open before {offset}"
        )
    first = min(led.open, key=lambda each: each.start_offset, default=None)
    evidence = [f"readers of committed transactions end at {led.stable_offset}"]
    if first is not None:
        evidence.append(
            f"producer {first.producer_id} (epoch {first.producer_epoch}) has had one open since "
            f"offset {first.start_offset}"
        )
    return Link(
        name="transaction",
        state=BLOCKING,
        what=f"a transaction is open in {placed.name}: read_committed consumers wait for its end",
        evidence=evidence,
        since=None if first is None or first.at_ms < 0 else first.at_ms,
        command=f"kafkaesque txn producers {placed.topic}:{placed.partition} --open",
    )


def _presence_link(placed: Placed, led: WhyPartition, offset: int, presence: str) -> Link:
    said = {
        "there": (PASSED, "the record is there"),
        "compacted": (
            BLOCKING,
            "compaction has removed the record: its key has a newer value, or was deleted",
        ),
        "aborted": (
            BLOCKING,
            "the record's transaction was aborted: read_committed consumers skip it",
        ),
        "marker": (BLOCKING, "that is the end of a transaction, and no record"),
    }
    state, what = said.get(presence, (UNKNOWN, "the record was not looked at"))
    evidence = [f"cleanup.policy={led.cleanup_policy}"] if presence == "compacted" else []
    names = {"compacted": "compacted", "aborted": "aborted", "marker": "aborted"}
    return Link(
        name=names.get(presence, "present"),
        state=state,
        what=f"offset {offset}: {what}",
        evidence=evidence,
        command=f"kafkaesque consume {placed.topic} --from {offset}" if state == PASSED else None,
    )


# -- groups


def reader_links(
    group: str,
    answer: GroupAnswer | None,
    placed: Sequence[Placed],
    offset: int | None,
    now_ms: int,
    throttled: frozenset[str] = frozenset(),
) -> Iterator[Link]:
    """Say why a group has not read on, or with an offset, of one partition, not as far as that.

    `throttled` are addresses of clients that a quota holds back.
    """
    if answer is None:
        yield Link(
            name="coordinator",
            state=UNKNOWN,
            what=f"the coordinator of {group} does not answer",
            command="kafkaesque doctor",
        )
        return
    if not answer.state:
        yield Link(
            name="group",
            state=BLOCKING,
            what=f"there is no group {group}: nobody has consumed by this name",
            command="kafkaesque group list",
        )
        return
    if not answer.members:
        last = max((each.at_ms for each in answer.offsets), default=None)
        yield Link(
            name="members",
            state=BLOCKING,
            what=f"nobody consumes: the group {group} has no members",
            evidence=[f"state {answer.state}"],
            since=last,
            command="start its consumers",
        )
        return
    yield Link(name="members", state=PASSED, what=f"{len(answer.members)} members consume")
    if answer.state not in ("Stable", "Empty"):
        yield Link(
            name="rebalance",
            state=BLOCKING,
            what=f"a rebalance of {group} waits for members to give up partitions, or to join",
            evidence=[
                f"state {answer.state}",
                *(f"{each.client_id} at {each.host}" for each in answer.members[:NAMES_MAX]),
            ],
            command=f"kafkaesque group describe {group}",
        )
    else:
        yield Link(name="rebalance", state=PASSED, what=f"the group is {answer.state}")
    for each in placed:
        if each.leader is None or each.led is None:
            yield leader_link(each, now_ms)
    yield from _positions(group, answer, placed, offset, throttled)


def _positions(
    group: str,
    answer: GroupAnswer,
    placed: Sequence[Placed],
    offset: int | None,
    throttled: frozenset[str],
) -> Iterator[Link]:
    owners = {
        (each.topic, number): member
        for member in answer.members
        for each in member.assignment
        for number in each.partitions
    }
    committed = {(each.topic, each.partition): each for each in answer.offsets}
    lagging: list[tuple[int, Placed]] = []
    for each in placed:
        if each.led is None:
            continue
        found = committed.get((each.topic, each.partition))
        position = each.led.start_offset if found is None else found.offset
        wanted = each.led.high_watermark if offset is None else offset + 1
        if position < wanted:
            lagging.append((wanted - position, each))
            if position >= each.led.stable_offset:
                yield stable_link(each, each.led, position)
    lagging.sort(key=lambda each: -each[0])
    if not lagging:
        what = "the group has read it" if offset is not None else "the group has read everything"
        yield Link(name="lag", state=PASSED, what=what)
        return
    lag, worst = lagging[0]
    where = (worst.topic, worst.partition)
    owner = owners.get(where)
    found = committed.get(where)
    evidence = [
        f"{len(lagging)} partitions have messages that are not read",
        f"{worst.name}: committed {'nothing' if found is None else found.offset}, {lag} to go",
    ]
    if owner is None:
        yield Link(
            name="assigned",
            state=BLOCKING,
            what=f"no member of {group} has {worst.name}",
            evidence=evidence,
            command=f"kafkaesque group describe {group}",
        )
        return
    if owner.host.lstrip("/") in throttled:
        yield Link(
            name="quota",
            state=BLOCKING,
            what=f"a quota holds back {owner.client_id} at {owner.host}, which has {worst.name}",
            evidence=[*evidence, "a broker reads nothing more from its connection for a while"],
            command="kafkaesque config --help    (consumer_byte_rate, request_percentage)",
        )
        return
    yield Link(
        name="lag",
        state=BLOCKING,
        what=f"{owner.client_id} at {owner.host} has {worst.name} and is {lag} messages behind",
        evidence=evidence,
        since=None if found is None else found.at_ms,
        command=f"kafkaesque group describe {group}",
    )


# -- transactions


def transaction_links(
    found: Transaction | None, name: str, placed: Sequence[Placed], now_ms: int
) -> Iterator[Link]:
    """Say what a transaction waits for."""
    if found is None:
        yield Link(
            name="known",
            state=BLOCKING,
            what=f"no coordinator knows {name}",
            evidence=["producers without a transactional id have no coordinator"],
            command="kafkaesque txn list",
        )
        return
    yield Link(
        name="known",
        state=PASSED,
        what=f"broker {found.coordinator} coordinates {found.transactional_id}",
    )
    is_ending = found.state in ("PrepareCommit", "PrepareAbort")
    if is_ending:
        for each in placed:
            if each.leader is None:
                yield leader_link(each, now_ms)
    names = [f"{each.topic}: {', '.join(map(str, each.partitions))}" for each in found.partitions]
    if found.state == "Ongoing" or is_ending:
        what = (
            "it is open: its producer has neither committed nor aborted"
            if found.state == "Ongoing"
            else "it has ended, and not all partitions have their markers"
        )
        yield Link(
            name="transaction",
            state=BLOCKING,
            what=what,
            evidence=[
                f"producer {found.producer_id}, state {found.state}, timeout {found.timeout_ms} ms",
                *names[:NAMES_MAX],
            ],
            since=found.since,
            command=f"kafkaesque txn abort {found.transactional_id}",
        )
    else:
        yield Link(
            name="transaction", state=PASSED, what=f"nothing is open: its state is {found.state}"
        )
