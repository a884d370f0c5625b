"""A real client's connection, continued to a simulated broker."""

import selectors
import socket
from typing import Final

from kafkaesque.env.network import Address, Connection, Framing, ListenOptions, Network

READ_BYTES: Final = 256 * 1024
#: With more than this on its way in one direction, nothing more is taken from there.
HELD_BYTES_MAX: Final = 4 * 1024 * 1024


class Bridge:
    """Both ends of one connection; what comes in at one leaves at the other, in order."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        client: socket.socket,
        network: Network,
        address: Address,
    ) -> None:
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._selector: Final = selector
        self._client: Final = client
        self._to_client = bytearray()
        #: Came before the simulated connection stood.
        self._early: list[bytes] = []
        self._early_bytes = 0
        self._connection: Connection | None = None
        self._is_closed = False
        #: The client's end has been closed by the broker, once it has got the rest.
        self._is_ending = False
        self._events = selectors.EVENT_READ
        selector.register(client, self._events, self)
        network.connect(
            address, ListenOptions(framing=Framing.STREAM), self, lambda _: self.close()
        )

    # -- the real end

    def on_ready(self, events: int) -> None:
        """The client's socket can be read or written."""
        try:
            if events & selectors.EVENT_WRITE and self._to_client:
                del self._to_client[: self._client.send(self._to_client)]
            if events & selectors.EVENT_READ and not self._is_closed:
                data = self._client.recv(READ_BYTES)
                if not data:
                    self.close()
                    return
                self._forward(data)
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return
        self._watch()

    def _forward(self, data: bytes) -> None:
        if self._connection is None:
            self._early.append(data)
            self._early_bytes += len(data)
        else:
            self._connection.write([data])

    def _watch(self) -> None:
        """Ask for what is wanted next, and slow down whoever is too fast."""
        if self._is_closed:
            return
        if self._is_ending and not self._to_client:
            self.close()
            return
        connection = self._connection
        held = self._early_bytes if connection is None else connection.unsent_bytes()
        events = selectors.EVENT_READ if held < HELD_BYTES_MAX else 0
        if self._to_client:
            events |= selectors.EVENT_WRITE
        if connection is not None:
            if len(self._to_client) > HELD_BYTES_MAX:
                connection.pause_reading()
            else:
                connection.resume_reading()
        if events != self._events:
            if self._events and events:
                self._selector.modify(self._client, events, self)
            elif events:
                self._selector.register(self._client, events, self)
            else:
                self._selector.unregister(self._client)
            self._events = events

    def close(self) -> None:
        """End both connections at once."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._events:
            self._selector.unregister(self._client)
        self._client.close()
        if self._connection is not None:
            self._connection.abort()

    # -- the simulated end

    def on_open(self, connection: Connection) -> None:
        """See `ConnectionHandler`."""
        self._connection = connection
        if self._is_closed:
            connection.abort()
            return
        if self._early:
            connection.write(self._early)
            self._early = []
        self._watch()

    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        """See `ConnectionHandler`."""
        if self._is_closed:
            return
        self._to_client += data
        try:
            del self._to_client[: self._client.send(self._to_client)]
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return
        self._watch()

    def on_writable(self) -> None:
        """See `ConnectionHandler`."""
        self._watch()

    def on_close(self, error: Exception | None) -> None:
        """See `ConnectionHandler`."""
        self._connection = None
        if error is not None:
            self.close()
        else:
            self._is_ending = True
            self._watch()
