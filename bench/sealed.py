"""What encryption at rest costs: `python -m bench.sealed`.

One broker with two topics, one of them encrypted; rounds alternate between them, so that all meet
the same machine. Processor time is the broker's alone, of one core. With `--before PYTHON`, the
interpreter of an earlier checkout, topics in the clear are compared with those of that checkout,
too: they must cost the same, within 2%.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.processes import BrokerProcess, wait_until_ready
from kafkaesque.cli.broker_ports import unused_ports

READY_S = 60.0
TIMEOUT_S = 120.0
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_FILE = """\
[broker]
id = 1
cluster.id = "bench"
data = "{data}"
kafka.port = {port}
peer.port = {peer}
text.port = 0
admin.port = 0
log.level = "warning"
{keeper}
[controllers]
1 = "127.0.0.1:{peer}"
"""


@dataclass
class Way:
    """One kind of topic at one broker, and what it has cost."""

    name: str
    broker: BrokerProcess
    options: dict[str, str]
    #: Seconds of wall clock and of the broker's processor, by what was done.
    costs: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def measure(self, what: str, work: Callable[[], None]) -> None:
        cpu, begun = self.broker.cpu_seconds(), time.perf_counter()
        work()
        took = time.perf_counter() - begun
        self.costs.setdefault(what, []).append((took, self.broker.cpu_seconds() - cpu))


def start(home: Path, python: str, *, has_keeper: bool) -> BrokerProcess:
    home.mkdir()
    port, peer = unused_ports(2)
    keys = home / "keeper.keys"
    keys.touch(mode=0o600)
    keys.write_bytes(b64encode(bytes(range(32))))
    keeper = f'key.keeper.file = "{keys}"\n' if has_keeper else ""
    path = home / "broker.toml"
    path.write_text(_FILE.format(data=home / "data", port=port, peer=peer, keeper=keeper))
    command = [python, "-m", "kafkaesque.server", "--config", str(path)]
    broker = BrokerProcess(command, log_path=home / "broker.log", port=port)
    broker.start()
    wait_until_ready(broker, brokers=1, timeout_s=READY_S)
    return broker


def produce(way: Way, topic: str, megabytes: int, record_bytes: int) -> None:
    producer = Producer(
        {"bootstrap.servers": way.broker.address, "linger.ms": 5, "batch.size": 1_000_000}
    )
    value = bytes(record_bytes)
    for _ in range(megabytes * 1_000_000 // record_bytes):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(TIMEOUT_S) == 0


def fetch(way: Way, topic: str, megabytes: int, record_bytes: int) -> None:
    consumer = Consumer({"bootstrap.servers": way.broker.address, "group.id": "bench"})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    left, end = megabytes * 1_000_000 // record_bytes, time.monotonic() + TIMEOUT_S
    while left > 0:
        assert time.monotonic() < end, "the records do not come"
        left -= len(consumer.consume(min(left, 10_000), 0.5))
    consumer.close()


def run(ways: Sequence[Way], rounds: int, megabytes: int, sizes: Sequence[int]) -> None:
    for number in range(rounds):
        for size in sizes:
            # Who is first has no advantage on average.
            for way in ways if number % 2 else reversed(ways):
                topic = f"t{number}-{size}-{''.join(each for each in way.name if each.isalpha())}"
                admin = AdminClient({"bootstrap.servers": way.broker.address})
                admin.create_topics([NewTopic(topic, 1, 1, config=way.options)])[topic].result()
                time.sleep(1)
                way.measure(
                    f"produce {size} B",
                    lambda: produce(way, topic, megabytes, size),  # noqa: B023
                )
                way.measure(
                    f"fetch {size} B",
                    lambda: fetch(way, topic, megabytes, size),  # noqa: B023
                )
                admin.delete_topics([topic])[topic].result()
    for what in ways[0].costs:
        print(what)
        first = [cpu for _, cpu in ways[0].costs[what]]
        for way in ways:
            walls = [wall for wall, _ in way.costs[what]]
            # A round that is shorter than a tick of the processor's clock has cost a tick.
            ratios = [
                max(a, _TICK_S) / max(b, _TICK_S)
                for a, (_, b) in zip(first, way.costs[what], strict=True)
            ]
            rates = [wall / own for (wall, _), own in
                     zip(ways[0].costs[what], walls, strict=True)]  # fmt: skip
            print(
                f"  {way.name:20} {megabytes / median(walls):8.1f} MB/s  "
                f"{median([cpu for _, cpu in way.costs[what]]) * 1000 / megabytes:6.2f} s CPU/GB  "
                f"{median(rates):5.2f}x rate, {median(ratios):5.2f}x by CPU"
            )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1_000, 100_000])
    parser.add_argument("--before", help="interpreter of an earlier checkout")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as parent:
        home = Path(parent)
        broker = start(home / "now", sys.executable, has_keeper=True)
        brokers = [broker]
        ways = [Way("clear", broker, {}), Way("sealed", broker, {"encryption": "aes256-gcm"})]
        try:
            if given.before:
                brokers.append(start(home / "before", given.before, has_keeper=False))
                ways.append(Way("clear before", brokers[1], {}))
            run(ways, given.rounds, given.megabytes, given.sizes)
        finally:
            for each in brokers:
                each.stop()


if __name__ == "__main__":
    main()
