"""Brokers that other machines reach without a log-in, or in the clear, start only if told to."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkaesque.broker.listeners import AccessMode
from kafkaesque.model.errors import ConfigError
from kafkaesque.server.config import ServerConfig, load_config
from tests.certificates import TestAuthority

OUTSIDE = 'host = "10.0.0.7"\n'
OPEN, PLAINTEXT = "allow.open.listeners = true\n", "allow.plaintext.listeners = true\n"
#: Neither text nor admin port, which have no log-in.
KAFKA_ONLY = "text.port = 0\nadmin.port = 0\n"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> TestAuthority:
    return TestAuthority(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def secret(tmp_path: Path) -> str:
    path = tmp_path / "secret"
    path.write_text("a secret of the cluster, for tests\n")
    path.chmod(0o600)
    return f'id = 1\ncluster.secret.file = "{path}"\n'


def load(directory: Path, broker: str, more: str = "") -> ServerConfig:
    path = directory / "broker.toml"
    path.write_text(f"[broker]\n{broker}{more}")
    return load_config(path, environment={})


def refused(directory: Path, broker: str, more: str = "") -> list[str]:
    with pytest.raises(ConfigError) as error:
        load(directory, broker, more)
    return str(error.value).splitlines()


def tls(authority: TestAuthority, more: str) -> str:
    return (
        f'[tls]\ncertificate = "{authority.certificate("broker-1")}"\n'
        f'key = "{authority.key("broker-1")}"\nca = "{authority.ca}"\n{more}\n'
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_on_this_machine_nothing_has_to_be_said(tmp_path: Path, host: str) -> None:
    assert load(tmp_path, f'host = "{host}"\n').broker.listeners


@pytest.mark.parametrize(
    "where", [OUTSIDE, 'host = "0.0.0.0"\nadvertised.host = "127.0.0.1"\n', 'host = "a.example"\n']
)
def test_each_open_listener_is_named_with_the_words(tmp_path: Path, where: str) -> None:
    said = refused(tmp_path, where)
    names = ["listener kafka", "listener text", "listener admin"]
    assert [any(name in line for line in said) for name in names] == [True] * 3
    assert all("allow.open.listeners = true" in line for line in said)
    assert load(tmp_path, where + OPEN).broker.listeners


def test_optional_lets_everybody_in_as_well(tmp_path: Path, secret: str) -> None:
    broker = f'{secret}{KAFKA_ONLY}{OUTSIDE}{PLAINTEXT}access = "optional"\n'
    (said,) = refused(tmp_path, broker)
    assert "lets in everybody without a log-in" in said
    assert load(tmp_path, broker + OPEN).broker.listeners


def test_a_log_in_in_the_clear_needs_other_words(tmp_path: Path, secret: str) -> None:
    broker = f'{secret}{KAFKA_ONLY}{OUTSIDE}peer.host = "127.0.0.1"\naccess = "required"\n'
    (said,) = refused(tmp_path, broker + OPEN)
    assert "is in the clear" in said
    assert "allow.plaintext.listeners = true" in said
    assert load(tmp_path, broker + PLAINTEXT).broker.listeners


def test_what_is_secured_needs_no_words(
    tmp_path: Path, secret: str, authority: TestAuthority
) -> None:
    broker = f'{secret}{KAFKA_ONLY}{OUTSIDE}access = "required"\n'
    config = load(tmp_path, broker, tls(authority, 'listeners = true\npeers = "on"'))
    assert config.broker.listeners[0].access is AccessMode.REQUIRED


def test_who_shows_a_certificate_has_proved_who_it_is(
    tmp_path: Path, secret: str, authority: TestAuthority
) -> None:
    broker = f"{secret}{KAFKA_ONLY}{OUTSIDE}"
    more = 'listeners = true\npeers = "on"\nclient.auth = '
    assert load(tmp_path, broker, tls(authority, more + '"required"')).broker.listeners
    (said,) = refused(tmp_path, broker, tls(authority, more + '"optional"'))
    assert "lets in everybody" in said


@pytest.mark.parametrize("peers", ["off", "accept", "dial", "on"])
def test_links_between_brokers_in_the_clear_need_words(
    tmp_path: Path, secret: str, authority: TestAuthority, peers: str
) -> None:
    broker = f'{secret}peer.host = "10.0.0.7"\n'
    section = tls(authority, f'peers = "{peers}"')
    if peers == "on":
        assert load(tmp_path, broker, section).broker.peer_listener
        return
    (said,) = refused(tmp_path, broker, section)
    assert "the port for brokers at 10.0.0.7:9190" in said
    assert load(tmp_path, broker + PLAINTEXT, section).broker.peer_listener


def test_a_peer_port_without_a_secret_lets_everybody_in(tmp_path: Path) -> None:
    (said,) = refused(tmp_path, 'peer.host = "10.0.0.7"\n' + PLAINTEXT)
    assert "set cluster.secret.file" in said
    assert load(tmp_path, 'peer.host = "10.0.0.7"\n' + OPEN).broker.peer_listener


def test_passwords_in_the_clear_are_refused_whatever_is_said(tmp_path: Path, secret: str) -> None:
    table = '[[listener]]\nname = "out"\nhost = "10.0.0.7"\naccess = "required"\n'
    table += 'sasl.mechanisms = "PLAIN"\n'
    said = refused(tmp_path, secret + KAFKA_ONLY + OPEN + PLAINTEXT, table)
    assert any("sends passwords in the clear" in line for line in said)
