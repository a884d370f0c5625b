"""Many consumers over few partitions, and one key whose messages always fail: what the others keep.

    .venv/bin/python -m bench.poison_key [--turns 3] [--messages 20000] [--consumers 64]
        [--partitions 4] [--keys 256] [--poison 50] [--hold 0.5] [--batch 4] [--brokers 1]

A queue over a topic, with `ordered.groups`: records of a key are handed out one after the other. In
turns, the queue has good messages alone, or messages of a poisonous key before them. Whoever gets
one of those keeps it for `--hold` seconds, and it fails. What is printed is how many good messages
a second were settled in each turn, and the ratio: with the poison to without it. Brokers and
consumers run on this machine.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.queue_wire import TIMEOUT_MS, Link
from kafkaesque.model.records import decode_batch
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.messages.create_queue_request import CreateQueueRequest, SetOption
from kafkaesque.protocols.kafka.messages.delete_queue_request import DeleteQueueRequest
from kafkaesque.protocols.kafka.messages.settle_messages_request import (
    Claim,
    SettleMessagesRequest,
)
from kafkaesque.protocols.kafka.messages.take_messages_request import TakeMessagesRequest
from tests.clients.cluster import KafkaesqueCluster

POISON = b"poison"
TAKE_BYTES_MAX = 4 * 1024 * 1024
TURN_S_MAX = 600.0
_ACCEPT, _RELEASE = 0, 1


class Turn:
    """What the consumers of one turn have done."""

    def __init__(self, queue: str, good: int) -> None:
        self.queue = queue
        self._left = good
        self._lock = threading.Lock()
        #: When the first and the last good message was settled.
        self.begun_s = self.ended_s = 0.0
        self.held = 0
        self.is_over = threading.Event()

    def settled(self, count: int) -> None:
        with self._lock:
            now_s = time.monotonic()
            self.begun_s = self.begun_s or now_s
            self._left -= count
            if self._left <= 0 and not self.is_over.is_set():
                self.ended_s = now_s
                self.is_over.set()

    def hold(self, seconds: float) -> None:
        with self._lock:
            self.held += not self.is_over.is_set()
        self.is_over.wait(seconds)


def consume(address: str, turn: Turn, batch: int, hold_s: float) -> None:
    """Take messages until all good ones are settled; those of the poisonous key fail."""
    link = Link(address)
    request = TakeMessagesRequest("/", turn.queue, 0, batch, TAKE_BYTES_MAX, wait_ms=500)

    def settle(action: int, partition: int, claims: list[Claim]) -> None:
        asked = SettleMessagesRequest(
            "/",
            turn.queue,
            action,
            claims,
            is_failed=action == _RELEASE,
            timeout_ms=TIMEOUT_MS,
            partition=partition,
        )
        if claims:
            link.ask(ApiKey.SETTLE_MESSAGES, asked)

    while not turn.is_over.is_set():
        taken = link.ask(ApiKey.TAKE_MESSAGES, request)
        if taken.records is None:
            continue
        good: list[Claim] = []
        bad: list[Claim] = []
        for record, attempt in zip(
            decode_batch(taken.records, 1 << 30), taken.attempts, strict=True
        ):
            claims = bad if record.key == POISON else good
            claims.append(Claim(record.offset, record.offset + 1, attempt))
        settle(_ACCEPT, taken.partition, good)
        if good:
            turn.settled(len(good))
        if bad:
            turn.hold(hold_s)
            settle(_RELEASE, taken.partition, bad)


def fill(cluster: KafkaesqueCluster, topic: str, options: argparse.Namespace, poison: int) -> None:
    """Make a topic with the messages of one turn, the poisonous ones first."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    made = admin.create_topics([NewTopic(topic, options.partitions, options.brokers)])
    made[topic].result()
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 5}
    producer = Producer({**settings, "partitioner": "murmur2_random"})
    keys = [POISON] * poison
    keys += [b"key-%d" % (number % options.keys) for number in range(options.messages)]
    for key in keys:
        producer.produce(topic, key=key, value=bytes(100))
        producer.poll(0)
    producer.flush()


def run_turn(
    cluster: KafkaesqueCluster, number: int, options: argparse.Namespace, poison: int
) -> float:
    """Return how many good messages a second were settled."""
    name = f"turn-{number}-{poison}"
    fill(cluster, name, options, poison)
    address = cluster.brokers[0].address
    chosen = {"source.topic": name, "source.start": "earliest", "ordered.groups": "true"}
    create = CreateQueueRequest(
        "/", name, options=[SetOption(*each) for each in chosen.items()], timeout_ms=TIMEOUT_MS
    )
    Link(address).ask(ApiKey.CREATE_QUEUE, create)
    turn = Turn(name, options.messages)
    threads = [
        threading.Thread(
            target=consume,
            args=(
                cluster.brokers[at % options.brokers].address,
                turn,
                options.batch,
                options.hold,
            ),
            daemon=True,
        )
        for at in range(options.consumers)
    ]
    for thread in threads:
        thread.start()
    if not turn.is_over.wait(TURN_S_MAX):
        raise SystemExit(f"not all good messages were settled within {TURN_S_MAX:g} s")
    for thread in threads:
        thread.join()
    if poison and not turn.held:
        raise SystemExit("nobody was given a poisonous message: nothing was measured")
    Link(address).ask(ApiKey.DELETE_QUEUE, DeleteQueueRequest("/", name, TIMEOUT_MS))
    rate: float = options.messages / (turn.ended_s - turn.begun_s)
    what = f"with the poison ({turn.held} times in hand)" if poison else "without"
    print(f"  {rate:,.0f} good messages/s {what}", flush=True)
    return rate


def main(arguments: Sequence[str]) -> int:
    """Run the turns and print the ratio."""
    parser = argparse.ArgumentParser(prog="bench.poison_key", description=__doc__)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--consumers", type=int, default=64)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--keys", type=int, default=256)
    parser.add_argument("--poison", type=int, default=50)
    parser.add_argument("--hold", type=float, default=0.5)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--brokers", type=int, default=1)
    options = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory() as directory,
        KafkaesqueCluster(brokers=options.brokers, directory=Path(directory)) as cluster,
    ):
        plain: list[float] = []
        poisoned: list[float] = []
        for number in range(options.turns):
            plain.append(run_turn(cluster, number, options, 0))
            poisoned.append(run_turn(cluster, number, options, options.poison))
    ratios = [with_it / without for with_it, without in zip(poisoned, plain, strict=True)]
    print(
        f"{options.consumers} consumers, {options.partitions} partitions, one poisonous key: the "
        f"others keep {100 * sum(poisoned) / sum(plain):.1f}% of their throughput "
        f"({', '.join(f'{100 * each:.1f}%' for each in ratios)})"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
