"""Carries out the client's steps with blocking sockets; for any number of threads."""

import socket
import ssl
import threading
import time
from typing import Any, Final, TypeVar

from kafkaesque.client.config import ClientConfig
from kafkaesque.client.errors import Timeout
from kafkaesque.client.steps import Connect, Effect, Exchange, Sleep, Steps, Wire

T = TypeVar("T")

_READ_BYTES: Final = 256 * 1024


class SocketWire:
    """A blocking socket."""

    __slots__ = ("socket",)

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected

    def is_stale(self) -> bool:
        """See `Wire`."""
        try:
            self.socket.settimeout(0)
            self.socket.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        except OSError:
            pass
        return True

    def close(self) -> None:
        """See `Wire`."""
        self.socket.close()


class SyncDriver:
    """Runs steps in the thread that asks for it."""

    def __init__(self, config: ClientConfig) -> None:
        self._tls = None if config.tls is None else config.tls.context()
        self._timeout_s = config.timeout_s
        #: Every operation uses one connection at a time.
        self._slots = threading.BoundedSemaphore(config.connections_max)

    def run(self, steps: Steps[T]) -> T:
        """Return what steps return; raise what they raise.

        Raises:
            Timeout: all connections were in use for too long; nothing was done.
        """
        if not self._slots.acquire(timeout=self._timeout_s):
            steps.close()
            raise Timeout("all connections are in use: raise connections_max, or wait for less")
        try:
            return self._run(steps)
        finally:
            steps.close()
            self._slots.release()

    def _run(self, steps: Steps[T]) -> T:
        try:
            effect = next(steps)
            while True:
                try:
                    result = self._carry_out(effect)
                except Exception as error:
                    effect = steps.throw(error)
                else:
                    effect = steps.send(result)
        except StopIteration as stop:
            done: T = stop.value
            return done

    def _carry_out(self, effect: Effect) -> Any:
        match effect:
            case Connect():
                return self._connect(effect)
            case Exchange():
                return _exchange(effect)
            case Sleep():
                return time.sleep(effect.seconds)

    def _connect(self, effect: Connect) -> Wire:
        host, port = effect.address
        connected = socket.create_connection((host, port), timeout=effect.timeout_s)
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                connected = self._tls.wrap_socket(connected, server_hostname=host)
        except BaseException:
            connected.close()
            raise
        return SocketWire(connected)


def _exchange(effect: Exchange) -> None:
    wire, reader = effect.wire, effect.reader
    if not isinstance(wire, SocketWire):
        raise TypeError("a wire of another driver")
    deadline_s = time.monotonic() + effect.timeout_s
    wire.socket.settimeout(effect.timeout_s)
    wire.socket.sendall(effect.data)
    while reader.wanted:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        wire.socket.settimeout(left_s)
        data = wire.socket.recv(min(reader.wanted, _READ_BYTES))
        if not data:
            raise EOFError
        reader.feed(data)
