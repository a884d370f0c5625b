"""aiokafka: a client in Python with asyncio, its own protocol code and its own group code."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import MessageSizeTooLargeError, TopicAlreadyExistsError, for_code
from aiokafka.structs import OffsetAndMetadata

from tests.clients.kafka_helpers import TopicMaker, unique
from tests.waiting import DEADLINE_S


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 2 * DEADLINE_S))


@asynccontextmanager
async def producer_of(bootstrap_servers: str, **options: Any) -> AsyncIterator[AIOKafkaProducer]:
    # With this client's default, acks=1, a record is not yet below the high watermark when it is
    # acknowledged, so end offsets and deletions would run ahead of it.
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers, **{"acks": "all", **options})
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


@asynccontextmanager
async def consumer_of(
    bootstrap_servers: str, *topics: str, **options: Any
) -> AsyncIterator[AIOKafkaConsumer]:
    defaults = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
    consumer = AIOKafkaConsumer(
        *topics, bootstrap_servers=bootstrap_servers, **{**defaults, **options}
    )
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


@asynccontextmanager
async def admin_of(bootstrap_servers: str) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


async def send(bootstrap_servers: str, topic: str, first: int, end: int, **options: Any) -> None:
    async with producer_of(bootstrap_servers, **options) as producer:
        partitions = len(await producer.partitions_for(topic))
        sent = [
            await producer.send(topic, b"%d" % i, partition=i % partitions)
            for i in range(first, end)
        ]
        await asyncio.gather(*sent)


async def read(consumer: AIOKafkaConsumer, count: int) -> list[int]:
    """Return the next `count` values; the caller's time limit is the limit."""
    return [int((await consumer.getone()).value) for _ in range(count)]


async def eventually(condition: Callable[[], bool | Awaitable[bool]], what: str) -> None:
    deadline = asyncio.get_running_loop().time() + DEADLINE_S
    while True:
        holds = condition()
        if holds if isinstance(holds, bool) else await holds:
            return
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError(f"not in time: {what}")
        await asyncio.sleep(0.05)


def has_partitions(consumer: AIOKafkaConsumer, count: int) -> bool:
    return len(consumer.assignment()) == count


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_each_acks_setting_delivers(
    bootstrap_servers: str, make_topic: TopicMaker, acks: int | str
) -> None:
    topic = make_topic("aio-acks", partitions=1)

    async def work() -> None:
        await send(bootstrap_servers, topic, 0, 200, acks=acks)
        async with consumer_of(bootstrap_servers, topic) as consumer:
            assert await read(consumer, 200) == list(range(200))

    run(work())


def test_an_idempotent_producer_with_headers_and_nulls(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic = make_topic("aio-idempotent", partitions=1)
    headers = [("a", b"1"), ("a", b"2"), ("b", b"")]

    async def work() -> None:
        async with producer_of(bootstrap_servers, enable_idempotence=True) as producer:
            waiting = [
                await producer.send(topic, b"%d" % i, key=b"k", headers=headers, timestamp_ms=i + 1)
                for i in range(500)
            ]
            waiting.append(await producer.send(topic, key=b"gone"))
            done = await asyncio.gather(*waiting)
            assert [each.offset for each in done] == list(range(501))
        async with consumer_of(bootstrap_servers, topic) as consumer:
            messages = [await consumer.getone() for _ in range(501)]
        assert [int(each.value) for each in messages[:-1]] == list(range(500))
        assert [each.timestamp for each in messages[:-1]] == list(range(1, 501))
        assert all(list(each.headers) == headers for each in messages[:-1])
        last = messages[-1]
        assert (last.key, last.value, list(last.headers)) == (b"gone", None, [])

    run(work())


def test_a_message_over_the_limit_is_refused(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic = make_topic("aio-large", partitions=1)

    async def work() -> None:
        options = {"max_request_size": 5_000_000}
        async with producer_of(bootstrap_servers, **options) as producer:
            await producer.send_and_wait(topic, b"x" * 1_048_000)
            with pytest.raises(MessageSizeTooLargeError):
                await producer.send_and_wait(topic, b"x" * 1_050_000)
        async with consumer_of(bootstrap_servers, topic, max_partition_fetch_bytes=100) as consumer:
            assert len((await consumer.getone()).value) == 1_048_000

    run(work())


def test_members_share_the_partitions_as_they_come_and_go(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic, group = make_topic("aio-group", partitions=4), unique("group")
    options = {"group_id": group, "heartbeat_interval_ms": 300}

    async def work() -> None:
        async with consumer_of(bootstrap_servers, topic, **options) as first:
            await eventually(lambda: len(first.assignment()) == 4, "all for the first")
            async with consumer_of(bootstrap_servers, topic, **options) as second:
                await eventually(
                    lambda: len(first.assignment()) == len(second.assignment()) == 2, "halves"
                )
                assert not first.assignment() & second.assignment()
                await send(bootstrap_servers, topic, 0, 40)
                both = await read(first, 20), await read(second, 20)
                assert sorted(both[0] + both[1]) == list(range(40))
                await first.commit()
                await second.commit()
            await eventually(lambda: len(first.assignment()) == 4, "all for the first again")
            await send(bootstrap_servers, topic, 40, 60)
            assert sorted(await read(first, 20)) == list(range(40, 60))

    run(work())


def test_a_static_member_returns_to_its_partitions(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic, group = make_topic("aio-static", partitions=2), unique("group")
    options = {"group_id": group, "group_instance_id": "the-one"}

    async def work() -> None:
        for first in (0, 20):
            async with consumer_of(bootstrap_servers, topic, **options) as consumer:
                await eventually(partial(has_partitions, consumer, 2), "all")
                await send(bootstrap_servers, topic, first, first + 20)
                assert sorted(await read(consumer, 20)) == list(range(first, first + 20))
                await consumer.commit()

    run(work())


def test_positions_seeks_and_pauses(bootstrap_servers: str, make_topic: TopicMaker) -> None:
    topic = make_topic("aio-seek", partitions=1)
    partition = TopicPartition(topic, 0)

    async def work() -> None:
        await send(bootstrap_servers, topic, 0, 50, linger_ms=20)
        async with consumer_of(bootstrap_servers) as consumer:
            consumer.assign([partition])
            assert await consumer.beginning_offsets([partition]) == {partition: 0}
            assert await consumer.end_offsets([partition]) == {partition: 50}
            consumer.seek(partition, 33)
            assert await read(consumer, 3) == [33, 34, 35]
            await consumer.seek_to_beginning(partition)
            assert await read(consumer, 2) == [0, 1]
            await consumer.seek_to_end(partition)
            assert await consumer.position(partition) == 50
            consumer.pause(partition)
            await send(bootstrap_servers, topic, 50, 53)
            assert await consumer.getmany(timeout_ms=300) == {}
            consumer.resume(partition)
            assert await read(consumer, 3) == [50, 51, 52]
            assert consumer.highwater(partition) == 53

    run(work())


def test_offsets_for_times(bootstrap_servers: str, make_topic: TopicMaker) -> None:
    topic = make_topic("aio-times", partitions=1)
    partition = TopicPartition(topic, 0)
    base_ms = 1_700_000_000_000

    async def work() -> None:
        async with producer_of(bootstrap_servers) as producer:
            for i in range(10):
                await producer.send_and_wait(topic, b"%d" % i, timestamp_ms=base_ms + 100 * i)
        async with consumer_of(bootstrap_servers) as consumer:
            found = await consumer.offsets_for_times({partition: base_ms + 450})
            assert (found[partition].offset, found[partition].timestamp) == (5, base_ms + 500)
            assert await consumer.offsets_for_times({partition: base_ms + 901}) == {partition: None}

    run(work())


def test_a_pattern_takes_topics_up_as_they_come(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    prefix = unique("aio-pattern")
    first = make_topic(prefix, partitions=1)

    async def work() -> None:
        options = {"group_id": unique("group"), "metadata_max_age_ms": 500}
        async with consumer_of(bootstrap_servers, **options) as consumer:
            consumer.subscribe(pattern=f"^{prefix}.*")
            await send(bootstrap_servers, first, 0, 3)
            assert await read(consumer, 3) == [0, 1, 2]
            await consumer.commit()
            second = await asyncio.to_thread(make_topic, prefix, partitions=1)
            await send(bootstrap_servers, second, 3, 6)
            assert await read(consumer, 3) == [3, 4, 5]

    run(work())


def test_commits_and_their_metadata(bootstrap_servers: str, make_topic: TopicMaker) -> None:
    topic, group = make_topic("aio-commit", partitions=2), unique("group")
    partition = TopicPartition(topic, 0)

    async def work() -> None:
        await send(bootstrap_servers, topic, 0, 20)
        async with consumer_of(bootstrap_servers, group_id=group) as consumer:
            consumer.assign([partition])
            await consumer.commit({partition: OffsetAndMetadata(7, "seven")})
            assert await consumer.committed(partition) == 7
            assert await consumer.committed(TopicPartition(topic, 1)) is None
            await consumer.seek_to_committed()
            assert await read(consumer, 1) == [14]
        async with admin_of(bootstrap_servers) as admin:
            offsets = await admin.list_consumer_group_offsets(group)
            assert offsets == {partition: OffsetAndMetadata(7, "seven")}

    run(work())


def test_administration(bootstrap_servers: str) -> None:
    topic = unique("aio-admin")

    async def work() -> None:
        async with admin_of(bootstrap_servers) as admin:
            cluster = await admin.describe_cluster()
            assert len(cluster["brokers"]) == 3
            options = {"cleanup.policy": "compact"}
            new = NewTopic(topic, 2, 3, topic_configs=options)
            await admin.create_topics([new])
            again = await admin.create_topics([new])
            assert for_code(again.topic_errors[0][1]) is TopicAlreadyExistsError

            async def is_known(count: int) -> bool:
                (described,) = await admin.describe_topics([topic])
                listed = await admin.list_topics()
                return topic in listed and len(described["partitions"]) == count

            # Each broker learns of a change in its own time.
            await eventually(lambda: is_known(2), "two partitions")
            resource = ConfigResource(ConfigResourceType.TOPIC, topic)
            (answer,) = await admin.describe_configs([resource])
            configs = {each[0]: each[1] for each in answer.resources[0][4]}
            assert configs["cleanup.policy"] == "compact"
            await admin.create_partitions({topic: NewPartitions(4)})
            await eventually(lambda: is_known(4), "four partitions")
            await admin.delete_topics([topic])

    run(work())


def test_records_are_deleted(bootstrap_servers: str, make_topic: TopicMaker) -> None:
    topic = make_topic("aio-delete", partitions=1)
    partition = TopicPartition(topic, 0)

    async def work() -> None:
        await send(bootstrap_servers, topic, 0, 10)
        async with admin_of(bootstrap_servers) as admin:
            marks = {partition: RecordsToDelete(before_offset=6)}
            assert await admin.delete_records(marks) == {partition: 6}
        async with consumer_of(bootstrap_servers, topic) as consumer:
            assert await read(consumer, 4) == [6, 7, 8, 9]

    run(work())


def test_groups_are_found_and_described(bootstrap_servers: str, make_topic: TopicMaker) -> None:
    topic, group = make_topic("aio-described", partitions=1), unique("group")

    async def work() -> None:
        async with (
            consumer_of(bootstrap_servers, topic, group_id=group) as consumer,
            admin_of(bootstrap_servers) as admin,
        ):
            await eventually(lambda: len(consumer.assignment()) == 1, "the partition")
            assert (group, "consumer") in [each[:2] for each in await admin.list_consumer_groups()]
            coordinator = await admin.find_coordinator(group)
            assert coordinator in [
                n["node_id"] for n in (await admin.describe_cluster())["brokers"]
            ]
            (answer,) = await admin.describe_consumer_groups([group])
            described = answer.groups[0]
            assert described[1:4] == (group, "Stable", "consumer")
            assert len(described[5]) == 1

    run(work())
