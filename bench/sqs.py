"""Amazon SQS side by side with ElasticMQ: `python -m bench.sqs`.

One broker of ours and one ElasticMQ, each with a standard queue. Eight connections send and eight
receive and delete, ten messages a call, over urllib3's pool, which is boto3's; calls are not
signed, and their bodies are made once, so that clients cost little. Rounds alternate, after one
that is not counted. Each ratio is the median of those of the rounds; above 1 ours is better.

ElasticMQ keeps messages in memory. Ours writes each message and each decision to its log before it
answers, and syncs it: that is a queue's default.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from statistics import median
from typing import Final

import msgspec
import urllib3

from bench.maven import PeerUnavailableError, dependency, fetch_jars, find_java
from bench.processes import cpu_seconds
from kafkaesque.cli.broker_ports import unused_ports
from tests.clients.sqs_cluster import SqsCluster, sqs_client

SKIPPED: Final = 3
#: Connections of each side, and messages in a call, which is the most that SQS allows.
CONNECTIONS: Final = 8
BATCH: Final = 10
#: Sent and not deleted yet, at most.
WAITING_MAX: Final = 5_000
READY_S: Final = 60.0
OURS, PEER = "ours", "ElasticMQ"
PEER_VERSION: Final = "1.6.14"
_CONFIGURATION: Final = """include classpath("application.conf")
node-address {{ protocol = http, host = "127.0.0.1", port = {port}, context-path = "" }}
rest-sqs {{ enabled = true, bind-port = {port}, bind-hostname = "127.0.0.1" }}
rest-stats {{ enabled = false }}
"""


class _Message(msgspec.Struct, rename="pascal"):
    receipt_handle: str


class _Received(msgspec.Struct, rename="pascal"):
    messages: list[_Message] = []


@dataclass(slots=True)
class Side:
    """A server of SQS, and what was measured of it."""

    name: str
    url: str
    pid: int
    #: Of a round each: messages a second, and microseconds of the server's processor for one.
    rates: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)


class Calls:
    """Calls of SQS's JSON protocol over one pool of connections."""

    def __init__(self, url: str, queue_url: str) -> None:
        self._url, self._queue_url = f"{url}/", queue_url
        self._pool = urllib3.PoolManager(maxsize=CONNECTIONS, block=True)

    def call(self, operation: str, **arguments: object) -> bytes:
        return self.send(operation, self.body(**arguments))

    def body(self, **arguments: object) -> bytes:
        return msgspec.json.encode({"QueueUrl": self._queue_url, **arguments})

    def send(self, operation: str, body: bytes) -> bytes:
        answer = self._pool.request(
            "POST",
            self._url,
            body=body,
            headers={
                "Content-Type": "application/x-amz-json-1.0",
                "X-Amz-Target": f"AmazonSQS.{operation}",
            },
        )
        if answer.status != 200 or b'"Failed":[{' in answer.data:
            raise RuntimeError(f"{operation}: {answer.status} {answer.data!r}")
        return answer.data


@dataclass(frozen=True, slots=True)
class Counts:
    """What clients in all processes have done so far."""

    sent: Synchronized[int]
    deleted: Synchronized[int]
    is_over: Synchronized[int]


def send(calls: Calls, counts: Counts, size: int) -> None:
    """Send batches until it is over."""
    entries = [{"Id": str(at), "MessageBody": "x" * size} for at in range(BATCH)]
    body = calls.body(Entries=entries)
    while not counts.is_over.value:
        if counts.sent.value - counts.deleted.value > WAITING_MAX:
            time.sleep(0.001)
            continue
        calls.send("SendMessageBatch", body)
        with counts.sent.get_lock():
            counts.sent.value += BATCH


def receive(calls: Calls, counts: Counts) -> None:
    """Receive batches and delete them until it is over."""
    body = calls.body(MaxNumberOfMessages=BATCH, WaitTimeSeconds=1)
    while not counts.is_over.value:
        received = msgspec.json.decode(calls.send("ReceiveMessage", body), type=_Received)
        if not received.messages:
            continue
        entries = [
            {"Id": str(at), "ReceiptHandle": each.receipt_handle}
            for at, each in enumerate(received.messages)
        ]
        calls.call("DeleteMessageBatch", Entries=entries)
        with counts.deleted.get_lock():
            counts.deleted.value += len(entries)


def _client(side: str, url: str, queue_url: str, counts: Counts, size: int) -> None:
    calls = Calls(url, queue_url)
    work = partial(send, calls, counts, size) if side == "send" else partial(receive, calls, counts)
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        try:
            for each in as_completed([pool.submit(work) for _ in range(CONNECTIONS)]):
                each.result()
        finally:
            # One that has failed ends the others, and its process ends with an error.
            counts.is_over.value = 1


def one_round(side: Side, number: int, seconds: float, size: int) -> None:
    """Send, receive and delete through a queue of its own."""
    with sqs_client(side.url) as client:
        queue_url = client.create_queue(QueueName=f"round-{number + 1}")["QueueUrl"]
    context = multiprocessing.get_context("spawn")
    counts = Counts(context.Value("q", 0), context.Value("q", 0), context.Value("q", 0))
    clients = [
        context.Process(target=_client, args=(name, side.url, queue_url, counts, size))
        for name in ("send", "receive")
    ]
    for each in clients:
        each.start()
    while counts.deleted.value < 10 * BATCH * CONNECTIONS:
        time.sleep(0.01)
        if any(each.exitcode for each in clients):
            raise RuntimeError(f"a client of {side.name} has failed")
    before, used, begun = counts.deleted.value, cpu_seconds(side.pid), time.monotonic()
    time.sleep(seconds)
    done, took = counts.deleted.value - before, time.monotonic() - begun
    used = cpu_seconds(side.pid) - used
    counts.is_over.value = 1
    for each in clients:
        each.join()
    if any(each.exitcode for each in clients):
        raise RuntimeError(f"a client of {side.name} has failed")
    if number >= 0:
        side.rates.append(done / took)
        side.cpu_us.append(1e6 * used / max(1, done))


@contextmanager
def running(home: Path) -> Iterator[list[Side]]:
    """Run both servers.

    Raises:
        PeerUnavailableError: Java, Maven or ElasticMQ cannot be had here.
    """
    server = dependency("org.elasticmq", "elasticmq-server_2.13", PEER_VERSION)
    java, jars = find_java(PEER), fetch_jars(f"elasticmq-{PEER_VERSION}", server, PEER)
    (port,) = unused_ports(1)
    configuration = home / "elasticmq.conf"
    configuration.write_text(_CONFIGURATION.format(port=port))
    command = [java, "-Xms1G", "-Xmx1G", f"-Dconfig.file={configuration}", "-cp", f"{jars}/*"]
    (home / "ours").mkdir()
    with (
        (home / "elasticmq.log").open("wb") as log,
        SqsCluster(1, home / "ours") as cluster,
        subprocess.Popen(
            [*command, "org.elasticmq.server.Main"], stdout=log, stderr=subprocess.STDOUT, cwd=home
        ) as elasticmq,
    ):
        try:
            peer = Side(PEER, f"http://127.0.0.1:{port}", elasticmq.pid)
            _wait_until_ready(peer, elasticmq)
            yield [Side(OURS, cluster.url(), cluster.brokers[0].pid), peer]
        finally:
            elasticmq.kill()


def _wait_until_ready(side: Side, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + READY_S
    while True:
        try:
            urllib3.request("GET", side.url, retries=False, timeout=1.0)
        except urllib3.exceptions.HTTPError as error:
            if process.poll() is not None or time.monotonic() > until:
                raise PeerUnavailableError(
                    f"{side.name} is left out: it does not answer"
                ) from error
            time.sleep(0.1)
        else:
            return


def report(sides: Sequence[Side]) -> None:
    """Print rates, and ours against the peer's."""
    ours, peer = sides
    ratio = median(a / b for a, b in zip(ours.rates, peer.rates, strict=True))
    for each in sides:
        print(
            f"{each.name:10} {median(each.rates):>9,.0f} messages/s sent, received and deleted, "
            f"{median(each.cpu_us):6.1f} us of the server's processor for one"
        )
    print(f"ratio {ratio:.2f}x, rounds {json.dumps([round(each) for each in ours.rates])}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="of a round")
    parser.add_argument("--bytes", type=int, default=1_024)
    given = parser.parse_args(arguments)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="bench-sqs-") as folder,
            running(Path(folder)) as sides,
        ):
            for number in range(-1, given.rounds):
                # Who comes first has no advantage on average.
                for side in sides if number % 2 else sides[::-1]:
                    one_round(side, number, given.seconds, given.bytes)
            report(sides)
    except PeerUnavailableError as error:
        print(f"skipped: {error}", file=sys.stderr)
        return SKIPPED
    return 0


if __name__ == "__main__":
    sys.exit(main())
