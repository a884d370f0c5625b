"""The APIs of Apache Kafka 4.4.0: their keys, names and versions, and who has them.

Source: `ApiKeys` of kafka-clients 4.4.0, without versions that are marked unstable, compared with
what a broker of kafka_2.13 4.4.0 with its default options answers to ApiVersions.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

VERSION = "4.4.0"


class Listed(Enum):
    """Who says in ApiVersions that there is this API."""

    BY_BROKERS = auto()
    #: A broker that has a plugin for it.
    WITH_PLUGIN = auto()
    BY_CONTROLLERS = auto()


class KafkaApi(NamedTuple):
    """One API; both ends of its versions are included."""

    key: int
    name: str
    first: int
    last: int
    listed: Listed = Listed.BY_BROKERS


KAFKA_APIS = (
    KafkaApi(0, "Produce", 3, 13),
    KafkaApi(1, "Fetch", 4, 18),
    KafkaApi(2, "ListOffsets", 1, 11),
    KafkaApi(3, "Metadata", 0, 13),
    KafkaApi(8, "OffsetCommit", 2, 10),
    KafkaApi(9, "OffsetFetch", 1, 10),
    KafkaApi(10, "FindCoordinator", 0, 6),
    KafkaApi(11, "JoinGroup", 0, 9),
    KafkaApi(12, "Heartbeat", 0, 4),
    KafkaApi(13, "LeaveGroup", 0, 5),
    KafkaApi(14, "SyncGroup", 0, 5),
    KafkaApi(15, "DescribeGroups", 0, 6),
    KafkaApi(16, "ListGroups", 0, 5),
    KafkaApi(17, "SaslHandshake", 0, 1),
    KafkaApi(18, "ApiVersions", 0, 5),
    KafkaApi(19, "CreateTopics", 2, 7),
    KafkaApi(20, "DeleteTopics", 1, 6),
    KafkaApi(21, "DeleteRecords", 0, 2),
    KafkaApi(22, "InitProducerId", 0, 5),
    KafkaApi(23, "OffsetForLeaderEpoch", 2, 4),
    KafkaApi(24, "AddPartitionsToTxn", 0, 5),
    KafkaApi(25, "AddOffsetsToTxn", 0, 4),
    KafkaApi(26, "EndTxn", 0, 5),
    KafkaApi(27, "WriteTxnMarkers", 1, 2),
    KafkaApi(28, "TxnOffsetCommit", 0, 6),
    KafkaApi(29, "DescribeAcls", 1, 3),
    KafkaApi(30, "CreateAcls", 1, 3),
    KafkaApi(31, "DeleteAcls", 1, 3),
    KafkaApi(32, "DescribeConfigs", 1, 4),
    KafkaApi(33, "AlterConfigs", 0, 2),
    KafkaApi(34, "AlterReplicaLogDirs", 1, 2),
    KafkaApi(35, "DescribeLogDirs", 1, 5),
    KafkaApi(36, "SaslAuthenticate", 0, 2),
    KafkaApi(37, "CreatePartitions", 0, 3),
    KafkaApi(38, "CreateDelegationToken", 1, 3),
    KafkaApi(39, "RenewDelegationToken", 1, 2),
    KafkaApi(40, "ExpireDelegationToken", 1, 2),
    KafkaApi(41, "DescribeDelegationToken", 1, 3),
    KafkaApi(42, "DeleteGroups", 0, 3),
    KafkaApi(43, "ElectLeaders", 0, 2),
    KafkaApi(44, "IncrementalAlterConfigs", 0, 1),
    KafkaApi(45, "AlterPartitionReassignments", 0, 1),
    KafkaApi(46, "ListPartitionReassignments", 0, 0),
    KafkaApi(47, "OffsetDelete", 0, 0),
    KafkaApi(48, "DescribeClientQuotas", 0, 1),
    KafkaApi(49, "AlterClientQuotas", 0, 1),
    KafkaApi(50, "DescribeUserScramCredentials", 0, 0),
    KafkaApi(51, "AlterUserScramCredentials", 0, 0),
    KafkaApi(52, "Vote", 0, 2, Listed.BY_CONTROLLERS),
    KafkaApi(53, "BeginQuorumEpoch", 0, 1, Listed.BY_CONTROLLERS),
    KafkaApi(54, "EndQuorumEpoch", 0, 1, Listed.BY_CONTROLLERS),
    KafkaApi(55, "DescribeQuorum", 0, 2),
    KafkaApi(56, "AlterPartition", 2, 3, Listed.BY_CONTROLLERS),
    KafkaApi(57, "UpdateFeatures", 0, 2),
    KafkaApi(58, "Envelope", 0, 0, Listed.BY_CONTROLLERS),
    KafkaApi(59, "FetchSnapshot", 0, 1, Listed.BY_CONTROLLERS),
    KafkaApi(60, "DescribeCluster", 0, 2),
    KafkaApi(61, "DescribeProducers", 0, 0),
    KafkaApi(62, "BrokerRegistration", 0, 4, Listed.BY_CONTROLLERS),
    KafkaApi(63, "BrokerHeartbeat", 0, 2, Listed.BY_CONTROLLERS),
    KafkaApi(64, "UnregisterBroker", 0, 0),
    KafkaApi(65, "DescribeTransactions", 0, 0),
    KafkaApi(66, "ListTransactions", 0, 2),
    KafkaApi(67, "AllocateProducerIds", 0, 0, Listed.BY_CONTROLLERS),
    KafkaApi(68, "ConsumerGroupHeartbeat", 0, 1),
    KafkaApi(69, "ConsumerGroupDescribe", 0, 1),
    KafkaApi(70, "ControllerRegistration", 0, 0, Listed.BY_CONTROLLERS),
    KafkaApi(71, "GetTelemetrySubscriptions", 0, 0, Listed.WITH_PLUGIN),
    KafkaApi(72, "PushTelemetry", 0, 0, Listed.WITH_PLUGIN),
    KafkaApi(73, "AssignReplicasToDirs", 0, 0, Listed.BY_CONTROLLERS),
    KafkaApi(74, "ListConfigResources", 0, 1),
    KafkaApi(75, "DescribeTopicPartitions", 0, 0),
    KafkaApi(76, "ShareGroupHeartbeat", 1, 1),
    KafkaApi(77, "ShareGroupDescribe", 1, 1),
    KafkaApi(78, "ShareFetch", 1, 2),
    KafkaApi(79, "ShareAcknowledge", 1, 2),
    KafkaApi(80, "AddRaftVoter", 0, 1),
    KafkaApi(81, "RemoveRaftVoter", 0, 0),
    KafkaApi(82, "UpdateRaftVoter", 0, 0, Listed.BY_CONTROLLERS),
    KafkaApi(83, "InitializeShareGroupState", 0, 0),
    KafkaApi(84, "ReadShareGroupState", 0, 0),
    KafkaApi(85, "WriteShareGroupState", 0, 1),
    KafkaApi(86, "DeleteShareGroupState", 0, 0),
    KafkaApi(87, "ReadShareGroupStateSummary", 0, 1),
    KafkaApi(88, "StreamsGroupHeartbeat", 0, 1),
    KafkaApi(89, "StreamsGroupDescribe", 0, 1),
    KafkaApi(90, "DescribeShareGroupOffsets", 0, 1),
    KafkaApi(91, "AlterShareGroupOffsets", 0, 0),
    KafkaApi(92, "DeleteShareGroupOffsets", 0, 0),
    KafkaApi(93, "StreamsGroupTopologyDescriptionUpdate", 0, 0),
    KafkaApi(94, "UnregisterController", 0, 0),
)
