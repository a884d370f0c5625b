"""What each delivery semantics of queues promises, with a kill at the worst moment."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from kafkaesque import Client, Message
from kafkaesque.client import errors
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.testing import LiveCluster
from tests.unit.client.tearing import TearingProxy
from tests.waiting import eventually

SOON_S = 30.0


def leader_of(client: Client, queue: str) -> int:
    """Return the broker that leads the queue."""
    eventually(lambda: client.describe(queue).leader > 0, "the queue has a leader")
    return client.describe(queue).leader


def kill_leader(cluster: LiveCluster, client: Client, queue: str) -> None:
    """Kill -9 the broker that leads the queue."""
    cluster.kill(leader_of(client, queue))


@contextmanager
def torn(
    cluster: LiveCluster, client: Client, queue: str, api_key: int, *, with_kill: bool = True
) -> Iterator[tuple[Client, TearingProxy]]:
    """Yield a client whose first answer of a kind is lost, as the queue's leader is killed.

    The answer is there already: so what was asked is committed, and the client cannot know.
    """
    addresses = cluster.bootstrap_servers.split(",")
    leader = leader_of(client, queue)
    # Behind a broker that lives on, so that the answer comes at all.
    behind = addresses[leader % len(addresses)]
    act: Callable[[], None] = (lambda: cluster.kill(leader)) if with_kill else (lambda: None)
    with (
        TearingProxy(behind, api_key, act) as proxy,
        Client(proxy.address, timeout=SOON_S) as made,
    ):
        yield made, proxy


# -- exactly once by message id


def test_exactly_once_a_put_with_an_id_is_in_the_queue_once(
    cluster: LiveCluster, client: Client, queue: str
) -> None:
    client.alter_queue(queue, deduplication_ms=600_000)
    with torn(cluster, client, queue, ApiKey.PUT_MESSAGES) as (unlucky, proxy):
        offset = unlucky.put(queue, Message("pay 7", id="payment-7"))
        assert proxy.torn == 1
    counts = client.describe(queue).counts
    assert (counts["ready"], counts["arrived"]) == (1, 1)
    message = client.get(queue, SOON_S)
    assert (message.text(), message.offset) == ("pay 7", offset)
    message.ack()
    assert client.poll(queue) is None


def test_exactly_once_a_batch_with_ids_is_in_the_queue_once(
    cluster: LiveCluster, client: Client, queue: str
) -> None:
    client.alter_queue(queue, deduplication_ms=600_000)
    messages = [Message(f"{n}", id=f"id-{n}") for n in range(50)]
    with torn(cluster, client, queue, ApiKey.PUT_MESSAGES) as (unlucky, _):
        unlucky.put_many(queue, messages)
    found = client.get_many(queue, 1_000, SOON_S)
    assert [each.text() for each in found] == [each.value for each in messages]


def test_a_put_without_an_id_is_not_put_again(
    cluster: LiveCluster, client: Client, queue: str
) -> None:
    with torn(cluster, client, queue, ApiKey.PUT_MESSAGES) as (unlucky, proxy):
        with pytest.raises(errors.OutcomeUnknown):
            unlucky.put(queue, "a")
        assert proxy.torn == 1
        unlucky.put(queue, "b")
    found = client.get_many(queue, 10, SOON_S)
    assert [each.text() for each in found] == ["a", "b"]


def test_an_id_helps_only_where_the_queue_knows_duplicates(
    cluster: LiveCluster, client: Client, queue: str
) -> None:
    with pytest.raises(errors.KafkaesqueError, match=r"deduplication\.ms"):
        client.put(queue, Message("a", id="1"))
    assert client.describe(queue).counts["ready"] == 0


# -- at least once


def test_at_least_once_nothing_that_was_confirmed_is_lost(
    cluster: LiveCluster, client: Client, queue: str
) -> None:
    confirmed = []
    for n in range(30):
        if n == 15:
            kill_leader(cluster, client, queue)
        try:
            client.put(queue, n)
        except errors.OutcomeUnknown:
            continue  # it may be there or not; the publisher has to decide
        confirmed.append(n)
    found: list[int] = []
    while batch := client.get_many(queue, 10, 2.0):
        found += [each.json() for each in batch]
        client.ack(*batch)
    assert set(confirmed) <= set(found)
    assert len(confirmed) >= 29
    assert len(found) == len(set(found))


def test_at_least_once_what_was_not_acknowledged_comes_again(
    cluster: LiveCluster, client: Client, queue: str
) -> None:
    client.put(queue, "a")
    first = client.get(queue, SOON_S, lock=3)
    assert first.attempt == 1
    kill_leader(cluster, client, queue)
    again = client.get(queue, SOON_S)
    assert (again.text(), again.attempt) == ("a", 2)
    again.ack()


def test_an_acknowledgement_that_is_not_answered_is_done(
    cluster: LiveCluster, client: Client, queue: str
) -> None:
    client.put(queue, "a")
    with torn(cluster, client, queue, ApiKey.SETTLE_MESSAGES) as (unlucky, proxy):
        message = unlucky.get(queue, SOON_S)
        # Asked again it finds that it is settled: whether by itself, nobody can say.
        with pytest.raises(errors.LockLost):
            message.ack()
        assert proxy.torn == 1
    assert client.describe(queue).counts["removed_settled"] == 1


# -- at most once


def test_at_most_once_what_was_acknowledged_first_never_comes_again(
    cluster: LiveCluster, client: Client, queue: str
) -> None:
    client.put_many(queue, ["a", "b"])
    message = client.get(queue, SOON_S)
    message.ack()
    # Here the consumer would die, before it has done anything: "a" is lost.
    kill_leader(cluster, client, queue)
    assert client.get(queue, SOON_S).text() == "b"
    assert client.describe(queue).counts["removed_settled"] == 1
    assert client.poll(queue) is None


# -- time-out based


@pytest.mark.extended
def test_timeout_based_a_lock_holds_through_a_change_of_leader_and_then_ends(
    cluster: LiveCluster, client: Client, queue: str
) -> None:
    lock_s = 6.0
    client.put(queue, "a")
    message = client.get(queue, SOON_S, lock=lock_s)
    locked_at = time.monotonic()
    kill_leader(cluster, client, queue)
    assert client.poll(queue) is None
    again = client.get(queue, SOON_S)
    # The world of the test's brokers may run a little behind this clock, and never ahead of it.
    assert time.monotonic() - locked_at >= lock_s - 0.5
    assert (again.text(), again.attempt) == ("a", 2)
    with pytest.raises(errors.LockLost):
        message.ack()
    again.ack()


# -- workers


def test_a_worker_goes_on_with_the_next_leader(
    cluster: LiveCluster, client: Client, queue: str
) -> None:
    seen: list[int] = []
    client.put_many(queue, range(40))

    def work(message: object) -> None:
        seen.append(message.json())  # type: ignore[attr-defined]
        if len(seen) == 10:
            kill_leader(cluster, client, queue)

    with client.worker(queue, work, concurrency=2, lock=5, on_error=lambda *_: None):
        eventually(
            lambda: client.describe(queue).counts["removed_settled"] == 40, "all are settled"
        )
    assert set(seen) == set(range(40))


@pytest.mark.extended
def test_a_broker_that_hangs_is_left_for_another_one(
    cluster: LiveCluster, client: Client, queue: str
) -> None:
    client.put(queue, "a")
    leader = leader_of(client, queue)
    addresses = cluster.bootstrap_servers.split(",")
    hanging = leader % len(addresses) + 1
    with Client(addresses[hanging - 1], timeout=SOON_S) as other:
        assert other.queues()
        cluster.pause(hanging)
        # It knows the others by what the first one told it.
        assert other.get(queue, SOON_S).text() == "a"
    cluster.resume(hanging)
