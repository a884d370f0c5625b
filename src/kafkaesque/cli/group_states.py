"""Groups as their coordinators know them: their state, and who is in them.

librdkafka has no word for the states in which a group of the new kind (KIP-848) is given its
partitions, and calls them unknown: such groups are asked for in Kafka's own messages.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum

from confluent_kafka import ConsumerGroupState
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription

from kafkaesque.cli.addresses import REQUEST_TIMEOUT_S
from kafkaesque.cli.alive_brokers import read_alive
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.kafka import result_of
from kafkaesque.cli.kafka_request import ASKED_AT_ONCE_MAX, ask
from kafkaesque.cli.missing_rules import on_group
from kafkaesque.cli.screen import counted
from kafkaesque.model.counted import have
from kafkaesque.model.sink_markers import keeps_sink_marker
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.consumer_group_describe_request import (
    ConsumerGroupDescribeRequest,
)
from kafkaesque.protocols.kafka.messages.consumer_group_describe_response import DescribedGroup
from kafkaesque.protocols.kafka.messages.list_groups_request import ListGroupsRequest
from kafkaesque.protocols.kafka.messages.list_groups_response import ListGroupsResponse
from kafkaesque.protocols.kafka.messages.metadata_request import (
    MetadataRequest,
    MetadataRequestTopic,
)
from kafkaesque.protocols.kafka.messages.metadata_response import MetadataResponse
from kafkaesque.protocols.kafka.messages.share_group_describe_response import (
    DescribedGroup as DescribedShareGroup,
)

AGAIN_S = 0.1
#: Keeps the groups: who leads a partition coordinates those that fall to it.
OFFSETS_TOPIC = "__consumer_offsets"
#: Partitions that one sentence names.
NAMED_MAX = 5
_METADATA_VERSION = 9
_DESCRIBE_VERSION = 0
#: The first that tells the protocol.
_LIST_VERSION = 5
#: States whose names are several words; elsewhere they come from librdkafka, which says it so.
_STATES = {
    "PreparingRebalance": ConsumerGroupState.PREPARING_REBALANCING.name.lower(),
    "CompletingRebalance": ConsumerGroupState.COMPLETING_REBALANCING.name.lower(),
}
#: What passes by itself, or is over by now: librdkafka finds out which.
_PASSING = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.GROUP_ID_NOT_FOUND,
)


class GroupKind(StrEnum):
    """What a group's committed offsets are."""

    #: Where its consumers go on.
    CONSUMERS = "consumers"
    #: The number of the micro-batch that a task of an exactly-once Spark sink wrote last.
    SINK_MARKER = "sink-marker"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """One member, and the partitions that are its own."""

    member_id: str
    client_id: str
    host: str
    partitions: Sequence[tuple[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One group that exists."""

    name: str
    state: str
    protocol: str
    members: Sequence[GroupMember]
    kind: GroupKind = GroupKind.CONSUMERS


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """One group in the list of all."""

    group: str
    state: str
    protocol: str
    kind: GroupKind


def describe_group(admin: AdminClient, name: str, operation: str = "describe") -> Group | None:
    """Return a group with its members; None where it does not exist.

    `operation` is what the command needs in the end; a refusal names it.

    Raises:
        CommandFailed: its coordinator does not answer, or no rule allows it.
    """
    deadline = time.monotonic() + REQUEST_TIMEOUT_S
    while True:
        request = admin.describe_consumer_groups([name])[name]
        found = result_of(request, f"group {name}", on_group(operation, name))
        if found.state is ConsumerGroupState.DEAD:
            return None
        if found.state is not ConsumerGroupState.UNKNOWN:
            return _described(found)
        address = f"{found.coordinator.host}:{found.coordinator.port}"
        asked = ConsumerGroupDescribeRequest([name])
        answer = ask(address, ApiKey.CONSUMER_GROUP_DESCRIBE, _DESCRIBE_VERSION, asked)
        (group,) = answer.groups
        if group.error_code == ErrorCode.NONE:
            return group_with_members(group, "consumer")
        if group.error_code not in _PASSING or time.monotonic() > deadline:
            reason = group.error_message or ErrorCode(group.error_code).name
            raise CommandFailed(f"group {name}: {reason}")
        time.sleep(AGAIN_S)


def list_groups(bootstrap: str, note: Callable[[str], None]) -> list[ListedGroup]:
    """Return the groups of all brokers that answer, in the order of their names.

    `note` is told why groups are missing: those of a broker that does not answer, and those whose
    partition has no leader. librdkafka would wait for brokers that Metadata lists, though they are
    lost.

    Raises:
        CommandFailed: no broker answers.
    """
    alive = read_alive(bootstrap)
    leaders = _coordinators(bootstrap)
    addresses = [f"{each.host}:{each.port}" for each in alive.values()]
    with ThreadPoolExecutor(ASKED_AT_ONCE_MAX) as pool:
        answers = dict(zip(alive, pool.map(_groups_at, addresses), strict=True))
    failures = {broker: each for broker, each in answers.items() if isinstance(each, CommandFailed)}
    if failures and len(failures) == len(answers):
        raise next(iter(failures.values()))
    groups = {
        each.group: each
        for answer in answers.values()
        if not isinstance(answer, CommandFailed)
        for each in answer
    }
    for failure in failures.values():
        note(f"groups are missing: {failure.message}")
    leaderless = [number for number, leader in leaders.items() if leader not in alive]
    if leaderless:
        named = ", ".join(map(str, leaderless[:NAMED_MAX]))
        more = f" and {len(leaderless) - NAMED_MAX} more" if len(leaderless) > NAMED_MAX else ""
        note(
            f"groups are missing: {len(leaderless)} of {counted(len(leaders), 'partition')} of"
            f" {OFFSETS_TOPIC} {have(len(leaderless))} no leader, so their groups have no"
            f" coordinator ({named}{more})"
        )
    return [groups[name] for name in sorted(groups)]


def _coordinators(bootstrap: str) -> dict[int, int]:
    """Return which broker leads each partition of the groups' topic, if it exists; -1 for none."""
    request = MetadataRequest(
        [MetadataRequestTopic(name=OFFSETS_TOPIC)], allow_auto_topic_creation=False
    )
    answer: MetadataResponse = ask(bootstrap, ApiKey.METADATA, _METADATA_VERSION, request)
    return {
        each.partition_index: each.leader_id for topic in answer.topics for each in topic.partitions
    }


def _groups_at(address: str) -> list[ListedGroup] | CommandFailed:
    """Return the groups that a broker coordinates."""
    try:
        answer: ListGroupsResponse = ask(
            address, ApiKey.LIST_GROUPS, _LIST_VERSION, ListGroupsRequest()
        )
    except CommandFailed as failure:
        return failure
    if answer.error_code:
        reason = ErrorCode(answer.error_code).name
        return CommandFailed(f"{address}: {reason}")
    return [
        ListedGroup(
            group=each.group_id,
            state=_STATES.get(each.group_state, each.group_state.lower()),
            protocol=each.group_type.lower(),
            kind=_kind_of(each.group_id, is_simple=not each.protocol_type),
        )
        for each in answer.groups
    ]


def _kind_of(name: str, *, is_simple: bool) -> GroupKind:
    """Return what a group is: one that ever had members is theirs, whatever it is called."""
    is_marker = is_simple and keeps_sink_marker(name)
    return GroupKind.SINK_MARKER if is_marker else GroupKind.CONSUMERS


def _described(found: ConsumerGroupDescription) -> Group:
    members = [
        GroupMember(
            member_id=each.member_id,
            client_id=each.client_id,
            host=each.host,
            partitions=[
                (place.topic, place.partition) for place in each.assignment.topic_partitions or ()
            ],
        )
        for each in found.members
    ]
    return Group(
        name=found.group_id,
        state=found.state.name.lower(),
        protocol=found.type.name.lower(),
        members=members,
        kind=_kind_of(found.group_id, is_simple=found.is_simple_consumer_group),
    )


def group_with_members(found: DescribedGroup | DescribedShareGroup, protocol: str) -> Group:
    """Return a group as its coordinator has described it, with its members' assignments."""
    members = [
        GroupMember(
            member_id=each.member_id,
            client_id=each.client_id,
            host=each.client_host,
            partitions=[
                (topic.topic_name, number)
                for topic in each.assignment.topic_partitions
                for number in topic.partitions
            ],
        )
        for each in found.members
    ]
    state = found.group_state.lower()
    return Group(name=found.group_id, state=state, protocol=protocol, members=members)
