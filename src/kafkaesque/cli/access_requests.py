"""Users and rules as Kafka's admin APIs have them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import msgspec

from kafkaesque.access.administration import (
    AskUsers,
    Change,
    DeleteUser,
    Done,
    MadeAccessKey,
    MakeAccessKey,
    Question,
    ShownCredential,
    ShownUser,
    Users,
)
from kafkaesque.access.operations import OWN_TYPES, Operation, ResourceType
from kafkaesque.access.scram_mechanisms import SCRAM_MECHANISMS, ScramMechanism
from kafkaesque.access.secret import Secret
from kafkaesque.broker.metadata.queue_names import QueueName, exchange_resource, queue_resource
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.kafka_request import ask
from kafkaesque.cli.missing_rules import check_rule, on_cluster
from kafkaesque.cli.troubles import CLOSED
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.alter_access_request import AlterAccessRequest
from kafkaesque.protocols.kafka.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kafkaesque.protocols.kafka.messages.create_acls_request import AclCreation, CreateAclsRequest
from kafkaesque.protocols.kafka.messages.delete_acls_request import (
    DeleteAclsFilter,
    DeleteAclsRequest,
)
from kafkaesque.protocols.kafka.messages.describe_access_request import DescribeAccessRequest
from kafkaesque.protocols.kafka.messages.describe_acls_request import DescribeAclsRequest
from kafkaesque.protocols.kafka.messages.describe_exchanges_request import DescribeExchangesRequest
from kafkaesque.protocols.kafka.messages.describe_queues_request import DescribeQueuesRequest
from kafkaesque.protocols.kafka.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
)
from kafkaesque.protocols.kafka.messages.metadata_request import MetadataRequest
from kafkaesque.protocols.kafka.wire import Message

Answer = TypeVar("Answer", bound=msgspec.Struct)

ANY: Final = 1
MATCH, LITERAL, PREFIXED = 2, 3, 4
DENY, ALLOW = 2, 3
_RULES_VERSION: Final = 2
_CREDENTIALS_VERSION: Final = 0
_METADATA_VERSION: Final = 9
_OWN_VERSION: Final = 0
_SALT_BYTES: Final = 16
_BY_NUMBER: Final = {each.kafka_number: each.name for each in SCRAM_MECHANISMS.values()}
_PATTERNS: Final = {LITERAL: "literal", PREFIXED: "prefix"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRule:
    """A rule, in words."""

    effect: str
    principal: str
    operation: str
    resource: str
    pattern: str
    name: str
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which rules are meant; None stands for all."""

    principal: str | None = None
    resource_type: ResourceType | None = None
    name: str | None = None
    is_prefix: bool | None = None
    operation: int = ANY
    effect: int = ANY

    @property
    def pattern(self) -> int:
        """Kafka's number."""
        if self.is_prefix is None:
            return ANY
        return PREFIXED if self.is_prefix else LITERAL


def list_users(bootstrap: str) -> dict[str, list[str]]:
    """Return the users that can log in, each with its mechanisms.

    Raises:
        CommandFailed: no broker answers, or it refuses.
    """
    request = DescribeUserScramCredentialsRequest(None)
    answer = ask(bootstrap, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, _CREDENTIALS_VERSION, request)
    _check(bootstrap, "describe", answer.error_code, answer.error_message)
    return {
        each.user: [_BY_NUMBER.get(info.mechanism, "?") for info in each.credential_infos]
        for each in answer.results
    }


def set_password(
    bootstrap: str, user: str, password: Secret, mechanisms: Sequence[str], iterations: int
) -> None:
    """Let a user log in with a password; it is salted here, and does not leave this machine.

    Raises:
        CommandFailed: no broker answers, or it refuses.
    """
    request = AlterUserScramCredentialsRequest(
        [], [_upsertion(SCRAM_MECHANISMS[each], user, password, iterations) for each in mechanisms]
    )
    _alter(bootstrap, request)


def _upsertion(
    mechanism: ScramMechanism, user: str, password: Secret, iterations: int
) -> ScramCredentialUpsertion:
    salt = os.urandom(_SALT_BYTES)
    salted = mechanism.salted_password(password.reveal(), salt, iterations)
    return ScramCredentialUpsertion(user, mechanism.kafka_number, iterations, salt, salted)


def remove_passwords(bootstrap: str, user: str, mechanisms: Sequence[str]) -> None:
    """Let a user log in no more.

    Raises:
        CommandFailed: no broker answers, or it refuses.
    """
    deletions = [
        ScramCredentialDeletion(user, SCRAM_MECHANISMS[each].kafka_number) for each in mechanisms
    ]
    _alter(bootstrap, AlterUserScramCredentialsRequest(deletions, []))


def _alter(bootstrap: str, request: AlterUserScramCredentialsRequest) -> None:
    key = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
    for each in ask(bootstrap, key, _CREDENTIALS_VERSION, request).results:
        _check(bootstrap, "alter", each.error_code, each.error_message)


# -- what Kafka has no API for


def ask_access(bootstrap: str, question: Question, answer: type[Answer]) -> Answer:
    """Return the answer to a question about users, roles and rules.

    Raises:
        CommandFailed: no broker answers, it refuses, or it is of another release.
    """
    request = DescribeAccessRequest(msgspec.json.encode(question))
    return _read_own(bootstrap, ApiKey.DESCRIBE_ACCESS, request, answer)


def change_access(bootstrap: str, change: Change) -> None:
    """Change users or roles.

    Raises:
        CommandFailed: no broker answers, it refuses, or it is of another release.
    """
    _change(bootstrap, change, Done)


def make_access_key(bootstrap: str, user: str) -> MadeAccessKey:
    """Give a user one more access key; the secret cannot be asked for again.

    Raises:
        CommandFailed: no broker answers, it refuses, or it is of another release.
    """
    return _change(bootstrap, MakeAccessKey(user=user), MadeAccessKey)


def _change(bootstrap: str, change: Change, answer: type[Answer]) -> Answer:
    request = AlterAccessRequest(msgspec.json.encode(change))
    return _read_own(bootstrap, ApiKey.ALTER_ACCESS, request, answer)


def _read_own(bootstrap: str, key: ApiKey, request: Message, answer: type[Answer]) -> Answer:
    try:
        found = ask(bootstrap, key, _OWN_VERSION, request)
    except CommandFailed as failure:
        if CLOSED not in failure.message:
            raise
        raise _NoSuchApi(
            f"{failure.message}: brokers of Apache Kafka, and those of earlier releases, do not "
            "know roles and explanations",
            exit_code=failure.exit_code,
        ) from None
    operation = "describe" if key is ApiKey.DESCRIBE_ACCESS else "alter"
    _check(bootstrap, operation, found.error_code, found.error_message)
    return msgspec.json.decode(found.answer, type=answer)


class _NoSuchApi(CommandFailed):
    """Those brokers do not have it."""


def read_users(bootstrap: str) -> tuple[ShownUser, ...]:
    """Return all users; of brokers that cannot tell more, those with SCRAM credentials.

    Raises:
        CommandFailed: no broker answers, or it refuses.
    """
    try:
        return ask_access(bootstrap, AskUsers(), Users).users
    except _NoSuchApi:
        return tuple(
            ShownUser(
                name=name,
                kind="service",
                roles=(),
                is_disabled=False,
                credentials=tuple(
                    ShownCredential(
                        kind="scram", mechanism=each, expires_ms=0, networks=(), is_disabled=False
                    )
                    for each in mechanisms
                ),
            )
            for name, mechanisms in sorted(list_users(bootstrap).items())
        )


def delete_user(bootstrap: str, user: ShownUser) -> None:
    """Let a user be no more.

    Raises:
        CommandFailed: no broker answers, or it refuses.
    """
    try:
        change_access(bootstrap, DeleteUser(name=user.name))
    except _NoSuchApi:
        remove_passwords(bootstrap, user.name, [each.mechanism for each in user.credentials])


# -- rules


def add_rules(bootstrap: str, rules: Sequence[AclCreation]) -> None:
    """Add rules.

    Raises:
        CommandFailed: no broker answers, or it refuses one.
    """
    answer = ask(bootstrap, ApiKey.CREATE_ACLS, _RULES_VERSION, CreateAclsRequest(rules))
    for each in answer.results:
        _check(bootstrap, "alter", each.error_code, each.error_message)


def list_rules(bootstrap: str, wanted: Wanted) -> list[ShownRule]:
    """Return rules.

    Raises:
        CommandFailed: no broker answers, or it refuses.
    """
    found: list[ShownRule] = []
    for each in _with_own_types(wanted):
        request = DescribeAclsRequest(*_filter(each))
        answer = ask(bootstrap, ApiKey.DESCRIBE_ACLS, _RULES_VERSION, request)
        _check(bootstrap, "describe", answer.error_code, answer.error_message)
        found += [_shown(resource, acl) for resource in answer.resources for acl in resource.acls]
    return found


def remove_rules(bootstrap: str, wanted: Wanted) -> list[ShownRule]:
    """Remove rules; return those that are removed.

    Raises:
        CommandFailed: no broker answers, or it refuses.
    """
    filters = [DeleteAclsFilter(*_filter(each)) for each in _with_own_types(wanted)]
    request = DeleteAclsRequest(filters)
    removed: list[ShownRule] = []
    for answer in ask(bootstrap, ApiKey.DELETE_ACLS, _RULES_VERSION, request).filter_results:
        _check(bootstrap, "alter", answer.error_code, answer.error_message)
        removed += [_shown(each, each) for each in answer.matching_acls]
    return removed


def _with_own_types(wanted: Wanted) -> list[Wanted]:
    """Return what to ask for: "any type" are Kafka's, and others have to be named."""
    if wanted.resource_type is not None:
        return [wanted]
    return [wanted, *(replace(wanted, resource_type=each) for each in OWN_TYPES)]


def _filter(wanted: Wanted) -> tuple[int, str | None, int, str | None, None, int, int]:
    kind = ANY if wanted.resource_type is None else wanted.resource_type
    return (
        kind,
        wanted.name,
        wanted.pattern,
        wanted.principal,
        None,
        wanted.operation,
        wanted.effect,
    )


def _shown(resource: Any, acl: Any) -> ShownRule:
    return ShownRule(
        effect="allow" if acl.permission_type == ALLOW else "deny",
        principal=acl.principal,
        operation=_word(Operation, acl.operation),
        resource=_word(ResourceType, resource.resource_type),
        pattern=_PATTERNS.get(resource.pattern_type, "?"),
        name=resource.resource_name,
        host=acl.host,
    )


def _word(kind: type[Operation] | type[ResourceType], number: int) -> str:
    try:
        return kind(number).name.lower().replace("_", "-")
    except ValueError:
        return str(number)


def names_of(bootstrap: str, kind: ResourceType, name: str, *, is_prefix: bool) -> list[str] | None:
    """Return what there is that a rule is for, as far as this user may see it.

    None stands for a kind of resource that cannot be listed.

    Raises:
        CommandFailed: no broker answers.
    """
    if kind is ResourceType.TOPIC:
        answer = ask(bootstrap, ApiKey.METADATA, _METADATA_VERSION, MetadataRequest(topics=None))
        names = sorted(each.name for each in answer.topics)
    elif kind is ResourceType.GROUP:
        from kafkaesque.cli.kafka import Connection, result_of

        found = Connection(bootstrap).admin().list_consumer_groups(request_timeout=10)
        names = sorted(each.group_id for each in result_of(found, "groups").valid)
    elif kind is ResourceType.QUEUE:
        described = ask(bootstrap, ApiKey.DESCRIBE_QUEUES, 0, DescribeQueuesRequest(None, False))
        names = sorted(
            queue_resource(QueueName(each.vhost, each.queue)) for each in described.queues
        )
    elif kind in (ResourceType.EXCHANGE, ResourceType.VHOST):
        names = _routing_names(bootstrap, kind)
    else:
        return None
    if name == "*" and not is_prefix:
        return [each for each in names if not each.startswith("__")]
    if is_prefix:
        return [each for each in names if each.startswith(name)]
    return [each for each in names if each == name]


def _routing_names(bootstrap: str, kind: ResourceType) -> list[str]:
    """Return exchanges, or virtual hosts, as rules name them."""
    found = ask(bootstrap, ApiKey.DESCRIBE_EXCHANGES, 0, DescribeExchangesRequest(None, False))
    if kind is ResourceType.VHOST:
        return sorted(each.vhost for each in found.vhosts)
    return sorted(
        exchange_resource(each.vhost, one.exchange)
        for each in found.vhosts
        for one in each.exchanges
        if one.exchange
    )


def _check(bootstrap: str, operation: str, code: int, message: str | None) -> None:
    if not code:
        return
    check_rule(code, bootstrap, on_cluster(operation))
    raise CommandFailed(message or ErrorCode(code).name)
