"""Why a listener that is there does not let a command in: TLS, its certificate, or the log-in.

Closed connections look alike. What the listener wants is found out by asking it again.
"""

import socket
import ssl
from collections.abc import Callable
from typing import Final

from kafkaesque.cli import tls
from kafkaesque.cli.addresses import CONNECT_TIMEOUT_S
from kafkaesque.cli.exit_codes import FAILED
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.log_in import PASSWORD_VARIABLE, USER_VARIABLE, find_log_in
from kafkaesque.cli.troubles import why

_CLOSED: Final = (EOFError, ConnectionResetError, BrokenPipeError, ssl.SSLEOFError)


class LogInUnanswered(TimeoutError):
    """A broker takes its time to answer a log-in, as it does after several that failed."""


def find_refusal(
    host: str, port: int, error: Exception, offers_log_in: Callable[[str, int], bool]
) -> CommandFailed | None:
    """Return what a listener wants that it was not given, by the error of an exchange with it.

    None: the error has another reason. `offers_log_in` asks a listener whether it names ways to.
    """
    address = f"{host}:{port}"
    if isinstance(error, LogInUnanswered):
        return CommandFailed(
            f"{address} has not answered the log-in in time; after log-ins that failed, a broker "
            "answers later and later",
            hint=f"check {USER_VARIABLE} and {PASSWORD_VARIABLE}, and wait a minute",
            exit_code=FAILED,
        )
    if isinstance(error, ssl.SSLCertVerificationError):
        return CommandFailed(
            f"the certificate of {address} is not trusted: {error.verify_message}",
            hint=f"{tls.CA}=FILE, with the certificate of the authority that issued it",
            exit_code=FAILED,
        )
    if isinstance(error, ssl.SSLError) and "CERTIFICATE_REQUIRED" in (error.reason or ""):
        return CommandFailed(
            f"{address} requires a client's certificate",
            hint=f"{tls.CERTIFICATE}=FILE and {tls.KEY}=FILE",
            exit_code=FAILED,
        )
    is_closed = isinstance(error, _CLOSED)
    if not is_closed and not isinstance(error, ssl.SSLError):
        return None
    speaks_tls = _speaks_tls(host, port)
    if tls.is_on() and not speaks_tls:
        return CommandFailed(
            f"{address} does not speak TLS ({why(error)}), and {tls.CA} is set",
            hint=f"another port, or without {tls.CA}",
            exit_code=FAILED,
        )
    if speaks_tls and not tls.is_on():
        return CommandFailed(
            f"{address} speaks TLS, and {tls.CA} is not set",
            hint=f"{tls.CA}=FILE, with the certificate of the cluster's authority",
            exit_code=FAILED,
        )
    return _find_missing_log_in(host, port, offers_log_in) if is_closed else None


def _find_missing_log_in(
    host: str, port: int, offers_log_in: Callable[[str, int], bool]
) -> CommandFailed | None:
    address = f"{host}:{port}"
    if find_log_in(address) is not None or not offers_log_in(host, port):
        return None
    return CommandFailed(
        f"{address} requires a log-in",
        hint=f"{USER_VARIABLE}=NAME and {PASSWORD_VARIABLE}=FILE; or kafkaesque login NAME",
        exit_code=FAILED,
    )


def _speaks_tls(host: str, port: int) -> bool:
    """Tell whether a listener does, whoever it is."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S) as sock,
            context.wrap_socket(sock, server_hostname=host),
        ):
            return True
    except (OSError, ValueError):
        return False
