"""What a broker's file says of TLS, and what it must say."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkaesque.model.errors import ConfigError
from kafkaesque.server.config import ServerConfig, load_config
from kafkaesque.server.tls_settings import ClientAuth, TlsSettings

#: For brokers that other machines reach.
MEANT = "allow.open.listeners = true"
OWN = 'certificate = "a.pem"\nkey = "a.key"\n'


def load(directory: Path, text: str, **environment: str) -> ServerConfig:
    path = directory / "broker.toml"
    path.write_text(f'[broker]\nid = 7\ncluster.id = "c"\n{MEANT}\nhost = "10.0.0.7"\n{text}')
    return load_config(path, environment=environment)


def by_name(config: ServerConfig) -> dict[str, TlsSettings]:
    return {each.name: each for each in config.tls}


def test_without_a_word_of_it_nothing_speaks_tls(tmp_path: Path) -> None:
    config = load(tmp_path, "")
    assert config.tls == ()
    assert {each.tls for each in config.broker.listeners} == {""}
    assert config.broker.peer_tls == ""
    assert load(tmp_path, f"[tls]\n{OWN}").tls == ()


def test_all_listeners_speak_it_but_those_that_say_no(tmp_path: Path) -> None:
    clear = '[[listener]]\nprotocol = "admin"\ntls = false\n'
    config = load(tmp_path, f"[tls]\n{OWN}listeners = true\n{clear}")
    tls = {each.name: each.tls for each in config.broker.listeners}
    assert tls == {"kafka": "listener kafka", "text": "listener text", "admin": ""}
    assert by_name(config)["listener kafka"] == TlsSettings(
        name="listener kafka",
        setting="TLS of the listener kafka",
        certificate=Path("a.pem"),
        key=Path("a.key"),
        hosts=("10.0.0.7",),
    )


def test_a_listener_has_its_own_keys_and_the_rest_of_the_section(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        f'[tls]\n{OWN}ca = "ca.pem"\nclient.auth = "optional"\n'
        '[[listener]]\nname = "outside"\nport = 9094\nadvertised.host = "k.example"\n'
        'tls.certificate = "b.pem"\ntls.key = "b.key"\ntls.client.auth = "required"\n'
        '[[listener]]\nname = "inside"\nport = 9095\ntls = true\n'
        '[[listener]]\nname = "clear"\nport = 9096\n',
    )
    found = by_name(config)
    assert set(found) == {"listener outside", "listener inside"}
    outside, inside = found["listener outside"], found["listener inside"]
    assert (outside.certificate, outside.key, outside.ca) == (
        Path("b.pem"),
        Path("b.key"),
        Path("ca.pem"),
    )
    assert (outside.client_auth, inside.client_auth) == (ClientAuth.REQUIRED, ClientAuth.OPTIONAL)
    assert (outside.hosts, inside.hosts) == (("k.example",), ("10.0.0.7",))
    assert inside.certificate == Path("a.pem")


def test_brokers_show_the_common_certificate_or_one_of_their_own(tmp_path: Path) -> None:
    config = load(tmp_path, f'[tls]\n{OWN}ca = "ca.pem"\npeers = "on"\n')
    peers = by_name(config)["peers"]
    assert config.broker.peer_tls == "peers"
    assert (peers.certificate, peers.ca, peers.uri) == (
        Path("a.pem"),
        Path("ca.pem"),
        "kafkaesque://c/broker/7",
    )
    assert peers.client_auth is ClientAuth.REQUIRED
    own = 'peer.certificate = "p.pem"\npeer.key = "p.key"\npeer.ca = "p-ca.pem"\n'
    peers = by_name(load(tmp_path, f"[tls]\npeers = 'on'\n{own}"))["peers"]
    assert (peers.certificate, peers.key, peers.ca) == (
        Path("p.pem"),
        Path("p.key"),
        Path("p-ca.pem"),
    )


def test_variables_of_the_environment_count_before_the_file(tmp_path: Path) -> None:
    given = {"KAFKAESQUE_TLS_KEY": "e.key", "KAFKAESQUE_TLS_LISTENERS": "true"}
    config = load(tmp_path, f"[tls]\n{OWN}", **given)
    assert {str(each.key) for each in config.tls} == {"e.key"}
    assert len(config.tls) == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[tls]\ncertficate = 'x'\n", "did you mean certificate?"),
        ("[tls]\nclient.auth = 'requird'\n", "client.auth = 'requird'"),
        ("[tls]\nlisteners = true\n", "needs certificate and key in [tls]"),
        ("[tls]\nlisteners = true\nkey = 'x'\n", "needs certificate in [tls]"),
        ("[[listener]]\ntls = true\n", "TLS of the listener kafka needs certificate and key"),
        ("[[listener]]\ntls.ky = 'x'\n", "did you mean tls.key?"),
        ("[[listener]]\ntls.key = 'x'\n", "needs certificate in [tls]"),
        (
            f"[tls]\n{OWN}[[listener]]\ntls.client.auth = 'required'\n",
            "TLS of the listener kafka needs ca",
        ),
        (f"[tls]\n{OWN}crl = 'x'\nlisteners = true\n", "needs ca"),
        ("[tls]\npeers = 'on'\n", "TLS between brokers needs peer.certificate and peer.key"),
        (f"[tls]\n{OWN}peers = 'on'\n", "TLS between brokers needs peer.ca, or ca"),
        ("tls = true\n", "unknown [broker] option 'tls'"),
    ],
)
def test_what_is_missing_or_mistyped_is_said(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, text)
    assert words in str(refused.value)


def test_all_of_it_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, "[tls]\nlisteners = true\npeers = 'on'\nkex = 1\n")
    said = str(refused.value).splitlines()
    assert len(said) == 5  # A key, three listeners, the brokers.
