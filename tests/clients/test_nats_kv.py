"""nats-py's pushed and ordered consumers, its key-value and object store, at three brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import nats.js.errors
import pytest
from nats.aio.msg import Msg
from nats.js.api import KeyValueConfig

from tests.clients.nats_cluster import NatsCluster, new_name


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsCluster]:
    with NatsCluster(3, tmp_path_factory.mktemp("kv")) as found:
        yield found


def test_a_durable_consumer_is_pushed_to_whoever_subscribes(cluster: NatsCluster) -> None:
    async def run() -> None:
        name = new_name("PUSHED")
        async with cluster.connected(1) as client, cluster.connected(2) as other:
            stream, there = client.jetstream(timeout=30), other.jetstream(timeout=30)
            await stream.add_stream(name=name)
            subscription = await stream.subscribe(name, durable="pushed", manual_ack=True)
            for number in range(3):
                await there.publish(name, b"%d" % number)
            for number in range(3):
                message = await subscription.next_msg(timeout=30)
                assert message.data == b"%d" % number
                await message.ack_sync(timeout=30)
            known = await there.consumer_info(name, "pushed")
            assert (known.num_ack_pending, known.num_pending) == (0, 0)

    asyncio.run(run())


def test_a_deliver_group_shares_what_is_pushed(cluster: NatsCluster) -> None:
    async def run() -> None:
        name, seen, has_all = new_name("GROUP"), list[tuple[int, bytes]](), asyncio.Event()
        async with cluster.connected(1) as client, cluster.connected(2) as other:

            def taker(number: int) -> Callable[[Msg], Awaitable[None]]:
                async def take(message: Msg) -> None:
                    seen.append((number, message.data))
                    if len(seen) == 30:
                        has_all.set()

                return take

            contexts = [each.jetstream(timeout=30) for each in (client, other)]
            await contexts[0].add_stream(name=name)
            for number, each in enumerate(contexts):
                await each.subscribe(name, queue="workers", cb=taker(number))
            for number in range(30):
                await contexts[0].publish(name, b"%d" % number)
            await asyncio.wait_for(has_all.wait(), 60)
        assert sorted(int(data) for _, data in seen) == list(range(30))

    asyncio.run(run())


def test_an_ordered_consumer_reads_all_in_order(cluster: NatsCluster) -> None:
    async def run() -> None:
        name = new_name("ORDERED")
        async with cluster.connected() as client:
            stream = client.jetstream(timeout=30)
            await stream.add_stream(name=name)
            for number in range(50):
                await stream.publish(name, b"%d" % number)
            subscription = await stream.subscribe(name, ordered_consumer=True)
            found = [await subscription.next_msg(timeout=30) for _ in range(50)]
            assert [int(each.data) for each in found] == list(range(50))
            assert found[-1].metadata.num_pending == 0
            await stream.publish(name, b"later")
            assert (await subscription.next_msg(timeout=30)).data == b"later"

    asyncio.run(run())


def test_keys_and_values(cluster: NatsCluster) -> None:
    async def run() -> None:
        bucket = new_name("bucket")
        async with cluster.connected(1) as client, cluster.connected(2) as other:
            stream, there = client.jetstream(timeout=30), other.jetstream(timeout=30)
            values = await stream.create_key_value(KeyValueConfig(bucket=bucket, history=3))
            same = await there.key_value(bucket)
            first = await values.put("a", b"1")
            assert (await same.get("a")).value == b"1"
            second = await same.update("a", b"2", last=first)
            with pytest.raises(nats.js.errors.KeyWrongLastSequenceError):
                await values.update("a", b"3", last=first)
            await values.create("b", b"x")
            with pytest.raises(nats.js.errors.KeyWrongLastSequenceError):
                await same.create("b", b"y")
            assert sorted(await same.keys()) == ["a", "b"]
            assert [each.value for each in await values.history("a")] == [b"1", b"2"]
            assert await same.delete("a", last=second)
            with pytest.raises(nats.js.errors.KeyNotFoundError):
                await values.get("a")
            await values.create("a", b"again")
            assert await values.purge("b")
            assert (await same.status()).values == 4
            await values.put("a", b"5")
            # Its types are not told.
            updates: Any = (await same.watch("a")).updates
            entry = await updates(timeout=30)
            assert entry is not None
            assert entry.value == b"5"
            assert await updates(timeout=30) is None
            await values.put("a", b"6")
            changed = await updates(timeout=30)
            assert changed is not None
            assert (changed.key, changed.value) == ("a", b"6")

    asyncio.run(run())


def test_objects(cluster: NatsCluster) -> None:
    async def run() -> None:
        bucket = new_name("objects")
        async with cluster.connected(1) as client, cluster.connected(3) as other:
            store = await client.jetstream(timeout=30).create_object_store(bucket)
            there = await other.jetstream(timeout=30).object_store(bucket)
            data = bytes(range(256)) * 2_000
            info = await store.put("large", data)
            assert info.chunks == 4
            found = await there.get("large")
            assert found.data == data
            await store.put("small", b"s")
            assert sorted(each.name for each in await there.list()) == ["large", "small"]
            await there.delete("large")
            with pytest.raises(nats.js.errors.ObjectNotFoundError):
                await store.get("large")

    asyncio.run(run())
