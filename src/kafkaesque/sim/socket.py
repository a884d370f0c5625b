"""Simulated sockets: what a machine's kernel does for a connection, and its poller."""

import errno
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from kafkaesque.env.certificate import PeerCertificate
from kafkaesque.env.disk import Buffer
from kafkaesque.env.network import Address
from kafkaesque.runtime.poller import BROKEN, READABLE, WRITABLE
from kafkaesque.sim.dice import Chance
from kafkaesque.sim.loop import Life, SimLoop
from kafkaesque.sim.tls import SimTls
from kafkaesque.sim.wire import Packet, Pipe, Wire

#: What may be under way or unread in one direction.
WINDOW_BYTES: Final = 256 * 1024
PACKET_BYTES_MAX: Final = 64 * 1024
#: One send or receive in so many handles a part only.
PARTIAL_ONE_IN: Final = 24


class Host:
    """A machine's place in the network."""

    def __init__(self, wire: Wire, name: str) -> None:
        self.wire: Final = wire
        self.name: Final = name
        self.up = True
        #: Open sockets by descriptor, in the order of opening.
        self.sockets: Final[dict[int, SimSocket]] = {}
        #: Who accepts connections, by port.
        self.listeners: Final[dict[int, Callable[[SimSocket], None]]] = {}
        #: What each of them speaks TLS by, empty where it is in the clear, and whether it may be.
        self.tls_ports: Final[dict[int, tuple[str, bool]]] = {}
        #: What the machine shows and believes, by the name of it; survives its processes.
        self.tls: Final[dict[str, SimTls]] = {}
        #: Who takes datagrams, by port: called with where one comes from.
        self.datagrams: Final[dict[int, Callable[[Address, bytes], None]]] = {}
        self._last_fd = 2
        self._last_port = 30_000

    def new_fd(self) -> int:
        """Return a number for a socket."""
        self._last_fd += 1
        return self._last_fd

    def new_port(self) -> int:
        """Return a port that nobody uses."""
        self._last_port += 1
        while self._last_port in self.listeners or self._last_port in self.datagrams:
            self._last_port += 1
        return self._last_port

    def end_process(self) -> None:
        """The process is gone: the kernel closes its sockets."""
        self.listeners.clear()
        self.datagrams.clear()
        for sock in list(self.sockets.values()):
            sock.reset_on_close = self.wire.chance.randrange(2) == 0
            sock.close()

    def lose_power(self) -> None:
        """Everything is gone, and nobody is told."""
        self.up = False
        self.listeners.clear()
        self.datagrams.clear()
        for sock in list(self.sockets.values()):
            sock.vanish()


class SimSocket:
    """One end of a connection."""

    __slots__ = (
        "_address",
        "_chance",
        "_consumed",
        "_credit",
        "_ended",
        "_error",
        "_fd",
        "_host",
        "_peer_ended",
        "_pieces",
        "_pipe",
        "closed",
        "peer_address",
        "reset_on_close",
        "shown",
        "vanished",
        "watch",
    )

    def __init__(self, host: Host, address: tuple[str, int], peer_address: tuple[str, int]) -> None:
        self._host: Final = host
        self._fd: Final = host.new_fd()
        self._chance: Final[Chance] = host.wire.chance
        self._address: Final = address
        self.peer_address: Final = peer_address
        #: What the other end has shown of itself.
        self.shown: PeerCertificate | None = None
        self._pipe: Pipe | None = None
        #: Received and not read.
        self._pieces: Final[deque[bytes]] = deque()
        #: What was read and not reported to the sender yet.
        self._consumed = 0
        #: How much may be sent.
        self._credit = WINDOW_BYTES
        self._ended = False
        self._peer_ended = False
        self._error = 0
        self.closed = False
        self.reset_on_close = False
        self.vanished = False
        #: Called when something has changed.
        self.watch: Callable[[SimSocket], None] | None = None
        host.sockets[self._fd] = self

    def connect_to(self, peer: "SimSocket") -> None:
        """Lay the pipe to the other end."""
        wire = self._host.wire
        self._pipe = Pipe(wire, wire.link(self._host.name, peer._host.name), self, peer)

    # What a connection calls

    def fileno(self) -> int:
        return -1 if self.closed else self._fd

    def getsockname(self) -> tuple[str, int]:
        return self._address

    def recv_into(self, buffer: memoryview, /) -> int:
        if not self._pieces:
            self._raise_error()
            if self._peer_ended:
                return 0
            raise BlockingIOError(errno.EAGAIN, "nothing is there")
        room = len(buffer)
        if self._chance.below(PARTIAL_ONE_IN) == 0:
            room = self._chance.randint(1, min(room, len(self._pieces[0])))
        at = 0
        while self._pieces and at < room:
            piece = self._pieces.popleft()
            part = piece[: room - at]
            if len(part) < len(piece):
                self._pieces.appendleft(piece[len(part) :])
            buffer[at : at + len(part)] = part
            at += len(part)
        self._consume(at)
        return at

    def send(self, data: Buffer, flags: int = 0, /) -> int:
        self._raise_error()
        if self._ended or self._pipe is None:
            raise BrokenPipeError(errno.EPIPE, "the connection is ended")
        if self._credit == 0:
            raise BlockingIOError(errno.EAGAIN, "the window is full")
        count = min(len(data), self._credit)
        if count > 1 and self._chance.below(PARTIAL_ONE_IN) == 0:
            count = self._chance.randrange(1, count)
        view = memoryview(data)
        at = 0
        while at < count:
            size = min(count - at, PACKET_BYTES_MAX)
            if size > 1 and self._chance.below(PARTIAL_ONE_IN) == 0:
                size = self._chance.randrange(1, size)
            self._pipe.send(Packet("data", bytes(view[at : at + size])))
            at += size
        self._credit -= count
        return count

    def sendmsg(self, buffers: Sequence[Buffer], ancdata: tuple[()], flags: int, /) -> int:
        data = bytearray()
        for buffer in buffers:
            data += buffer
            if len(data) >= WINDOW_BYTES:
                break
        return self.send(data)

    def shutdown(self, how: int, /) -> None:
        if how != socket.SHUT_WR:
            raise NotImplementedError(how)
        if not self._ended and self._pipe is not None:
            self._ended = True
            self._pipe.send(Packet("end"))

    def setsockopt(self, level: int, option: int, value: bytes, /) -> None:
        if option != socket.SO_LINGER:
            raise NotImplementedError(option)
        self.reset_on_close = True

    def getsockopt(self, level: int, option: int, /) -> int:
        if option != socket.SO_ERROR:
            raise NotImplementedError(option)
        return self._error

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self.watch = None
        self._host.sockets.pop(self._fd, None)
        # As TCP has it: whoever closes with unread data tells that it was lost.
        if self._error == 0 and self._pipe is not None:
            if self.reset_on_close or self._pieces:
                self._pipe.send(Packet("reset"))
            elif not self._ended:
                self._ended = True
                self._pipe.send(Packet("end"))
        self._pieces.clear()

    # What the network calls

    @property
    def reachable(self) -> bool:
        return self._host.up

    def vanish(self) -> None:
        """Be gone without a word."""
        self.closed = True
        self.vanished = True
        self.watch = None
        self._pieces.clear()
        self._host.sockets.pop(self._fd, None)

    def on_packet(self, packet: Packet) -> None:
        if self.closed:
            return
        if packet.kind == "data":
            self._pieces.append(packet.data)
        elif packet.kind == "window":
            self._credit += packet.consumed
        elif packet.kind == "end":
            self._peer_ended = True
        else:
            self._fail(errno.ECONNRESET)
        self._changed()

    def on_given_up(self) -> None:
        if not self.closed:
            self._fail(errno.ETIMEDOUT)
            self._changed()

    def fail(self) -> None:
        """Be reset by somebody in between."""
        self.on_packet(Packet("reset"))

    def events(self) -> int:
        """Return what a poller would see."""
        if self.closed:
            return 0
        if self._error:
            return READABLE | WRITABLE | BROKEN
        events = 0
        if self._pieces or self._peer_ended:
            events |= READABLE
        if self._credit:
            events |= WRITABLE
        if self._peer_ended and self._ended:
            events |= BROKEN
        return events

    def _fail(self, code: int) -> None:
        self._error = self._error or code
        self._pieces.clear()

    def _raise_error(self) -> None:
        if self._error:
            raise OSError(self._error, os.strerror(self._error))

    def _consume(self, count: int) -> None:
        self._consumed += count
        if self._consumed >= WINDOW_BYTES // 2 and self._pipe is not None:
            self._pipe.send(Packet("window", consumed=self._consumed))
            self._consumed = 0

    def _changed(self) -> None:
        if self.watch is not None:
            self.watch(self)


class SimPoller:
    """Tells one process which of its sockets are ready."""

    __slots__ = ("_host", "_life", "_loop", "_ready", "_scheduled", "_watched")

    def __init__(self, loop: SimLoop, host: Host, life: Life) -> None:
        self._loop: Final = loop
        self._host: Final = host
        self._life: Final = life
        self._watched: Final[dict[int, tuple[SimSocket, int, Callable[[int], None]]]] = {}
        self._ready: dict[int, None] = {}
        self._scheduled = False

    def add(self, fd: int, mask: int, on_events: Callable[[int], None]) -> None:
        sock = self._host.sockets[fd]
        self._watched[fd] = (sock, mask, on_events)
        sock.watch = self._on_changed
        self._on_changed(sock)

    def change(self, fd: int, mask: int) -> None:
        sock, _, on_events = self._watched[fd]
        self._watched[fd] = (sock, mask, on_events)
        self._on_changed(sock)

    def remove(self, fd: int) -> None:
        watched = self._watched.pop(fd, None)
        if watched is not None:
            watched[0].watch = None
            self._ready.pop(fd, None)

    def _on_changed(self, sock: SimSocket) -> None:
        fd = sock.fileno()
        _, mask, _ = self._watched[fd]
        if sock.events() & (mask | BROKEN):
            self._ready[fd] = None
            if not self._scheduled:
                self._scheduled = True
                self._loop.after(0, "poll", self._dispatch, self._life)

    def _dispatch(self) -> None:
        self._scheduled = False
        ready, self._ready = self._ready, {}
        for fd in ready:
            watched = self._watched.get(fd)
            if watched is None:
                continue
            sock, mask, on_events = watched
            events = sock.events() & (mask | BROKEN)
            if events:
                on_events(events)
                if fd in self._watched:
                    self._on_changed(sock)
