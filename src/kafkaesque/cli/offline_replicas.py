"""Which replicas are offline: Metadata says so, but librdkafka does not pass that part on.

A replica is offline if its broker is down, or lives and cannot open it.
"""

import socket
import struct
from collections.abc import Mapping

from kafkaesque.cli.exit_codes import UNREACHABLE
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.kafka import CONNECT_TIMEOUT_S, REQUEST_TIMEOUT_S, parse_addresses
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.errors import MalformedRequest
from kafkaesque.protocols.kafka.frames import read_response, write_request
from kafkaesque.protocols.kafka.messages.metadata_request import MetadataRequest
from kafkaesque.protocols.kafka.messages.metadata_response import MetadataResponse

#: The field came with version 5; every broker since Kafka 2.1 knows 7.
VERSION = 7
ANSWER_BYTES_MAX = 100 * 1024 * 1024

_LENGTH = struct.Struct(">i")

Offline = Mapping[tuple[str, int], list[int]]


def read_offline(bootstrap: str) -> Offline:
    """Return the offline replicas of each partition that has any.

    Raises:
        CommandFailed: nobody answers.
    """
    problem: Exception | None = None
    for host, port in parse_addresses(bootstrap):
        try:
            answer = _ask(host, port)
        except (OSError, MalformedRequest) as error:
            problem = error
            continue
        return {
            (topic.name or "", partition.partition_index): sorted(partition.offline_replicas)
            for topic in answer.topics
            for partition in topic.partitions
            if partition.offline_replicas
        }
    raise CommandFailed(
        f"no broker of {bootstrap} answers ({problem})",
        hint="kafkaesque cluster status",
        exit_code=UNREACHABLE,
    )


def _ask(host: str, port: int) -> MetadataResponse:
    request = MetadataRequest(None, allow_auto_topic_creation=False)
    with socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S) as link:
        link.settimeout(REQUEST_TIMEOUT_S)
        link.sendall(write_request(ApiKey.METADATA, VERSION, 1, "kafkaesque-cli", request))
        with link.makefile("rb") as stream:
            (length,) = _LENGTH.unpack(_read(stream.read(_LENGTH.size), _LENGTH.size))
            if not 0 < length <= ANSWER_BYTES_MAX:
                raise MalformedRequest(f"an answer of {length} bytes")
            frame = _read(stream.read(length), length)
    _, answer = read_response(memoryview(frame), ApiKey.METADATA, VERSION)
    if not isinstance(answer, MetadataResponse):
        raise MalformedRequest("not an answer to Metadata")
    return answer


def _read(data: bytes, length: int) -> bytes:
    if len(data) < length:
        raise ConnectionError("the connection was closed in the middle of an answer")
    return data
