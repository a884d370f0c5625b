"""What holds a message up: a chain of links, each passed, blocking or unknown.

Theory of operation. A message, a group or a transaction passes one thing after another; each is a
link, made here from facts that others have gathered, and nothing is asked here. The first link that
was not passed is the cause: what comes after it may only follow from it. A link is `unknown` where
whoever would know did not answer, or where it may be what blocks and nobody can tell; a cause that
is unknown, or behind such a link, is not called certain.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from kafkaesque.admin.api.values import View

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
    #: The name of the first link that was not passed; null: all were.
    cause: str | None
    #: Whether that link blocks; one that is unknown may.
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
    #: Why this broker's disk takes no records; null: it does, or an older release does not say.
    disk_refusal: str | None = None


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
    first = next((each for each in links if each.state != PASSED), None)
    return WhyView(
        as_of=view.as_of,
        seen_by=view.seen_by,
        sources=view.sources,
        about=about,
        cause=None if first is None else first.name,
        is_certain=first is None or first.state == BLOCKING,
        links=list(links),
    )


def is_held_up(links: Sequence[Link]) -> bool:
    """Tell whether a link was not passed."""
    return any(each.state != PASSED for each in links)


def cut_off_link(node: int, silent: Sequence[int]) -> Link:
    """Say that a broker does not know what is true in its cluster now."""
    names = ", ".join(map(str, silent[:NAMES_MAX]))
    return Link(
        name="cut-off",
        state=UNKNOWN,
        what=f"broker {node} is cut off from the controller: what it knows may be old",
        evidence=[f"not heard of: {names}" if silent else "all brokers are heard of"],
        command=f"start broker {names}, or ask another broker" if silent else "ask another broker",
    )


def with_doubt(links: Sequence[Link], doubt: Link | None) -> list[Link]:
    """Return links as somebody may say them whose metadata may be old.

    That nobody leads, or does not answer, remains the first thing to be looked at.
    """
    if doubt is None:
        return list(links)
    if not links or links[0].name not in ("leader", "coordinator"):
        return [doubt, *links]
    first = links[0]
    if first.state == BLOCKING:
        first = msgspec.structs.replace(first, state=UNKNOWN)
    return [first, doubt, *links[1:]]


# -- partitions


def leaderless_link(
    what: str,
    replicas: Iterable[int],
    lost: Mapping[int, int | None],
    now_ms: int,
    *,
    more: Sequence[str] = (),
    command: str,
) -> Link:
    """Say that nobody leads; `command` is what may help where no broker is lost.

    `lost` says since when each lost broker is not heard of, if that is known.
    """
    down = ", ".join(map(str, sorted(lost)[:NAMES_MAX]))
    since_ms = max((each for each in lost.values() if each is not None), default=None)
    return Link(
        name="leader",
        state=BLOCKING,
        what=what,
        evidence=[
            f"replicas: {', '.join(map(str, replicas))}",
            f"not heard of: {down}" if down else "all its brokers are heard of",
            *more,
        ],
        since=None if since_ms is None else now_ms - since_ms,
        command=f"start broker {down}" if down else command,
    )


def leader_link(placed: Placed, now_ms: int) -> Link:
    """Say whether somebody leads a partition, and answers."""
    if placed.leader is None:
        return leaderless_link(
            f"{placed.name} has no leader: nothing can be written or read",
            placed.replicas,
            placed.lost,
            now_ms,
            more=["the controller recovers it"] if placed.is_recovering else (),
            command=f"kafkaesque topic elect {placed.topic}",
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
            command="free space on its volume, or shorten retention: kafkaesque config set --help",
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

    `presence`: there, compacted, aborted, marker; anything else says why that is not known.
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
            command=f"kafkaesque config set retention.ms=... --topic {placed.topic}",
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
    state, what = said.get(presence, (UNKNOWN, "its leader has not let it be read"))
    evidence = [f"cleanup.policy={led.cleanup_policy}"] if presence == "compacted" else []
    if presence not in said:
        evidence = [presence or "its batch cannot be decoded"]
    names = {"compacted": "compacted", "aborted": "aborted", "marker": "aborted"}
    return Link(
        name=names.get(presence, "present"),
        state=state,
        what=f"offset {offset}: {what}",
        evidence=evidence,
        command=f"kafkaesque consume {placed.topic} --offset {offset}" if state == PASSED else None,
    )
