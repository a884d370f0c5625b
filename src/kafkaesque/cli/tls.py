"""How commands speak with listeners that speak TLS: with files that the environment names.

`KAFKAESQUE_CA` alone turns TLS on. The other two are for listeners that want a certificate.
"""

import os
import socket
import ssl
from functools import lru_cache
from pathlib import Path
from typing import Final

from kafkaesque.cli.exit_codes import WRONG_USAGE
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.client.tls import AuthorityUnreadable, CertificateUnreadable, Tls

CA: Final = "KAFKAESQUE_CA"
CERTIFICATE: Final = "KAFKAESQUE_CLIENT_CERTIFICATE"
KEY: Final = "KAFKAESQUE_CLIENT_KEY"


def is_on() -> bool:
    """Tell whether commands speak TLS."""
    return bool(os.environ.get(CA))


def authority() -> Path | None:
    """Return the file of whom commands trust; None where TLS is off."""
    return Path(os.environ[CA]).absolute() if is_on() else None


def library_settings() -> dict[str, str]:
    """Return what librdkafka has to be told; nothing where TLS is off."""
    if not is_on():
        return {}
    _context()  # It says what is wrong with the files, which the library does not.
    return _files().library_settings()


def connect(host: str, port: int, timeout_s: float) -> socket.socket:
    """Connect, with TLS where it is on.

    Raises:
        OSError: nobody listens, or is not to be trusted.
    """
    sock = socket.create_connection((host, port), timeout=timeout_s)
    if not is_on():
        return sock
    try:
        return _context().wrap_socket(sock, server_hostname=host)
    except BaseException:
        sock.close()
        raise


def context() -> ssl.SSLContext | None:
    """Return whom to trust and what to show; None where TLS is off."""
    return _context() if is_on() else None


def _files() -> Tls:
    certificate, key = os.environ.get(CERTIFICATE), os.environ.get(KEY)
    return Tls(ca=os.environ[CA], certificate=certificate or None, key=key or None)


@lru_cache(maxsize=1)
def _context() -> ssl.SSLContext:
    try:
        return _files().context()
    except AuthorityUnreadable as error:
        raise CommandFailed(f"{CA}: {error}", exit_code=WRONG_USAGE) from None
    except CertificateUnreadable as error:
        raise CommandFailed(f"{CERTIFICATE} and {KEY}: {error}", exit_code=WRONG_USAGE) from None
