"""Groups of ten thousand members: who is one too many is told, and nobody else notices."""

from __future__ import annotations

import select
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.frames import write_request
from kafkaesque.protocols.kafka.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
)
from kafkaesque.protocols.kafka.messages.consumer_group_heartbeat_response import (
    ConsumerGroupHeartbeatResponse,
)
from kafkaesque.protocols.kafka.messages.delete_groups_request import DeleteGroupsRequest
from kafkaesque.protocols.kafka.messages.join_group_request import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from tests.clients.bad_input import ANSWER_TIMEOUT_S, BUSY_S_MAX, MIB, Victim, Wire

MEMBERS = 10_000
CLASSIC_MEMBERS = 20
AT_ONCE = 250
PARTITIONS = 12
HEARTBEAT = ApiKey.CONSUMER_GROUP_HEARTBEAT
#: The first version of JoinGroup in which a member joins without an id that it was given before.
JOIN_AT_ONCE = 3


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    with Victim(options={"group.max.size": str(CLASSIC_MEMBERS)}) as made:
        made.find_coordinators()
        yield made


@pytest.fixture(scope="module")
def topic(victim: Victim) -> str:
    return victim.make_topic(PARTITIONS)


def joining(topic: str, group: str, number: int) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=f"member-{number}",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=[topic],
        topic_partitions=[],
    )


def beat(wire: Wire, group: str, number: int, epoch: int) -> ConsumerGroupHeartbeatResponse:
    request = ConsumerGroupHeartbeatRequest(
        group_id=group, member_id=f"member-{number}", member_epoch=epoch, topic_partitions=None
    )
    answer: ConsumerGroupHeartbeatResponse = wire.ask(HEARTBEAT, 1, request)
    return answer


def join_all(wire: Wire, topic: str, group: str, numbers: Sequence[int]) -> dict[int, Any]:
    """Have members join, many at once; return what each was answered."""
    frames = [write_request(HEARTBEAT, 1, 1, "test", joining(topic, group, n)) for n in numbers]
    wire.send(b"".join(frames))
    return {number: wire.answer(HEARTBEAT, 1) for number in numbers}


@pytest.mark.extended
def test_ten_thousand_members_of_the_new_protocol(victim: Victim, topic: str) -> None:
    busiest_s = 0.0
    epochs: dict[int, int] = {}
    with (
        victim.connect() as crowd,
        victim.connect() as other,
        victim.watched(growth_bytes_max=128 * MIB),
    ):
        other_epoch = other.ask(HEARTBEAT, 1, joining(topic, "calm", 0)).member_epoch
        for first in range(0, MEMBERS, AT_ONCE):
            answers = join_all(crowd, topic, "crowd", range(first, first + AT_ONCE))
            assert {each.error_code for each in answers.values()} == {ErrorCode.NONE}
            epochs |= {number: each.member_epoch for number, each in answers.items()}
            for wire, group, number, epoch in (
                (other, "calm", 0, other_epoch),
                (crowd, "crowd", first, epochs[first]),
            ):
                worked_s = victim.process.cpu_seconds()
                answer = beat(wire, group, number, epoch)
                busiest_s = max(busiest_s, victim.process.cpu_seconds() - worked_s)
                assert answer.error_code == ErrorCode.NONE
        one_more = crowd.ask(HEARTBEAT, 1, joining(topic, "crowd", MEMBERS))
        assert one_more.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert str(MEMBERS) in (one_more.error_message or "")
        # Who is in may go on, also from the beginning.
        again = crowd.ask(HEARTBEAT, 1, joining(topic, "crowd", 0))
        assert again.error_code == ErrorCode.NONE
        deleting = crowd.ask(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest(["crowd"]))
        assert deleting.results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    assert busiest_s <= BUSY_S_MAX


@pytest.mark.parametrize("timeout_ms", [-(2**31), -2, 0, 2**31 - 1])
def test_any_time_to_give_partitions_up_is_taken(
    victim: Victim, topic: str, timeout_ms: int
) -> None:
    group = f"rebalance-{timeout_ms}"
    with victim.watched(), victim.connect() as wire:
        request = joining(topic, group, 0)
        request.rebalance_timeout_ms = timeout_ms
        first = wire.ask(HEARTBEAT, 1, request)
        assert (first.error_code, first.member_epoch) == (ErrorCode.NONE, 1)
        # A second one comes, so that the first one has to give something up.
        assert wire.ask(HEARTBEAT, 1, joining(topic, group, 1)).error_code == ErrorCode.NONE
        found = beat(wire, group, 0, 1)
        assert found.error_code == ErrorCode.NONE
        assert found.assignment is not None
        (kept,) = found.assignment.topic_partitions
        assert len(kept.partitions) == PARTITIONS // 2


@pytest.mark.parametrize(
    ("number", "epoch", "code"),
    [
        (0, 2**31 - 1, ErrorCode.FENCED_MEMBER_EPOCH),
        (0, 2, ErrorCode.FENCED_MEMBER_EPOCH),
        (0, -3, ErrorCode.INVALID_REQUEST),
        (0, -(2**31), ErrorCode.INVALID_REQUEST),
        # Who leaves for a while has an instance.
        (0, -2, ErrorCode.INVALID_REQUEST),
        (1, 1, ErrorCode.UNKNOWN_MEMBER_ID),
        (1, -1, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_epochs_that_nobody_was_given(
    victim: Victim, topic: str, number: int, epoch: int, code: ErrorCode
) -> None:
    # Of its own: where a session ends between two of these tests, the group is in a later epoch.
    group = f"epochs-{number}-{epoch}"
    with victim.watched(), victim.connect() as wire:
        assert wire.ask(HEARTBEAT, 1, joining(topic, group, 0)).error_code == ErrorCode.NONE
        assert beat(wire, group, number, epoch).error_code == code
        assert beat(wire, group, 0, 1).error_code == ErrorCode.NONE


def test_more_members_of_the_classic_protocol_than_a_group_may_have(victim: Victim) -> None:
    request = JoinGroupRequest(
        group_id="full",
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol("range", b"x")],
    )
    frame = write_request(ApiKey.JOIN_GROUP, JOIN_AT_ONCE, 1, "test", request)
    with victim.watched(), ExitStack() as stack:
        first = stack.enter_context(victim.connect())
        assert first.ask(ApiKey.JOIN_GROUP, JOIN_AT_ONCE, request).error_code == ErrorCode.NONE
        others = {
            wire.socket: wire
            for wire in (stack.enter_context(victim.connect()) for _ in range(CLASSIC_MEMBERS + 4))
        }
        for wire in others.values():
            wire.send(frame)
        # Those who are in wait for the first one to join again, which has no place among them until
        # it does: only the others are answered.
        refused = 0
        while refused < 4:
            answered, _, _ = select.select(list(others), [], [], ANSWER_TIMEOUT_S)
            assert answered, f"only {refused} are refused"
            for each in answered:
                answer = others.pop(each).answer(ApiKey.JOIN_GROUP, JOIN_AT_ONCE)
                assert answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
                refused += 1
        assert len(others) == CLASSIC_MEMBERS
