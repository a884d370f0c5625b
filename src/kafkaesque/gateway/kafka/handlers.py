"""Which function answers which API, and which of Apache Kafka's APIs none does."""

from collections.abc import Callable, Mapping
from importlib import import_module

from kafkaesque.gateway.kafka import fetch, produce
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.protocols.kafka.api import ApiKey

_NO_TELEMETRY = "Kafka does not name them either unless a plugin takes the clients' metrics"
_NO_SHARE_STATE = "between Kafka's brokers: here a share group's state stands in logs of its own"
_NO_STREAMS_GROUPS = "there are no streams groups yet: Kafka Streams runs as a classic group"

Handler = Callable[[Context, Call], None]


def _later(module: str, function: str) -> Handler:
    """Return a handler whose module is imported when the first request comes.

    Most clients never use most APIs, and each brings a module of messages with it.
    """
    loaded: list[Handler] = []

    def handle(context: Context, call: Call) -> None:
        if not loaded:
            package = __name__.rpartition(".")[0]
            loaded.append(getattr(import_module(f"{package}.{module}"), function))
        loaded[0](context, call)

    return handle


HANDLERS: Mapping[int, Handler] = {
    ApiKey.PRODUCE: produce.on_produce,
    ApiKey.FETCH: lambda context, call: fetch.on_fetch(context.doors, context.sessions, call),
    ApiKey.API_VERSIONS: _later("metadata", "on_api_versions"),
    ApiKey.SASL_HANDSHAKE: _later("sasl", "on_sasl_handshake"),
    ApiKey.SASL_AUTHENTICATE: _later("sasl", "on_sasl_authenticate"),
    ApiKey.DESCRIBE_ACLS: _later("rules", "on_describe_acls"),
    ApiKey.CREATE_ACLS: _later("rules", "on_create_acls"),
    ApiKey.DELETE_ACLS: _later("rules", "on_delete_acls"),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _later("scram_credentials", "on_describe"),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _later("scram_credentials", "on_alter"),
    ApiKey.CREATE_DELEGATION_TOKEN: _later("delegation_tokens", "on_create"),
    ApiKey.RENEW_DELEGATION_TOKEN: _later("delegation_tokens", "on_renew"),
    ApiKey.EXPIRE_DELEGATION_TOKEN: _later("delegation_tokens", "on_expire"),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _later("delegation_tokens", "on_describe"),
    ApiKey.DESCRIBE_ACCESS: _later("access", "on_describe_access"),
    ApiKey.ALTER_ACCESS: _later("access", "on_alter_access"),
    ApiKey.SHARE_GROUP_HEARTBEAT: _later("share_groups", "on_heartbeat"),
    ApiKey.SHARE_GROUP_DESCRIBE: _later("share_groups", "on_describe"),
    ApiKey.SHARE_FETCH: _later("share_fetch", "on_share_fetch"),
    ApiKey.SHARE_ACKNOWLEDGE: _later("share_fetch", "on_share_acknowledge"),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: _later("share_offsets", "on_describe"),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _later("share_offsets", "on_alter"),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _later("share_offsets", "on_delete"),
    ApiKey.PUT_MESSAGES: _later("queues", "on_put"),
    ApiKey.TAKE_MESSAGES: _later("queues", "on_take"),
    ApiKey.SETTLE_MESSAGES: _later("queues", "on_settle"),
    ApiKey.ATTACH_CONSUMER: _later("queue_consumers", "on_attach"),
    ApiKey.PEEK_MESSAGES: _later("queues", "on_peek"),
    ApiKey.DESCRIBE_QUEUES: _later("queue_admin", "on_describe"),
    ApiKey.CREATE_QUEUE: _later("queue_admin", "on_create"),
    ApiKey.ALTER_QUEUE: _later("queue_admin", "on_alter"),
    ApiKey.DELETE_QUEUE: _later("queue_admin", "on_delete"),
    ApiKey.MAINTAIN_QUEUE: _later("queue_admin", "on_maintain"),
    ApiKey.DESCRIBE_EXCHANGES: _later("exchanges", "on_describe"),
    ApiKey.ALTER_VHOST: _later("exchanges", "on_alter_vhost"),
    ApiKey.ALTER_EXCHANGE: _later("exchanges", "on_alter_exchange"),
    ApiKey.ALTER_BINDING: _later("exchanges", "on_alter_binding"),
    ApiKey.PUBLISH_MESSAGES: _later("exchanges", "on_publish"),
    ApiKey.RUN_TRANSACTION: _later("queue_transactions", "on_run"),
    ApiKey.DESCRIBE_LOGS: _later("logs", "on_describe_logs"),
    ApiKey.METADATA: _later("metadata", "on_metadata"),
    ApiKey.DESCRIBE_CLUSTER: _later("describe", "on_describe_cluster"),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _later("describe", "on_describe_topic_partitions"),
    ApiKey.FIND_COORDINATOR: _later("find_coordinator", "on_find_coordinator"),
    ApiKey.LIST_OFFSETS: _later("log_offsets", "on_list_offsets"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _later("log_offsets", "on_offset_for_leader_epoch"),
    ApiKey.INIT_PRODUCER_ID: _later("producers", "on_init_producer_id"),
    ApiKey.ADD_PARTITIONS_TO_TXN: _later("transactions", "on_add_partitions_to_txn"),
    ApiKey.ADD_OFFSETS_TO_TXN: _later("transactions", "on_add_offsets_to_txn"),
    ApiKey.TXN_OFFSET_COMMIT: _later("transactional_offsets", "on_txn_offset_commit"),
    ApiKey.END_TXN: _later("transactions", "on_end_txn"),
    ApiKey.DESCRIBE_TRANSACTIONS: _later("transaction_admin", "on_describe_transactions"),
    ApiKey.LIST_TRANSACTIONS: _later("transaction_admin", "on_list_transactions"),
    ApiKey.CREATE_TOPICS: _later("topic_admin", "on_create_topics"),
    ApiKey.DELETE_TOPICS: _later("topic_admin", "on_delete_topics"),
    ApiKey.CREATE_PARTITIONS: _later("topic_admin", "on_create_partitions"),
    ApiKey.DELETE_RECORDS: _later("partition_admin", "on_delete_records"),
    ApiKey.ELECT_LEADERS: _later("elections", "on_elect_leaders"),
    ApiKey.UPDATE_FEATURES: _later("broker_admin", "on_update_features"),
    ApiKey.UNREGISTER_BROKER: _later("broker_admin", "on_unregister_broker"),
    ApiKey.DESCRIBE_QUORUM: _later("quorum", "on_describe_quorum"),
    ApiKey.ADD_RAFT_VOTER: _later("quorum", "on_add_raft_voter"),
    ApiKey.REMOVE_RAFT_VOTER: _later("quorum", "on_remove_raft_voter"),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _later(
        "reassignments", "on_alter_partition_reassignments"
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _later("reassignments", "on_list_partition_reassignments"),
    ApiKey.DESCRIBE_LOG_DIRS: _later("partition_admin", "on_describe_log_dirs"),
    ApiKey.ALTER_REPLICA_LOG_DIRS: _later("partition_admin", "on_alter_replica_log_dirs"),
    ApiKey.DESCRIBE_CONFIGS: _later("configs", "on_describe_configs"),
    ApiKey.LIST_CONFIG_RESOURCES: _later("config_resources", "on_list_config_resources"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _later("configs", "on_incremental_alter_configs"),
    ApiKey.ALTER_CONFIGS: _later("configs", "on_alter_configs"),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _later("client_quotas", "on_describe_client_quotas"),
    ApiKey.ALTER_CLIENT_QUOTAS: _later("client_quotas", "on_alter_client_quotas"),
    ApiKey.DESCRIBE_PRODUCERS: _later("partition_transactions", "on_describe_producers"),
    ApiKey.WRITE_TXN_MARKERS: _later("partition_transactions", "on_write_txn_markers"),
    ApiKey.JOIN_GROUP: _later("groups", "on_join_group"),
    ApiKey.SYNC_GROUP: _later("groups", "on_sync_group"),
    ApiKey.HEARTBEAT: _later("groups", "on_heartbeat"),
    ApiKey.LEAVE_GROUP: _later("groups", "on_leave_group"),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _later("consumer_groups", "on_consumer_group_heartbeat"),
    ApiKey.CONSUMER_GROUP_DESCRIBE: _later("consumer_groups", "on_consumer_group_describe"),
    ApiKey.OFFSET_COMMIT: _later("group_offsets", "on_offset_commit"),
    ApiKey.OFFSET_FETCH: _later("group_offsets", "on_offset_fetch"),
    ApiKey.OFFSET_DELETE: _later("group_offsets", "on_offset_delete"),
    ApiKey.LIST_GROUPS: _later("group_admin", "on_list_groups"),
    ApiKey.DESCRIBE_GROUPS: _later("group_admin", "on_describe_groups"),
    ApiKey.DELETE_GROUPS: _later("group_admin", "on_delete_groups"),
}

#: APIs of Apache Kafka's brokers that are not carried out, and why. ApiVersions does not name them,
#: and a request closes its connection, as Kafka has it. `docs/kafka-apis.md` is made of this.
NOT_CARRIED_OUT: Mapping[int, str] = {
    71: _NO_TELEMETRY,  # GetTelemetrySubscriptions
    72: _NO_TELEMETRY,  # PushTelemetry
    83: _NO_SHARE_STATE,  # InitializeShareGroupState
    84: _NO_SHARE_STATE,  # ReadShareGroupState
    85: _NO_SHARE_STATE,  # WriteShareGroupState
    86: _NO_SHARE_STATE,  # DeleteShareGroupState
    87: _NO_SHARE_STATE,  # ReadShareGroupStateSummary
    88: _NO_STREAMS_GROUPS,  # StreamsGroupHeartbeat
    89: _NO_STREAMS_GROUPS,  # StreamsGroupDescribe
    93: _NO_STREAMS_GROUPS,  # StreamsGroupTopologyDescriptionUpdate
    94: "controllers are brokers: RemoveRaftVoter and UnregisterBroker do it",
}

#: APIs that Apache Kafka does not have, and what they are for.
OWN_APIS: Mapping[int, str] = {
    ApiKey.DESCRIBE_ACCESS: "users, roles, who may do what, and how a broker listens",
    ApiKey.ALTER_ACCESS: "changes users and roles",
    ApiKey.PUT_MESSAGES: "puts messages into a queue",
    ApiKey.TAKE_MESSAGES: "locks messages of a queue, and returns them",
    ApiKey.SETTLE_MESSAGES: "accepts, releases or rejects messages that were taken, or extends "
    "their locks",
    ApiKey.ATTACH_CONSUMER: "attaches a consumer to a queue, or detaches it",
    ApiKey.PEEK_MESSAGES: "shows messages of a queue without taking them",
    ApiKey.DESCRIBE_QUEUES: "describes queues, and counts their messages",
    ApiKey.CREATE_QUEUE: "creates a queue",
    ApiKey.ALTER_QUEUE: "changes a queue's options",
    ApiKey.DELETE_QUEUE: "deletes a queue",
    ApiKey.MAINTAIN_QUEUE: "purges a queue, redrives it, or makes its parked messages ready",
    ApiKey.DESCRIBE_EXCHANGES: "virtual hosts, exchanges and bindings",
    ApiKey.ALTER_VHOST: "creates or deletes a virtual host",
    ApiKey.ALTER_EXCHANGE: "declares or deletes an exchange",
    ApiKey.ALTER_BINDING: "binds a queue, an exchange or a topic to an exchange, or unbinds it",
    ApiKey.PUBLISH_MESSAGES: "publishes messages to an exchange",
    ApiKey.RUN_TRANSACTION: "puts messages, accepts messages that were taken, and appends records "
    "to topics: all or none",
    ApiKey.DESCRIBE_LOGS: "where the logs of queues and of share groups are, which are no topics",
}

#: What differs in APIs that are carried out: versions, above all, and why.
DIFFERENCES: Mapping[int, str] = {
    ApiKey.PRODUCE: "ApiVersions names versions 0 to 2 as well, as Kafka's does; a request in one "
    "of them closes its connection",
    ApiKey.API_VERSIONS: "version 5, in which clients say which cluster and broker they mean "
    "(KIP-1242), is not there yet; clients ask with version 4",
    ApiKey.SASL_HANDSHAKE: "ApiVersions names version 0 as well, as Kafka's does; a request in it, "
    "after which bytes without frames would come, closes its connection",
    ApiKey.DESCRIBE_DELEGATION_TOKEN: "the HMAC of a token is empty: only its hash is kept, and "
    "whoever has created it was shown it once",
    ApiKey.TXN_OFFSET_COMMIT: "version 6, which names topics by their ids, is not there yet; "
    "clients commit with version 5",
    ApiKey.DELETE_GROUPS: "version 3, which adds a message to each error, is not there yet; "
    "clients delete with version 2",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "a broker has one directory: it is answered that a replica is "
    "there, or that there is no other",
    ApiKey.DESCRIBE_CONFIGS: "topics, brokers and groups; not the levels of loggers, nor client "
    "metrics",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "topics, brokers and groups; not the levels of loggers, nor "
    "client metrics",
    ApiKey.ALTER_CONFIGS: "topics, brokers and groups; not client metrics",
    ApiKey.LIST_CONFIG_RESOURCES: "topics, brokers, and groups with options; of client metrics and "
    "broker loggers there are none",
}
