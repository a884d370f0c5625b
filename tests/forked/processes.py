"""`Popen` and `run` as `subprocess` has them, for `python -m kafkaesque...`.

Most of a broker's start, and of a short command's whole life, is the import of its modules. These
processes are forked from one that has done so once; in all else they are as if started alone:
children of ours with arguments, environment, folder, files and a process group of their own. What
cannot be started in that way (another program, another interpreter, other settings of Python) is
started as `subprocess` does it.

Whoever tests the start itself, what it imports or how much memory it takes uses `subprocess`.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Literal, overload

from bench.processes import die_with_parent
from tests.forked import server

_PR_SET_CHILD_SUBREAPER = 36
_PACKAGE = "kafkaesque."
#: Read by Python once, at its start.
_SETTINGS = ("PYTHON", "LC_", "LANG")
#: The process that others are forked from ends at once when we leave it.
_STOP_S_MAX = 10.0
#: The number of a new process, and the error number of what went wrong, or 0.
_ANSWER = struct.Struct(">II")
_libc = ctypes.CDLL(None)


class Popen(subprocess.Popen[Any]):
    """A process, forked where that can be done; it ends at the latest with ours."""

    def _execute_child(self, args: Any, *rest: Any) -> None:
        given = dict(zip(_PARAMETERS, rest, strict=False))
        module = _module(args)
        if module is None or not _is_plain(given):
            super()._execute_child(args, *rest)  # type: ignore[misc]
            return
        files = [
            0 if given["p2cread"] == -1 else given["p2cread"],
            1 if given["c2pwrite"] == -1 else given["c2pwrite"],
            2 if given["errwrite"] == -1 else given["errwrite"],
        ]
        request = {
            "module": module,
            "arguments": [os.fsdecode(word) for word in args[3:]],
            "environment": _environment(given["env"]),
            "directory": os.path.abspath(os.fsdecode(given["cwd"] or os.getcwd())),
            "is_session": given["start_new_session"],
            "parent": os.getpid(),
        }
        self.pid = _template.fork(request, files)
        self._child_created = True
        self._close_pipe_fds(*(given[name] for name in _ENDS))  # type: ignore[attr-defined]


#: What `subprocess.Popen._execute_child` takes after the words of the command.
_ENDS = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
_PARAMETERS = (
    *("executable", "preexec_fn", "close_fds", "pass_fds", "cwd", "env"),
    *("startupinfo", "creationflags", "shell"),
    *_ENDS,
    *("restore_signals", "gid", "gids", "uid", "umask", "start_new_session", "process_group"),
)


@overload
def run(
    command: Sequence[str | os.PathLike[str]], *, text: Literal[True], **settings: Any
) -> subprocess.CompletedProcess[str]: ...


@overload
def run(
    command: Sequence[str | os.PathLike[str]], **settings: Any
) -> subprocess.CompletedProcess[bytes]: ...


def run(
    command: Sequence[str | os.PathLike[str]],
    *,
    input: Any = None,  # noqa: A002 - as subprocess names it
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    **settings: Any,
) -> subprocess.CompletedProcess[Any]:
    """Run a command to its end, as `subprocess.run` does."""
    if input is not None:
        settings["stdin"] = subprocess.PIPE
    if capture_output:
        settings.update(stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with Popen(command, **settings) as process:
        try:
            output, errors = process.communicate(input, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    code = process.returncode
    if check and code:
        raise subprocess.CalledProcessError(code, process.args, output, errors)
    return subprocess.CompletedProcess(process.args, code, output, errors)


def _module(args: Any) -> str | None:
    """Return the module of ours that a command runs; None if it is another command."""
    if isinstance(args, str | bytes | os.PathLike) or len(args) < 3 or sys.platform != "linux":
        return None
    interpreter, option, module = args[:3]
    is_ours = interpreter == sys.executable and option == "-m"
    return module if is_ours and module.startswith(_PACKAGE) else None


def _is_plain(given: Mapping[str, Any]) -> bool:
    others = ("executable", "pass_fds", "shell", "creationflags", "startupinfo", "gids")
    numbers = ("gid", "uid", "umask", "process_group")
    return (
        not any(given[name] for name in others)
        and given["close_fds"]
        and given["preexec_fn"] in (None, die_with_parent)
        and all(given.get(name) in (None, -1) for name in numbers)
        and _python_settings(_environment(given["env"])) == _template.settings()
    )


def _environment(given: Mapping[Any, Any] | None) -> dict[str, str]:
    """Return the environment of a process: what it is given, or ours as it is now."""
    environment = os.environ if given is None else given
    return {os.fsdecode(name): os.fsdecode(value) for name, value in environment.items()}


def _python_settings(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_SETTINGS)}


class _Template:
    """The process that is forked, started when the first is wanted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._settings: dict[str, str] | None = None

    def settings(self) -> dict[str, str]:
        if self._settings is None:
            self._settings = _python_settings(os.environ)
        return self._settings

    def fork(self, request: Mapping[str, Any], files: Sequence[int]) -> int:
        """Fork a process, a child of ours; return its id.

        Raises:
            OSError: it cannot have the folder that it is to run in.
            RuntimeError: the process that others are forked from has ended.
        """
        with self._lock:
            connection = self._connection or self._start()
            body = json.dumps(request).encode()
            # Its parent is the template's child, which ends at once and leaves it to us. What
            # other processes leave is not ours: they would stay, dead, for nobody waits for them.
            _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            try:
                socket.send_fds(connection, [struct.pack(">I", len(body))], files)
                connection.sendall(body)
                answer = connection.recv(_ANSWER.size, socket.MSG_WAITALL)
            finally:
                _libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        if len(answer) < _ANSWER.size:
            raise RuntimeError("the process that others are forked from has ended")
        pid: int
        pid, error = _ANSWER.unpack(answer)
        if error:
            os.waitpid(pid, 0)
            raise OSError(error, os.strerror(error), request["directory"])
        return pid

    def _start(self) -> socket.socket:
        self._settings = _python_settings(os.environ)
        ours, its = socket.socketpair()
        with its:
            self._process = subprocess.Popen(
                [sys.executable, "-m", server.__name__],
                stdin=its.fileno(),
                stdout=subprocess.DEVNULL,
            )
        self._connection = ours
        atexit.register(self._stop)
        return ours

    def _stop(self, seconds: float = _STOP_S_MAX) -> None:
        if self._connection is not None and self._process is not None:
            self._connection.close()
            try:
                self._process.wait(seconds)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


_template = _Template()
