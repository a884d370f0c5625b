"""OffsetCommit, OffsetFetch and OffsetDelete on the wire, in every version."""

from typing import Any

import pytest

from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.events import CommitOffsets
from kafkaesque.protocols.kafka.api import SUPPORTED
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkaesque.protocols.kafka.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kafkaesque.protocols.kafka.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.unit.gateway_kafka.group_port import Port, id_of
from tests.unit.gateway_kafka.test_group_members import GROUP, stable, versions

COMMIT_VERSIONS = versions(ApiKey.OFFSET_COMMIT)
FETCH_VERSIONS = versions(ApiKey.OFFSET_FETCH)
TOPIC_IDS = 10


@pytest.fixture
def port() -> Port:
    port = Port()
    port.create_topic("flights")
    return port


def commit(
    port: Port,
    version: int,
    offsets: dict[int, int],
    *,
    topic: str = "flights",
    topic_id: int = 7,
    group_id: str = GROUP,
    generation: int = -1,
    member_id: str = "",
) -> dict[int, int] | None:
    """Commit; return the code of each partition."""
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[
            OffsetCommitRequestTopic(
                topic_id=id_of(topic_id),
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(number, offset, 5, f"at {offset}")
                    for number, offset in offsets.items()
                ],
            )
        ],
    )
    answer = port.ask(ApiKey.OFFSET_COMMIT, version, request)
    return None if answer is None else committed(answer, version)


def committed(answer: Any, version: int) -> dict[int, int]:
    (found,) = answer.topics
    if version >= TOPIC_IDS:
        assert found.topic_id != bytes(16)
    else:
        assert found.name
    return {each.partition_index: each.error_code for each in found.partitions}


def fetch_request(
    version: int, partitions: list[int] | None, *, topic: str = "flights", topic_id: int = 7
) -> OffsetFetchRequest:
    if version >= 8:
        topics = None
        if partitions is not None:
            topics = [OffsetFetchRequestTopics(id_of(topic_id), topic, partitions)]
        return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(GROUP, topics=topics)])
    return OffsetFetchRequest(
        group_id=GROUP,
        topics=None if partitions is None else [OffsetFetchRequestTopic(topic, partitions)],
    )


def fetch(port: Port, version: int, partitions: list[int] | None, **fields: Any) -> Any:
    """Return the group's part of the answer, in whatever version."""
    answer = port.ask(ApiKey.OFFSET_FETCH, version, fetch_request(version, partitions, **fields))
    if version < 8:
        return answer
    (group,) = answer.groups
    assert group.group_id == GROUP
    return group


def offsets_of(answer: Any) -> dict[int, tuple[int, int, str, int]]:
    (topic,) = answer.topics
    return {
        each.partition_index: (
            each.committed_offset,
            each.committed_leader_epoch,
            each.metadata,
            each.error_code,
        )
        for each in topic.partitions
    }


# -- OffsetCommit


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_offsets_are_committed_and_read_back(port: Port, version: int) -> None:
    assert commit(port, version, {0: 11, 2: 13}) == {0: 0, 2: 0}
    epoch = 5 if version >= 6 else -1
    assert offsets_of(fetch(port, 9, [0, 1, 2])) == {
        0: (11, epoch, "at 11", 0),
        1: (-1, -1, "", 0),
        2: (13, epoch, "at 13", 0),
    }


def test_a_commit_is_answered_when_it_is_in_the_log_and_not_before(port: Port) -> None:
    port.coordinators.holds_writes = True
    assert commit(port, 9, {0: 11}) is None
    port.coordinators.commit()
    assert committed(port.take(), 9) == {0: 0}


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_partitions_that_do_not_exist_are_refused_and_the_others_committed(
    port: Port, version: int
) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(port, version, {3: 1, 1: 11, -1: 1}) == {3: unknown, 1: 0, -1: unknown}
    assert offsets_of(fetch(port, 9, [1]))[1][0] == 11


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_a_topic_that_does_not_exist_never_reaches_the_coordinator(
    port: Port, version: int
) -> None:
    by_id = version >= TOPIC_IDS
    expected = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(port, version, {0: 1}, topic="trains", topic_id=8) == {0: expected}
    assert port.coordinators.events == []


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_who_commits_for_an_unknown_group_with_a_generation(port: Port, version: int) -> None:
    old = ErrorCode.ILLEGAL_GENERATION
    expected = ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else old
    assert commit(port, version, {0: 1}, generation=3, member_id="me") == {0: expected}


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_members_commit_in_their_generation(port: Port, version: int) -> None:
    member_id, generation = stable(port)
    assert commit(port, version, {0: 1}, generation=generation, member_id=member_id) == {0: 0}
    wrong = ErrorCode.ILLEGAL_GENERATION
    assert commit(port, version, {0: 1}, generation=99, member_id=member_id) == {0: wrong}
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(port, version, {0: 1}, generation=generation, member_id="x") == {0: unknown}
    assert commit(port, version, {0: 1}) == {0: unknown}


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_commits_without_a_coordinator(port: Port, version: int) -> None:
    port.coordinators.refused[GROUP] = GroupError.COORDINATOR_LOAD_IN_PROGRESS
    assert commit(port, version, {0: 1, 1: 2, 9: 3}) == {
        0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        1: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_a_commit_may_say_how_long_it_is_to_be_kept(port: Port, version: int) -> None:
    partition = OffsetCommitRequestPartition(0, 1, -1, None)
    topic = OffsetCommitRequestTopic(id_of(7), "flights", [partition])
    request = OffsetCommitRequest(GROUP, retention_time_ms=5_000, topics=[topic])
    if version > 4:
        request.retention_time_ms = -1
    port.ask(ApiKey.OFFSET_COMMIT, version, request)
    (event,) = port.coordinators.events
    assert isinstance(event, CommitOffsets)
    assert event.retention_ms == (5_000 if version <= 4 else -1)
    assert event.offsets[0].metadata == ""
    assert event.offsets[0].topic_id == id_of(7)


# -- OffsetFetch


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_nothing_was_committed(port: Port, version: int) -> None:
    answer = fetch(port, version, [0, 1])
    assert answer.error_code == 0
    assert offsets_of(answer) == {0: (-1, -1, "", 0), 1: (-1, -1, "", 0)}


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_committed_offsets_are_fetched(port: Port, version: int) -> None:
    commit(port, 9, {1: 11})
    epoch = 5 if version >= 5 else -1
    assert offsets_of(fetch(port, version, [1])) == {1: (11, epoch, "at 11", 0)}


@pytest.mark.parametrize("version", FETCH_VERSIONS[1:])
def test_all_offsets_of_a_group(port: Port, version: int) -> None:
    commit(port, 9, {1: 11})
    answer = fetch(port, version, None)
    assert offsets_of(answer)[1][0] == 11
    (topic,) = answer.topics
    if version >= TOPIC_IDS:
        assert topic.topic_id == id_of(7)
    else:
        assert topic.name == "flights"


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_fetching_without_a_coordinator(port: Port, version: int) -> None:
    port.coordinators.refused[GROUP] = GroupError.COORDINATOR_LOAD_IN_PROGRESS
    answer = fetch(port, version, [0])
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if version >= 2:
        assert (answer.error_code, list(answer.topics)) == (code, [])
    else:
        assert offsets_of(answer) == {0: (-1, -1, "", code)}


@pytest.mark.parametrize("version", [8, 9, 10])
def test_several_groups_in_one_request(port: Port, version: int) -> None:
    commit(port, 9, {0: 11})
    commit(port, 9, {0: 12}, group_id="others")
    port.coordinators.refused["elsewhere"] = GroupError.NOT_COORDINATOR
    topics = [OffsetFetchRequestTopics(id_of(7), "flights", [0])]
    names = ["elsewhere", GROUP, "others", "nobody"]
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(name, topics=topics) for name in names]
    )
    answer = port.ask(ApiKey.OFFSET_FETCH, version, request)
    assert [each.group_id for each in answer.groups] == names
    codes = [each.error_code for each in answer.groups]
    assert codes == [ErrorCode.NOT_COORDINATOR, 0, 0, 0]
    found = [offsets_of(each)[0][0] for each in answer.groups[1:]]
    assert found == [11, 12, -1]


def test_no_groups_at_all(port: Port) -> None:
    answer = port.ask(ApiKey.OFFSET_FETCH, 9, OffsetFetchRequest(groups=[]))
    assert list(answer.groups) == []


def test_a_topic_id_that_does_not_exist(port: Port) -> None:
    commit(port, 9, {0: 11})
    topics = [
        OffsetFetchRequestTopics(id_of(8), "", [0, 1]),
        OffsetFetchRequestTopics(id_of(7), "", [0]),
    ]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(GROUP, topics=topics)])
    (group,) = port.ask(ApiKey.OFFSET_FETCH, 10, request).groups
    unknown, known = group.topics
    code = ErrorCode.UNKNOWN_TOPIC_ID
    assert [(each.committed_offset, each.error_code) for each in unknown.partitions] == [
        (-1, code),
        (-1, code),
    ]
    assert known.partitions[0].committed_offset == 11


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_offsets_of_a_deleted_topic_are_not_its_namesakes(port: Port, version: int) -> None:
    commit(port, 9, {0: 11})
    port.delete_topic(7)
    port.create_topic("flights", topic_id=8)
    assert offsets_of(fetch(port, version, [0], topic_id=8)) == {0: (-1, -1, "", 0)}
    if version >= 2:
        assert list(fetch(port, version, None).topics) == []


def test_what_was_committed_by_name_is_of_the_topic_that_had_the_name_then(port: Port) -> None:
    clock = port.clock
    commit(port, 9, {0: 11})
    created_ms = clock.wall_ms()
    commit(port, 9, {1: 12})  # by metadata of before: topic 8 is there already
    commit(port, TOPIC_IDS, {2: 13})
    port.delete_topic(7)
    port.create_topic("flights", topic_id=8, at_ms=created_ms)
    found = offsets_of(fetch(port, 9, [0, 1, 2]))
    assert [found[number][0] for number in range(3)] == [-1, 12, -1]
    assert [each.committed_offset for each in fetch(port, 9, None).topics[0].partitions] == [12]


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_whether_an_offset_is_the_topics_is_not_said_before_it_is_known(
    port: Port, version: int
) -> None:
    port.delete_topic(7)
    port.create_topic("flights", topic_id=8)
    commit(port, TOPIC_IDS, {0: 11}, topic_id=8)
    port.delete_topic(8)
    port.create_topic("flights")  # what a coordinator sees that knows of the past only

    def learn() -> bool:
        port.delete_topic(7)
        port.create_topic("flights", topic_id=8)
        return True

    port.cluster.catch_up = lambda: False
    answer = fetch(port, version, [0])
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if version >= 2:
        assert (answer.error_code, list(answer.topics)) == (code, [])
    else:
        assert offsets_of(answer)[0][3] == code
    port.cluster.catch_up = learn
    found = offsets_of(fetch(port, version, [0]))
    if version >= TOPIC_IDS:
        # Who asks by id has asked for the topic that is gone.
        assert found == {0: (-1, -1, "", ErrorCode.UNKNOWN_TOPIC_ID)}
    else:
        assert (found[0][0], found[0][3]) == (11, 0)


def test_by_id_offsets_of_a_deleted_topic_have_no_name_to_go_by(port: Port) -> None:
    commit(port, 9, {0: 11})
    port.delete_topic(7)
    assert list(fetch(port, 10, None).topics) == []
    assert offsets_of(fetch(port, 9, None))[0][0] == 11


# -- OffsetDelete


def delete(port: Port, partitions: list[int], group_id: str = GROUP) -> Any:
    topic = OffsetDeleteRequestTopic(
        "flights", [OffsetDeleteRequestPartition(each) for each in partitions]
    )
    request = OffsetDeleteRequest(group_id, [topic])
    return port.ask(ApiKey.OFFSET_DELETE, SUPPORTED[ApiKey.OFFSET_DELETE].last, request)


def test_offsets_are_deleted(port: Port) -> None:
    commit(port, 9, {0: 11, 1: 12})
    answer = delete(port, [0, 9])
    assert answer.error_code == 0
    (topic,) = answer.topics
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [
        (0, 0),
        (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    found = offsets_of(fetch(port, 9, [0, 1]))
    assert (found[0][0], found[1][0]) == (-1, 12)


@pytest.mark.parametrize(
    ("group_id", "code"),
    [("", ErrorCode.INVALID_GROUP_ID), ("nobody", ErrorCode.GROUP_ID_NOT_FOUND)],
)
def test_offsets_of_no_group_are_not_deleted(port: Port, group_id: str, code: ErrorCode) -> None:
    answer = delete(port, [0], group_id)
    assert (answer.error_code, list(answer.topics)) == (code, [])


def test_deleting_offsets_without_a_coordinator(port: Port) -> None:
    port.coordinators.refused[GROUP] = GroupError.NOT_COORDINATOR
    assert delete(port, [0]).error_code == ErrorCode.NOT_COORDINATOR


# -- what the audit log is told


def told(port: Port) -> list[tuple[str, str, dict[str, str]]]:
    events = port.audit.trail.take(port.clock.now_ms(), port.clock.wall_ms())
    return [(each.operation, each.resource, each.detail) for each in events]


@pytest.mark.parametrize("version", [2, 9, 10])
def test_a_commit_by_no_member_is_told(port: Port, version: int) -> None:
    assert commit(port, version, {0: 11, 1: 5, 7: 1}) != {}
    assert told(port) == [("commit-offsets", GROUP, {"1": "flights-0=11", "2": "flights-1=5"})]


def test_a_commit_of_a_member_is_not(port: Port) -> None:
    member, generation = stable(port)
    told(port)
    assert commit(port, 9, {0: 12}, generation=generation, member_id=member) == {0: 0}
    # Nor is one that was refused.
    assert commit(port, 9, {0: 12}, generation=generation + 1, member_id=member) != {0: 0}
    assert commit(port, 9, {0: 12}) != {0: 0}
    assert told(port) == []


def test_offsets_that_are_deleted_are_told(port: Port) -> None:
    commit(port, 9, {0: 11, 1: 5})
    told(port)
    partitions = [OffsetDeleteRequestPartition(number) for number in (0, 1, 9)]
    request = OffsetDeleteRequest(GROUP, [OffsetDeleteRequestTopic("flights", partitions)])
    port.ask(ApiKey.OFFSET_DELETE, 0, request)
    assert told(port) == [("delete-offsets", GROUP, {"1": "flights-0", "2": "flights-1"})]
