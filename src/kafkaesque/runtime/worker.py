"""`python -m kafkaesque.runtime.worker DIRECTORY`: does a broker's heavy work, at low priority.

Theory of operation. The broker says on standard input what to begin, and after each step whether to
go on; answers go to standard output. Where standard input ends, the broker is gone, and this
process ends at once, in the middle of whatever it does: work is made for that. It holds a lock on
the directory itself, so that the worker of the next broker waits until this one has really ended.
"""

import fcntl
import os
import queue
import sys
import threading
from collections.abc import Generator
from typing import IO, Any, Final

from kafkaesque.model.errors import WorkerLost
from kafkaesque.runtime.directory import RealDirectory
from kafkaesque.runtime.worker_frames import (
    Begin,
    Ended,
    Step,
    Stop,
    read_frame,
    write_frame,
)

#: As far behind everybody else as can be: it takes what those leave who serve clients. That counts
#: within a session, so the broker begins this process in its own.
NICENESS: Final = 19


def main() -> None:
    """Work until the broker needs no more, or is gone."""
    root = sys.argv[1]
    os.nice(NICENESS)
    # Whatever is printed goes to the broker's log, not between the frames.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    commands: queue.SimpleQueue[object] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, commands), daemon=True).start()
    directory_fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(directory_fd, fcntl.LOCK_EX)
    _serve(RealDirectory(root, writes_back=True), commands, answers)


def _listen(pipe: IO[bytes], commands: "queue.SimpleQueue[object]") -> None:
    """Hand on what the broker says; end the process when it says nothing any more."""
    while True:
        try:
            commands.put(read_frame(pipe))
        except (EOFError, OSError):
            os._exit(0)
        except Exception as error:
            commands.put(Ended(None, WorkerLost(f"what came was no work: {error!r}")))


def _serve(disk: RealDirectory, commands: "queue.SimpleQueue[object]", answers: IO[bytes]) -> None:
    steps: Generator[Any, None, Any] | None = None
    while True:
        command = commands.get()
        if isinstance(command, Begin):
            steps = command.work(disk, command.argument)
        if isinstance(command, Ended):
            answer: Step | Ended = command
        else:
            answer = _step(steps, is_stopped=isinstance(command, Stop))
        if isinstance(answer, Ended):
            steps = None
        try:
            write_frame(answers, answer)
        except OSError:
            os._exit(0)


def _step(steps: Generator[Any, None, Any] | None, *, is_stopped: bool) -> Step | Ended:
    if steps is None:
        return Ended(None, None)
    try:
        if is_stopped:
            steps.close()
            return Ended(None, None)
        return Step(next(steps))
    except StopIteration as stop:
        return Ended(stop.value, None)
    except Exception as error:
        return Ended(None, error)


if __name__ == "__main__":
    main()
