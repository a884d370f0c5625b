"""Who may do something, and because of which rules; and what a rule would match."""

from collections.abc import Iterable
from dataclasses import dataclass

from kafkaesque.access.decisions import counting_principals
from kafkaesque.access.networks import ANY_HOST, common_hosts
from kafkaesque.access.operations import Operation, ResourceType, allowed_bits, denied_bits
from kafkaesque.access.principals import ANY_USER, Principal, user_name, user_principal
from kafkaesque.access.rules import Effect, Rule
from kafkaesque.access.state import AccessState


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A principal may, from where the rule says."""

    principal: Principal
    #: Of the principal, of one of its roles, or of all users.
    rule: Rule
    #: Denies that hold for some hosts only: from those it may not.
    but_for: tuple[Rule, ...] = ()
    #: The rule for a second resource, where two have to allow it.
    also: Rule | None = None


def explain(
    state: AccessState, operation: Operation, resource_type: ResourceType, name: str
) -> tuple[Grant, ...]:
    """Return who may do an operation on a resource, by rules, sorted by principal.

    Every user that is stored and every user that a rule names is looked at; `User:*` stands for
    those who are neither. Super users are not among them: no rule makes them so.
    """
    rules = _rules_for(state, operation, resource_type, name)
    principals = {user_principal(each) for each in state.users}
    principals |= {each for each in state.rule_index.by_principal if user_name(each) is not None}
    found: list[Grant] = []
    for principal in sorted(principals):
        found += _grants_of(state, principal, rules)
    return tuple(found)


def both(first: Iterable[Grant], second: Iterable[Grant]) -> tuple[Grant, ...]:
    """Return who has a grant of each kind, from the same hosts; in the order of the first."""
    by_principal: dict[Principal, list[Grant]] = {}
    for each in second:
        by_principal.setdefault(each.principal, []).append(each)
    found: list[Grant] = []
    for one in first:
        for other in by_principal.get(one.principal, ()):
            host = common_hosts(one.rule.host, other.rule.host)
            denies = tuple(dict.fromkeys((*one.but_for, *other.but_for)))
            if host is None or any(common_hosts(host, deny.host) == host for deny in denies):
                continue
            found.append(
                Grant(principal=one.principal, rule=one.rule, but_for=denies, also=other.rule)
            )
    return tuple(found)


def matches(rule: Rule, names: Iterable[str]) -> tuple[str, ...]:
    """Return which of these names a rule is for, before it is added."""
    return tuple(each for each in names if rule.matches_name(each))


def _rules_for(
    state: AccessState, operation: Operation, resource_type: ResourceType, name: str
) -> dict[Principal, list[Rule]]:
    bit, found = 1 << operation, dict[Principal, list[Rule]]()
    for rule in state.rules.values():
        bits = denied_bits if rule.effect is Effect.DENY else allowed_bits
        if (
            rule.resource_type is resource_type
            and bits(rule.operation) & bit
            and rule.matches_name(name)
        ):
            found.setdefault(rule.principal, []).append(rule)
    return found


def _grants_of(
    state: AccessState, principal: Principal, rules: dict[Principal, list[Rule]]
) -> list[Grant]:
    if principal == ANY_USER:
        counting: tuple[Principal, ...] | None = (ANY_USER,)
    else:
        counting = counting_principals(state, principal)
    own = [rule for each in counting or () for rule in rules.get(each, ())]
    denies = tuple(each for each in own if each.effect is Effect.DENY)
    if any(each.host == ANY_HOST for each in denies):
        return []
    return [
        Grant(
            principal=principal,
            rule=each,
            but_for=tuple(deny for deny in denies if deny.host != each.host),
        )
        for each in own
        if each.effect is Effect.ALLOW and all(deny.host != each.host for deny in denies)
    ]
