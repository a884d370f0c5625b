"""The same doors opened on two worlds, so that the same checks run on both."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from kafkaesque.env import Env
from kafkaesque.env.network import Connection
from kafkaesque.runtime.env import RealEnv
from kafkaesque.runtime.loop import new_loop, report_to
from kafkaesque.sim import env as sim


class World(Protocol):
    """One broker's doors, and the power to let time pass."""

    env: Env
    #: What was reported as a defect.
    fatal: list[BaseException]

    def run_until(self, condition: Callable[[], bool], ms_max: int = 10_000) -> None:
        """Let the world go on until the condition holds; fails after `ms_max`."""

    def settle(self) -> None:
        """Let everything happen that is about to happen."""

    def close(self) -> None:
        """Give everything back."""


class RealWorld:
    """The machine that the tests run on."""

    def __init__(self, root: Path, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.loop: asyncio.AbstractEventLoop = loop or new_loop()
        self.fatal: list[BaseException] = []
        report_to(self.loop, self.fatal.append)
        self.doors = RealEnv(self.loop, root, self.fatal.append)
        self.env = self.doors.env
        self.at_close: list[Callable[[], None]] = []

    def run_until(self, condition: Callable[[], bool], ms_max: int = 60_000) -> None:
        async def poll() -> bool:
            end = time.monotonic() + ms_max / 1000
            while not condition():
                if time.monotonic() > end:
                    return False
                await asyncio.sleep(0.001)
            return True

        assert self.loop.run_until_complete(poll()), "it did not happen in time"

    def settle(self) -> None:
        self.loop.run_until_complete(asyncio.sleep(0.05))

    def settle_turns(self, count: int) -> None:
        """Let so many turns of the loop go by."""

        async def turns() -> None:
            for _ in range(count):
                await asyncio.sleep(0)

        self.loop.run_until_complete(turns())

    def close(self) -> None:
        for close in self.at_close:
            close()
        self.doors.close()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()
        assert self.fatal == []


class SimWorld:
    """One simulated machine."""

    def __init__(self, seed: int) -> None:
        self.fatal: list[BaseException] = []
        self.world = sim.World(seed)
        self.machine = self.world.add_machine("alpha", self.fatal.append)
        self.env = self.machine.boot()

    def run_until(self, condition: Callable[[], bool], ms_max: int = 10_000) -> None:
        self.world.loop.run_until(condition, ms_max)

    def settle(self) -> None:
        self.world.loop.run_for(50)

    def close(self) -> None:
        assert self.fatal == []


class Recorder:
    """A handler that remembers everything."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.pieces: list[bytes] = []
        self.buffers: list[bytearray | memoryview | bytes] = []
        self.writable_count = 0
        self.closed: list[Exception | None] = []
        self.failed: list[Exception] = []
        self.on_piece: Callable[[bytes], None] | None = None

    def on_open(self, connection: Connection) -> None:
        assert self.connection is None
        self.connection = connection

    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        assert self.connection is not None
        assert not self.closed
        self.buffers.append(data)
        self.pieces.append(bytes(data))
        if self.on_piece is not None:
            self.on_piece(bytes(data))

    def on_writable(self) -> None:
        assert not self.closed
        self.writable_count += 1

    def on_close(self, error: Exception | None) -> None:
        self.closed.append(error)

    @property
    def link(self) -> Connection:
        assert self.connection is not None
        return self.connection

    @property
    def stream(self) -> bytes:
        return b"".join(self.pieces)


class EofRecorder(Recorder):
    """A handler that stays when the peer has ended its side."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = 0

    def on_eof(self) -> None:
        self.ended += 1
