"""Words that several checks use: who is meant, how a broker is, and what brings it back."""

from collections.abc import Sequence

from kafkaesque.cli.doctor.facts import Facts
from kafkaesque.cli.screen import counted


def runs(facts: Facts, node: int) -> bool:
    """Tell whether a broker that does not serve has a process, so that to start it cannot help."""
    return any(each.hangs or each.admin for each in facts.brokers if each.id == node)


def bring_back(facts: Facts, nodes: Sequence[int]) -> str:
    """Return what to do that brokers serve again."""
    running = [node for node in nodes if runs(facts, node)]
    down = [node for node in nodes if node not in running]
    words = [f"start {in_words(down)}"] if down else []
    if running:
        words.append(f"do what is said of {in_words(running)}, which {are(running, 'running')}")
    return "; ".join(words)


def lets_nobody_in(facts: Facts, node: int) -> bool:
    """Tell whether a broker runs, and only its clients cannot reach it (yet)."""
    return any(
        each.problem is not None
        and each.admin is not None
        and not each.hangs
        and not each.has_failed
        for each in facts.brokers
        if each.id == node
    )


def elect_unclean(topic: str, partition: int, holders: Sequence[int]) -> str:
    """Return how to go on without brokers that may have what the others do not."""
    command = f"kafkaesque topic elect {topic} --partition {partition} --unclean"
    if holders:
        command += f"    (gives up acknowledged records that only {in_words(holders)} may have)"
    return command


def begin_anew(facts: Facts, topic: str) -> str:
    """Return what is left to do where no replica of a partition has anything any more."""
    command = f"kafkaesque topic delete {topic}, and create it anew"
    others = sum(name.topic == topic for name in facts.view.partitions) - 1
    if others > 0:
        command += f"    (with {counted(others, 'other partition')}: copy first what is there)"
    return command


def alter_min_insync(topic: str, count: int) -> str:
    """Return how to let a topic take records with so many replicas in sync."""
    return f"kafkaesque topic alter {topic} --config min.insync.replicas={count}"


def state_of(facts: Facts, node: int) -> str:
    """Return how a broker is that does not serve."""
    for broker in facts.brokers:
        if broker.id == node:
            if broker.has_failed:
                return "has given up its disk"
            if broker.hangs:
                return "hangs"
            if broker.admin is not None:
                return "runs and lets no clients in"
    return "is down"


def are(nodes: Sequence[int], what: str = "down") -> str:
    """Return a verb that fits so many."""
    return f"is {what}" if len(nodes) == 1 else f"are {what}"


def in_words(nodes: Sequence[int]) -> str:
    """Return brokers by their numbers."""
    return ("broker " if len(nodes) == 1 else "brokers ") + ", ".join(map(str, nodes))
