"""Rules as Kafka's access control lists: bindings, and the filters of DescribeAcls and DeleteAcls.

Kafka writes a rule for any name as the literal `*` (KIP-290 has the filters). Rules for types of
our own are shown to nobody who does not name such a type: Kafka's tools do not know the numbers.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from kafkaesque.access.operations import FIRST_OWN_TYPE, Operation, ResourceType
from kafkaesque.access.principals import read_principal
from kafkaesque.access.rules import Effect, PatternKind, Rule, check_rule
from kafkaesque.model.errors import InvalidRequest

#: Kafka's name for any name.
WILDCARD: Final = "*"
#: In a filter's operation and resource type.
ANY: Final = 1


class PatternType(IntEnum):
    """Kafka's pattern types; the first two stand in filters only."""

    ANY = 1
    #: Everything that affects the resource of this name.
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """Kafka's permission types; the first stands in filters only."""

    ANY = 1
    DENY = 2
    ALLOW = 3


_PERMISSIONS: Final = {Effect.DENY: Permission.DENY, Effect.ALLOW: Permission.ALLOW}
_EFFECTS: Final = {permission: effect for effect, permission in _PERMISSIONS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class AclBinding:
    """A rule in Kafka's words and numbers."""

    resource_type: int
    name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFilter:
    """What DescribeAcls and DeleteAcls look for; None stands for everything."""

    resource_type: int = ANY
    name: str | None = None
    pattern_type: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = ANY
    permission: int = Permission.ANY


def write_binding(rule: Rule) -> AclBinding:
    """Return a rule as Kafka writes it."""
    is_prefix = rule.pattern is PatternKind.PREFIX
    return AclBinding(
        resource_type=rule.resource_type,
        name=WILDCARD if rule.pattern is PatternKind.ANY else rule.name,
        pattern_type=PatternType.PREFIXED if is_prefix else PatternType.LITERAL,
        principal=rule.principal,
        host=rule.host,
        operation=rule.operation,
        permission=_PERMISSIONS[rule.effect],
    )


def read_binding(binding: AclBinding) -> Rule:
    """Return the rule that CreateAcls asks for.

    Raises:
        InvalidRequest: a number is unknown or stands for any, or the rule is not possible.
    """
    permission, pattern = binding.permission, binding.pattern_type
    if permission not in _EFFECTS:
        raise InvalidRequest(f"a rule allows or denies: permission {permission} does neither")
    if pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise InvalidRequest(f"a rule's pattern is literal or prefixed, not {pattern}")
    kind, name = PatternKind.LITERAL, binding.name
    if pattern == PatternType.PREFIXED:
        kind = PatternKind.PREFIX
    elif name == WILDCARD:
        kind, name = PatternKind.ANY, ""
    rule = Rule(
        effect=_EFFECTS[Permission(permission)],
        principal=read_principal(binding.principal),
        operation=_read_operation(binding.operation),
        resource_type=_read_resource_type(binding.resource_type),
        pattern=kind,
        name=name,
        host=binding.host,
    )
    check_rule(rule)
    return rule


def check_filter(wanted: AclFilter) -> None:
    """Check a filter.

    Raises:
        InvalidRequest: it has a number that Kafka does not have.
    """
    if wanted.resource_type != ANY:
        _read_resource_type(wanted.resource_type)
    if wanted.operation != ANY:
        _read_operation(wanted.operation)
    if wanted.pattern_type not in set(PatternType):
        raise InvalidRequest(f"{wanted.pattern_type} is no pattern type")
    if wanted.permission not in set(Permission):
        raise InvalidRequest(f"{wanted.permission} is no permission type")


def find_rules(rules: Iterable[Rule], wanted: AclFilter) -> tuple[Rule, ...]:
    """Return the rules that a filter is for.

    Raises:
        InvalidRequest: see `check_filter`.
    """
    check_filter(wanted)
    return tuple(each for each in rules if _is_wanted(each, wanted))


def _is_wanted(rule: Rule, wanted: AclFilter) -> bool:
    if rule.resource_type >= FIRST_OWN_TYPE and wanted.resource_type == ANY:
        return False
    binding = write_binding(rule)
    return (
        wanted.resource_type in (ANY, binding.resource_type)
        and wanted.operation in (ANY, binding.operation)
        and wanted.permission in (Permission.ANY, binding.permission)
        and wanted.principal in (None, binding.principal)
        and wanted.host in (None, binding.host)
        and _is_pattern_wanted(binding, wanted)
    )


def _is_pattern_wanted(binding: AclBinding, wanted: AclFilter) -> bool:
    kind, name = wanted.pattern_type, wanted.name
    if kind in (PatternType.LITERAL, PatternType.PREFIXED) and kind != binding.pattern_type:
        return False
    if name is None:
        return True
    if kind != PatternType.MATCH:
        return name == binding.name
    if binding.pattern_type == PatternType.PREFIXED:
        return name.startswith(binding.name)
    return binding.name in (name, WILDCARD)


def _read_operation(number: int) -> Operation:
    try:
        return Operation(number)
    except ValueError:
        raise InvalidRequest(f"{number} is no operation that a rule can have") from None


def _read_resource_type(number: int) -> ResourceType:
    try:
        return ResourceType(number)
    except ValueError:
        raise InvalidRequest(f"{number} is no resource type that a rule can have") from None
