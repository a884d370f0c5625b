"""Threads for what may block, and the mailbox through which their results come home.

Results return to the event loop in the order in which the work ended. However many threads end
something while the loop is busy, the loop is woken once.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

from kafkaesque.model.errors import OverBound

#: Work that may wait for a thread, per pool.
JOBS_MAX: Final = 100_000

Done = Callable[[object, Exception | None], None]
_Job = tuple[Callable[[], object], Done]
_Result = tuple[Done, object, Exception | None]


class Mailbox:
    """Carries results from threads to the loop."""

    __slots__ = ("_lock", "_loop", "_open", "_results", "_rung")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop: Final = loop
        self._lock: Final = threading.Lock()
        self._results: deque[_Result] = deque()
        self._rung = False
        self._open = True

    def put(self, result: _Result) -> None:
        """Hand over a result; called in any thread."""
        with self._lock:
            self._results.append(result)
            if self._rung or not self._open:
                return
            self._rung = True
        try:
            self._loop.call_soon_threadsafe(self._drain)
        except RuntimeError:  # The loop was closed meanwhile: nobody waits any more.
            self._open = False

    def close(self) -> None:
        """Deliver nothing any more."""
        self._open = False

    def _drain(self) -> None:
        with self._lock:
            results, self._results = self._results, deque()
            self._rung = False
        while results and self._open:
            done, result, error = results.popleft()
            try:
                done(result, error)
            except BaseException:
                # One caller's defect is not another's lost completion.
                with self._lock:
                    self._results.extendleft(reversed(results))
                self._loop.call_soon(self._drain)
                raise


class WorkerPool:
    """A few threads with one queue; they start when they are first needed."""

    __slots__ = ("_jobs", "_mailbox", "_name", "_pending", "_threads", "_threads_max")

    def __init__(self, name: str, threads_max: int, mailbox: Mailbox) -> None:
        self._name: Final = name
        self._threads_max: Final = threads_max
        self._mailbox: Final = mailbox
        self._jobs: Final[SimpleQueue[_Job | None]] = SimpleQueue()
        self._threads: Final[list[threading.Thread]] = []
        self._pending = 0

    @property
    def pending(self) -> int:
        """How many jobs are queued or at work."""
        return self._pending

    def submit(self, work: Callable[[], object], on_done: Done) -> None:
        """Run `work` in a thread; `on_done` is called on the loop, never in this call.

        Raises:
            OverBound: too much waits already.
        """
        if self._pending >= JOBS_MAX:
            raise OverBound(f"{self._pending} jobs wait for the {self._name} threads")
        self._pending += 1
        if self._pending > len(self._threads) and len(self._threads) < self._threads_max:
            self._start_thread()

        def returned(result: object, error: Exception | None) -> None:
            self._pending -= 1
            on_done(result, error)

        self._jobs.put((work, returned))

    def close(self) -> None:
        """Let the threads end after what is queued, and wait for them."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _start_thread(self) -> None:
        name = f"{self._name}-{len(self._threads)}"
        # Daemons: a process that has to die at once does not wait for a device.
        thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        jobs, mailbox = self._jobs, self._mailbox
        while (job := jobs.get()) is not None:
            work, done = job
            try:
                result, error = work(), None
            except Exception as raised:
                result, error = None, raised
            mailbox.put((done, result, error))
            # Nothing of a job lives on in an idle thread: it may hold a file open.
            del job, work, done, result, error
