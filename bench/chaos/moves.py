"""Moves replicas while all else goes on, through the command line tool."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Final

from bench.chaos.history import History, Where

#: The tool asks for the move, and waits for so long; the move goes on without it.
_WAIT_S: Final = 5
#: The tool's exit code for "not yet".
_NOT_YET: Final = 5
MOVES_AT_ONCE_MAX: Final = 4


class Mover:
    """Asks for one reassignment after the other; nobody waits until replicas have moved."""

    def __init__(
        self, bootstrap_servers: str, history: History, places: Sequence[Where], seed: int
    ) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._history = history
        self._places = list(places)
        self._dice = random.Random(f"{seed}/moves")
        self._asking: list[tuple[str, subprocess.Popen[bytes]]] = []

    def move(
        self, brokers: Sequence[str], replicas: int, say: Callable[[str], None], *, onto: str = ""
    ) -> None:
        """Begin to move a partition to some of these brokers; `onto` is one of them, if named."""
        self.look()
        if len(self._asking) >= MOVES_AT_ONCE_MAX:
            return
        topic, partition = self._dice.choice(self._places)
        chosen = self._dice.sample(list(brokers), replicas)
        if onto and onto not in chosen:
            chosen[self._dice.randrange(replicas)] = onto
        to = ",".join(chosen)
        words = ["topic", "reassign", topic, "--partition", str(partition), "--replicas", to]
        say(f"moves {topic}-{partition} to {to}")
        tool = subprocess.Popen(
            [sys.executable, "-m", "kafkaesque.cli.app", *words, "--timeout", str(_WAIT_S)],
            env={**os.environ, "KAFKAESQUE_BOOTSTRAP_SERVER": self._bootstrap_servers},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self._asking.append((f"{topic}-{partition} to {to}", tool))

    def look(self) -> None:
        """Note what has come of what was asked."""
        for what, tool in list(self._asking):
            if tool.poll() is None:
                continue
            self._asking.remove((what, tool))
            said, _ = tool.communicate()
            text = said.decode(errors="replace")[-300:]
            self._history.note("move", move=what, status=tool.returncode, said=text)
            if tool.returncode not in (0, _NOT_YET):
                self._history.error("mover", f"exit code {tool.returncode}")

    def stop(self) -> None:
        """Ask no longer."""
        for _, tool in self._asking:
            tool.kill()
            tool.communicate()
        self._asking.clear()
