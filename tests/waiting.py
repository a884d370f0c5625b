"""Waiting for what other processes and threads do, by the clock on the wall.

In the simulator it is `loop.run_until`, and within one event loop what the world of the test has.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable

#: For what takes no time on a machine with nothing else to do, and a start of Python on a busy one.
DEADLINE_S = 90.0
PAUSE_S = 0.05


def eventually(
    condition: Callable[[], bool],
    what: str | Callable[[], str],
    *,
    seconds: float = DEADLINE_S,
    pause_s: float = PAUSE_S,
) -> None:
    """Wait until the condition holds; fails, and says what it waited for, when the time is over.

    `what` may be a function that says how far it has come. The condition may do something that
    brings it nearer.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            said = what if isinstance(what, str) else what()
            raise AssertionError(f"not within {seconds:.0f} s: {said}")
        time.sleep(pause_s)


def until_port_answers(process: subprocess.Popen[bytes], port: int) -> None:
    """Wait until a program that was started takes connections at this port of loopback.

    Fails if the program ends, or does not listen in time.
    """

    def answers() -> bool:
        assert process.poll() is None, f"{process.args!r} ended with {process.returncode}"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            return False
        return True

    eventually(answers, f"port {port} takes connections")
