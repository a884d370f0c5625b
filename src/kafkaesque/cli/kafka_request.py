"""A request of Kafka's protocol that librdkafka cannot send, sent to one broker and answered."""

import socket
import struct
from typing import Any

from kafkaesque.cli.exit_codes import UNREACHABLE
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.kafka import CONNECT_TIMEOUT_S, REQUEST_TIMEOUT_S, parse_addresses
from kafkaesque.protocols.kafka.errors import MalformedRequest
from kafkaesque.protocols.kafka.frames import read_response, write_request
from kafkaesque.protocols.kafka.wire import Message

#: A longer answer is none of a broker's.
ANSWER_BYTES_MAX = 100 * 1024 * 1024
_LENGTH = struct.Struct(">i")


def ask(bootstrap: str, api_key: int, api_version: int, request: Message) -> Any:
    """Return the answer of the first broker that can be reached.

    Raises:
        CommandFailed: none can, or what answers is no Kafka broker.
    """
    frame = write_request(api_key, api_version, 1, "kafkaesque-cli", request)
    refused: list[str] = []
    for host, port in parse_addresses(bootstrap):
        try:
            with socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S) as sock:
                sock.settimeout(REQUEST_TIMEOUT_S)
                sock.sendall(frame)
                (length,) = _LENGTH.unpack(_receive(sock, _LENGTH.size))
                if not 0 < length <= ANSWER_BYTES_MAX:
                    raise MalformedRequest(f"an answer of {length} bytes")
                return read_response(memoryview(_receive(sock, length)), api_key, api_version)[1]
        except (OSError, EOFError) as error:
            refused.append(f"{host}:{port} ({str(error) or 'closed the connection'})")
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
