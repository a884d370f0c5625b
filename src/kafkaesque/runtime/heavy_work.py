"""Work in steps, in a process of its own: see `Disk.run_steps`.

Theory of operation. One worker process, begun when there is work, does one thing at a time; what
is begun meanwhile waits for its turn. A
thread of the broker talks to it and waits for its answers, which cost the loop nothing but a
completion per step. The process ends when it has had nothing to do for a while, when the broker
closes its pipe, and when the broker dies, which closes the pipe as well.
"""

import asyncio
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Generator
from typing import IO, Any, Final, Generic, TypeVar, cast

from kafkaesque.env.disk import ArgumentT, BlockingDisk
from kafkaesque.model.errors import DiskFailed, InvariantBroken, OverBound, WorkerLost
from kafkaesque.runtime.worker_frames import (
    Begin,
    Ended,
    GoOn,
    Step,
    Stop,
    read_frame,
    write_frame,
)
from kafkaesque.runtime.workers import Mailbox, WorkerPool

#: A process that has had nothing to do for this long is ended.
IDLE_MS_MAX: Final = 30_000
#: So much may wait for its turn.
WAITING_MAX: Final = 100
#: One that was told to end, and waits for a device, is killed after this.
END_MS_MAX: Final = 2_000

StepT = TypeVar("StepT")
ResultT = TypeVar("ResultT")


class HeavyRun(Generic[StepT, ResultT]):
    """See `StepRun`."""

    __slots__ = ("_heavy", "_is_stopping", "_is_waiting", "on_done", "on_step")

    def __init__(
        self,
        heavy: "HeavyWork",
        on_step: Callable[[StepT], None],
        on_done: Callable[[ResultT | None, Exception | None], None],
    ) -> None:
        self._heavy: Final = heavy
        self.on_step: Final = on_step
        self.on_done: Final = on_done
        #: A step was reported and nothing was said since.
        self._is_waiting = False
        self._is_stopping = False

    def go_on(self) -> None:
        """See `StepRun`."""
        if self._is_waiting:
            self._is_waiting = False
            self._heavy.say(self, GoOn())

    def stop(self) -> None:
        """See `StepRun`."""
        self._is_stopping = True
        if self._is_waiting:
            self._is_waiting = False
            self._heavy.say(self, Stop())
        else:
            self._heavy.withdraw(self)

    def on_answer(self, answer: object, error: Exception | None) -> None:
        """Take what the process says, or why it says nothing any more."""
        if isinstance(answer, Step):
            self._is_waiting = True
            if self._is_stopping:
                self.stop()
            else:
                self.on_step(cast("StepT", answer.value))
            return
        self._heavy.on_ended(self)
        if isinstance(answer, Ended):
            self.on_done(cast("ResultT | None", answer.result), answer.error)
        else:
            self.on_done(None, error or WorkerLost(f"{answer!r} is not an answer"))


class HeavyWork:
    """The worker process of one data directory."""

    def __init__(self, root: str, loop: asyncio.AbstractEventLoop, mailbox: Mailbox) -> None:
        self._root: Final = root
        self._loop: Final = loop
        #: The one thread that talks to the process.
        self._talker: Final = WorkerPool("heavy-work", 1, mailbox)
        #: Touched by that thread only, but for killing it.
        self._process: subprocess.Popen[bytes] | None = None
        self._run: HeavyRun[Any, Any] | None = None
        #: What waits for its turn, and what it begins with.
        self._next: Final[deque[tuple[HeavyRun[Any, Any], Begin]]] = deque()
        self._idle: asyncio.TimerHandle | None = None
        self._is_closed = False

    @property
    def pid(self) -> int | None:
        """The process, if there is one."""
        process = self._process
        return None if process is None else process.pid

    def begin(
        self,
        run: HeavyRun[Any, Any],
        work: Callable[[BlockingDisk, ArgumentT], Generator[Any, None, Any]],
        argument: ArgumentT,
    ) -> None:
        """Begin work, or let it wait until what was begun before has ended.

        Raises:
            InvariantBroken: the disk is closed.
            OverBound: too much waits already.
        """
        if self._is_closed:
            raise InvariantBroken("heavy work is done while the disk is open")
        if self._run is not None:
            if len(self._next) >= WAITING_MAX:
                raise OverBound(f"{WAITING_MAX} pieces of heavy work wait")
            self._next.append((run, Begin(work, argument)))
            return
        self._run = run
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        self.say(run, Begin(work, argument))

    def withdraw(self, run: HeavyRun[Any, Any]) -> None:
        """Let a run end that waits for its turn; nothing else."""
        for item in self._next:
            if item[0] is run:
                self._next.remove(item)
                self._loop.call_soon(run.on_answer, Ended(None, None), None)
                return

    def say(self, run: HeavyRun[Any, Any], command: object) -> None:
        """Tell the process something; its answer goes to the run."""
        self._talker.submit(lambda: self._ask(command), run.on_answer)

    def on_ended(self, run: HeavyRun[Any, Any]) -> None:
        """Nothing is under way any more."""
        if self._run is not run or self._is_closed:
            return
        if self._next:
            self._run, begin = self._next.popleft()
            self.say(self._run, begin)
        else:
            self._run = None
            self._idle = self._loop.call_later(IDLE_MS_MAX / 1000, self._retire)

    def close(self) -> None:
        """End the process, whatever it does, and wait for that."""
        self._is_closed = True
        if self._idle is not None:
            self._idle.cancel()
        process = self._process
        if process is not None:
            process.kill()
        self._talker.submit(self._end, _ignore)
        self._talker.close()

    def _retire(self) -> None:
        self._idle = None
        if self._run is None:
            self._talker.submit(self._end, _ignore)

    # In the thread

    def _ask(self, command: object) -> object:
        process = self._process
        if process is None:
            process = self._process = self._start()
            if self._is_closed:
                process.kill()
        commands, answers = _pipes(process)
        try:
            write_frame(commands, command)
            return read_frame(answers)
        except (EOFError, OSError) as error:
            status = self._end()
            raise WorkerLost(f"the worker process has ended with status {status}") from error

    def _start(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "kafkaesque.runtime.worker", self._root]
        try:
            # A group of its own: Ctrl-C is for the broker, which says what is to end. But not a
            # session: Linux shares the processors out among sessions first (sched_autogroup), and
            # how nice a process is counts only within one.
            return subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0
            )
        except OSError as error:
            raise DiskFailed(f"cannot start {command[0]}: {error.strerror}") from error

    def _end(self) -> int | None:
        """Let the process end by itself; kill it if it does not. Return its exit status."""
        process, self._process = self._process, None
        if process is None:
            return None
        for pipe in _pipes(process):
            try:
                pipe.close()
            except OSError:
                pass  # What was to be written has nobody to read it.
        try:
            return process.wait(END_MS_MAX / 1000)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def _pipes(process: "subprocess.Popen[bytes]") -> tuple[IO[bytes], IO[bytes]]:
    """Return a process's standard input and output."""
    if process.stdin is None or process.stdout is None:
        raise InvariantBroken("a worker process has no pipes")
    return process.stdin, process.stdout


def _ignore(_: object, __: Exception | None) -> None:
    """Nobody waits for this result."""
