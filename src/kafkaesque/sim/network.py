"""The network door of one simulated process."""

import errno
from collections.abc import Callable
from typing import Final

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
from kafkaesque.runtime.framing import FrameCutter, StreamCutter
from kafkaesque.runtime.ports import Workers
from kafkaesque.sim.clock import SimClock, SimProcessLoop
from kafkaesque.sim.datagrams import SimDatagrams
from kafkaesque.sim.loop import NS_PER_MS, Life, SimLoop
from kafkaesque.sim.socket import Host, SimPoller, SimSocket
from kafkaesque.sim.tls import SimTlsConnection, refusal

#: So long an attempt to connect may take, as on a real machine.
CONNECT_MS_MAX: Final = 3_000
#: An unanswered attempt is repeated after so long.
CONNECT_AGAIN_MS: Final = 1_000

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


class Hosts:
    """Who has which address."""

    def __init__(self) -> None:
        self._hosts: Final[dict[str, Host]] = {}

    def add(self, host: Host) -> None:
        """Give a machine its name."""
        self._hosts[host.name] = host

    def find(self, name: str, asker: Host) -> Host | None:
        """Return the machine of that name."""
        return asker if name in LOOPBACK else self._hosts.get(name)


class SimNetwork:
    """Connections to and from other simulated processes, and datagrams."""

    def __init__(
        self, loop: SimLoop, hosts: Hosts, host: Host, clock: SimClock, life: Life, readers: Workers
    ) -> None:
        self._loop: Final = loop
        self._hosts: Final = hosts
        self._host: Final = host
        self._life: Final = life
        poller = SimPoller(loop, host, life)
        self._shared: Final = Shared(
            SimProcessLoop(clock), poller, readers, life.on_fatal, strict=True
        )

    def listen(
        self, address: Address, options: ListenOptions, accept: Callable[[], ConnectionHandler]
    ) -> "SimListener":
        self._check_tls(options)
        port = address.port or self._host.new_port()
        if port in self._host.listeners:
            raise OSError(errno.EADDRINUSE, f"cannot listen on {address}: Address already in use")
        return SimListener(self, self._host, Address(address.host, port), options, accept)

    def connect(
        self,
        address: Address,
        options: ListenOptions,
        handler: ConnectionHandler,
        on_failed: Callable[[Exception], None],
    ) -> None:
        self._check_tls(options)
        _Attempt(self, self._loop, address, options, handler, on_failed).start()

    def open_datagrams(self, address: Address, on_datagram: OnDatagram) -> SimDatagrams:
        port = address.port or self._host.new_port()
        if port in self._host.datagrams:
            raise OSError(errno.EADDRINUSE, f"cannot listen on {address}: Address already in use")
        bound = Address(address.host, port)
        return SimDatagrams(self._host, self._hosts.find, self._life, bound, on_datagram)

    def adopt(
        self,
        sock: SimSocket,
        options: ListenOptions,
        handler: ConnectionHandler,
        on_gone: Callable[[], None] | None = None,
    ) -> None:
        """Make a connection of a connected socket."""
        scratch = self._shared.scratch
        framed = options.framing is Framing.LENGTH_PREFIXED
        cutter = FrameCutter(scratch, options.frame_bytes_max) if framed else StreamCutter(scratch)

        def gone(_: SocketConnection) -> None:
            if on_gone is not None:
                on_gone()

        host, port = sock.peer_address
        peer, shown = f"{host}:{port}", sock.shown
        if shown is None:
            SocketConnection(self._shared, sock, peer, cutter, gone).start(handler)
        else:
            SimTlsConnection(self._shared, sock, peer, cutter, gone, shown).start(handler)

    def _check_tls(self, options: ListenOptions) -> None:
        if options.tls and options.tls not in self._host.tls:
            raise InvariantBroken(f"nothing is known of TLS under the name {options.tls!r}")

    def reaches(self, address: Address) -> Host | None:
        """Return the machine that would get a packet, if one would."""
        host = self._hosts.find(address.host, self._host)
        wire = self._host.wire
        if host is None or not host.up or wire.link(self._host.name, host.name).blocked:
            return None
        return host if not wire.link(host.name, self._host.name).blocked else None

    @property
    def host(self) -> Host:
        """The machine."""
        return self._host

    @property
    def life(self) -> Life:
        """The process."""
        return self._life


class SimListener:
    """A port that accepts connections."""

    __slots__ = ("_accept", "_address", "_count", "_host", "_network", "_open", "_options")

    def __init__(
        self,
        network: SimNetwork,
        host: Host,
        address: Address,
        options: ListenOptions,
        accept: Callable[[], ConnectionHandler],
    ) -> None:
        self._network: Final = network
        self._host: Final = host
        self._address: Final = address
        self._options: Final = options
        self._accept: Final = accept
        self._count = 0
        self._open = True
        host.listeners[address.port] = self._on_arrived
        host.tls_ports[address.port] = (options.tls, options.is_tls_optional)

    @property
    def address(self) -> Address:
        return self._address

    def close(self) -> None:
        if self._open:
            self._open = False
            del self._host.listeners[self._address.port]

    def _on_arrived(self, sock: SimSocket) -> None:
        network = self._network
        network.host.wire.loop.after(0, "accept", lambda: self._admit(sock), network.life)

    def _admit(self, sock: SimSocket) -> None:
        if not self._open:
            sock.close()
            return
        if self._count >= self._options.connections_max:
            sock.close()
            if self._options.on_refused is not None:
                self._options.on_refused()
            return
        handler = self._accept()
        self._count += 1
        self._network.adopt(sock, self._options, handler, self._on_gone)

    def _on_gone(self) -> None:
        self._count -= 1


class _Attempt:
    """One call of `connect`."""

    def __init__(
        self,
        network: SimNetwork,
        loop: SimLoop,
        address: Address,
        options: ListenOptions,
        handler: ConnectionHandler,
        on_failed: Callable[[Exception], None],
    ) -> None:
        self._network: Final = network
        self._loop: Final = loop
        self._address: Final = address
        self._options: Final = options
        self._handler: Final = handler
        self._on_failed: Final = on_failed
        self._ended = False

    def start(self) -> None:
        life = self._network.life
        self._loop.after(CONNECT_MS_MAX * NS_PER_MS, "connect?", self._on_time_up, life)
        self._knock()

    def _knock(self) -> None:
        wire, here = self._network.host.wire, self._network.host
        if self._ended or not self._network.life.alive:
            return
        target = self._network.reaches(self._address)
        if target is None:
            self._loop.after(CONNECT_AGAIN_MS * NS_PER_MS, "connect again", self._knock)
            return
        delay = wire.latency_ns(wire.link(here.name, target.name))
        what = f"{here.name}>{target.name} connect {self._address.port}"
        self._loop.after(delay, what, self._arrive)

    def _arrive(self) -> None:
        here = self._network.host
        if self._ended or not self._network.life.alive:
            return
        target = self._network.reaches(self._address)
        if target is None:
            self._loop.after(CONNECT_AGAIN_MS * NS_PER_MS, "connect again", self._knock)
            return
        back_ns = here.wire.latency_ns(here.wire.link(target.name, here.name))
        accept = target.listeners.get(self._address.port)
        if accept is None:
            refused = ConnectionRefusedError(
                errno.ECONNREFUSED, f"cannot connect to {self._address}: nobody listens"
            )
            self._loop.after(back_ns, "refused", lambda: self._fail(refused), self._network.life)
            return
        dialling = here.tls.get(self._options.tls)
        name, is_optional = target.tls_ports[self._address.port]
        answering = None if dialling is None and is_optional else target.tls.get(name)
        reason = refusal(dialling, answering)
        if reason is not None:
            aborted = HandshakeFailed(f"no TLS connection: {reason}")
            self._loop.after(back_ns, "refused", lambda: self._fail(aborted), self._network.life)
            return
        local = (self._address.host if target is here else here.name, here.new_port())
        ours = SimSocket(here, local, self._address)
        theirs = SimSocket(target, (self._address.host, self._address.port), local)
        ours.shown = None if answering is None else answering.certificate
        theirs.shown = None if dialling is None else dialling.certificate
        ours.connect_to(theirs)
        theirs.connect_to(ours)
        accept(theirs)
        self._loop.after(back_ns, "connected", lambda: self._succeed(ours), self._network.life)

    def _succeed(self, sock: SimSocket) -> None:
        if self._ended:
            sock.close()
            return
        self._ended = True
        self._network.adopt(sock, self._options, self._handler)

    def _fail(self, error: Exception) -> None:
        if not self._ended:
            self._ended = True
            self._on_failed(error)

    def _on_time_up(self) -> None:
        self._fail(TimeoutError(errno.ETIMEDOUT, f"no answer within {CONNECT_MS_MAX} ms"))
