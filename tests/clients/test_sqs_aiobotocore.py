"""aiobotocore, unchanged: what its users do with queues, over aiohttp and with many at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from botocore.exceptions import BotoCoreError, ClientError

from tests.clients.sqs_cluster import SqsCluster
from tests.waiting import DEADLINE_S, eventually

POLLS = 8
MESSAGES = 20


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqsCluster]:
    with SqsCluster(3, tmp_path_factory.mktemp("sqs")) as found:
        yield found


@asynccontextmanager
async def connected(cluster: SqsCluster, number: int = 1, attempts: int = 1) -> AsyncIterator[Any]:
    """The client at a broker; it asks once, unless more attempts are allowed."""
    retries = {"total_max_attempts": attempts, "mode": "standard"}
    async with get_session().create_client(
        "sqs",
        endpoint_url=cluster.url(number),
        region_name="us-east-1",
        aws_access_key_id="any",
        aws_secret_access_key="any",
        config=AioConfig(retries=retries, read_timeout=60),
    ) as client:
        yield client


async def until_begun(cluster: SqsCluster, number: int, count: float) -> None:
    """Wait until a broker has begun with so many requests."""
    await asyncio.to_thread(
        eventually, lambda: cluster.requests_begun(number) >= count, f"{count} requests"
    )


def run(cluster: SqsCluster, work: Callable[[Any], Awaitable[None]]) -> None:
    """Do something with a client of the first broker, for no longer than tests wait."""

    async def bounded() -> None:
        async with connected(cluster) as client:
            await asyncio.wait_for(work(client), DEADLINE_S)

    asyncio.run(bounded())


async def make(client: Any, name: str, **attributes: str) -> str:
    url: str = (await client.create_queue(QueueName=name, Attributes=attributes))["QueueUrl"]
    return url


async def receive(client: Any, url: str, **more: Any) -> list[dict[str, Any]]:
    asked = {"MaxNumberOfMessages": 10, "MessageSystemAttributeNames": ["All"], **more}
    answer = await client.receive_message(QueueUrl=url, MessageAttributeNames=["All"], **asked)
    found: list[dict[str, Any]] = answer.get("Messages", [])
    return found


def test_queues_are_made_listed_changed_and_deleted(cluster: SqsCluster) -> None:
    async def work(sqs: Any) -> None:
        urls = sorted([await make(sqs, f"aio-listed-{number}") for number in range(3)])
        pages = sqs.get_paginator("list_queues").paginate(
            QueueNamePrefix="aio-listed-", PaginationConfig={"PageSize": 2}
        )
        assert [url async for page in pages for url in page["QueueUrls"]] == urls
        await sqs.set_queue_attributes(QueueUrl=urls[0], Attributes={"VisibilityTimeout": "45"})
        found = await sqs.get_queue_attributes(
            QueueUrl=urls[0], AttributeNames=["VisibilityTimeout"]
        )
        assert found["Attributes"] == {"VisibilityTimeout": "45"}
        await sqs.delete_queue(QueueUrl=urls[0])
        with pytest.raises(sqs.exceptions.QueueDoesNotExist):
            await sqs.get_queue_url(QueueName="aio-listed-0")

    run(cluster, work)


def test_batches_of_messages_with_attributes(cluster: SqsCluster) -> None:
    async def work(sqs: Any) -> None:
        url = await make(sqs, "aio-batches")
        attributes = {
            "text": {"DataType": "String", "StringValue": "grün"},
            "bytes": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
        }
        entries: list[dict[str, Any]] = [
            {"Id": str(number), "MessageBody": f"m{number}", "MessageAttributes": attributes}
            for number in range(9)
        ]
        late = {"Id": "late", "MessageBody": "x", "DelaySeconds": 901}
        sent = await sqs.send_message_batch(QueueUrl=url, Entries=[*entries, late])
        assert [each["Id"] for each in sent["Failed"]] == ["late"]
        messages = await receive(sqs, url, WaitTimeSeconds=1)
        assert [each["Body"] for each in messages] == [f"m{number}" for number in range(9)]
        assert all(each["MessageAttributes"] == attributes for each in messages)
        assert {each["MessageId"] for each in messages} == {
            each["MessageId"] for each in sent["Successful"]
        }
        receipts = [
            {"Id": str(number), "ReceiptHandle": each["ReceiptHandle"]}
            for number, each in enumerate(messages)
        ]
        deleted = await sqs.delete_message_batch(QueueUrl=url, Entries=receipts)
        assert len(deleted["Successful"]) == 9
        assert await receive(sqs, url) == []

    run(cluster, work)


def test_a_message_is_given_back_and_counts_its_receives(cluster: SqsCluster) -> None:
    async def work(sqs: Any) -> None:
        url = await make(sqs, "aio-visibility")
        await sqs.send_message(QueueUrl=url, MessageBody="hello")
        (first,) = await receive(sqs, url, WaitTimeSeconds=1)
        assert await receive(sqs, url) == []
        handle = first["ReceiptHandle"]
        await sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=0)
        (second,) = await receive(sqs, url)
        assert second["Attributes"]["ApproximateReceiveCount"] == "2"
        with pytest.raises(sqs.exceptions.MessageNotInflight):
            await sqs.change_message_visibility(
                QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=5
            )
        with pytest.raises(ClientError) as caught:
            await sqs.delete_message(QueueUrl=url, ReceiptHandle="made up")
        assert caught.value.response["Error"]["Code"] == "ReceiptHandleIsInvalid"

    run(cluster, work)


def test_order_duplicates_and_dead_letters_of_fifo_queues(cluster: SqsCluster) -> None:
    async def work(sqs: Any) -> None:
        fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
        dead = await make(sqs, "aio-dead.fifo", **fifo)
        found = await sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])
        policy = {"deadLetterTargetArn": found["Attributes"]["QueueArn"], "maxReceiveCount": 1}
        url = await make(sqs, "aio-order.fifo", RedrivePolicy=json.dumps(policy), **fifo)
        for body in ("poison", "poison", "after it"):
            await sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId="g")
        (poison,) = await receive(sqs, url, MaxNumberOfMessages=1, WaitTimeSeconds=1)
        assert await receive(sqs, url) == []
        await sqs.change_message_visibility(
            QueueUrl=url, ReceiptHandle=poison["ReceiptHandle"], VisibilityTimeout=0
        )
        (following,) = await receive(sqs, url, WaitTimeSeconds=10)
        (letter,) = await receive(sqs, dead, WaitTimeSeconds=10)
        assert (poison["Body"], following["Body"], letter["Body"]) == (
            "poison",
            "after it",
            "poison",
        )
        assert letter["Attributes"]["DeadLetterQueueSourceArn"].endswith(":aio-order.fifo")

    run(cluster, work)


def test_long_polls_of_one_client_are_waited_for_at_once(cluster: SqsCluster) -> None:
    async def work(here: Any) -> None:
        url = await make(here, "aio-many")
        found: list[str] = []
        async with connected(cluster, 2) as there:

            async def poll() -> None:
                for message in await receive(there, url, WaitTimeSeconds=20):
                    found.append(message["Body"])
                    await there.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

            before = cluster.requests_begun(2)
            polls = [asyncio.create_task(poll()) for _ in range(POLLS)]
            await until_begun(cluster, 2, before + POLLS)
            for number in range(POLLS):
                await here.send_message(QueueUrl=url, MessageBody=str(number))
            await asyncio.gather(*polls)
        assert sorted(found) == [str(number) for number in range(POLLS)]

    run(cluster, work)


def test_a_poll_that_is_given_up_takes_nothing(cluster: SqsCluster) -> None:
    async def work(sqs: Any) -> None:
        url = await make(sqs, "aio-given-up", VisibilityTimeout="600")
        before = cluster.requests_begun(1)
        poll = asyncio.create_task(receive(sqs, url, WaitTimeSeconds=20))
        await until_begun(cluster, 1, before + 1)
        poll.cancel()
        await asyncio.gather(poll, return_exceptions=True)
        await sqs.send_message(QueueUrl=url, MessageBody="hello")
        (message,) = await receive(sqs, url, WaitTimeSeconds=20)
        assert message["Attributes"]["ApproximateReceiveCount"] == "1"

    run(cluster, work)


@pytest.mark.extended
def test_what_was_received_is_deleted_after_its_broker_was_killed(tmp_path: Path) -> None:
    """Also what the leader had given out: locks and receipts are good at the next one."""

    async def work(cluster: SqsCluster) -> None:
        async with connected(cluster, 2, attempts=8) as sqs:
            urls = [await make(sqs, f"aio-killed-{n}", VisibilityTimeout="20") for n in range(3)]
            entries = [{"Id": str(n), "MessageBody": str(n)} for n in range(10)]
            for url in urls:
                for _ in range(MESSAGES // 10):
                    await sqs.send_message_batch(QueueUrl=url, Entries=entries)
            held = {url: await receive(sqs, url, WaitTimeSeconds=1) for url in urls}
            cluster.brokers[0].kill()
            counts = await asyncio.gather(*(drain(sqs, url, held[url]) for url in urls))
            assert counts == [MESSAGES] * len(urls)

    async def drain(sqs: Any, url: str, held: list[dict[str, Any]]) -> int:
        deleted: set[str] = set()
        while held or len(deleted) < MESSAGES:
            for message in held:
                assert message["MessageId"] not in deleted
                await sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
                deleted.add(message["MessageId"])
            try:
                held = await receive(sqs, url, WaitTimeSeconds=1)
            except (ClientError, BotoCoreError):
                # What an answer that was lost has locked comes again when its lock ends.
                held = []
        return len(deleted)

    async def bounded(cluster: SqsCluster) -> None:
        await asyncio.wait_for(work(cluster), DEADLINE_S)

    with SqsCluster(3, tmp_path) as cluster:
        asyncio.run(bounded(cluster))
