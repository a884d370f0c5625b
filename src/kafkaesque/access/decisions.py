"""The only judge: may this principal, from this host, do that to this resource?

- A rule that denies wins over all that allow. Without a rule there is no access.
- The rules that count are those for the user, for `User:*`, and for the user's roles that exist.
- Allowed Read, Write, Delete or Alter imply Describe, and AlterConfigs implies DescribeConfigs. A
  deny implies nothing.
- Whoever is disabled may do nothing, a super user included. A super user may do everything else.
- An allow for any name or a prefix does not reach names that begin with `__` (see `Rule`).

A judge belongs to one state and never changes, so what it has decided it can remember.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Final

from kafkaesque.access.networks import HostAddress, read_address
from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.access.principals import ANY_USER, Principal, role_principal, user_name
from kafkaesque.access.rule_index import IndexedRule, Shelf, Shelves
from kafkaesque.access.rules import DEFAULT_VHOST_PREFIX, PatternKind, Rule
from kafkaesque.access.state import AccessState
from kafkaesque.access.topic_permissions import (
    TopicPermission,
    TopicPermissionKey,
    TopicPermissions,
)

#: Decisions that a judge remembers: about 250 bytes each.
DECISIONS_MAX: Final = 20_000
#: Characters of the names in them; names come from clients, and may be long.
REMEMBERED_CHARACTERS_MAX: Final = 2_000_000
#: Principals and hosts that a judge remembers.
CALLERS_MAX: Final = 10_000


class Reason(Enum):
    """What a decision comes from."""

    ALLOWED = "allowed by rule"
    DENIED = "denied by rule"
    NO_RULE = "no rule allows it"
    SUPER_USER = "a super user"
    DISABLED = "the user is disabled"


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether something is allowed, and because of what."""

    allowed: bool
    reason: Reason
    #: Where a rule has decided.
    rule: Rule | None = None

    @property
    def because(self) -> str:
        """The reason in words, for the audit log and for people; not for clients."""
        if self.rule is None:
            return self.reason.value
        return f"{self.reason.value} {self.rule.id}: {self.rule}"


_NO_RULE: Final = Decision(False, Reason.NO_RULE)
_SUPER_USER: Final = Decision(True, Reason.SUPER_USER)
_DISABLED: Final = Decision(False, Reason.DISABLED)

#: Principal, host, operation, resource type, name of the resource; by position.
Decide = Callable[[Principal, str, Operation, ResourceType, str], Decision]

#: Kind of a rule's pattern and its name.
IsBelow = Callable[[PatternKind, str], bool]


class Judge:
    """Decides by one state; another state has another judge: see `after`."""

    __slots__ = ("_bench", "decide", "rules_epoch", "super_users", "topic_permissions")

    #: Return the decision. From memory it takes 0.1 µs, by the rules a few µs.
    decide: Decide

    def __init__(self, state: AccessState, super_users: Collection[Principal] = ()) -> None:
        self.rules_epoch = state.rules_epoch
        self.super_users = frozenset(super_users)
        #: Of all users; empty where no key has to be looked at.
        self.topic_permissions: TopicPermissions = state.topic_permissions
        self._bench = _Bench(state, self.super_users)
        # The wrapper is C, and takes half the time of a method with a dictionary.
        remembering = lru_cache(DECISIONS_MAX)(self._bench.decide)
        self._bench.forget = remembering.cache_clear
        self.decide = remembering

    def after(self, state: AccessState) -> "Judge":
        """Return the judge for a newer state: this one, if no decision can have changed."""
        if state.rules_epoch == self.rules_epoch:
            return self
        return Judge(state, self.super_users)

    def topic_permission(
        self, principal: Principal, vhost: str, exchange: str
    ) -> TopicPermission | None:
        """Return what limits the routing keys of a user at an exchange; None: nothing does."""
        if not self.topic_permissions or principal in self.super_users:
            return None
        name = user_name(principal)
        if name is None:
            return None
        return self.topic_permissions.get(TopicPermissionKey(name, vhost, exchange))

    def decide_some(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType
    ) -> Decision:
        """Return whether there is any name for which it is allowed (KIP-679).

        Never says yes where each name that an allow reaches is denied; a deny for all names or for
        a prefix counts as far as it covers the whole of an allow.
        """
        return self._bench.decide_some(principal, host, operation, resource_type)

    def has_allow_below(
        self, principal: Principal, host: str, resource_type: ResourceType, is_below: IsBelow
    ) -> bool:
        """Return whether some rule allows something with a name that `is_below` says is meant.

        Rules that deny do not count: what they deny is refused when it is asked for.
        """
        return self._bench.has_allow_below(principal, host, resource_type, is_below)

    def has_deny_among(
        self,
        principal: Principal,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        prefix: str,
    ) -> bool:
        """Return whether some rule denies an operation for any name that begins with a prefix."""
        return self._bench.has_deny_among(principal, host, operation, resource_type, prefix)

    def decide_all(
        self, principal: Principal, host: str, resource_type: ResourceType, name: str
    ) -> frozenset[Operation]:
        """Return every operation that is allowed on a resource."""
        return frozenset(
            each
            for each in Operation
            if each is not Operation.ALL
            and self.decide(principal, host, each, resource_type, name).allowed
        )


@dataclass(slots=True)
class _Bench:
    """What a judge looks up, and the way to a decision that it does not remember."""

    state: AccessState
    super_users: frozenset[Principal]
    #: Whose rules count for a principal; None: it is disabled.
    _shelves: dict[Principal, tuple[Shelves, ...] | None] = field(default_factory=dict)
    _addresses: dict[str, HostAddress | None] = field(default_factory=dict)
    #: Of the names in decisions made since the judge has forgotten all of them.
    characters: int = 0
    #: Makes it forget them.
    forget: Callable[[], None] = lambda: None

    def decide(
        self,
        principal: Principal,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> Decision:
        self.characters += len(name)
        if self.characters > REMEMBERED_CHARACTERS_MAX:
            self.characters = 0
            self.forget()
        shelves = self._shelves_of(principal)
        if shelves is None:
            return _DISABLED
        if principal in self.super_users:
            return _SUPER_USER
        bit, allowing = 1 << operation, None
        for each in shelves:
            shelf = each.get(resource_type)
            if shelf is None:
                continue
            for rule in shelf.matching(name):
                if not rule.bits & bit or not (
                    rule.network is None or rule.network.holds(self._address_of(host))
                ):
                    continue
                if rule.is_deny:
                    return Decision(False, Reason.DENIED, rule.rule)
                allowing = allowing or rule
        if allowing is None:
            return _NO_RULE
        return Decision(True, Reason.ALLOWED, allowing.rule)

    def decide_some(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType
    ) -> Decision:
        shelves = self._shelves_of(principal)
        if shelves is None:
            return _DISABLED
        if principal in self.super_users:
            return _SUPER_USER
        found = [each[resource_type] for each in shelves if resource_type in each]
        holding = self._holding(found, host, 1 << operation)
        denies = [each.rule for each in holding if each.is_deny]
        for rule in (each.rule for each in holding if not each.is_deny):
            if not any(_covers(deny, rule) for deny in denies):
                return Decision(True, Reason.ALLOWED, rule)
        return Decision(False, Reason.DENIED, denies[0]) if denies else _NO_RULE

    def has_allow_below(
        self, principal: Principal, host: str, resource_type: ResourceType, is_below: IsBelow
    ) -> bool:
        shelves = self._shelves_of(principal)
        if shelves is None:
            return False
        if principal in self.super_users:
            return True
        found = [each[resource_type] for each in shelves if resource_type in each]
        return any(
            not each.is_deny and is_below(each.rule.pattern, each.rule.name)
            for each in self._holding(found, host, -1)
        )

    def has_deny_among(
        self,
        principal: Principal,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        prefix: str,
    ) -> bool:
        shelves = self._shelves_of(principal)
        if shelves is None:
            return True
        if principal in self.super_users:
            return False
        found = [each[resource_type] for each in shelves if resource_type in each]
        return any(
            each.is_deny and _reaches(each.rule, prefix)
            for each in self._holding(found, host, 1 << operation)
        )

    def _holding(self, shelves: list[Shelf], host: str, bit: int) -> list[IndexedRule]:
        address = self._address_of(host)
        return [
            each
            for shelf in shelves
            for each in shelf.all_rules()
            if each.bits & bit and each.is_for(address)
        ]

    def _shelves_of(self, principal: Principal) -> tuple[Shelves, ...] | None:
        try:
            return self._shelves[principal]
        except KeyError:
            if len(self._shelves) >= CALLERS_MAX:
                self._shelves.clear()
            found = self._shelves[principal] = _find_shelves(self.state, principal)
            return found

    def _address_of(self, host: str) -> HostAddress | None:
        try:
            return self._addresses[host]
        except KeyError:
            if len(self._addresses) >= CALLERS_MAX:
                self._addresses.clear()
            found = self._addresses[host] = read_address(host)
            return found


def counting_principals(state: AccessState, principal: Principal) -> tuple[Principal, ...] | None:
    """Return the principals whose rules count for a user: itself, its roles, and all users.

    None if the user is disabled.
    """
    name = user_name(principal)
    if name is None:
        # Nobody is a role: its rules come to users by membership alone.
        return ()
    user = state.users.get(name)
    if user is None:
        return (principal, ANY_USER)
    if user.is_disabled:
        return None
    roles = (role_principal(each) for each in user.roles if each in state.roles)
    return (principal, *roles, ANY_USER)


def _find_shelves(state: AccessState, principal: Principal) -> tuple[Shelves, ...] | None:
    counting = counting_principals(state, principal)
    if counting is None:
        return None
    found = (state.rule_index.shelves(each) for each in counting)
    return tuple(each for each in found if each)


def _reaches(rule: Rule, prefix: str) -> bool:
    """Tell whether a rule is for any name that begins with a prefix."""
    if rule.pattern is PatternKind.ANY or rule.name.startswith(prefix):
        return True
    return rule.pattern is PatternKind.PREFIX and prefix.startswith(rule.name)


def _covers(deny: Rule, allow: Rule) -> bool:
    """Tell whether each name that an allow reaches is denied by a deny for the same operation."""
    if deny.pattern is PatternKind.ANY:
        return True
    if allow.pattern is PatternKind.ANY or (
        allow.pattern is PatternKind.PREFIX and deny.pattern is PatternKind.LITERAL
    ):
        return False
    if deny.matches_name(allow.name):
        return True
    # By the names alone, as rules without a virtual host have them.
    plain = allow.name.removeprefix(DEFAULT_VHOST_PREFIX) if allow.is_of_default_vhost else ""
    return bool(plain) and deny.matches_name(plain)
