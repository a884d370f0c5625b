"""What the audit log says of each command behind which there may be a client.

One row for each, of fields that are named here: so nothing of a command gets into the log
unnoticed, verifiers, digests and sealed bytes least of all.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from kafkaesque.access.audit import AuditKind, numbered
from kafkaesque.access.credentials import AnyCredential, CredentialId
from kafkaesque.access.sealed import topic_of_key
from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.queue_names import QueueName, exchange_resource, queue_resource
from kafkaesque.broker.requests.access_commands import (
    AddRules,
    ExtendToken,
    OpenSession,
    PutCredential,
    PutKey,
    PutRole,
    PutTopicPermission,
    PutUser,
    RemoveCredential,
    RemovedRules,
    RemoveKey,
    RemoveRole,
    RemoveRules,
    RemoveTopicPermissions,
    RemoveUser,
    UseRecoveryCode,
    UseTotpStep,
)
from kafkaesque.broker.requests.client_command import ClientCommand
from kafkaesque.broker.requests.commands import (
    AskElection,
    AskMoves,
    ChangeConfig,
    ChangeControllers,
    ChangeGroupConfig,
    ChangeQuotas,
    ConfigChange,
    CreatePartitions,
    CreateTopic,
    DecideRecovery,
    DeleteTopic,
    MoveReplicas,
    RaiseFeature,
    RemoveBroker,
)
from kafkaesque.broker.requests.exchange_commands import (
    BindDestination,
    CreateVhost,
    DeclareExchange,
    DeleteExchange,
    DeleteVhost,
    PutPolicy,
    PutTransformation,
    RemovePolicy,
    RemoveTransformation,
    UnbindDestination,
)
from kafkaesque.broker.requests.queue_commands import ChangeQueue, CreateQueue, DeleteQueue
from kafkaesque.model.ids import GroupId, TopicId, read_node
from kafkaesque.routing.transformations.rules import write_rule


class Described(NamedTuple):
    """A command in the words of the audit log."""

    operation: str
    resource_type: str
    resource: str
    detail: Mapping[str, str]
    kind: AuditKind = AuditKind.CHANGE


#: From the command, and the metadata before it. Its fields depend on its type, by which the row was
#: found.
_Row = Callable[[Any, ClusterState], Described | None]


_AnyBinding = BindDestination | UnbindDestination
_DELETE_RULES: Final = "delete-rules"


def _nothing(command: Any, state: ClusterState) -> None:
    """It changes nothing, or belongs to a log-in, which is told by itself."""


def _option_changes(changes: Iterable[ConfigChange]) -> dict[str, str]:
    return numbered(
        f"{each.operation} {each.name}" + ("" if each.value is None else f"={each.value}")
        for each in changes
    )


# -- topics, queues, options


def _create_topic(command: CreateTopic, state: ClusterState) -> Described:
    count = command.partition_count
    detail = {"partitions": "default" if count < 0 else str(count), **command.configs}
    return Described("create", "topic", command.name, detail)


def _delete_topic(command: DeleteTopic, state: ClusterState) -> Described:
    name = command.name
    if name is None:
        topic = state.topics_by_id.get(TopicId(command.topic_id))
        name = command.topic_id.hex() if topic is None else topic.name
    return Described("delete", "topic", name, {})


def _grow_topic(command: CreatePartitions, state: ClusterState) -> Described:
    return Described("create-partitions", "topic", command.name, {"partitions": str(command.count)})


def _config(command: ChangeConfig, state: ClusterState) -> Described:
    detail = _option_changes(command.changes)
    if command.topic is not None:
        return Described("alter-configs", "topic", command.topic, detail)
    broker = str(read_node(command.node)) if command.node else "all"
    return Described("alter-configs", "broker", broker, detail)


def _group_config(command: ChangeGroupConfig, state: ClusterState) -> Described:
    return Described("alter-configs", "group", command.group, _option_changes(command.changes))


def _quotas(command: ChangeQuotas, state: ClusterState) -> Described:
    whose = ", ".join(f"{kind} {'(default)' if n is None else n}" for kind, n in command.entity)
    changes = (
        f"{each.name}={'none' if each.value is None else each.value}" for each in command.changes
    )
    return Described("alter-quotas", "quota", whose, numbered(changes))


def _moves(command: MoveReplicas, state: ClusterState) -> Described:
    wanted = (
        f"{each.topic}-{each.partition}: "
        + ("stop" if each.replicas is None else ", ".join(map(str, each.replicas)))
        for each in command.partitions
    )
    return Described("move-replicas", "cluster", "", numbered(wanted))


def _feature(command: RaiseFeature, state: ClusterState) -> Described:
    return Described("raise-feature", "cluster", "", {command.name: str(command.level)})


def _controllers(command: ChangeControllers, state: ClusterState) -> Described:
    operation = "add-controller" if command.is_added else "remove-controller"
    return Described(operation, "broker", str(command.node), {})


def _remove_broker(command: RemoveBroker, state: ClusterState) -> Described:
    return Described("remove", "broker", str(command.node), {})


def _queue(command: CreateQueue | DeleteQueue | ChangeQueue) -> str:
    return queue_resource(QueueName(command.vhost, command.name))


def _create_queue(command: CreateQueue, state: ClusterState) -> Described:
    return Described("create", "queue", _queue(command), command.options)


def _delete_queue(command: DeleteQueue, state: ClusterState) -> Described:
    return Described("delete", "queue", _queue(command), {})


def _change_queue(command: ChangeQueue, state: ClusterState) -> Described:
    detail = {name: value or "default" for name, value in command.changes.items()}
    return Described("alter-configs", "queue", _queue(command), detail)


# -- virtual hosts, exchanges, bindings


def _create_vhost(command: CreateVhost, state: ClusterState) -> Described:
    return Described("create", "vhost", command.vhost, {})


def _delete_vhost(command: DeleteVhost, state: ClusterState) -> Described:
    return Described("delete", "vhost", command.vhost, {})


def _declare_exchange(command: DeclareExchange, state: ClusterState) -> Described:
    name = exchange_resource(command.vhost, command.name)
    arguments = {name: str(value) for name, value in command.arguments.items()}
    return Described("create", "exchange", name, {**arguments, "type": command.type})


def _delete_exchange(command: DeleteExchange, state: ClusterState) -> Described:
    return Described("delete", "exchange", exchange_resource(command.vhost, command.name), {})


def _put_policy(command: PutPolicy, state: ClusterState) -> Described:
    settings = {name: str(value) for name, value in command.definition.items()}
    detail = {**settings, "policy": command.name, "pattern": command.pattern}
    return Described("alter", "vhost", command.vhost, detail)


def _remove_policy(command: RemovePolicy, state: ClusterState) -> Described:
    return Described("alter", "vhost", command.vhost, {"removed policy": command.name})


def _put_transformation(command: PutTransformation, state: ClusterState) -> Described:
    detail = {"transformation": command.name, "rule": write_rule(command.rule).decode()}
    return Described("alter", "vhost", command.vhost, detail)


def _remove_transformation(command: RemoveTransformation, state: ClusterState) -> Described:
    return Described("alter", "vhost", command.vhost, {"removed transformation": command.name})


def _binding(operation: str) -> Callable[[_AnyBinding, ClusterState], Described]:
    def row(command: _AnyBinding, state: ClusterState) -> Described:
        to = command.destination
        kind = "exchange" if to.is_exchange else "topic" if to.is_topic else "queue"
        source = exchange_resource(command.vhost, command.source)
        arguments = {name: str(value) for name, value in command.arguments.items()}
        return Described(
            operation, "exchange", source, {**arguments, kind: to.name, "key": command.key}
        )

    return row


# -- users, roles, credentials, rules


def _put_user(command: PutUser, state: ClusterState) -> Described:
    user = command.user
    operation = "alter" if user.name in state.access.users else "create"
    detail = {"kind": user.kind, "roles": ", ".join(user.roles)}
    if user.is_disabled:
        detail["disabled"] = "true"
    return Described(operation, "user", user.name, detail)


def _remove_user(command: RemoveUser, state: ClusterState) -> Described:
    return Described("delete", "user", command.name, {})


def _put_role(command: PutRole, state: ClusterState) -> Described:
    operation = "alter" if command.role.name in state.access.roles else "create"
    return Described(operation, "role", command.role.name, {})


def _remove_role(command: RemoveRole, state: ClusterState) -> Described:
    return Described("delete", "role", command.name, {})


def _credential_detail(credential: AnyCredential) -> dict[str, str]:
    kind = str(type(credential).__struct_config__.tag)
    detail = {"credential": kind, "id": credential.id}
    if credential.expires_ms:
        detail["expires_ms"] = str(credential.expires_ms)
    if credential.networks:
        detail["networks"] = ", ".join(credential.networks)
    if credential.is_disabled:
        detail["disabled"] = "true"
    return detail


def _put_credential(command: PutCredential, state: ClusterState) -> Described:
    credential = command.credential
    is_new = credential.id not in state.access.credentials
    operation = "create-credential" if is_new else "alter-credential"
    return Described(operation, "user", credential.user, _credential_detail(credential))


def _remove_credential(command: RemoveCredential, state: ClusterState) -> Described:
    found = state.access.credentials.get(CredentialId(command.id))
    if found is None:
        return Described("delete-credential", "user", "", {"id": command.id})
    return Described("delete-credential", "user", found.user, _credential_detail(found))


def _extend_token(command: ExtendToken, state: ClusterState) -> Described:
    found = state.access.credentials.get(CredentialId(command.id))
    detail = {"id": command.id, "expires_ms": str(command.expires_ms)}
    return Described("renew-token", "user", "" if found is None else found.user, detail)


def _add_rules(command: AddRules, state: ClusterState) -> Described:
    return Described("create-rules", "cluster", "", numbered(map(str, command.rules)))


def _remove_rules(command: RemoveRules, state: ClusterState) -> Described:
    # Which ones, the answer says.
    return Described(_DELETE_RULES, "cluster", "", {})


def _put_topic_permission(command: PutTopicPermission, state: ClusterState) -> Described:
    said = command.permission
    operation = "alter" if said.key in state.access.topic_permissions else "create"
    exchange = exchange_resource(said.vhost, said.exchange)
    detail = {"exchange": exchange, "write": said.write, "read": said.read}
    return Described(f"{operation}-topic-permission", "user", said.user, detail)


def _remove_topic_permissions(command: RemoveTopicPermissions, state: ClusterState) -> Described:
    if command.exchange is None:
        detail = {"vhost": command.vhost}
    else:
        detail = {"exchange": exchange_resource(command.vhost, command.exchange)}
    return Described("delete-topic-permissions", "user", command.user, detail)


# -- keys


def _key_of(name: str, state: ClusterState) -> str:
    topic_id = topic_of_key(name)
    topic = None if topic_id is None else state.topics_by_id.get(TopicId(topic_id))
    return name if topic is None else topic.name


def _put_key(command: PutKey, state: ClusterState) -> Described:
    key = command.key
    if command.is_rewrapped:
        operation = "rewrap"
    else:
        operation = "create" if key.version == 1 else "rotate"
    detail = {"version": str(key.version), "keeper": key.keeper, "keeper key": key.keeper_key}
    return Described(operation, "key", _key_of(key.name, state), detail, AuditKind.KEY)


def _remove_key(command: RemoveKey, state: ClusterState) -> Described:
    detail = {"version": str(command.version)}
    return Described("shred", "key", _key_of(command.name, state), detail, AuditKind.KEY)


def _partition_of(group: int, state: ClusterState) -> str:
    found = state.partitions_by_group.get(GroupId(group))
    return f"group {group}" if found is None else str(found.topic_partition)


def _ask_election(command: AskElection, state: ClusterState) -> Described:
    return Described("ask-election", "partition", _partition_of(command.group, state), {})


def _decide_recovery(command: DecideRecovery, state: ClusterState) -> Described:
    detail = {"may-be-unclean": str(command.may_be_unclean).lower()}
    return Described("decide-recovery", "partition", _partition_of(command.group, state), detail)


_ROWS: Final[Mapping[type[ClientCommand], _Row]] = {
    CreateTopic: _create_topic,
    DeleteTopic: _delete_topic,
    CreatePartitions: _grow_topic,
    ChangeConfig: _config,
    ChangeGroupConfig: _group_config,
    ChangeQuotas: _quotas,
    MoveReplicas: _moves,
    AskMoves: _nothing,
    RaiseFeature: _feature,
    ChangeControllers: _controllers,
    RemoveBroker: _remove_broker,
    PutUser: _put_user,
    RemoveUser: _remove_user,
    PutRole: _put_role,
    RemoveRole: _remove_role,
    PutKey: _put_key,
    RemoveKey: _remove_key,
    PutCredential: _put_credential,
    RemoveCredential: _remove_credential,
    ExtendToken: _extend_token,
    AddRules: _add_rules,
    RemoveRules: _remove_rules,
    PutTopicPermission: _put_topic_permission,
    RemoveTopicPermissions: _remove_topic_permissions,
    AskElection: _ask_election,
    DecideRecovery: _decide_recovery,
    CreateQueue: _create_queue,
    DeleteQueue: _delete_queue,
    ChangeQueue: _change_queue,
    CreateVhost: _create_vhost,
    DeleteVhost: _delete_vhost,
    DeclareExchange: _declare_exchange,
    DeleteExchange: _delete_exchange,
    PutPolicy: _put_policy,
    RemovePolicy: _remove_policy,
    PutTransformation: _put_transformation,
    RemoveTransformation: _remove_transformation,
    BindDestination: _binding("bind"),
    UnbindDestination: _binding("unbind"),
    UseTotpStep: _nothing,
    OpenSession: _nothing,
    UseRecoveryCode: _nothing,
}


def has_row(kind: type[ClientCommand]) -> bool:
    """Tell whether it is known what the audit log says of a command."""
    return kind in _ROWS


def describe(command: ClientCommand, state: ClusterState) -> Described | None:
    """Return what the audit log says of a command, before it is done; None: nothing."""
    if getattr(command, "validate_only", False):
        return None
    return _ROWS[type(command)](command, state)


def with_answer(described: Described, answer: object) -> Described | None:
    """Return what the audit log says of what was done; None: nothing has changed by it."""
    # Other changes of access are answered alike, with no rules.
    if described.operation == _DELETE_RULES and isinstance(answer, RemovedRules):
        if not answer.removed:
            return None
        return described._replace(detail=numbered(map(str, answer.removed)))
    return described
