"""Datagrams of the real machine: one UDP socket.

Names are resolved off the loop, one look-up for each at a time, and kept for a while; an address
that has become old is still used until the new one is there. What waits for a name is bounded.
"""

import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from kafkaesque.env.network import Address, OnDatagram
from kafkaesque.runtime.names import literal_family, resolve
from kafkaesque.runtime.poller import READABLE, Poller
from kafkaesque.runtime.workers import WorkerPool

#: Longer ones do not exist.
DATAGRAM_BYTES_MAX: Final = 65_535
#: Datagrams that are taken in one turn of the loop; the others are the first of the next one.
DATAGRAMS_PER_TURN_MAX: Final = 256
#: A process that was paused for some seconds finds what was sent to it meanwhile.
SOCKET_BYTES: Final = 1024 * 1024
#: An address is looked up again when it is so old.
NAME_S_MAX: Final = 30.0
#: Names that are known, and datagrams that wait for the address of one.
NAMES_MAX: Final = 2_000
WAITING_MAX: Final = 8


class _Name:
    """What a name stands for."""

    __slots__ = ("is_asked", "looked_up_s", "target", "waiting")

    def __init__(self) -> None:
        self.target: tuple[str, int] | None = None
        self.looked_up_s = 0.0
        self.is_asked = False
        self.waiting: Final[deque[bytes]] = deque(maxlen=WAITING_MAX)


class RealDatagrams:
    """A bound UDP socket."""

    __slots__ = (
        "_address",
        "_names",
        "_on_closed",
        "_on_datagram",
        "_poller",
        "_resolvers",
        "_sock",
    )

    def __init__(
        self,
        sock: socket.socket,
        poller: Poller,
        resolvers: WorkerPool,
        on_datagram: OnDatagram,
        on_closed: Callable[["RealDatagrams"], None],
    ) -> None:
        self._sock: socket.socket | None = sock
        self._poller: Final = poller
        self._resolvers: Final = resolvers
        self._on_datagram: Final = on_datagram
        self._on_closed: Final = on_closed
        self._names: Final[dict[Address, _Name]] = {}
        host, port = sock.getsockname()[:2]
        self._address: Final = Address(host, port)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BYTES)
        poller.add(sock.fileno(), READABLE, self._on_readable)

    @property
    def address(self) -> Address:
        return self._address

    def send(self, address: Address, data: bytes) -> None:
        family = literal_family(address.host)
        if family is not None:
            self._send_to((address.host, address.port), data)
            return
        name = self._name(address)
        if name.target is None:
            name.waiting.append(data)
        else:
            self._send_to(name.target, data)

    def close(self) -> None:
        if self._sock is None:
            return
        self._poller.remove(self._sock.fileno())
        self._sock.close()
        self._sock = None
        self._names.clear()
        self._on_closed(self)

    def _name(self, address: Address) -> _Name:
        name = self._names.get(address)
        if name is None:
            if len(self._names) >= NAMES_MAX:
                del self._names[next(iter(self._names))]
            name = self._names[address] = _Name()
        is_old = time.monotonic() - name.looked_up_s > NAME_S_MAX
        if (name.target is None or is_old) and not name.is_asked:
            name.is_asked = True
            self._resolvers.submit(
                lambda: resolve(address), lambda found, error: self._on_resolved(name, found)
            )
        return name

    def _on_resolved(self, name: _Name, found: object) -> None:
        name.is_asked = False
        if self._sock is None:
            return
        for family, target in found if isinstance(found, list) else ():
            if family == self._sock.family:
                name.target, name.looked_up_s = target, time.monotonic()
                break
        while name.waiting:
            data = name.waiting.popleft()
            if name.target is not None:
                self._send_to(name.target, data)

    def _send_to(self, target: tuple[str, int], data: bytes) -> None:
        if self._sock is None:
            return
        try:
            self._sock.sendto(data, target)
        except (OSError, OverflowError):
            # Lost, as by a full socket: a datagram may be. Addresses come from peers, too.
            pass

    def _on_readable(self, _: int) -> None:
        for _datagram in range(DATAGRAMS_PER_TURN_MAX):
            if self._sock is None:  # Closed by what was just received.
                return
            try:
                data, source = self._sock.recvfrom(DATAGRAM_BYTES_MAX)
            except BlockingIOError:
                return
            except OSError:
                continue  # An earlier datagram could not be brought; it is lost.
            self._on_datagram(Address(str(source[0]), int(source[1])), data)
