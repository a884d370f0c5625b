"""What comes in one read and says the same: together, and as if it had come one by one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kafkaesque.broker.doors import publish_lanes
from kafkaesque.gateway.amqp import publishing
from kafkaesque.gateway.amqp.errors import failed
from kafkaesque.gateway.amqp.ports import ChannelPort
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.errors import ReplyCode
from kafkaesque.protocols.amqp.frames import METHOD, write_frame
from kafkaesque.protocols.amqp.method_codec import write_method
from tests.unit.chassis.runs import published_together
from tests.unit.gateway_amqp.kit import AmqpClient, Message
from tests.unit.gateway_amqp.test_publishing import acked, confirming


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many messages went on their way together, each time that some did."""
    return published_together(monkeypatch)


def known(client: AmqpClient) -> str:
    """Return a queue whose route was used."""
    name = client.queue()
    client.publish(b"first", name)
    assert client.get(name, no_ack=True)[2] == b"first"
    return name


def all_of(client: AmqpClient, name: str, count: int) -> list[bytes]:
    client.call(m.BasicConsume(queue=name, no_ack=True), m.BasicConsumeOk)
    return [client.delivery()[2] for _ in range(count)]


def test_they_are_confirmed_and_in_order(client: AmqpClient, together: list[int]) -> None:
    one, other = known(client), known(client)
    confirming(client)
    bodies = [b"%d" % number for number in range(700)]
    client.publish_all(bodies[:600], one)
    client.publish_all(bodies[:3], other)
    client.publish_all(bodies[600:], one)
    acked(client, 703)
    # How a network cuts what is sent is chance.
    assert sum(together) > 350
    assert client.count(other) == (3, 0)
    assert all_of(client, one, 700) == bodies


def test_a_queue_that_is_full_refuses_some_of_them(client: AmqpClient, together: list[int]) -> None:
    name = client.queue(**{"x-max-length": 3, "x-overflow": "reject-publish"})
    confirming(client).publish(b"0", name)
    acked(client, 1)
    client.publish_all([b"1", b"2", b"3", b"4"], name)
    said = [client.next() for _ in range(3)]
    assert said == [
        m.BasicAck(delivery_tag=3, multiple=True),
        m.BasicNack(delivery_tag=4, requeue=False),
        m.BasicNack(delivery_tag=5, requeue=False),
    ]
    assert together == [4]


def test_all_that_a_full_queue_refuses_becomes_a_dead_letter(
    client: AmqpClient, together: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = known(client)
    name = client.queue(
        **{
            "x-max-length": 1,
            "x-overflow": "reject-publish-dlx",
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": target,
        }
    )
    confirming(client).publish(b"0", name)
    acked(client, 1)
    # Several requests of one turn.
    monkeypatch.setattr(publish_lanes, "BATCH_MAX", 1)
    client.publish_all([b"1", b"2", b"3"], name)
    assert [client.expect(m.BasicNack).delivery_tag for _ in range(3)] == [2, 3, 4]
    assert sum(together) >= 2
    assert client.count(name) == (1, 0)
    assert all_of(client, target, 3) == [b"1", b"2", b"3"]


def test_they_are_in_every_queue_of_a_fanout(client: AmqpClient, together: list[int]) -> None:
    names = [client.queue() for _ in range(3)]
    client.call(m.ExchangeDeclare(exchange="all", type="fanout"), m.ExchangeDeclareOk)
    for name in names:
        client.call(m.QueueBind(queue=name, exchange="all"), m.QueueBindOk)
    confirming(client).publish(b"0", "", exchange="all")
    acked(client, 1)
    client.publish_all([b"1", b"2"], "", exchange="all")
    assert client.expect(m.BasicAck) == m.BasicAck(delivery_tag=3, multiple=True)
    assert together == [2]
    for name in names:
        assert all_of(client, name, 3) == [b"0", b"1", b"2"]


def test_what_goes_nowhere_is_returned_before_it_is_confirmed(client: AmqpClient) -> None:
    confirming(client).publish_all([b"1", b"2"], "nowhere", mandatory=True)
    returned: list[bytes] = []
    confirmed = 0
    while confirmed < 2:
        found = client.next()
        if isinstance(found, Message):
            returned.append(found.body)
        else:
            assert isinstance(found, m.BasicAck)
            confirmed = found.delivery_tag
            assert returned == [b"1", b"2"][:confirmed]


def test_what_has_no_room_goes_one_by_one(
    client: AmqpClient, together: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = known(client)
    monkeypatch.setattr(publish_lanes, "UNDER_WAY_MAX", 2)
    confirming(client).publish_all([b"1", b"2", b"3"], name)
    # What is refused is known at once.
    assert client.expect(m.BasicNack).delivery_tag == 3
    acked(client, 2)
    assert together == []


def test_a_transaction_has_them(client: AmqpClient, together: list[int]) -> None:
    name = known(client)
    client.call(m.TxSelect(), m.TxSelectOk)
    client.publish_all([b"1", b"2", b"3"], name)
    assert client.count(name) == (0, 0)
    client.call(m.TxCommit(), m.TxCommitOk)
    assert together == []
    assert all_of(client, name, 3) == [b"1", b"2", b"3"]


def test_who_may_not_publish_them_is_refused_once(
    client: AmqpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = known(client)
    asked: list[tuple[str, ...]] = []

    def check_publish(channel: ChannelPort, exchange: str, keys: Sequence[str]) -> None:
        asked.append((exchange, *keys))
        raise failed(ReplyCode.ACCESS_REFUSED, "no", m.BasicPublish)

    monkeypatch.setattr(publishing, "check_publish", check_publish)
    client.publish_all([b"1", b"2"], name)
    client.fails_channel(403, "no")
    assert asked == [("", name)]
    assert client.count(name) == (0, 0)


def test_what_comes_behind_something_that_waits_stays_behind_it(
    client: AmqpClient, together: list[int]
) -> None:
    name = known(client)
    client.send(1, m.BasicGet(queue=name))
    client.publish_all([b"1", b"2"], name)
    assert isinstance(client.next(), m.BasicGetEmpty)
    assert all_of(client, name, 2) == [b"1", b"2"]
    assert together == []


def acknowledge(client: AmqpClient, *tags: int) -> None:
    acks = [write_method(m.BasicAck(delivery_tag=tag)) for tag in tags]
    client.write(b"".join(write_frame(METHOD, 1, each) for each in acks))


def test_acknowledgements_settle_each_message(client: AmqpClient) -> None:
    name = known(client)
    client.publish_all([b"1", b"2", b"3", b"4"], name)
    client.call(m.BasicConsume(queue=name), m.BasicConsumeOk)
    tags = [client.delivery()[0].delivery_tag for _ in range(4)]
    acknowledge(client, *tags[:3])
    client.send(1, m.ChannelClose())
    client.expect(m.ChannelCloseOk)
    client.open()
    assert client.count(name)[0] == 1


def test_an_unknown_tag_among_them_ends_the_channel(client: AmqpClient) -> None:
    name = known(client)
    client.publish_all([b"1", b"2"], name)
    client.call(m.BasicConsume(queue=name), m.BasicConsumeOk)
    first, last = (client.delivery()[0].delivery_tag for _ in range(2))
    acknowledge(client, first, last, last + 1)
    client.fails_channel(406, f"unknown delivery tag {last + 1}")
    assert client.count(name)[0] == 0


def test_acknowledgements_wait_for_a_commit(client: AmqpClient) -> None:
    name = known(client)
    client.publish_all([b"1", b"2"], name)
    client.call(m.TxSelect(), m.TxSelectOk)
    client.call(m.BasicConsume(queue=name), m.BasicConsumeOk)
    acknowledge(client, *(client.delivery()[0].delivery_tag for _ in range(2)))
    client.call(m.TxRollback(), m.TxRollbackOk)
    client.send(1, m.ChannelClose())
    client.expect(m.ChannelCloseOk)
    client.open()
    assert client.count(name)[0] == 2
