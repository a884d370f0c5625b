"""A forked process is in all else as if it had been started alone."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.forked import processes
from tests.waiting import eventually

APP = [sys.executable, "-m", "kafkaesque.cli.app"]
NOBODY = ["-b", "127.0.0.1:1"]
#: It waits for its input.
WAITING = [*APP, "publish", "topic", *NOBODY]
#: Forks one, says which, and waits for its own end.
PARENT = """
import sys
from tests.forked import processes
process = processes.Popen(sys.argv[1:], stdin=0)
print(process.pid, flush=True)
process.wait()
"""


@pytest.fixture
def silence() -> Iterator[int]:
    """The end of a pipe from which nothing comes."""
    reading, writing = os.pipe()
    yield reading
    os.close(reading)
    os.close(writing)


def children() -> set[str]:
    """Return the numbers of our own children, dead ones that nobody has waited for among them."""
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def forked(process: processes.Popen) -> bool:
    return b"tests.forked.server" in Path(f"/proc/{process.pid}/cmdline").read_bytes()


@pytest.mark.parametrize("words", [["--version"], ["topic", "list", *NOBODY], ["no-command"]])
def test_output_errors_and_code_are_those_of_the_command_alone(words: list[str]) -> None:
    alone = subprocess.run([*APP, *words], capture_output=True, check=False, timeout=90)
    ours = processes.run([*APP, *words], capture_output=True, timeout=90)
    assert (ours.returncode, ours.stdout, ours.stderr) == (
        alone.returncode,
        alone.stdout,
        alone.stderr,
    )


def test_it_has_the_input_environment_and_folder_that_it_is_given(tmp_path: Path) -> None:
    with processes.Popen(
        WAITING,
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "KAFKAESQUE_NAME": "value"},
        cwd=tmp_path,
        start_new_session=True,
    ) as process:
        home = Path(f"/proc/{process.pid}")
        assert forked(process)
        assert os.getsid(process.pid) == process.pid
        assert (home / "cwd").readlink() == tmp_path
        assert (home / "fd/0").readlink().name.startswith("pipe:")
        process.kill()
    assert process.returncode == -signal.SIGKILL


def test_it_is_a_child_of_ours_and_a_check_finds_that_it_failed() -> None:
    with processes.Popen(WAITING, stdin=subprocess.PIPE) as process:
        status = Path(f"/proc/{process.pid}/status").read_text()
        assert f"PPid:\t{os.getpid()}\n" in status
        process.terminate()
    assert process.returncode == -signal.SIGTERM
    with pytest.raises(subprocess.CalledProcessError):
        processes.run([*APP, "no-command"], capture_output=True, check=True)


def test_other_settings_of_python_get_an_interpreter_of_their_own() -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    with processes.Popen(WAITING, stdin=subprocess.PIPE, env=environment) as process:
        assert not forked(process)
        process.kill()


def test_our_own_environment_counts_as_it_is_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKAESQUE_BOOTSTRAP_SERVER", "no address")
    told = processes.run([*APP, "topic", "list"], capture_output=True, text=True, timeout=90)
    assert "no address" in told.stderr
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    with processes.Popen(WAITING, stdin=subprocess.PIPE) as process:
        assert not forked(process)
        process.kill()


@pytest.mark.parametrize(
    "settings", [{"umask": 0o77}, {"close_fds": False}, {"process_group": 0}, {"pass_fds": (0,)}]
)
def test_what_cannot_be_had_by_a_fork_is_started_alone(settings: dict[str, Any]) -> None:
    with processes.Popen(WAITING, stdin=subprocess.PIPE, **settings) as process:
        assert not forked(process)
        process.kill()


def test_another_interpreter_or_program_is_started_alone(tmp_path: Path) -> None:
    other = tmp_path / "python"
    other.symlink_to(sys.executable)
    for command in ([str(other), *WAITING[1:]], ["cat"]):
        with processes.Popen(command, stdin=subprocess.PIPE) as process:
            assert not forked(process)
            process.kill()


@pytest.mark.parametrize("kind", ["missing", "file"])
def test_a_folder_that_it_cannot_have_is_an_error_of_whoever_starts_it(
    tmp_path: Path, kind: str
) -> None:
    folder = tmp_path / kind
    if kind == "file":
        folder.touch()
    processes.run([*APP, "--version"], capture_output=True, timeout=90)
    before = children()
    with pytest.raises(OSError, match=kind) as alone:
        subprocess.run(WAITING, cwd=folder, check=False)
    with pytest.raises(OSError, match=kind) as ours:
        processes.run(WAITING, cwd=folder)
    assert (type(ours.value), ours.value.errno, ours.value.filename) == (
        type(alone.value),
        alone.value.errno,
        str(alone.value.filename),
    )
    assert children() == before
    assert processes.run([*APP, "--version"], capture_output=True, timeout=90).returncode == 0


def test_its_output_and_its_errors_go_where_they_shall(tmp_path: Path) -> None:
    path = tmp_path / "both"
    with path.open("wb") as file:
        words = [*APP, "no-command"]
        processes.run(words, stdout=file, stderr=subprocess.STDOUT, timeout=90)
    assert "no-command" in path.read_text()


def test_one_that_takes_too_long_is_killed(silence: int) -> None:
    processes.run([*APP, "--version"], capture_output=True, timeout=90)
    before = children()
    with pytest.raises(subprocess.TimeoutExpired):
        processes.run(WAITING, stdin=silence, timeout=0.01)
    assert children() == before


def test_ctrl_c_ends_it_as_it_ends_the_command_alone(silence: int) -> None:
    with processes.Popen(WAITING, stdin=silence, stderr=subprocess.DEVNULL) as process:
        assert forked(process)
        process.send_signal(signal.SIGINT)
        # As early as that: before the command has its own way to end.
        assert process.wait(90) in (-signal.SIGINT, 130)


def test_it_ends_with_the_process_that_has_started_it(silence: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, *WAITING], stdin=silence, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        home = Path(f"/proc/{int(parent.stdout.readline())}")
        assert home.exists()
        parent.kill()
    eventually(lambda: not home.exists(), "it has ended")


def test_a_process_to_fork_from_that_does_not_end_is_killed() -> None:
    template = processes._Template()
    ours, its = socket.socketpair()
    with its, subprocess.Popen(["cat"], stdin=subprocess.PIPE) as deaf:
        template._connection, template._process = ours, deaf
        template._stop(seconds=0.01)
        assert deaf.returncode == -signal.SIGKILL
