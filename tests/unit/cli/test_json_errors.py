"""What a command that prints JSON says when it cannot go on."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from kafkaesque.cli.failure import CommandFailed, wants_json

KAFKAESQUE = [sys.executable, "-m", "kafkaesque.cli.app"]
NOBODY = ["--bootstrap-server", "127.0.0.1:1"]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*KAFKAESQUE, *words], capture_output=True, text=True, timeout=60, check=False
    )


def test_an_error_is_an_object_with_the_exit_code_of_the_command() -> None:
    done = run("topic", "list", "--json", *NOBODY)
    told = json.loads(done.stderr)
    assert (done.stdout, told["exit_code"]) == ("", done.returncode)
    assert "127.0.0.1:1" in told["error"]
    assert "kafkaesque up" in told["try"]


def test_a_wrong_command_line_is_told_as_an_object_too() -> None:
    done = run("topic", "list", "--json", "--no-such-option")
    told = json.loads(done.stderr)
    assert (done.returncode, "--no-such-option" in told["error"]) == (2, True)


def test_people_are_told_in_words() -> None:
    done = run("topic", "list", *NOBODY)
    assert done.stderr.startswith("error: no broker answers")


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["topic", "list", "--json"], True),
        (["topic", "list"], False),
        (["publish", "t", "--", "--json"], False),
    ],
)
def test_a_word_behind_two_dashes_is_no_option(words: list[str], wanted: bool) -> None:
    assert wants_json(words) is wanted


def test_several_lines_stay_one_object(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["kafkaesque", "--json"])
    CommandFailed('one "line"\nand another', exit_code=7).show()
    told = json.loads(capsys.readouterr().err)
    assert told == {"error": 'one "line"\nand another', "try": "", "exit_code": 7}
