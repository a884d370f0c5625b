"""Queues in a run: the simulator's clients of queues, on a real event loop, and its checker.

A thread of its own runs the loop. What the clients do and what is checked does not know whether
clocks and networks are real: `kafkaesque.sim.queues`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from kafkaesque.env.network import Address
from kafkaesque.runtime.env import RealEnv
from kafkaesque.runtime.loop import new_loop, report_to
from kafkaesque.sim.queues.crowd import QueueCrowd
from kafkaesque.sim.queues.specs import FAMILIES

LOOK_S: Final = 0.05
REPLICAS: Final = 3


class QueueClients(threading.Thread):
    """Publishers, workers and consumers of every kind of queue; in the end all is drained."""

    def __init__(self, bootstrap_servers: str, directory: Path, *, do_clocks_tell: bool) -> None:
        super().__init__(name="queues", daemon=True)
        directory.mkdir()
        self._directory: Final = directory
        self._addresses: Final = [_address_of(each) for each in bootstrap_servers.split(",")]
        self._do_clocks_tell: Final = do_clocks_tell
        self._stopping: Final = threading.Event()
        self._crowd: QueueCrowd | None = None
        self.anomalies: Final[list[str]] = []
        #: What the thread died of.
        self._error: BaseException | None = None
        self._is_drained = False

    def stop(self) -> None:
        """Begin nothing new, and empty all queues."""
        self._stopping.set()

    def describe(self) -> str:
        """Say what is waited for."""
        return "nothing" if self._crowd is None else self._crowd.describe()

    def run(self) -> None:
        """Let everybody work."""
        loop = new_loop()
        report_to(loop, self._die)
        env = RealEnv(loop, self._directory, self._die)
        specs = {spec.name: spec for family in FAMILIES for spec in family if not spec.topic}
        crowd = self._crowd = QueueCrowd(
            specs,
            env.env,
            self._addresses,
            lambda: time.monotonic() * 1_000,
            lambda what: self.anomalies.append(f"queues: {what}"),
            replicas=REPLICAS,
            do_clocks_tell=self._do_clocks_tell,
        )
        steps: list[tuple[Callable[[], bool], Callable[[], None]]] = [
            (lambda: crowd.is_made, crowd.start),
            (self._stopping.is_set, crowd.stop),
            (lambda: crowd.is_idle, crowd.conclude),
            (lambda: crowd.is_drained, loop.stop),
        ]

        def look() -> None:
            if self._error is not None:
                loop.stop()
                return
            is_so, act = steps[0]
            if is_so():
                del steps[0]
                act()
            if steps:
                loop.call_later(LOOK_S, look)

        loop.call_soon(look)
        loop.run_forever()
        self._is_drained = crowd.is_drained
        env.close()
        loop.close()

    def _die(self, error: BaseException) -> None:
        self._error = error

    def check(self) -> Sequence[str]:
        """Return what is wrong; the thread has ended, or is stuck, which is told elsewhere."""
        if self._error is not None:
            self.anomalies.append(f"queues: their clients broke: {self._error!r}")
        if self._crowd is not None and self._is_drained:
            self._crowd.check()
        return self.anomalies

    def progress(self) -> int:
        """Return a number that grows as queues are emptied."""
        return 0 if self._crowd is None else self._crowd.history.count_settled()

    def counts(self) -> dict[str, int]:
        """Return what went on, by name."""
        counts = {} if self._crowd is None else self._crowd.counts()
        return {f"queues: {name}": count for name, count in counts.items()}


def _address_of(server: str) -> Address:
    host, _, port = server.rpartition(":")
    return Address(host, int(port))
