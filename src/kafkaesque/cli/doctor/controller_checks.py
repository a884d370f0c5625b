"""Whether the controllers are led, and how many of them may still fail."""

from collections.abc import Iterator

from kafkaesque.cli.doctor.advice import bring_back, in_words, state_of
from kafkaesque.cli.doctor.facts import Facts
from kafkaesque.cli.doctor.findings import Finding, Limits, Severity
from kafkaesque.cli.quorum import QuorumMember

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
        what=f"of {len(voters)} controllers {states}; {max(0, spare)} more may fail",
        cause=_WITHOUT,
        command="; ".join(_helps(facts, missing)),
        names=[str(each.broker) for each in missing],
    )


def _state(facts: Facts, member: QuorumMember) -> str:
    if not facts.answers(member.broker):
        return state_of(facts, member.broker)
    return "is behind" if member.is_up else "runs, and does not reach the one that leads"


def _helps(facts: Facts, missing: list[QuorumMember]) -> Iterator[str]:
    """Return what to do, by what is the matter: to start one that runs cannot help."""
    dead = [each.broker for each in missing if not facts.answers(each.broker)]
    if dead:
        yield bring_back(facts, dead)
    if cut := [each.broker for each in missing if each.broker not in dead and not each.is_up]:
        yield f"check the network between the peer ports of {in_words(cut)} and of the others"
    if any(each.is_up and each.broker not in dead for each in missing):
        yield "kafkaesque doctor    (again, in a minute: who is behind catches up)"
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
    missing = [node for node in voters if not facts.answers(node)]
    needed = len(voters) // 2 + 1
    states = ", ".join(f"broker {node} {state_of(facts, node)}" for node in missing)
    is_lost = len(voters) - len(missing) < needed
    what = "nobody leads the controllers"
    if voters:
        what += f", which are {', '.join(map(str, voters))}"
    if states:
        what += f": {states}"
    if is_lost:
        cause = f"{_WITHOUT}; {needed} of {len(voters)} have to be up"
        command = bring_back(facts, missing)
    else:
        cause = f"{_WITHOUT}; so many are up, and do not reach one another, or elect at this moment"
        command = "kafkaesque doctor    (again), and check the peer ports between their machines"
        if missing:
            command += f"; {bring_back(facts, missing)}"
    return Finding(
        check="controllers-missing",
        severity=Severity.CRITICAL,
        what=what,
        cause=cause if voters else f"{_WITHOUT}; who they are is not known without admin ports",
        command=command if voters else "start all brokers that [controllers] names in their files",
        names=[str(node) for node in missing or voters],
    )
