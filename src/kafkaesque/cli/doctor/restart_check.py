"""Whether the next broker of a rolling restart may be stopped."""

from kafkaesque.cli.doctor.facts import Facts, PartitionName
from kafkaesque.cli.doctor.findings import named
from kafkaesque.cli.moving_replicas import Where, missing_in_sync
from kafkaesque.cli.screen import counted


def reasons_to_wait(facts: Facts, brokers: int) -> list[str]:
    """Return why no broker is to be stopped now, one sentence each; none if one may be.

    Every broker is asked and has to say the same: one that has just been started, or is cut off,
    knows least, and what it does not know yet is a reason. Moves are none: the old replicas
    serve, and whoever gets a copy goes on with it after its restart.
    """
    problems = {each.id: each.problem for each in facts.brokers}
    found = [
        f"broker {node} does not answer: {problems.get(node) or 'nobody hears of it'}"
        for node in facts.dead_brokers
    ]
    known = len(facts.known_brokers)
    if known < brokers:
        found.append(f"{counted(known, 'broker')} of {brokers} are known")
    alive = {each.id for each in facts.brokers if each.problem is None}
    missing: dict[PartitionName, int] = {}
    for broker in facts.brokers:
        if broker.admin is not None:
            found += [f"broker {broker.id} is not ready: {why}" for why in broker.admin.reasons]
        view = broker.view
        if view is None:
            continue
        unheard = sorted(alive - set(view.brokers))
        if unheard:
            found.append(f"broker {broker.id} does not hear of {named(unheard)}")
        for name, each in view.partitions.items():
            lacking = missing_in_sync(each.replicas, each.in_sync, facts.moves.get(Where(*name)))
            if each.leader < 0 or lacking or each.offline:
                missing.setdefault(name, broker.id)
    if missing:
        names = sorted(missing)
        found.append(
            f"{counted(len(names), 'partition')} without a leader or with replicas that are not in "
            f"sync, as broker {missing[names[0]]} sees it: {named(names)}"
        )
    return found
