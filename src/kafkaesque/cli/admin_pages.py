"""Pages of brokers' admin ports that are JSON; where the port is, the Kafka port says."""

import base64
import ssl
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from ipaddress import ip_address
from typing import Final, NamedTuple, TypeVar

import msgspec

from kafkaesque.cli import tls
from kafkaesque.cli.exit_codes import UNREACHABLE
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.kafka_request import Exchange
from kafkaesque.cli.log_in import find_log_in
from kafkaesque.cli.missing_rules import forbidden, on_cluster
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.errors import MalformedRequest
from kafkaesque.protocols.kafka.messages.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)

TIMEOUT_S: Final = 5.0
ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
#: What a change has to have, so that no web page sends it.
_CHANGE_HEADER: Final = "X-Kafkaesque-Request"
_CONFIGS: Final = 4
_BROKER: Final = 4
_ERRORS: Final = 400

#: A broker's id, and the host and port of its Kafka port.
BrokerAddress = tuple[int, str, int]

T = TypeVar("T")


def read_page(brokers: Sequence[BrokerAddress], path: str, kind: type[T]) -> T | None:
    """Return the page of the first broker that has it; None where none has, or has such a port."""
    for number, host, port in brokers:
        try:
            admin = _admin_address(number, host, port)
            found = get_page(admin, path, kind) if admin else None
        except (OSError, EOFError, MalformedRequest, HTTPException, ValueError):
            continue
        if found is not None:
            return found
    return None


def read_existing(brokers: Sequence[BrokerAddress], path: str, kind: type[T]) -> T:
    """Return the page of the first broker that has it.

    Raises:
        CommandFailed: no broker has an admin port, or none has the page; the message says why not.
    """
    found = read_page(brokers, path, kind)
    return change(brokers, "GET", path, kind) if found is None else found


class _HiddenAdminPort(OSError):
    """No rule lets whoever asks know where a broker's admin port is."""


def _admin_address(number: int, host: str, port: int) -> str:
    resource = DescribeConfigsResource(_BROKER, str(number), ["admin.listener"])
    with Exchange(host, port, TIMEOUT_S) as exchange:
        answer = exchange.ask(
            ApiKey.DESCRIBE_CONFIGS, _CONFIGS, DescribeConfigsRequest([resource], False, False)
        )
    if any(each.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED for each in answer.results):
        raise _HiddenAdminPort
    values = [str(each.value or "") for result in answer.results for each in result.configs]
    return values[0] if values else ""


class Reply(NamedTuple):
    """What an admin port has answered."""

    status: int
    content: bytes

    @property
    def is_well(self) -> bool:
        """Whether what was asked for is done."""
        return self.status < _ERRORS


def change(brokers: Sequence[BrokerAddress], method: str, path: str, kind: type[T]) -> T:
    """Change something at the first broker that has an admin port; return what it says of it.

    Raises:
        CommandFailed: no broker has such a port, or it refuses; the message says why.
    """
    reply = ask_first(brokers, method, path)
    if reply.is_well:
        return msgspec.json.decode(reply.content, type=kind)
    raise CommandFailed(msgspec.json.decode(reply.content, type=_Refusal).message)


def ask_first(
    brokers: Sequence[BrokerAddress],
    method: str,
    path: str,
    body: bytes | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Reply:
    """Return the answer of the first broker that has an admin port.

    Raises:
        CommandFailed: no broker has such a port, or none says where it is.
    """
    failure = no_admin_port()
    for number, host, port in brokers:
        try:
            admin = _admin_address(number, host, port)
            if not admin:
                continue
            connection = _connection(admin, timeout_s)
            try:
                is_encrypted = isinstance(connection, HTTPSConnection)
                who = authorization(admin, is_encrypted=is_encrypted)
                headers = {_CHANGE_HEADER: "cli", "Content-Type": "application/json", **who}
                connection.request(method, path, body, headers)
                answer = connection.getresponse()
                content = answer.read(ANSWER_BYTES_MAX)
            finally:
                connection.close()
        except _HiddenAdminPort:
            failure = forbidden(on_cluster("describe-configs"), f"{host}:{port}")
            continue
        except (OSError, EOFError, MalformedRequest, HTTPException):
            continue
        return Reply(answer.status, content)
    raise failure


def no_admin_port() -> CommandFailed:
    """Return the failure for what only an admin port does, where none answers."""
    return CommandFailed(
        "no broker has an admin port that answers",
        hint="admin.port in a broker's file, or kafkaesque up --protocols kafka,admin",
        exit_code=UNREACHABLE,
    )


class _Refusal(msgspec.Struct):
    message: str = "the broker refuses"


def _connection(admin: str, timeout_s: float) -> HTTPConnection:
    host, _, port = admin.rpartition(":")
    context = tls.context()
    if context is not None:
        return HTTPSConnection(host, int(port), timeout=timeout_s, context=context)
    return HTTPConnection(host, int(port), timeout=timeout_s)


def get_page(admin: str, path: str, kind: type[T]) -> T | None:
    """Return a page of one admin port; None where it has none such.

    Raises:
        OSError, HTTPException, ValueError: nobody answers, or not as such a port does.
    """
    host, _, port = admin.rpartition(":")
    context = tls.context()
    if context is not None:
        try:
            secured = HTTPSConnection(host, int(port), timeout=TIMEOUT_S, context=context)
            return _get(secured, path, kind, authorization(admin, is_encrypted=True))
        except ssl.SSLCertVerificationError:
            raise
        except ssl.SSLError:
            pass  # This port may speak in the clear though others do not.
    in_clear = HTTPConnection(host, int(port), timeout=TIMEOUT_S)
    return _get(in_clear, path, kind, authorization(admin, is_encrypted=False))


def authorization(admin: str, *, is_encrypted: bool) -> dict[str, str]:
    """Return the header that says who asks; none where somebody could listen in."""
    log_in = find_log_in(admin)
    if log_in is None or not (is_encrypted or _is_local(admin)):
        return {}
    secret = log_in.password.reveal()
    if log_in.is_token:
        return {"Authorization": f"Bearer {secret.decode()}"}
    given = base64.b64encode(log_in.user.encode() + b":" + secret).decode()
    return {"Authorization": f"Basic {given}"}


def _is_local(admin: str) -> bool:
    host = admin.rpartition(":")[0].strip("[]")
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _get(connection: HTTPConnection, path: str, kind: type[T], headers: dict[str, str]) -> T | None:
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        if answer.status != 200:
            return None
        return msgspec.json.decode(answer.read(ANSWER_BYTES_MAX), type=kind)
    finally:
        connection.close()
