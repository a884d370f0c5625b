"""Which function answers which API."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from kafkaesque.gateway.kafka import fetch, produce
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.protocols.kafka.api import ApiKey

if TYPE_CHECKING:
    from kafkaesque.gateway.kafka.gateway import KafkaGateway

Handler = Callable[["KafkaGateway", Call], None]


def _later(module: str, function: str) -> Handler:
    """Return a handler whose module is imported when the first request comes.

    Most clients never use most APIs, and each brings a module of messages with it.
    """
    loaded: list[Handler] = []

    def handle(gateway: "KafkaGateway", call: Call) -> None:
        if not loaded:
            package = __name__.rpartition(".")[0]
            loaded.append(getattr(import_module(f"{package}.{module}"), function))
        loaded[0](gateway, call)

    return handle


HANDLERS: Mapping[int, Handler] = {
    ApiKey.PRODUCE: produce.on_produce,
    ApiKey.FETCH: lambda gateway, call: fetch.on_fetch(gateway.broker, gateway.sessions, call),
    ApiKey.API_VERSIONS: _later("metadata", "on_api_versions"),
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
