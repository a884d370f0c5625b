"""Says now and then on standard error what a command waits for."""

import threading
import time
from collections.abc import Callable
from typing import Self

AGAIN_S = 30.0


class LongWait:
    """While the block runs, one line every so often; nothing if it is over sooner."""

    def __init__(
        self, note: Callable[[str], None], what: str = "", *, again_s: float = AGAIN_S
    ) -> None:
        """`what` completes "still waiting for"; nothing is said while it is empty."""
        self.what = what
        self._note = note
        self._again_s = again_s
        self._began = time.monotonic()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="long-wait", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(self._again_s):
            if self.what:
                waited_s = time.monotonic() - self._began
                self._note(f"still waiting for {self.what} ({waited_s:.0f} s)")
