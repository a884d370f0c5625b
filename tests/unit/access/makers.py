"""Users, rules and states in few words."""

from __future__ import annotations

import msgspec

from kafkaesque.access.credentials import AnyCredential, ScramVerifier
from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.access.principals import Principal, User
from kafkaesque.access.records import (
    AnyAccessRecord,
    CredentialPut,
    RolePut,
    RuleAdded,
    UserPut,
)
from kafkaesque.access.roles import Role
from kafkaesque.access.rules import Effect, PatternKind, Rule
from kafkaesque.access.scram_mechanisms import SCRAM_MECHANISMS
from kafkaesque.access.scram_verifiers import verifier_of_password
from kafkaesque.access.secret import Secret
from kafkaesque.access.state import AccessState

HOST = "10.0.0.1"
ALICE = Principal("User:alice")
BOB = Principal("User:bob")
NOW_MS = 1_700_000_000_000


def rule(
    effect: str,
    principal: str,
    operation: Operation = Operation.READ,
    name: str = "orders",
    *,
    kind: ResourceType = ResourceType.TOPIC,
    host: str = "*",
    number: int = 0,
) -> Rule:
    """A rule; `name` ends with `*` for a prefix, and is `*` for any name."""
    pattern = PatternKind.LITERAL
    if name == "*":
        pattern, name = PatternKind.ANY, ""
    elif name.endswith("*"):
        pattern, name = PatternKind.PREFIX, name[:-1]
    return Rule(
        effect=Effect(effect),
        principal=Principal(principal),
        operation=operation,
        resource_type=kind,
        pattern=pattern,
        name=name,
        host=host,
        id=number,
    )


def state_of(
    *rules: Rule,
    users: tuple[User, ...] = (),
    roles: tuple[str, ...] = (),
    credentials: tuple[AnyCredential, ...] = (),
) -> AccessState:
    """A state with these things, and with a user for each credential."""
    known = {each.name: each for each in users}
    for each in credentials:
        known.setdefault(each.user, User(name=each.user))
    records: list[AnyAccessRecord] = [UserPut(user=each) for each in known.values()]
    records += [RolePut(role=Role(name=each)) for each in roles]
    records += [CredentialPut(credential=each) for each in credentials]
    records += [
        RuleAdded(rule=numbered(each, number)) for number, each in enumerate(rules, start=1)
    ]
    return AccessState().apply_all(records)


def numbered(given: Rule, number: int) -> Rule:
    """The rule with this number."""
    return msgspec.structs.replace(given, id=number)


def scram(
    user: str = "alice",
    password: str = "alice-secret",
    mechanism: str = "SCRAM-SHA-256",
    *,
    salt: bytes = b"salt-of-sixteen!",
    iterations: int = 4096,
    expires_ms: int = 0,
    networks: tuple[str, ...] = (),
    is_disabled: bool = False,
) -> ScramVerifier:
    """A user's verifier."""
    made = verifier_of_password(
        SCRAM_MECHANISMS[mechanism], user, Secret.of(password), salt, iterations
    )
    return msgspec.structs.replace(
        made, expires_ms=expires_ms, networks=networks, is_disabled=is_disabled
    )
