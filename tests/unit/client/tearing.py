"""A proxy in front of a broker that tears connections at the worst moment: before an answer."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from typing import Self

_LENGTH = struct.Struct(">i")
_KEY = struct.Struct(">h")


class TearingProxy:
    """Hands requests on, and answers back, but for the first answer to one API: it is torn away."""

    def __init__(self, target: str, api_key: int, on_tear: Callable[[], None]) -> None:
        host, _, port = target.rpartition(":")
        self._target = host, int(port)
        self._api_key = api_key
        self._on_tear = on_tear
        #: Answers that were torn away.
        self.torn = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._run(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._sockets:
            each.close()
        for thread in self._threads:
            thread.join(10)

    def _run(self, act: Callable[[], None]) -> None:
        thread = threading.Thread(target=act, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._run(lambda client=client: self._serve(client))  # type: ignore[misc]

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._target) as broker:
            # The proxy's end closes them, too.
            self._sockets += [client, broker]
            try:
                while (request := _frame(client)) is not None:
                    broker.sendall(request)
                    answer = _frame(broker)
                    (key,) = _KEY.unpack_from(request, _LENGTH.size)
                    if key == self._api_key and not self.torn:
                        self.torn += 1
                        self._on_tear()
                        return
                    if answer is None:
                        return
                    client.sendall(answer)
            except OSError:
                return


def _frame(sock: socket.socket) -> bytes | None:
    """Return a frame with its length; None: the other end has closed."""
    begin = _exactly(sock, _LENGTH.size)
    if begin is None:
        return None
    rest = _exactly(sock, _LENGTH.unpack(begin)[0])
    return None if rest is None else begin + rest


def _exactly(sock: socket.socket, size: int) -> bytes | None:
    found = b""
    while len(found) < size:
        data = sock.recv(size - len(found))
        if not data:
            return None
        found += data
    return found
