"""Producers, consumers, processors and transformers, as a user would write it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kafkaesque import AsyncClient, Client, Event, Reject, Retry
from kafkaesque.client import errors
from kafkaesque.client.serializers import RAW, TEXT, Serializer
from kafkaesque.client.streams.consumer import Undecodable
from kafkaesque.client.streams.records import StreamRecord
from kafkaesque.testing import LiveCluster
from tests.waiting import eventually

SOON_S = 20.0


@pytest.fixture
def topic(request: pytest.FixtureRequest, cluster: LiveCluster) -> str:
    name = str(request.node.name).translate(str.maketrans("[]", "--"))
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    wanted = [NewTopic(each, num_partitions=1) for each in (name, f"{name}.out")]
    for future in admin.create_topics(wanted).values():
        future.result(SOON_S)
    return name


def values(client: Client, topic: str, count: int, value: Serializer[Any] = TEXT) -> list[Any]:
    with client.consumer(topic, group=f"reader of {topic}", value=value) as consumer:
        return [consumer.get(SOON_S).value for _ in range(count)]


@contextmanager
def running(worker: Any) -> Iterator[list[BaseException]]:
    """Run it on a thread; what it raised is in the list at the end."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            worker.run()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield raised
    finally:
        worker.stop()
        thread.join(60)
        assert not thread.is_alive()


def test_records_are_sent_and_read(client: Client, topic: str) -> None:
    with client.producer() as producer:
        sent = producer.send(topic, {"id": 7}, key="k", headers={"type": "order"})
        producer.send(topic, None, key="k")
        assert sent.result(SOON_S)[:2] == (topic, 0)
    with client.consumer(topic, group="g") as consumer:
        record = consumer.get(SOON_S)
        assert (record.key, record.value, record.offset) == ("k", {"id": 7}, 0)
        assert record.headers == {"type": b"order"}
        assert consumer.get(SOON_S).value is None
        assert consumer.poll() is None
        with pytest.raises(errors.Empty):
            consumer.get(0.1)
        consumer.ack(record)
    with client.consumer(topic, group="g") as consumer:
        assert consumer.get(SOON_S).offset == 1


def test_what_was_not_acknowledged_is_read_again(client: Client, topic: str) -> None:
    with client.producer(value=TEXT) as producer:
        producer.send(topic, "a")
    for _ in range(2):
        with client.consumer(topic, group="g", value=TEXT) as consumer:
            assert consumer.get(SOON_S).value == "a"


def test_iteration_ends_at_stop_and_acknowledges(client: Client, topic: str) -> None:
    with client.producer(value=TEXT) as producer:
        for each in "abc":
            producer.send(topic, each)
    seen = []
    with client.consumer(topic, group="g", value=TEXT) as consumer:
        for record in consumer:
            seen.append(record.value)
            if record.value == "b":
                consumer.stop()
    assert seen == ["a", "b"]
    with client.consumer(topic, group="g", value=TEXT) as consumer:
        assert consumer.get(SOON_S).value == "c"


def test_a_serializer_of_ones_own(client: Client, topic: str) -> None:
    upside = Serializer[str](lambda text: text[::-1].encode(), lambda data: data.decode()[::-1])
    with client.producer(value=upside) as producer:
        producer.send(topic, "abc")
    assert values(client, topic, 1, RAW) == [b"cba"]
    assert values(client, topic, 1, upside) == ["abc"]


def test_what_cannot_be_sent_is_said(client: Client, topic: str) -> None:
    with client.producer() as producer:
        for value in (object(), float("nan")):
            with pytest.raises(errors.InvalidArgument):
                producer.send(topic, value)
        with pytest.raises(errors.InvalidArgument):
            producer.begin()
        with pytest.raises(errors.MessageTooLarge):
            producer.send(topic, "x" * 2_000_000)
    with pytest.raises(errors.Closed):
        producer.send(topic, 1)
    with pytest.raises(errors.InvalidArgument):
        client.producer(settings={"enable.idempotence": False})
    with pytest.raises(errors.InvalidArgument):
        client.producer(settings={"no.such": 1})
    with pytest.raises(errors.InvalidArgument):
        client.consumer(group="g")


def test_what_cannot_be_decoded_can_be_passed_over(client: Client, topic: str) -> None:
    with client.producer(value=RAW) as producer:
        producer.send(topic, b"{")
        producer.send(topic, b"1")
    with client.consumer(topic, group="g") as consumer:
        with pytest.raises(Undecodable) as caught:
            consumer.get(SOON_S)
        assert caught.value.record.raw_value == b"{"
        consumer.ack(caught.value.record)
        assert consumer.get(SOON_S).value == 1


class Broken(Exception):
    """What a function of ours raises."""


def fails(times: int, error: Callable[[], Exception] = Broken) -> tuple[Any, list[str]]:
    """Return a function that fails so often at "bad", and what it was called with."""
    seen: list[str] = []

    def function(record: StreamRecord) -> None:
        seen.append(str(record.value))
        if record.value == "bad" and seen.count("bad") <= times:
            raise error()

    return function, seen


def send(client: Client, topic: str, *texts: str) -> None:
    with client.producer(value=TEXT) as producer:
        for each in texts:
            producer.send(topic, each, headers={"h": each})


def test_a_record_is_tried_again_in_its_place(client: Client, topic: str) -> None:
    function, seen = fails(2, lambda: Retry(delay=0.01))
    send(client, topic, "a", "bad", "b")
    work = client.processor(topic, group="g", function=function, value=TEXT)
    with running(work) as raised:
        eventually(lambda: "b" in seen, "all are worked on")
    assert (raised, seen) == ([], ["a", "bad", "bad", "bad", "b"])


@pytest.mark.parametrize(("error", "attempts"), [(Broken, 2), (Reject, 1)])
def test_a_poison_message_is_a_dead_letter(
    client: Client, topic: str, error: type[Exception], attempts: int
) -> None:
    function, seen = fails(99, error)
    send(client, topic, "bad", "b")
    dead = f"{topic}.out"
    noted: list[Exception] = []
    work = client.processor(
        topic,
        group="g",
        function=function,
        value=TEXT,
        attempts=2,
        backoff=0.01,
        dead_letters=dead,
        on_error=lambda error, _: noted.append(error),
    )
    with running(work) as raised:
        eventually(lambda: "b" in seen, "all are worked on")
    assert (raised, seen) == ([], ["bad"] * attempts + ["b"])
    assert len(noted) == attempts
    with client.consumer(dead, group="g", value=TEXT) as consumer:
        letter = consumer.get(SOON_S)
    assert letter.value == "bad"
    assert letter.headers["h"] == b"bad"
    assert letter.headers["dead-letter.topic"] == topic.encode()
    assert letter.headers["dead-letter.attempts"] == b"%d" % attempts
    with client.consumer(topic, group="g", value=TEXT) as consumer:
        assert consumer.next(1.0) is None


def test_without_dead_letters_a_poison_message_ends_the_run(client: Client, topic: str) -> None:
    function, _ = fails(99)
    send(client, topic, "a", "bad")
    work = client.processor(
        topic, group="g", function=function, value=TEXT, attempts=1, on_error=lambda *_: None
    )
    with pytest.raises(Broken):
        work.run()
    with client.consumer(topic, group="g", value=TEXT) as consumer:
        assert consumer.get(SOON_S).value == "bad"


def test_at_most_once_never_comes_again(client: Client, topic: str) -> None:
    function, seen = fails(99)
    send(client, topic, "bad", "b")
    work = client.processor(
        topic,
        group="g",
        function=function,
        value=TEXT,
        attempts=1,
        delivery="at-most-once",
        on_error=lambda *_: None,
    )
    with pytest.raises(Broken):
        work.run()
    assert seen == ["bad"]
    with client.consumer(topic, group="g", value=TEXT) as consumer:
        assert consumer.get(SOON_S).value == "b"


def test_a_transformer_sends_what_follows_once(client: Client, topic: str) -> None:
    function, _ = fails(99)
    send(client, topic, "a", "bad", "b")
    out = f"{topic}.out"

    def double(record: StreamRecord) -> Iterable[Event]:
        function(record)
        return [Event(out, f"{record.value}{n}", key=record.key) for n in (1, 2)]

    work = client.transformer(
        topic,
        group="g",
        function=double,
        transactional_id=topic,
        value=TEXT,
        attempts=2,
        backoff=0.01,
        dead_letters=out,
        on_error=lambda *_: None,
    )
    with running(work) as raised:
        assert values(client, out, 5) == ["a1", "a2", "bad", "b1", "b2"]
    assert raised == []
    with client.consumer(topic, group="g", value=TEXT) as consumer:
        assert consumer.next(1.0) is None


def test_a_transaction_is_all_or_nothing(client: Client, topic: str) -> None:
    with client.producer(value=TEXT, transactional_id=topic) as producer:
        with pytest.raises(errors.InvalidArgument), producer.transaction():  # noqa: PT012
            producer.send(topic, "never")
            producer.send(topic, 1)
        with producer.transaction():
            producer.send(topic, "a")
            producer.send(topic, "b")
        assert values(client, topic, 2) == ["a", "b"]
        with client.producer(value=TEXT, transactional_id=topic) as other:
            with other.transaction():
                other.send(topic, "c")
            with pytest.raises(errors.Fenced), producer.transaction():
                producer.send(topic, "d").result(SOON_S)


def test_all_of_it_with_asyncio(cluster: LiveCluster, topic: str) -> None:
    out = f"{topic}.out"
    seen: list[object] = []

    async def double(record: StreamRecord) -> list[Event]:
        await asyncio.sleep(0)
        return [Event(out, record.value * 2)]

    async def main() -> None:
        async with AsyncClient(cluster.bootstrap_servers) as client:
            async with client.producer(transactional_id=topic) as producer:
                async with producer.transaction():
                    sent = await asyncio.gather(*(producer.send(topic, n) for n in range(5)))
                with pytest.raises(errors.InvalidArgument):
                    async with producer.transaction():
                        await producer.send(topic, object())
            assert [each.offset for each in sent] == list(range(5))
            work = client.transformer(
                topic, group="g", function=double, transactional_id=f"{topic}.t"
            )
            running = asyncio.create_task(work.run())
            async with client.consumer(out, group="g") as consumer:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(consumer.get(), 0.001)
                async for record in consumer:
                    seen.append(record.value)
                    if len(seen) == 5:
                        consumer.stop()
            work.stop()
            await running

            async def fail(_: StreamRecord) -> None:
                raise Broken

            bad = client.processor(
                topic, group="h", function=fail, attempts=1, on_error=lambda *_: None
            )
            with pytest.raises(Broken):
                await bad.run()

    asyncio.run(main())
    assert seen == [0, 2, 4, 6, 8]
