"""What clients are told that may not do something, and what a command line reads from it.

A refused client learns which operation on what it lacks, and if a rule denies it, that rule's
number: enough for an administrator, and nothing of what other rules say.
"""

import ast
import re
from dataclasses import dataclass
from typing import Final

from kafkaesque.access.decisions import Decision, Reason
from kafkaesque.access.operations import Operation, ResourceType

_SENTENCE: Final = re.compile(
    r"(?:no rule allows|rule (?P<rule>\d+) denies|the user is disabled:) "
    r"(?P<operation>[A-Za-z]+) on (?:the cluster|(?P<kind>[a-z ]+) (?P<name>['\"].*))"
)
_CAPITAL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Refused:
    """What a refusal is about."""

    operation: Operation
    kind: ResourceType
    #: Empty for the cluster.
    name: str
    #: The rule that denies it, if one does.
    rule_id: int | None


def refusal_words(decision: Decision, operation: Operation, kind: ResourceType, name: str) -> str:
    """Return a refusal as one sentence without its period."""
    word = operation.name.replace("_", " ").title().replace(" ", "")
    what = kind.name.lower().replace("_", " ")
    where = "the cluster" if kind is ResourceType.CLUSTER else f"{what} {name!r}"
    return f"{_beginning(decision)} {word} on {where}"


def _beginning(decision: Decision) -> str:
    if decision.reason is Reason.DENIED and decision.rule is not None:
        return f"rule {decision.rule.id} denies"
    if decision.reason is Reason.DISABLED:
        return "the user is disabled:"
    return "no rule allows"


def read_refusal(words: str) -> Refused | None:
    """Return what a sentence of `refusal_words` is about; None if it is another one."""
    found = _SENTENCE.fullmatch(words)
    if found is None:
        return None
    operation = _CAPITAL.sub("_", found["operation"]).upper()
    kind = (found["kind"] or "cluster").replace(" ", "_").upper()
    try:
        name = ast.literal_eval(found["name"]) if found["name"] else ""
        rule_id = int(found["rule"]) if found["rule"] else None
        return Refused(Operation[operation], ResourceType[kind], name, rule_id)
    except (KeyError, SyntaxError, ValueError):
        return None
