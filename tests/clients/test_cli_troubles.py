"""The command line where a cluster is not well: replicas are missing, a disk has changed a byte."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic, PartitionMetadata
from typer.testing import CliRunner

from kafkaesque.cli import topic_reader
from kafkaesque.cli.app import app
from tests.clients.cluster import KafkaesqueCluster
from tests.clients.kafka_helpers import TopicMaker, admin_client, describe_topic
from tests.waiting import DEADLINE_S, eventually

KAFKAESQUE = [sys.executable, "-m", "kafkaesque.cli.app"]


def start(cluster: KafkaesqueCluster, words: Sequence[str]) -> subprocess.Popen[str]:
    environment = {**os.environ, "KAFKAESQUE_BOOTSTRAP_SERVER": cluster.bootstrap_servers}
    return subprocess.Popen(
        [*KAFKAESQUE, *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def trio(tmp_path: Path) -> Iterator[KafkaesqueCluster]:
    options = {"replica.lag.time.max.ms": "3000"}
    with KafkaesqueCluster(3, options=options, directory=tmp_path) as cluster:
        yield cluster


@pytest.mark.extended
def test_what_waits_for_replicas_says_so_and_goes_on_when_they_are_back(
    trio: KafkaesqueCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = TopicMaker(trio.bootstrap_servers)(partitions=1, min_insync_replicas="3")
    words = ["-b", trio.bootstrap_servers]
    assert CliRunner().invoke(app, ["publish", topic, "1", *words]).exit_code == 0
    admin = admin_client(trio.bootstrap_servers)

    def partition() -> PartitionMetadata:
        return describe_topic(admin, topic).partitions[0]

    before = partition()
    dead = trio.brokers[next(each for each in before.replicas if each != before.leader) - 1]
    dead.kill()
    eventually(lambda: len(partition().isrs) == 2, "the in-sync set shrinks")
    # Appended and not committed: a new leader cannot say where the log ends.
    assert CliRunner().invoke(app, ["publish", topic, "2", "--acks", "1", *words]).exit_code == 0
    leader = trio.brokers[before.leader - 1]
    leader.stop()
    leader.start()
    eventually(lambda: partition().leader > 0 and len(partition().isrs) == 2, "it is led")
    publisher = start(trio, ["publish", topic, "3"])
    reader = start(trio, ["consume", topic, "--from-beginning", "--until-end"])
    try:
        for process, what in ((publisher, "acknowledgement"), (reader, "answer")):
            assert process.stderr is not None
            line = process.stderr.readline()
            if line.startswith("no connection to any broker at the moment"):
                # librdkafka says so also if the first address refuses, as that of the dead broker
                # does, before it has taken in the second one.
                line = process.stderr.readline()
            assert line.startswith(f"no {what} for ")
            assert f": {topic}-0 has " in line
            assert line.endswith(" of 3 replicas in sync; still trying (Ctrl-C ends it)\n")
        monkeypatch.setattr(topic_reader, "BOUNDS_TIMEOUT_S", 0.5)
        words = ["consume", topic, "--until-end", *words]
        refused = CliRunner().invoke(app, words)
        assert refused.exit_code == 5
        assert f"the end of {topic}-0 is not known at the moment: {topic}-0 has 2 of 3" in (
            refused.stderr
        )
        dead.start()
        assert publisher.communicate(timeout=DEADLINE_S)[0] == f"published 1 message to {topic}\n"
        assert reader.communicate(timeout=DEADLINE_S)[0].startswith("1\n")
        assert (publisher.returncode, reader.returncode) == (0, 0)
    finally:
        for process in (publisher, reader):
            process.kill()
            process.communicate()


@pytest.mark.extended
def test_a_partition_without_a_leader_hides_nothing_of_the_others(
    trio: KafkaesqueCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = "leaderless"
    admin = admin_client(trio.bootstrap_servers)
    new = NewTopic(topic, 3, replica_assignment=[[1], [2], [3]])
    admin.create_topics([new])[topic].result(DEADLINE_S)
    words = ["-b", trio.bootstrap_servers]
    lines = "".join(json.dumps({"value": str(n), "partition": n}) + "\n" for n in range(3))
    publish = ["publish", topic, "--format", "json", "--keep-partitions", *words]
    assert CliRunner().invoke(app, publish, input=lines).exit_code == 0
    trio.brokers[2].kill()

    def is_led() -> bool:
        return describe_topic(admin, topic).partitions[2].leader >= 0

    eventually(lambda: not is_led(), "nobody leads the third partition")
    reader = start(trio, ["consume", topic, "--from-beginning", "--max", "3"])
    try:
        assert reader.stdout is not None
        assert reader.stderr is not None
        assert sorted(reader.stdout.readline() for _ in range(2)) == ["0\n", "1\n"]
        monkeypatch.setattr(topic_reader, "BOUNDS_TIMEOUT_S", 0.5)
        ended = CliRunner().invoke(app, ["consume", topic, "-o", "earliest", "--until-end", *words])
        assert ended.exit_code == 5
        assert sorted(ended.stdout.split()) == ["0", "1"]
        assert f"the end of {topic}-2 is not known at the moment: {topic}-2 has no leader; " in (
            ended.stderr
        )
        assert ended.stderr.endswith("try:   kafkaesque doctor\n")
        line = reader.stderr.readline()
        assert f": {topic}-2 has no leader (kafkaesque doctor says why); still trying" in line
        trio.brokers[2].start()
        assert reader.communicate(timeout=DEADLINE_S)[0] == "2\n"
        assert reader.returncode == 0
    finally:
        reader.kill()
        reader.communicate()


@pytest.mark.extended
def test_a_topic_is_described_where_there_is_no_controller(trio: KafkaesqueCluster) -> None:
    topic = TopicMaker(trio.bootstrap_servers)(partitions=1, retention_ms="86400001")
    for broker in trio.brokers[1:]:
        broker.kill()
    words = ["-b", trio.bootstrap_servers]
    described = CliRunner().invoke(app, ["topic", "describe", topic, "--json", *words])
    assert described.exit_code == 0, described.stderr
    assert json.loads(described.stdout)[0]["options"]["retention.ms"] == "86400001"
    shown = CliRunner().invoke(app, ["config", "describe", "--topic", topic, *words])
    assert shown.exit_code == 0, shown.stderr
    assert "86400001" in shown.stdout


def test_a_message_that_a_disk_has_changed_is_an_error_and_not_printed(tmp_path: Path) -> None:
    with KafkaesqueCluster(1, directory=tmp_path) as cluster:
        topic = TopicMaker(cluster.bootstrap_servers)(partitions=1, replication=1)
        words = ["-b", cluster.bootstrap_servers]
        for value in ("first", "second", "third"):
            assert CliRunner().invoke(app, ["publish", topic, value, *words]).exit_code == 0
        (segment,) = tmp_path.glob(f"*/broker-1/data/{topic}-0/*.log")
        data = segment.read_bytes()
        with segment.open("r+b") as file:
            file.seek(data.index(b"second"))
            file.write(b"S")
        read = CliRunner().invoke(
            app, ["consume", topic, "--from-beginning", "--until-end", *words]
        )
    assert "econd" not in read.stdout
    assert read.exit_code == 4
    assert "checksum does not match its bytes" in read.stderr
