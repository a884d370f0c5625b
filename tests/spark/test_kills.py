"""Exactly once through kills: driver, workers and brokers die, and each record arrives once."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

from tests.clients.cluster import KafkaesqueCluster
from tests.clients.kafka_helpers import Sent, TopicMaker, consume, produce
from tests.spark.query_app import LOCAL
from tests.spark.query_process import committed_count, running, wait_until

#: Far more than are copied between two kills, however late those come.
RECORDS = 15_000
PARTITIONS = 3


def test_each_record_arrives_once_whatever_is_killed(tmp_path: Path) -> None:
    dice = random.Random(7)
    log = tmp_path / "query.log"
    with KafkaesqueCluster(brokers=3, directory=tmp_path) as brokers:
        addresses = brokers.bootstrap_servers
        make = TopicMaker(addresses)
        source, sink = make(partitions=PARTITIONS), make(partitions=PARTITIONS)
        produce(
            addresses,
            source,
            [
                Sent(value=b"%d" % n, key=b"%d" % n if n % 2 else None, partition=n % PARTITIONS)
                for n in range(RECORDS)
            ],
        )
        arguments = [addresses, source, sink, str(tmp_path / "checkpoint")]
        for round_number in range(3):
            before = committed_count(addresses, sink, PARTITIONS)
            with running(arguments, log) as process:
                wait_until(process, log, addresses, sink, PARTITIONS, before + 1)
                if round_number == 1:
                    broker = dice.choice(brokers.brokers)
                    broker.kill()
                    time.sleep(dice.uniform(0.1, 1.0))
                    broker.start()
                    brokers.wait_until_ready()
                time.sleep(dice.uniform(0.0, 0.6))
        assert committed_count(addresses, sink, PARTITIONS) < RECORDS, "the kills came too late"
        # What is left is copied in one go.
        with running([*arguments, LOCAL, str(RECORDS)], log) as process:
            wait_until(process, log, addresses, sink, PARTITIONS, RECORDS)
            messages = consume(
                addresses, sink, RECORDS, isolation_level="read_committed", at_rest_s=3.0
            )
    found = Counter(message.value() for message in messages)
    assert found == Counter(b"copy of %d" % number for number in range(RECORDS))
