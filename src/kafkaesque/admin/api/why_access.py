"""Whether somebody may do what a message waits for: its links."""

from collections.abc import Iterable, Iterator
from typing import Final

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.access.principals import read_principal
from kafkaesque.admin.api.access_words import resource_words, word_of
from kafkaesque.admin.api.why_links import BLOCKING, PASSED, Link
from kafkaesque.broker.doors.access import Access

#: Stands for any address where none was given.
ANYWHERE: Final = "0.0.0.0"

Need = tuple[Operation, ResourceType, str]


def access_links(access: Access, principal: str, needs: Iterable[Need]) -> Iterator[Link]:
    """Say whether a principal may do all of it; the first that it may not blocks.

    Raises:
        InvalidRequest: that is no principal.
    """
    who = read_principal(principal)
    for operation, kind, name in needs:
        decision = access.decide(who, ANYWHERE, operation, kind, name)
        if decision.allowed:
            continue
        words = " ".join(resource_words(kind, name))
        yield Link(
            name="denied",
            state=BLOCKING,
            what=f"{principal} may not {word_of(operation)} the {word_of(kind)} {name}",
            evidence=[decision.because],
            command=f"kafkaesque rule create {principal} -o {word_of(operation)} {words}",
        )
        return
    yield Link(name="allowed", state=PASSED, what=f"{principal} may do it")
