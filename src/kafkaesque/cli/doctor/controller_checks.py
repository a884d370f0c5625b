"""Whether the controllers are led, and how many of them may still fail."""

from collections.abc import Iterator

from kafkaesque.cli.doctor.advice import bring_back, have_lost, state_of
from kafkaesque.cli.doctor.facts import Facts
from kafkaesque.cli.doctor.findings import Finding, Limits, Severity, in_words
from kafkaesque.cli.quorum import QuorumMember
from kafkaesque.cli.screen import counted

#: What is left to do without them.
_LOST = 'docs/operations.md, "Controllers that have lost their majority"'
_WITHOUT = "without a majority of its controllers nothing can be created, moved or changed"


def check_controllers(facts: Facts, _: Limits) -> Iterator[Finding]:
    """Controllers that nobody leads, or of which some are down or have not all of their log."""
    quorum = facts.quorum
    if quorum is None:
        if facts.has_no_controller:
            yield _nobody_leads(facts)
        return
    voters = [each for each in quorum.members if each.votes]
    missing = [each for each in voters if not each.has_all]
    if not missing:
        return
    spare = len(voters) - len(missing) - (len(voters) // 2 + 1)
    states = ", ".join(f"broker {each.broker} {_state(facts, each)}" for each in missing)
    yield Finding(
        check="controllers-missing",
        severity=Severity.WARNING if spare > 0 else Severity.CRITICAL,
        what=f"of {counted(len(voters), 'controller')} {states}; {max(0, spare)} more may fail",
        cause=_WITHOUT,
        command="; ".join(_helps(facts, missing)),
        names=[str(each.broker) for each in missing],
    )


def _state(facts: Facts, member: QuorumMember) -> str:
    if not facts.answers(member.broker):
        return state_of(facts, member.broker)
    return "is behind" if member.is_up else "runs but cannot reach the leading one"


def _helps(facts: Facts, missing: list[QuorumMember]) -> Iterator[str]:
    """Return what to do, by what is the matter: to start one that runs cannot help."""
    dead = [each.broker for each in missing if not facts.answers(each.broker)]
    if dead:
        yield bring_back(facts, dead)
    if cut := [each.broker for each in missing if each.broker not in dead and not each.is_up]:
        yield f"check the network between the peer ports of {in_words(cut)} and of the others"
    if any(each.is_up and each.broker not in dead for each in missing):
        yield "kafkaesque doctor    (again, in a minute: a controller that is behind catches up)"
    if down := [node for node in dead if state_of(facts, node) == "is down"]:
        yield (
            f"or, if broker {down[0]} is gone for good: kafkaesque cluster controllers add "
            f"{_successor(facts)} && kafkaesque cluster controllers remove {down[0]}"
        )


def _successor(facts: Facts) -> str:
    """Return which broker could vote in place of another, or the word for one that is to come."""
    fit = [
        each.id
        for each in facts.brokers
        if each.id not in facts.controllers
        and facts.answers(each.id)
        and not each.has_failed
        and not (each.admin is not None and each.admin.reasons)
    ]
    return str(min(fit, default="BROKER"))


def _nobody_leads(facts: Facts) -> Finding:
    voters = facts.controllers
    lost = [node for node in voters if node in facts.lost_controllers]
    missing = [node for node in voters if node in lost or not facts.answers(node)]
    needed = len(voters) // 2 + 1
    states = ", ".join(f"broker {node} {state_of(facts, node)}" for node in missing)
    is_lost = len(voters) - len(missing) < needed
    what = "no controller leads"
    if voters:
        what = f"none of the controllers {', '.join(map(str, voters))} leads"
    if states:
        what += f": {states}"
    if lost and len(voters) - len(lost) < needed:
        cause, command = _majority_is_lost(facts, voters, lost)
    elif is_lost:
        cause = f"{_WITHOUT}; {needed} of {len(voters)} have to be up"
        if lost:
            cause += f", and {in_words(lost)}, which {have_lost(lost)}, cannot vote before that"
        command = bring_back(facts, [node for node in missing if node not in lost])
    else:
        cause = (
            f"{_WITHOUT}; enough of them are up, but cannot reach one another, or are just electing"
        )
        command = "kafkaesque doctor    (again), and check the peer ports between their machines"
        if down := [node for node in missing if node not in lost]:
            command += f"; {bring_back(facts, down)}"
    return Finding(
        check="controllers-missing",
        severity=Severity.CRITICAL,
        what=what,
        cause=cause
        if voters
        else f"{_WITHOUT}; without admin ports it is not known which brokers they are",
        command=command if voters else "start all brokers that [controllers] names in their files",
        names=[str(node) for node in missing or voters],
    )


def _majority_is_lost(facts: Facts, voters: list[int], lost: list[int]) -> tuple[str, str]:
    """Return why nobody can ever be elected with what is left, and what to do."""
    sound = [node for node in voters if node not in lost]
    needed = len(voters) // 2 + 1
    those_left = f"only {in_words(sound)} {'has' if len(sound) == 1 else 'have'} it"
    cause = (
        f"{_WITHOUT}; {in_words(lost)} {have_lost(lost)}, and no majority has the controllers' log "
        f"any more: {needed} of {len(voters)} must have it, and "
        f"{those_left if sound else 'none has it'}; without that majority a broker with an empty "
        "directory gets no vote, so this does not heal by itself"
    )
    fewest = needed - len(sound)
    enough = f"    ({fewest} of them {'is' if fewest == 1 else 'are'} enough)"
    down = [node for node in sound if not facts.answers(node)]
    words = [f"stop {in_words(lost)}, put their old directories back, start them{enough}"]
    if down:
        words.insert(0, bring_back(facts, down))
    words.append(
        "if those are gone for good, found a new cluster, and copy what the remaining directories "
        "hold: kafkaesque log dump DIR -p TOPIC-N --records --json | kafkaesque publish TOPIC "
        f"--format json --keep-partitions    (each broker stopped; {_LOST})"
    )
    return cause, "; ".join(words)
