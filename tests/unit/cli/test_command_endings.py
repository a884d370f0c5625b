"""Mistakes in the command line are told as all errors are; escape codes go where they are taken."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Mapping

import pytest

from tests.unit.cli.test_commands import run

KAFKAESQUE = [sys.executable, "-m", "kafkaesque.cli.app"]


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        (["topic", "list", "--frobnicate"], "no such option: --frobnicate", "topic list --help"),
        (["topic", "create"], "missing argument 'TOPIC'", "topic create --help"),
        (["topic", "create", "t", "-p", "many"], "invalid value for '--partitions'", None),
        (["topic", "mangle"], "no such command 'mangle'", "topic --help"),
        (["tpoic"], "there is no command 'tpoic'. Did you mean 'topic'?", "kafkaesque --help"),
        (["cluster", "wait", "--timeout", "nan"], "nan is not a number", None),
    ],
)
def test_wrong_usage_is_one_error_and_what_to_try(
    words: list[str], error: str, hint: str | None
) -> None:
    code, output, errors = run(*words)
    assert (code, output) == (2, "")
    first, second = errors.splitlines()
    assert first.startswith("error: ")
    assert error in first
    assert second.startswith("try:   kafkaesque ")
    assert second.endswith(hint or "--help")


def test_a_command_without_its_subcommand_shows_help() -> None:
    code, _, errors = run("topic")
    assert code == 2
    assert errors.startswith("Usage: kafkaesque topic ")
    assert "error:" not in errors


def on_a_terminal(*words: str, environment: Mapping[str, str]) -> str:
    """Run a command whose input and output are a terminal; return all that it writes there."""
    ours, theirs = pty.openpty()
    clean = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    with subprocess.Popen(
        [*KAFKAESQUE, *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**clean, "TERM": "xterm", **environment},
    ):
        os.close(theirs)
        found = b""
        try:
            while data := os.read(ours, 1 << 16):
                found += data
        except OSError:  # so Linux says that the last one has closed it
            pass
        os.close(ours)
    return found.decode()


def test_on_a_terminal_a_mistake_is_an_error_and_no_help() -> None:
    said = on_a_terminal("topic", "create", environment={})
    assert said == "error: missing argument 'TOPIC'\r\ntry:   kafkaesque topic create --help\r\n"


def test_on_a_terminal_help_is_shown_once() -> None:
    assert on_a_terminal("topic", environment={}).count("Usage: ") == 1


@pytest.mark.parametrize(
    "words",
    [["config", "list", "broker"], ["topic", "create", "--help"], ["topic", "--bogus"]],
    ids=" ".join,
)
def test_no_escape_code_is_sent_where_it_is_not_wanted(words: list[str]) -> None:
    for environment in ({"TERM": "dumb"}, {"NO_COLOR": "1"}):
        said = on_a_terminal(*words, environment=environment)
        assert "\x1b" not in said
        assert len(said) > 40
    if "--bogus" not in words:
        assert "\x1b[1m" in on_a_terminal(*words, environment={})
