"""The four real doors, opened together."""

import asyncio
import os

from kafkaesque.env import Env
from kafkaesque.runtime.disk import RealDisk
from kafkaesque.runtime.loop import OnFatal, RealClock, RealDice
from kafkaesque.runtime.network import RealNetwork
from kafkaesque.runtime.poller import Poller
from kafkaesque.runtime.turns import Turns


class RealEnv:
    """The real world of one broker, and the end of it."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, root: str | os.PathLike[str], on_fatal: OnFatal
    ) -> None:
        """Lock the data directory and open the doors.

        Raises:
            DiskFailed: the directory cannot be used, or another process uses it.
        """
        turns = Turns(loop)
        self._poller = poller = Poller(loop, turns)
        try:
            self.disk = RealDisk(root, loop, poller)
        except BaseException:
            poller.close()
            raise
        self.network = RealNetwork(loop, turns, poller, self.disk.readers, on_fatal)
        self.env = Env(
            clock=RealClock(turns), dice=RealDice(), disk=self.disk, network=self.network
        )

    def close(self) -> None:
        """Drop connections, wait for the disk's threads, unlock the directory."""
        self.network.abort()
        self.network.shut()
        self.disk.close()
        self._poller.close()
