"""What holds up a group or a transaction: its links, made of facts that others have gathered."""

import shlex
from collections.abc import Iterator, Sequence

import msgspec

from kafkaesque.admin.api.part_pages import GroupAnswer
from kafkaesque.admin.api.values import Transaction
from kafkaesque.admin.api.why_links import (
    BLOCKING,
    NAMES_MAX,
    PASSED,
    UNKNOWN,
    Link,
    Placed,
    leader_link,
    stable_link,
)
from kafkaesque.model.counted import counted, have

# -- groups


def reader_links(
    group: str,
    answer: GroupAnswer | None,
    placed: Sequence[Placed],
    offset: int | None,
    now_ms: int,
    throttled: frozenset[tuple[str, str]] = frozenset(),
    *,
    is_whole: bool = True,
) -> Iterator[Link]:
    """Say why a group has not read on, or with an offset, of one partition, not as far as that.

    `throttled` are addresses and client ids of those whom a quota holds back. `is_whole` says that
    `placed` are all partitions that the group may have to read.
    """
    if answer is None:
        yield silent_coordinator_link(f"the group {group}")
        return
    if not answer.state:
        yield Link(
            name="group",
            state=BLOCKING,
            what=f"there is no group {group}: nobody has consumed by this name",
            command="kafkaesque group list",
        )
        return
    is_known = is_whole and bool(placed) and all(each.led for each in placed)
    if is_known and not lagging_partitions(answer, placed, offset):
        # Who is in the group, and what it waits for, holds nothing up then.
        yield _read_link(offset)
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
    yield from _member_links(group, answer)
    for each in placed:
        if each.leader is None or each.led is None:
            yield leader_link(each, now_ms)
    yield from _positions(group, answer, placed, offset, throttled)


def _member_links(group: str, answer: GroupAnswer) -> Iterator[Link]:
    """Say who consumes, and whether a rebalance holds them up."""
    count = len(answer.members)
    consume = "consumes" if count == 1 else "consume"
    yield Link(name="members", state=PASSED, what=f"{counted(count, 'member')} {consume}")
    if answer.state not in ("Stable", "Empty"):
        yield Link(
            name="rebalance",
            state=BLOCKING,
            what=f"a rebalance of {group} waits for members to give up partitions, or to join",
            evidence=[
                f"state {answer.state}",
                *(f"{each.client_id} at {each.host}" for each in answer.members[:NAMES_MAX]),
            ],
            command=f"kafkaesque group describe {shlex.quote(group)}",
        )
    else:
        yield Link(name="rebalance", state=PASSED, what=f"the group is {answer.state}")


def _positions(
    group: str,
    answer: GroupAnswer,
    placed: Sequence[Placed],
    offset: int | None,
    throttled: frozenset[tuple[str, str]],
) -> Iterator[Link]:
    owners = {
        (each.topic, number): member
        for member in answer.members
        for each in member.assignment
        for number in each.partitions
    }
    committed = {(each.topic, each.partition): each for each in answer.offsets}
    lagging = lagging_partitions(answer, placed, offset)
    for _, position, each in lagging:
        if each.led is not None and position >= each.led.stable_offset:
            yield stable_link(each, each.led, position)
    lagging.sort(key=lambda each: -each[0])
    if not lagging:
        yield _read_link(offset)
        return
    lag, _, worst = lagging[0]
    where = (worst.topic, worst.partition)
    owner = owners.get(where)
    found = committed.get(where)
    evidence = [
        f"{counted(len(lagging), 'partition')} {have(len(lagging))} messages that are not read",
        f"{worst.name}: committed {'nothing' if found is None else found.offset}, {lag} to go",
    ]
    if owner is None:
        yield Link(
            name="assigned",
            state=BLOCKING,
            what=f"no member of {group} has {worst.name}",
            evidence=evidence,
            command=f"kafkaesque group describe {shlex.quote(group)}",
        )
        return
    if (owner.host.lstrip("/"), owner.client_id) in throttled:
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
        what=f"{owner.client_id} at {owner.host} has {worst.name} "
        f"and is {counted(lag, 'message')} behind",
        evidence=evidence,
        since=None if found is None else found.at_ms,
        command=f"kafkaesque group describe {shlex.quote(group)}",
    )


def lagging_partitions(
    answer: GroupAnswer, placed: Sequence[Placed], offset: int | None
) -> list[tuple[int, int, Placed]]:
    """Return partitions that are not read as far as that: how much is left, from where on."""
    committed = {(each.topic, each.partition): each.offset for each in answer.offsets}
    found: list[tuple[int, int, Placed]] = []
    for each in placed:
        if each.led is not None:
            position = committed.get((each.topic, each.partition), each.led.start_offset)
            wanted = each.led.high_watermark if offset is None else offset + 1
            if position < wanted:
                found.append((wanted - position, position, each))
    return found


def _read_link(offset: int | None) -> Link:
    what = "the group has read it" if offset is not None else "the group has read everything"
    return Link(name="lag", state=PASSED, what=what)


def silent_coordinator_link(whose: str) -> Link:
    """Say that nobody has said anything of a group or a transaction."""
    return Link(
        name="coordinator",
        state=UNKNOWN,
        what=f"the coordinator of {whose} does not answer",
        command="kafkaesque doctor",
    )


def coordinator_link(whose: str, placed: Placed, now_ms: int) -> Link | None:
    """Say that nobody leads the partition by which something is coordinated; None: somebody does.

    That it does not answer is for others to say, who have asked it.
    """
    if placed.leader is not None:
        return None
    link = leader_link(placed, now_ms)
    return msgspec.structs.replace(
        link, name="coordinator", what=f"nobody coordinates {whose}: {link.what}"
    )


# -- transactions


def unknown_producer_link(name: str, silent: Sequence[int]) -> Link:
    """Say that no coordinator has told of a producer; `silent` brokers might have."""
    evidence = ["producers without a transactional id have no coordinator"]
    if silent:
        evidence.append(f"without an answer: {', '.join(map(str, silent[:NAMES_MAX]))}")
    return Link(
        name="known",
        state=UNKNOWN if silent else BLOCKING,
        what=f"no coordinator knows {name}" + (", of those that answer" if silent else ""),
        evidence=evidence,
        command="kafkaesque txn list",
    )


def transaction_links(found: Transaction, placed: Sequence[Placed], now_ms: int) -> Iterator[Link]:
    """Say what a transaction waits for."""
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
            command=f"kafkaesque txn abort {shlex.quote(found.transactional_id)}",
        )
    else:
        yield Link(
            name="transaction", state=PASSED, what=f"nothing is open: its state is {found.state}"
        )
