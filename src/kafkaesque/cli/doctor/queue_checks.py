"""What is wrong with queues: leaders, consumers, old messages and dead letters."""

from collections.abc import Iterator, Sequence

from kafkaesque.broker.options.queues import MQTT_SESSION
from kafkaesque.cli.doctor.facts import Facts, QueueFacts
from kafkaesque.cli.doctor.findings import Finding, Limits, Severity, named
from kafkaesque.cli.screen import counted

CRITICAL, WARNING = Severity.CRITICAL, Severity.WARNING


def check_queues(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """All that is wrong with queues, a finding for each kind."""
    queues = facts.queues
    targets = {(each.vhost, each.dead_letter_queue) for each in queues}
    yield from _check_leaders(queues)
    yield from _check_targets(facts)
    yield from _check_exchanges([each for each in queues if each.lacks_exchange])
    yield from _check_in_flight(queues)
    served = [each for each in queues if each.key not in targets and not _is_asleep(each)]
    unserved = [each for each in served if _is_unserved(each, limits.lag_s)]
    yield from _check_unserved(unserved, limits)
    # Nobody is surprised that what nobody takes becomes old, or that dead letters do.
    others = [each for each in served if each not in unserved]
    yield from _check_heads(others, limits)
    yield from _check_dead_letters([each for each in queues if each.key in targets], limits)
    yield from _check_parked(queues)


def _check_leaders(queues: Sequence[QueueFacts]) -> Iterator[Finding]:
    found = [each for each in queues if each.leader < 0]
    if found:
        yield _finding(
            "queue-leaderless",
            CRITICAL,
            found,
            f"{counted(len(found), 'queue')} cannot be used, because nobody leads the log: "
            f"{_named(found)}",
            "a majority of the replicas of a queue's log is missing",
            f"start the brokers that are down; {_describe(found[0])} shows which replicas it has",
        )


def _check_targets(facts: Facts) -> Iterator[Finding]:
    there = {each.key for each in facts.queues}
    topics = {name.topic for name in facts.view.partitions}
    found: list[QueueFacts] = []
    for each in facts.queues:
        queue, topic = each.dead_letter_queue, each.options.get("dead.letter.topic", "")
        if (queue and (each.vhost, queue) not in there) or (topic and topic not in topics):
            found.append(each)
    if found:
        first = found[0]
        queue = first.dead_letter_queue
        missing = f"queue {queue}" if queue else f"topic {first.options['dead.letter.topic']}"
        create = f"kafkaesque {missing.replace(' ', ' create ', 1)}"
        yield _finding(
            "dead-letter-target-missing",
            WARNING,
            found,
            f"{counted(len(found), 'queue')} cannot move dead letters: {_named(found)}",
            f"{missing}, where {first} sends them, does not exist (or you may not see it); dead "
            "letters wait in their queue, and are moved when it is there",
            f"{create}    (or: {_alter(first)} with another one)",
        )


def _check_exchanges(found: Sequence[QueueFacts]) -> Iterator[Finding]:
    if found:
        first = found[0]
        name = first.options["dead.letter.exchange"]
        where = "" if first.vhost == "/" else f" --vhost {first.vhost}"
        yield _finding(
            "dead-letter-exchange-missing",
            WARNING,
            found,
            f"{counted(len(found), 'queue')} cannot route dead letters: {_named(found)}",
            f"exchange {name}, to which {first} sends them, does not exist (or you may not see "
            "it); dead letters are parked in their queue",
            f"kafkaesque exchange create {name}{where}, bind a queue to it, and: kafkaesque queue "
            f"redrive {first.name}",
        )


def _check_in_flight(queues: Sequence[QueueFacts]) -> Iterator[Finding]:
    found = [
        each
        for each in queues
        if 0 < each.of("in_flight_max") <= each.of("in_flight") and each.waits
    ]
    if found:
        first = found[0]
        give = "gives" if len(found) == 1 else "give"
        held, ready = counted(first.of("in_flight"), "message"), first.of("ready")
        yield _finding(
            "queue-in-flight-limit",
            WARNING,
            found,
            f"{counted(len(found), 'queue')} {give} out nothing more: {_named(found)}",
            f"consumers of {first} have {held} that they have not acknowledged, and max.in.flight "
            f"allows {first.of('in_flight_max')}; {ready} {'waits' if ready == 1 else 'wait'}",
            f"see whether the consumers are stuck; {_alter(first)} -c max.in.flight=…",
        )


def _is_asleep(queue: QueueFacts) -> bool:
    """Tell whether a queue is kept for a client of MQTT that is away: messages wait for it."""
    return MQTT_SESSION in queue.options and not queue.of("consumers")


def _is_unserved(queue: QueueFacts, limit_s: float) -> bool:
    unwanted_s = queue.of("unwanted_ms") / 1000
    is_old = queue.oldest_s is not None and queue.oldest_s >= limit_s
    return queue.waits and is_old and unwanted_s >= limit_s and not queue.of("consumers")


def _check_unserved(found: Sequence[QueueFacts], limits: Limits) -> Iterator[Finding]:
    if found:
        first = max(found, key=lambda each: each.of("ready"))
        yield _finding(
            "queue-without-consumers",
            WARNING,
            found,
            f"messages wait in {counted(len(found), 'queue')}, and nobody asks for any: "
            f"{_named(found)}",
            f"for {limits.lag_s:.0f} s no consumer has asked for messages; {first} has "
            f"{first.of('ready')}, the oldest is {_age(first)} old",
            f"start the consumers; {_describe(first)}    (kafkaesque queue delete {first.name}, if "
            "unused)",
        )


def _check_heads(queues: Sequence[QueueFacts], limits: Limits) -> Iterator[Finding]:
    found = [
        each
        for each in queues
        if each.oldest_s is not None
        and each.oldest_s >= limits.lag_s
        and (each.waits or each.of("in_flight"))
        and not each.of("head_delayed")
    ]
    if not found:
        return
    first = max(found, key=lambda each: (each.of("head_failures"), each.oldest_s or 0))
    failures = first.of("head_failures")
    if failures:
        cause = f"it has failed {counted(failures, 'time')}, and delivery.limit lets it come again"
    elif first.of("in_flight"):
        cause = "its consumer is slow, or stuck on it and extends its lock"
    else:
        cause = "its consumers take messages more slowly than they come"
    held = ""
    if first.of("held_by_message"):
        held = f"; its log, of {counted(first.of('log_bytes'), 'byte')}, is kept from there on"
    yield _finding(
        "queue-head-old",
        WARNING,
        found,
        f"the oldest message of {counted(len(found), 'queue')} is older than "
        f"{limits.lag_s:.0f} s: {_named(found)}",
        f"that of {first} is {_age(first)} old: {cause}{held}",
        f"kafkaesque queue peek {first.name}{_host(first)} --count 1"
        + (f"    (then: {_alter(first)} -c delivery.limit=…)" if failures else ""),
    )


def _check_dead_letters(targets: Sequence[QueueFacts], limits: Limits) -> Iterator[Finding]:
    found = [
        each
        for each in targets
        if each.waits and each.newest_s is not None and each.newest_s < limits.dead_letter_s
    ]
    if found:
        first = max(found, key=lambda each: each.of("ready"))
        yield _finding(
            "dead-letters",
            WARNING,
            found,
            f"dead letters have come within {limits.dead_letter_s:.0f} s: {_named(found)}",
            f"{first} has {counted(first.of('ready'), 'message')}; each says in its header "
            "kafkaesque.death where it was, and why it was given up",
            f"kafkaesque queue peek {first.name}{_host(first)}    (then: kafkaesque queue redrive "
            f"{first.name}{_host(first)})",
        )


def _check_parked(queues: Sequence[QueueFacts]) -> Iterator[Finding]:
    found = [each for each in queues if each.of("parked")]
    if found:
        first = max(found, key=lambda each: each.of("parked"))
        count = sum(each.of("parked") for each in found)
        given_up = (
            "message was given up and stays" if count == 1 else "messages were given up and stay"
        )
        held = "it" if count == 1 else f"{first.of('parked')} of them"
        them = "it" if count == 1 else "them"
        yield _finding(
            "queue-parked",
            WARNING,
            found,
            f"{count} {given_up} in {counted(len(found), 'queue')}: {_named(found)}",
            f"{first} has {held}, because it has no dead.letter.queue; its "
            "log is kept from the oldest one on",
            f"kafkaesque queue redrive {first.name}{_host(first)}    (tries {them} again; for "
            f"later ones: {_alter(first)} -c dead.letter.queue=…)",
        )


def _finding(
    check: str,
    severity: Severity,
    found: Sequence[QueueFacts],
    what: str,
    cause: str,
    command: str,
) -> Finding:
    names = [str(each) for each in found]
    return Finding(
        check=check, severity=severity, what=what, cause=cause, command=command, names=names
    )


def _named(found: Sequence[QueueFacts]) -> str:
    return named(sorted(found, key=str))


def _host(queue: QueueFacts) -> str:
    return "" if queue.vhost == "/" else f" --vhost {queue.vhost}"


def _describe(queue: QueueFacts) -> str:
    return f"kafkaesque queue describe {queue.name}{_host(queue)}"


def _alter(queue: QueueFacts) -> str:
    return f"kafkaesque queue alter {queue.name}{_host(queue)}"


def _age(queue: QueueFacts) -> str:
    return f"{queue.oldest_s or 0:.0f} s"
