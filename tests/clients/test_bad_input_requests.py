"""Requests whose form is right and whose content is nonsense: they get the error Kafka gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.frames import write_request
from kafkaesque.protocols.kafka.messages.create_partitions_request import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kafkaesque.protocols.kafka.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kafkaesque.protocols.kafka.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kafkaesque.protocols.kafka.messages.describe_groups_request import DescribeGroupsRequest
from kafkaesque.protocols.kafka.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
)
from kafkaesque.protocols.kafka.messages.find_coordinator_request import FindCoordinatorRequest
from kafkaesque.protocols.kafka.messages.heartbeat_request import HeartbeatRequest
from kafkaesque.protocols.kafka.messages.join_group_request import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from kafkaesque.protocols.kafka.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafkaesque.protocols.kafka.messages.metadata_request import (
    MetadataRequest,
    MetadataRequestTopic,
)
from kafkaesque.protocols.kafka.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkaesque.protocols.kafka.messages.sync_group_request import SyncGroupRequest
from tests.clients.bad_input import MIB, Victim, fetched
from tests.clients.kafka_helpers import unique

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
PARTITIONS = 4
STRING_BYTES_MAX = 32_767
#: Partitions that one request may create (as Kafka's controller).
CREATED_PARTITIONS_MAX = 10_000


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    with Victim(options={"auto.create.topics.enable": "false"}) as made:
        made.find_coordinators()
        yield made


@pytest.fixture(scope="module")
def topic(victim: Victim) -> str:
    return victim.make_topic_with(b"a", b"b", b"c", partitions=PARTITIONS)


@pytest.fixture(autouse=True)
def others_notice_nothing(victim: Victim) -> Iterator[None]:
    with victim.watched():
        yield


# -- creating topics


def created(victim: Victim, wanted: CreatableTopic) -> ErrorCode:
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=10_000)
    (answer,) = victim.ask(ApiKey.CREATE_TOPICS, 5, request).topics
    return ErrorCode(answer.error_code)


@pytest.mark.parametrize(
    ("count", "code"),
    [
        (-(2**31), ErrorCode.INVALID_PARTITIONS),
        (-2, ErrorCode.INVALID_PARTITIONS),
        (0, ErrorCode.INVALID_PARTITIONS),
        (CREATED_PARTITIONS_MAX + 1, ErrorCode.POLICY_VIOLATION),
        (100_000, ErrorCode.POLICY_VIOLATION),
        (INT32_MAX, ErrorCode.POLICY_VIOLATION),
    ],
)
def test_numbers_of_partitions(victim: Victim, count: int, code: ErrorCode) -> None:
    assert created(victim, CreatableTopic("never", count, 1)) == code


@pytest.mark.parametrize("factor", [-(2**15), -2, 0, 2, 2**15 - 1])
def test_replication_factors(victim: Victim, factor: int) -> None:
    code = created(victim, CreatableTopic("never", 1, factor))
    assert code == ErrorCode.INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a b", "a/b", "../up", "nul\0", "x" * 250, "é", "x" * STRING_BYTES_MAX]
)
def test_illegal_names(victim: Victim, name: str) -> None:
    assert created(victim, CreatableTopic(name, 1, 1)) == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(
    "replicas",
    [
        {0: [99]},
        {0: [-1]},
        {0: []},
        {0: [1, 1]},
        {1: [1]},
        {-1: [1]},
        {INT32_MAX: [1]},
        {0: [1] * 1000},
    ],
    ids=str,
)
def test_impossible_assignments(victim: Victim, replicas: dict[int, list[int]]) -> None:
    assignments = [CreatableReplicaAssignment(at, brokers) for at, brokers in replicas.items()]
    code = created(victim, CreatableTopic("never", -1, -1, assignments))
    assert code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("no.such.option", "1"),
        ("retention.ms", "soon"),
        ("retention.ms", "-2"),
        ("segment.bytes", "9" * 1000),
        ("cleanup.policy", "x" * STRING_BYTES_MAX),
        ("min.insync.replicas", "0"),
        ("max.message.bytes", None),
    ],
)
def test_impossible_options(victim: Victim, option: str, value: str | None) -> None:
    wanted = CreatableTopic("never", 1, 1, configs=[CreatableTopicConfig(option, value)])
    assert created(victim, wanted) == ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize("count", [CREATED_PARTITIONS_MAX + PARTITIONS + 1, INT32_MAX])
def test_growing_a_topic_by_too_much(victim: Victim, topic: str, count: int) -> None:
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(topic, count, None)], timeout_ms=10_000
    )
    (answer,) = victim.ask(ApiKey.CREATE_PARTITIONS, 3, request).results
    assert answer.error_code == ErrorCode.POLICY_VIOLATION


@pytest.mark.parametrize("count", [-(2**31), -1, 0, PARTITIONS])
def test_growing_a_topic_to_less(victim: Victim, topic: str, count: int) -> None:
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(topic, count, None)], timeout_ms=10_000
    )
    (answer,) = victim.ask(ApiKey.CREATE_PARTITIONS, 3, request).results
    assert answer.error_code == ErrorCode.INVALID_PARTITIONS


# -- fetching


def fetch(victim: Victim, topic: str, partition: FetchPartition, **fields: Any) -> Any:
    topics = [FetchTopic(topic=topic, partitions=[partition])]
    values = {"max_bytes": MIB, "session_epoch": -1, "topics": topics, **fields}
    return victim.ask(ApiKey.FETCH, 12, FetchRequest(**values))


@pytest.mark.parametrize(
    ("partition", "code"),
    [
        (fetched(-1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (fetched(INT32_MAX), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (fetched(0, offset=-1), ErrorCode.OFFSET_OUT_OF_RANGE),
        (fetched(0, offset=-(2**63)), ErrorCode.OFFSET_OUT_OF_RANGE),
        (fetched(0, offset=INT64_MAX), ErrorCode.OFFSET_OUT_OF_RANGE),
        (fetched(0, epoch=0), ErrorCode.FENCED_LEADER_EPOCH),
        (fetched(0, epoch=INT32_MAX), ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_fetching_what_is_not_there(
    victim: Victim, topic: str, partition: FetchPartition, code: ErrorCode
) -> None:
    answer = fetch(victim, topic, partition, max_wait_ms=10_000, min_bytes=1)
    assert answer.responses[0].partitions[0].error_code == code


@pytest.mark.parametrize("size", [-(2**31), -1, 0, 1])
@pytest.mark.parametrize("where", ["request", "partition"])
def test_sizes_that_are_too_small(victim: Victim, topic: str, size: int, where: str) -> None:
    fields = {"max_bytes": size} if where == "request" else {}
    partition = fetched(0, size=size if where == "partition" else MIB)
    answer = fetch(victim, topic, partition, max_wait_ms=0, **fields)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("value", [-(2**31), -1, 0, INT32_MAX])
def test_waits_and_minimums(victim: Victim, topic: str, value: int) -> None:
    for fields in ({"max_wait_ms": value, "min_bytes": 1}, {"max_wait_ms": 0, "min_bytes": value}):
        answer = fetch(victim, topic, fetched(0), **fields)
        assert answer.responses[0].partitions[0].records


def test_sessions_that_are_not_there(victim: Victim, topic: str) -> None:
    answer = fetch(victim, topic, fetched(0), session_id=12345, session_epoch=1)
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    answer = fetch(victim, topic, fetched(0), session_id=-1, session_epoch=INT32_MAX)
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    begun = fetch(victim, topic, fetched(0), session_epoch=0)
    for epoch in (2, INT32_MAX):
        answer = fetch(victim, topic, fetched(0), session_id=begun.session_id, session_epoch=epoch)
        assert answer.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    answer = fetch(victim, topic, fetched(0), session_id=begun.session_id, session_epoch=1)
    assert answer.error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("timestamp", "code"),
    [
        (-(2**63), ErrorCode.UNSUPPORTED_VERSION),
        (-100, ErrorCode.UNSUPPORTED_VERSION),
        (-5, ErrorCode.UNSUPPORTED_VERSION),
        (INT64_MAX, ErrorCode.NONE),
        (0, ErrorCode.NONE),
    ],
)
def test_times_that_never_were(victim: Victim, topic: str, timestamp: int, code: ErrorCode) -> None:
    partitions = [ListOffsetsPartition(0, -1, timestamp), ListOffsetsPartition(-1, -1, timestamp)]
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(topic, partitions)])
    (answered,) = victim.ask(ApiKey.LIST_OFFSETS, 7, request).topics
    assert answered.partitions[0].error_code == code
    assert answered.partitions[1].error_code in (code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


# -- groups


def join_request(**fields: Any) -> JoinGroupRequest:
    values: dict[str, Any] = {
        "group_id": unique("joined"),
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 1_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol("range", b"x")],
    }
    return JoinGroupRequest(**{**values, **fields})


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, ErrorCode.MEMBER_ID_REQUIRED),
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_timeout_ms": -1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 0}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": INT32_MAX}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"rebalance_timeout_ms": -(2**31)}, ErrorCode.MEMBER_ID_REQUIRED),
        ({"rebalance_timeout_ms": INT32_MAX}, ErrorCode.MEMBER_ID_REQUIRED),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocols": []}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
    ids=str,
)
def test_joining_with_nonsense(victim: Victim, fields: dict[str, Any], code: ErrorCode) -> None:
    answer = victim.ask(ApiKey.JOIN_GROUP, 6, join_request(**fields))
    assert ErrorCode(answer.error_code) == code


TOO_LARGE = ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": "x" * STRING_BYTES_MAX}, ErrorCode.INVALID_GROUP_ID),
        ({"group_instance_id": "x" * STRING_BYTES_MAX}, TOO_LARGE),
        ({"protocol_type": "x" * STRING_BYTES_MAX}, TOO_LARGE),
        ({"protocols": [JoinGroupRequestProtocol("x" * STRING_BYTES_MAX, b"")]}, ErrorCode.NONE),
        ({"protocols": [JoinGroupRequestProtocol("range", bytes(20 * MIB))]}, TOO_LARGE),
        (
            {"protocols": [JoinGroupRequestProtocol(f"p{n}", bytes(100)) for n in range(10_000)]},
            TOO_LARGE,
        ),
    ],
    ids=["group", "instance", "type", "protocol", "metadata", "protocols"],
)
def test_joining_with_more_than_anybody_needs(
    victim: Victim, fields: dict[str, Any], code: ErrorCode
) -> None:
    request = join_request(**fields)
    assert victim.ask(ApiKey.JOIN_GROUP, 6, request).error_code != ErrorCode.NONE
    with victim.connect() as wire:
        # As a member whose id is known, where that is possible at all.
        answer = wire.ask(ApiKey.JOIN_GROUP, 6, request)
        request.member_id = answer.member_id
        assert ErrorCode(wire.ask(ApiKey.JOIN_GROUP, 6, request).error_code) == code


def test_ten_thousand_members_that_never_come_back(victim: Victim) -> None:
    request = write_request(ApiKey.JOIN_GROUP, 6, 1, "test", join_request(group_id="crowd"))
    with victim.connect() as wire, victim.watched(growth_bytes_max=32 * MIB):
        for _ in range(20):
            wire.send(request * 500)
            for _ in range(500):
                code = wire.answer(ApiKey.JOIN_GROUP, 6).error_code
                assert code in (ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.GROUP_MAX_SIZE_REACHED)


@pytest.mark.parametrize("generation", [-(2**31), -1, 0, INT32_MAX])
def test_members_that_are_none(victim: Victim, generation: int) -> None:
    heartbeat = HeartbeatRequest(group_id="nobody's", generation_id=generation, member_id="nobody")
    answer = victim.ask(ApiKey.HEARTBEAT, 4, heartbeat)
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    sync = SyncGroupRequest(
        group_id="nobody's",
        generation_id=generation,
        member_id="nobody",
        protocol_type="consumer",
        protocol_name="range",
    )
    answer = victim.ask(ApiKey.SYNC_GROUP, 5, sync)
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def commit(victim: Victim, topic: str, **fields: Any) -> ErrorCode:
    values: dict[str, Any] = {"partition_index": 0, "committed_offset": 1, **fields}
    wanted = OffsetCommitRequestTopic(
        name=topic, partitions=[OffsetCommitRequestPartition(**values)]
    )
    request = OffsetCommitRequest(
        group_id="committer", generation_id_or_member_epoch=-1, topics=[wanted]
    )
    (answered,) = victim.ask(ApiKey.OFFSET_COMMIT, 8, request).topics
    return ErrorCode(answered.partitions[0].error_code)


def test_committing_for_what_does_not_exist(victim: Victim, topic: str) -> None:
    assert commit(victim, "no-such-topic") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for index in (-1, PARTITIONS, INT32_MAX):
        code = commit(victim, topic, partition_index=index)
        assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_committing_with_more_text_than_is_allowed(victim: Victim, topic: str) -> None:
    assert commit(victim, topic, committed_metadata="x" * 4096) == ErrorCode.NONE
    for size in (4097, STRING_BYTES_MAX):
        code = commit(victim, topic, committed_metadata="x" * size)
        assert code == ErrorCode.OFFSET_METADATA_TOO_LARGE


@pytest.mark.parametrize("offset", [-(2**63), -1, 0, INT64_MAX])
def test_committing_any_number(victim: Victim, topic: str, offset: int) -> None:
    # Kafka takes them all: it is the consumer's own affair.
    assert commit(victim, topic, committed_offset=offset) == ErrorCode.NONE


def test_deleting_records_that_are_not_there(victim: Victim, topic: str) -> None:
    for offset, code in (
        (4, ErrorCode.OFFSET_OUT_OF_RANGE),
        (INT64_MAX, ErrorCode.OFFSET_OUT_OF_RANGE),
        (-2, ErrorCode.OFFSET_OUT_OF_RANGE),
        (-(2**63), ErrorCode.OFFSET_OUT_OF_RANGE),
    ):
        wanted = DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, offset)])
        request = DeleteRecordsRequest(topics=[wanted], timeout_ms=1_000)
        (answered,) = victim.ask(ApiKey.DELETE_RECORDS, 2, request).topics
        assert answered.partitions[0].error_code == code


@pytest.mark.parametrize("version", [2, 7])
def test_an_error_message_is_not_as_long_as_what_was_sent(victim: Victim, version: int) -> None:
    # It quotes the value; with it, it would be longer than strings can be.
    config = CreatableTopicConfig("cleanup.policy", "x" * STRING_BYTES_MAX)
    topics = [CreatableTopic("never", 1, 1, configs=[config])]
    request = CreateTopicsRequest(topics=topics, timeout_ms=10_000)
    (answer,) = victim.ask(ApiKey.CREATE_TOPICS, version, request).topics
    assert answer.error_code == ErrorCode.INVALID_CONFIG
    assert 0 < len(answer.error_message) < 2_000


def test_names_as_long_as_names_can_be(victim: Victim) -> None:
    name = "x" * STRING_BYTES_MAX
    metadata = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
    (described,) = victim.ask(ApiKey.METADATA, 9, metadata).topics
    assert described.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    found = victim.ask(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=[name]))
    assert found.coordinators[0].key == name
    (group,) = victim.ask(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest(groups=[name])).groups
    assert group.group_id == name
