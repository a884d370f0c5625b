"""Requests that hold as much as a request may, or more: done bit by bit, or refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    CreatableTopic,
    CreateTopicsRequest,
)
from kafkaesque.protocols.kafka.messages.delete_groups_request import DeleteGroupsRequest
from kafkaesque.protocols.kafka.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kafkaesque.protocols.kafka.messages.delete_topics_request import DeleteTopicsRequest
from kafkaesque.protocols.kafka.messages.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kafkaesque.protocols.kafka.messages.describe_groups_request import DescribeGroupsRequest
from kafkaesque.protocols.kafka.messages.fetch_request import (
    FetchRequest,
    FetchTopic,
)
from kafkaesque.protocols.kafka.messages.find_coordinator_request import FindCoordinatorRequest
from kafkaesque.protocols.kafka.messages.incremental_alter_configs_request import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkaesque.protocols.kafka.messages.leave_group_request import (
    LeaveGroupRequest,
    MemberIdentity,
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
from kafkaesque.protocols.kafka.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from kafkaesque.protocols.kafka.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.clients.bad_input import MIB, Victim, batch, fetched

#: scripts/test-clients runs them.
pytestmark = pytest.mark.extended

PARTITIONS = 4
#: Just under what one request may hold, and above.
MANY, TOO_MANY = 49_990, 50_001
#: What requests with so much in them may make the broker grow by, and their repetition.
GROWTH_BYTES_MAX, REPEATED_GROWTH_BYTES_MAX = 256 * MIB, 128 * MIB
#: To read the largest request, and to write its answer, takes a third of a second each on a machine
#: that has nothing else to do; that of a suite has.
BUSY_S_MAX = 6.0


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
    with victim.watched(growth_bytes_max=GROWTH_BYTES_MAX, busy_s_max=BUSY_S_MAX):
        yield


def is_refused(victim: Victim, api: ApiKey, version: int, message: Any) -> bool:
    with victim.connect() as wire:
        wire.send(write_request(api, version, 1, "test", message))
        return wire.is_closed_by_broker()


def topic_list(name: str, count: int) -> list[FetchTopic]:
    return [FetchTopic(topic=name, partitions=[fetched(index) for index in range(count)])]


GOOD = batch(b"x")

#: What is asked for -> API, version, and who makes the request, given a topic and a number of
#: elements; most of them do not exist or are named repeatedly.
HEAVY: dict[str, tuple[ApiKey, int, Callable[[str, int], Any]]] = {
    "produce to partitions": (
        ApiKey.PRODUCE,
        9,
        lambda name, count: ProduceRequest(
            acks=-1,
            timeout_ms=10_000,
            topic_data=[
                TopicProduceData(
                    name=name,
                    partition_data=[PartitionProduceData(n, b"") for n in range(count)],
                )
            ],
        ),
    ),
    "produce to topics": (
        ApiKey.PRODUCE,
        9,
        lambda name, count: ProduceRequest(
            acks=-1,
            timeout_ms=10_000,
            topic_data=[
                TopicProduceData(name=f"no-{n}", partition_data=[PartitionProduceData(0, GOOD)])
                for n in range(count // 2)
            ],
        ),
    ),
    "produce to one partition": (
        ApiKey.PRODUCE,
        9,
        lambda name, count: ProduceRequest(
            acks=-1,
            timeout_ms=10_000,
            topic_data=[
                TopicProduceData(
                    name=name,
                    partition_data=[PartitionProduceData(1, bytes(GOOD)) for _ in range(count)],
                )
            ],
        ),
    ),
    "fetch": (
        ApiKey.FETCH,
        12,
        lambda name, count: FetchRequest(
            max_wait_ms=500, min_bytes=1, max_bytes=MIB, topics=topic_list(name, count)
        ),
    ),
    "list offsets": (
        ApiKey.LIST_OFFSETS,
        7,
        lambda name, count: ListOffsetsRequest(
            topics=[
                ListOffsetsTopic(name, [ListOffsetsPartition(n, -1, 0) for n in range(count)]),
            ]
        ),
    ),
    "metadata": (
        ApiKey.METADATA,
        9,
        lambda name, count: MetadataRequest(
            topics=[MetadataRequestTopic(name=f"no-{n}") for n in range(count)]
        ),
    ),
    "commit offsets": (
        ApiKey.OFFSET_COMMIT,
        8,
        lambda name, count: OffsetCommitRequest(
            group_id="group",
            generation_id_or_member_epoch=-1,
            topics=[
                OffsetCommitRequestTopic(
                    name=name,
                    partitions=[
                        OffsetCommitRequestPartition(n % 8, committed_offset=n)
                        for n in range(count)
                    ],
                )
            ],
        ),
    ),
    "fetch offsets of groups": (
        ApiKey.OFFSET_FETCH,
        8,
        lambda name, count: OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=f"no-{n}", topics=None) for n in range(count)]
        ),
    ),
    "find coordinators": (
        ApiKey.FIND_COORDINATOR,
        4,
        lambda name, count: FindCoordinatorRequest(
            coordinator_keys=[f"no-{n}" for n in range(count)]
        ),
    ),
    "describe groups": (
        ApiKey.DESCRIBE_GROUPS,
        5,
        lambda name, count: DescribeGroupsRequest(groups=[f"no-{n}" for n in range(count)]),
    ),
    "delete groups": (
        ApiKey.DELETE_GROUPS,
        2,
        lambda name, count: DeleteGroupsRequest(groups_names=[f"no-{n}" for n in range(count)]),
    ),
    "leave a group": (
        ApiKey.LEAVE_GROUP,
        4,
        lambda name, count: LeaveGroupRequest(
            group_id="group", members=[MemberIdentity(f"no-{n}", None) for n in range(count)]
        ),
    ),
    "delete topics": (
        ApiKey.DELETE_TOPICS,
        5,
        lambda name, count: DeleteTopicsRequest(
            topic_names=[f"no-{n}" for n in range(count)], timeout_ms=10_000
        ),
    ),
    "create topics": (
        ApiKey.CREATE_TOPICS,
        5,
        lambda name, count: CreateTopicsRequest(
            topics=[CreatableTopic(f"no-{n}", 1, 1) for n in range(count)], timeout_ms=10_000
        ),
    ),
    "create partitions": (
        ApiKey.CREATE_PARTITIONS,
        3,
        lambda name, count: CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(f"no-{n}", 3, None) for n in range(count)],
            timeout_ms=10_000,
        ),
    ),
    "describe options of topics": (
        ApiKey.DESCRIBE_CONFIGS,
        4,
        lambda name, count: DescribeConfigsRequest(
            resources=[DescribeConfigsResource(2, f"no-{n}", None) for n in range(count)]
        ),
    ),
    "describe options of one topic": (
        ApiKey.DESCRIBE_CONFIGS,
        4,
        lambda name, count: DescribeConfigsRequest(
            resources=[DescribeConfigsResource(2, name, None) for _ in range(count)],
            include_synonyms=True,
            include_documentation=True,
        ),
    ),
    "describe options of one broker by many names": (
        ApiKey.DESCRIBE_CONFIGS,
        4,
        lambda name, count: DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(4, "0" * (n % 500) + "1", None) for n in range(count)
            ],
            include_synonyms=True,
            include_documentation=True,
        ),
    ),
    "alter options": (
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        lambda name, count: IncrementalAlterConfigsRequest(
            resources=[AlterConfigsResource(2, f"no-{n}", []) for n in range(count)]
        ),
    ),
    "delete records": (
        ApiKey.DELETE_RECORDS,
        2,
        lambda name, count: DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(name, [DeleteRecordsPartition(n, 0) for n in range(count)]),
            ],
            timeout_ms=1_000,
        ),
    ),
}


@pytest.mark.parametrize("what", list(HEAVY))
def test_as_many_elements_as_a_request_may_have(victim: Victim, topic: str, what: str) -> None:
    api, version, make = HEAVY[what]
    with victim.connect() as wire:
        wire.send(write_request(api, version, 1, "test", make(topic, MANY)))
        assert len(wire.frame()) > 10


@pytest.mark.parametrize("what", ["produce to topics", "fetch", "delete topics"])
def test_as_many_elements_again_and_again(victim: Victim, topic: str, what: str) -> None:
    api, version, make = HEAVY[what]
    request = write_request(api, version, 1, "test", make(topic, MANY))
    with victim.connect() as wire:
        wire.send(request)
        wire.frame()
        # The first one may have made room for what it needs; the next ones find it.
        before = victim.process.rss_bytes()
        for _ in range(3):
            wire.send(request)
            wire.frame()
    assert victim.process.rss_bytes() - before < REPEATED_GROWTH_BYTES_MAX


@pytest.mark.parametrize("what", ["produce to partitions", "fetch", "describe groups"])
def test_more_elements_than_a_request_may_have(victim: Victim, topic: str, what: str) -> None:
    api, version, make = HEAVY[what]
    assert is_refused(victim, api, version, make(topic, TOO_MANY))


def session_of(answer: bytes) -> int:
    """Return the session of a Fetch v12: correlation id, tags, throttle time and error before."""
    return int.from_bytes(answer[11:15], "big")


def test_fetch_sessions_of_very_many_partitions(victim: Victim, topic: str) -> None:
    # Partitions that do not exist are the quickest to answer for and take as much room.
    wanted = FetchRequest(session_epoch=0, topics=topic_list("no", MANY))
    request = write_request(ApiKey.FETCH, 12, 1, "test", wanted)
    sessions = []
    with victim.connect() as wire:
        for _ in range(12):
            wire.send(request)
            sessions.append(session_of(wire.frame()))
        # Beyond half a million partitions it goes without a session.
        assert sessions[0] != 0
        assert sessions[-2:] == [0, 0]
        for session in sessions:
            end = FetchRequest(session_id=session, session_epoch=-1)
            assert wire.ask(ApiKey.FETCH, 12, end).error_code == ErrorCode.NONE
        # With those ended, there is room again.
        wire.send(request)
        session = session_of(wire.frame())
        assert session != 0
        end = FetchRequest(session_id=session, session_epoch=-1)
        assert wire.ask(ApiKey.FETCH, 12, end).error_code == ErrorCode.NONE
