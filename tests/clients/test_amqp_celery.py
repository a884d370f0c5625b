"""Celery's workers and kombu, unchanged: retries, ETA, priorities, chords, killed workers."""

from __future__ import annotations

import importlib
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients import celery_tasks
from tests.clients.amqp_cluster import AmqpCluster, new_name
from tests.waiting import DEADLINE_S, eventually

#: They have some types, and not enough of them.
celery: Any = importlib.import_module("celery")
kombu: Any = importlib.import_module("kombu")
_numbers = itertools.count()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AmqpCluster]:
    with AmqpCluster(3, tmp_path_factory.mktemp("amqp")) as found:
        yield found


class Workers:
    """Celery with a queue of its own, and workers that are processes."""

    def __init__(self, cluster: AmqpCluster, directory: Path) -> None:
        self.cluster = cluster
        self.notes = directory / "notes"
        # One for all tests: the application keeps what it has begun with.
        results = cluster.results
        results.mkdir(exist_ok=True)
        self.queue = new_name("celery")
        self.environment = {
            "BACKEND_URL": f"file://{results}",
            "QUEUE": self.queue,
            "NOTES": str(self.notes),
        }
        self.log = (directory / "workers.log").open("w")
        self._processes: list[subprocess.Popen[bytes]] = []
        self.app: Any = celery_tasks.app
        self.app.conf.broker_url = cluster.url(1)
        self.app.conf.task_default_queue = self.queue
        self.app.conf.result_backend = self.environment["BACKEND_URL"]
        self.app.set_current()

    def start(self, broker: int) -> subprocess.Popen[bytes]:
        """Start a worker that is connected with a broker."""
        words = [sys.executable, "-m", "celery", "-A", "tests.clients.celery_tasks", "worker"]
        words += ["-c", "1", "-n", f"w{next(_numbers)}@here", "-l", "INFO"]
        environment = {**os.environ, **self.environment, "BROKER_URL": self.cluster.url(broker)}
        process = subprocess.Popen(
            words, env=environment, stdout=self.log, stderr=self.log, start_new_session=True
        )
        self._processes.append(process)
        return process

    def lines(self) -> list[str]:
        return self.notes.read_text().splitlines() if self.notes.exists() else []

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a worker with its children."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        for each in self._processes:
            if each.poll() is None:
                self.kill(each)
        self.log.close()


@pytest.fixture
def workers(cluster: AmqpCluster, tmp_path: Path) -> Iterator[Workers]:
    found = Workers(cluster, tmp_path)
    yield found
    found.stop()


def get(result: Any) -> Any:
    return result.get(timeout=DEADLINE_S, interval=0.1)


def test_tasks_are_done_retried_delayed_and_joined(workers: Workers) -> None:
    workers.start(1)
    workers.start(2)
    assert get(celery_tasks.add.delay(2, 3)) == 5
    assert get(celery.group(celery_tasks.add.s(n, n) for n in range(5))()) == [0, 2, 4, 6, 8]
    joined = celery.chord((celery_tasks.add.s(n, 1) for n in range(4)), celery_tasks.total.s())
    assert get(joined()) == 10
    assert get(celery_tasks.third_time.delay()) == 2
    assert workers.lines() == ["try 0", "try 1", "try 2"]
    began = time.monotonic()
    assert get(celery_tasks.add.apply_async((1, 1), countdown=2)) == 2
    assert time.monotonic() - began >= 2
    # Workers are asked over an exchange of their own, and answer over another one.
    replies = workers.app.control.ping(timeout=5)
    assert [list(each.values()) for each in replies] == [[{"ok": "pong"}]] * 2


def test_higher_priorities_come_first(workers: Workers) -> None:
    celery_tasks.slow.delay(0, 1.0)
    worker = workers.start(3)
    eventually(lambda: "begin 0" in workers.lines(), "the worker is busy")
    results = [
        celery_tasks.say.apply_async((f"{name}",), priority=priority)
        for name, priority in (("low", 0), ("middle", 2), ("high", 5))
    ]
    for each in results:
        get(each)
    assert worker.poll() is None
    said = [line for line in workers.lines() if not line[-1].isdigit()]
    # The first one may have been on its way to the worker.
    assert said.index("high") < said.index("middle")


def test_what_a_killed_worker_was_at_is_done_by_another(workers: Workers) -> None:
    first = workers.start(1)
    result = celery_tasks.slow.delay(1, 5.0)
    eventually(lambda: "begin 1" in workers.lines(), "the task has begun")
    workers.kill(first)
    workers.start(2)
    assert get(result) == 1
    assert workers.lines() == ["begin 1", "begin 1", "end 1"]


def test_kombu_publishes_consumes_and_rejects(cluster: AmqpCluster) -> None:
    name = new_name("kombu")
    dead = kombu.Queue(f"{name}-dead", durable=True)
    source = kombu.Exchange(f"{name}-exchange", type="topic", durable=True)
    queue = kombu.Queue(
        name,
        source,
        routing_key="news.#",
        queue_arguments={
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": dead.name,
        },
    )
    with kombu.Connection(cluster.url(2)) as connection:
        dead(connection).declare()
        producer = connection.Producer()
        for number in range(3):
            producer.publish(
                {"n": number},
                exchange=source,
                routing_key=f"news.{number}",
                declare=[queue],
                retry=True,
                headers={"x": "y"},
            )
        seen: list[Any] = []

        def on_message(body: Any, message: Any) -> None:
            seen.append(body["n"])
            assert message.headers["x"] == "y"
            if body["n"] == 1:
                message.reject()
            else:
                message.ack()

        with connection.Consumer(queue, callbacks=[on_message], prefetch_count=1):
            while len(seen) < 3:
                connection.drain_events(timeout=30)
        assert seen == [0, 1, 2]
        with connection.SimpleQueue(dead) as letters:
            letter = letters.get(timeout=30)
            assert letter.payload == {"n": 1}
            assert letter.headers["x-death"][0]["queue"] == name
            letter.ack()
