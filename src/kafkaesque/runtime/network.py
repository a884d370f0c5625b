"""Connections of the real machine."""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from kafkaesque.env.clock import Timer
from kafkaesque.env.network import (
    Address,
    ConnectionHandler,
    Framing,
    HandshakeFailed,
    ListenOptions,
    OnDatagram,
)
from kafkaesque.model.errors import InvariantBroken
from kafkaesque.runtime.connection import Shared, SocketConnection
from kafkaesque.runtime.datagrams import RealDatagrams
from kafkaesque.runtime.descriptors import connections_max, lift
from kafkaesque.runtime.framing import Cutter, FrameCutter, StreamCutter
from kafkaesque.runtime.loop import OnFatal
from kafkaesque.runtime.names import Target, literal_family, resolve
from kafkaesque.runtime.poller import READABLE, WRITABLE, Poller
from kafkaesque.runtime.ports import Socket
from kafkaesque.runtime.turns import Turns
from kafkaesque.runtime.workers import Mailbox, WorkerPool

if TYPE_CHECKING:
    # A network that speaks no TLS does without these: they are imported where they are first used.
    from kafkaesque.runtime.tls_contexts import TlsContext
    from kafkaesque.runtime.tls_handshakes import Group, Handshakes
    from kafkaesque.runtime.tls_socket import TlsSocket

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

#: Of a record that belongs to a handshake.
TLS_FIRST_BYTE: Final = b"\x16"

_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class RealNetwork:
    """TCP and UDP. `readers` are the threads that bring in cold pages of file ranges."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        turns: Turns,
        poller: Poller,
        readers: WorkerPool,
        on_fatal: OnFatal,
    ) -> None:
        self._poller: Final = poller
        self.shared: Final = Shared(turns, self._poller, readers, on_fatal)
        self._resolvers: Final = WorkerPool("resolve", RESOLVE_THREADS_MAX, Mailbox(loop))
        #: Everything that is open, in the order of opening.
        self._listeners: Final[dict[RealListener, None]] = {}
        self.attempts: Final[dict[_Attempt, None]] = {}
        self._connections: Final[dict[SocketConnection, None]] = {}
        self._datagrams: Final[dict[RealDatagrams, None]] = {}
        self._turns: Final = turns
        self._handshakes: Handshakes | None = None
        self._tls: Final[dict[str, TlsContext]] = {}
        self._is_closed = False

    @property
    def handshakes(self) -> "Handshakes":
        """Connections that do not speak TLS yet, with buffers that are there from the first on."""
        if self._handshakes is None:
            from kafkaesque.runtime.tls_handshakes import Handshakes

            self._handshakes = Handshakes(self._turns, self._poller)
        return self._handshakes

    def listen(
        self, address: Address, options: ListenOptions, accept: Callable[[], ConnectionHandler]
    ) -> "RealListener":
        self.check_tls(options)
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
        self.check_tls(options)
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

    def use_tls(self, name: str, context: "TlsContext") -> None:
        """Speak TLS so from now on where `ListenOptions.tls` is this name.

        Connections that stand go on with what they have, unless what the other end has shown is
        revoked now.
        """
        from kafkaesque.runtime.tls_connection import TlsConnection
        from kafkaesque.runtime.tls_contexts import describe_revoked

        self._tls[name] = context
        for connection in list(self._connections):
            if isinstance(connection, TlsConnection) and connection.context == name:
                certificate = connection.peer_certificate()
                if certificate is not None and context.is_revoked(certificate):
                    connection.revoke(describe_revoked(certificate))

    def check_tls(self, options: ListenOptions) -> None:
        """See whether what the options name is known.

        Raises:
            InvariantBroken: it is not.
        """
        if options.tls and options.tls not in self._tls:
            raise InvariantBroken(f"nothing is known of TLS under the name {options.tls!r}")

    def accept(
        self,
        sock: socket.socket,
        options: ListenOptions,
        accept: Callable[[], ConnectionHandler],
        on_gone: Callable[[], None],
        group: "Group | None",
    ) -> None:
        """Make a connection of a socket that was accepted, now or when it has shaken hands."""
        sock, peer = _prepare(sock, options)
        if group is None:
            self._start_plain(sock, peer, options, accept, on_gone)
            return
        from kafkaesque.runtime.tls_contexts import explain
        from kafkaesque.runtime.tls_socket import NothingSaid

        def on_failed(error: Exception) -> None:
            if not self._is_closed and not isinstance(error, NothingSaid):
                self.shared.refusals.say(f"{peer}: no TLS connection: {explain(error)}")
            on_gone()

        def on_done(tls: "TlsSocket | None") -> None:
            if tls is None:
                self._start_plain(sock, peer, options, accept, on_gone)
            else:
                self._start_tls(tls, peer, options, accept, on_gone, on_failed)

        is_clear = partial(_is_clear, sock) if options.is_tls_optional else None
        server = self._tls[options.tls].server
        self.handshakes.accept(sock, server, on_done, on_failed, group, is_clear)

    def adopt(
        self,
        sock: socket.socket,
        options: ListenOptions,
        handler: ConnectionHandler,
        on_failed: Callable[[Exception], None],
    ) -> None:
        """Make a connection of a socket that was dialled, now or when it has shaken hands."""
        sock, peer = _prepare(sock, options)
        context = self._tls[options.tls].client if options.tls else None
        if not options.tls:
            self._start_plain(sock, peer, options, lambda: handler, _nothing)
        elif context is None:
            raise InvariantBroken(f"nobody is dialled with TLS under the name {options.tls!r}")
        else:
            from kafkaesque.runtime.tls_contexts import explain

            def on_refused(error: Exception) -> None:
                on_failed(HandshakeFailed(f"no TLS connection: {explain(error)}"))

            def on_done(tls: "TlsSocket | None") -> None:
                assert tls is not None  # This side has begun with it.
                self._start_tls(tls, peer, options, lambda: handler, _nothing, on_refused)

            self.handshakes.dial(sock, context, on_done, on_refused)

    def _start_plain(
        self,
        sock: socket.socket,
        peer: str,
        options: ListenOptions,
        make: Callable[[], ConnectionHandler],
        on_gone: Callable[[], None],
    ) -> None:
        handler = _made(make, peer, sock, on_gone)
        if handler is not None:
            gone = partial(self._on_gone, on_gone)
            connection = SocketConnection(self.shared, sock, peer, self._cutter(options), gone)
            self._connections[connection] = None
            connection.start(handler)

    def _start_tls(
        self,
        tls: "TlsSocket",
        peer: str,
        options: ListenOptions,
        make: Callable[[], ConnectionHandler],
        on_gone: Callable[[], None],
        on_failed: Callable[[Exception], None],
    ) -> None:
        try:
            certificate = tls.peer_certificate()
            self._tls[options.tls].check(certificate)
        except (OSError, ValueError) as error:  # Or a certificate that cannot be read.
            tls.close()
            on_failed(error)
            return
        handler = _made(make, peer, tls, on_gone)
        if handler is not None:
            from kafkaesque.runtime.tls_connection import TlsConnection

            connection = TlsConnection(
                self.shared,
                tls,
                peer,
                self._cutter(options),
                partial(self._on_gone, on_gone),
                buffers=self.handshakes.buffers,
                context=options.tls,
                certificate=certificate,
            )
            self._connections[connection] = None
            connection.start(handler)

    def _on_gone(self, on_gone: Callable[[], None], connection: SocketConnection) -> None:
        self._connections.pop(connection, None)
        on_gone()

    def close(self) -> None:
        """Close every listener and every connection; those that have something to send finish."""
        self._is_closed = True
        for listener in list(self._listeners):
            listener.close()
        if self._handshakes is not None:
            self._handshakes.abort()
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
        if self._handshakes is not None:
            self._handshakes.abort()
        for connection in list(self._connections):
            connection.abort()

    def shut(self) -> None:
        """Resolve nothing any more; after `abort`."""
        self._resolvers.close()

    @property
    def connection_count(self) -> int:
        """How many connections are open, those that are just opening or closing too."""
        shaking = 0 if self._handshakes is None else len(self._handshakes.all)
        return len(self._connections) + shaking

    def forget(self, gone: "RealListener | _Attempt") -> None:
        """Take note that a listener is closed, or an attempt has ended."""
        if isinstance(gone, RealListener):
            self._listeners.pop(gone, None)
        else:
            self.attempts.pop(gone, None)

    def new_group(self) -> "Group":
        """Return a listener's group of handshakes: without one, it speaks no TLS."""
        from kafkaesque.runtime.tls_handshakes import Group

        return Group()

    def _cutter(self, options: ListenOptions) -> Cutter:
        if options.framing is Framing.LENGTH_PREFIXED:
            return FrameCutter(self.shared.scratch, options.frame_bytes_max)
        return StreamCutter(self.shared.scratch)


class RealListener:
    """A listening socket."""

    __slots__ = (
        "_accept",
        "_address",
        "_count",
        "_group",
        "_network",
        "_options",
        "_sock",
        "_timer",
    )

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
        self._group: Final = network.new_group() if options.tls else None
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
        if self._is_full() and not (self._group is not None and self._group.give_way()):
            self._network.shared.refusals.say(
                f"port {self._address.port}: refused, {self._count} connections are open"
            )
            sock.close()
            if self._options.on_refused is not None:
                self._options.on_refused()
            return
        sock.setblocking(False)
        self._count += 1
        self._network.accept(sock, self._options, self._accept, self._on_gone, self._group)

    def _is_full(self) -> bool:
        return (
            self._count >= self._options.connections_max
            or self._network.connection_count >= connections_max()
        )

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
        self._network.adopt(sock, self._options, self._handler, self._on_failed)

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


def _nothing() -> None:
    """Nobody counts."""


def _prepare(sock: socket.socket, options: ListenOptions) -> tuple[socket.socket, str]:
    """Set what connections have set; return the socket, and who is at its other end."""
    if options.is_closed_first:
        sock = lift(sock, CONNECTIONS_LIFTED)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    try:
        host, port = sock.getpeername()[:2]
    except OSError:  # It has gone already; the first receive will tell.
        host, port = "unknown", 0
    return sock, f"{host}:{port}"


def _is_clear(sock: socket.socket) -> bool:
    """Tell whether what has come does not begin as TLS does."""
    return sock.recv(1, socket.MSG_PEEK) not in (b"", TLS_FIRST_BYTE)


def _made(
    make: Callable[[], ConnectionHandler],
    peer: str,
    sock: Socket,
    on_gone: Callable[[], None],
) -> ConnectionHandler | None:
    try:
        return make()
    except Exception:
        log.exception("%s: closed, no handler could be made", peer)
        sock.close()
        on_gone()
        return None


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
