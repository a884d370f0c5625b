"""Moves replicas while all else goes on, through the command line tool."""

from __future__ import annotations

import random
from collections.abc import Callable

from bench.chaos.history import History


class Mover:
    """Asks for one reassignment after the other; whether it is done nobody waits for."""

    def __init__(self, bootstrap_servers: str, history: History, seed: int) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._history = history
        self._dice = random.Random(f"{seed}/moves")

    def move(self, say: Callable[[str], None]) -> None:
        """Begin one."""
        say("there is no command to move a replica yet")
