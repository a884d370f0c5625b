"""Retry with back-off, then dead letters: a bad record blocks no other record and is not lost.

    kafkaesque up --brokers 3
    python examples/retry_and_dead_letters.py --bootstrap-server 127.0.0.1:9092

The example publishes six hooks: one cannot be read, one fails once, one twice, one always. The
worker is killed (SIGKILL) when the first hook that failed is written to the retry topic and its
offset is not yet committed. A second worker continues:

    worker killed: hook-1 was in the retry topic, its offset not yet committed
    hook-0  delivered by attempt 1
    hook-5  delivered by attempt 1
    hook-1  delivered by attempt 2
    hook-2  dead after attempt 1: JSONDecodeError: ...
    hook-1  delivered by attempt 2, again: its message-id is known
    hook-3  dead after attempt 3: no answer from the server of hook-3
    hook-4  delivered by attempt 3

The worker calls something that may fail: here it delivers hooks to other people's servers. If it
waited in place until a call succeeds, one dead server would stop a whole partition. If it skipped
the hook, the hook would be lost. So a record whose call failed moves to another topic:

    hooks --> hooks.retry-1 --> hooks.retry-2 --> hooks.dead
              after 0.2 s       after 0.8 s       for people to look at

A record that nobody can read goes to the dead letters at once, because retrying cannot help. So
does a record on which the handler fails unexpectedly; otherwise it would end the worker for ever.

*Nothing is lost*, because of the order of these steps:

    1. produce the record to the next topic, with acks=all
    2. wait for the acknowledgement
    3. commit its offset in the topic where it was

A worker that is killed between 2 and 3 leaves the record in both topics, so it moves twice. (The
other order would lose it.) Therefore each record keeps a header with its first place, and the
receiver ignores a `message-id` that it has already seen. In one transaction, as in
`exactly_once.py`, the record would move once, but the server could still be called twice.

*Nothing is blocked*, because all records of one retry topic wait equally long: the first record of
a partition is always the next that is due. The worker holds that record, pauses the partition until
then, and serves the others. It continues to poll, so the group does not declare it dead. If one
topic had several delays, a long wait would hold up the short ones behind it.

*Bounds.* There are as many attempts as topics on the way. Each held partition costs one record of
memory. The header `reason` is cut off.

Records of one key may overtake each other here. If their order matters more than progress, wait in
place. When the cause is repaired, the dead letters may be published to the first topic again,
without these headers.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
import uuid
from dataclasses import dataclass

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

#: Delay before the second attempt, the third, ...: seconds here, minutes in production.
BACK_OFFS_S = (0.2, 0.8)
REASON_CHARACTERS_MAX = 200
POLL_S = 0.1
SCENARIO_TIMEOUT_S = 60.0
CRASH_AT = "hook-1"

HOOKS = {
    "hook-0": '{"failures": 0}',
    "hook-1": '{"failures": 1}',
    "hook-2": "{ this is no JSON",
    "hook-3": '{"failures": 1000}',
    "hook-4": '{"failures": 2}',
    "hook-5": '{"failures": 0}',
}


class Unreachable(Exception):
    """The server does not answer; it may do so later."""


def call(hook: Message, attempt: int) -> None:
    """Deliver the hook; the ones of the example know how often they are going to fail."""
    if attempt <= json.loads(hook.value() or b"")["failures"]:
        raise Unreachable(f"no answer from the server of {name_of(hook)}")


@dataclass(frozen=True, slots=True)
class Topics:
    """The stations of a record, and where the outcome can be read."""

    prefix: str

    @property
    def stations(self) -> list[str]:
        """Where a record waits for its first attempt, its second, its third, ..."""
        retries = [f"{self.prefix}.hooks.retry-{number + 1}" for number in range(len(BACK_OFFS_S))]
        return [f"{self.prefix}.hooks", *retries]

    @property
    def dead(self) -> str:
        return f"{self.prefix}.hooks.dead"

    @property
    def delivered(self) -> str:
        return f"{self.prefix}.delivered"


class Worker:
    """Makes one attempt after the other, each when it is due."""

    def __init__(self, bootstrap_server: str, prefix: str, crash_at: str | None) -> None:
        self._topics = Topics(prefix)
        self._crash_at = crash_at
        self._producer = Producer({"bootstrap.servers": bootstrap_server, "acks": "all"})
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_server,
                "group.id": f"{prefix}.deliverers",
                # A fixed name: a process that restarts with it gets its partitions at once. Without
                # it, the group would first wait until the killed one's session has timed out.
                "group.instance.id": f"{prefix}.worker",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        #: The first record of each paused partition. None of them is committed, so after a crash
        #: they are simply fetched again.
        self._held: dict[tuple[str | None, int | None], Message] = {}

    def run(self, is_over: threading.Event) -> None:
        # A partition that moves to another member begins there with the record that is held here.
        self._consumer.subscribe(self._topics.stations, on_revoke=lambda *_: self._held.clear())
        while not is_over.is_set():
            self._settle_what_is_due()
            message = self._consumer.poll(POLL_S)
            if message is None:
                continue
            if (error := message.error()) is not None:
                if error.fatal():
                    raise KafkaException(error)
                print(f"trying again: {error}", file=sys.stderr)
            elif due_ms(message) > now_ms():
                self._consumer.pause([place_of(message)])
                self._held[message.topic(), message.partition()] = message
            else:
                self._settle(message)
        self._consumer.close()

    def _settle_what_is_due(self) -> None:
        for place, message in list(self._held.items()):
            if due_ms(message) <= now_ms():
                self._settle(message)
                del self._held[place]
                self._consumer.resume([place_of(message)])

    def _settle(self, message: Message) -> None:
        """Make the attempt, write down what came of it, and only then commit."""
        attempt = number_of(message, "attempt", 1)
        try:
            call(message, attempt)
        except Unreachable as error:
            self._move_on(message, attempt, str(error))
        except Exception as error:
            self._bury(message, attempt, f"{type(error).__name__}: {error}")
        else:
            self._write(self._topics.delivered, message, {"attempt": str(attempt)})
        self._consumer.commit(message=message, asynchronous=False)

    def _move_on(self, message: Message, attempt: int, reason: str) -> None:
        stations = self._topics.stations
        if attempt >= len(stations):
            self._bury(message, attempt, reason)
            return
        due = now_ms() + round(BACK_OFFS_S[attempt - 1] * 1000)
        notes = {"attempt": str(attempt + 1), "not-before": str(due), "reason": short(reason)}
        self._write(stations[attempt], message, notes)
        if name_of(message) == self._crash_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def _bury(self, message: Message, attempt: int, reason: str) -> None:
        notes = {"attempt": str(attempt), "reason": short(reason)}
        self._write(self._topics.dead, message, notes)

    def _write(self, topic: str, message: Message, notes: dict[str, str]) -> None:
        """Write the record with these headers; returns when it is acknowledged."""
        headers: dict[str, str | bytes | None] = {**dict(message.headers() or []), **notes}
        here = f"{message.topic()}/{message.partition()}/{message.offset()}"
        headers.setdefault("message-id", here)
        self._producer.produce(
            topic,
            key=message.key(),
            value=message.value(),
            headers=headers,
            on_delivery=raise_if_lost,
        )
        self._producer.flush()


def raise_if_lost(error: KafkaError | None, _: Message) -> None:
    """Called by `flush`: what is not written ends the worker before anything is committed."""
    if error is not None:
        raise KafkaException(error)


def short(reason: str) -> str:
    return reason[:REASON_CHARACTERS_MAX]


def name_of(message: Message) -> str:
    return (message.key() or b"").decode()


def header_of(message: Message, name: str) -> str:
    value = dict(message.headers() or []).get(name) or b""
    return value if isinstance(value, str) else value.decode(errors="replace")


def number_of(message: Message, header: str, default: int) -> int:
    """Return the number in a header; one that is none must not end the worker, again and again."""
    text = header_of(message, header)
    return int(text) if text.isascii() and text.isdecimal() else default


def due_ms(message: Message) -> int:
    return number_of(message, "not-before", 0)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def place_of(message: Message) -> TopicPartition:
    topic, partition = message.topic(), message.partition()
    if topic is None or partition is None:
        raise ValueError("a message that was never consumed")
    return TopicPartition(topic, partition)


def work(bootstrap_server: str, prefix: str, crash_at: str | None) -> None:
    """Run a worker until SIGTERM asks it to stop, which it does between two records."""
    is_over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: is_over.set())
    Worker(bootstrap_server, prefix, crash_at).run(is_over)


# -- the scenario


def main() -> None:
    arguments = parse_arguments()
    server, topics = arguments.bootstrap_server, Topics(arguments.prefix)
    make_topics(server, [*topics.stations, topics.dead, topics.delivered])
    publish(server, topics.stations[0])

    crashed = start_worker(server, topics.prefix, CRASH_AT)
    crashed.join(SCENARIO_TIMEOUT_S)
    if crashed.exitcode != -signal.SIGKILL:
        raise SystemExit(f"the worker was to be killed, but ended with {crashed.exitcode}")
    print(f"worker killed: {CRASH_AT} was in the retry topic, its offset not yet committed")
    worker = start_worker(server, topics.prefix, None)
    watch(server, topics)
    worker.terminate()
    worker.join(SCENARIO_TIMEOUT_S)


def watch(bootstrap_server: str, topics: Topics) -> None:
    """Tell of each hook what became of it, until that is known of all."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_server, "group.id": "unused", "enable.auto.commit": False}
    )
    outcomes = (topics.delivered, topics.dead)
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING) for topic in outcomes])
    expected = len(HOOKS) + 1  # the move that was interrupted happened twice
    seen: set[str] = set()
    settled = 0
    deadline = time.monotonic() + SCENARIO_TIMEOUT_S
    while settled < expected:
        if time.monotonic() > deadline:
            raise SystemExit(f"{settled} of {expected} hooks settled in {SCENARIO_TIMEOUT_S:.0f} s")
        message = consumer.poll(POLL_S)
        if message is None or message.error() is not None:
            continue
        settled += 1
        attempt = header_of(message, "attempt")
        if message.topic() == topics.dead:
            outcome = f"dead after attempt {attempt}: {header_of(message, 'reason')}"
        else:
            outcome = f"delivered by attempt {attempt}"
        message_id = header_of(message, "message-id")
        again = ", again: its message-id is known" if message_id in seen else ""
        seen.add(message_id)
        print(f"{name_of(message)}  {outcome}{again}")
    consumer.close()


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Retry with back-off, then dead letters.")
    server = os.environ.get("KAFKAESQUE_BOOTSTRAP_SERVER") or "127.0.0.1:9092"
    parser.add_argument("--bootstrap-server", default=server)
    unique = f"retry-{uuid.uuid4().hex[:8]}"
    parser.add_argument("--prefix", default=unique, help="what topics and group begin with")
    return parser.parse_args()


def make_topics(bootstrap_server: str, topics: list[str]) -> None:
    """Create topics of one partition and three copies."""
    admin = AdminClient({"bootstrap.servers": bootstrap_server})
    new = [NewTopic(topic, num_partitions=1, replication_factor=3) for topic in topics]
    for created in admin.create_topics(new).values():
        created.result()


def publish(bootstrap_server: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_server})
    for name, value in HOOKS.items():
        producer.produce(topic, key=name, value=value, on_delivery=raise_if_lost)
    producer.flush()


def start_worker(
    bootstrap_server: str, prefix: str, crash_at: str | None
) -> multiprocessing.process.BaseProcess:
    """Start a worker in a process of its own."""
    process = multiprocessing.get_context("spawn").Process(
        target=work, args=(bootstrap_server, prefix, crash_at), daemon=True
    )
    process.start()
    return process


if __name__ == "__main__":
    main()
