"""Whether somebody may do what a message waits for: its links."""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from kafkaesque.access.decisions import Decision
from kafkaesque.access.networks import ANY_HOST
from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.access.principals import read_principal
from kafkaesque.admin.api.access_words import resource_words, word_of
from kafkaesque.admin.api.why_links import BLOCKING, NAMES_MAX, PASSED, UNKNOWN, Link
from kafkaesque.broker.doors.access import Access
from kafkaesque.chassis.rights import needed_as_well

#: Stands for any address where none was given.
ANYWHERE: Final = "0.0.0.0"
#: Of the hosts in rules, so many are looked at.
HOSTS_MAX: Final = 200

Need = tuple[Operation, ResourceType, str]


def access_links(access: Access, principal: str, needs: Iterable[Need]) -> Iterator[Link]:
    """Say whether a principal may do all of it; the first that it may not blocks.

    That it may is said only where it depends on nothing.

    Raises:
        InvalidRequest: that is no principal.
    """
    who = read_principal(principal)
    hosts = _hosts_of_rules(access)
    depends = False
    for operation, kind, name in _with_queues(access, needs):
        decision = access.decide(who, ANYWHERE, operation, kind, name)
        others = {
            host: each
            for host, address in hosts.items()
            if (each := access.decide(who, address, operation, kind, name)).allowed
            is not decision.allowed
        }
        if others:
            depends = True
            yield _depending_link(principal, operation, kind, name, others)
            continue
        if decision.allowed:
            continue
        words = [principal, "-o", word_of(operation), *resource_words(kind, name)]
        yield Link(
            name="denied",
            state=BLOCKING,
            what=f"{principal} may not {word_of(operation)} the {word_of(kind)} {name}",
            evidence=[decision.because],
            command=f"kafkaesque rule create {shlex.join(words)}",
        )
        return
    if not depends:
        yield Link(name="allowed", state=PASSED, what=f"{principal} may do it")


def _with_queues(access: Access, needs: Iterable[Need]) -> Iterator[Need]:
    """Yield what is needed, and of a topic that shows a queue what is needed of that, too."""
    for need in needs:
        yield need
        behind = needed_as_well(access, *need)
        if behind is not None:
            yield behind


def _hosts_of_rules(access: Access) -> dict[str, str]:
    """Return the hosts that rules name, each with an address that is one of it."""
    named = {each.host for each in access.state.rules.values() if each.host != ANY_HOST}
    return {host: host.partition("/")[0] for host in sorted(named)[:HOSTS_MAX]}


def _depending_link(
    principal: str,
    operation: Operation,
    kind: ResourceType,
    name: str,
    others: Mapping[str, Decision],
) -> Link:
    """Say that it depends on where somebody comes from, which nobody has said."""
    evidence = [
        f"{'allowed' if each.allowed else 'not allowed'} from {host}: {each.because}"
        for host, each in list(others.items())[:NAMES_MAX]
    ]
    return Link(
        name="denied",
        state=UNKNOWN,
        what=f"whether {principal} may {word_of(operation)} the {word_of(kind)} {name} depends on "
        "where it comes from",
        evidence=evidence,
        command=f"kafkaesque rule list --principal {shlex.quote(principal)}",
    )
