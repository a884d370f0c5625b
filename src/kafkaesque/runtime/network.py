"""Connections of the real machine."""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from typing import Final

from kafkaesque.env.clock import Timer
from kafkaesque.env.network import (
    Address,
    ConnectionHandler,
    Framing,
    ListenOptions,
    OnDatagram,
)
from kafkaesque.runtime.connection import Shared, SocketConnection
from kafkaesque.runtime.datagrams import RealDatagrams
from kafkaesque.runtime.descriptors import connections_max, lift
from kafkaesque.runtime.framing import Cutter, FrameCutter, StreamCutter
from kafkaesque.runtime.loop import OnFatal
from kafkaesque.runtime.names import Target, literal_family, resolve
from kafkaesque.runtime.poller import READABLE, WRITABLE, Poller
from kafkaesque.runtime.turns import Turns
from kafkaesque.runtime.workers import Mailbox, WorkerPool

log = logging.getLogger("kafkaesque.runtime")

#: Connections that the kernel keeps for us until we accept them.
BACKLOG_MAX: Final = 1024
#: Connections accepted in one turn of the loop.
ACCEPTS_PER_TURN_MAX: Final = 64
#: So long nothing is accepted after the system had no descriptor left for one more.
ACCEPT_PAUSE_MS: Final = 100
#: So long an attempt to connect may take.
CONNECT_MS_MAX: Final = 3_000
#: A name server that does not answer keeps nobody but those who ask it waiting.
RESOLVE_THREADS_MAX: Final = 2
#: Where descriptors that are to be closed first are, in eighths of what there may be: the listener
#: before its connections, so that whoever dials again at once is refused.
CONNECTIONS_LIFTED: Final = 6
LISTENERS_LIFTED: Final = 7

_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class RealNetwork:
    """TCP and UDP. `readers` are the threads that bring in cold pages of file ranges."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        turns: Turns,
        readers: WorkerPool,
        on_fatal: OnFatal,
    ) -> None:
        self._poller: Final = Poller(loop, turns)
        self.shared: Final = Shared(turns, self._poller, readers, on_fatal)
        self._resolvers: Final = WorkerPool("resolve", RESOLVE_THREADS_MAX, Mailbox(loop))
        #: Everything that is open, in the order of opening.
        self._listeners: Final[dict[RealListener, None]] = {}
        self.attempts: Final[dict[_Attempt, None]] = {}
        self._connections: Final[dict[SocketConnection, None]] = {}
        self._datagrams: Final[dict[RealDatagrams, None]] = {}
        self._is_closed = False

    def listen(
        self, address: Address, options: ListenOptions, accept: Callable[[], ConnectionHandler]
    ) -> "RealListener":
        sock = _bind(address)
        if options.is_closed_first:
            sock = lift(sock, LISTENERS_LIFTED)
        listener = RealListener(self, sock, options, accept)
        self._listeners[listener] = None
        return listener

    def connect(
        self,
        address: Address,
        options: ListenOptions,
        handler: ConnectionHandler,
        on_failed: Callable[[Exception], None],
    ) -> None:
        if self._is_closed:  # Who is told that it is dials again.
            error = ConnectionAbortedError("the network is closed")
            self.shared.loop.call_soon(lambda: on_failed(error))
            return
        attempt = _Attempt(self, options, handler, on_failed)
        self.attempts[attempt] = None
        family = literal_family(address.host)
        if family is not None:
            targets = [(family, (address.host, address.port))]
            self.shared.loop.call_soon(lambda: attempt.start(targets))
        else:
            self._resolvers.submit(lambda: resolve(address), attempt.on_resolved)

    def open_datagrams(self, address: Address, on_datagram: OnDatagram) -> RealDatagrams:
        sock = _bind(address, socket.SOCK_DGRAM)
        opened = RealDatagrams(
            sock, self._poller, self._resolvers, on_datagram, self._datagrams.pop
        )
        self._datagrams[opened] = None
        return opened

    def adopt(
        self,
        sock: socket.socket,
        options: ListenOptions,
        handler: ConnectionHandler,
        on_gone: Callable[[], None] | None = None,
    ) -> None:
        """Make a connection of a connected socket."""
        if options.is_closed_first:
            sock = lift(sock, CONNECTIONS_LIFTED)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        try:
            host, port = sock.getpeername()[:2]
        except OSError:  # It has gone already; the first receive will tell.
            host, port = "unknown", 0

        def gone(connection: SocketConnection) -> None:
            self._connections.pop(connection, None)
            if on_gone is not None:
                on_gone()

        connection = SocketConnection(
            self.shared, sock, f"{host}:{port}", self._cutter(options), gone
        )
        self._connections[connection] = None
        connection.start(handler)

    def close(self) -> None:
        """Close every listener and every connection; those that have something to send finish."""
        for listener in list(self._listeners):
            listener.close()
        for connection in list(self._connections):
            connection.close()

    def abort(self) -> None:
        """Drop everything at once, and open nothing more."""
        self._is_closed = True
        for listener in list(self._listeners):
            listener.close()
        for opened in list(self._datagrams):
            opened.close()
        for attempt in list(self.attempts):
            attempt.abort()
        for connection in list(self._connections):
            connection.abort()

    def shut(self) -> None:
        """Watch nothing any more; after `abort`."""
        self._poller.close()
        self._resolvers.close()

    @property
    def connection_count(self) -> int:
        """How many connections are open, those that are just closing too."""
        return len(self._connections)

    def forget(self, gone: "RealListener | _Attempt") -> None:
        """Take note that a listener is closed, or an attempt has ended."""
        if isinstance(gone, RealListener):
            self._listeners.pop(gone, None)
        else:
            self.attempts.pop(gone, None)

    def _cutter(self, options: ListenOptions) -> Cutter:
        if options.framing is Framing.LENGTH_PREFIXED:
            return FrameCutter(self.shared.scratch, options.frame_bytes_max)
        return StreamCutter(self.shared.scratch)


class RealListener:
    """A listening socket."""

    __slots__ = ("_accept", "_address", "_count", "_network", "_options", "_sock", "_timer")

    def __init__(
        self,
        network: RealNetwork,
        sock: socket.socket,
        options: ListenOptions,
        accept: Callable[[], ConnectionHandler],
    ) -> None:
        self._network: Final = network
        self._sock: socket.socket | None = sock
        self._options: Final = options
        self._accept: Final = accept
        host, port = sock.getsockname()[:2]
        self._address: Final = Address(host, port)
        self._count = 0
        self._timer: Timer | None = None
        network.shared.poller.add(sock.fileno(), READABLE, self._on_acceptable)

    @property
    def address(self) -> Address:
        return self._address

    def close(self) -> None:
        if self._sock is None:
            return
        self._network.shared.poller.remove(self._sock.fileno())
        if self._timer is not None:
            self._timer.cancel()
        self._sock.close()
        self._sock = None
        self._network.forget(self)

    def _on_acceptable(self, _: int) -> None:
        for _accepted in range(ACCEPTS_PER_TURN_MAX):
            if self._sock is None:  # Closed by what was just accepted.
                return
            try:
                sock, _address = self._sock.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._pause(error)
                    return
                continue  # That one has gone before we came.
            self._open(sock)

    def _open(self, sock: socket.socket) -> None:
        if (
            self._count >= self._options.connections_max
            or self._network.connection_count >= connections_max()
        ):
            self._network.shared.refusals.say(
                f"port {self._address.port}: refused, {self._count} connections are open"
            )
            sock.close()
            if self._options.on_refused is not None:
                self._options.on_refused()
            return
        sock.setblocking(False)
        try:
            handler = self._accept()
        except Exception:
            log.exception("port %d: closed, no handler could be made", self._address.port)
            sock.close()
            return
        self._count += 1
        self._network.adopt(sock, self._options, handler, self._on_gone)

    def _on_gone(self) -> None:
        self._count -= 1

    def _pause(self, error: OSError) -> None:
        """Accept nothing for a moment: the loop would only meet the same error again and again."""
        log.error("port %d: cannot accept: %s", self._address.port, error.strerror)
        assert self._sock is not None
        self._network.shared.poller.remove(self._sock.fileno())
        self._timer = self._network.shared.loop.call_later(ACCEPT_PAUSE_MS / 1000, self._resume)

    def _resume(self) -> None:
        self._timer = None
        if self._sock is not None:
            self._network.shared.poller.add(self._sock.fileno(), READABLE, self._on_acceptable)


class _Attempt:
    """One call of `connect`: tries the addresses of a name one after the other."""

    __slots__ = ("_handler", "_network", "_on_failed", "_options", "_sock", "_targets", "_timer")

    def __init__(
        self,
        network: RealNetwork,
        options: ListenOptions,
        handler: ConnectionHandler,
        on_failed: Callable[[Exception], None],
    ) -> None:
        self._network: Final = network
        self._options: Final = options
        self._handler: Final = handler
        self._on_failed: Final = on_failed
        self._targets: list[Target] = []
        self._sock: socket.socket | None = None
        self._timer: Timer | None = None

    def on_resolved(self, targets: object, error: Exception | None) -> None:
        if isinstance(targets, list):
            self.start(targets)
        else:
            self._end()
            self._on_failed(error or OSError("the name has no address"))

    def start(self, targets: list[Target]) -> None:
        if self not in self._network.attempts:
            return  # Aborted before it began.
        self._targets = targets
        timeout = CONNECT_MS_MAX / 1000
        self._timer = self._network.shared.loop.call_later(timeout, self._on_time_up)
        self._next()

    def abort(self) -> None:
        self._give_up(ConnectionAbortedError("the network is closed"))

    def _next(self) -> None:
        family, target = self._targets.pop(0)
        try:
            self._sock = sock = socket.socket(family, socket.SOCK_STREAM)
            sock.setblocking(False)
            code = sock.connect_ex(target)
        except OSError as error:
            self._fail(error)
            return
        except OverflowError:  # Addresses come from peers, too.
            self._fail(_os_error(errno.EINVAL, target))
            return
        if code == errno.EINPROGRESS:
            self._network.shared.poller.add(sock.fileno(), WRITABLE, self._on_connected)
        elif code:
            self._fail(_os_error(code, target))
        else:
            self._succeed(sock)

    def _on_connected(self, _: int) -> None:
        sock = self._sock
        assert sock is not None
        self._network.shared.poller.remove(sock.fileno())
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._fail(_os_error(code, None))
        else:
            self._succeed(sock)

    def _succeed(self, sock: socket.socket) -> None:
        self._sock = None
        self._end()
        self._network.adopt(sock, self._options, self._handler)

    def _fail(self, error: OSError) -> None:
        if self._sock is not None:
            self._sock.close()
            self._sock = None
        if self._targets:
            self._next()
            return
        self._end()
        self._on_failed(error)

    def _on_time_up(self) -> None:
        self._give_up(TimeoutError(f"no answer within {CONNECT_MS_MAX} ms"))

    def _give_up(self, error: OSError) -> None:
        self._targets.clear()
        if self._sock is not None:
            self._network.shared.poller.remove(self._sock.fileno())
        self._fail(error)

    def _end(self) -> None:
        self._network.forget(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _os_error(code: int, target: object) -> OSError:
    where = f" {target}" if target else ""
    return OSError(code, f"cannot connect{where}: {errno.errorcode.get(code, code)}")


def _bind(address: Address, kind: int = socket.SOCK_STREAM) -> socket.socket:
    family = literal_family(address.host)
    target = (address.host, address.port)
    if family is None:
        family, target = resolve(address)[0]
    sock = socket.socket(family, kind)
    try:
        sock.setblocking(False)
        if kind == socket.SOCK_STREAM:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(target)
        if kind == socket.SOCK_STREAM:
            sock.listen(BACKLOG_MAX)
    except OSError as error:
        sock.close()
        raise OSError(error.errno, f"cannot listen on {address}: {error.strerror}") from error
    return sock
