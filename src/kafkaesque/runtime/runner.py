"""Runs a broker until it is told to stop."""

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Callable
from typing import Final, Protocol

from kafkaesque.runtime.descriptors import raise_limit
from kafkaesque.runtime.env import RealEnv
from kafkaesque.runtime.loop import new_loop, report_to

log = logging.getLogger("kafkaesque.runtime")

#: A service that has not stopped by then is left as it is; the data is made for that.
STOP_MS_MAX: Final = 30_000
#: When the service has stopped, what it wrote last has so long to reach its clients.
DRAIN_MS_MAX: Final = 300
_DRAIN_STEP_MS: Final = 5
#: Exit status after a defect of ours (sysexits' EX_SOFTWARE).
EXIT_FATAL: Final = 70
#: Exit status when the service did not stop in time, or was not given the time.
EXIT_NOT_STOPPED: Final = 1

#: What lives on after the start is young for ever to the collector: it would walk through all of
#: it in vain. What a broker allocates per request is freed by counting references; cycles are rare.
GC_THRESHOLDS: Final = (20_000, 20, 50)


class Service(Protocol):
    """What runs."""

    def stop(self, on_stopped: Callable[[], None]) -> None:
        """Finish what is begun, refuse what is new, then call `on_stopped`."""

    @property
    def reload(self) -> Callable[[], None] | None:
        """What SIGHUP does; None if it ends the process, as is usual."""


def die(error: BaseException) -> None:
    """Report a defect and end the process at once, before it can acknowledge anything more."""
    log.critical(
        "stopped by a defect of its own; nothing acknowledged is lost and starting again is safe: "
        "please report what stands here",
        exc_info=error,
    )
    logging.shutdown()
    os._exit(EXIT_FATAL)


def run(root: str | os.PathLike[str], start: Callable[[RealEnv], Service]) -> int:
    """Start a service and run it until SIGTERM or SIGINT; return the process's exit status.

    A second of these ends the process at once. SIGHUP has the service reload, if it does.

    Raises:
        DiskFailed: the data directory cannot be used, or another process uses it.
        Exception: whatever `start` raised.
    """
    raise_limit()
    loop = new_loop()
    report_to(loop, die)
    env: RealEnv | None = None
    try:
        env = RealEnv(loop, root, die)
        service = start(env)
        stopper = _Stopper(loop, env, service)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopper.on_signal, number)
        if service.reload is not None:
            loop.add_signal_handler(signal.SIGHUP, service.reload)
        settle_gc()
        loop.run_forever()
        return stopper.status
    finally:
        if env is not None:
            env.close()
            # One more turn: closed connections tell their handlers.
            loop.call_soon(loop.stop)
            loop.run_forever()
        loop.close()


def settle_gc() -> None:
    """Keep the garbage collector away from what was built at the start."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


class _Stopper:
    """Turns signals into a stop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, env: RealEnv, service: Service) -> None:
        self._loop: Final = loop
        self._env: Final = env
        self._service: Final = service
        self._stopping = False
        self.status = 0

    def on_signal(self, number: int) -> None:
        name = signal.Signals(number).name
        if self._stopping:
            log.warning("%s again: ending at once", name)
            logging.shutdown()
            os._exit(EXIT_NOT_STOPPED)
        log.info("%s: stopping", name)
        self._stopping = True
        self._loop.call_later(STOP_MS_MAX / 1000, self._on_time_up)
        self._service.stop(self._on_stopped)

    def _on_stopped(self) -> None:
        self._env.network.close()
        self._drain(DRAIN_MS_MAX)

    def _drain(self, left_ms: int) -> None:
        if left_ms <= 0 or self._env.network.connection_count == 0:
            self._loop.stop()
        else:
            step = _DRAIN_STEP_MS
            self._loop.call_later(step / 1000, self._drain, left_ms - step)

    def _on_time_up(self) -> None:
        log.error("not stopped after %d ms: ending", STOP_MS_MAX)
        self.status = EXIT_NOT_STOPPED
        self._loop.stop()
