"""A broker is killed with messages in flight: none is lost, and what was deleted stays so."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError, HTTPClientError

from tests.clients.sqs_cluster import Queues, SqsCluster, sqs_client
from tests.waiting import eventually

QUEUES = 6
MESSAGES = 20
RETRIES: dict[str, Any] = {"retries": {"total_max_attempts": 8, "mode": "standard"}}


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqsCluster]:
    with SqsCluster(3, tmp_path_factory.mktemp("sqs")) as found:
        yield found


def test_a_broker_is_killed_with_messages_in_flight(cluster: SqsCluster) -> None:
    with sqs_client(cluster.url(2), **RETRIES) as client:
        sqs = Queues(client)
        urls = [sqs.make("killed", VisibilityTimeout="20") for _ in range(QUEUES)]
        sent = {url: [f"m{number}" for number in range(MESSAGES)] for url in urls}
        deleted: dict[str, list[str]] = {url: [] for url in urls}
        held: dict[str, list[dict[str, Any]]] = {}
        for url in urls:
            for body in sent[url]:
                sqs.send(url, body)
            for message in sqs.receive(url, 5):
                sqs.delete(url, message)
                deleted[url].append(message["Body"])
            held[url] = sqs.receive(url, 5)
        # Of six queues it leads two or so.
        cluster.brokers[0].kill()
        for url in urls:
            _finish_held(sqs, url, held[url], deleted[url])
        for url in urls:
            eventually(partial(_drained, sqs, url, deleted[url]), f"{url} is empty")
        assert {url: sorted(found) for url, found in deleted.items()} == {
            url: sorted(found) for url, found in sent.items()
        }


def _finish_held(sqs: Queues, url: str, held: list[dict[str, Any]], deleted: list[str]) -> None:
    """Receipts from before the kill are good after it: the locks have not ended."""
    for message in held:
        sqs.delete(url, message)
        deleted.append(message["Body"])


def _drained(sqs: Queues, url: str, deleted: list[str]) -> bool:
    try:
        for message in sqs.receive(url, 10, WaitTimeSeconds=1):
            assert message["Attributes"]["ApproximateReceiveCount"] in ("1", "2")
            sqs.delete(url, message)
            deleted.append(message["Body"])
    except (ClientError, HTTPClientError):
        # Nobody knows: what was given out comes again when its lock ends.
        return False
    return len(deleted) >= MESSAGES
