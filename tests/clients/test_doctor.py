"""`kafkaesque doctor` and the admin ports of real brokers, whole and half dead.

Each of its checks also has tests without brokers, in tests/unit/cli/test_doctor_*.py.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from prometheus_client.parser import text_string_to_metric_families

from kafkaesque.cli.broker_ports import free_ports
from kafkaesque.cli.local_broker import BrokerReady
from kafkaesque.cli.local_cluster import LocalCluster
from tests.clients.kafka_helpers import Sent, TopicMaker, produce
from tests.forked import processes
from tests.waiting import DEADLINE_S, eventually

KAFKAESQUE = [sys.executable, "-m", "kafkaesque.cli.app"]


class Patient:
    """Some brokers with admin ports."""

    def __init__(self, directory: Path, brokers: int = 3) -> None:
        options = {"offsets.topic.num.partitions": "2"}
        self.brokers = brokers
        self.cluster = LocalCluster(directory, free_ports(brokers), options=options)
        self.cluster.prepare()
        self.cluster.start()
        self.wait_until_ready(brokers)

    def wait_until_ready(self, count: int) -> None:
        while count:
            count -= isinstance(self.cluster.events.get(timeout=DEADLINE_S), BrokerReady)
        done = self.wait("--brokers", str(self.brokers), "--timeout", str(DEADLINE_S))
        assert done.returncode == 0, done.stderr

    def stop(self, number: int, how: signal.Signals = signal.SIGTERM) -> None:
        """Have a broker end."""
        broker = self.cluster.broker(number)
        broker.signal(how)
        assert broker.wait(DEADLINE_S)

    def start(self, number: int) -> None:
        """Start a broker, and wait until it and the others are there."""
        self.cluster.broker(number).start(self.cluster.events)
        self.wait_until_ready(1)

    def start_those_that_are_down(self) -> None:
        """Start what a test has ended, and wait until everything is in sync."""
        for broker in self.cluster.brokers:
            if not broker.is_running():
                broker.start(self.cluster.events)
        done = self.wait("--brokers", str(self.brokers), "--in-sync", "--timeout", str(DEADLINE_S))
        assert done.returncode == 0, done.stderr

    def wait(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `kafkaesque cluster wait`."""
        return processes.run(
            [*KAFKAESQUE, "cluster", "wait", *words, "-b", self.cluster.bootstrap_servers],
            check=False,
            capture_output=True,
            text=True,
            timeout=2 * DEADLINE_S,
        )

    def examine(self, *words: str) -> tuple[int, dict[str, Any]]:
        """Run the doctor; return its exit code, and the findings by their checks."""
        done = processes.run(
            [*KAFKAESQUE, "doctor", "--json", "-b", self.cluster.bootstrap_servers, *words],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        document = json.loads(done.stdout) if done.stdout else {"findings": []}
        return done.returncode, {each["check"]: each for each in document["findings"]}

    def get(self, broker: int, path: str) -> tuple[int, str]:
        port = self.cluster.broker(broker).ports.admin
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{port}{path}", timeout=DEADLINE_S
            ) as got:
                return got.status, got.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Patient]:
    made = Patient(tmp_path_factory.mktemp("doctor") / "data")
    yield made
    made.cluster.close()


@pytest.fixture
def topic(patient: Patient) -> str:
    return TopicMaker(patient.cluster.bootstrap_servers)(partitions=2, replication=3)


def test_metrics_of_a_real_broker_count_what_clients_did(patient: Patient, topic: str) -> None:
    produce(patient.cluster.bootstrap_servers, topic, [b"v"] * 100)
    totals: dict[str, float] = {}
    for number in (1, 2, 3):
        status, page = patient.get(number, f"/metrics?topic={topic}")
        assert status == 200
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                totals[sample.name] = totals.get(sample.name, 0.0) + sample.value
    assert totals["kafkaesque_messages_in_total"] >= 100
    assert totals["kafkaesque_partition_high_watermark"] >= 100  # followers hear of it later
    assert totals["kafkaesque_raft_commit_seconds_count"] > 0
    assert totals["kafkaesque_request_seconds_count"] > 0
    assert totals["process_resident_memory_bytes"] > 0
    assert totals["kafkaesque_broker_ready"] == 3


def test_the_doctor_sees_what_a_test_cluster_lacks_and_nothing_else(patient: Patient) -> None:
    # The directory of tests is in /tmp.
    always = {"temporary-directory", "single-replica", "disk-fills"}
    # A broker that another test has stopped may still be catching up.
    eventually(lambda: set(patient.examine()[1]) <= always, "nothing else is found")
    code, found = patient.examine()
    assert code == (1 if found else 0)
    code, found = patient.examine("--disk-free", "100")
    assert code == 1
    assert found["disk-fills"]["names"]


def test_a_lagging_group_is_named(patient: Patient, topic: str) -> None:
    servers = patient.cluster.bootstrap_servers
    produce(servers, topic, [b"v"] * 10)
    words = ["group", "reset-offsets", "late", "--topic", topic, "--to", "earliest", "--execute"]
    processes.run([*KAFKAESQUE, *words, "-b", servers], check=True, capture_output=True)
    found = patient.examine("--lag", "0")[1]["group-lags"]
    assert found["names"] == ["late"]
    assert "10 messages" in found["what"]
    assert "no members" in found["cause"]


def test_queues_that_nobody_serves_are_named(patient: Patient) -> None:
    def queue(*words: str) -> None:
        command = [*KAFKAESQUE, "queue", *words, "-b", patient.cluster.bootstrap_servers]
        processes.run(command, check=True, capture_output=True)

    queue("create", "nowhere")
    queue("create", "mails", "--config", "dead.letter.queue=nowhere")
    queue("delete", "nowhere", "--yes")
    queue("put", "mails", "hello")
    try:
        found = patient.examine("--lag", "0")[1]
        assert found["queue-without-consumers"]["names"] == ["mails"]
        assert found["dead-letter-target-missing"]["names"] == ["mails"]
        assert "queue-without-consumers" not in patient.examine()[1]
    finally:
        queue("delete", "mails", "--yes")


def test_a_killed_broker_is_named_with_what_it_leaves(patient: Patient, topic: str) -> None:
    broker = patient.cluster.broker(3)
    broker.signal(signal.SIGKILL)
    broker.wait(DEADLINE_S)
    try:

        def is_seen() -> bool:
            found = patient.examine()[1]
            behind = found.get("under-replicated", {"names": []})["names"]
            return "broker-down" in found and f"{topic}-0" in behind

        eventually(is_seen, "the doctor sees it")
        code, found = patient.examine()
        assert code == 1
        assert found["broker-down"]["names"] == ["3"]
        eventually(lambda: patient.get(1, "/health/ready")[0] == 200, "the others serve")
    finally:
        broker.start(patient.cluster.events)
        patient.wait_until_ready(1)


@pytest.mark.extended
def test_a_topic_that_refuses_acks_all_is_named_with_what_lets_it_go_on(patient: Patient) -> None:
    servers = patient.cluster.bootstrap_servers
    make_topic = TopicMaker(servers)
    topic = make_topic(partitions=1, replication=3, min_insync_replicas="3")
    patient.stop(3, signal.SIGKILL)
    try:
        eventually(lambda: "under-min-insync" in patient.examine()[1], "the doctor sees it")
        found = patient.examine()[1]["under-min-insync"]
        assert found["severity"] == "critical"
        assert found["names"] == [f"{topic}-0"]
        command, _, _ = found["command"].removeprefix("start broker 3; or ").partition("    ")
        alter = f"topic alter {topic} --config min.insync.replicas=2"
        assert command == f"kafkaesque {alter}"
        processes.run([*KAFKAESQUE, *alter.split(), "-b", servers], check=True)
        eventually(lambda: "under-min-insync" not in patient.examine()[1], "it is over")
    finally:
        patient.start(3)


@pytest.mark.extended
def test_a_topic_whose_only_copy_is_lost_is_to_be_created_anew(patient: Patient) -> None:
    servers = patient.cluster.bootstrap_servers
    topic = TopicMaker(servers)(partitions=1, replication=1)
    produce(servers, topic, [b"v"])
    number = describe(servers, topic)["leader"]
    patient.stop(number)
    shutil.rmtree(patient.cluster.broker(number).data / f"{topic}-0")
    patient.cluster.broker(number).start(patient.cluster.events)

    def is_said() -> bool:
        found = patient.examine()[1].get("leaderless", {"command": ""})
        return bool(found["command"] == f"kafkaesque topic delete {topic}, and create it again")

    try:
        eventually(is_said, "that nothing is left")
        words = ["topic", "elect", topic, "--unclean", "--yes", "--timeout", "1", "-b", servers]
        done = processes.run([*KAFKAESQUE, *words], check=False, capture_output=True, text=True)
        assert f"kafkaesque topic delete {topic}, and create it again" in done.stderr
    finally:
        processes.run([*KAFKAESQUE, "topic", "delete", "--yes", topic, "-b", servers], check=True)
        patient.wait_until_ready(1)


def test_the_next_broker_may_be_restarted_when_the_last_has_everything_again(
    patient: Patient, topic: str
) -> None:
    servers = patient.cluster.bootstrap_servers
    sync = ("--brokers", "3", "--in-sync", "--timeout")
    assert patient.wait(*sync, str(DEADLINE_S)).returncode == 0
    broker = patient.cluster.broker(3)
    broker.signal(signal.SIGTERM)
    broker.wait(DEADLINE_S)
    produce(servers, topic, [b"v" * 1000] * 1000)

    def is_said() -> bool:
        """Who takes over leadership is not known at once to every broker that may be asked."""
        too_early = patient.wait("--brokers", "2", "--in-sync", "--timeout", "0.5")
        assert too_early.returncode == 5
        return (
            "broker 3 does not answer" in too_early.stderr
            and "partitions without a leader or with re" in too_early.stderr
        )

    eventually(is_said, "which broker it waits for")
    broker.start(patient.cluster.events)
    now = patient.wait(*sync, str(DEADLINE_S))
    assert now.returncode == 0, now.stderr
    assert now.stdout.startswith("ready: 3 brokers, ")
    found = AdminClient({"bootstrap.servers": servers}).list_topics(timeout=DEADLINE_S)
    for each in found.topics[topic].partitions.values():
        assert sorted(each.isrs) == [1, 2, 3]


@pytest.mark.extended
def test_with_a_majority_stopped_one_that_answers_is_enough(patient: Patient, topic: str) -> None:
    pids = [patient.cluster.broker(number).pid for number in (2, 3)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        # One look is enough, though broker 1 has not noticed yet when it begins.
        code, found = patient.examine()
        assert code == 1
        assert {"leaderless", "broker-hangs", "controllers-missing"} <= set(found)
        assert "broker-down" not in found
        assert found["broker-hangs"]["cause"].startswith("its process exists")
        wanted = "none of the controllers 1, 2, 3 leads: broker 2 hangs, broker 3 hangs"
        assert found["controllers-missing"]["what"] == wanted
        assert "broker-not-ready" not in found
        assert patient.get(1, "/health/live") == (200, "live\n")
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    eventually(lambda: patient.get(1, "/health/ready")[0] == 200, "it is ready again")


#: More than a broker's log, less than what is written to a partition.
FILE_BYTES_MAX = 1_000_000


def test_a_broker_whose_disk_failed_is_told_from_one_that_is_down(
    patient: Patient, topic: str
) -> None:
    servers = patient.cluster.bootstrap_servers
    # From here on, whatever it writes beyond that is refused by the system.
    limit = (FILE_BYTES_MAX, FILE_BYTES_MAX)
    resource.prlimit(patient.cluster.broker(3).pid, resource.RLIMIT_FSIZE, limit)
    try:
        produce(servers, topic, [b"v" * 10_000] * (3 * FILE_BYTES_MAX // 10_000))
        wanted = {"disk-failed", "under-replicated"}
        eventually(lambda: wanted <= set(patient.examine()[1]), "the doctor sees it")
        assert patient.cluster.broker(3).is_running()
        _, found = patient.examine()
        assert found["disk-failed"]["names"] == ["3"]
        assert "File too large" in found["disk-failed"]["cause"]
        assert not {"broker-down", "broker-not-ready"} & set(found)
        assert found["under-replicated"]["command"] == (
            "see the finding for broker 3, which is running"
        )
        # What it led has another leader soon; until then `cluster status` ends with 1.
        states: dict[int, str] = {}

        def is_told_by_status() -> bool:
            words = ["cluster", "status", "--json", "-b", servers]
            status = processes.run([*KAFKAESQUE, *words], check=False, capture_output=True)
            details = json.loads(status.stdout or b'{"details": []}')["details"]
            states.update({each["id"]: each["state"] for each in details})
            return status.returncode == 0

        eventually(is_told_by_status, "every partition has a leader")
        assert states[3] == "disk failed"
    finally:
        patient.stop(3, signal.SIGKILL)
        patient.start(3)


@pytest.mark.extended
def test_a_damaged_copy_is_named_with_its_file_and_goes_when_it_is_made_anew(
    patient: Patient, topic: str
) -> None:
    records = [Sent(value=b"v" * 1000, partition=0)] * 200
    produce(patient.cluster.bootstrap_servers, topic, records)
    assert patient.wait("--brokers", "3", "--in-sync").returncode == 0
    patient.stop(3)
    copy = patient.cluster.broker(3).data / f"{topic}-0"
    try:
        (segment,) = copy.glob("*.log")
        segment.write_bytes(segment.read_bytes()[:-100])
        patient.start(3)
        wanted = f"{topic}-0: {topic}-0/{segment.name} has only "

        def is_told() -> bool:
            found = patient.examine()[1].get("damaged-replica", {"cause": ""})
            return str(found["cause"]).startswith(wanted)

        eventually(is_told, "the doctor sees it, and its file")
        found = patient.examine()[1]["damaged-replica"]
        assert found["names"] == [f"{topic}-0"]
        assert f"move {topic}-0 out of {copy.parent}" in found["command"]
        again = {"under-replicated", "broker-not-ready"}
        eventually(lambda: not again & set(patient.examine()[1]), "it is told once")
        patient.stop(3)
    finally:
        shutil.rmtree(copy)
        patient.start(3)
    eventually(lambda: "damaged-replica" not in patient.examine()[1], "it is made anew")


@pytest.mark.extended
def test_a_stale_replica_is_not_said_to_have_all_and_who_has_it_is_named(
    patient: Patient,
) -> None:
    servers = patient.cluster.bootstrap_servers
    topic = TopicMaker(servers)(partitions=1, replication=2)
    assert patient.wait("--brokers", "3", "--in-sync").returncode == 0
    row = describe(servers, topic)
    leader = row["leader"]
    (stale,) = set(row["replicas"]) - {leader}
    try:
        patient.stop(stale, signal.SIGKILL)
        formed = "recovered at"
        eventually(lambda: formed in (describe(servers, topic)["recovery"] or ""), "it goes on")
        produce(servers, topic, [b"v"] * 100, acks="all")
        patient.stop(leader, signal.SIGKILL)
        patient.cluster.broker(stale).start(patient.cluster.events)

        def waits() -> bool:
            """Tell whether the partition waits for its leader, and the doctor knows."""
            row = describe(servers, topic)
            # Brokers that were there before remember the last leader's word, and others do not.
            assert row["in_sync"] == [] or row["leader"] is not None
            found = patient.examine()[1].get("leaderless", {"names": []})
            if f"{topic}-0" in found["names"]:
                assert "every acknowledged message" not in found["cause"]
                assert f"broker {leader} may have" in found["cause"]
                assert found["command"].startswith(f"start broker {leader}; if that cannot be: ")
                assert "gives up acknowledged records" in found["command"]
            is_told = "and it is not enough" in found.get("cause", "")
            return "answers from" in (row["recovery"] or "") and is_told

        eventually(waits, "what is left waits, and the doctor says for whom")
    finally:
        patient.start_those_that_are_down()


def describe(bootstrap_servers: str, topic: str) -> dict[str, Any]:
    """Return what `kafkaesque topic describe` tells of partition 0."""
    words = ["topic", "describe", topic, "--json", "-b", bootstrap_servers]
    done = processes.run(
        [*KAFKAESQUE, *words], check=True, capture_output=True, text=True, timeout=DEADLINE_S
    )
    row: dict[str, Any] = json.loads(done.stdout)[0]["partitions"][0]
    return row


@pytest.mark.extended
def test_a_broker_that_holds_nothing_is_down_until_it_is_removed(tmp_path: Path) -> None:
    patient = Patient(tmp_path / "data", brokers=2)
    servers = patient.cluster.bootstrap_servers

    def cluster(*words: str) -> bool:
        """Run `kafkaesque cluster`; return whether it was done."""
        command = [*KAFKAESQUE, "cluster", *words, "-b", servers]
        return not processes.run(command, check=False, capture_output=True).returncode

    try:
        eventually(lambda: cluster("controllers", "remove", "2"), "it is no controller")
        patient.stop(2, signal.SIGKILL)
        eventually(lambda: "broker-down" in patient.examine()[1], "the doctor sees it")
        _, found = patient.examine()
        assert found["broker-down"]["names"] == ["2"]
        assert found["broker-down"]["cause"] == "a connection to it fails: connection refused"
        assert found["broker-down"]["command"].endswith("kafkaesque cluster remove 2")
        eventually(lambda: cluster("remove", "2"), "it is removed")
        eventually(lambda: "broker-down" not in patient.examine()[1], "it belongs there no more")
    finally:
        patient.cluster.close()


@pytest.mark.extended
def test_a_lost_majority_of_controllers_is_told_and_one_directory_put_back_heals_it(
    tmp_path: Path,
) -> None:
    patient = Patient(tmp_path / "data")
    cluster = patient.cluster
    servers = cluster.bootstrap_servers
    try:
        topic = TopicMaker(servers)(partitions=1, replication=3)
        produce(servers, topic, [b"kept"])
        for number in (1, 2):
            patient.stop(number, signal.SIGKILL)
            cluster.broker(number).data.rename(tmp_path / f"kept-{number}")
        for number in (1, 2):
            cluster.broker(number).start(cluster.events)

        def is_said() -> bool:
            found = patient.examine()[1].get("controllers-missing", {"cause": ""})
            return "brokers 1, 2 have lost their disks" in found["cause"]

        eventually(is_said, "that the disks are lost")
        found = patient.examine()[1]
        assert "broker 2 has lost its disk" in found["broker-not-ready"]["cause"]
        assert found["leaderless"]["command"].startswith("first see the finding for brokers 1, 2")
        assert (
            "its directory is empty, and the cluster is not new"
            in patient.get(1, "/health/ready")[1]
        )
        # What it says to do.
        assert found["controllers-missing"]["command"].startswith(
            "stop brokers 1, 2, put their old"
        )
        patient.stop(1)
        shutil.rmtree(cluster.broker(1).data)
        (tmp_path / "kept-1").rename(cluster.broker(1).data)
        patient.start_those_that_are_down()
        assert "controllers-missing" not in patient.examine()[1]
        assert describe(servers, topic)["leader"] > 0
    finally:
        cluster.close()


@pytest.mark.extended
def test_a_broker_with_another_secret_says_so_until_it_has_the_right_one(patient: Patient) -> None:
    broker = patient.cluster.broker(3)
    right = broker.config_path.read_text()
    wrong = broker.config_path.with_name("wrong.secret")
    wrong.write_text("the secret of quite another cluster\n")
    wrong.chmod(0o600)
    lines = [
        f'cluster.secret.file = "{wrong}"' if line.startswith("cluster.secret.file") else line
        for line in right.splitlines()
    ]
    patient.stop(3)
    try:
        broker.config_path.write_text("\n".join(lines))
        broker.start(patient.cluster.events)

        def is_said() -> bool:
            finding = patient.examine()[1].get("broker-not-ready", {"cause": "", "command": ""})
            return (
                "turns this broker away: it does not know this broker's secret" in finding["cause"]
                and "cluster.secret.file in broker-3.toml" in finding["command"]
            )

        eventually(is_said, "that it is turned away")
        assert any(
            "level=error" in line and "turns this broker away" in line
            for line in broker.log_path.read_text().splitlines()
        )
        patient.stop(3)
    finally:
        broker.config_path.write_text(right)
        patient.start_those_that_are_down()
    assert patient.get(3, "/health/ready") == (200, "ready\n")


def test_nobody_to_ask_is_another_exit_code() -> None:
    done = processes.run(
        [*KAFKAESQUE, "doctor", "-b", "127.0.0.1:1"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert "no broker answers" in done.stderr
