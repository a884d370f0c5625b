"""`scripts/peers --amqp` says what it leaves out, and what has failed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench import client_program
from bench.amqp_peers import EXIT_UNAVAILABLE, main, run_client
from bench.client_program import FailedError


def test_what_cannot_be_had_is_said_to_be_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", ["peers", "amqp://127.0.0.1:1"])
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert main() == EXIT_UNAVAILABLE
    said = capsys.readouterr().out
    assert "LEFT OUT: amqp091-go is left out: Go is not installed" in said
    assert "LEFT OUT: RabbitMQ's client for Java is left out: Java is not installed" in said


def test_a_broker_is_killed_when_the_program_wants_to_see_it_dead(
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = "import sys; print('kill 1', flush=True); print(f'went on{sys.stdin.readline()!r}')"
    killed: list[int] = []
    run_client([sys.executable, "-c", program], ["amqp://127.0.0.1:1"], killed.append)
    assert killed == [1]
    assert "went on'\\n'" in capsys.readouterr().out


def test_a_program_that_fails_is_told_with_its_last_words() -> None:
    program = [sys.executable, "-c", "raise SystemExit('one thing is not as it should be')"]
    with pytest.raises(FailedError, match=r"ended with 1: one thing is not as it should be"):
        run_client(program, [], lambda number: None)


def test_a_program_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_program, "RUN_TIMEOUT_S", 0.5)
    program = [sys.executable, "-c", "import time; time.sleep(600)"]
    with pytest.raises(FailedError, match="ended with -9"):
        run_client(program, [], lambda number: None)
