"""Datagrams between simulated processes."""

from collections.abc import Callable
from typing import Final
from zlib import crc32

from kafkaesque.env.network import Address, OnDatagram
from kafkaesque.sim.loop import Life
from kafkaesque.sim.socket import Host

#: What a socket keeps for a process that does not read; more is dropped.
UNREAD_MAX: Final = 1_000


class SimDatagrams:
    """A bound port of one process."""

    __slots__ = ("_address", "_find", "_host", "_life", "_on_datagram", "_unread", "is_open")

    def __init__(
        self,
        host: Host,
        find: Callable[[str, Host], Host | None],
        life: Life,
        address: Address,
        on_datagram: OnDatagram,
    ) -> None:
        self._host: Final = host
        self._find: Final = find
        self._life: Final = life
        self._address: Final = address
        self._on_datagram: Final = on_datagram
        self._unread = 0
        self.is_open = True
        host.datagrams[address.port] = self._on_arrived

    @property
    def address(self) -> Address:
        return self._address

    def send(self, address: Address, data: bytes) -> None:
        target = self._find(address.host, self._host)
        if target is None or not self.is_open:
            return
        wire, link = self._host.wire, self._host.wire.link(self._host.name, target.name)
        here = address.host if target is self._host else self._host.name
        source = Address(here, self._address.port)
        what = f"{self._host.name}>{target.name} datagram {len(data)} {crc32(data):08x}"

        def arrive() -> None:
            take = target.datagrams.get(address.port)
            if take is not None and not link.blocked:
                take(source, data)

        for delay_ns in wire.datagram_ns(link):
            wire.loop.after(delay_ns, what, arrive)

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            del self._host.datagrams[self._address.port]

    def _on_arrived(self, source: Address, data: bytes) -> None:
        if self._unread >= UNREAD_MAX:
            return
        self._unread += 1

        def read() -> None:
            self._unread -= 1
            if self.is_open:
                self._on_datagram(source, data)

        self._host.wire.loop.after(0, "datagram", read, self._life)
