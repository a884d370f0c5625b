"""The listeners of a broker's file: what the old keys mean, and what tables add."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from kafkaesque.broker.listeners import ADMIN, KAFKA, TEXT, AccessMode, Listener, check_access
from kafkaesque.env.network import Address
from kafkaesque.model.errors import ConfigError
from kafkaesque.server.config import load_config

#: For brokers that other machines reach.
MEANT = "allow.open.listeners = true\n"


def listeners(directory: Path, text: str, **environment: str) -> Sequence[Listener]:
    path = directory / "broker.toml"
    path.write_text(text)
    return load_config(path, environment=environment).broker.listeners


def told(found: Sequence[Listener]) -> list[tuple[str, str, str, str]]:
    return [(e.protocol, e.name, str(e.address), str(e.advertised)) for e in found]


def test_without_tables_each_protocol_has_its_port(tmp_path: Path) -> None:
    found = listeners(tmp_path, f'[broker]\n{MEANT}advertised.host = "k.example"\ntext.port = 0\n')
    assert told(found) == [
        (KAFKA, "kafka", "127.0.0.1:9092", "k.example:9092"),
        (ADMIN, "admin", "127.0.0.1:8080", "k.example:8080"),
    ]


def test_a_table_takes_the_place_of_its_protocols_default(tmp_path: Path) -> None:
    found = listeners(
        tmp_path,
        f"""
[broker]
{MEANT}host = "127.0.0.2"
[[listener]]
name = "inside"
port = 9093
[[listener]]
name = "outside"
host = "0.0.0.0"
port = 9094
advertised.host = "k.example"
advertised.port = 443
""",
    )
    assert told(found) == [
        (TEXT, "text", "127.0.0.2:7070", "127.0.0.2:7070"),
        (ADMIN, "admin", "127.0.0.2:8080", "127.0.0.2:8080"),
        (KAFKA, "inside", "127.0.0.2:9093", "127.0.0.2:9093"),
        (KAFKA, "outside", "0.0.0.0:9094", "k.example:443"),
    ]


@pytest.mark.parametrize("by", ["file", "environment"])
def test_a_default_whose_port_is_set_stays_beside_the_tables(tmp_path: Path, by: str) -> None:
    table = '[[listener]]\nprotocol = "text"\nname = "more"\nport = 7171\n'
    key = "text.port = 7070\n" if by == "file" else ""
    given = {} if key else {"KAFKAESQUE_TEXT_PORT": "7070"}
    found = listeners(tmp_path, f"[broker]\n{key}{table}", **given)
    assert [each.name for each in found] == ["kafka", "text", "admin", "more"]


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ("[listener]\nport = 1\n", r"a table, \[\[listener\]\], with double brackets"),
        ('[[listener]]\nprotocol = "kafak"\n', "protocol = 'kafak'"),
        ("[[listener]]\nprot = 1\n", r"did you mean port\?"),
        ("[[listener]]\nport = 70000\n", "70000"),
        ('[[listener]]\nname = "A B"\n', "'A B' must begin with a letter"),
        ('[[listener]]\nhost = "0.0.0.0"\n', "set advertised.host"),
        ('[[listener]]\nname = "text"\n', "two listeners are called 'text'"),
        (
            '[[listener]]\nname = "a"\n[[listener]]\nname = "b"\n',
            r"port of the \[\[listener\]\] b and port of the \[\[listener\]\] a are both 9092",
        ),
        (
            '[[listener]]\nprotocol = "websocket"\norigins = "app.example"\n',
            "origins: 'app.example' is no origin",
        ),
        ('[[listener]]\norigins = "https://app.example"\n', "for the protocol websocket"),
        ("[[listener]]\nport = 9190\n", "peer.port and .* are both 9190"),
        ('[[listener]]\nname = "a"\nport = 7070\n', "and text.port are both 7070"),
    ],
)
def test_what_is_wrong_with_a_table_is_said(tmp_path: Path, tables: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        listeners(tmp_path, f"[broker]\n{tables}")


@pytest.mark.parametrize(
    "text",
    [
        'websocket.port = 8090\nwebsocket.origins = "{}"\n',
        '[[listener]]\nprotocol = "websocket"\norigins = "{}"\n',
    ],
)
def test_a_listener_of_web_sockets_names_origins(tmp_path: Path, text: str) -> None:
    origins = "https://app.example, http://[::1]:3000"
    found = listeners(tmp_path, "[broker]\n" + text.format(origins))
    (mine,) = [each for each in found if each.protocol == "websocket"]
    assert mine.address.port == 8090
    assert mine.origins == ("https://app.example", "http://[::1]:3000")
    with pytest.raises(ConfigError, match="no origin"):
        listeners(tmp_path, "[broker]\n" + text.format("https://app.example/page"))


def test_faults_of_several_tables_are_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        listeners(tmp_path, "[[listener]]\nport = -1\nnme = 1\n[[listener]]\nhosts = 1\n")
    assert len(str(refused.value).splitlines()) == 3


# -- access

SECRET = "a secret of the cluster, for tests\n"
REQUIRED = '[[listener]]\nname = "secured"\naccess = "required"\n'


def secured(directory: Path, text: str, *, broker: str = "") -> Sequence[Listener]:
    """Reads a file with a cluster's secret, and without the text protocol's port."""
    secret = directory / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    head = f'[broker]\nid = 1\ntext.port = 0\ncluster.secret.file = "{secret}"\n{broker}\n'
    return listeners(directory, head + text)


def test_listeners_are_open_unless_told_otherwise(tmp_path: Path) -> None:
    found = listeners(tmp_path, "")
    assert {each.access for each in found} == {AccessMode.OPEN}


@pytest.mark.parametrize("access", list(AccessMode))
def test_the_default_listener_has_the_access_of_its_section(
    tmp_path: Path, access: AccessMode
) -> None:
    section = f'access = "{access.value}"\nsqs.port = 9324'
    kafka, admin, sqs = secured(tmp_path, "", broker=section)
    assert kafka.access is sqs.access is access
    assert admin.access is AccessMode.OPEN


def test_a_table_has_an_access_and_mechanisms_of_its_own(tmp_path: Path) -> None:
    table = '[[listener]]\nname = "b"\nport = 1\naccess = "optional"\n'
    table += 'sasl.mechanisms = "PLAIN, SCRAM-SHA-256"\n'
    found = {each.name: each for each in secured(tmp_path, REQUIRED + table)}
    assert found["secured"].access is AccessMode.REQUIRED
    assert found["secured"].mechanisms == ("SCRAM-SHA-512", "SCRAM-SHA-256", "OAUTHBEARER", "PLAIN")
    assert found["b"].access is AccessMode.OPTIONAL
    assert found["b"].mechanisms == ("PLAIN", "SCRAM-SHA-256")


@pytest.mark.parametrize("mode", ["required", "optional"])
def test_an_access_without_a_clusters_secret_does_not_start(tmp_path: Path, mode: str) -> None:
    with pytest.raises(ConfigError, match=r"needs cluster\.secret\.file"):
        listeners(tmp_path, f'[broker]\ntext.port = 0\naccess = "{mode}"\n')


def test_plain_where_others_can_listen_in_does_not_start(tmp_path: Path) -> None:
    table = REQUIRED + 'sasl.mechanisms = "PLAIN"\n'
    with pytest.raises(ConfigError, match="sends passwords in the clear"):
        secured(tmp_path, table + 'host = "10.0.0.1"\n')
    with pytest.raises(ConfigError, match="sends passwords in the clear"):
        secured(tmp_path, table + 'host = "0.0.0.0"\nadvertised.host = "127.0.0.1"\n')
    for host in ("127.0.0.1", "127.1.2.3", "localhost", "::1"):
        assert secured(tmp_path, table + f'host = "{host}"\n')


def test_a_name_that_only_looks_local_is_not(tmp_path: Path) -> None:
    table = REQUIRED + 'sasl.mechanisms = "PLAIN"\nhost = "127.example.org"\n'
    with pytest.raises(ConfigError, match="sends passwords in the clear"):
        secured(tmp_path, table)


def test_an_unknown_mechanism_is_told_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"did you mean SCRAM-SHA-512\?"):
        secured(tmp_path, REQUIRED + 'sasl.mechanisms = "scram-sha512"\n')
    with pytest.raises(ConfigError, match="'GSSAPI' is no SASL mechanism"):
        secured(tmp_path, REQUIRED + 'sasl.mechanisms = "GSSAPI"\n')


def test_protocols_without_a_log_in_cannot_require_one() -> None:
    stranger = Listener(
        protocol="telex", name="t", advertised=Address("localhost", 1), access=AccessMode.REQUIRED
    )
    with pytest.raises(ConfigError, match="clients of the protocol telex cannot log in yet"):
        check_access([stranger], has_secret=True)


@pytest.mark.parametrize("protocol", ["text", "admin"])
def test_a_password_in_the_clear_is_asked_for_on_this_machine_alone(
    tmp_path: Path, protocol: str
) -> None:
    table = f'[[listener]]\nprotocol = "{protocol}"\nname = "t"\naccess = "required"\n'
    found = {each.name: each for each in secured(tmp_path, table)}
    assert found["t"].access is AccessMode.REQUIRED
    with pytest.raises(ConfigError, match="log in by a password in the clear"):
        secured(tmp_path, table + 'host = "10.0.0.1"\n')


def test_doors_that_are_all_locked_may_stand_beside_one_another(tmp_path: Path) -> None:
    text = '[[listener]]\nprotocol = "text"\nname = "t"\naccess = "required"\n'
    admin = '[[listener]]\nprotocol = "admin"\nname = "a"\naccess = "optional"\n'
    assert len(secured(tmp_path, REQUIRED + text + admin)) == 3


def test_a_locked_door_beside_an_open_one_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"set text\.port = 0"):
        secured(tmp_path, REQUIRED, broker='[[listener]]\nprotocol = "text"\n')
    with pytest.raises(ConfigError, match=r"the listener admin beside it"):
        secured(tmp_path, REQUIRED, broker='host = "10.0.0.1"\n')


def test_super_users_are_named_as_kafka_names_them(tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text('[broker]\nsuper.users = "User:a; User:b b;User:a"\n')
    found = load_config(path, environment={}).broker.super_users
    assert found == ("User:a", "User:b b")


@pytest.mark.parametrize("text", ["a", "Role:a", "User:*", "User:", "User:a,User:b;c"])
def test_who_is_no_user_is_no_super_user(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broker.toml"
    path.write_text(f'[broker]\nsuper.users = "{text}"\n')
    with pytest.raises(ConfigError, match="must be a user, such as User:admin"):
        load_config(path, environment={})
