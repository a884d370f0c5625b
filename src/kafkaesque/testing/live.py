"""The same brokers behind real sockets, in real time: for any client library.

Theory of operation. A thread owns the simulated world and lets its time pass as real time does. For
each broker there is a real port on 127.0.0.1; each connection to it is continued into the simulated
network, byte for byte (`bridge`). So clients are as they are, and every fault of the simulator can
be had. Whatever the test asks is done by that thread between two events. If the process is held up
(a debugger, a busy machine), the world is held up with it: nobody's patience ends by that.
"""

import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final, Self, TypeVar

from kafkaesque.env.network import Address
from kafkaesque.model.options import OptionValue
from kafkaesque.sim.env import World
from kafkaesque.testing.arguments import whole
from kafkaesque.testing.bridge import Bridge
from kafkaesque.testing.brokers import BROKERS_MAX, TestedCluster, start_cluster
from kafkaesque.testing.faults import Faults

#: The world's time is at most so much ahead of what was let pass in one go.
STEP_MS_MAX: Final = 100
#: The thread looks at the world at least so often.
TICK_S: Final = 0.001
CALL_TIMEOUT_S: Final = 30.0
#: Connections that may wait to be accepted, on each port.
BACKLOG: Final = 128

Result = TypeVar("Result")


class LiveCluster(Faults):
    """Brokers in this process that listen on real ports."""

    def __init__(
        self, seed: int = 0, *, brokers: int = 3, options: Mapping[str, OptionValue] | None = None
    ) -> None:
        """Make a cluster; it runs from `start_serving` until `close`.

        Raises:
            ConfigError: an option is none, or has no such value.
            TypeError, ValueError: there cannot be so many brokers.
        """
        whole("the number of brokers", brokers, 1, BROKERS_MAX)
        self._listeners: Final = [_listen() for _ in range(brokers)]
        world = World(seed)
        ports = {f"b{n}": each.getsockname()[1] for n, each in enumerate(self._listeners, start=1)}
        self._cluster = TestedCluster(
            world, brokers, options or {}, lambda name: Address("127.0.0.1", ports[name])
        )
        self._env: Any = None
        self._calls: Final[deque[tuple[Callable[[], object], Future[Any]]]] = deque()
        self._selector: Final = selectors.DefaultSelector()
        self._wake_in, self._wake_out = socket.socketpair()
        self._thread: threading.Thread | None = None
        self._is_closing = False
        self._error: BaseException | None = None

    def __enter__(self) -> Self:
        self.start_serving()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def bootstrap_servers(self) -> str:
        """The brokers' addresses, as clients want them."""
        return ",".join(f"127.0.0.1:{each.getsockname()[1]}" for each in self._listeners)

    def start_serving(self) -> None:
        """Start the brokers, in virtual time, and let clients in."""
        start_cluster(self._cluster)
        self._env = self._cluster.world.add_machine("clients").boot()
        self._thread = threading.Thread(target=self._run, name="kafkaesque-live", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Hang up on all clients and end."""
        self._is_closing = True
        if self._thread is not None:
            self._wake()
            self._thread.join(CALL_TIMEOUT_S)
        for each in (*self._listeners, self._wake_in, self._wake_out):
            each.close()
        self._selector.close()

    def leader(self, topic: str, partition: int = 0) -> int | None:
        """Return which broker leads a partition; None if none does."""
        return self._do(lambda: self._cluster.leader(topic, partition))

    def is_whole(self) -> bool:
        """Whether all brokers are up, and every copy votes and is in sync again."""
        return self._do(self._cluster.is_whole)

    def history(self) -> list[str]:
        """Return what has happened, as lines with their times."""
        return self._do(self._cluster.world.loop.history.lines)

    # -- the thread

    def _do(self, act: Callable[[], Result]) -> Result:
        if self._thread is None:
            return act()
        if self._error is not None:
            raise self._error
        future: Future[Result] = Future()
        self._calls.append((act, future))
        self._wake()
        return future.result(CALL_TIMEOUT_S)

    def _wake(self) -> None:
        self._wake_out.send(b"\0")

    def _run(self) -> None:
        try:
            self._serve()
        except BaseException as error:
            # A broker's defect: whoever asks next is told.
            self._error = error
        finally:
            for key in list(self._selector.get_map().values()):
                if isinstance(key.data, Bridge):
                    key.data.close()
            while self._calls:
                self._calls.popleft()[1].set_exception(self._error or RuntimeError("it is closed"))

    def _serve(self) -> None:
        self._selector.register(self._wake_in, selectors.EVENT_READ)
        self._wake_in.setblocking(False)
        for number, listener in enumerate(self._listeners, start=1):
            self._selector.register(listener, selectors.EVENT_READ, number)
        passed = time.monotonic()
        while not self._is_closing:
            for key, events in self._selector.select(TICK_S):
                self._on_ready(key, events)
            while self._calls:
                _answer(*self._calls.popleft())
            now = time.monotonic()
            self._cluster.world.loop.run_for(min(STEP_MS_MAX, (now - passed) * 1000))
            passed = now

    def _on_ready(self, key: selectors.SelectorKey, events: int) -> None:
        if isinstance(key.data, Bridge):
            key.data.on_ready(events)
        elif isinstance(key.data, int):
            self._accept(self._listeners[key.data - 1], key.data)
        else:
            self._wake_in.recv(4096)

    def _accept(self, listener: socket.socket, number: int) -> None:
        try:
            client, _ = listener.accept()
        except OSError:
            return  # it has gone again
        machine = self._cluster.machine(number)
        if not machine.running:
            client.close()
            return
        address = self._cluster.addresses[number - 1]
        Bridge(self._selector, client, self._env.network, address)


def _answer(act: Callable[[], Any], future: "Future[Any]") -> None:
    try:
        future.set_result(act())
    except BaseException as error:
        future.set_exception(error)


def _listen() -> socket.socket:
    listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
    listener.setblocking(False)
    return listener
