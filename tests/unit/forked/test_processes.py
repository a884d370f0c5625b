"""A forked process is in all else as if it had been started alone."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked import processes

APP = [sys.executable, "-m", "kafkaesque.cli.app"]
NOBODY = ["-b", "127.0.0.1:1"]


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
        [*APP, "publish", "topic", *NOBODY],
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
    with processes.Popen([*APP, "publish", "topic", *NOBODY], stdin=subprocess.PIPE) as process:
        status = Path(f"/proc/{process.pid}/status").read_text()
        assert f"PPid:\t{os.getpid()}\n" in status
        process.terminate()
    assert process.returncode == -signal.SIGTERM
    with pytest.raises(subprocess.CalledProcessError):
        processes.run([*APP, "no-command"], capture_output=True, check=True)


def test_other_settings_of_python_get_an_interpreter_of_their_own() -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    command = [*APP, "publish", "topic", *NOBODY]
    with processes.Popen(command, stdin=subprocess.PIPE, env=environment) as process:
        assert not forked(process)
        process.kill()
