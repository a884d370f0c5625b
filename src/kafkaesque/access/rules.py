"""Rules: who may, or may not, do what to which resources, and from where."""

from enum import Enum
from typing import Final

import msgspec

from kafkaesque.access.networks import ANY_HOST, read_network
from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.access.principals import Principal, read_principal
from kafkaesque.model.errors import InvalidRequest

#: Names that begin so belong to the brokers.
INTERNAL_PREFIX: Final = "__"
#: Queues and exchanges of other virtual hosts than the default one are called so in rules.
VHOST_MARK: Final = "vhost:"
#: A prefix that begins so is for names of the default virtual host alone. Without it, a prefix is
#: for whatever begins so, and a rule for any name is for those of all virtual hosts.
DEFAULT_VHOST_PREFIX: Final = f"{VHOST_MARK}%2F/"
#: Characters of a resource's name in a rule.
RESOURCE_LENGTH_MAX: Final = 1_000


class Effect(Enum):
    """What a rule does with what it matches."""

    ALLOW = "allow"
    DENY = "deny"


class PatternKind(Enum):
    """How a rule names resources."""

    LITERAL = "literal"
    PREFIX = "prefix"
    #: Every name; Kafka writes it as the literal `*`.
    ANY = "any"


#: What makes two rules the same.
RuleKey = tuple[str, str, str, int, int, str, str]


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One rule.

    An allow for any name or for a prefix does not reach names that begin with `__`; a deny does. So
    nobody gets to the brokers' own resources but by a rule that names one.
    """

    effect: Effect
    #: A user, a role, or `User:*`.
    principal: Principal
    operation: Operation
    resource_type: ResourceType
    pattern: PatternKind = PatternKind.LITERAL
    #: The name or the prefix; empty for any.
    name: str = ""
    #: An address, a network, or `*`.
    host: str = ANY_HOST
    #: Given by the controller; 0 before that.
    id: int = 0
    #: Of the change that added it.
    epoch: int = 0

    @property
    def key(self) -> RuleKey:
        """What no other rule has: all of it but the number and the epoch."""
        return (
            self.effect.value,
            self.principal,
            self.host,
            self.operation,
            self.resource_type,
            self.pattern.value,
            self.name,
        )

    def matches_name(self, name: str) -> bool:
        """Tell whether a resource of the rule's type is among those that it is for."""
        if self.pattern is PatternKind.LITERAL:
            return name == self.name
        if self.effect is Effect.ALLOW and name.startswith(INTERNAL_PREFIX):
            return False
        if self.pattern is PatternKind.ANY or name.startswith(self.name):
            return True
        return self.is_of_default_vhost and full_name(name).startswith(self.name)

    @property
    def is_of_default_vhost(self) -> bool:
        """Whether it is for names of the default virtual host alone."""
        return self.pattern is PatternKind.PREFIX and self.name.startswith(DEFAULT_VHOST_PREFIX)

    def __str__(self) -> str:
        if self.pattern is PatternKind.ANY:
            resource = "any name"
        else:
            resource = f"{self.pattern.value} {self.name!r}"
        source = "" if self.host == ANY_HOST else f" from {self.host}"
        return (
            f"{self.effect.value} {self.principal} {self.operation.name} on "
            f"{self.resource_type.name} {resource}{source}"
        )


def full_name(name: str) -> str:
    """Return a name with its virtual host, where it is one of the default one."""
    return name if name.startswith(VHOST_MARK) else DEFAULT_VHOST_PREFIX + name


def check_rule(rule: Rule) -> None:
    """Check a rule that somebody wants to add.

    Raises:
        InvalidRequest: a part of it is not possible, or parts contradict each other.
    """
    read_principal(rule.principal)
    if rule.host != ANY_HOST:
        read_network(rule.host)
    if rule.pattern is PatternKind.ANY and rule.name:
        raise InvalidRequest(f"a rule for any name cannot name {rule.name!r}")
    if rule.pattern is not PatternKind.ANY and not rule.name:
        raise InvalidRequest(f"a {rule.pattern.value} rule needs a name")
    if rule.pattern is PatternKind.LITERAL and rule.name == "*":
        raise InvalidRequest("a literal rule for '*' is one for any name")
    if rule.name.startswith(DEFAULT_VHOST_PREFIX):
        if rule.resource_type not in (ResourceType.QUEUE, ResourceType.EXCHANGE):
            raise InvalidRequest("only queues and exchanges are in a virtual host")
        if rule.pattern is PatternKind.LITERAL:
            raise InvalidRequest("in the default virtual host a literal rule has the name alone")
    if len(rule.name) > RESOURCE_LENGTH_MAX or not rule.name.isprintable():
        raise InvalidRequest(
            f"the name in a rule has at most {RESOURCE_LENGTH_MAX} characters, all of them visible"
        )
