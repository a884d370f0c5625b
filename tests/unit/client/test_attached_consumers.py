"""Consumers that a queue knows: exclusive, and one active at a time; against real brokers."""

from __future__ import annotations

import asyncio
import threading

import pytest

from kafkaesque import AsyncClient, Client
from kafkaesque.client import errors
from kafkaesque.client.attachment import Attachment
from kafkaesque.client.queue_calls import QueueCalls
from kafkaesque.client.queue_client import Received
from kafkaesque.client.queue_consumer import QueueConsumer
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.attach_consumer_response import AttachConsumerResponse
from kafkaesque.protocols.kafka.messages.take_messages_response import TakeMessagesResponse
from kafkaesque.testing import LiveCluster
from tests.unit.client.test_queue_delivery import leader_of
from tests.unit.client.world import FakeWorld
from tests.waiting import eventually

SOON_S = 20.0


def texts(messages: list[Received]) -> list[str]:
    return [each.text() for each in messages]


def test_an_exclusive_queue_has_one_consumer_until_that_is_gone(client: Client, queue: str) -> None:
    client.alter_queue(queue, sharing="exclusive")
    client.put_many(queue, ["a", "b"])
    with pytest.raises(errors.QueueInUse):
        client.poll(queue)
    with client.attach(queue) as first:
        assert first.is_active
        assert first.get(SOON_S).text() == "a"
        with pytest.raises(errors.QueueInUse):
            client.attach(queue).begin()
    # What it had and did not acknowledge is ready again, and not counted as failed.
    with client.attach(queue) as second:
        found = second.get_many(10, SOON_S)
        assert texts(found) == ["a", "b"]
        assert [each.failures for each in found] == [0, 0]
        client.ack(*found)
        assert second.poll() is None
    with pytest.raises(errors.Closed):
        second.poll()


def test_of_single_active_consumers_the_next_takes_over(client: Client, queue: str) -> None:
    client.alter_queue(queue, sharing="single-active")
    first, second = client.attach(queue), client.attach(queue)
    first.begin()
    second.begin()
    assert (first.is_active, second.is_active) == (True, False)
    client.put_many(queue, ["a", "b", "c"])
    assert second.poll() is None
    one = first.get(SOON_S)
    one.ack()
    waiting: list[Received] = []
    thread = threading.Thread(target=lambda: waiting.append(second.get(SOON_S)))
    thread.start()
    assert first.get(SOON_S).text() == "b"
    first.close()
    thread.join(SOON_S)
    assert texts(waiting) == ["b"]
    second.close()


def test_a_consumer_whose_connection_breaks_attaches_again(client: Client, queue: str) -> None:
    client.alter_queue(queue, sharing="exclusive")
    client.put_many(queue, ["a", "b"])
    with client.attach(queue) as consumer:
        assert consumer.get(SOON_S).text() == "a"
        link = consumer._attachment._link
        assert link is not None
        link.wire.close()
        again = consumer.get_many(10, SOON_S)
        assert texts(again) == ["a", "b"]
        client.ack(*again)


TEN = [str(number) for number in range(10)]


@pytest.mark.parametrize("sharing", ["single-active", "exclusive"])
def test_a_leader_dies_and_the_consumer_goes_on_with_what_it_has(
    cluster: LiveCluster, client: Client, queue: str, sharing: str
) -> None:
    client.alter_queue(queue, sharing=sharing, visibility_timeout_ms=120_000)
    client.put_many(queue, TEN)
    addresses = cluster.bootstrap_servers.split(",")
    leader = leader_of(client, queue)
    with Client(addresses[leader % len(addresses)]) as other, other.attach(queue) as consumer:
        had = consumer.get_many(4, SOON_S)
        cluster.kill(leader)
        left: list[Received] = []
        while len(left) < 6:
            left += consumer.get_many(10, SOON_S)
        assert sorted(texts(had + left), key=int) == TEN
        assert {each.attempt for each in had + left} == {1}
        other.ack(*had, *left)
        assert consumer.poll() is None
        assert other.describe(queue).counts["in_flight"] == 0


def test_a_worker_works_as_an_attached_consumer(client: Client, queue: str) -> None:
    client.alter_queue(queue, sharing="single-active")
    done: list[str] = []
    second_works = threading.Event()

    def work(message: Received) -> None:
        done.append(message.text())

    def work_second(message: Received) -> None:
        work(message)
        second_works.set()

    first = client.notify(queue, work, attach=True)
    client.put(queue, "a")
    eventually(lambda: bool(done), "the first worker works")
    second = client.notify(queue, work_second, attach=True)
    first.stop()
    client.put(queue, "b")
    assert second_works.wait(SOON_S)
    second.stop()
    assert done == ["a", "b"]
    assert client.describe(queue).counts["consumers"] == 0


def test_with_asyncio(cluster: LiveCluster, queue: str) -> None:
    async def act() -> None:
        async with AsyncClient(cluster.bootstrap_servers) as client:
            await client.alter_queue(queue, sharing="exclusive")
            await client.put(queue, "a")
            async with client.attach(queue) as consumer:
                assert consumer.is_active
                with pytest.raises(errors.QueueInUse):
                    await client.attach(queue).begin()
                message = await consumer.get(SOON_S)
                await message.ack()
                assert await consumer.poll() is None
                with pytest.raises(errors.Empty):
                    await consumer.get(0.1)
            seen = asyncio.Event()

            async def work(_: object) -> None:
                seen.set()

            worker = client.notify(queue, work, attach=True)
            await client.put(queue, "b")
            await asyncio.wait_for(seen.wait(), SOON_S)
            await worker.stop()
            assert (await client.describe(queue)).counts["consumers"] == 0

    asyncio.run(act())


class Told(FakeWorld):
    """A broker that says of attaching and of taking what a test says, one after the other."""

    def __init__(self, attach: list[int], take: list[int]) -> None:
        super().__init__("a:1", timeout=20)
        self.answers[ApiKey.ATTACH_CONSUMER] = lambda _: AttachConsumerResponse(
            error_code=attach.pop(0), is_active=True
        )
        self.answers[ApiKey.TAKE_MESSAGES] = lambda _: TakeMessagesResponse(
            error_code=take.pop(0), records=None
        )
        self.attachment = Attachment(self.calls, QueueCalls(self.calls), "jobs")

    def take(self) -> list[Received]:
        return self.run(self.attachment.take(1, None, 0, None, lambda *_: pytest.fail("none")))


def test_another_leader_is_told_of_the_consumer_over_the_same_connection() -> None:
    world = Told([0, 0], [0, ErrorCode.UNKNOWN_CONSUMER, 0])
    assert world.take() == []
    assert world.take() == []
    assert world.connects == ["a:1"]
    assert world.asked.count(ApiKey.ATTACH_CONSUMER) == 2


def test_who_was_attached_is_not_refused_for_a_consumer_that_it_was_itself() -> None:
    world = Told([0, ErrorCode.QUEUE_IN_USE, ErrorCode.QUEUE_IN_USE, 0], [0, 0])
    assert world.take() == []
    link = world.attachment._link
    assert link is not None
    world.attachment._drop()
    assert world.take() == []
    assert world.asked.count(ApiKey.ATTACH_CONSUMER) == 4


def test_who_was_never_attached_is_told_at_once_that_the_queue_is_in_use() -> None:
    world = Told([ErrorCode.QUEUE_IN_USE], [])
    with pytest.raises(errors.QueueInUse):
        world.take()
    assert not world.sleeps


def test_names_of_both_kinds_are_the_same() -> None:
    from kafkaesque.client.async_queue_consumer import AsyncQueueConsumer

    def public(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    assert public(QueueConsumer) == public(AsyncQueueConsumer)
