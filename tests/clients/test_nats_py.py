"""nats-py, unchanged: what the core protocol has, across three brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import nats.errors
import pytest
from nats.aio.msg import Msg

from tests.clients.nats_cluster import NatsCluster, new_name, subscribed


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsCluster]:
    with NatsCluster(3, tmp_path_factory.mktemp("nats")) as found:
        yield found


def test_what_is_published_comes_with_headers_and_reply(cluster: NatsCluster) -> None:
    async def run() -> None:
        name = new_name()
        async with cluster.connected(1) as client, cluster.connected(2) as other:
            subscription = await client.subscribe(f"{name}.*.c")
            await subscribed(client)
            headers = {"First": "1", "second": "two words"}
            await other.publish(f"{name}.b.c", b"hello", reply="answers", headers=headers)
            found = await subscription.next_msg(timeout=30)
            assert (found.subject, found.reply, found.data) == (f"{name}.b.c", "answers", b"hello")
            assert found.headers == headers

    asyncio.run(run())


def test_requests_are_answered_or_it_is_said_that_nobody_listens(cluster: NatsCluster) -> None:
    async def run() -> None:
        name = new_name()

        async def answer(message: Msg) -> None:
            await message.respond(message.data.upper())

        async with cluster.connected(1) as client, cluster.connected(3) as server:
            with pytest.raises(nats.errors.NoRespondersError):
                await client.request(name, b"x", timeout=30)
            await server.subscribe(name, cb=answer)
            await subscribed(server)
            assert (await client.request(name, b"hello", timeout=30)).data == b"HELLO"

    asyncio.run(run())


def test_a_queue_group_gets_each_message_once(cluster: NatsCluster) -> None:
    async def run() -> None:
        name, seen, has_all = new_name(), list[tuple[int, bytes]](), asyncio.Event()
        async with cluster.connected(1) as client, cluster.connected(2) as other:

            def taker(number: int) -> object:
                async def take(message: Msg) -> None:
                    seen.append((number, message.data))
                    if len(seen) == 40:
                        has_all.set()

                return take

            for number, each in enumerate((client, other)):
                await each.subscribe(name, queue="workers", cb=taker(number))  # type: ignore[arg-type]
                await subscribed(each)
            # A broker's own members come first.
            async with cluster.connected(3) as publisher:
                for number in range(40):
                    await publisher.publish(name, b"%d" % number)
                await publisher.flush()
                await asyncio.wait_for(has_all.wait(), 30)
        assert sorted(int(data) for _, data in seen) == list(range(40))
        assert {number for number, _ in seen} == {0, 1}

    asyncio.run(run())


def test_unsubscribe_after_some_and_drain(cluster: NatsCluster) -> None:
    async def run() -> None:
        name = new_name()
        async with cluster.connected() as client:
            subscription = await client.subscribe(name)
            await subscription.unsubscribe(limit=2)
            for number in range(3):
                await client.publish(name, b"%d" % number)
            found = [(await subscription.next_msg(timeout=30)).data for _ in range(2)]
            assert found == [b"0", b"1"]
            await client.drain()
            assert client.is_closed

    asyncio.run(run())
