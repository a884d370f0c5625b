"""One blocking connection to a broker; requests may be sent before answers are read."""

from __future__ import annotations

import socket
import ssl
import time
from collections import deque
from struct import Struct
from typing import Any

from kafkaesque.protocols.kafka.errors import MalformedRequest
from kafkaesque.protocols.kafka.frames import read_response, write_request
from kafkaesque.protocols.kafka.wire import Message
from kafkaesque.spark.errors import NotAuthenticated
from kafkaesque.spark.security import TlsOptions
from kafkaesque.spark.tls import explain, start_tls

#: A longer answer is none of a broker's.
ANSWER_BYTES_MAX = 1 << 30
_LENGTH = Struct(">i")
#: How the length of an answer begins that is a TLS alert.
_TLS_ALERT = 0x1503
#: Of the time for which a broker believes who this is; it ends what lives longer.
_LIFE_SHARE = 0.85


class Connection:
    """A socket and the requests that wait for an answer.

    Every answer has to be asked for; the number of requests under way is the callers' to bound.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        connect_timeout_s: float,
        timeout_s: float,
        client_id: str,
        tls: TlsOptions | None = None,
    ) -> None:
        """Connect; raises OSError where nobody listens, and with `tls` as `start_tls`."""
        self.address = f"{host}:{port}"
        self._client_id = client_id
        self._sent: deque[tuple[int, int, int]] = deque()
        #: Answers that came while another one was asked for, by the request's number.
        self._early: dict[int, Any] = {}
        self._last_number = 0
        self._ends_at: float | None = None
        self._socket = socket.create_connection((host, port), timeout=connect_timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self._socket = start_tls(self._socket, host, self.address, tls)
        self._socket.settimeout(timeout_s)

    @property
    def is_waiting(self) -> bool:
        """Whether an answer has not been asked for yet."""
        return bool(self._sent or self._early)

    @property
    def is_expired(self) -> bool:
        """Whether another connection should be opened in place of this one."""
        return self._ends_at is not None and time.monotonic() >= self._ends_at

    def limit_life(self, life_s: float) -> None:
        """Remember that the broker ends the connection then; 0: never."""
        if life_s > 0:
            self._ends_at = time.monotonic() + _LIFE_SHARE * life_s

    def send(self, api_key: int, api_version: int, message: Message) -> int:
        """Send a request and return its number; raises OSError, NotAuthenticated."""
        self._last_number += 1
        frame = write_request(api_key, api_version, self._last_number, self._client_id, message)
        self._sent.append((self._last_number, api_key, api_version))
        try:
            self._socket.sendall(frame)
        except ssl.SSLError as error:
            explain(error, self.address)
            raise
        return self._last_number

    def receive(self, number: int) -> Any:
        """Return the answer to that request; bytes in it are views of a buffer of its own.

        Brokers answer in the order of the requests; answers to earlier ones are kept.

        Raises:
            OSError: the connection broke or no answer came in time; it cannot be used any more.
            MalformedRequest: what came is no answer to it; likewise.
            NotAuthenticated: the broker refuses TLS, or wants it; likewise.
        """
        while number not in self._early:
            found, message = self._receive_next()
            self._early[found] = message
        return self._early.pop(number)

    def ask(self, api_key: int, api_version: int, message: Message) -> Any:
        """Send a request and return its answer; raises as `receive`."""
        return self.receive(self.send(api_key, api_version, message))

    def _receive_next(self) -> tuple[int, Any]:
        wanted, api_key, api_version = self._sent.popleft()
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size))
        if wanted == 1 and length >> 16 == _TLS_ALERT:
            raise NotAuthenticated(
                f"the broker at {self.address} speaks TLS there: kafka.security.protocol has to be"
                " SSL or SASL_SSL"
            )
        if not 0 < length <= ANSWER_BYTES_MAX:
            raise MalformedRequest(f"{self.address}: an answer of {length} bytes")
        number, message = read_response(self._read(length), api_key, api_version)
        if number != wanted:
            raise MalformedRequest(f"{self.address}: an answer to another request")
        return number, message

    def close(self) -> None:
        """End the connection; answers that were to come are lost."""
        self._socket.close()

    def _read(self, size: int) -> memoryview:
        view = memoryview(bytearray(size))
        at = 0
        while at < size:
            try:
                count = self._socket.recv_into(view[at:])
            except ssl.SSLError as error:
                explain(error, self.address)
                raise
            if not count:
                raise ConnectionError("the broker closed the connection")
            at += count
        return view
