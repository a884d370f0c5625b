"""The listeners of a broker's file: what the old keys mean, and what tables add."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from kafkaesque.broker.listeners import ADMIN, KAFKA, TEXT, Listener
from kafkaesque.model.errors import ConfigError
from kafkaesque.server.config import load_config


def listeners(directory: Path, text: str, **environment: str) -> Sequence[Listener]:
    path = directory / "broker.toml"
    path.write_text(text)
    return load_config(path, environment=environment).broker.listeners


def told(found: Sequence[Listener]) -> list[tuple[str, str, str, str]]:
    return [(e.protocol, e.name, str(e.address), str(e.advertised)) for e in found]


def test_without_tables_each_protocol_has_its_port(tmp_path: Path) -> None:
    found = listeners(tmp_path, '[broker]\nadvertised.host = "k.example"\ntext.port = 0\n')
    assert told(found) == [
        (KAFKA, "kafka", "127.0.0.1:9092", "k.example:9092"),
        (ADMIN, "admin", "127.0.0.1:8080", "k.example:8080"),
    ]


def test_a_table_takes_the_place_of_its_protocols_default(tmp_path: Path) -> None:
    found = listeners(
        tmp_path,
        """
[broker]
host = "127.0.0.2"
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
        ("[[listener]]\nport = 9190\n", "peer.port and .* are both 9190"),
        ('[[listener]]\nname = "a"\nport = 7070\n', "and text.port are both 7070"),
    ],
)
def test_what_is_wrong_with_a_table_is_said(tmp_path: Path, tables: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        listeners(tmp_path, f"[broker]\n{tables}")


def test_faults_of_several_tables_are_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        listeners(tmp_path, "[[listener]]\nport = -1\nnme = 1\n[[listener]]\nhosts = 1\n")
    assert len(str(refused.value).splitlines()) == 3
