"""What a broker and its worker process say to each other, over two pipes.

A frame is a length and a pickled value. Both ends are ours, and the same program.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from struct import Struct
from typing import IO, Any, Final

from kafkaesque.env.disk import BlockingDisk

_LENGTH: Final = Struct(">I")
#: No plan of work, and no step, comes near it.
FRAME_BYTES_MAX: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Begin:
    """Begin work, and make its first step."""

    work: Callable[[BlockingDisk, Any], Generator[Any, None, Any]]
    argument: object


@dataclass(frozen=True, slots=True)
class GoOn:
    """Make the next step."""


@dataclass(frozen=True, slots=True)
class Stop:
    """End the work where it is."""


@dataclass(frozen=True, slots=True)
class Step:
    """What the work has yielded; it waits."""

    value: object


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of the work; nothing where it was stopped."""

    result: object
    error: Exception | None


def write_frame(pipe: IO[bytes], frame: object) -> None:
    """Write a frame; waits."""
    # A broker whose worker has nothing to do does without.
    import pickle

    data = pickle.dumps(frame)
    pipe.write(_LENGTH.pack(len(data)) + data)
    pipe.flush()


def read_frame(pipe: IO[bytes]) -> object:
    """Read a frame; waits.

    Raises:
        EOFError: the other end is gone.
    """
    head = pipe.read(_LENGTH.size)
    length = _LENGTH.unpack(head)[0] if len(head) == _LENGTH.size else 0
    data = pipe.read(length) if 0 < length <= FRAME_BYTES_MAX else b""
    if not data or len(data) < length:
        raise EOFError("the other end of the pipe is gone")
    import pickle

    return pickle.loads(data)
