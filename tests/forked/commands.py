"""A `kafkaesque` for shells, forked as `processes` does it: scripts run it as the installed one."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from tests.forked import processes

_WORDS = [sys.executable, "-m", "kafkaesque.cli.app"]
_FILES = 3
_REQUEST_BYTES_MAX = 1 << 20
#: Without the site's packages: it only passes on what it was called with, and its files.
_PROGRAM = """\
#!{python} -SE
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({path!r})
    words = [sys.argv[1:], os.getcwd(), dict(os.environ)]
    socket.send_fds(server, [b" "], [0, 1, 2])
    server.sendall(json.dumps(words).encode() + b"\\n")
    code = server.makefile().readline()
sys.exit(int(code or 1))
"""


class Commands:
    """Runs what a program called `kafkaesque` in a directory of its own is called with."""

    def __init__(self, directory: Path) -> None:
        """Write the program into `directory`, which has to be on the PATH of the shells."""
        self._path = directory / ".socket"
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(self._path))
        self._server.listen()
        program = directory / "kafkaesque"
        program.write_text(_PROGRAM.format(python=sys.executable, path=str(self._path)))
        program.chmod(0o755)
        self._running: list[processes.Popen] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        # `close` alone does not wake the thread that accepts.
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for each in self._running:
            if each.poll() is None:
                each.kill()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            _, files, _, _ = socket.recv_fds(connection, 1, _FILES)
            try:
                line = connection.makefile("rb").readline(_REQUEST_BYTES_MAX)
                words, directory, environment = json.loads(line)
                code = self._run(words, directory, environment, files)
            finally:
                for each in files:
                    os.close(each)
            with suppress(OSError):  # it was killed meanwhile
                connection.sendall(b"%d\n" % code)

    def _run(
        self, words: Sequence[str], directory: str, environment: Any, files: Sequence[int]
    ) -> int:
        with processes.Popen(
            [*_WORDS, *words],
            cwd=directory,
            env=environment,
            stdin=files[0],
            stdout=files[1],
            stderr=files[2],
        ) as process:
            self._running.append(process)
            code: int = process.wait()
            self._running.remove(process)
        return code
