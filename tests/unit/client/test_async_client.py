"""The asyncio client: the same as the synchronous one, but for `await`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable

import pytest

from kafkaesque import AsyncClient, Client, Message, Reject
from kafkaesque.client import errors
from kafkaesque.client.async_queue_client import AsyncReceived
from kafkaesque.client.queue_client import Received
from kafkaesque.testing import LiveCluster

SOON_S = 20.0


def run(cluster: LiveCluster, act: Callable[[AsyncClient], Awaitable[None]]) -> None:
    async def main() -> None:
        async with AsyncClient(cluster.bootstrap_servers) as client:
            await act(client)

    asyncio.run(main())


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(int(SOON_S / 0.05)):
        if await condition():
            return
        await asyncio.sleep(0.05)
    pytest.fail("it has not come so far")


def public(kind: type) -> dict[str, list[str]]:
    return {
        name: list(inspect.signature(each).parameters)
        for name, each in inspect.getmembers(kind, callable)
        if not name.startswith("_")
    }


@pytest.mark.parametrize(("one", "other"), [(Client, AsyncClient), (Received, AsyncReceived)])
def test_both_clients_have_the_same_names(one: type, other: type) -> None:
    assert public(one) == public(other)


def test_all_of_a_queue(cluster: LiveCluster, queue: str) -> None:
    async def act(client: AsyncClient) -> None:
        await client.create_queue(f"{queue}-2", max_length=10)
        await client.put(queue, {"id": 7})
        assert len(await client.put_many(queue, ["a", Message("b", key="k")])) == 2
        first = await client.get(queue, SOON_S)
        assert first.json() == {"id": 7}
        await first.extend(60)
        await first.release(failed=True)
        assert [each.place for each in await client.peek(queue)] == ["ready"] * 3
        async with await client.get(queue, SOON_S) as again:
            assert again.failures == 1
        second, third = await client.get_many(queue, 10, SOON_S)
        await client.ack(second)
        await third.reject()
        assert await client.poll(queue) is None
        with pytest.raises(errors.LockLost):
            await second.ack()
        with pytest.raises(errors.Empty):
            await client.get(queue, 0.1)
        await client.redrive(queue, f"{queue}-2")
        assert (await client.get(f"{queue}-2", SOON_S)).text() == "b"
        await client.alter_queue(queue, delay_ms=5)
        assert (await client.describe(queue)).set_options == {"delay.ms"}
        await client.purge(queue)
        assert {queue, f"{queue}-2"} <= {each.name for each in await client.queues()}
        await client.delete_queue(queue)
        with pytest.raises(errors.QueueNotFound):
            await client.put(queue, "c")

    run(cluster, act)


def test_tasks_share_one_client(cluster: LiveCluster, queue: str) -> None:
    async def act(client: AsyncClient) -> None:
        async with asyncio.TaskGroup() as group:
            waiting = [group.create_task(client.get(queue, SOON_S)) for _ in range(20)]
            for number in range(20):
                group.create_task(client.put(queue, number))
        assert {each.result().json() for each in waiting} == set(range(20))

    run(cluster, act)


def test_a_wait_that_is_cancelled_takes_no_message(cluster: LiveCluster, queue: str) -> None:
    async def act(client: AsyncClient) -> None:
        waiting = asyncio.create_task(client.get(queue))
        await asyncio.sleep(0.3)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await client.put(queue, "a")
        assert (await client.get(queue, SOON_S)).text() == "a"

    run(cluster, act)


def test_a_worker_works_retries_rejects_and_stops(cluster: LiveCluster, queue: str) -> None:
    seen: list[tuple[str, int]] = []
    noted: list[str] = []

    async def work(message: AsyncReceived) -> None:
        seen.append((message.text(), message.failures))
        if message.text() == "poison":
            raise Reject
        if message.text() == "slow":
            await asyncio.sleep(1.5)
        if message.text() == "bad" and not message.failures:
            raise ValueError

    async def act(client: AsyncClient) -> None:
        await client.put_many(queue, ["good", "poison", "bad", "slow"])
        worker = client.notify(
            queue,
            work,
            concurrency=2,
            lock=0.6,
            on_error=lambda error, _: noted.append(type(error).__name__),
        )
        assert worker.is_running

        async def is_done() -> bool:
            counts = (await client.describe(queue)).counts
            return (counts["removed_settled"], counts["parked"]) == (3, 1)

        await until(is_done)
        assert await worker.stop(SOON_S)
        assert not worker.is_running

    run(cluster, act)
    assert sorted(seen) == [("bad", 0), ("bad", 1), ("good", 0), ("poison", 0), ("slow", 0)]
    assert sorted(noted) == ["Reject", "ValueError"]


def test_a_worker_ends_if_its_queue_is_gone(cluster: LiveCluster, queue: str) -> None:
    async def act(client: AsyncClient) -> None:
        async def work(_: AsyncReceived) -> None: ...

        worker = client.worker("none", work, on_error=lambda *_: None)
        with pytest.raises(errors.QueueNotFound):
            await worker.run()
        with pytest.raises(errors.Closed):
            worker.start()

    run(cluster, act)
