"""For each API a request that names things: topics, groups and transactional ids of one name."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.records import Record
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.api_table import CODEC_VERSIONS

K = ApiKey
TOPIC_OPTIONS, BROKER_OPTIONS, GROUP_OPTIONS = 2, 4, 32

#: The message's module, the request's version, the name.
Make = Callable[[Any, int, str], Any]


def _records() -> bytearray:
    return encode_batch([Record(0, 0, None, b"value", ())])


def _produce(m: Any, version: int, name: str) -> Any:
    data = m.PartitionProduceData(0, _records())
    return m.ProduceRequest(name, -1, 5000, [m.TopicProduceData(name=name, partition_data=[data])])


def _fetch(m: Any, version: int, name: str) -> Any:
    wanted = m.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    topics = [m.FetchTopic(topic=name, partitions=[wanted])]
    return m.FetchRequest(max_wait_ms=0, session_id=0, session_epoch=0, topics=topics)


def _create_topics(m: Any, version: int, name: str) -> Any:
    return m.CreateTopicsRequest([m.CreatableTopic(name, 1, 1)], validate_only=True)


def _delete_topics(m: Any, version: int, name: str) -> Any:
    if version >= 6:
        return m.DeleteTopicsRequest(topics=[m.DeleteTopicState(name=name)], timeout_ms=5000)
    return m.DeleteTopicsRequest(topic_names=[name], timeout_ms=5000)


def _add_partitions(m: Any, version: int, name: str) -> Any:
    topics = [m.AddPartitionsToTxnTopic(name, [0])]
    if version >= 4:
        one = m.AddPartitionsToTxnTransaction(name, 1, 0, True, topics)
        return m.AddPartitionsToTxnRequest(transactions=[one])
    return m.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=1,
        v3_and_below_topics=topics,
    )


def _find(m: Any, version: int, name: str) -> Any:
    if version >= 4:
        return m.FindCoordinatorRequest(key_type=0, coordinator_keys=[name])
    return m.FindCoordinatorRequest(key=name, key_type=0)


def _offset_fetch(m: Any, version: int, name: str) -> Any:
    if version >= 8:
        topics = [m.OffsetFetchRequestTopics(name=name, partition_indexes=[0])]
        return m.OffsetFetchRequest(groups=[m.OffsetFetchRequestGroup(name, topics=topics)])
    topics = [m.OffsetFetchRequestTopic(name, [0])]
    return m.OffsetFetchRequest(group_id=name, topics=topics)


def _offset_commit(m: Any, version: int, name: str) -> Any:
    partition = m.OffsetCommitRequestPartition(0, 1, committed_metadata="")
    topic = m.OffsetCommitRequestTopic(name=name, partitions=[partition])
    return m.OffsetCommitRequest(group_id=name, topics=[topic])


def _txn_offset_commit(m: Any, version: int, name: str) -> Any:
    partition = m.TxnOffsetCommitRequestPartition(0, 1, committed_metadata="")
    topic = m.TxnOffsetCommitRequestTopic(name, [partition])
    return m.TxnOffsetCommitRequest(name, name, 1, 0, topics=[topic])


def _list_offsets(m: Any, version: int, name: str) -> Any:
    partition = m.ListOffsetsPartition(partition_index=0, timestamp=-1)
    return m.ListOffsetsRequest(topics=[m.ListOffsetsTopic(name, [partition])])


def _epochs(m: Any, version: int, name: str) -> Any:
    partition = m.OffsetForLeaderPartition(partition=0)
    return m.OffsetForLeaderEpochRequest(topics=[m.OffsetForLeaderTopic(name, [partition])])


def _markers(m: Any, version: int, name: str) -> Any:
    topic = m.WritableTxnMarkerTopic(name, [0])
    return m.WriteTxnMarkersRequest([m.WritableTxnMarker(1, 0, False, [topic], 0)])


def _resources(m: Any, version: int, name: str) -> list[Any]:
    kind = getattr(m, "DescribeConfigsResource", None) or m.AlterConfigsResource
    return [kind(TOPIC_OPTIONS, name, ()), kind(GROUP_OPTIONS, name, ())]


def _moves(m: Any, version: int, name: str) -> Any:
    topic = m.AlterReplicaLogDirTopic(name, [0])
    return m.AlterReplicaLogDirsRequest([m.AlterReplicaLogDir("/data", [topic])])


def _quotas(m: Any, version: int, name: str) -> Any:
    entry = m.EntryData([m.EntityData("user", name)], [m.OpData("producer_byte_rate", 9.0, False)])
    return m.AlterClientQuotasRequest([entry], validate_only=True)


def _share_fetch(m: Any, version: int, name: str) -> Any:
    return m.ShareFetchRequest(name, "m", 0, 0, 1, 1_000, 10, 10, topics=[])


_MADE: dict[int, Make] = {
    K.PRODUCE: _produce,
    K.FETCH: _fetch,
    K.METADATA: lambda m, v, name: m.MetadataRequest(
        topics=[m.MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
    ),
    K.DESCRIBE_TOPIC_PARTITIONS: lambda m, v, name: m.DescribeTopicPartitionsRequest(
        topics=[m.TopicRequest(name)]
    ),
    K.CREATE_TOPICS: _create_topics,
    K.DELETE_TOPICS: _delete_topics,
    K.CREATE_PARTITIONS: lambda m, v, name: m.CreatePartitionsRequest(
        topics=[m.CreatePartitionsTopic(name, 2, None)], validate_only=True
    ),
    K.DELETE_RECORDS: lambda m, v, name: m.DeleteRecordsRequest(
        topics=[m.DeleteRecordsTopic(name, [m.DeleteRecordsPartition(0, 0)])]
    ),
    K.LIST_OFFSETS: _list_offsets,
    K.OFFSET_FOR_LEADER_EPOCH: _epochs,
    K.DESCRIBE_PRODUCERS: lambda m, v, name: m.DescribeProducersRequest(
        [m.TopicRequest(name, [0])]
    ),
    K.FIND_COORDINATOR: _find,
    K.INIT_PRODUCER_ID: lambda m, v, name: m.InitProducerIdRequest(name, 60_000),
    K.ADD_PARTITIONS_TO_TXN: _add_partitions,
    K.ADD_OFFSETS_TO_TXN: lambda m, v, name: m.AddOffsetsToTxnRequest(name, 1, 0, name),
    K.TXN_OFFSET_COMMIT: _txn_offset_commit,
    K.END_TXN: lambda m, v, name: m.EndTxnRequest(name, 1, 0, False),
    K.DESCRIBE_TRANSACTIONS: lambda m, v, name: m.DescribeTransactionsRequest([name]),
    K.JOIN_GROUP: lambda m, v, name: m.JoinGroupRequest(
        name, 10_000, 10_000, protocol_type="x", protocols=[m.JoinGroupRequestProtocol("p", b"")]
    ),
    K.SYNC_GROUP: lambda m, v, name: m.SyncGroupRequest(
        name, 1, "m", protocol_type="x", protocol_name="p"
    ),
    K.HEARTBEAT: lambda m, v, name: m.HeartbeatRequest(name, 1, "m"),
    K.LEAVE_GROUP: lambda m, v, name: m.LeaveGroupRequest(
        name, [m.MemberIdentity("m")], member_id="m"
    ),
    K.CONSUMER_GROUP_HEARTBEAT: lambda m, v, name: m.ConsumerGroupHeartbeatRequest(
        name, "m", 0, subscribed_topic_names=[name], rebalance_timeout_ms=5_000, topic_partitions=[]
    ),
    K.CONSUMER_GROUP_DESCRIBE: lambda m, v, name: m.ConsumerGroupDescribeRequest([name]),
    K.OFFSET_COMMIT: _offset_commit,
    K.OFFSET_FETCH: _offset_fetch,
    K.OFFSET_DELETE: lambda m, v, name: m.OffsetDeleteRequest(
        name, [m.OffsetDeleteRequestTopic(name, [m.OffsetDeleteRequestPartition(0)])]
    ),
    K.DESCRIBE_GROUPS: lambda m, v, name: m.DescribeGroupsRequest([name]),
    K.DELETE_GROUPS: lambda m, v, name: m.DeleteGroupsRequest([name]),
    K.DESCRIBE_CONFIGS: lambda m, v, name: m.DescribeConfigsRequest(_resources(m, v, name)),
    K.INCREMENTAL_ALTER_CONFIGS: lambda m, v, name: m.IncrementalAlterConfigsRequest(
        _resources(m, v, name), True
    ),
    K.ALTER_CONFIGS: lambda m, v, name: m.AlterConfigsRequest(_resources(m, v, name), True),
    K.WRITE_TXN_MARKERS: _markers,
    K.ALTER_REPLICA_LOG_DIRS: _moves,
    K.ALTER_CLIENT_QUOTAS: _quotas,
    K.ELECT_LEADERS: lambda m, v, name: m.ElectLeadersRequest(
        0, [m.TopicPartitions(name, [0])], 5_000
    ),
    K.CREATE_ACLS: lambda m, v, name: m.CreateAclsRequest(
        [m.AclCreation(2, name, 3, "User:x", "*", 3, 3)]
    ),
    K.DELETE_ACLS: lambda m, v, name: m.DeleteAclsRequest(
        [m.DeleteAclsFilter(2, name, 3, "User:x", None, 1, 1)]
    ),
    K.DESCRIBE_ACLS: lambda m, v, name: m.DescribeAclsRequest(2, name, 3, None, None, 1, 1),
    K.ALTER_USER_SCRAM_CREDENTIALS: lambda m, v, name: m.AlterUserScramCredentialsRequest(
        [m.ScramCredentialDeletion(name, 1)], []
    ),
    K.SHARE_GROUP_HEARTBEAT: lambda m, v, name: m.ShareGroupHeartbeatRequest(
        name, "m", 0, subscribed_topic_names=[name]
    ),
    K.SHARE_GROUP_DESCRIBE: lambda m, v, name: m.ShareGroupDescribeRequest([name]),
    K.SHARE_FETCH: _share_fetch,
    K.SHARE_ACKNOWLEDGE: lambda m, v, name: m.ShareAcknowledgeRequest(name, "m", 5, topics=[]),
    K.DESCRIBE_SHARE_GROUP_OFFSETS: lambda m, v, name: m.DescribeShareGroupOffsetsRequest(
        [m.DescribeShareGroupOffsetsRequestGroup(name, None)]
    ),
    K.ALTER_SHARE_GROUP_OFFSETS: lambda m, v, name: m.AlterShareGroupOffsetsRequest(
        name,
        [
            m.AlterShareGroupOffsetsRequestTopic(
                name, [m.AlterShareGroupOffsetsRequestPartition(0, 0)]
            )
        ],
    ),
    K.DELETE_SHARE_GROUP_OFFSETS: lambda m, v, name: m.DeleteShareGroupOffsetsRequest(
        name, [m.DeleteShareGroupOffsetsRequestTopic(name)]
    ),
    K.PUT_MESSAGES: lambda m, v, name: m.PutMessagesRequest("/", name, 5_000, _records()),
    K.TAKE_MESSAGES: lambda m, v, name: m.TakeMessagesRequest("/", name, 0, 1, 1_000),
    K.SETTLE_MESSAGES: lambda m, v, name: m.SettleMessagesRequest(
        "/", name, 0, [m.Claim(0, 1, 1)], timeout_ms=5_000
    ),
    K.ATTACH_CONSUMER: lambda m, v, name: m.AttachConsumerRequest("/", name, 1, False, 5_000),
    K.PEEK_MESSAGES: lambda m, v, name: m.PeekMessagesRequest("/", name, 0, 1, 1_000, 5_000),
    K.DESCRIBE_QUEUES: lambda m, v, name: m.DescribeQueuesRequest(
        [m.QueueName("/", name)], True, 5_000
    ),
    K.CREATE_QUEUE: lambda m, v, name: m.CreateQueueRequest("/", name, timeout_ms=5_000),
    K.ALTER_QUEUE: lambda m, v, name: m.AlterQueueRequest(
        "/", name, [m.SetOption("delay.ms", "0")], 5_000
    ),
    K.DELETE_QUEUE: lambda m, v, name: m.DeleteQueueRequest("/", name, 5_000),
    K.MAINTAIN_QUEUE: lambda m, v, name: m.MaintainQueueRequest("/", name, 1, name, 5_000),
    K.DESCRIBE_EXCHANGES: lambda m, v, name: m.DescribeExchangesRequest(None, True),
    K.ALTER_VHOST: lambda m, v, name: m.AlterVhostRequest(name, 1, 5_000),
    K.ALTER_EXCHANGE: lambda m, v, name: m.AlterExchangeRequest(
        "/", name, 1, "direct", timeout_ms=5_000
    ),
    K.ALTER_BINDING: lambda m, v, name: m.AlterBindingRequest("/", 1, name, 0, name, "", "", 5_000),
    K.RUN_TRANSACTION: lambda m, v, name: m.RunTransactionRequest(
        "/",
        [m.TransactionQueue(name, 0, _records(), [m.TransactionClaim(0, 1, 1)])],
        [m.TransactionTopic(name, 0, _records())],
        5_000,
    ),
    K.PUBLISH_MESSAGES: lambda m, v, name: m.PublishMessagesRequest(
        "/", name, ["k"], _records(), 5_000
    ),
    # Nothing of it may come to pass.
    K.UNREGISTER_BROKER: lambda m, v, name: m.UnregisterBrokerRequest(77),
    K.ADD_RAFT_VOTER: lambda m, v, name: m.AddRaftVoterRequest(None, 5_000, 77),
    K.REMOVE_RAFT_VOTER: lambda m, v, name: m.RemoveRaftVoterRequest(None, 77),
}


def named_request(key: int, version: int, name: str) -> Any:
    """Returns a request of an API that names things, or what it is without names."""
    module_name = CODEC_VERSIONS[key][3]
    module = import_module(f"kafkaesque.protocols.kafka.messages.{module_name}_request")
    make = _MADE.get(key)
    if make is not None:
        return make(module, version, name)
    class_name = "".join(word.capitalize() for word in module_name.split("_"))
    return getattr(module, f"{class_name}Request")()


def all_codes(answer: Any) -> list[int]:
    """Returns every error code that is anywhere in an answer."""
    if isinstance(answer, list | tuple):
        return [code for each in answer for code in all_codes(each)]
    if not hasattr(answer, "__slots__"):
        return []
    found: list[int] = []
    for slot in answer.__slots__:
        value = getattr(answer, slot)
        if slot.endswith("error_code"):
            found.append(value)
        elif not isinstance(value, str | bytes | memoryview | int | float):
            found += all_codes(value)
    return found
