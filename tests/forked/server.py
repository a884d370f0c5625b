"""The process that others are forked from: it imports what they need, and forks on request.

A request comes over the socket that is its standard input: its length, with the three standard
files of the new process, and JSON. The answer is the number of the new process and that of an
error, 0 if there was none.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import signal
import socket
import struct
import sys
import threading
import time
import warnings
from dataclasses import dataclass

import kafkaesque

_PR_SET_PDEATHSIG = 1
#: What brokers and commands do not import, or only to simulate, and what runs when imported.
_LEFT_OUT = ("kafkaesque.sim", "kafkaesque.spark", "kafkaesque.testing", "kafkaesque.console")
_MOST_FILES = 4096
_libc = ctypes.CDLL(None)


@dataclass(frozen=True)
class _Job:
    """What a new process is to be."""

    module: str
    arguments: list[str]
    environment: dict[str, str]
    directory: str
    is_session: bool
    parent: int

    def prepare(self) -> None:
        """Do what the process that wants this one relies upon as soon as it has its number.

        Raises:
            OSError: the folder cannot be entered.
        """
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != self.parent:
            os._exit(1)  # whoever wanted it has ended meanwhile
        if self.is_session:
            os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(self.directory)

    def run(self) -> None:
        """Be it; ends as the module does."""
        os.environ.clear()
        os.environ.update(self.environment)
        time.tzset()
        _open_standard_files()
        sys.argv = [self.module, *self.arguments]
        runpy.run_module(self.module, run_name="__main__", alter_sys=True)


def main() -> None:
    """Serve until the socket is closed; in each process that is forked, be that process."""
    connection = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _import_everything()
    job = _serve(connection)
    connection.close()
    if job is not None:
        job.run()


def _import_everything() -> None:
    # What runs as a program is imported when it is run, as without us.
    programs = {"kafkaesque.cli.app", "kafkaesque.cli.quickstart"}
    for module in pkgutil.walk_packages(kafkaesque.__path__, "kafkaesque.", onerror=_pass_over):
        name = module.name
        if name in programs or name.endswith("__main__") or name.startswith(_LEFT_OUT):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                importlib.import_module(name)
            except ImportError:
                pass  # it needs something that is not installed
    if threading.active_count() > 1:
        raise RuntimeError(f"an import has started threads: {threading.enumerate()}")
    # Otherwise each process would look through all of it when it ends, and copy its memory.
    gc.collect()
    gc.freeze()


def _pass_over(_: str) -> None:
    """What cannot be imported is told by whoever imports it."""


def _serve(connection: socket.socket) -> _Job | None:
    while True:
        header, files, _, _ = socket.recv_fds(connection, 4, 3)
        if len(header) < 4:
            return None
        (length,) = struct.unpack(">I", header)
        body = connection.recv(length, socket.MSG_WAITALL)
        if len(body) < length:
            return None
        job = _Job(**json.loads(body))
        pid, error = _fork(job, files)
        if not pid:
            connection.detach()
            os.closerange(3, _MOST_FILES)
            return job
        for file in files:
            os.close(file)
        connection.sendall(struct.pack(">II", pid, error))


def _fork(job: _Job, files: list[int]) -> tuple[int, int]:
    """Fork a process that is not our child, but that of whoever takes orphans in.

    Returns zeros there, once it has its new parent and is prepared. Returns its number here, and
    that of the error for which it has ended, or 0.
    """
    told, telling = os.pipe()
    held, holding = os.pipe()
    between = os.fork()
    if between == 0:
        pid = os.fork()
        if pid:
            os.write(telling, struct.pack(">I", pid))
            os._exit(0)
        os.close(holding)
        os.read(held, 1)
        try:
            job.prepare()
        except OSError as error:
            os.write(telling, struct.pack(">I", error.errno or errno.EIO))
            os._exit(1)
        for standard, file in enumerate(files):
            os.dup2(file, standard)
        os.close(telling)
        return 0, 0
    os.close(telling)
    os.waitpid(between, 0)
    os.close(holding)
    number: int = struct.unpack(">I", os.read(told, 4))[0]
    told_error = os.read(told, 4)  # nothing comes if it is prepared, or has ended
    os.close(told)
    os.close(held)
    return number, struct.unpack(">I", told_error)[0] if told_error else 0


def _open_standard_files() -> None:
    """Make the streams anew: how they are buffered depends on what they are."""
    for name, number, mode in (("stdin", 0, "rb"), ("stdout", 1, "wb"), ("stderr", 2, "wb")):
        old = getattr(sys, name)
        file = open(number, mode, closefd=False)  # noqa: SIM115 - for as long as the process lives
        stream = io.TextIOWrapper(
            file,
            encoding=old.encoding,
            errors=old.errors,
            line_buffering=name == "stderr" or os.isatty(number),
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


if __name__ == "__main__":
    main()
