"""pika, unchanged: blocking and on asyncio; three brokers, each of which serves each queue."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pika
import pika.exceptions
import pytest
from confluent_kafka import Consumer
from pika.adapters.asyncio_connection import AsyncioConnection
from pika.adapters.blocking_connection import BlockingChannel

from kafkaesque.protocols.amqp.connection import BODY_BYTES_MAX
from tests.clients.amqp_cluster import AmqpCluster, new_name
from tests.waiting import eventually


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AmqpCluster]:
    with AmqpCluster(3, tmp_path_factory.mktemp("amqp")) as found:
        yield found


@pytest.fixture
def channel(cluster: AmqpCluster) -> Iterator[BlockingChannel]:
    with cluster.connected() as connection:
        yield connection.channel()


PERSISTENT = pika.BasicProperties(delivery_mode=2, content_type="text/plain")

#: Has a message, and does nothing with it.
WORKER = """
import sys, time, pika
channel = pika.BlockingConnection(pika.URLParameters(sys.argv[1])).channel()
method, _, _ = next(channel.consume(sys.argv[2]))
print("has", method.redelivered, flush=True)
time.sleep(60)
"""


def test_work_is_shared_and_acknowledged(cluster: AmqpCluster, channel: BlockingChannel) -> None:
    name = new_name("work")
    channel.queue_declare(name, durable=True)
    channel.confirm_delivery()
    for number in range(20):
        channel.basic_publish("", name, str(number), PERSISTENT, mandatory=True)
    seen: list[bytes] = []
    with cluster.connected(2) as second, cluster.connected(3) as third:
        workers = [second.channel(), third.channel()]
        for worker in workers:
            worker.basic_qos(prefetch_count=1)

            def on_message(ch: Any, method: Any, properties: Any, body: bytes) -> None:
                assert properties.content_type == "text/plain"
                seen.append(body)
                ch.basic_ack(method.delivery_tag)

            worker.basic_consume(name, on_message)

        def all_seen() -> bool:
            for each in (second, third):
                each.process_data_events(0.05)
            return len(seen) >= 20

        eventually(all_seen, "all messages are worked on")
    assert sorted(map(int, seen)) == list(range(20))
    assert channel.queue_declare(name, passive=True).method.message_count == 0


def test_the_longest_message_of_all_fits_into_a_queue(cluster: AmqpCluster) -> None:
    """What is longer closes the channel: no publisher tries again and again in vain."""
    name, body = new_name(), bytes(BODY_BYTES_MAX)
    with cluster.connected(2) as connection:
        channel = connection.channel()
        channel.queue_declare(name, durable=True)
        channel.confirm_delivery()
        channel.basic_publish("", name, body, pika.BasicProperties(headers={"h": "x" * 100_000}))
        _, _, found = channel.basic_get(name, auto_ack=True)
        assert found == body
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="406"):
            channel.basic_publish("", name, body + b"x")


def test_a_stream_is_read_again_and_by_kafkas_clients(
    cluster: AmqpCluster, channel: BlockingChannel
) -> None:
    name = new_name("stream")
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
    channel.confirm_delivery()
    for number in range(5):
        channel.basic_publish("", name, str(number), PERSISTENT)
    channel.basic_qos(prefetch_count=2)
    for first in (0, 3):
        seen = []
        arguments = {"x-stream-offset": first}
        for method, properties, body in channel.consume(name, arguments=arguments):
            assert properties.headers == {"x-stream-offset": int(body)}
            seen.append(int(body))
            channel.basic_ack(method.delivery_tag)
            if len(seen) == 5 - first:
                break
        channel.cancel()
        assert seen == list(range(first, 5))
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": name,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([name])
    found = [consumer.consume(1, 30)[0] for _ in range(5)]
    consumer.close()
    assert [each.value() for each in found] == [b"0", b"1", b"2", b"3", b"4"]
    assert ("content-type", b"text/plain") in list(found[0].headers() or [])
    channel.queue_delete(name)


def test_a_consumer_of_a_stream_gets_what_its_filter_wants(
    cluster: AmqpCluster, channel: BlockingChannel
) -> None:
    name = new_name("stream")
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
    channel.confirm_delivery()
    orders = [("eu", 5), ("us", 500), ("eu", 700), ("eu", 50), ("eu", 600)]
    for region, total in orders:
        properties = pika.BasicProperties(headers={"region": region})
        channel.basic_publish("", name, f'{{"total": {total}}}', properties)
    channel.basic_qos(prefetch_count=1)
    arguments = {"x-stream-offset": "first", "x-filter": "region = 'eu' AND $.total > 100"}
    seen = []
    for method, _, body in channel.consume(name, arguments=arguments, inactivity_timeout=3):
        if method is None:
            break
        seen.append(body)
        channel.basic_ack(method.delivery_tag)
    channel.cancel()
    assert seen == [b'{"total": 700}', b'{"total": 600}']
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
        channel.basic_consume(name, print, arguments={"x-filter": "region ="})
    assert (refused.value.reply_code, "x-filter" in refused.value.reply_text) == (406, True)
    with cluster.connected() as another:
        work = another.channel()
        queue = work.queue_declare(new_name("work"), durable=True).method.queue
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
            work.basic_consume(queue, print, arguments={"x-filter": "region = 'eu'"})
        assert refused.value.reply_code == 406
        assert "x-filter is for streams" in refused.value.reply_text


def test_a_worker_that_dies_leaves_its_message_to_another(
    cluster: AmqpCluster, channel: BlockingChannel
) -> None:
    name = new_name("dies")
    channel.queue_declare(name, durable=True)
    channel.basic_publish("", name, "job", PERSISTENT)
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, cluster.url(2), name], stdout=subprocess.PIPE, text=True
    )
    assert worker.stdout is not None
    assert worker.stdout.readline() == "has False\n"
    worker.kill()
    worker.wait()
    worker.stdout.close()
    again, _, body = next(channel.consume(name))
    assert (again.redelivered, body) == (True, b"job")
    channel.basic_ack(again.delivery_tag)


def test_rpc_over_an_exclusive_queue_and_over_direct_reply_to(
    cluster: AmqpCluster, channel: BlockingChannel
) -> None:
    requests = new_name("rpc")
    channel.queue_declare(requests)

    def serve() -> None:
        with cluster.connected(2) as connection:
            server = connection.channel()
            for method, properties, body in server.consume(requests, inactivity_timeout=30):
                if body in (None, b"stop"):
                    break
                reply = pika.BasicProperties(correlation_id=properties.correlation_id)
                server.basic_publish("", properties.reply_to, body.upper(), reply)
                server.basic_ack(method.delivery_tag)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        own = channel.queue_declare("", exclusive=True).method.queue
        assert own.startswith("amq.gen-")
        for reply_to in (own, "amq.rabbitmq.reply-to"):
            answers = channel.consume(reply_to, auto_ack=True, inactivity_timeout=30)
            properties = pika.BasicProperties(reply_to=reply_to, correlation_id="7")
            # Only once the consumer is there, there is somewhere to answer to.
            channel.connection.call_later(
                0.3, lambda p=properties: channel.basic_publish("", requests, b"hello", p)
            )
            _, found, body = next(answers)
            assert (found.correlation_id, body) == ("7", b"HELLO")
            channel.cancel()
    finally:
        channel.basic_publish("", requests, b"stop")
        thread.join(60)


def test_mistakes_are_the_exceptions_that_pika_knows(cluster: AmqpCluster) -> None:
    with cluster.connected() as connection:
        channel = connection.channel()
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="404"):
            channel.queue_declare(new_name(), passive=True)
        channel = connection.channel()
        channel.confirm_delivery()
        with pytest.raises(pika.exceptions.UnroutableError):
            channel.basic_publish("", new_name(), b"x", mandatory=True)
        name = new_name()
        arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
        channel.queue_declare(name, durable=True, arguments=arguments)
        channel.basic_publish("", name, b"1")
        with pytest.raises(pika.exceptions.NackError):
            channel.basic_publish("", name, b"2")
        channel.basic_ack(99)
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="406"):
            channel.queue_declare(name, passive=True)


def test_a_consumer_of_a_higher_priority_comes_first(
    cluster: AmqpCluster, channel: BlockingChannel
) -> None:
    name = new_name("priority")
    channel.queue_declare(name, durable=True)
    channel.confirm_delivery()
    with cluster.connected(2) as second, cluster.connected(3) as third:
        low, high = second.channel(), third.channel()
        seen: dict[str, list[bytes]] = {"low": [], "high": []}
        low.basic_consume(name, lambda ch, m, p, body: seen["low"].append(body))
        high.basic_qos(prefetch_count=5)
        high.basic_consume(
            name,
            lambda ch, m, p, body: seen["high"].append(body),
            arguments={"x-priority": 10},
        )

        def has(number: int) -> bool:
            second.process_data_events(0)
            third.process_data_events(0.02)
            return sum(map(len, seen.values())) == number

        for number in range(8):
            channel.basic_publish("", name, str(number), PERSISTENT)
            eventually(partial(has, number + 1), "each message is with a consumer")
    assert seen == {"high": [b"0", b"1", b"2", b"3", b"4"], "low": [b"5", b"6", b"7"]}


def test_an_exclusive_consumer_and_an_exclusive_queue_are_alone_in_the_cluster(
    cluster: AmqpCluster, channel: BlockingChannel
) -> None:
    name, own = new_name("alone"), new_name("own")
    channel.queue_declare(name, durable=True)
    channel.queue_declare(own, exclusive=True)
    channel.basic_consume(name, lambda *_: None, exclusive=True)
    with cluster.connected(2) as other:
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
            other.channel().basic_consume(name, lambda *_: None)
        assert refused.value.reply_code == 403
        assert "in exclusive use" in refused.value.reply_text
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
            other.channel().queue_declare(own, exclusive=True)
        assert refused.value.reply_code == 405
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
            other.channel().basic_consume(own, lambda *_: None)
        assert refused.value.reply_code == 405


def test_what_a_full_queue_refuses_becomes_a_dead_letter(channel: BlockingChannel) -> None:
    name, dead = new_name("full"), new_name("refused")
    channel.queue_declare(dead, durable=True)
    limits = {
        "x-max-length": 1,
        "x-overflow": "reject-publish-dlx",
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": dead,
    }
    channel.queue_declare(name, durable=True, arguments=limits)
    channel.confirm_delivery()
    channel.basic_publish("", name, b"first", PERSISTENT)
    with pytest.raises(pika.exceptions.NackError):
        channel.basic_publish("", name, b"second", PERSISTENT)
    _, properties, body = next(channel.consume(dead, auto_ack=True))
    assert (properties.headers["x-death"][0]["reason"], body) == ("maxlen", b"second")
    channel.cancel()
    assert channel.queue_declare(name, passive=True).method.message_count == 1


def test_dead_letters_have_their_history(channel: BlockingChannel) -> None:
    dead, name = new_name("dead"), new_name("source")
    channel.queue_declare(dead, durable=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    channel.queue_declare(name, durable=True, arguments=arguments)
    channel.basic_publish("", name, b"bad", PERSISTENT)
    method, _, _ = next(channel.consume(name))
    channel.basic_reject(method.delivery_tag, requeue=False)
    channel.cancel()
    _, properties, body = next(channel.consume(dead, auto_ack=True))
    (death,) = properties.headers["x-death"]
    assert (death["queue"], death["reason"], death["count"], body) == (name, "rejected", 1, b"bad")
    assert death["time"] is not None


def test_heartbeats_keep_an_idle_connection(cluster: AmqpCluster) -> None:
    with cluster.connected(heartbeat=2) as connection:
        channel = connection.channel()
        until = time.monotonic() + 7
        while time.monotonic() < until:
            connection.process_data_events(0.5)
        assert channel.is_open


def test_pika_on_asyncio_publishes_and_consumes(cluster: AmqpCluster) -> None:
    name = new_name("asyncio")

    async def work() -> list[bytes]:
        loop = asyncio.get_running_loop()
        seen: list[bytes] = []
        confirmed: set[int] = set()
        done = loop.create_future()
        parameters = pika.URLParameters(cluster.url(3))

        def on_open(connection: AsyncioConnection) -> None:
            connection.channel(on_open_callback=on_channel)

        def on_channel(channel: Any) -> None:
            channel.confirm_delivery(on_confirm)
            channel.queue_declare(name, durable=True, callback=lambda _: on_declared(channel))

        def on_declared(channel: Any) -> None:
            channel.basic_consume(name, on_message)
            for number in range(50):
                channel.basic_publish("", name, str(number).encode(), PERSISTENT)

        def on_confirm(frame: Any) -> None:
            tag = frame.method.delivery_tag
            confirmed.update(range(1, tag + 1) if frame.method.multiple else (tag,))
            maybe_done()

        def on_message(channel: Any, method: Any, _: Any, body: bytes) -> None:
            seen.append(body)
            channel.basic_ack(method.delivery_tag)
            maybe_done()

        def maybe_done() -> None:
            if len(seen) == len(confirmed) == 50 and not done.done():
                done.set_result(None)

        connection = AsyncioConnection(parameters, on_open_callback=on_open)
        await asyncio.wait_for(done, 60)
        connection.close()
        await asyncio.sleep(0.2)
        return seen

    assert asyncio.run(work()) == [str(number).encode() for number in range(50)]
