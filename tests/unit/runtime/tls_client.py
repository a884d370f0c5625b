"""A TLS client in memory over a plain socket, so that a test decides which bytes go when."""

from __future__ import annotations

import select
import socket
import ssl

from tests.unit.env.worlds import RealWorld


class TlsClient:
    """The standard library's TLS over a real socket, one step at a time."""

    def __init__(self, world: RealWorld, sock: socket.socket, context: ssl.SSLContext) -> None:
        self.world = world
        self.sock = sock
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="127.0.0.1")
        #: What has come in the clear.
        self.received = b""
        self.is_ended = False
        #: Whether TCP has ended.
        self.is_closed = False

    def shake(self) -> None:
        """Shake hands, and have the other side read all of it."""
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                self.push()
                self.pull()
            else:
                self.push()
                return

    def push(self) -> None:
        data = self.outgoing.read()
        if data:
            self.sock.sendall(data)

    def seal(self, data: bytes) -> bytes:
        """Return records that hold these bytes, to be sent by the caller."""
        for at in range(0, len(data), 16_384):
            self.tls.write(data[at : at + 16_384])
        return self.outgoing.read()

    def pull(self, bytes_max: int = 65_536) -> None:
        """Wait until something has come, with the world going on."""

        watch = select.poll()
        watch.register(self.sock, select.POLLIN)

        def has_come() -> bool:
            return bool(watch.poll(0))

        self.world.run_until(has_come)
        data = self.sock.recv(bytes_max)
        if data:
            self.incoming.write(data)
        else:
            self.is_closed = True
            self.incoming.write_eof()

    def read(self) -> None:
        """Receive once, and open what can be opened."""
        self.pull()
        try:
            while data := self.tls.read(65_536):
                self.received += data
            self.is_ended = True
        except ssl.SSLWantReadError:
            pass

    def read_until(self, size: int) -> bytes:
        while len(self.received) < size and not self.is_closed:
            self.read()
        return self.received
