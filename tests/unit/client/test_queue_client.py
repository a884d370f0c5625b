"""The synchronous client's queues, as a user would write it, against real brokers."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from kafkaesque import Client, Message
from kafkaesque.client import errors
from kafkaesque.client.queue_client import Received
from kafkaesque.testing import LiveCluster

SOON_S = 20.0


def test_a_message_is_put_got_and_acknowledged(client: Client, queue: str) -> None:
    client.put(queue, {"id": 7})
    message = client.get(queue, timeout=SOON_S)
    assert (message.json(), message.attempt, message.failures) == ({"id": 7}, 1, 0)
    assert message.time.year >= 2026
    message.ack()
    assert client.poll(queue) is None
    with pytest.raises(errors.LockLost):
        message.ack()


def test_values_keys_and_headers_come_as_they_were_put(client: Client, queue: str) -> None:
    sent = Message("ä", key="k", headers={"type": "order", "raw": b"\xff", "none": None})
    client.put_many(queue, [sent, b"\x00", [1, None], None])
    first, second, third, fourth = client.get_many(queue, 10, timeout=SOON_S)
    assert (first.text(), first.key) == ("ä", b"k")
    assert first.headers == {"type": b"order", "raw": b"\xff", "none": None}
    assert (second.value, third.json(), fourth.value) == (b"\x00", [1, None], b"")
    client.ack(first, second, third, fourth)


def test_a_queue_is_full_and_says_which_were_refused(client: Client, queue: str) -> None:
    client.alter_queue(queue, max_length=2, overflow="reject-publish")
    with pytest.raises(errors.QueueFull) as caught:
        client.put_many(queue, ["a", "b", "c"])
    assert caught.value.refused == (2,)
    client.alter_queue(queue, max_length=None)
    client.put(queue, "d")
    assert [each.text() for each in client.get_many(queue, 10, SOON_S)] == ["a", "b", "d"]


def texts(messages: list[Received]) -> list[str]:
    return [each.text() for each in messages]


def test_messages_of_a_higher_priority_come_first(client: Client, queue: str) -> None:
    client.alter_queue(queue, max_priority=9)
    client.put_many(queue, ["low", Message("high", priority=9), Message("middle", priority=3)])
    assert texts([client.get(queue, SOON_S) for _ in range(3)]) == ["high", "middle", "low"]


def test_messages_of_a_group_come_one_after_the_other(client: Client, queue: str) -> None:
    client.alter_queue(queue, ordered_groups=True)
    client.put_many(queue, [Message(each, group=each[0]) for each in ("a1", "a2", "b1")])
    found = client.get_many(queue, 10, SOON_S)
    assert texts(found) == ["a1", "b1"]
    found[0].ack()
    assert texts(client.get_many(queue, 10, SOON_S)) == ["a2"]


def test_messages_are_delayed_and_end_by_the_brokers_clock(client: Client, queue: str) -> None:
    client.put_many(
        queue,
        [
            Message("never", expires=0.001),
            Message("no time left", expires=timedelta(0)),
            Message("late", delay=timedelta(seconds=0.5)),
            Message("in years", delay=datetime(2200, 1, 1, tzinfo=UTC)),
            Message("over", expires=datetime(2000, 1, 1, tzinfo=UTC)),
        ],
    )
    assert texts([client.get(queue, SOON_S)]) == ["late"]
    assert client.poll(queue) is None
    (waiting,) = [each for each in client.peek(queue) if each.place == "delayed"]
    assert waiting.message.text() == "in years"


def test_a_dead_letter_says_why_it_is_one(client: Client, queue: str) -> None:
    client.create_queue(f"{queue}-dead")
    client.alter_queue(queue, delivery_limit=1, dead_letter_queue=f"{queue}-dead")
    client.put(queue, Message("a", headers={"h": "v"}, expires=3600))
    client.get(queue, SOON_S).release(failed=True)
    dead = client.get(f"{queue}-dead", SOON_S)
    assert (dead.text(), dead.headers) == ("a", {"h": b"v"})
    assert [each["queue"] for each in dead.deaths] == [queue]


def test_an_id_is_in_the_queue_once(client: Client, queue: str) -> None:
    client.alter_queue(queue, deduplication_ms=60_000)
    first = client.put(queue, Message("a", id="order-7"))
    assert client.put(queue, Message("b", id="order-7")) == first
    assert client.put(queue, Message("c", id="order-8")) != first
    assert [each.text() for each in client.get_many(queue, 10, SOON_S)] == ["a", "c"]


def test_a_message_is_released_extended_and_rejected(client: Client, queue: str) -> None:
    client.put(queue, "a")
    message = client.get(queue, SOON_S, lock=0.3)
    message.extend(60)
    time.sleep(0.6)
    assert client.poll(queue) is None
    message.release(failed=True)
    again = client.get(queue, SOON_S)
    assert (again.attempt, again.failures) == (2, 1)
    again.release(delay=0.2)
    assert client.poll(queue) is None
    third = client.get(queue, SOON_S)
    assert (third.attempt, third.failures) == (3, 1)
    third.reject()
    assert [each.place for each in client.peek(queue)] == ["parked"]
    client.redrive(queue)
    with client.get(queue, SOON_S) as fourth:
        assert fourth.text() == "a"
    assert client.describe(queue).counts["removed_settled"] == 1


def test_an_exception_releases_the_message_as_failed(client: Client, queue: str) -> None:
    client.put(queue, "a")
    with pytest.raises(ZeroDivisionError), client.get(queue, SOON_S):
        _ = 1 / 0
    assert client.get(queue, SOON_S).failures == 1


def test_get_waits_and_poll_does_not(client: Client, queue: str) -> None:
    begun = time.monotonic()
    assert client.poll(queue) is None
    with pytest.raises(errors.Empty):
        client.get(queue, timeout=0.2)
    timer = threading.Timer(0.3, client.put, (queue, "soon"))
    timer.start()
    assert client.get(queue).text() == "soon"
    assert time.monotonic() - begun > 0.4
    timer.join()


def test_queues_are_described_purged_moved_and_deleted(client: Client, queue: str) -> None:
    client.put_many(queue, ["a", "b"])
    shown = client.describe(queue)
    assert (shown.name, shown.counts["ready"], len(shown.replicas)) == (queue, 2, 3)
    assert queue in {each.name for each in client.queues()}
    client.create_queue(f"{queue}-2", max_length=5)
    with pytest.raises(errors.QueueExists):
        client.create_queue(f"{queue}-2", max_length=6)
    client.redrive(queue, f"{queue}-2")
    assert client.get(f"{queue}-2", SOON_S).text() == "a"
    client.purge(f"{queue}-2")
    client.delete_queue(queue)
    with pytest.raises(errors.QueueNotFound):
        client.put(queue, "c")


@pytest.mark.parametrize(
    "message",
    [
        Message("a", priority=-1),
        Message("a", priority=256),
        Message("a", headers={"kafkaesque.priority": "1"}),
        Message("a", headers={"n": 1}),  # type: ignore[dict-item]
        Message("a", delay=-1.0),
        Message("a", delay=float("nan")),
        Message("a", expires=datetime(2030, 1, 1)),  # noqa: DTZ001
        Message("a", id=""),
        {"a": object()},
        {"a": float("nan")},
    ],
)
def test_a_message_that_makes_no_sense_is_not_sent(client: Client, message: Message) -> None:
    with pytest.raises(errors.InvalidArgument):
        client.put("none", message)


def test_what_brokers_refuse_is_said(client: Client, queue: str) -> None:
    with pytest.raises(errors.RequestRefused, match=r"no\.such"):
        client.create_queue("x", no_such=1)
    with pytest.raises(errors.MessageTooLarge):
        client.put(queue, b"x" * 9_000_000)
    with pytest.raises(errors.InvalidArgument):
        client.get_many(queue, 0)
    with pytest.raises(errors.InvalidArgument):
        client.put(queue, "a", timeout=0)


def test_more_than_a_batch_is_put_in_order(client: Client, queue: str) -> None:
    values = [b"%d" % number for number in range(2_500)]
    offsets = client.put_many(queue, values)
    assert offsets == sorted(offsets)
    found: list[bytes] = []
    while len(found) < len(values):
        messages = client.get_many(queue, 1_000, SOON_S)
        client.ack(*messages)
        found += [each.value for each in messages]
    assert found == values


def test_many_threads_share_one_client(client: Client, queue: str) -> None:
    def put() -> None:
        for number in range(20):
            client.put(queue, number)

    threads = [threading.Thread(target=put) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client.describe(queue).counts["ready"] == 160


@pytest.mark.extended
def test_a_broker_that_lags_does_not_say_that_a_queue_is_not_there(cluster: LiveCluster) -> None:
    first, _, cut_off = cluster.bootstrap_servers.split(",")
    cluster.isolate(3)
    with Client(first, timeout=SOON_S) as client, Client(cut_off, timeout=6.0) as lagging:
        client.create_queue("made-meanwhile")
        for ask in (lagging.describe, lambda name: lagging.put(name, "a")):
            with pytest.raises(errors.KafkaesqueError) as caught:
                ask("made-meanwhile")
            assert not isinstance(caught.value, errors.QueueNotFound)
        cluster.heal()
        assert lagging.describe("made-meanwhile").name == "made-meanwhile"
        with pytest.raises(errors.QueueNotFound):
            lagging.describe("never-made")


def test_a_transient_queue_is_used_as_any_other_and_takes_part_in_no_transactions(
    client: Client, queue: str
) -> None:
    name = f"{queue}-replies"
    client.create_queue(name, transient=True, max_priority=9)
    client.put_many(name, ["a", Message("b", priority=9)])
    first = client.get(name, SOON_S)
    assert first.text() == "b"
    first.release(failed=True)
    assert [each.text() for each in client.get_many(name, 10, SOON_S)] == ["a", "b"]

    def put_both() -> None:
        with client.transaction() as transaction:
            transaction.put(queue, "c")
            transaction.put(name, "c")

    with pytest.raises(errors.RequestRefused, match="is transient"):
        put_both()
    assert client.poll(queue) is None
    with pytest.raises(errors.RequestRefused, match="cannot be changed"):
        client.alter_queue(queue, transient=True)
    client.delete_queue(name)


def test_messages_of_each_partition_are_looked_at(client: Client, queue: str) -> None:
    name = f"{queue}-parted"
    client.create_queue(name, partitions=2)
    # One after the other goes to the next partition, but for those whose leader is not known yet.
    for text in "abcdefgh":
        client.put(name, text)
    seen = [[each.message for each in client.peek(name, partition=number)] for number in range(2)]
    assert sorted(each.text() for part in seen for each in part) == list("abcdefgh")
    assert all(each.partition == number for number, part in enumerate(seen) for each in part)
    assert seen[0]
    assert seen[1]
    client.delete_queue(name)
