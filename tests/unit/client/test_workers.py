"""Workers: what becomes of messages as their function ends, and how a worker ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from kafkaesque import Client, Message, Reject, Retry
from kafkaesque.client import errors
from kafkaesque.client.delivery import Delivery
from kafkaesque.client.queue_client import Received
from tests.waiting import eventually

SOON_S = 20.0


class Seen:
    """What a function was called with, and what it does."""

    def __init__(self, act: Callable[[Received], object] = lambda _: None) -> None:
        self.texts: list[str] = []
        self.errors: list[tuple[str, str | None]] = []
        self._act = act

    def __call__(self, message: Received) -> None:
        self.texts.append(message.text())
        self._act(message)

    def note(self, error: Exception, message: Delivery | None) -> None:
        self.errors.append((type(error).__name__, message.text() if message else None))


def settled(client: Client, queue: str) -> int:
    return client.describe(queue).counts["removed_settled"]


def test_a_callback_is_called_for_each_message(client: Client, queue: str) -> None:
    client.put(queue, "before")
    seen = Seen()
    with client.worker(queue, seen, on_error=seen.note) as worker:
        client.put_many(queue, ["a", "b"])
        eventually(lambda: settled(client, queue) == 3, "all are settled")
        was_running = worker.is_running
    assert (seen.texts, seen.errors) == (["before", "a", "b"], [])
    assert (was_running, worker.is_running) == (True, False)
    client.put(queue, "after")
    assert client.get(queue, SOON_S).text() == "after"


def test_a_message_whose_function_raises_is_tried_again(client: Client, queue: str) -> None:
    def fail(message: Received) -> None:
        if message.failures < 2:
            raise Retry(delay=0.1) if message.failures else ValueError("not yet")

    seen = Seen(fail)
    client.put(queue, "a")
    worker = client.notify(queue, seen, on_error=seen.note)
    eventually(lambda: settled(client, queue) == 1, "it has come so far")
    assert worker.stop(SOON_S)
    assert seen.texts == ["a"] * 3
    assert seen.errors == [("ValueError", "a"), ("Retry", "a")]


def test_a_poison_message_is_given_up_at_once(client: Client, queue: str) -> None:
    def reject(_: Received) -> None:
        raise Reject("poison")

    seen = Seen(reject)
    client.put(queue, "a")
    with client.worker(queue, seen, on_error=seen.note):
        eventually(lambda: client.describe(queue).counts["parked"] == 1, "it has come so far")
    assert (seen.texts, seen.errors) == (["a"], [("Reject", "a")])


def test_a_lock_is_extended_while_the_function_runs(client: Client, queue: str) -> None:
    seen = Seen(lambda _: time.sleep(2.0))
    client.put(queue, "slow")
    with client.worker(queue, seen, lock=0.6):
        eventually(lambda: len(seen.texts) == 1, "it has come so far")
        for _ in range(15):
            assert client.poll(queue) is None
            time.sleep(0.1)
        eventually(lambda: settled(client, queue) == 1, "it has come so far")
    assert seen.texts == ["slow"]


def test_no_more_run_at_a_time_than_was_asked_for(client: Client, queue: str) -> None:
    running, most, lock = 0, 0, threading.Lock()

    def work(_: Received) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.05)
        with lock:
            running -= 1

    client.put_many(queue, range(20))
    with client.worker(queue, work, concurrency=4):
        eventually(lambda: settled(client, queue) == 20, "it has come so far")
    assert most == 4


def test_a_stop_waits_for_what_is_in_hand(client: Client, queue: str) -> None:
    let_go = threading.Event()
    seen = Seen(lambda _: let_go.wait(SOON_S))
    client.put_many(queue, ["a", "b"])
    worker = client.notify(queue, seen, lock=0.6)
    eventually(lambda: seen.texts == ["a"], "it has come so far")
    assert not worker.stop(timeout=1.5)
    let_go.set()
    assert worker.stop(SOON_S)
    assert settled(client, queue) == 1
    assert client.get(queue, SOON_S).text() == "b"


def test_a_function_may_stop_its_worker(client: Client, queue: str) -> None:
    seen = Seen(lambda _: worker.stop())
    client.put_many(queue, ["a", "b"])
    worker = client.worker(queue, seen)
    worker.run()
    assert seen.texts == ["a"]
    assert settled(client, queue) == 1
    with pytest.raises(errors.Closed):
        worker.start()


def test_a_worker_ends_if_its_queue_is_gone(client: Client, queue: str) -> None:
    seen = Seen()
    client.delete_queue(queue)
    with pytest.raises(errors.QueueNotFound):
        client.worker(queue, seen, on_error=seen.note).run()
    assert seen.errors == [("QueueNotFound", None)]


def test_a_client_that_is_closed_stops_its_workers(client: Client, queue: str) -> None:
    seen = Seen()
    client.put(queue, Message("a"))
    worker = client.notify(queue, seen, on_error=seen.note)
    eventually(lambda: seen.texts == ["a"], "it has come so far")
    client.close()
    assert (worker.is_running, seen.errors) == (False, [])
    with pytest.raises(errors.Closed):
        client.poll(queue)


def test_arguments_that_make_no_sense_are_refused(client: Client) -> None:
    with pytest.raises(errors.InvalidArgument):
        client.worker("q", print, concurrency=0)
    with pytest.raises(errors.InvalidArgument):
        client.worker("q", print, lock=0)
