"""Encrypted topics: clients notice nothing, and the disk holds nothing that could be read."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer

from tests.clients.kafka_helpers import Sent, TopicMaker, consume, consume_all, produce, unique
from tests.clients.sealing_cluster import SealingCluster, files_with
from tests.clients.transactional_clients import Librdkafka
from tests.forked import processes
from tests.waiting import DEADLINE_S, eventually

HIDDEN, SHOWN = b"these words are not to be found", b"these words may be found"
QUICK = {"log.cleaner.backoff.ms": "100", "log.retention.check.interval.ms": "200"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SealingCluster]:
    directory = tmp_path_factory.mktemp("sealed")
    with SealingCluster(3, directory=directory, options=QUICK) as made:
        yield made


def values(topic: str, cluster: SealingCluster) -> list[bytes]:
    return sorted(
        message.value() or b"" for message in consume_all(cluster.bootstrap_servers, topic)
    )


def rotate_brokers(cluster: SealingCluster) -> None:
    """Kill one broker after the other: each partition has had another leader then."""
    for broker in cluster.brokers:
        broker.kill()
        broker.start()
        cluster.wait_until_ready()


def test_no_file_holds_what_was_produced_by_any_client(cluster: SealingCluster) -> None:
    servers = cluster.bootstrap_servers
    make = TopicMaker(servers)
    topic, plain = make(encryption="aes256-gcm"), make()
    sent = [b"%d %s" % (number, HIDDEN) for number in range(300)]
    produce(servers, topic, sent[:100], compression_type="none")
    with closing(KafkaProducer(bootstrap_servers=servers.split(","), acks="all")) as producer:
        for value in sent[100:200]:
            producer.send(topic, value)
        producer.flush(DEADLINE_S)

    async def by_aiokafka() -> list[bytes]:
        producer = AIOKafkaProducer(bootstrap_servers=servers, acks="all", enable_idempotence=True)
        await producer.start()
        for value in sent[200:]:
            await producer.send_and_wait(topic, value)
        await producer.stop()
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=servers, auto_offset_reset="earliest", group_id=None
        )
        await consumer.start()
        found = [(await consumer.getone()).value for _ in sent]
        await consumer.stop()
        return found

    assert sorted(asyncio.run(asyncio.wait_for(by_aiokafka(), DEADLINE_S))) == sorted(sent)
    produce(servers, plain, [SHOWN], compression_type="none")
    assert values(topic, cluster) == sorted(sent)
    with closing(
        KafkaConsumer(
            topic, bootstrap_servers=servers.split(","), auto_offset_reset="earliest",
            consumer_timeout_ms=3_000,
        )
    ) as consumer:  # fmt: skip
        assert sorted(record.value for record in consumer) == sorted(sent)
    rotate_brokers(cluster)
    assert values(topic, cluster) == sorted(sent)
    produce(servers, topic, [HIDDEN], compression_type="none")
    assert values(topic, cluster) == sorted([*sent, HIDDEN])
    assert files_with(cluster, SHOWN), "what is in the clear would have been found"
    assert files_with(cluster, HIDDEN) == []


def test_records_are_found_by_their_time(cluster: SealingCluster) -> None:
    servers = cluster.bootstrap_servers
    topic = TopicMaker(servers)(partitions=1, encryption="aes256-gcm")
    # One batch, so that the search goes on within it.
    sent = [Sent(value=HIDDEN, timestamp_ms=1_000 + number) for number in range(50)]
    produce(servers, topic, sent, linger_ms=500)
    consumer = Consumer({"bootstrap.servers": servers, "group.id": unique("times")})
    try:
        (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, 1_033)], DEADLINE_S)
    finally:
        consumer.close()
    assert found.offset == 33


def test_transactions_are_seen_as_a_whole(cluster: SealingCluster) -> None:
    servers = cluster.bootstrap_servers
    topic = TopicMaker(servers)(partitions=1, encryption="aes256-gcm")
    client = Librdkafka(servers, unique("sealed"))
    for name, ends in ((b"1", client.commit), (b"2", client.abort), (b"3", client.commit)):
        client.begin()
        client.send(topic, 0, name)
        client.flush()
        ends()
    client.close()
    assert values(topic, cluster) == [b"1", b"3"]
    rotate_brokers(cluster)
    assert values(topic, cluster) == [b"1", b"3"]


@pytest.mark.extended
def test_a_table_is_compacted_and_stays_sealed(cluster: SealingCluster) -> None:
    servers = cluster.bootstrap_servers
    topic = TopicMaker(servers)(
        partitions=1, cleanup_policy="compact", segment_bytes="1048576",
        min_cleanable_dirty_ratio="0.01", encryption="aes256-gcm",
    )  # fmt: skip
    expected: dict[bytes, bytes] = {}
    for round_ in range(20):
        records = []
        for number in range(100):
            if number and (number + round_) % 3 == 0:
                continue  # Batches of a later round leave records of an earlier one.
            key = b"%s %d" % (HIDDEN, number)
            expected[key] = b"%d %s" % (round_, HIDDEN * 300)
            records.append(Sent(key=key, value=expected[key]))
        produce(servers, topic, records, linger_ms=100, compression_type="none")
    data = [broker.log_path.parent / "data" / f"{topic}-0" for broker in cluster.brokers]

    def size(home: Path) -> int:
        return sum(path.stat().st_size for path in home.glob("*.log"))

    def is_compacted() -> bool:
        try:
            return all(size(home) < 5_000_000 for home in data)
        except FileNotFoundError:
            return False  # It has just been replaced.

    before = [size(home) for home in data]
    eventually(is_compacted, f"the logs of {before} bytes shrink")
    rotate_brokers(cluster)
    read = consume_all(servers, topic)
    assert {message.key(): message.value() for message in read} == expected
    assert len(read) < 1_000, "what is over was left out"
    stop_and_look(cluster, topic)
    assert files_with(cluster, HIDDEN) == []


def stop_and_look(cluster: SealingCluster, topic: str) -> None:
    """Have the offline tools look at the replicas, which have compacted each by itself."""
    for broker in cluster.brokers:
        broker.stop()
    homes = [str(broker.log_path.parent / "data") for broker in cluster.brokers]
    command = [sys.executable, "-m", "kafkaesque.cli.app", "log"]
    done = processes.run([*command, "verify", *homes], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    dump = [*command, "dump", homes[0], "--partition", f"{topic}-0", "--records"]
    for words in ([], ["--json"]):
        shown = processes.run([*dump, *words], capture_output=True, text=True, check=False)
        assert shown.returncode == 0, shown.stdout + shown.stderr
        assert "SEALED" in shown.stdout.upper()
        assert HIDDEN.decode() not in shown.stdout
        assert "--keeper-file FILE" in shown.stderr
    keeper = cluster.brokers[0].log_path.parent / "keeper.keys"
    other = keeper.with_name("other.keys")
    other.touch(mode=0o600)
    other.write_bytes(b64encode(b"another key that wraps, 32 bytes") + b"\n")
    for path in (keeper, other):
        shown = processes.run(
            [*dump, "--json", "--keeper-file", str(path)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert shown.returncode == 0, shown.stdout + shown.stderr
        assert (HIDDEN.decode() in shown.stdout) is (path is keeper)
        assert ("SEALED" in shown.stdout.upper()) is (path is other)
        assert ("the file does not have" in shown.stderr) is (path is other)
    for broker in cluster.brokers:
        broker.start()
    cluster.wait_until_ready()


def test_encryption_is_set_and_taken_back_by_its_option(cluster: SealingCluster) -> None:
    servers = cluster.bootstrap_servers
    topic = TopicMaker(servers)(partitions=1)
    sent = [b"%d" % number for number in range(4)]
    produce(servers, topic, sent[:1])
    from confluent_kafka.admin import (
        AdminClient,
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        ResourceType,
    )

    for number, value in enumerate(("aes256-gcm", "none"), start=1):
        entry = ConfigEntry("encryption", value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        admin = AdminClient({"bootstrap.servers": servers})
        admin.incremental_alter_configs([resource])[resource].result(DEADLINE_S)
        time.sleep(1)
        marker = b"marker %d" % number * 3
        produce(servers, topic, [marker], compression_type="none")
        sent.append(marker)
        assert bool(files_with(cluster, marker)) is (value == "none")
    assert values(topic, cluster) == sorted([sent[0], *sent[4:]])


@pytest.mark.extended
def test_a_broker_without_a_keeper_gives_no_ciphertext(tmp_path: Path) -> None:
    cluster = SealingCluster(1, directory=tmp_path)
    with cluster:
        servers = cluster.bootstrap_servers
        topic = TopicMaker(servers)(partitions=1, replication=1, encryption="aes256-gcm")
        produce(servers, topic, [HIDDEN])
        assert [each.value() for each in consume(servers, topic, 1)] == [HIDDEN]
        (broker,) = cluster.brokers
        broker.stop()
        toml = broker.log_path.parent / "broker.toml"
        with_keeper = toml.read_text()
        lines = [line for line in with_keeper.splitlines() if "key.keeper.file" not in line]
        toml.write_text("\n".join(lines))
        broker.start()
        cluster.wait_until_ready()
        with pytest.raises((KafkaException, AssertionError)):
            consume_for_error(servers, topic)
        with pytest.raises(KafkaException) as caught:
            produce(servers, topic, [HIDDEN], message_timeout_ms=3_000)
        assert caught.value.args[0].code() in (
            KafkaError.KAFKA_STORAGE_ERROR, KafkaError._MSG_TIMED_OUT,
        )  # fmt: skip
        assert "key.keeper.file is not set" in broker.log_path.read_text()
        found = run_doctor(cluster)["topic-keys-missing"]
        assert found == ["1", topic]
        broker.stop()
        toml.write_text(with_keeper)
        broker.start()
        cluster.wait_until_ready()
        assert [each.value() for each in consume(servers, topic, 1)] == [HIDDEN]
        assert "topic-keys-missing" not in run_doctor(cluster)


def run_doctor(cluster: SealingCluster) -> dict[str, list[str]]:
    command = [sys.executable, "-m", "kafkaesque.cli.app", "doctor", "--json"]
    done = processes.run(
        [*command, "--bootstrap-server", cluster.bootstrap_servers],
        capture_output=True, text=True, check=False, timeout=DEADLINE_S,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    return {each["check"]: each["names"] for each in json.loads(done.stdout)["findings"]}


def consume_for_error(servers: str, topic: str) -> None:
    """Read for a while; whatever comes but an error must be nothing."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": unique("none")})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        end = time.monotonic() + 3
        while time.monotonic() < end:
            message = consumer.poll(0.1)
            if message is not None and message.error() is not None:
                raise KafkaException(message.error())
            assert message is None, "nothing comes"
    finally:
        consumer.close()
    raise AssertionError("nothing came, and no error")


def run_key(cluster: SealingCluster, *words: str) -> str:
    command = [sys.executable, "-m", "kafkaesque.cli.app", "key", *words]
    done = processes.run(
        [*command, "--bootstrap-server", cluster.bootstrap_servers],
        capture_output=True, text=True, check=False, timeout=DEADLINE_S,
    )  # fmt: skip
    return f"{done.returncode} {done.stdout}{done.stderr}"


def test_keys_are_rotated_and_shredded(cluster: SealingCluster) -> None:
    servers = cluster.bootstrap_servers
    topic = TopicMaker(servers)(partitions=1, encryption="aes256-gcm")
    produce(servers, topic, [b"first"])
    assert "newest one" in run_key(cluster, "shred", topic, "1", "--yes")
    assert run_key(cluster, "rotate", topic).startswith("0 ")
    listed = [line.split()[:3] for line in run_key(cluster, "list").splitlines()]
    assert [topic, "1", "opens"] in listed
    assert [topic, "2", "seals"] in listed
    time.sleep(1)
    produce(servers, topic, [b"second"])
    assert values(topic, cluster) == [b"first", b"second"]
    assert run_key(cluster, "shred", topic, "1", "--yes").startswith("0 ")
    time.sleep(1)
    with pytest.raises(KafkaException) as caught:
        read_at(servers, topic, 0)
    assert caught.value.args[0].code() == KafkaError.INVALID_MSG
    assert read_at(servers, topic, 1) == b"second"
    rotate_brokers(cluster)
    with pytest.raises(KafkaException):
        read_at(servers, topic, 0)
    assert read_at(servers, topic, 1) == b"second"


def read_at(servers: str, topic: str, offset: int) -> bytes | None:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": unique("one")})
    try:
        consumer.assign([TopicPartition(topic, 0, offset)])
        message = consumer.poll(10)
        assert message is not None, "nothing came, and no error"
        error = message.error()
        if error is not None:
            raise KafkaException(error)
        return message.value()
    finally:
        consumer.close()


def content(servers: str, topic: str) -> list[str]:
    return sorted(
        repr((each.partition(), each.timestamp(), each.key(), each.value(), each.headers()))
        for each in consume_all(servers, topic)
    )


@pytest.mark.extended
def test_old_batches_get_a_new_key_by_a_copy_of_the_topic(cluster: SealingCluster) -> None:
    servers = cluster.bootstrap_servers
    make = TopicMaker(servers)
    old = make(partitions=3, encryption="aes256-gcm", max_message_bytes="5000000")
    copy = unique("copy")
    sent = [
        Sent(
            key=b"%d" % number,
            value=None if number == 7 else b"%d %s" % (number, HIDDEN),
            timestamp_ms=1_000 + number,
            headers=[("a", b"1"), ("a", b"\xff"), ("b", None)],
        )
        for number in range(60)
    ]
    produce(servers, old, sent)
    large = 2_000_000 * b"L"
    produce(servers, old, [large], message_max_bytes=5_000_000)
    produce_in_transaction(servers, old, unique("copied"))
    before = content(servers, old)
    assert len(before) == 62
    assert "copied 62 messages" in run_key(cluster, "reseal", old, copy)
    assert content(servers, copy) == before
    # What has come since is copied by another run, and nothing twice.
    produce(servers, old, [Sent(value=b"late", partition=1)])
    assert "copied 1 message" in run_key(cluster, "reseal", old, copy)
    assert "copied 0 messages" in run_key(cluster, "reseal", old, copy)
    assert content(servers, copy) == content(servers, old)
    options = run(cluster, "config", "describe", "--topic", copy)
    assert "max.message.bytes\t5000000\ttopic" in options
    run(cluster, "topic", "delete", old, "--yes")
    listed = run_key(cluster, "list")
    assert (old in listed, copy in listed) == (False, True)
    assert files_with(cluster, HIDDEN) == []


def run(cluster: SealingCluster, *words: str) -> str:
    done = processes.run(
        [sys.executable, "-m", "kafkaesque.cli.app", *words, "-b", cluster.bootstrap_servers],
        capture_output=True, text=True, check=False, timeout=DEADLINE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.extended
def test_a_copy_that_is_killed_goes_on_and_copies_nothing_twice(cluster: SealingCluster) -> None:
    servers = cluster.bootstrap_servers
    old, copy = TopicMaker(servers)(partitions=3, encryption="aes256-gcm"), unique("copy")
    produce(servers, old, [b"%d" % number for number in range(40_000)])
    command = [sys.executable, "-m", "kafkaesque.cli.app", "key", "reseal", old, copy]
    command += ["--bootstrap-server", servers]
    was_cut = False
    for _ in range(3):
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            copied = ends_of(servers, copy)
            eventually(
                lambda: ends_of(servers, copy) > copied or process.poll() is not None,  # noqa: B023
                "something is copied",
            )
            process.kill()
            was_cut |= process.wait() != 0
    assert was_cut
    assert run_key(cluster, "reseal", old, copy).startswith("0 ")
    assert values(copy, cluster) == sorted(b"%d" % number for number in range(40_000))


def ends_of(servers: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": unique("ends"), "log_level": 0})
    try:
        return sum(
            consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=10)[1]
            for number in range(3)
        )
    except KafkaException:
        return 0
    finally:
        consumer.close()


def test_what_is_no_copy_is_not_written_to(cluster: SealingCluster) -> None:
    servers = cluster.bootstrap_servers
    make = TopicMaker(servers)
    old, used = (make(partitions=1, encryption="aes256-gcm") for _ in range(2))
    plain, wide = make(partitions=1), make(partitions=2, encryption="aes256-gcm")
    produce(servers, old, [b"one"])
    produce(servers, used, [b"another"])
    for copy, why in (
        (used, f"{used} holds messages, and is no copy of {old}"),
        (plain, f"{plain} is not encrypted"),
        (wide, "has 2 partitions, not 1"),
        (old, "a topic cannot be its own copy"),
    ):
        refused = run_key(cluster, "reseal", old, copy)
        assert refused[0] in "12", refused
        assert why in refused, refused
    assert f"{plain} is not encrypted" in run_key(cluster, "reseal", plain, unique("x"))
    assert "does not exist" in run_key(cluster, "reseal", unique("none"), unique("x"))
    assert values(used, cluster) == [b"another"]


WITHIN = {"internal.topics.encryption": "aes256-gcm", "audit.events": "change"}


def produce_in_transaction(servers: str, topic: str, transactional_id: str) -> None:
    producer = Producer({"bootstrap.servers": servers, "transactional.id": transactional_id})
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    producer.produce(topic, b"in a transaction")
    producer.commit_transaction(DEADLINE_S)


@pytest.mark.extended
def test_topics_of_the_brokers_are_sealed(tmp_path: Path) -> None:
    cluster = SealingCluster(3, directory=tmp_path, options=WITHIN)
    group, transactional_id = "a-group-that-nobody-reads", "an-id-that-nobody-reads"
    with cluster:
        servers = cluster.bootstrap_servers
        topic = TopicMaker(servers)(partitions=1)
        produce_in_transaction(servers, topic, transactional_id)

        def committed() -> int:
            consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
            try:
                (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=30)
                return int(found.offset)
            finally:
                consumer.close()

        consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
        consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
        consumer.close()
        assert committed() == 1
        rotate_brokers(cluster)
        assert committed() == 1
        produce_in_transaction(servers, topic, transactional_id)
        assert run_key(cluster, "rotate", "__consumer_offsets").startswith("0 ")
        refused = run_key(cluster, "shred", "__consumer_offsets", "1", "--yes")
        assert "__consumer_offsets is an internal topic" in refused
        for secret in (group, transactional_id, '"operation":"create"'):
            assert files_with(cluster, secret.encode()) == [], secret
        eventually(lambda: files_of_audit(cluster) != [], "the audit log")
        for broker in cluster.brokers:
            broker.stop()
        check_offline(files_of_audit(cluster)[0].parent.parent)


def check_offline(data: Path) -> None:
    """Verify the audit log of a stopped broker, which only its keeper's file opens."""
    audit = [sys.executable, "-m", "kafkaesque.cli.app", "audit", "verify", str(data)]

    def verify(*words: str) -> subprocess.CompletedProcess[str]:
        return processes.run([*audit, *words], capture_output=True, text=True, check=False)

    assert "the audit log is sealed" in verify().stderr
    opened = verify("--keeper-file", str(data.parent / "keeper.keys"))
    assert "nothing was altered or removed" in opened.stdout, opened.stderr


def files_of_audit(cluster: SealingCluster) -> list[Path]:
    found = [
        path
        for broker in cluster.brokers
        for path in sorted((broker.log_path.parent / "data").glob("__audit-0/*.log"))
    ]
    return [path for path in found if path.stat().st_size]


def test_a_broker_that_would_seal_without_a_keeper_does_not_start(tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text(
        f'[broker]\nid = 1\ndata = "{tmp_path}/data"\n'
        '[options]\n"internal.topics.encryption" = "aes256-gcm"\n'
    )
    command = [sys.executable, "-m", "kafkaesque.server", "--config", str(path)]
    done = processes.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    assert done.returncode != 0
    assert "internal.topics.encryption needs key.keeper.file" in done.stderr
