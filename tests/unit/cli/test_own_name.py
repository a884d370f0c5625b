"""What `up` tells the reader to type works where the reader types it."""

import sys
from pathlib import Path

import pytest

from kafkaesque.cli.own_name import own_name


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a checkout's program, which is not on the PATH, the one that runs."""
    program = tmp_path / ".venv" / "bin" / "kafkaesque"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(program), "up"])
    monkeypatch.setenv("PATH", str(tmp_path))
    return program


def test_it_is_the_path_where_the_shell_does_not_find_the_name(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert own_name() == str(program)
    monkeypatch.chdir(tmp_path)
    assert own_name() == ".venv/bin/kafkaesque"
    monkeypatch.setattr(sys, "argv", [".venv/bin/kafkaesque", "up"])
    assert own_name() == ".venv/bin/kafkaesque"


def test_it_is_the_name_where_the_shell_finds_it(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(program.parent))
    assert own_name() == "kafkaesque"


def test_it_is_the_name_where_something_else_runs(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/pytest"])
    assert own_name() == "kafkaesque"
