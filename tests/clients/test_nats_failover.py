"""A broker is killed while JetStream works: what was acknowledged is not lost, nor comes again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import nats
import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.js.client import JetStreamContext

from tests.clients.nats_cluster import NatsCluster

MESSAGES = 100
#: So many are done when the broker is killed.
KILL_AT = 40
#: What is unknown is tried again for as long.
PATIENCE_S = 150.0
TROUBLES = (nats.errors.Error, asyncio.TimeoutError, ConnectionError)


async def connect(cluster: NatsCluster) -> Client:
    """Connect with broker 2; when that is gone, with another one."""
    urls = [cluster.url(2), cluster.url(1), cluster.url(3)]
    return await nats.connect(
        servers=urls, dont_randomize=True, reconnect_time_wait=0.2, max_reconnect_attempts=-1
    )


async def publish_all(stream: JetStreamContext, has_begun: asyncio.Event) -> None:
    """Publish each message until it is known to be stored; its id keeps it from being twice."""
    for number in range(MESSAGES):
        while True:
            try:
                message_id = {"Nats-Msg-Id": str(number)}
                await stream.publish("WORK", b"%d" % number, headers=message_id, timeout=3)
                break
            except TROUBLES:
                await asyncio.sleep(0.1)
        if number == KILL_AT:
            has_begun.set()


async def work(stream: JetStreamContext, done: dict[int, int]) -> set[int]:
    """Take and acknowledge all; count how often each came after that it was acknowledged.

    Return those of whose acknowledgement nobody knows: it may be committed and its answer lost with
    the broker. Then the message does not come again.
    """
    pull = await stream.pull_subscribe("WORK", "worker")
    doubted: set[int] = set()
    while len(done.keys() | doubted) < MESSAGES or not await has_nothing_left(stream):
        try:
            messages = await pull.fetch(5, timeout=2)
        except TROUBLES:
            await asyncio.sleep(0.1)
            continue
        for message in messages:
            number = int(message.data)
            if number in done:
                done[number] += 1
            try:
                await message.ack_sync(timeout=3)
                done.setdefault(number, 0)
            except TROUBLES:
                doubted.add(number)
    return doubted - done.keys()


async def has_nothing_left(stream: JetStreamContext) -> bool:
    """Tell whether the consumer has got everything, and all of it is acknowledged."""
    try:
        known = await stream.consumer_info("WORK", "worker")
    except (*TROUBLES, nats.js.errors.Error):
        return False
    return (known.num_pending, known.num_ack_pending, known.num_redelivered) == (0, 0, 0)


def test_a_broker_is_killed_while_a_consumer_works(tmp_path: Path) -> None:
    async def run(cluster: NatsCluster) -> tuple[dict[int, int], set[int]]:
        done: dict[int, int] = {}
        publisher, worker = await connect(cluster), await connect(cluster)
        stream = publisher.jetstream(timeout=30)
        await stream.add_stream(name="WORK")
        # What was given out by the broker that dies comes again when its lock ends.
        config = nats.js.api.ConsumerConfig(durable_name="worker", ack_wait=2)
        await stream.add_consumer("WORK", config)
        has_begun = asyncio.Event()
        publishing = asyncio.create_task(publish_all(stream, has_begun))
        working = asyncio.create_task(work(worker.jetstream(timeout=5), done))
        await has_begun.wait()
        cluster.brokers[1].kill()
        _, doubted = await asyncio.wait_for(asyncio.gather(publishing, working), PATIENCE_S)
        state = (await stream.stream_info("WORK")).state
        assert state.messages == MESSAGES
        await publisher.close()
        await worker.close()
        return done, doubted

    with NatsCluster(3, tmp_path) as cluster:
        done, doubted = asyncio.run(run(cluster))
    assert done.keys() | doubted == set(range(MESSAGES))
    assert len(done) > len(doubted), "hardly an acknowledgement was confirmed"
    assert not any(done.values()), "a message came again that was acknowledged"
