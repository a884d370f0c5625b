"""Fan-out: send many records at once, then wait for all the answers.

    kafkaesque up --brokers 3
    python examples/fan_out.py --bootstrap-server 127.0.0.1:9092

The example first sends letters without a transaction; one of them is too large. Then it sends more
letters in a transaction. The sender is killed (SIGKILL) when half of them are written, and is
started again:

    delivered     4999 of 5000 in 0.76 s
    failed        reader-00017: Unable to produce message: Broker: Message size too large
    killed        when 2500 were written, of which readers see 0
    sent again    readers see 5000

To send a record, wait for its acknowledgement and send the next one costs a round trip and a sync
to disk for each. A thousand records that are sent without waiting share a few of them. But then the
sender must find out afterwards what happened to each record:

    1. send all: each gets a future, and the number in flight is bounded
    2. wait until every future is done, at the latest after `delivery.timeout.ms`
    3. look at every future, and decide

The bound in step 1 keeps a slow cluster from filling the sender's memory. Step 3 is the only place
to look at: a record that cannot even be sent gets its error in the future, too.

The client retries by itself for `delivery.timeout.ms`. After that, a record is one of three:

- *delivered*: a majority has it on disk (`acks=all`, the client's default).
- *refused*: for example, it is too large. Sending it again changes nothing, so tell somebody. Here
  it is printed; `retry_and_dead_letters.py` does more.
- *in doubt*: time ran out. The record may be in the topic; only the answer is missing. The example
  sends it once more, so it may be in the topic twice. Therefore each record names its letter, and
  readers ignore a letter that they have already seen.

If the sender itself is killed, some records are sent and some are not, and nobody knows which. To
avoid that, send all of them in one transaction. When the next sender calls `init_transactions` (or
when the transaction times out), the brokers abort what the killed sender began, and readers with
`read_committed` see none of it. The next sender sends all again. The price is that readers see the
first record only after the last one is sent.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import time
import uuid
from concurrent.futures import Future
from dataclasses import dataclass, field

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

PARTITIONS = 6
#: Letters in flight at a time. More only fill memory; fewer leave the brokers waiting.
UNDER_WAY_MAX = 1000
#: How long the client retries by itself.
DELIVERY_TIMEOUT_MS = 10_000
#: How often a letter in doubt is sent, in all.
ROUNDS_MAX = 5
#: The client refuses larger letters.
LETTER_BYTES_MAX = 100_000
TIMEOUT_S = 60.0
#: Errors that will be the same the next time.
REFUSALS = (
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.INVALID_MSG,
    KafkaError.INVALID_RECORD,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError._UNKNOWN_PARTITION,
)


@dataclass
class Outcome:
    """What became of the letters, by their keys."""

    delivered: dict[str, Message] = field(default_factory=dict)
    refused: dict[str, KafkaError] = field(default_factory=dict)
    in_doubt: dict[str, KafkaError] = field(default_factory=dict)


class FanOut:
    """Sends without waiting for answers.

    There is no thread of its own: answers come in while the producer is polled, and all methods
    here do that.
    """

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self._under_way = 0

    def send(self, key: str, value: bytes) -> Future[Message]:
        """Return at once, or as soon as one less than the bound is under way."""
        while self._under_way >= UNDER_WAY_MAX:
            self._producer.poll(0.1)
        answer: Future[Message] = Future()

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            self._under_way -= 1
            if error is None:
                answer.set_result(message)
            else:
                answer.set_exception(KafkaException(error))

        self._under_way += 1
        try:
            self._producer.produce(self._topic, value, key, on_delivery=on_delivery)
        except KafkaException as refused:
            self._under_way -= 1
            answer.set_exception(refused)
        except BufferError:  # The client's own queue is full.
            self._under_way -= 1
            answer.set_exception(KafkaException(KafkaError(KafkaError._QUEUE_FULL)))
        self._producer.poll(0)
        return answer

    def wait_for_all(self) -> None:
        while self._under_way:
            self._producer.poll(0.1)


def send_all(producer: Producer, topic: str, letters: dict[str, bytes]) -> Outcome:
    """Send all letters and return what became of each; what is in doubt is sent again."""
    fan_out, outcome = FanOut(producer, topic), Outcome()
    left = letters
    for _ in range(ROUNDS_MAX):
        answers = {key: fan_out.send(key, value) for key, value in left.items()}
        fan_out.wait_for_all()
        outcome.in_doubt = {}
        for key, answer in answers.items():
            raised = answer.exception()
            if raised is None:
                outcome.delivered[key] = answer.result()
            elif raised.args[0].code() in REFUSALS:
                outcome.refused[key] = raised.args[0]
            else:
                outcome.in_doubt[key] = raised.args[0]
        left = {key: letters[key] for key in outcome.in_doubt}
        if not left:
            break
        print(f"in doubt      {len(left)}, sent again", flush=True)
    return outcome


def send_all_or_none(
    bootstrap_server: str, topic: str, letters: dict[str, bytes], is_to_crash: bool
) -> None:
    """Send all letters in one transaction; a process of its own."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_server,
            # The same name at each start: it identifies the transaction that may have to end.
            "transactional.id": topic,
            "message.max.bytes": LETTER_BYTES_MAX,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    keys = sorted(letters)
    if is_to_crash:
        keys = keys[: len(keys) // 2]
    fan_out = FanOut(producer, topic)
    answers = [fan_out.send(key, letters[key]) for key in keys]
    fan_out.wait_for_all()
    if is_to_crash:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        for answer in answers:
            answer.result()  # Raises its error, if it has one.
        producer.commit_transaction(TIMEOUT_S)
    except KafkaException:
        producer.abort_transaction(TIMEOUT_S)
        raise


# -- the scenario


def main() -> None:
    arguments = parse_arguments()
    server, prefix, count = arguments.bootstrap_server, arguments.prefix, arguments.letters
    topics = [f"{prefix}.letters", f"{prefix}.all-or-none"]
    admin = AdminClient({"bootstrap.servers": server})
    for created in admin.create_topics([NewTopic(each, PARTITIONS, 3) for each in topics]).values():
        created.result()

    letters = {f"reader-{number:05}": b"dear reader" for number in range(count)}
    unhappy = {**letters, "reader-00017": bytes(2 * LETTER_BYTES_MAX)}
    settings = {
        "bootstrap.servers": server,
        "enable.idempotence": True,
        "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
        "message.max.bytes": LETTER_BYTES_MAX,
    }
    begun = time.monotonic()
    with Producer(settings) as producer:
        outcome = send_all(producer, topics[0], unhappy)
    seconds = time.monotonic() - begun
    print(f"delivered     {len(outcome.delivered)} of {count} in {seconds:.2f} s")
    for key, error in {**outcome.refused, **outcome.in_doubt}.items():
        print(f"failed        {key}: {error.str()}")

    run_sender(server, topics[1], letters, is_to_crash=True)
    written, seen = (len(read_all(server, topics[1], is_committed=each)) for each in (False, True))
    print(f"killed        when {written} were written, of which readers see {seen}")
    run_sender(server, topics[1], letters, is_to_crash=False)
    print(f"sent again    readers see {len(read_all(server, topics[1], is_committed=True))}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Fan-out of sends, with failures and a crash.")
    server = os.environ.get("KAFKAESQUE_BOOTSTRAP_SERVER") or "127.0.0.1:9092"
    parser.add_argument("--bootstrap-server", default=server)
    unique = f"fan-out-{uuid.uuid4().hex[:8]}"
    parser.add_argument("--prefix", default=unique, help="what topics begin with")
    parser.add_argument("--letters", type=int, default=5000)
    return parser.parse_args()


def run_sender(server: str, topic: str, letters: dict[str, bytes], *, is_to_crash: bool) -> None:
    process = multiprocessing.get_context("spawn").Process(
        target=send_all_or_none, args=(server, topic, letters, is_to_crash), daemon=True
    )
    process.start()
    process.join(TIMEOUT_S)
    if process.exitcode != (-signal.SIGKILL if is_to_crash else 0):
        raise SystemExit(f"the sender ended with {process.exitcode}")


def read_all(bootstrap_server: str, topic: str, *, is_committed: bool) -> list[str]:
    """Return the keys of all letters that such a reader sees."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_server,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if is_committed else "read_uncommitted",
            # A broker waits this long before it answers that there is nothing more.
            "fetch.wait.max.ms": 10,
        }
    )
    consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(PARTITIONS)])
    keys: list[str] = []
    ended: set[int | None] = set()
    while len(ended) < PARTITIONS:
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is None:
            keys.append((message.key() or b"").decode())
        elif error.code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition())
    consumer.close()
    return keys


if __name__ == "__main__":
    main()
