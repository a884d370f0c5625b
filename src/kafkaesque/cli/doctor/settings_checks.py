"""Settings that lose data or stop writing with the next failure."""

from collections.abc import Iterator
from pathlib import PurePath

from kafkaesque.cli.doctor.advice import alter_min_insync
from kafkaesque.cli.doctor.facts import Facts
from kafkaesque.cli.doctor.findings import Finding, Limits, Severity, named
from kafkaesque.cli.moving_replicas import Where

#: Emptied by the system, or gone with the power.
_PASSING_DIRECTORIES = ("/tmp", "/var/tmp", "/dev/shm", "/run")
#: So many brokers survive the loss of one.
ENOUGH_BROKERS = 3


def check_settings(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """All of them."""
    yield from _replication(facts)
    yield from _min_insync(facts)
    yield from _topic_options(facts)
    yield from _defaults(facts)
    yield from _directories(facts)


def _replication(facts: Facts) -> Iterator[Finding]:
    if len(facts.known_brokers) == 1:
        yield Finding(
            check="single-broker",
            severity=Severity.WARNING,
            what="the cluster is one broker",
            cause="whatever it has is lost with its disk, and nothing is served while it is down",
            command="kafkaesque up --brokers 3    (or add brokers; fine for a laptop)",
            names=[str(node) for node in facts.known_brokers],
        )
        return
    single = sorted(
        {n.topic for n, each in facts.view.partitions.items() if len(each.replicas) == 1}
    )
    if single:
        yield Finding(
            check="single-replica",
            severity=Severity.WARNING,
            what=f"topics with a single replica: {named(single)}",
            cause="each of their partitions is lost with one disk, and away while one broker is",
            command="kafkaesque topic create NAME --replication-factor 3    (a new one, and copy)",
            names=single,
        )


def _min_insync(facts: Facts) -> Iterator[Finding]:
    """Topics that lose `acks=all` with the first broker; what is added or taken away is none."""
    copies: dict[str, int] = {}
    for name, each in facts.view.partitions.items():
        move = facts.moves.get(Where(*name))
        count = len(each.replicas)
        if move is not None:
            count = min(len(move.origin), len(move.target))
        copies[name.topic] = min(copies.get(name.topic, count), count)
    stuck = [
        topic
        for topic in sorted(facts.topics)
        if copies.get(topic, 0) > 1 and facts.min_insync(topic) >= copies[topic]
    ]
    if stuck:
        topic = stuck[0]
        command = alter_min_insync(topic, copies[topic] - 1)
        if copies[topic] == 2:
            command += (
                "    (then, while a broker is away, messages are on one disk only; or give it "
                f"three replicas: kafkaesque topic reassign {topic} --replicas A,B,C)"
            )
        yield Finding(
            check="min-insync",
            severity=Severity.WARNING,
            what=f"topics with min.insync.replicas equal to their replicas: {named(stuck)}",
            cause="acks=all is refused as soon as one broker is away, as in any restart",
            command=command,
            names=stuck,
        )


def _topic_options(facts: Facts) -> Iterator[Finding]:
    for option, check, cause in (
        (
            "write.caching",
            "write-caching",
            "messages are acknowledged before they are synced: if a majority of the machines loses "
            "power at once, unsynced ones are lost",
        ),
        (
            "unclean.leader.election.enable",
            "unclean-election",
            "a replica that lacks acknowledged messages may become leader, and they are lost",
        ),
    ):
        names = [name for name, each in sorted(facts.topics.items()) if each.get(option) == "true"]
        if names:
            yield Finding(
                check=check,
                severity=Severity.WARNING,
                what=f"topics with {option}=true: {named(names)}",
                cause=cause,
                command=f"kafkaesque topic alter {names[0]} --config {option}=false",
                names=names,
            )


def _defaults(facts: Facts) -> Iterator[Finding]:
    """Defaults that make the next topic an unsafe one."""
    brokers = [
        str(each.id)
        for each in facts.brokers
        if each.options.get("auto.create.topics.enable") == "true"
        and each.options.get("default.replication.factor") == "1"
    ]
    if brokers and len(facts.known_brokers) >= ENOUGH_BROKERS:
        yield Finding(
            check="unsafe-defaults",
            severity=Severity.WARNING,
            what=f"automatically created topics get one replica (brokers {named(brokers)})",
            cause="auto.create.topics.enable is true, and default.replication.factor is 1",
            command="kafkaesque config set default.replication.factor=3 --all-brokers",
            names=brokers,
        )


def _directories(facts: Facts) -> Iterator[Finding]:
    found = {
        each.id: each.disk.directory
        for each in facts.brokers
        if each.disk is not None and _is_temporary(each.disk.directory)
    }
    if found:
        yield Finding(
            check="temporary-directory",
            severity=Severity.WARNING,
            what="brokers keep their data where it does not last: "
            + named([f"{place} ({node})" for node, place in found.items()]),
            cause="the system empties such directories, or they are lost with the power",
            command="stop one such broker, move its directory, set data in its file, start it; "
            "then the next",
            names=[str(node) for node in found],
        )


def _is_temporary(directory: str) -> bool:
    place = PurePath(directory)
    return any(place.is_relative_to(each) for each in _PASSING_DIRECTORIES)
