"""Compaction and retention against real brokers with real files: a topic as a table."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from tests.clients.cluster import KafkaesqueCluster
from tests.clients.kafka_helpers import (
    Sent,
    TopicMaker,
    consume,
    consume_all,
    error_of,
    produce,
    unique,
)
from tests.forked import processes
from tests.waiting import DEADLINE_S, eventually

#: scripts/test-clients runs them.
pytestmark = pytest.mark.extended

MIB = 1024 * 1024
#: Everything that is waited for comes soon.
QUICK = {
    "log.cleaner.backoff.ms": "100",
    "log.retention.check.interval.ms": "200",
}
#: A segment is closed by the record that comes this long after its first.
SEGMENT_S = 0.05
#: A broker is killed until so many kills have come in the middle of a run; most of them do.
CAUGHT, KILLS_MAX = 4, 25


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaesqueCluster]:
    directory = tmp_path_factory.mktemp("one")
    with KafkaesqueCluster(brokers=1, directory=directory, options=QUICK) as cluster:
        yield cluster


def maker(cluster: KafkaesqueCluster) -> TopicMaker:
    return TopicMaker(cluster.bootstrap_servers)


def homes(cluster: KafkaesqueCluster) -> list[Path]:
    """Return the brokers' data directories."""
    return [broker.log_path.parent / "data" for broker in cluster.brokers]


def segments(home: Path, topic: str) -> list[Path]:
    return sorted((home / f"{topic}-0").glob("*.log"))


def log_bytes(home: Path, topic: str) -> int:
    """Return how long the files of a partition's log are."""
    total = 0
    for path in segments(home, topic):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            pass  # It has just been deleted.
    return total


def disk_usage(home: Path, topic: str) -> int:
    """Return what a partition takes on the disk, in bytes, as `du` counts."""
    total = 0
    for path in (home / f"{topic}-0").iterdir():
        try:
            total += path.stat().st_blocks * 512
        except FileNotFoundError:
            pass  # It has just been replaced.
    return total


def table_of(messages: Sequence[Message]) -> dict[bytes, tuple[bytes, int]]:
    """Return the last value of each key, and its offset, for those that have one."""
    table: dict[bytes, tuple[bytes, int]] = {}
    for message in messages:
        key, value, offset = message.key(), message.value(), message.offset()
        assert isinstance(key, bytes)
        assert offset is not None
        table.pop(key, None)
        if value is not None:
            assert isinstance(value, bytes)
            table[key] = value, offset
    return table


def read_all(cluster: KafkaesqueCluster, topic: str) -> list[Message]:
    """Read what is there from the first offset to the end."""
    return consume_all(cluster.bootstrap_servers, topic)


def verify(*directories: Path) -> None:
    done = processes.run(
        [sys.executable, "-m", "kafkaesque.cli.app", "log", "verify", *map(str, directories)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_disk_shrinks_to_the_last_value_of_each_key(one: KafkaesqueCluster) -> None:
    topic = maker(one)(
        partitions=1, replication=1, cleanup_policy="compact", segment_bytes=str(MIB)
    )
    chance = random.Random(1)
    keys = [b"key-%02d" % number for number in range(50)]
    records = [Sent(key=chance.choice(keys), value=chance.randbytes(10_000)) for _ in range(5_000)]
    (home,) = homes(one)
    begun = time.monotonic()
    offsets = [message.offset() for message in produce(one.bootstrap_servers, topic, records)]
    written = sum(len(record.value or b"") for record in records)
    assert written == 50_000_000
    eventually(lambda: disk_usage(home, topic) < 5 * MIB, "the disk shrinks")
    print(f"{written / MIB:.1f} MiB written, {disk_usage(home, topic) / MIB:.2f} MiB left after "
          f"{time.monotonic() - begun:.1f} s")  # fmt: skip
    expected = {
        record.key: (record.value, offset) for record, offset in zip(records, offsets, strict=True)
    }
    assert table_of(read_all(one, topic)) == expected


def test_the_table_of_the_lectures(one: KafkaesqueCluster) -> None:
    """What follows on offset 9 is there to close the last segment."""
    topic = maker(one)(
        partitions=1,
        replication=1,
        cleanup_policy="compact",
        segment_ms="1",
        min_cleanable_dirty_ratio="0.01",
        delete_retention_ms="0",
    )
    log = [
        ("K1", "V0"), ("K1", None),
        ("K3", "V1"), ("K5", "V2"), ("K3", "V3"), ("K3", "V4"),
        ("K4", "V5"), ("K4", None), ("K5", "V7"), ("K6", "V8"),
    ]  # fmt: skip
    for offset, (key, value) in enumerate(log):
        sent = Sent(key=key.encode(), value=None if value is None else value.encode())
        (report,) = produce(one.bootstrap_servers, topic, [sent])
        assert report.offset() == offset
        time.sleep(SEGMENT_S)
    ends = [0]

    def rows() -> list[tuple[object, object, object]]:
        # Each round makes the segment before it one that can be cleaned.
        (report,) = produce(one.bootstrap_servers, topic, [Sent(key=b"end", value=b"")])
        ends[0] = report.offset() or 0
        time.sleep(SEGMENT_S)
        found = read_all(one, topic)
        return [(m.offset(), m.key(), m.value()) for m in found if m.key() != b"end"]

    expected = [(5, b"K3", b"V4"), (8, b"K5", b"V7"), (9, b"K6", b"V8")]
    eventually(lambda: rows() == expected, f"the table is {expected}")
    assert ends[0] >= 10, "offsets stay"


def test_retention_moves_the_start_on_all_replicas(tmp_path: Path) -> None:
    with KafkaesqueCluster(brokers=3, directory=tmp_path, options=QUICK) as cluster:
        make = maker(cluster)
        by_size = make("size", partitions=1, segment_bytes=str(MIB), retention_bytes=str(3 * MIB))
        by_time = make("time", partitions=1, segment_bytes=str(MIB), retention_ms="2000")
        both = make(
            "both",
            partitions=1,
            segment_bytes=str(MIB),
            retention_bytes=str(3 * MIB),
            cleanup_policy="compact,delete",
            min_cleanable_dirty_ratio="0.9",
        )
        values = [random.Random(seed).randbytes(100_000) for seed in range(100)]
        for topic in (by_size, by_time, both):
            keyed = [Sent(key=b"%d" % at, value=value) for at, value in enumerate(values)]
            produce(cluster.bootstrap_servers, topic, keyed)
        for topic, bytes_max in ((by_size, 4.2 * MIB), (both, 4.2 * MIB), (by_time, 1)):
            eventually(
                lambda: all(log_bytes(home, topic) <= bytes_max for home in homes(cluster)),  # noqa: B023
                f"{topic} shrinks on all brokers",
            )
        for topic in (by_size, both):
            first = consume(cluster.bootstrap_servers, topic, 1)[0].offset()
            assert first is not None
            assert 60 <= first <= 75, "the last 3 MiB and a segment are there"
            starts = {segments(home, topic)[0].name for home in homes(cluster)}
            assert len(starts) == 1, "followers begin where the leader does"
        assert read_all(cluster, by_time) == []
        (report,) = produce(cluster.bootstrap_servers, by_time, [b"next"])
        assert report.offset() == 100


def test_a_broker_that_is_killed_while_it_compacts_keeps_the_table(tmp_path: Path) -> None:
    chance = random.Random(7)
    options = {**QUICK, "log.cleaner.io.max.bytes.per.second": "10000000"}
    keys = [b"key-%03d" % number for number in range(200)]
    expected: dict[bytes | None, tuple[bytes | None, int | None]] = {}
    with KafkaesqueCluster(brokers=1, directory=tmp_path, options=options) as cluster:
        (broker,), (home,) = cluster.brokers, homes(cluster)
        topic = maker(cluster)(
            partitions=1, replication=1, cleanup_policy="compact", segment_bytes=str(MIB),
            min_cleanable_dirty_ratio="0.2",
        )  # fmt: skip

        def write(count: int) -> None:
            records = [
                Sent(key=chance.choice(keys), value=chance.randbytes(5_000)) for _ in range(count)
            ]
            reports = produce(cluster.bootstrap_servers, topic, records)
            for record, report in zip(records, reports, strict=True):
                expected[record.key] = record.value, report.offset()

        caught = 0
        for _ in range(KILLS_MAX):
            write(1_000)
            eventually(lambda: _is_compacting(home, topic), "a run begins")
            time.sleep(chance.uniform(0, 0.3))
            caught += _is_compacting(home, topic)
            broker.kill()
            verify(home)
            broker.start()
            cluster.wait_until_ready()
            if caught == CAUGHT:
                break
        assert caught == CAUGHT, "that many kills come in the middle of a run"
        assert table_of(read_all(cluster, topic)) == expected
        # What a start finds in the write-ahead log is in the open segment, which this closes.
        write(1)
        eventually(lambda: disk_usage(home, topic) < 5 * MIB, "compaction goes on")
        assert table_of(read_all(cluster, topic)) == expected
        # Of all those runs; the last one of its own accord.
        eventually(lambda: not _is_compacting(home, topic), "nothing is left behind")
        broker.stop()
        verify(home)


def _is_compacting(home: Path, topic: str) -> bool:
    return any((home / f"{topic}-0").glob("*.cleaned")) or any((home / f"{topic}-0").glob("*.swap"))


def test_a_replica_that_was_away_gets_what_the_others_have_kept(tmp_path: Path) -> None:
    with KafkaesqueCluster(brokers=3, directory=tmp_path, options=QUICK) as cluster:
        topic = maker(cluster)(
            partitions=1, cleanup_policy="compact", segment_bytes=str(MIB),
            min_cleanable_dirty_ratio="0.2",
        )  # fmt: skip
        chance = random.Random(11)
        expected: dict[bytes | None, tuple[bytes | None, int | None]] = {}

        def write(count: int) -> None:
            records = [
                Sent(key=b"key-%d" % chance.randrange(30), value=chance.randbytes(5_000))
                for _ in range(count)
            ]
            reports = produce(cluster.bootstrap_servers, topic, records)
            for record, report in zip(records, reports, strict=True):
                expected[record.key] = record.value, report.offset()

        write(1_000)
        away = cluster.brokers[2]
        away.kill()
        write(4_000)
        for home in homes(cluster)[:2]:
            eventually(lambda: disk_usage(home, topic) < 4 * MIB, "the others compact")  # noqa: B023
        away.start()
        cluster.wait_until_ready()
        write(1_000)
        for home in homes(cluster):
            eventually(lambda: disk_usage(home, topic) < 4 * MIB, "all compact")  # noqa: B023
        # Now, and not only later: the group's coordinator needs all brokers to come into being.
        assert table_of(read_all(cluster, topic)) == expected
        cluster.brokers[0].kill()
        eventually(
            lambda: table_of(read_all(cluster, topic)) == expected, "the others say the same"
        )
        for broker in cluster.brokers:
            broker.stop()
        verify(*homes(cluster))


def test_what_was_aborted_never_takes_a_key_from_what_was_committed(
    one: KafkaesqueCluster,
) -> None:
    topic = maker(one)(
        partitions=1,
        replication=1,
        cleanup_policy="compact",
        segment_bytes=str(MIB),
        min_cleanable_dirty_ratio="0.1",
        delete_retention_ms="0",
    )
    chance = random.Random(3)
    keys = [b"key-%02d" % number for number in range(20)]
    (broker,), (home,) = one.brokers, homes(one)
    expected: dict[bytes, bytes] = {}
    for _ in range(2):
        producer = Producer(
            {"bootstrap.servers": one.bootstrap_servers, "transactional.id": unique("writer")}
        )
        producer.init_transactions(DEADLINE_S)
        for number in range(60):
            producer.begin_transaction()
            written = {}
            for key in chance.sample(keys, 8):
                # Keys that only aborted transactions write have to vanish.
                key = key if number % 2 else key + b"x" * chance.randrange(2)
                written[key] = chance.randbytes(20_000)
                producer.produce(topic, key=key, value=written[key], partition=0)
            if number % 2:
                producer.commit_transaction(DEADLINE_S)
                expected |= written
            else:
                producer.flush(DEADLINE_S)
                producer.abort_transaction(DEADLINE_S)
        eventually(lambda: disk_usage(home, topic) < 4 * MIB, "the disk shrinks")
        for _ in range(2):
            found = consume_all(one.bootstrap_servers, topic, isolation_level="read_committed")
            assert {key: value for key, (value, _) in table_of(found).items()} == expected
            broker.stop()
            verify(home)
            broker.start()
            one.wait_until_ready()


def test_coordinators_remember_what_their_compacted_logs_say(tmp_path: Path) -> None:
    options = {
        **QUICK,
        "log.cleaner.max.compaction.lag.ms": "300",
        "log.cleaner.min.cleanable.ratio": "0.1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
    }
    with KafkaesqueCluster(brokers=1, directory=tmp_path, options=options) as cluster:
        (broker,), (home,) = cluster.brokers, homes(cluster)
        topic = maker(cluster)(partitions=1, replication=1)
        settings = {"bootstrap.servers": cluster.bootstrap_servers}
        writer = {**settings, "transactional.id": "writer"}
        reader = Consumer({**settings, "group.id": "reader", "enable.auto.commit": False})
        producer = Producer(writer)
        producer.init_transactions(DEADLINE_S)
        committed = 0

        def work() -> bool:
            nonlocal committed
            for _ in range(10):
                producer.begin_transaction()
                producer.produce(topic, b"value", partition=0)
                producer.commit_transaction(DEADLINE_S)
                committed += 1
                place = TopicPartition(topic, 0, committed)
                reader.commit(offsets=[place], asynchronous=False)
            return all(
                _first_offset(home, name) > 0
                for name in ("__consumer_offsets", "__transaction_state")
            )

        try:
            for _ in range(3):
                eventually(work, "both logs are compacted")
                broker.kill()
                broker.start()
                cluster.wait_until_ready()
                (place,) = reader.committed([TopicPartition(topic, 0)], DEADLINE_S)
                assert place.offset == committed
                follower = Producer(writer)
                follower.init_transactions(DEADLINE_S)
                producer.begin_transaction()
                producer.produce(topic, b"of a zombie", partition=0)
                assert error_of(lambda: producer.commit_transaction(DEADLINE_S)).fatal()  # noqa: B023
                producer = follower
        finally:
            reader.close()
        found = consume(
            cluster.bootstrap_servers, topic, committed, isolation_level="read_committed"
        )
        assert {message.value() for message in found} == {b"value"}


def _first_offset(home: Path, topic: str) -> int:
    """Return the offset of the first batch that is there."""
    with segments(home, topic)[0].open("rb") as file:
        return int.from_bytes(file.read(8), "big")
