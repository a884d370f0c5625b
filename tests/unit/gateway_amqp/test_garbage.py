"""Nothing of a message is left to the garbage collector: its pauses would be somebody's latency."""

from __future__ import annotations

import gc

from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.broker.requests.queue_requests import QueueMessage, SettleMessages, TakeMessages
from kafkaesque.protocols.amqp import methods as m
from tests.unit.gateway_amqp.kit import AmqpClient, Ground, Message

_HOLDERS = (NewMessage, QueueMessage, SettleMessages, TakeMessages)


def test_messages_are_gone_when_they_are_done_with(ground: Ground, client: AmqpClient) -> None:
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    name = client.queue()
    client.call(m.BasicConsume(queue=name), m.BasicConsumeOk)

    def use() -> None:
        client.publish(b"one", name)
        client.publish(b"two", name)
        left = {b"one", b"two"}
        while left:
            found = client.next()
            if isinstance(found, Message):
                assert isinstance(found.method, m.BasicDeliver)
                left.remove(found.body)
                client.send(1, m.BasicAck(delivery_tag=found.method.delivery_tag))
        ground.wait(100)

    use()
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        use()
        gc.collect()
        found = {type(each).__name__ for each in gc.garbage if isinstance(each, _HOLDERS)}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert found == set()
