"""Operations and types of resources, by the words that people write, and commands about them."""

from collections.abc import Iterable, Sequence
from typing import Final

from kafkaesque.access.operations import CLUSTER_NAME, Operation, ResourceType
from kafkaesque.access.principals import read_principal
from kafkaesque.access.rules import Effect, PatternKind, Rule, check_rule
from kafkaesque.admin.api.access_values import NewRule, RuleRow
from kafkaesque.model.errors import InvalidRequest

_OPERATIONS: Final = {each.name.lower().replace("_", "-"): each for each in Operation}
_TYPES: Final = {each.name.lower().replace("_", "-"): each for each in ResourceType}


def read_operation(word: str) -> Operation:
    """Return an operation.

    Raises:
        InvalidRequest: there is none of this name.
    """
    found = _OPERATIONS.get(word.lower())
    if found is None:
        raise InvalidRequest(f"{word!r} is no operation: {', '.join(_OPERATIONS)} are")
    return found


def read_type(word: str) -> ResourceType:
    """Return a type of resources.

    Raises:
        InvalidRequest: there is none of this name.
    """
    found = _TYPES.get(word.lower())
    if found is None:
        raise InvalidRequest(f"{word!r} is no type of resources: {', '.join(_TYPES)} are")
    return found


def word_of(value: Operation | ResourceType) -> str:
    """Return how it is written."""
    return value.name.lower().replace("_", "-")


def read_rules(body: NewRule) -> list[Rule]:
    """Return the rules that somebody wants to add, without numbers.

    Raises:
        InvalidRequest: a part of it is not possible, or parts contradict each other.
    """
    kind, pattern, name = read_type(body.resource_type), PatternKind(body.pattern), body.name
    if kind is ResourceType.CLUSTER:
        pattern, name = PatternKind.LITERAL, CLUSTER_NAME
    rules = [
        Rule(
            effect=Effect(body.effect),
            principal=read_principal(body.principal),
            operation=read_operation(each),
            resource_type=kind,
            pattern=pattern,
            name=name,
            host=body.host,
        )
        for each in dict.fromkeys(body.operations)
    ]
    for rule in rules:
        check_rule(rule)
    return rules


def shown_rule(rule: Rule) -> RuleRow:
    """Return a rule as the API shows it."""
    return RuleRow(
        id=rule.id,
        effect=rule.effect.value,
        principal=rule.principal,
        operation=word_of(rule.operation),
        resource_type=word_of(rule.resource_type),
        pattern=rule.pattern.value,
        name=rule.name,
        host=rule.host,
    )


def creation_words(rules: Sequence[Rule]) -> list[str]:
    """Return the command that adds rules, which differ in their operations alone."""
    first = rules[0]
    words = ["kafkaesque", "rule", "create", str(first.principal)]
    words += [*_operation_words(rules), *resource_words(first.resource_type, _name_of(first))]
    words += ["--prefix"] if first.pattern is PatternKind.PREFIX else []
    words += ["--deny"] if first.effect is Effect.DENY else []
    return words + (["--host", first.host] if first.host != "*" else [])


def deletion_words(rule: Rule) -> list[str]:
    """Return the command that removes a rule."""
    words = ["kafkaesque", "rule", "delete", "--principal", str(rule.principal)]
    words += [*_operation_words([rule]), *resource_words(rule.resource_type, _name_of(rule))]
    words += ["--prefix" if rule.pattern is PatternKind.PREFIX else "--literal"]
    return [*words, "--effect", rule.effect.value, "--yes"]


def resource_words(kind: ResourceType, name: str) -> list[str]:
    """Return the options that name a resource."""
    if kind is ResourceType.CLUSTER:
        return ["--cluster"]
    return [f"--{word_of(kind)}", name]


def _operation_words(rules: Iterable[Rule]) -> list[str]:
    return [part for each in rules for part in ("-o", word_of(each.operation))]


def _name_of(rule: Rule) -> str:
    return "*" if rule.pattern is PatternKind.ANY else rule.name
