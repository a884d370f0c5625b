"""Which broker is asked, and when a request is repeated: the client's core without a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafkaesque import Message
from kafkaesque.client import errors
from kafkaesque.client.addresses import Address
from kafkaesque.client.connections import AGAIN_S_MAX, LEARN_S
from kafkaesque.client.delivery import Delivery
from kafkaesque.client.queue_calls import Action, QueueCalls
from kafkaesque.model.records import Record
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.api_versions_response import ApiVersionsResponse
from kafkaesque.protocols.kafka.messages.describe_queues_response import (
    DescribedQueue,
    DescribeQueuesResponse,
    QueueOption,
)
from kafkaesque.protocols.kafka.messages.metadata_response import MetadataResponseBroker
from kafkaesque.protocols.kafka.messages.put_messages_response import PutMessagesResponse
from kafkaesque.protocols.kafka.messages.sasl_authenticate_response import (
    SaslAuthenticateResponse,
)
from kafkaesque.protocols.kafka.messages.sasl_handshake_response import SaslHandshakeResponse
from kafkaesque.protocols.kafka.messages.settle_messages_response import SettleMessagesResponse
from kafkaesque.protocols.kafka.messages.take_messages_response import TakeMessagesResponse
from tests.unit.client.world import FakeWorld

PUT_DONE = PutMessagesResponse(offsets=[7])
TIMEOUT_S = 30.0


def lost(_: object) -> Any:
    raise EOFError


def hangs(_: object) -> Any:
    raise TimeoutError


def refused(code: ErrorCode) -> PutMessagesResponse:
    return PutMessagesResponse(error_code=code, error_message="as it says")


def one_after_the_other(*answers: Any) -> Callable[[object], Any]:
    left: Iterator[Any] = iter(answers)

    def answer(request: object) -> Any:
        found = next(left)
        return found(request) if callable(found) else found

    return answer


def put(world: FakeWorld, *messages: Message, timeout_s: float | None = TIMEOUT_S) -> list[int]:
    return world.run(QueueCalls(world.calls).put("q", messages, timeout_s))


def knows_duplicates(window_ms: int) -> DescribeQueuesResponse:
    option = QueueOption("deduplication.ms", str(window_ms), True)
    return DescribeQueuesResponse(queues=[DescribedQueue(queue="q", vhost="/", options=[option])])


# -- which broker


def test_the_next_broker_is_asked_if_one_is_down() -> None:
    world = FakeWorld("a:1,b:2,c:3")
    world.answers[ApiKey.PUT_MESSAGES] = lambda _: PUT_DONE
    first, *_ = world.calls.connections.addresses
    world.down = {str(first)}
    assert put(world, Message("a")) == [7]
    assert world.calls.connections.addresses[-1] == first
    assert world.sleeps == []


def test_all_are_tried_until_time_is_up() -> None:
    world = FakeWorld()
    world.down = {"a:1", "b:2"}
    with pytest.raises(errors.BrokerUnavailable, match=r"b:2 .connection refused"):
        put(world, Message("a"), timeout_s=10)
    assert 9 < world.now_s - 1000 <= 10
    assert sorted(world.sleeps) == world.sleeps
    assert world.sleeps[-1] == AGAIN_S_MAX
    assert set(world.connects) == {"a:1", "b:2"}


def test_other_brokers_are_learnt_and_asked() -> None:
    world = FakeWorld("a:1")
    world.answers[ApiKey.PUT_MESSAGES] = lambda _: PUT_DONE
    world.brokers = [MetadataResponseBroker(1, "a", 1), MetadataResponseBroker(2, "b", 2)]
    put(world, Message("a"))
    assert world.calls.connections.addresses == (Address("a", 1), Address("b", 2))
    world.wires[0].is_old = True
    world.down = {"a:1"}
    put(world, Message("a"))
    assert world.connects == ["a:1", "a:1", "b:2"]
    world.brokers = [MetadataResponseBroker(3, "c", 3)]
    world.now_s += LEARN_S
    world.wires[1].is_old = True
    put(world, Message("a"))
    # Whom the client was told of it never forgets.
    assert set(world.calls.connections.addresses) == {Address("a", 1), Address("c", 3)}


def test_a_connection_is_used_again_unless_it_is_stale() -> None:
    world = FakeWorld()
    world.answers[ApiKey.PUT_MESSAGES] = lambda _: PUT_DONE
    put(world, Message("a"))
    put(world, Message("b"))
    assert len(world.wires) == 1
    world.wires[0].is_old = True
    put(world, Message("c"))
    assert [each.is_closed for each in world.wires] == [True, False]


def test_a_connection_ends_before_the_broker_forgets_who_it_is() -> None:
    world = FakeWorld("a:1", user="u", password="p", mechanism="PLAIN")
    world.answers[ApiKey.SASL_HANDSHAKE] = lambda _: SaslHandshakeResponse()
    world.answers[ApiKey.SASL_AUTHENTICATE] = lambda _: SaslAuthenticateResponse(
        session_lifetime_ms=10_000
    )
    world.answers[ApiKey.PUT_MESSAGES] = lambda _: PUT_DONE
    put(world, Message("a"))
    world.now_s += 8
    put(world, Message("a"))
    assert len(world.wires) == 1
    world.now_s += 1
    put(world, Message("a"))
    assert [each.is_closed for each in world.wires] == [True, False]


def test_no_more_connections_are_kept_than_may_be() -> None:
    world = FakeWorld("a:1", connections_max=2)
    connections = world.calls.connections
    links = [world.run(connections.take(2000.0)) for _ in range(3)]
    for link in links:
        connections.give_back(link)
    assert [each.is_closed for each in world.wires] == [False, False, True]
    connections.close()
    assert all(each.is_closed for each in world.wires)
    with pytest.raises(errors.Closed):
        put(world, Message("a"))


@pytest.mark.parametrize(
    ("greeting", "words"),
    [
        (ApiVersionsResponse(), "has no queues"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "speaks HTTP"),
        (b"\x15\x03\x03\x00\x02\x02\x28", "speaks TLS"),
        (b"\x7f\xff\xff\xff", "an answer of 2147483647 bytes"),
    ],
)
def test_what_is_no_broker_of_ours_is_said_at_once(greeting: Any, words: str) -> None:
    world = FakeWorld()
    world.answers[ApiKey.API_VERSIONS] = lambda _: greeting
    with pytest.raises(errors.NotABroker, match=words):
        put(world, Message("a"))
    assert (len(world.connects), world.sleeps) == (1, [])
    assert world.wires[0].is_closed


def test_a_task_that_is_cancelled_leaves_no_connection_behind() -> None:
    world = FakeWorld()
    steps = QueueCalls(world.calls).put("q", [Message("a")], TIMEOUT_S)

    def cancel(_: object) -> Any:
        raise KeyboardInterrupt

    world.answers[ApiKey.PUT_MESSAGES] = cancel
    with pytest.raises(KeyboardInterrupt):
        world.run(steps)
    steps.close()
    assert world.wires[0].is_closed


# -- when a request is repeated


def test_what_was_surely_not_done_is_asked_again() -> None:
    world = FakeWorld()
    passing = refused(ErrorCode.LEADER_NOT_AVAILABLE)
    world.answers[ApiKey.PUT_MESSAGES] = one_after_the_other(passing, passing, PUT_DONE)
    assert put(world, Message("a")) == [7]
    assert len(world.sleeps) == 2
    world.answers[ApiKey.PUT_MESSAGES] = lambda _: passing
    with pytest.raises(errors.Timeout, match="as it says"):
        put(world, Message("a"))


@pytest.mark.parametrize(
    "answer",
    [
        lost,
        hangs,
        refused(ErrorCode.REQUEST_TIMED_OUT),
        refused(ErrorCode.UNKNOWN_SERVER_ERROR),
        b"\0\0\0\x05\0\0\0\1\0",
    ],
    ids=["lost", "hangs", "timed out", "unknown", "cut"],
)
def test_a_put_is_not_repeated_if_it_may_be_done(answer: Any) -> None:
    world = FakeWorld()
    world.answers[ApiKey.PUT_MESSAGES] = one_after_the_other(
        answer if not isinstance(answer, bytes) else lambda _: answer
    )
    with pytest.raises(errors.OutcomeUnknown):
        put(world, Message("a"))
    assert world.asked == [ApiKey.PUT_MESSAGES]


def test_a_refusal_is_raised_at_once() -> None:
    world = FakeWorld()
    world.answers[ApiKey.PUT_MESSAGES] = one_after_the_other(refused(ErrorCode.UNKNOWN_QUEUE))
    with pytest.raises(errors.QueueNotFound, match="as it says"):
        put(world, Message("a"))


def test_a_put_with_ids_is_repeated_if_the_queue_knows_duplicates() -> None:
    world = FakeWorld()
    world.answers[ApiKey.PUT_MESSAGES] = one_after_the_other(lost, lost, PUT_DONE)
    world.answers[ApiKey.DESCRIBE_QUEUES] = lambda _: knows_duplicates(60_000)
    assert put(world, Message("a", id="1")) == [7]
    assert world.asked == [
        ApiKey.PUT_MESSAGES,
        ApiKey.DESCRIBE_QUEUES,
        ApiKey.PUT_MESSAGES,
        ApiKey.PUT_MESSAGES,
    ]


def test_one_message_without_an_id_spoils_the_batch() -> None:
    world = FakeWorld()
    world.answers[ApiKey.PUT_MESSAGES] = lost
    with pytest.raises(errors.OutcomeUnknown):
        put(world, Message("a", id="1"), Message("b"))
    assert world.asked == [ApiKey.PUT_MESSAGES]


def test_a_put_with_an_id_is_not_repeated_when_the_id_is_forgotten() -> None:
    world = FakeWorld()
    world.answers[ApiKey.PUT_MESSAGES] = lost
    world.answers[ApiKey.DESCRIBE_QUEUES] = lambda _: knows_duplicates(2_000)
    with pytest.raises(errors.OutcomeUnknown):
        put(world, Message("a", id="1"), timeout_s=600)
    assert 1 < world.now_s - 1000 <= 3


def test_a_put_with_an_id_is_not_repeated_if_nobody_says_whether_that_is_safe() -> None:
    world = FakeWorld()
    world.answers[ApiKey.PUT_MESSAGES] = one_after_the_other(lost)
    world.answers[ApiKey.DESCRIBE_QUEUES] = lambda _: DescribeQueuesResponse(
        error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    )
    with pytest.raises(errors.OutcomeUnknown):
        put(world, Message("a", id="1"))


def test_a_settlement_is_repeated() -> None:
    world = FakeWorld()
    world.answers[ApiKey.SETTLE_MESSAGES] = one_after_the_other(lost, SettleMessagesResponse())
    message = Delivery("q", Record(7, 0, None, b"a"), 1, 0)
    world.run(QueueCalls(world.calls).settle([message], Action.ACCEPT))
    assert len(world.asked) == 2


def test_a_take_that_hangs_is_asked_of_another_broker() -> None:
    world = FakeWorld()
    world.answers[ApiKey.TAKE_MESSAGES] = one_after_the_other(hangs, TakeMessagesResponse())
    take = QueueCalls(world.calls).take("q", 1, None, 5.0, TIMEOUT_S, Delivery)
    assert world.run(take) == []
    assert len(set(world.connects)) == 2
    world.answers[ApiKey.TAKE_MESSAGES] = hangs
    with pytest.raises(errors.Timeout):
        world.run(QueueCalls(world.calls).take("q", 1, None, 5.0, TIMEOUT_S, Delivery))
