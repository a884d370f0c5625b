"""What each API needs: one table. An API that is handled and has no row stops the start."""

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Final, NamedTuple

from kafkaesque.access.operations import SUPPORTED, Operation, ResourceType
from kafkaesque.chassis.rights import Rights
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.guards.filtering import Guard
from kafkaesque.model.errors import InvariantBroken
from kafkaesque.protocols.kafka.api import ApiKey


class Need(NamedTuple):
    """An operation on a resource that an API may ask for."""

    operation: Operation
    resource_type: ResourceType


class Row(NamedTuple):
    """What an API needs, and who asks for it."""

    #: All that may be asked for, depending on the request.
    needs: tuple[Need, ...]
    #: Module and function of the guard; empty: nothing is needed, or the handler asks by itself.
    guard: str = ""


_O, _T = Operation, ResourceType


def _topic(*operations: Operation) -> tuple[Need, ...]:
    return tuple(Need(each, _T.TOPIC) for each in operations)


def _group(*operations: Operation) -> tuple[Need, ...]:
    return tuple(Need(each, _T.GROUP) for each in operations)


def _id(*operations: Operation) -> tuple[Need, ...]:
    return tuple(Need(each, _T.TRANSACTIONAL_ID) for each in operations)


def _queue(*operations: Operation) -> tuple[Need, ...]:
    return tuple(Need(each, _T.QUEUE) for each in operations)


def _exchange(*operations: Operation) -> tuple[Need, ...]:
    return tuple(Need(each, _T.EXCHANGE) for each in operations)


def _cluster(*operations: Operation) -> tuple[Need, ...]:
    return tuple(Need(each, _T.CLUSTER) for each in operations)


def _whole(*operations: Operation) -> Row:
    """Return the row of what is about the cluster: one of the operations is enough."""
    return Row(_cluster(*operations))


#: Sends no names, asks for none, and comes before the log-in; or asks for what is one's own.
_FREE: Final = Row(())

_CONFIGS: Final = (Need(_O.DESCRIBE_CONFIGS, _T.TOPIC), Need(_O.DESCRIBE_CONFIGS, _T.GROUP))
#: Writing where the options of a share group send its dead letters: the controller asks for it.
_CONFIG_CHANGES: Final = (
    *_topic(_O.ALTER_CONFIGS, _O.WRITE),
    *_group(_O.ALTER_CONFIGS),
)

ROWS: Final[Mapping[int, Row]] = {
    ApiKey.API_VERSIONS: _FREE,
    ApiKey.SASL_HANDSHAKE: _FREE,
    ApiKey.SASL_AUTHENTICATE: _FREE,
    # These three ask by themselves, for each topic that they come to.
    ApiKey.PRODUCE: Row((*_topic(_O.WRITE), *_id(_O.WRITE))),
    ApiKey.FETCH: Row(_topic(_O.READ)),
    ApiKey.METADATA: Row(
        (*_topic(*sorted(SUPPORTED[_T.TOPIC])), *_cluster(*sorted(SUPPORTED[_T.CLUSTER])))
    ),
    ApiKey.DESCRIBE_CLUSTER: Row(
        _cluster(*sorted(SUPPORTED[_T.CLUSTER])), "cluster:describe_cluster"
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Row(
        _topic(*sorted(SUPPORTED[_T.TOPIC])), "topics:describe_topic_partitions"
    ),
    ApiKey.LIST_OFFSETS: Row(_topic(_O.DESCRIBE), "topics:list_offsets"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Row(_topic(_O.DESCRIBE), "topics:offset_for_leader_epoch"),
    ApiKey.DELETE_RECORDS: Row(_topic(_O.DELETE), "topics:delete_records"),
    ApiKey.DESCRIBE_PRODUCERS: Row(_topic(_O.READ), "topics:describe_producers"),
    ApiKey.CREATE_PARTITIONS: Row(_topic(_O.ALTER), "topics:create_partitions"),
    ApiKey.CREATE_TOPICS: Row(
        (*_cluster(_O.CREATE), *_topic(_O.CREATE, _O.DESCRIBE_CONFIGS)), "topics:create_topics"
    ),
    ApiKey.DELETE_TOPICS: Row(_topic(_O.DESCRIBE, _O.DELETE), "topics:delete_topics"),
    ApiKey.FIND_COORDINATOR: Row(
        (*_group(_O.DESCRIBE), *_id(_O.DESCRIBE)), "transactions:find_coordinator"
    ),
    ApiKey.INIT_PRODUCER_ID: Row(
        (*_id(_O.WRITE), *_cluster(_O.IDEMPOTENT_WRITE), *_topic(_O.WRITE)),
        "transactions:init_producer_id",
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: Row(
        (*_id(_O.WRITE), *_topic(_O.WRITE), *_cluster(_O.CLUSTER_ACTION)),
        "transactions:add_partitions_to_txn",
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: Row(
        (*_id(_O.WRITE), *_group(_O.READ)), "transactions:add_offsets_to_txn"
    ),
    ApiKey.TXN_OFFSET_COMMIT: Row(
        (*_id(_O.WRITE), *_group(_O.READ), *_topic(_O.READ)), "transactions:txn_offset_commit"
    ),
    ApiKey.END_TXN: Row(_id(_O.WRITE), "transactions:end_txn"),
    ApiKey.DESCRIBE_TRANSACTIONS: Row(
        (*_id(_O.DESCRIBE), *_topic(_O.DESCRIBE)), "transactions:describe_transactions"
    ),
    ApiKey.LIST_TRANSACTIONS: Row(_id(_O.DESCRIBE), "transactions:list_transactions"),
    ApiKey.JOIN_GROUP: Row(_group(_O.READ), "groups:join_group"),
    ApiKey.SYNC_GROUP: Row(_group(_O.READ), "groups:sync_group"),
    ApiKey.HEARTBEAT: Row(_group(_O.READ), "groups:heartbeat"),
    ApiKey.LEAVE_GROUP: Row(_group(_O.READ), "groups:leave_group"),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Row(
        (*_group(_O.READ), *_topic(_O.DESCRIBE)), "groups:consumer_group_heartbeat"
    ),
    ApiKey.OFFSET_COMMIT: Row((*_group(_O.READ), *_topic(_O.READ)), "groups:offset_commit"),
    ApiKey.OFFSET_FETCH: Row((*_group(_O.DESCRIBE), *_topic(_O.DESCRIBE)), "groups:offset_fetch"),
    ApiKey.OFFSET_DELETE: Row((*_group(_O.DELETE), *_topic(_O.READ)), "groups:offset_delete"),
    ApiKey.LIST_GROUPS: Row((*_cluster(_O.DESCRIBE), *_group(_O.DESCRIBE)), "groups:list_groups"),
    ApiKey.DESCRIBE_GROUPS: Row(_group(*sorted(SUPPORTED[_T.GROUP])), "groups:describe_groups"),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Row(
        (*_group(*sorted(SUPPORTED[_T.GROUP])), *_topic(_O.DESCRIBE)),
        "groups:consumer_group_describe",
    ),
    ApiKey.DELETE_GROUPS: Row(_group(_O.DELETE), "groups:delete_groups"),
    ApiKey.DESCRIBE_CONFIGS: Row(
        (*_CONFIGS, *_cluster(_O.DESCRIBE_CONFIGS)), "configs:describe_configs"
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Row(
        (*_CONFIG_CHANGES, *_cluster(_O.ALTER_CONFIGS)), "configs:incremental_alter_configs"
    ),
    ApiKey.ALTER_CONFIGS: Row(
        (*_CONFIG_CHANGES, *_cluster(_O.ALTER_CONFIGS)), "configs:alter_configs"
    ),
    ApiKey.LIST_CONFIG_RESOURCES: _whole(_O.DESCRIBE_CONFIGS),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _whole(_O.DESCRIBE_CONFIGS),
    ApiKey.ALTER_CLIENT_QUOTAS: _whole(_O.ALTER_CONFIGS),
    ApiKey.ELECT_LEADERS: _whole(_O.ALTER),
    ApiKey.UPDATE_FEATURES: _whole(_O.ALTER),
    ApiKey.UNREGISTER_BROKER: _whole(_O.ALTER),
    ApiKey.DESCRIBE_QUORUM: _whole(_O.DESCRIBE),
    ApiKey.ADD_RAFT_VOTER: _whole(_O.ALTER),
    ApiKey.REMOVE_RAFT_VOTER: _whole(_O.ALTER),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _whole(_O.ALTER),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _whole(_O.DESCRIBE),
    ApiKey.DESCRIBE_LOG_DIRS: _whole(_O.DESCRIBE),
    ApiKey.ALTER_REPLICA_LOG_DIRS: _whole(_O.ALTER),
    # A tool that ends a transaction which hangs, or another broker (of Kafka's).
    ApiKey.WRITE_TXN_MARKERS: _whole(_O.ALTER, _O.CLUSTER_ACTION),
    ApiKey.DESCRIBE_ACLS: _whole(_O.DESCRIBE),
    ApiKey.CREATE_ACLS: _whole(_O.ALTER),
    ApiKey.DELETE_ACLS: _whole(_O.ALTER),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _whole(_O.DESCRIBE),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _whole(_O.ALTER),
    # These ask by themselves: nothing is needed for one's own tokens, and for those that one may
    # renew; the rest is asked of the owner, or of the token.
    ApiKey.CREATE_DELEGATION_TOKEN: Row((Need(_O.CREATE_TOKENS, _T.USER),)),
    ApiKey.RENEW_DELEGATION_TOKEN: _FREE,
    ApiKey.EXPIRE_DELEGATION_TOKEN: _FREE,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Row(
        (Need(_O.DESCRIBE, _T.DELEGATION_TOKEN), Need(_O.DESCRIBE_TOKENS, _T.USER))
    ),
    ApiKey.SHARE_GROUP_HEARTBEAT: Row(
        (*_group(_O.READ), *_topic(_O.DESCRIBE)), "share_groups:heartbeat"
    ),
    ApiKey.SHARE_GROUP_DESCRIBE: Row(
        (*_group(*sorted(SUPPORTED[_T.GROUP])), *_topic(_O.DESCRIBE)), "share_groups:describe"
    ),
    # Topics are asked for one by one, when a session begins to read them.
    ApiKey.SHARE_FETCH: Row((*_group(_O.READ), *_topic(_O.READ)), "share_groups:share_fetch"),
    ApiKey.SHARE_ACKNOWLEDGE: Row(_group(_O.READ), "share_groups:share_acknowledge"),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Row(
        (*_group(_O.DESCRIBE), *_topic(_O.DESCRIBE)), "share_groups:describe_offsets"
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: Row(
        (*_group(_O.READ), *_topic(_O.READ)), "share_groups:alter_offsets"
    ),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: Row(
        (*_group(_O.DELETE), *_topic(_O.READ)), "share_groups:delete_offsets"
    ),
    ApiKey.PUT_MESSAGES: Row(_queue(_O.WRITE), "queues:put_messages"),
    ApiKey.TAKE_MESSAGES: Row(_queue(_O.READ), "queues:take_messages"),
    ApiKey.SETTLE_MESSAGES: Row(_queue(_O.READ), "queues:take_messages"),
    ApiKey.ATTACH_CONSUMER: Row(_queue(_O.READ), "queues:take_messages"),
    ApiKey.PEEK_MESSAGES: Row(_queue(_O.READ), "queues:take_messages"),
    ApiKey.DESCRIBE_QUEUES: Row(_queue(_O.DESCRIBE), "queues:describe_queues"),
    ApiKey.CREATE_QUEUE: Row((*_queue(_O.CREATE), *_cluster(_O.CREATE)), "queues:create_queue"),
    ApiKey.ALTER_QUEUE: Row((*_queue(_O.ALTER), *_cluster(_O.ALTER)), "queues:alter_queue"),
    ApiKey.DELETE_QUEUE: Row((*_queue(_O.DELETE), *_cluster(_O.DELETE)), "queues:delete_queue"),
    ApiKey.MAINTAIN_QUEUE: Row(_queue(_O.READ, _O.WRITE), "queues:maintain_queue"),
    ApiKey.DESCRIBE_EXCHANGES: Row(_exchange(_O.DESCRIBE), "exchanges:describe"),
    ApiKey.ALTER_VHOST: Row(
        (Need(_O.CREATE, _T.VHOST), Need(_O.DELETE, _T.VHOST), *_cluster(_O.ALTER)),
        "exchanges:alter_vhost",
    ),
    ApiKey.ALTER_EXCHANGE: Row(
        (*_exchange(_O.CREATE, _O.DELETE), *_cluster(_O.CREATE)), "exchanges:alter_exchange"
    ),
    ApiKey.ALTER_BINDING: Row(
        (*_exchange(_O.READ, _O.WRITE), *_queue(_O.WRITE), *_topic(_O.WRITE)),
        "exchanges:alter_binding",
    ),
    ApiKey.PUBLISH_MESSAGES: Row(_exchange(_O.WRITE), "exchanges:publish"),
    ApiKey.RUN_TRANSACTION: Row(
        (*_queue(_O.READ, _O.WRITE), *_topic(_O.WRITE)), "transactions_of_queues:run"
    ),
    ApiKey.DESCRIBE_LOGS: _whole(_O.DESCRIBE),
    ApiKey.DESCRIBE_ACCESS: _whole(_O.DESCRIBE),
    ApiKey.ALTER_ACCESS: _whole(_O.ALTER),
}

#: APIs whose handlers ask for each topic, or token, themselves.
ASKING_HANDLERS: Final = frozenset(
    (
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.METADATA,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
    )
)


def make_guards(handled: Iterable[int]) -> Mapping[int, Guard]:
    """Return the guard of each API.

    Raises:
        InvariantBroken: an API has no row, and so nobody would ask who may use it.
    """
    guards: dict[int, Guard] = {}
    for key in handled:
        row = ROWS.get(key)
        if row is None:
            raise InvariantBroken(f"API {key} is handled, and no row says what it needs")
        guards[key] = _make_guard(key, row)
    return guards


def _make_guard(key: int, row: Row) -> Guard:
    if row.guard:
        return _later(row.guard)
    if not row.needs or key in ASKING_HANDLERS:
        return _let_through
    if any(need.resource_type is not _T.CLUSTER for need in row.needs):
        raise InvariantBroken(f"API {key} needs rights to single resources, and has no guard")
    return _whole_guard(tuple(need.operation for need in row.needs))


def _let_through(rights: Rights, context: Context, call: Call) -> bool:
    return True


def _whole_guard(operations: tuple[Operation, ...]) -> Guard:
    def guard(rights: Rights, context: Context, call: Call) -> bool:
        first, *others = operations
        # Refused is what is needed first, and not each that would do as well.
        if any(rights.could_cluster(each) for each in others) or rights.may_cluster(first):
            return True
        # With the first refusal, as other guards.
        from kafkaesque.gateway.kafka.guards.cluster import refusal_of

        call.answer(refusal_of(call, call.read()))
        return False

    return guard


def _later(where: str) -> Guard:
    """Return a guard whose module is imported with the first request, as its handler's is."""
    module, _, function = where.partition(":")
    loaded: list[Guard] = []

    def guard(rights: Rights, context: Context, call: Call) -> bool:
        if not loaded:
            package = f"{__name__.rpartition('.')[0]}.guards"
            loaded.append(getattr(import_module(f"{package}.{module}"), function))
        return loaded[0](rights, context, call)

    return guard
