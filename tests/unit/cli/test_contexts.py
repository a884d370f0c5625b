"""Clusters by name: what is kept, and when it counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafkaesque.cli import contexts
from kafkaesque.cli.failure import CommandFailed
from tests.unit.cli.test_commands import run


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*contexts.VARIABLES, contexts.CHOICE_VARIABLE):
        # Set first, so that what the test sets is taken back.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv(contexts.FILE_VARIABLE, str(tmp_path / "some" / "contexts.json"))


def test_what_the_environment_says_is_kept_and_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KAFKAESQUE_CA", "ca.pem")
    monkeypatch.setenv("KAFKAESQUE_USER", "ann")
    assert run("context", "create", "prod", "-b", "10.0.0.7:9092")[0] == 0
    monkeypatch.delenv("KAFKAESQUE_CA")
    monkeypatch.delenv("KAFKAESQUE_USER")
    code, shown, _ = run("context", "list", "--json")
    assert code == 0
    (only,) = json.loads(shown)
    wanted = {
        "KAFKAESQUE_BOOTSTRAP_SERVER": "10.0.0.7:9092",
        "KAFKAESQUE_CA": str(tmp_path / "ca.pem"),
        "KAFKAESQUE_USER": "ann",
    }
    assert only == {"context": "prod", "is_used": False, "variables": wanted}
    said: dict[str, str] = {contexts.FILE_VARIABLE: str(tmp_path / "some" / "contexts.json")}
    contexts.apply(None, said)
    assert len(said) == 1
    assert run("context", "use", "prod")[0] == 0
    contexts.apply(None, said)
    assert {**wanted, **said} == said


def test_two_clusters_are_never_mixed(tmp_path: Path) -> None:
    path = {contexts.FILE_VARIABLE: str(tmp_path / "some" / "contexts.json")}
    assert run("context", "create", "prod", "-b", "10.0.0.7:9092")[0] == 0
    assert run("context", "use", "prod")[0] == 0
    # A password for another cluster is not sent to this one.
    said = {**path, "KAFKAESQUE_USER": "bob", "KAFKAESQUE_PASSWORD_FILE": "/bob"}
    before = dict(said)
    contexts.apply(None, said)
    assert said == before
    contexts.apply("prod", said)
    assert said == {**path, "KAFKAESQUE_BOOTSTRAP_SERVER": "10.0.0.7:9092"}


def test_commands_connect_to_the_context_that_is_named() -> None:
    assert run("context", "create", "far", "-b", "127.0.0.1:1")[0] == 0
    code, _, errors = run("--context", "far", "topic", "list")
    assert code == 3
    assert "127.0.0.1:1" in errors
    code, _, errors = run("--context", "near", "topic", "list")
    assert code == 2
    assert "there is no context 'near'" in errors


def test_deleting_the_one_in_use_uses_none() -> None:
    assert run("context", "create", "prod", "-b", "10.0.0.7:9092")[0] == 0
    assert run("context", "use", "prod")[0] == 0
    assert run("context", "delete", "prod")[0] == 2
    assert run("context", "delete", "prod", "--yes")[0] == 0
    assert contexts.read_contexts().current is None
    assert run("context", "use", "prod")[0] == 2


@pytest.mark.parametrize("name", ["", "../x", "a b", "x" * 65, "-x"])
def test_a_name_is_one_word(name: str) -> None:
    assert run("context", "create", "-b", "10.0.0.7:9092", "--", name)[0] == 2


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"current": null, "contexts": 1}'])
def test_a_file_that_is_none_is_said(text: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(text)
    with pytest.raises(CommandFailed, match="is no file of contexts"):
        contexts.read_contexts({contexts.FILE_VARIABLE: str(path)})
