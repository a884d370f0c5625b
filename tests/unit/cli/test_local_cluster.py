"""The files and ports of a local cluster, and what `up` and `broker` refuse."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafkaesque.broker.options.tables import BROKER_OPTIONS
from kafkaesque.cli.broker_ports import PROTOCOLS, BrokerPorts, free_ports, narrowed, ports_from
from kafkaesque.cli.cluster_file import read_cluster_file
from kafkaesque.cli.commands.up import PORTS_DEFAULT, choose_ports
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.local_broker import BrokerEnded
from kafkaesque.cli.local_cluster import LOCAL_OPTIONS, LocalCluster
from kafkaesque.server.config import load_config
from tests.unit.cli.test_commands import run


@pytest.fixture
def prepared(tmp_path: Path) -> Iterator[LocalCluster]:
    cluster = LocalCluster(tmp_path / "data", free_ports(3), options={"num.partitions": "6"})
    cluster.prepare()
    yield cluster
    cluster.close()


def read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text())


def again(cluster: LocalCluster, count: int) -> LocalCluster:
    """Another start in the same directory."""
    cluster.close()
    other = LocalCluster(cluster.directory, free_ports(count))
    other.prepare()
    other.close()
    return other


def test_the_configuration_is_what_a_broker_reads(prepared: LocalCluster) -> None:
    for broker in prepared.brokers:
        config = load_config(broker.config_path, environment={})
        assert config.broker.node == broker.number
        assert config.broker.cluster_id == prepared.cluster_id
        assert str(config.broker.kafka_address) == broker.address
        assert config.data == broker.data
        assert dict(config.broker.controllers) == {
            each.number: ("127.0.0.1", each.ports.peer) for each in prepared.brokers
        }
        assert config.broker.options["num.partitions"] == 6


def test_a_new_cluster_has_a_secret_for_its_owner_alone_and_keeps_it(
    prepared: LocalCluster,
) -> None:
    path = prepared.directory / "cluster.secret"
    secret = path.read_bytes().strip()
    assert len(secret) == 64
    assert path.stat().st_mode & 0o777 == 0o600
    grown = again(prepared, 4)
    for broker in grown.brokers:
        assert load_config(broker.config_path, environment={}).broker.secrets == (secret,)


def test_a_cluster_that_was_founded_without_a_secret_goes_on_without(
    prepared: LocalCluster,
) -> None:
    (prepared.directory / "cluster.secret").unlink()
    later = again(prepared, 3)
    assert load_config(later.broker(1).config_path, environment={}).broker.secrets == ()


def test_a_second_start_keeps_the_cluster_and_its_voters(prepared: LocalCluster) -> None:
    grown = again(prepared, 5)
    assert grown.cluster_id == prepared.cluster_id
    known = read_cluster_file(prepared.directory)
    assert known is not None
    assert list(known.brokers) == [broker.ports for broker in grown.brokers]
    assert list(read(grown.broker(5).config_path)["controllers"]) == ["1", "2", "3"]


def test_fewer_brokers_than_there_were_are_refused(prepared: LocalCluster) -> None:
    with pytest.raises(CommandFailed, match="has 3 brokers, not 2") as failure:
        again(prepared, 2)
    assert failure.value.exit_code == 2


@pytest.mark.parametrize(("count", "voters"), [(1, 1), (2, 2), (3, 3), (6, 5)])
def test_the_first_brokers_controllers_vote(tmp_path: Path, count: int, voters: int) -> None:
    cluster = LocalCluster(tmp_path, free_ports(count))
    cluster.prepare()
    cluster.close()
    known = json.loads((tmp_path / "cluster.json").read_text())
    assert known["controllers"] == list(range(1, voters + 1))


def test_a_directory_has_one_cluster_at_a_time(prepared: LocalCluster) -> None:
    other = LocalCluster(prepared.directory, free_ports(3))
    before = prepared.broker(1).config_path.read_text()
    with pytest.raises(CommandFailed, match=rf"runs already \(pid {os.getpid()}\)"):
        other.prepare()
    assert prepared.broker(1).config_path.read_text() == before


def test_a_file_of_somebody_else_is_not_taken_for_a_clusters(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text('{"something": "else"}')
    with pytest.raises(CommandFailed, match="does not describe a cluster"):
        LocalCluster(tmp_path, free_ports(1)).prepare()


def test_a_directory_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    with pytest.raises(
        CommandFailed, match="is not empty, and not a cluster's directory: it has 'lett"
    ):
        LocalCluster(tmp_path, free_ports(1)).prepare()
    assert [path.name for path in tmp_path.iterdir()] == ["letters"]
    # What a start leaves that has ended early is ours.
    (tmp_path / "letters").rename(tmp_path / "lost+found")
    (tmp_path / ".lock").touch()
    cluster = LocalCluster(tmp_path, free_ports(1))
    cluster.prepare()
    cluster.close()


def test_a_busy_port_is_named_with_its_purpose_before_anything_starts(tmp_path: Path) -> None:
    (ports,) = free_ports(1)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        busy = taken.getsockname()[1]
        words = ["--brokers", "1", "--data", str(tmp_path / "d"), "--port", str(ports.kafka)]
        words += ["--peer-port", str(ports.peer), "--text-port", str(busy), "--admin-port", "0"]
        code, _, errors = run("up", *words)
    assert code == 1
    assert f"127.0.0.1:{busy}, the text port of broker 1: address already in use" in errors
    assert not (tmp_path / "d" / "broker-1.log").exists()


def test_ports_that_meet_are_refused(tmp_path: Path) -> None:
    words = [
        "--data",
        str(tmp_path),
        "--port",
        "30000",
        "--peer-port",
        "30002",
        "--admin-port",
        "0",
    ]
    code, _, errors = run("up", "--brokers", "3", *words)
    assert code == 2
    assert "30002 would be both the Kafka port of broker 3 and the peer port of broker 1" in errors


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("num.partition=3", "did you mean num.partitions?"),
        ("num.partitions=many", "it must be a number from 1 to"),
        ("num.partitions", "is not name=value"),
        ("log.cleaner.io.max.bytes.per.second=nan", "it must be a number from 1 to ∞"),
        (
            "group.min.session.timeout.ms=1800001",
            "1800001 is above group.max.session.timeout.ms = 1800000",
        ),
    ],
)
def test_a_wrong_option_is_refused_before_anything_is_written(
    tmp_path: Path, option: str, sentence: str
) -> None:
    code, _, errors = run("up", "--data", str(tmp_path / "d"), "--option", option)
    assert code == 2
    assert sentence in errors
    assert not (tmp_path / "d").exists()


def test_ports_count_up_from_the_first_and_no_text_port_stays_none() -> None:
    first = BrokerPorts(kafka=9092, peer=9190, admin=8080, websocket=8090)
    assert ports_from(first, 2) == [
        first,
        BrokerPorts(kafka=9093, peer=9191, admin=8081, websocket=8091),
    ]


def test_a_cluster_keeps_its_ports_unless_others_are_asked_for(prepared: LocalCluster) -> None:
    before = read_cluster_file(prepared.directory)
    ports = [broker.ports for broker in prepared.brokers]
    assert choose_ports(before, None, {"kafka": None}) == ports
    usual = ports_from(PORTS_DEFAULT, 3)
    assert choose_ports(before, None, {"kafka": 9092, "text": None}) == usual
    none = dict.fromkeys(PROTOCOLS, 0) | {"kafka": None, "peer": None}
    assert choose_ports(None, None, none) == ports_from(BrokerPorts(kafka=9092, peer=9190), 3)
    grown = choose_ports(before, 5, {})
    assert grown[:3] == ports
    assert [each.kafka for each in grown[3:]] == [ports[-1].kafka + 1, ports[-1].kafka + 2]
    assert choose_ports(before, 2, {}) == ports[:2]


def test_protocols_narrow_the_ports_and_widen_them_again() -> None:
    least = BrokerPorts(kafka=9092, peer=9190)
    first = replace(least, text=7070, admin=8080)
    all_ports = ports_from(first, 2)
    custom = ports_from(BrokerPorts(kafka=19092, peer=19190, admin=18080), 2)
    assert narrowed(all_ports, "kafka", all_ports) == ports_from(least, 2)
    assert narrowed(all_ports, "admin, kafka", all_ports) == ports_from(
        replace(least, admin=8080), 2
    )
    wide = ports_from(replace(first, sqs=9324, amqp=5672, mqtt=1883), 2)
    assert narrowed(all_ports, "kafka,sqs", wide) == ports_from(replace(least, sqs=9324), 2)
    assert narrowed(all_ports, "kafka,mqtt", wide) == ports_from(replace(least, mqtt=1883), 2)
    assert narrowed(all_ports, "kafka,amqp", wide) == ports_from(replace(least, amqp=5672), 2)
    # What had a port keeps it, and what had none gets the usual one.
    assert narrowed(custom, "kafka,text,admin", all_ports) == [
        BrokerPorts(kafka=19092 + n, text=7070 + n, peer=19190 + n, admin=18080 + n)
        for n in range(2)
    ]


@pytest.mark.parametrize(
    ("protocols", "sentence"),
    [("text", "kafka is missing"), ("kafka,mqqt", "mqqt is no protocol"), ("", "kafka is missing")],
)
def test_wrong_protocols_are_refused(protocols: str, sentence: str) -> None:
    ports = ports_from(PORTS_DEFAULT, 1)
    with pytest.raises(CommandFailed, match=sentence):
        narrowed(ports, protocols, ports)


def test_a_broker_that_cannot_start_reports_how_it_ended(prepared: LocalCluster) -> None:
    broker = prepared.broker(1)
    broker.config_path.write_text("nonsense")
    broker.start(prepared.events)
    event = prepared.events.get(timeout=90)
    assert isinstance(event, BrokerEnded)
    assert event.how == "ended with exit code 2"
    assert "is not TOML" in "\n".join(broker.log_tail())


def test_a_brokers_end_by_a_signal_is_said_by_its_name() -> None:
    assert BrokerEnded(broker=1, pid=2, exit_code=-9).how == "was killed by SIGKILL"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--port", "0"], "kafka.port = '0' is not allowed"),
        (["--option", "log.retention.mss=1"], "did you mean log.retention.ms?"),
        (["--option", "log.cleaner.io.max.bytes.per.second=nan"], "a number from 1 to ∞"),
        (["--option", "group.consumer.session.timeout.ms=9"], "= 45000 is above"),
        (["--log-level", "loud"], "one of debug, info, warning, error"),
    ],
)
def test_flags_of_a_broker_are_checked_like_its_file(
    prepared: LocalCluster, words: list[str], sentence: str
) -> None:
    config = str(prepared.broker(1).config_path)
    code, _, errors = run("broker", "--config", config, "--check", *words)
    assert code == 2
    assert sentence in errors


def test_options_that_up_sets_are_told_and_can_be_set_back(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "cli.md").read_text()
    options = {"group.initial.rebalance.delay.ms": "3000"}
    assert list(LOCAL_OPTIONS) == list(options)
    for name, value in LOCAL_OPTIONS.items():
        assert f"`{name}={value}`" in page
        assert f"`--option {name}={options[name]}`" in page
        assert f"`kafkaesque up` sets {value}" in BROKER_OPTIONS.get(name).doc
    for given, delay_ms in ((None, 0), (options, 3000)):
        cluster = LocalCluster(tmp_path / str(delay_ms), free_ports(1), options=given)
        cluster.prepare()
        cluster.close()
        config = load_config(cluster.broker(1).config_path, environment={})
        assert config.broker.options.get("group.initial.rebalance.delay.ms") == delay_ms


def test_a_check_refuses_what_the_start_refuses(prepared: LocalCluster) -> None:
    broker = prepared.broker(1)
    config = str(broker.config_path)
    assert run("broker", "--config", config, "--check")[0] == 0
    outside = ("broker", "--config", config, "--check", "-o", "peer.host=203.0.113.7")
    code, _, errors = run(*outside)
    assert code == 2
    assert "allow.plaintext.listeners = true" in errors
    code, _, errors = run(*outside, "-o", "allow.plaintext.listeners=true")
    assert code == 2
    assert "cannot listen on 203.0.113.7" in errors
    broker.data.mkdir()
    owner = {"format": 1, "cluster_id": "another", "node": 1}
    (broker.data / "meta.json").write_text(json.dumps(owner))
    code, _, errors = run("broker", "--config", config, "--check")
    assert code == 2
    assert "belongs to broker 1 of cluster 'another'" in errors
    assert str(broker.data) in errors


def test_flags_go_over_environment_over_the_file(
    prepared: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = str(prepared.broker(1).config_path)
    monkeypatch.setenv("KAFKAESQUE_KAFKA_PORT", "none")
    code, _, errors = run("broker", "--config", config, "--check")
    assert (code, "kafka.port = 'none'" in errors) == (2, True)
    code, output, _ = run("broker", "--config", config, "--check", "--port", "9092")
    assert (code, output) == (0, f"{config} is valid\n")


def test_a_missing_file_is_named() -> None:
    code, _, errors = run("broker", "--config", "/nonexistent.toml", "--check")
    assert code == 2
    assert "cannot read /nonexistent.toml" in errors


ORPHAN = """
import sys, time
from pathlib import Path
from kafkaesque.cli.broker_ports import free_ports
from kafkaesque.cli.local_cluster import LocalCluster
cluster = LocalCluster(Path(sys.argv[1]), free_ports(1))
cluster.prepare()
cluster.start()
cluster.events.get(timeout=90)
print(cluster.broker(1).pid, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells children on Linux only")
def test_a_broker_ends_when_its_starter_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ORPHAN, str(tmp_path / "data")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        broker = int(starter.stdout.readline())
        os.kill(broker, 0)
        starter.send_signal(signal.SIGKILL)
    handle = os.pidfd_open(broker) if os.path.exists(f"/proc/{broker}") else -1
    if handle >= 0:
        try:
            import select

            assert select.select([handle], [], [], 90)[0], "the broker lives on"
        finally:
            os.close(handle)


def test_what_is_read_at_the_start_is_no_option(tmp_path: Path) -> None:
    options = {"tracing.endpoint": "http://127.0.0.1:4318/v1/traces"}
    with pytest.raises(CommandFailed) as failed:
        LocalCluster(tmp_path / "data", free_ports(1), options=options).prepare()
    given = "KAFKAESQUE_TRACING_ENDPOINT=http://127.0.0.1:4318/v1/traces"
    assert failed.value.hint == f"{given} kafkaesque up"
