"""nats-py's JetStream, unchanged, at three brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats.errors
import nats.js.errors
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DeliverPolicy,
    DiscardPolicy,
    StreamConfig,
    StreamInfo,
    StreamSource,
)
from nats.js.client import JetStreamContext

from tests.clients.nats_cluster import NatsCluster, new_name
from tests.waiting import eventually


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsCluster]:
    with NatsCluster(3, tmp_path_factory.mktemp("jetstream")) as found:
        yield found


def test_what_is_published_is_stored_and_pulled_from_any_broker(cluster: NatsCluster) -> None:
    async def run() -> None:
        name = new_name("STREAM")
        async with cluster.connected(1) as client, cluster.connected(2) as other:
            stream, there = client.jetstream(timeout=30), other.jetstream(timeout=30)
            info = await stream.add_stream(name=name, subjects=[f"{name}.*"])
            assert info.config.subjects == [f"{name}.*"]
            for number in range(5):
                ack = await stream.publish(f"{name}.new", b"%d" % number, headers={"a": "b"})
                assert (ack.stream, ack.seq) == (name, number + 1)
            state = (await there.stream_info(name)).state
            assert (state.messages, state.first_seq, state.last_seq) == (5, 1, 5)
            pull = await there.pull_subscribe(f"{name}.*", "worker")
            found = await pull.fetch(3, timeout=30)
            assert [each.data for each in found] == [b"0", b"1", b"2"]
            assert (found[0].subject, found[0].headers) == (f"{name}.new", {"a": "b"})
            for each in found:
                await each.ack_sync(timeout=30)
            found = await pull.fetch(10, timeout=3)
            assert [each.metadata.sequence.stream for each in found] == [4, 5]
            await found[0].nak()
            await found[1].ack_sync(timeout=30)
            (again,) = await pull.fetch(10, timeout=3)
            assert (again.data, again.metadata.num_delivered) == (b"3", 2)
            await again.ack_sync(timeout=30)
            with pytest.raises(nats.errors.TimeoutError):
                await pull.fetch(1, timeout=0.5)
            known = await there.consumer_info(name, "worker")
            assert (known.num_pending, known.num_ack_pending) == (0, 0)

    asyncio.run(run())


def test_an_id_is_stored_once_whichever_broker_gets_it(cluster: NatsCluster) -> None:
    async def run() -> None:
        name = new_name("IDS")
        async with cluster.connected(1) as client, cluster.connected(2) as other:
            contexts = [each.jetstream(timeout=30) for each in (client, other)]
            await contexts[0].add_stream(name=name)
            acks = await asyncio.gather(
                *(
                    context.publish(name, b"x", headers={"Nats-Msg-Id": str(number)})
                    for number in range(20)
                    for context in contexts
                )
            )
            assert sum(bool(each.duplicate) for each in acks) == 20
            assert (await contexts[0].stream_info(name)).state.messages == 20

    asyncio.run(run())


def test_expectations_of_publishers(cluster: NatsCluster) -> None:
    async def run() -> None:
        name = new_name("EXPECTED")
        async with cluster.connected() as client:
            stream = client.jetstream(timeout=30)
            await stream.add_stream(name=name, subjects=[f"{name}.*"])
            await stream.publish(f"{name}.a", b"1")
            last = {"Nats-Expected-Last-Sequence": "1"}
            await stream.publish(f"{name}.b", b"2", headers=last)
            of_subject = {"Nats-Expected-Last-Subject-Sequence": "1"}
            await stream.publish(f"{name}.a", b"3", headers=of_subject)
            for headers, number in (
                (last, 10071),
                (of_subject, 10071),
                ({"Nats-Expected-Stream": "OTHER"}, 10060),
                ({"Nats-Expected-Last-Msg-Id": "none"}, 10070),
                ({"Nats-Rollup": "sub"}, 10111),
            ):
                with pytest.raises(nats.js.errors.APIError) as caught:
                    await stream.publish(f"{name}.a", b"4", headers=headers)
                assert caught.value.err_code == number

    asyncio.run(run())


def test_messages_are_got_deleted_and_purged(cluster: NatsCluster) -> None:
    async def run() -> None:
        name = new_name("PURGED")
        async with cluster.connected(1) as client, cluster.connected(3) as other:
            stream, there = client.jetstream(timeout=30), other.jetstream(timeout=30)
            await stream.add_stream(name=name, subjects=[f"{name}.*"], allow_direct=True)
            for number in range(6):
                await stream.publish(f"{name}.{number % 2}", b"%d" % number)
            assert (await there.get_msg(name, 2)).data == b"1"
            assert (await there.get_last_msg(name, f"{name}.0")).data == b"4"
            assert (await there.get_msg(name, 3, direct=True)).data == b"2"
            assert await stream.delete_msg(name, 2)
            with pytest.raises(nats.js.errors.NotFoundError):
                await there.get_msg(name, 2)
            assert await stream.purge_stream(name, subject=f"{name}.1")
            assert (await there.stream_info(name)).state.messages == 3
            pull = await there.pull_subscribe(f"{name}.*", "worker")
            found = await pull.fetch(10, timeout=3)
            assert [each.data for each in found] == [b"0", b"2", b"4"]
            assert await stream.purge_stream(name)
            assert (await there.stream_info(name)).state.messages == 0

    asyncio.run(run())


def test_bounds_of_a_stream(cluster: NatsCluster) -> None:
    async def run() -> None:
        async with cluster.connected() as client:
            stream = client.jetstream(timeout=30)
            old, new, each_one = new_name("OLD"), new_name("NEW"), new_name("EACH")
            await stream.add_stream(name=old, max_msgs=3)
            await stream.add_stream(name=new, max_msgs=3, discard=DiscardPolicy.NEW)
            await stream.add_stream(
                StreamConfig(name=each_one, subjects=[f"{each_one}.*"], max_msgs_per_subject=1)
            )
            for number in range(5):
                await stream.publish(old, b"%d" % number)
                await stream.publish(f"{each_one}.{number % 2}", b"%d" % number)
            for _ in range(3):
                await stream.publish(new, b"x")
            with pytest.raises(nats.js.errors.APIError) as caught:
                await stream.publish(new, b"y")
            assert caught.value.err_code == 10077
            state = (await stream.stream_info(old)).state
            assert (state.messages, state.first_seq, state.last_seq) == (3, 3, 5)
            assert (await stream.stream_info(each_one)).state.messages == 2

    asyncio.run(run())


def test_consumers_begin_where_they_are_asked_to(cluster: NatsCluster) -> None:
    async def run() -> None:
        name = new_name("START")
        async with cluster.connected() as client:
            stream = client.jetstream(timeout=30)
            await stream.add_stream(name=name, subjects=[f"{name}.*"])
            for number in range(6):
                await stream.publish(f"{name}.{number % 2}", b"%d" % number)

            async def first(**config: Any) -> bytes:
                pull = await stream.pull_subscribe(
                    config.pop("subject", f"{name}.*"),
                    new_name("consumer"),
                    stream=name,
                    config=ConsumerConfig(ack_policy=AckPolicy.EXPLICIT, **config),
                )
                (found,) = await pull.fetch(1, timeout=30)
                return bytes(found.data)

            assert await first() == b"0"
            assert await first(subject=f"{name}.1") == b"1"
            assert await first(deliver_policy=DeliverPolicy.LAST) == b"5"
            by_sequence = DeliverPolicy.BY_START_SEQUENCE
            assert await first(deliver_policy=by_sequence, opt_start_seq=4) == b"3"

    asyncio.run(run())


def test_mirrors_and_sources(cluster: NatsCluster) -> None:
    async def copied(stream: JetStreamContext, name: str, messages: int) -> StreamInfo:
        info = await stream.stream_info(name)
        while info.state.messages < messages:
            await asyncio.sleep(0.05)
            info = await stream.stream_info(name)
        return info

    async def run() -> None:
        name = new_name("ORIGIN")
        async with cluster.connected(1) as client, cluster.connected(2) as other:
            stream, there = client.jetstream(timeout=30), other.jetstream(timeout=30)
            await stream.add_stream(name=name, subjects=[f"{name}.*"])
            for number in range(4):
                await stream.publish(f"{name}.{number % 2}", b"%d" % number)
            mirror = StreamSource(name=name, opt_start_seq=2)
            await there.add_stream(name=f"{name}-M", mirror=mirror)
            source = StreamSource(name=name, filter_subject=f"{name}.1")
            await there.add_stream(name=f"{name}-S", sources=[source])
            info = await copied(stream, f"{name}-M", 3)
            assert info.config.mirror == mirror
            assert (info.state.first_seq, info.state.last_seq) == (2, 4)
            assert (await stream.get_msg(f"{name}-M", 3)).data == b"2"
            info = await copied(stream, f"{name}-S", 2)
            assert [each.name for each in info.sources or ()] == [name]
            message = await stream.get_msg(f"{name}-S", 2)
            assert (message.subject, message.data) == (f"{name}.1", b"3")
            assert (message.headers or {})["Nats-Stream-Source"].startswith(f"{name} 4 ")

    asyncio.run(run())


def test_a_consumer_is_paused_and_goes_on(cluster: NatsCluster) -> None:
    async def run() -> None:
        name = new_name("PAUSED")
        async with cluster.connected(1) as client, cluster.connected(2) as other:
            stream, there = client.jetstream(timeout=30), other.jetstream(timeout=30)
            await stream.add_stream(name=name)
            await stream.publish(name, b"x")
            pull = await stream.pull_subscribe(name, "worker")
            paused = await there.pause_consumer(name, "worker", "2100-01-01T00:00:00Z")
            assert paused.paused
            assert (await stream.consumer_info(name, "worker")).paused
            with pytest.raises(nats.errors.TimeoutError):
                await pull.fetch(1, timeout=0.5)
            assert not (await there.resume_consumer(name, "worker")).paused
            assert [each.data for each in await pull.fetch(1, timeout=30)] == [b"x"]
            with pytest.raises(nats.js.errors.NotFoundError) as missing:
                await stream.pause_consumer(name, "none", "2100-01-01T00:00:00Z")
            assert missing.value.err_code == 10014

    asyncio.run(run())


def test_mistakes_have_jetstreams_numbers(cluster: NatsCluster) -> None:
    async def run() -> None:
        name = new_name("WRONG")
        async with cluster.connected() as client:
            stream = client.jetstream(timeout=30)
            with pytest.raises(nats.js.errors.NotFoundError) as missing:
                await stream.stream_info(name)
            assert missing.value.err_code == 10059
            await stream.add_stream(name=name, subjects=[f"{name}.*"])
            await stream.add_stream(name=name, subjects=[f"{name}.*"])
            with pytest.raises(nats.js.errors.BadRequestError) as differs:
                await stream.add_stream(name=name, subjects=[f"{name}.>"])
            assert differs.value.err_code == 10058
            with pytest.raises(nats.js.errors.BadRequestError) as overlaps:
                await stream.add_stream(name=f"{name}2", subjects=[f"{name}.a"])
            assert overlaps.value.err_code == 10065
            with pytest.raises(nats.js.errors.NotFoundError) as nobody:
                await stream.consumer_info(name, "none")
            assert nobody.value.err_code == 10014
            assert await stream.delete_stream(name)
            with pytest.raises(nats.js.errors.NotFoundError):
                await stream.delete_stream(name)

    asyncio.run(run())


def test_a_consumer_of_few_subjects_finds_them_by_indexes(cluster: NatsCluster) -> None:
    """Segments have 1 MiB, batches 100 kB; the worker process makes the indexes."""
    name = new_name("STREAM")
    options = {"segment.bytes": str(1024 * 1024)}
    topic = NewTopic(name, num_partitions=1, replication_factor=3, config=options)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([topic])[name].result(60)
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "batch.num.messages": 10, "linger.ms": 50}
    )
    count = 400
    for number in range(count):
        producer.produce(name, key=f"{name}.{number // 10}.{number % 10}", value=bytes(10_000))
    assert producer.flush(60) == 0

    async def read(subject: str, expected: list[int]) -> None:
        async with cluster.connected(1) as client:
            stream = client.jetstream(timeout=30)
            pull = await stream.pull_subscribe(subject, new_name("reader"), stream=name)
            found: list[int] = []
            while len(found) < len(expected):
                for each in await pull.fetch(len(expected) - len(found), timeout=30):
                    found.append(each.metadata.sequence.stream - 1)
                    await each.ack()
            assert found == expected

    def indexes() -> list[Path]:
        return list(cluster.directory.glob(f"**/{name}-0/*.keys"))

    async def run() -> None:
        async with cluster.connected(1) as client:
            stream = client.jetstream(timeout=30)
            await stream.add_stream(name=name, subjects=[f"{name}.>"], num_replicas=3)
        await read(f"{name}.25.*", list(range(250, 260)))
        await asyncio.to_thread(eventually, lambda: len(indexes()) >= 3, "indexes of segments")
        await read(f"{name}.31.*", list(range(310, 320)))
        await read(f"{name}.*.5", list(range(5, count, 10)))

    asyncio.run(run())
