"""Rules sorted by whom and what they are for, so that a decision looks at few of them.

For each principal and resource type: the rules for any name, those for one name by that name, and
those for a prefix by that prefix, with the lengths that there are. A name is looked up once for
each length, whatever the number of rules.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from kafkaesque.access.networks import ANY_HOST, HostAddress, Network, read_network
from kafkaesque.access.operations import ResourceType, allowed_bits, denied_bits
from kafkaesque.access.principals import Principal
from kafkaesque.access.rules import (
    DEFAULT_VHOST_PREFIX,
    INTERNAL_PREFIX,
    VHOST_MARK,
    Effect,
    PatternKind,
    Rule,
)


@dataclass(frozen=True, slots=True)
class IndexedRule:
    """A rule, ready to be asked."""

    rule: Rule
    #: Operations that it covers, one bit for each number.
    bits: int
    is_deny: bool
    #: None: from everywhere.
    network: Network | None

    @staticmethod
    def of(rule: Rule) -> "IndexedRule":
        """Return the rule, with what it covers worked out."""
        is_deny = rule.effect is Effect.DENY
        return IndexedRule(
            rule,
            denied_bits(rule.operation) if is_deny else allowed_bits(rule.operation),
            is_deny,
            None if rule.host == ANY_HOST else read_network(rule.host),
        )

    def is_for(self, address: HostAddress | None) -> bool:
        """Tell whether it is for connections from this address."""
        return self.network is None or self.network.holds(address)


Rules = tuple[IndexedRule, ...]
_NONE: Final[Rules] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """The rules of one principal for one resource type."""

    any_name: Rules = ()
    literals: Mapping[str, Rules]
    prefixes: Mapping[str, Rules]
    #: Those that there are among the prefixes, ascending.
    prefix_lengths: tuple[int, ...] = ()
    #: The same of prefixes for the default virtual host alone.
    default_lengths: tuple[int, ...] = ()

    def matching(self, name: str) -> Rules:
        """Return the rules whose pattern matches a name."""
        found = self.literals.get(name, _NONE)
        wide = self.any_name
        prefixes, name_length = self.prefixes, len(name)
        for length in self.prefix_lengths:
            if length > name_length:
                break
            more = prefixes.get(name[:length])
            if more is not None:
                wide = wide + more
        if self.default_lengths and not name.startswith(VHOST_MARK):
            full = DEFAULT_VHOST_PREFIX + name
            for length in self.default_lengths:
                wide = wide + prefixes.get(full[:length], _NONE)
        if wide and name.startswith(INTERNAL_PREFIX):
            wide = tuple(each for each in wide if each.is_deny)
        return found + wide

    def with_rule(self, rule: IndexedRule) -> "Shelf":
        """Return the shelf with one rule more."""
        name = rule.rule.name
        match rule.rule.pattern:
            case PatternKind.ANY:
                return replace(self, any_name=(*self.any_name, rule))
            case PatternKind.LITERAL:
                literals = {**self.literals, name: (*self.literals.get(name, ()), rule)}
                return replace(self, literals=literals)
            case PatternKind.PREFIX:
                prefixes = {**self.prefixes, name: (*self.prefixes.get(name, ()), rule)}
                return self._with_prefixes(prefixes)

    def without(self, rule: Rule) -> "Shelf":
        """Return the shelf without a rule."""
        match rule.pattern:
            case PatternKind.ANY:
                return replace(self, any_name=_without(self.any_name, rule))
            case PatternKind.LITERAL:
                return replace(self, literals=_dropped(self.literals, rule))
            case PatternKind.PREFIX:
                return self._with_prefixes(_dropped(self.prefixes, rule))

    def _with_prefixes(self, prefixes: Mapping[str, Rules]) -> "Shelf":
        lengths, default_lengths = _lengths_of(prefixes)
        return replace(
            self, prefixes=prefixes, prefix_lengths=lengths, default_lengths=default_lengths
        )

    def all_rules(self) -> Iterator[IndexedRule]:
        """Yield every rule."""
        yield from self.any_name
        for group in (*self.literals.values(), *self.prefixes.values()):
            yield from group


def _lengths_of(prefixes: Iterable[str]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return which lengths there are, and which of prefixes for the default virtual host alone."""
    every = {len(each) for each in prefixes}
    own = {len(each) for each in prefixes if each.startswith(DEFAULT_VHOST_PREFIX)}
    return tuple(sorted(every)), tuple(sorted(own))


def _without(rules: Rules, rule: Rule) -> Rules:
    return tuple(each for each in rules if each.rule.id != rule.id)


def _dropped(by_name: Mapping[str, Rules], rule: Rule) -> Mapping[str, Rules]:
    left = dict(by_name)
    rest = _without(left.pop(rule.name), rule)
    if rest:
        left[rule.name] = rest
    return left


_EMPTY_SHELF: Final = Shelf(literals={}, prefixes={})

#: The shelves of one principal.
Shelves = Mapping[ResourceType, Shelf]
_NO_SHELVES: Final[Shelves] = {}


@dataclass(frozen=True, slots=True)
class RuleIndex:
    """All rules; a change gives another index, which shares what did not change."""

    by_principal: Mapping[Principal, Shelves]

    @staticmethod
    def of(rules: Iterable[Rule]) -> "RuleIndex":
        """Return the index of these rules, in time linear in their number."""
        sorted_out: dict[Principal, dict[ResourceType, list[IndexedRule]]] = {}
        for rule in rules:
            types = sorted_out.setdefault(rule.principal, {})
            types.setdefault(rule.resource_type, []).append(IndexedRule.of(rule))
        return RuleIndex(
            {
                principal: {kind: _make_shelf(each) for kind, each in types.items()}
                for principal, types in sorted_out.items()
            }
        )

    def shelves(self, principal: Principal) -> Shelves:
        """Return the rules for a principal by resource type."""
        return self.by_principal.get(principal, _NO_SHELVES)

    def with_rule(self, rule: Rule) -> "RuleIndex":
        """Return the index with one rule more."""
        shelf = self.shelves(rule.principal).get(rule.resource_type, _EMPTY_SHELF)
        return self._with_shelf(rule, shelf.with_rule(IndexedRule.of(rule)))

    def without(self, rule: Rule) -> "RuleIndex":
        """Return the index without a rule that is in it."""
        return self._with_shelf(
            rule, self.by_principal[rule.principal][rule.resource_type].without(rule)
        )

    def _with_shelf(self, rule: Rule, shelf: Shelf) -> "RuleIndex":
        shelves = dict(self.shelves(rule.principal))
        by_principal = dict(self.by_principal)
        shelves.pop(rule.resource_type, None)
        if shelf != _EMPTY_SHELF:
            shelves[rule.resource_type] = shelf
        by_principal.pop(rule.principal, None)
        if shelves:
            by_principal[rule.principal] = shelves
        return RuleIndex(by_principal)


def _make_shelf(rules: list[IndexedRule]) -> Shelf:
    any_name: list[IndexedRule] = []
    named: dict[PatternKind, dict[str, list[IndexedRule]]] = {
        PatternKind.LITERAL: {},
        PatternKind.PREFIX: {},
    }
    for each in rules:
        if each.rule.pattern is PatternKind.ANY:
            any_name.append(each)
        else:
            named[each.rule.pattern].setdefault(each.rule.name, []).append(each)
    prefixes = named[PatternKind.PREFIX]
    lengths, default_lengths = _lengths_of(prefixes)
    return Shelf(
        any_name=tuple(any_name),
        literals={name: tuple(each) for name, each in named[PatternKind.LITERAL].items()},
        prefixes={name: tuple(each) for name, each in prefixes.items()},
        prefix_lengths=lengths,
        default_lengths=default_lengths,
    )
