"""Words that several checks use: who is meant, how a broker is, and what brings it back."""

from collections import Counter
from collections.abc import Mapping, Sequence

from kafkaesque.cli.doctor.facts import Facts, PartitionName
from kafkaesque.cli.doctor.findings import NAMED_MAX, in_words, named
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
        words.append(f"see the finding for {in_words(running)}, which {are(running, 'running')}")
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


def users_first(name: PartitionName) -> tuple[bool, PartitionName]:
    """Return by what partitions are sorted: users' before the brokers' own."""
    return name.topic.startswith("__"), name


def name_partitions(names: Sequence[PartitionName]) -> str:
    """Return partitions as words, users' first: each, or of many how many of each topic."""
    ordered = sorted(names, key=users_first)
    if len(ordered) <= NAMED_MAX:
        return named(ordered)
    counts = Counter(each.topic for each in ordered)
    return named([f"{count} of {topic}" for topic, count in counts.items()])


def elect_unclean(names: Sequence[PartitionName], holders: Sequence[int]) -> str:
    """Return how all of these go on without brokers that may have what the others do not.

    A command for each topic, users' first.
    """
    counts = Counter(each.topic for each in names)
    commands = []
    for name in sorted(names, key=users_first):
        if count := counts.pop(name.topic, 0):
            only = f" --partition {name.number}" if count == 1 else ""
            commands.append(f"kafkaesque topic elect {name.topic}{only} --unclean")
    command = "; ".join(commands)
    if holders:
        command += f"    (gives up acknowledged records that only {in_words(holders)} may have)"
    return command


def begin_anew(facts: Facts, names: Sequence[PartitionName]) -> str:
    """Return what is left to do where no replica of some partitions has anything any more."""
    counts = Counter(each.topic for each in names)
    ordered = sorted(names, key=users_first)
    topics = dict.fromkeys(each.topic for each in ordered)
    return "; ".join(_begin_topic_anew(facts, topic, counts[topic]) for topic in topics)


def _begin_topic_anew(facts: Facts, topic: str, lost: int) -> str:
    command = f"kafkaesque topic delete {topic}, and create it again"
    others = sum(name.topic == topic for name in facts.view.partitions) - lost
    if others > 0:
        command += f"    (it has {counted(others, 'other partition')}: copy their messages first)"
    return command


def alter_min_insync(topic: str, count: int) -> str:
    """Return how to let a topic take records with so many replicas in sync."""
    return f"kafkaesque topic alter {topic} --config min.insync.replicas={count}"


def state_of(facts: Facts, node: int) -> str:
    """Return how a broker is that does not serve."""
    if node in facts.lost_controllers:
        return have_lost([node])
    for broker in facts.brokers:
        if broker.id == node:
            if broker.has_failed:
                return "has given up its disk"
            if broker.hangs:
                return "hangs"
            if broker.admin is not None:
                return "runs but accepts no clients"
    return "is down"


def are(nodes: Sequence[int], what: str = "down") -> str:
    """Return a verb that fits so many."""
    return f"is {what}" if len(nodes) == 1 else f"are {what}"


def have_lost(nodes: Sequence[int]) -> str:
    """Return that brokers' directories are empty that were not."""
    return "has lost its disk" if len(nodes) == 1 else "have lost their disks"


def of_brokers(what: str, reasons: Mapping[int, str]) -> list[str]:
    """Return what could not be looked at, in one sentence for all brokers of the same reason."""
    nodes: dict[str, list[int]] = {}
    for node, reason in reasons.items():
        nodes.setdefault(reason, []).append(node)
    return [f"{what} of {in_words(each)}: {reason}" for reason, each in nodes.items()]
