"""Lets the broker that comes and goes leave in order: drained, stopped, and taken out.

As an operator does it, with the command line tool, while faults go on: what was refused or was not
answered in time is asked for again, until it is done.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from enum import Enum, auto
from typing import Final

from bench.chaos.history import History
from bench.chaos.machine import STOP_S_MAX, Machine

#: `cluster drain` waits for so long; the moves go on without it, and it is called again.
_DRAIN_S: Final = 15
#: A call that takes longer than that is given up.
_CALL_S_MAX: Final = 60.0
_AGAIN_S: Final = 1.0
#: A removal that is refused so long is refused for a reason: something may have moved there.
_REMOVE_S_MAX: Final = 20.0


class Stage(Enum):
    """How far a departure is."""

    STAYS = auto()
    DRAINING = auto()
    STOPPING = auto()
    REMOVING = auto()
    #: It is out of the cluster, until it is started again.
    GONE = auto()


class Departure:
    """One machine's way out of the cluster; `tick` goes on with it."""

    def __init__(
        self,
        machine: Machine,
        bootstrap_servers: str,
        history: History,
        say: Callable[[str], None],
        *,
        program: tuple[str, ...] = (sys.executable, "-m", "kafkaesque.cli.app"),
    ) -> None:
        self.stage = Stage.STAYS
        #: How often the machine has left in order.
        self.count = 0
        self.machine = machine
        self._bootstrap_servers = bootstrap_servers
        self._history = history
        self._say = say
        self._program = program
        self._call: subprocess.Popen[bytes] | None = None
        self._since = 0.0
        self._due = 0.0
        self._told = "nothing was answered yet"

    @property
    def is_under_way(self) -> bool:
        """Whether the machine is about to leave, and must be left alone."""
        return self.stage not in (Stage.STAYS, Stage.GONE)

    def begin(self) -> None:
        """Let the machine leave."""
        self._enter(Stage.DRAINING)

    def cancel(self) -> None:
        """The machine is part of the cluster, or is to be again."""
        self.stop()
        self.stage = Stage.STAYS

    def stop(self) -> None:
        """Ask for nothing more."""
        if self._call is not None:
            self._call.kill()
            self._call.communicate()
            self._call = None

    def _enter(self, stage: Stage) -> None:
        self.stage = stage
        self._since = self._due = time.monotonic()

    def tick(self) -> None:
        """Go on."""
        now = time.monotonic()
        if self.stage is Stage.STOPPING:
            if not self.machine.is_running:
                self._enter(Stage.REMOVING)
            elif now > self._since + STOP_S_MAX:
                self._say(f"{self.machine} has not stopped within {STOP_S_MAX:.0f} s")
                self.machine.kill()
        elif self._call is not None:
            self._look(self._call, now)
        elif self.is_under_way and now >= self._due:
            self._ask(now)

    def _ask(self, now: float) -> None:
        words = ["drain", self.machine.name, "--timeout", str(_DRAIN_S)]
        if self.stage is Stage.REMOVING:
            words = ["remove", self.machine.name]
        self._call = subprocess.Popen(
            [*self._program, "cluster", *words],
            env={**os.environ, "KAFKAESQUE_BOOTSTRAP_SERVER": self._bootstrap_servers},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self._due = now + _CALL_S_MAX

    def _look(self, call: subprocess.Popen[bytes], now: float) -> None:
        if call.poll() is None:
            if now > self._due:
                call.kill()
            return
        said, _ = call.communicate()
        self._call = None
        self._due = now + _AGAIN_S
        what = "drain" if self.stage is Stage.DRAINING else "remove"
        self._told = text = said.decode(errors="replace")[-300:].strip()
        self._history.note("leaves", call=what, status=call.returncode, said=text)
        if call.returncode:
            self._history.error("leaver", f"{what}: exit code {call.returncode}")
            if self.stage is Stage.REMOVING and now > self._since + _REMOVE_S_MAX:
                self._say(f"{self.machine} is drained again: {text}")
                self.machine.start()
                self._enter(Stage.DRAINING)
        elif self.stage is Stage.DRAINING:
            self.machine.terminate()
            self._enter(Stage.STOPPING)
        else:
            self.count += 1
            self._say(f"{self.machine} has left in order")
            self._enter(Stage.GONE)

    def describe(self) -> str:
        """Say what is waited for."""
        return f"{self.machine} is {self.stage.name.lower()}: {self._told}"
