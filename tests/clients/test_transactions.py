"""Transactions of real clients: what is committed is seen as a whole, what is aborted never."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as PyTopicPartition

from kafkaesque.protocols.kafka.error_codes import ErrorCode
from tests.clients.kafka_helpers import Sent, TopicMaker, produce, read, read_for, unique
from tests.clients.raw_transactions import END_2, MOVED, PRODUCE_2, Raw, RawProducer, settled
from tests.clients.transactional_clients import (
    CLIENTS,
    Contents,
    Librdkafka,
    TransactionalClient,
    await_committed,
    read_all,
)
from tests.waiting import DEADLINE_S, eventually

LARGE = 10_000
IDS = 100
PARTITIONS = 3
#: For who has to see that nothing comes.
AT_REST_S = 1.0
#: Brokers of Kafka look only every ten seconds whose time is up.
TIME_UP_S = 90.0


@pytest.fixture(params=CLIENTS, ids=lambda each: each.__name__)
def client(request: pytest.FixtureRequest) -> type[TransactionalClient]:
    chosen: type[TransactionalClient] = request.param
    return chosen


@pytest.fixture
def makers(bootstrap_servers: str) -> Iterator[Any]:
    """Makes clients that are closed in the end: `makers(kind, transactional_id, **options)`."""
    made: list[TransactionalClient] = []

    def make(
        kind: type[TransactionalClient], transactional_id: str | None = None, **options: Any
    ) -> TransactionalClient:
        producer = kind(bootstrap_servers, transactional_id or unique("transactions"), **options)
        made.append(producer)
        return producer

    yield make
    for each in made:
        each.close()


def send_all(producer: TransactionalClient, topic: str, *values: bytes) -> None:
    """Send each value to every partition, and wait until all are there."""
    for value in values:
        for partition in range(PARTITIONS):
            producer.send(topic, partition, value)
    producer.flush()


def everywhere(*values: bytes) -> Contents:
    return {partition: list(values) for partition in range(PARTITIONS)}


# -- commit and abort


def test_commits_are_seen_and_aborts_are_not(
    bootstrap_servers: str, make_topic: TopicMaker, makers: Any, client: type[TransactionalClient]
) -> None:
    topics = [make_topic("one"), make_topic("two")]
    producer = makers(client)
    for name, end in ((b"1", producer.commit), (b"2", producer.abort), (b"3", producer.commit)):
        producer.begin()
        for topic in topics:
            send_all(producer, topic, name + b"a", name + b"b")
        end()
    for topic in topics:
        await_committed(bootstrap_servers, topic, everywhere(b"1a", b"1b", b"3a", b"3b"))
        uncommitted = read_all(bootstrap_servers, topic, is_committed=False)
        assert uncommitted == everywhere(b"1a", b"1b", b"2a", b"2b", b"3a", b"3b")


def test_transactions_of_several_and_plain_records_lie_among_each_other(
    bootstrap_servers: str, make_topic: TopicMaker, makers: Any
) -> None:
    topic = make_topic("mixed", partitions=PARTITIONS)
    committed, aborted = makers(Librdkafka), makers(Librdkafka)
    committed.begin()
    aborted.begin()
    for number in range(5):
        send_all(committed, topic, b"c%d" % number)
        send_all(aborted, topic, b"a%d" % number)
        plain = [Sent(value=b"p%d" % number, partition=each) for each in range(PARTITIONS)]
        produce(bootstrap_servers, topic, plain)
    aborted.abort()
    committed.commit()
    wanted = [b"%s%d" % (kind, number) for number in range(5) for kind in (b"c", b"p")]
    await_committed(bootstrap_servers, topic, everywhere(*wanted))


def read_with_kafka_python(bootstrap_servers: str, topic: str, count: int) -> list[bytes]:
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap_servers.split(","),
        isolation_level="read_committed",
        enable_auto_commit=False,
    )
    with closing(consumer):
        consumer.assign([PyTopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        values: list[bytes] = []
        deadline = time.monotonic() + DEADLINE_S
        while len(values) < count and time.monotonic() < deadline:
            for records in consumer.poll(timeout_ms=100).values():
                values += [record.value for record in records]
        return values


def read_with_aiokafka(bootstrap_servers: str, topic: str, count: int) -> list[bytes]:
    async def work() -> list[bytes]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap_servers,
            isolation_level="read_committed",
            enable_auto_commit=False,
        )
        await consumer.start()
        try:
            consumer.assign([AioTopicPartition(topic, 0)])
            await consumer.seek_to_beginning()
            return [(await consumer.getone()).value for _ in range(count)]
        finally:
            await consumer.stop()

    return asyncio.run(asyncio.wait_for(work(), DEADLINE_S))


@pytest.mark.parametrize("read_with", [read_with_kafka_python, read_with_aiokafka])
def test_other_readers_skip_what_is_aborted(
    bootstrap_servers: str, make_topic: TopicMaker, makers: Any, read_with: Any
) -> None:
    topic = make_topic("skipped", partitions=1)
    producer = makers(Librdkafka)
    wanted = []
    for number in range(30):
        producer.begin()
        producer.send(topic, 0, b"%d" % number)
        producer.flush()
        if number % 3:
            producer.abort()
        else:
            producer.commit()
            wanted.append(b"%d" % number)
    produce(bootstrap_servers, topic, [b"end"])
    wanted.append(b"end")
    assert read_with(bootstrap_servers, topic, len(wanted)) == wanted


def test_leaders_add_partitions_all_at_once(bootstrap_servers: str, make_topic: TopicMaker) -> None:
    """Producers that leave it to them are not told to come again: they would wait for long."""
    topic = make_topic("added")
    producers = []
    with ExitStack() as stack:
        transactional_id = unique("added")
        for _ in range(PARTITIONS):
            raw = stack.enter_context(Raw(bootstrap_servers))
            producers.append(RawProducer(raw, transactional_id))
        first = producers[0]
        assert settled(first.init) is ErrorCode.NONE
        for number in range(5):
            value = b"%d" % number

            def send(partition: int, value: bytes = value) -> ErrorCode:
                producer = producers[partition]
                if producer.epoch != first.epoch:
                    producer.producer_id, producer.epoch = first.producer_id, first.epoch
                    producer.sequences.clear()
                return settled(
                    lambda: producer.send(topic, partition, value, version=PRODUCE_2), MOVED
                )

            with ThreadPoolExecutor(PARTITIONS) as pool:
                assert set(pool.map(send, range(PARTITIONS))) == {ErrorCode.NONE}
            assert settled(lambda: first.end(is_commit=True, version=END_2)) is ErrorCode.NONE
    wanted = everywhere(*(b"%d" % number for number in range(5)))
    await_committed(bootstrap_servers, topic, wanted)


# -- the last stable offset


def test_the_next_transaction_begins_at_once(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    """Nobody is told to come again because the markers of the one before are being written."""
    topic = make_topic(partitions=PARTITIONS)
    with Raw(bootstrap_servers) as raw:
        producer = RawProducer(raw)
        assert settled(producer.init) is ErrorCode.NONE
        for _ in range(20):
            everything = {topic: range(PARTITIONS)}
            assert settled(lambda: max(producer.add(everything)), MOVED) is ErrorCode.NONE  # noqa: B023
            assert settled(lambda: producer.add_offsets("readers"), MOVED) is ErrorCode.NONE
            assert settled(lambda: producer.end(is_commit=True), MOVED) is ErrorCode.NONE


@pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
def test_an_open_transaction_holds_up_readers_until_it_ends(
    bootstrap_servers: str, make_topic: TopicMaker, makers: Any, is_commit: bool
) -> None:
    topic = make_topic("held", partitions=1)
    produce(bootstrap_servers, topic, [b"before"])
    producer = makers(Librdkafka)
    producer.begin()
    producer.send(topic, 0, b"in")
    producer.flush()
    produce(bootstrap_servers, topic, [b"after"])
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": unique("held"),
            "isolation.level": "read_committed",
            # Its Fetch is to be woken up: it would wait for longer than this test does.
            "fetch.wait.max.ms": 120_000,
            "socket.timeout.ms": 240_000,
        }
    )
    with closing(consumer):
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert [each.value() for each in read(consumer, 1)] == [b"before"]
        assert read_for(consumer, AT_REST_S) == []
        assert read_all(bootstrap_servers, topic) == {0: [b"before"]}
        if is_commit:
            producer.commit()
        else:
            producer.abort()
        wanted = [b"in", b"after"] if is_commit else [b"after"]
        assert [each.value() for each in read(consumer, len(wanted), seconds=60)] == wanted
        assert read_for(consumer, AT_REST_S) == []


# -- zombies, and time


def test_a_second_producer_shuts_the_first_one_out(
    bootstrap_servers: str, make_topic: TopicMaker, makers: Any, client: type[TransactionalClient]
) -> None:
    topic = make_topic("fenced")
    transactional_id = unique("fenced")
    first = makers(client, transactional_id)
    first.begin()
    send_all(first, topic, b"zombie")
    second = makers(client, transactional_id)
    second.begin()
    send_all(second, topic, b"heir")
    with pytest.raises(Exception, match=r"(?i)fenc|epoch|newer"):
        first.commit()
    second.commit()
    await_committed(bootstrap_servers, topic, everywhere(b"heir"))
    second.begin()
    send_all(second, topic, b"again")
    second.commit()
    await_committed(bootstrap_servers, topic, everywhere(b"heir", b"again"))


def test_a_zombie_that_sends_on_writes_nothing(
    bootstrap_servers: str, make_topic: TopicMaker, makers: Any
) -> None:
    topic = make_topic("zombie")
    transactional_id = unique("zombie")
    first = makers(Librdkafka, transactional_id)
    first.begin()
    send_all(first, topic, b"zombie")
    second = makers(Librdkafka, transactional_id)
    for partition in range(PARTITIONS):
        first.send(topic, partition, b"zombie again")
    with pytest.raises(Exception, match=r"(?i)fenc|epoch|newer"):
        first.commit()
    second.begin()
    send_all(second, topic, b"heir")
    second.commit()
    await_committed(bootstrap_servers, topic, everywhere(b"heir"))
    uncommitted = read_all(bootstrap_servers, topic, is_committed=False)
    assert uncommitted == everywhere(b"zombie", b"heir")


def test_a_transaction_whose_time_is_up_is_aborted_and_its_producer_shut_out(
    bootstrap_servers: str, make_topic: TopicMaker, makers: Any
) -> None:
    topic = make_topic("late")
    producer = makers(Librdkafka, transaction_timeout_ms=6000, message_timeout_ms=6000)
    producer.begin()
    send_all(producer, topic, b"late")
    plain = [Sent(value=b"after", partition=each) for each in range(PARTITIONS)]
    produce(bootstrap_servers, topic, plain)

    def is_over() -> bool:
        return read_all(bootstrap_servers, topic) == everywhere(b"after")

    eventually(is_over, "the abort", seconds=TIME_UP_S)
    with pytest.raises(Exception, match=r"(?i)fenc|epoch|timed out|not attempted"):
        producer.commit()
    assert read_all(bootstrap_servers, topic) == everywhere(b"after")


# -- many


def test_one_id_is_used_by_many_one_after_the_other(
    bootstrap_servers: str, make_topic: TopicMaker, makers: Any
) -> None:
    topic = make_topic("reused")
    transactional_id = unique("reused")
    wanted = []
    for incarnation in range(5):
        producer = makers(CLIENTS[incarnation % len(CLIENTS)], transactional_id)
        for number in range(10):
            value = b"%d.%d" % (incarnation, number)
            producer.begin()
            send_all(producer, topic, value)
            if number % 4 == 3:
                producer.abort()
            else:
                producer.commit()
                wanted.append(value)
        producer.close()
    await_committed(bootstrap_servers, topic, everywhere(*wanted))


def test_an_idempotent_producer_goes_on_beside_transactions(
    bootstrap_servers: str, make_topic: TopicMaker, makers: Any
) -> None:
    topic = make_topic("beside", partitions=1)
    producer = makers(Librdkafka)
    wanted = []
    for number in range(10):
        producer.begin()
        producer.send(topic, 0, b"t%d" % number)
        producer.flush()
        values = [b"%d.%d" % (number, each) for each in range(100)]
        produce(bootstrap_servers, topic, values, enable_idempotence=True)
        producer.commit()
        wanted += [b"t%d" % number, *values]
    await_committed(bootstrap_servers, topic, {0: wanted})


def test_large_transactions(
    bootstrap_servers: str, make_topic: TopicMaker, makers: Any, client: type[TransactionalClient]
) -> None:
    topic = make_topic("large")
    producer = makers(client)
    for prefix, end in ((b"a", producer.abort), (b"c", producer.commit)):
        producer.begin()
        for number in range(LARGE):
            producer.send(topic, number % PARTITIONS, b"%s%d" % (prefix, number))
            if number % 5000 == 4999:
                producer.flush()
        producer.flush()
        end()
    wanted = {
        partition: [b"c%d" % number for number in range(partition, LARGE, PARTITIONS)]
        for partition in range(PARTITIONS)
    }
    await_committed(bootstrap_servers, topic, wanted)
    uncommitted = read_all(bootstrap_servers, topic, is_committed=False)
    assert sum(map(len, uncommitted.values())) == 2 * LARGE


def test_many_ids_at_once(bootstrap_servers: str, make_topic: TopicMaker, makers: Any) -> None:
    topic = make_topic("many")

    def begin(number: int) -> TransactionalClient:
        producer: TransactionalClient = makers(Librdkafka)
        producer.begin()
        for partition in range(PARTITIONS):
            producer.send(topic, partition, b"%d" % number)
        producer.flush()
        return producer

    with ThreadPoolExecutor(20) as pool:
        producers = list(pool.map(begin, range(IDS)))
        # All are open at the same time.
        assert read_all(bootstrap_servers, topic) == everywhere()
        ends = [each.abort if at % 2 else each.commit for at, each in enumerate(producers)]
        list(pool.map(lambda end: end(), ends))
    wanted = sorted(b"%d" % number for number in range(0, IDS, 2))

    def is_committed() -> bool:
        contents = read_all(bootstrap_servers, topic)
        return [sorted(each) for each in contents.values()] == [wanted] * PARTITIONS

    eventually(is_committed, "half of the transactions")
