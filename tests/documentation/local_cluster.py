"""`kafkaesque up` for the pages, at ports that are free instead of those that the pages name."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.clients.up_ports import free_stretches, port_words
from tests.waiting import DEADLINE_S, eventually

#: Of broker 1, as the pages have them; the others' follow.
PORTS = {
    "kafka": 9092,
    "peer": 9190,
    "text": 7070,
    "admin": 8080,
    "sqs": 9324,
    "amqp": 5672,
    "mqtt": 1883,
    "nats": 4222,
    "registry": 8181,
    "stomp": 61613,
    "websocket": 8090,
}
BROKERS = 3
#: What `up` prints when all brokers are ready, last.
_LAST_LINE = "Ctrl-C stops"


class LocalCluster:
    """What `kafkaesque up` starts, and what it prints."""

    def __init__(
        self, directory: Path, *words: str, data: str = "data", last_line: str = _LAST_LINE
    ) -> None:
        """The data are in a directory in `directory`; `words` are more options of `up`.

        It is ready when it has printed `last_line`.
        """
        self._last_line = last_line
        self.directory = directory
        self.data = directory / data
        self.log = directory / "up.log"
        self._first = free_stretches(BROKERS, tuple(PORTS))
        command = [sys.executable, "-m", "kafkaesque.cli.app", "up", "--data", str(self.data)]
        self._screen, other = pty.openpty()
        self.process = subprocess.Popen(
            [*command, *words, *port_words(self._first)],
            cwd=directory,
            env={**os.environ, "NO_COLOR": "1"},
            stdout=other,
            stderr=other,
        )
        os.close(other)
        self._reader = threading.Thread(target=self._keep, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        try:
            eventually(self._is_ready, lambda: self.log.read_text())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            self._reader.join(DEADLINE_S)
            os.close(self._screen)

    @property
    def ports(self) -> Mapping[int, int]:
        """Those of the pages, and those here."""
        return {
            told + each: self._first[name] + each
            for name, told in PORTS.items()
            for each in range(BROKERS)
        }

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._first['kafka']}"

    def _keep(self) -> None:
        """Write what is printed on the terminal into the file."""
        with self.log.open("wb", buffering=0) as log:
            while True:
                try:
                    printed = os.read(self._screen, 65536)
                except OSError:  # the other end is closed
                    return
                log.write(printed.replace(b"\r\n", b"\n"))

    def _is_ready(self) -> bool:
        assert self.process.poll() is None, "up has ended"
        return self.log.exists() and self._last_line in self.log.read_text()
