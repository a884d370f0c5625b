"""Sessions that are compared with RabbitMQ's: the same from a seed, and differences are found."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bench.rabbitmq.comparison import Difference, compare, say_all, shorten
from bench.rabbitmq.differences import known
from bench.rabbitmq.reasons import alike
from bench.rabbitmq.steps import Call, Publish, Raw, Step, session
from bench.rabbitmq.wires import Ours, SimWire
from kafkaesque.gateway.amqp import queues
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.properties import Properties

TO_Q1 = m.BasicPublish(routing_key="q1", mandatory=True)


def test_a_seed_gives_the_same_sessions_and_another_one_others() -> None:
    assert session(1, 2) == session(1, 2)
    assert session(1, 2) != session(1, 3) != session(2, 2)


@pytest.mark.parametrize("number", range(2))
def test_a_broker_says_the_same_twice(number: int) -> None:
    steps = session(5, number)
    assert compare(Ours, Ours, steps) is None


def test_what_is_said_is_told_by_step() -> None:
    steps: list[Step] = [
        Publish(method=TO_Q1, properties=Properties(), body=b"m1"),
        Call(method=m.QueueDeclare(queue="q1", durable=True)),
        Call(method=m.ConfirmSelect()),
        Publish(method=TO_Q1, properties=Properties(), body=b"m2"),
        Call(method=m.BasicConsume(queue="q1", consumer_tag="c")),
        Call(method=m.BasicAck(delivery_tag=9)),
        Raw(what="an unknown frame", data=b"\x05\0\1\0\0\0\0\xce"),
    ]
    said = [" ".join(lines) for lines in say_all(Ours(), steps)]
    assert "BasicReturn(reply_code=312" in said[0]
    assert "QueueDeclareOk(queue='q1', message_count=0" in said[1]
    assert "confirmed 1 b'm2'" in said[3]
    assert "q1: 1 messages, 0 consumers" in said[3]
    assert "BasicDeliver(consumer_tag='c', delivery_tag=0, redelivered=False" in said[4]
    assert "ChannelClose 406 of 60.80: PRECONDITION_FAILED - unknown delivery tag 9" in said[5]
    # What the channel had is in the queue again.
    assert "q1: 1 messages, 0 consumers" in said[5]
    assert "ConnectionClose 501 of 0.0: FRAME_ERROR" in said[6]


def test_a_difference_is_found_and_made_short(monkeypatch: pytest.MonkeyPatch) -> None:
    class Other(Ours):
        """A broker that calls queues otherwise."""

        def connect(self) -> SimWire:
            monkeypatch.setattr(queues, "RESERVED", "q2")
            return super().connect()

    def ours() -> Ours:
        monkeypatch.setattr(queues, "RESERVED", "amq.")
        return Ours()

    steps: list[Step] = [
        Call(method=m.QueueDeclare(queue="q1", durable=True)),
        Call(method=m.ConfirmSelect()),
        Call(method=m.QueueDeclare(queue="q2", durable=True)),
        Call(method=m.QueuePurge(queue="q1")),
    ]

    def again(tried: Sequence[Step]) -> Difference | None:
        return compare(Other, ours, tried)

    found = again(steps)
    assert found is not None
    short = shorten(found, again)
    assert short.steps == (steps[2],)
    assert "reserved prefix" in short.show()
    assert known(short) is None


def test_reasons_in_other_words_are_alike() -> None:
    start = "1 ChannelClose 406 of 50.10: PRECONDITION_FAILED - "
    theirs = "invalid arg 'x-expires' for queue 'q1' in vhost '/': {value_zero,0}"
    assert alike([start + theirs]) == alike([f"{start}invalid arg 'x-expires': 0 is not from 1"])
    assert alike([start + "unknown delivery tag 1"]) != alike([start + "unknown delivery tag 2"])
    typed = "received the value '5' of type 'signedint' but current is none"
    assert alike([typed]) == ["received the value '5' but current is none"]
