"""A request of Kafka's protocol that librdkafka cannot send, sent to one broker and answered."""

import socket
import struct
from typing import Any, Self

from kafkaesque.cli.exit_codes import UNREACHABLE
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.kafka import CONNECT_TIMEOUT_S, REQUEST_TIMEOUT_S, parse_addresses
from kafkaesque.cli.troubles import why
from kafkaesque.protocols.kafka.errors import MalformedRequest
from kafkaesque.protocols.kafka.frames import read_response, write_request
from kafkaesque.protocols.kafka.wire import Message

#: A longer answer is none of a broker's.
ANSWER_BYTES_MAX = 100 * 1024 * 1024
_LENGTH = struct.Struct(">i")


class Exchange:
    """A connection to one broker, for one request after another."""

    def __init__(self, host: str, port: int, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        """Connect; no answer may take longer than the timeout.

        Raises:
            OSError: nobody listens.
        """
        self._socket = socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S)
        self._socket.settimeout(timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, api_key: int, api_version: int, request: Message) -> Any:
        """Return the answer to a request.

        Raises:
            OSError: no answer in time; EOFError: the connection was closed.
            MalformedRequest: what answers is no Kafka broker.
        """
        self._socket.sendall(write_request(api_key, api_version, 1, "kafkaesque-cli", request))
        (length,) = _LENGTH.unpack(_receive(self._socket, _LENGTH.size))
        if not 0 < length <= ANSWER_BYTES_MAX:
            raise MalformedRequest(f"an answer of {length} bytes")
        return read_response(memoryview(_receive(self._socket, length)), api_key, api_version)[1]


def ask(
    bootstrap: str,
    api_key: int,
    api_version: int,
    request: Message,
    timeout_s: float = REQUEST_TIMEOUT_S,
) -> Any:
    """Return the answer of the first broker that can be reached.

    Raises:
        CommandFailed: none can, or what answers is no Kafka broker.
    """
    refused: list[str] = []
    for host, port in parse_addresses(bootstrap):
        try:
            with Exchange(host, port, timeout_s) as exchange:
                return exchange.ask(api_key, api_version, request)
        except (OSError, EOFError) as error:
            refused.append(f"{host}:{port} ({why(error)})")
        except MalformedRequest as error:
            raise CommandFailed(
                f"{host}:{port} does not answer as a Kafka broker does: {error}",
                exit_code=UNREACHABLE,
            ) from None
    raise CommandFailed(f"no broker answers at {', '.join(refused)}", exit_code=UNREACHABLE)


def _receive(sock: socket.socket, size: int) -> bytes:
    """Return exactly so many bytes; raises EOFError where the other end has closed."""
    parts = bytearray()
    while len(parts) < size:
        data = sock.recv(min(size - len(parts), 1 << 16))
        if not data:
            raise EOFError
        parts += data
    return bytes(parts)
