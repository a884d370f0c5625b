"""What is found wrong with a broker's file before the broker runs, and who is told."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from kafkaesque.env.network import Address
from kafkaesque.model.errors import ConfigError
from kafkaesque.server.config import ServerConfig, load_config
from kafkaesque.server.config_checks import (
    check_addresses,
    check_data_directory,
    find_own_seed,
    look_at_seeds,
    make_data_directory,
)

SECRET = "0123456789abcdef"


#: For brokers that other machines reach.
MEANT = "allow.open.listeners = true"


def load(directory: Path, broker: str, more: str = "") -> ServerConfig:
    path = directory / "broker.toml"
    path.write_text(f"[broker]\n{broker}\n{more}\n")
    return load_config(path, environment={})


def with_seeds(directory: Path, seeds: str) -> ServerConfig:
    secret = directory / "cluster.secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    return load(directory, f'id = 1\nseeds = "{seeds}"\ncluster.secret.file = "{secret}"')


def test_all_that_is_wrong_with_a_file_is_said_at_once(tmp_path: Path) -> None:
    broker = """id = -1
kafka.prot = 9092
admin.port = 9092
host = "0.0.0.0"
allow.open.listeners = true
seeds = "10.0.0.1"
cluster.secret.file = "/nowhere/secret"
[options]
log.segment.bytes = "much"
log.retenton.ms = 1
[controllers]
1 = "10.0.0.1"
[more]
"""
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, broker)
    said = str(refused.value).splitlines()
    wrong = ["[more]", "id = -1 is not", "kafka.prot", "log.segment.bytes", "log.retenton.ms"]
    wrong += ["admin.port and kafka.port", "0.0.0.0", "[controllers] 1", "secret", "seeds"]
    assert len(said) == len(wrong)
    for line, words in zip(said, wrong, strict=True):
        assert words in line
    (tmp_path / "broker.toml").write_text("broker = 1\noptions = 2\n")
    with pytest.raises(ConfigError, match=r"broker must be a section.*\noptions must be"):
        load_config(tmp_path / "broker.toml", environment={})


@pytest.mark.parametrize(
    ("broker", "more", "named"),
    [
        ("", '[controllers]\n1 = "10.0.0.1:9190"', "[controllers]"),
        ('seeds = "10.0.0.1:9190"', "", "seeds"),
        ('cluster.secret.file = "secret"', "", "cluster.secret.file"),
    ],
)
def test_a_broker_of_a_cluster_must_have_an_id_in_its_file(
    tmp_path: Path, broker: str, more: str, named: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, broker, more)
    assert "id is missing in [broker]" in str(refused.value)
    assert named in str(refused.value)


def test_the_id_may_come_from_the_environment_and_a_broker_that_is_alone_needs_none(
    tmp_path: Path,
) -> None:
    assert load(tmp_path, "").broker.node == 1
    path = tmp_path / "broker.toml"
    path.write_text('[controllers]\n1 = "10.0.0.1:9190"\n')
    assert load_config(path, environment={"KAFKAESQUE_ID": "7"}).broker.node == 7


def test_no_two_ports_are_the_same(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, "peer.port = 9092")
    assert str(refused.value) == (
        "peer.port and kafka.port are both 9092: each needs a port of its own"
    )
    load(tmp_path, "text.port = 0\nadmin.port = 0")


def with_data(directory: Path, data: Path, more: str = "") -> ServerConfig:
    return load(directory, f'id = 1\ndata = "{data}"\n{more}')


def test_a_data_directory_that_cannot_be_made_is_named_and_a_check_makes_none(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "data", Path("/proc/x")):
        wrong = f"the data directory {path} cannot be made"
        with pytest.raises(ConfigError, match=wrong):
            make_data_directory(path)
        with pytest.raises(ConfigError, match=wrong):
            check_data_directory(with_data(tmp_path, path))
    config = with_data(tmp_path, tmp_path / "a" / "b")
    check_data_directory(config)
    assert not (tmp_path / "a").exists()
    make_data_directory(config.data)
    check_data_directory(config)
    assert (tmp_path / "a" / "b").is_dir()
    assert list((tmp_path / "a" / "b").iterdir()) == []


@pytest.mark.parametrize(
    ("meta", "said"),
    [
        (
            '{"format": 1, "cluster_id": "kafkaesque", "node": 2}',
            "broker 2 of cluster 'kafkaesque', and this is broker 1 of cluster 'kafkaesque'",
        ),
        (
            '{"format": 1, "cluster_id": "other", "node": 1}',
            "broker 1 of cluster 'other', and this is broker 1 of cluster 'kafkaesque'",
        ),
        ('{"format": 9, "cluster_id": "kafkaesque", "node": 1}', "has format 9"),
        ("nonsense", "cannot be read"),
    ],
)
def test_a_data_directory_that_the_start_refuses_is_not_right(
    tmp_path: Path, meta: str, said: str
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "meta.json").write_text('{"format": 1, "cluster_id": "kafkaesque", "node": 1}')
    check_data_directory(with_data(tmp_path, data))
    (data / "meta.json").write_text(meta)
    with pytest.raises(ConfigError) as refused:
        check_data_directory(with_data(tmp_path, data))
    assert said in str(refused.value)
    assert str(data) in str(refused.value)
    assert [path.name for path in data.iterdir()] == ["meta.json"]


def test_a_directory_that_has_lost_its_owner_is_not_right(tmp_path: Path) -> None:
    (tmp_path / "data" / "wal").mkdir(parents=True)
    (tmp_path / "data" / "wal" / "1").write_text("")
    (tmp_path / "data" / "checkpoint").write_text("")
    with pytest.raises(ConfigError, match="has a 'checkpoint' but no 'meta"):
        check_data_directory(with_data(tmp_path, tmp_path / "data"))


def test_a_data_directory_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Root may read everything, so the question is answered here as it is for others.
    (tmp_path / "data").mkdir(mode=0o300)
    monkeypatch.setattr("os.access", lambda path, mode: not mode & os.R_OK)
    with pytest.raises(ConfigError, match="this user may not read and write in"):
        check_data_directory(with_data(tmp_path, tmp_path / "data"))


@pytest.mark.parametrize("host", ["203.0.113.7", "no-such-name.invalid"])
def test_a_place_to_listen_that_this_machine_does_not_have_is_named(
    tmp_path: Path, host: str
) -> None:
    more = f'host = "{host}"\nadvertised.host = "127.0.0.1"'
    with pytest.raises(ConfigError, match=f"cannot listen on {host}:9092"):
        check_addresses(load(tmp_path, f"id = 1\n{MEANT}\n{more}"))
    more = f'peer.host = "{host}"'
    with pytest.raises(ConfigError, match=f"cannot listen on {host}:9190"):
        check_addresses(load(tmp_path, f"id = 1\n{MEANT}\n{more}"))


def test_a_port_that_is_in_use_is_no_fault_of_a_file(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        check_addresses(load(tmp_path, f"id = 1\nkafka.port = {port}"))


def test_a_seed_that_is_the_broker_itself_is_told_of(tmp_path: Path) -> None:
    assert find_own_seed(with_seeds(tmp_path, "127.0.0.1:9191")) is None
    among = find_own_seed(with_seeds(tmp_path, "127.0.0.1:9190,127.0.0.1:9191"))
    assert among is not None
    assert "127.0.0.1:9190 is this broker's own peer address" in among
    alone = find_own_seed(with_seeds(tmp_path, "127.0.0.1:9190"))
    assert alone is not None
    assert alone.startswith("the only seed")


def test_a_seed_whose_name_does_not_resolve_is_told_of(tmp_path: Path) -> None:
    (sentence,) = look_at_seeds(with_seeds(tmp_path, "no-such-host.invalid:9190"))
    assert sentence.startswith("the name of the seed no-such-host.invalid:9190 does not resolve")


@pytest.mark.parametrize("answer", [b"\0\0\0\x0a\0\0\0\1\0\0", b""], ids=["kafka", "other"])
def test_a_seed_that_is_a_kafka_port_is_told_of(tmp_path: Path, answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(64)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        port = server.getsockname()[1]
        found = look_at_seeds(with_seeds(tmp_path, f"127.0.0.1:{port}"))
        thread.join()
    assert [f"the seed 127.0.0.1:{port} is a Kafka port" in each for each in found] == (
        [True] if answer else []
    )
    # Nobody listens there any more: that is no fault of the file.
    assert look_at_seeds(with_seeds(tmp_path, f"127.0.0.1:{port}")) == []


def test_the_peer_port_listens_where_it_is_told_and_others_are_told_the_advertised_host(
    tmp_path: Path,
) -> None:
    host = f'{MEANT}\nadvertised.host = "192.0.2.1"'
    assert load(tmp_path, host).broker.peer_listener == Address("192.0.2.1", 9190)
    broker = load(tmp_path, f'{host}\npeer.host = "0.0.0.0"').broker
    assert broker.peer_listener == Address("0.0.0.0", 9190)
    assert broker.peer_address == Address("192.0.2.1", 9190)
    assert broker.kafka_address == Address("192.0.2.1", 9092)


@pytest.mark.parametrize("host", ['host = "0.0.0.0"', 'host = "::"', 'advertised.host = "0.0.0.0"'])
def test_nobody_is_told_to_connect_to_every_address(tmp_path: Path, host: str) -> None:
    with pytest.raises(ConfigError, match=r"set advertised\.host to the name or address"):
        load(tmp_path, host)


def test_who_listens_everywhere_says_where_it_is_reached(tmp_path: Path) -> None:
    where = 'host = "0.0.0.0"\nadvertised.host = "kafkaesque.example"'
    config = load(tmp_path, f"{MEANT}\n{where}")
    assert config.broker.kafka_address.host == "kafkaesque.example"
    # DescribeConfigs shows both.
    assert config.broker.listeners[0].address == Address("0.0.0.0", 9092)
