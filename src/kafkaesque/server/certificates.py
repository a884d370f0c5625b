"""Loads what a broker's file says of TLS, and tries it before anybody meets it.

Whatever is loaded has shaken hands with itself in memory: so the key is that of the certificate,
the chain is whole, nothing has expired, the names that clients are told are in the certificate, and
between brokers both sides accept it. What does not fit is refused with the reason, and whoever had
something before keeps it.
"""

import os
import re
import ssl
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kafkaesque.env.certificate import PeerCertificate
from kafkaesque.model.errors import ConfigError
from kafkaesque.runtime.peer_certificate import read_certificate
from kafkaesque.runtime.tls_contexts import TICKETS, TlsContext, harden
from kafkaesque.server.tls_settings import ClientAuth, TlsSettings

#: Certificates with a long chain are shorter by far.
FILE_BYTES_MAX: Final = 1024 * 1024
#: Flights of a handshake; there are five at most.
_FLIGHTS_MAX: Final = 10
_PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What was loaded and tried."""

    context: TlsContext
    #: The broker's own.
    certificate: PeerCertificate


def load_tls(settings: TlsSettings) -> Loaded:
    """Load and try what is set; waits for the disk.

    Raises:
        ConfigError: it does not fit, in a sentence.
    """
    try:
        return _load(settings)
    except ConfigError as error:
        raise ConfigError(f"{settings.setting}: {error}") from None


def load_all(all_settings: Sequence[TlsSettings]) -> dict[str, Loaded]:
    """Load and try everything, by name; waits for the disk.

    Raises:
        ConfigError: a line for each that does not fit.
    """
    loaded: dict[str, Loaded] = {}
    faults: list[str] = []
    for settings in all_settings:
        try:
            loaded[settings.name] = load_tls(settings)
        except ConfigError as error:
            faults.append(str(error))
    if faults:
        raise ConfigError("\n".join(faults))
    return loaded


def _load(settings: TlsSettings) -> Loaded:
    for path in settings.files():
        _check_file(path, is_secret=path == settings.key)
    server = _server_context(settings)
    client = _client_context(settings) if settings.uri else None
    revoked: frozenset[tuple[str, int]] = frozenset()
    if settings.crl is not None:
        if settings.ca is None:
            raise ConfigError(f"crl {settings.crl} needs the ca that has signed it")
        # It loads a library that nothing else in a broker needs.
        from kafkaesque.server.authority import read_revoked

        revoked = read_revoked(settings.crl, settings.ca)
    certificate = _try_own(settings, server, client)
    context = TlsContext(server=server, client=client, revoked=revoked)
    if context.is_revoked(certificate):
        raise ConfigError(f"the certificate in {settings.certificate} is revoked")
    return Loaded(context=context, certificate=certificate)


def _check_file(path: Path, *, is_secret: bool) -> None:
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    if not stat.S_ISREG(found.st_mode) or found.st_size > FILE_BYTES_MAX:
        raise ConfigError(f"{path} is no file of at most {FILE_BYTES_MAX} bytes")
    if is_secret and found.st_mode & stat.S_IRWXO:
        raise ConfigError(f"{path} is a private key that others may read; chmod o= {path}")


def _server_context(settings: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    harden(context)
    context.num_tickets = TICKETS
    _load_chain(context, settings)
    if settings.client_auth is ClientAuth.NONE:
        return context
    if settings.ca is None:
        raise ConfigError(
            f"client.auth = {settings.client_auth.value} needs a ca: whose certificates count"
        )
    _load_trust(context, settings.ca)
    is_required = settings.client_auth is ClientAuth.REQUIRED
    context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
    return context


def _client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return what this broker dials others with: it checks them by URI, and not by host."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    harden(context)
    context.check_hostname = False
    _load_chain(context, settings)
    if settings.ca is None:
        raise ConfigError("brokers need a ca: whose certificates count")
    _load_trust(context, settings.ca)
    return context


def _load_chain(context: ssl.SSLContext, settings: TlsSettings) -> None:
    certificate, key = settings.certificate, settings.key
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except ssl.SSLError as error:
        if error.reason in ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH"):
            reason = f"the key in {key} is not that of the certificate in {certificate}"
        elif error.reason == "EE_KEY_TOO_SMALL":
            reason = f"the key in {key} is too short"
        else:
            what = (error.reason or "PEM lib").replace("_", " ").lower()
            reason = f"{certificate} and {key} are not a certificate and its key in PEM: {what}"
        raise ConfigError(reason) from None
    except _Encrypted:
        raise ConfigError(
            f"{key} is encrypted; a broker has nobody to ask for the password: store it without "
            "one, readable for the broker's user only"
        ) from None


class _Encrypted(Exception):
    pass


def _no_password() -> str:
    raise _Encrypted


def _load_trust(context: ssl.SSLContext, ca: Path) -> None:
    try:
        context.load_verify_locations(cafile=ca)
    except ssl.SSLError:
        raise ConfigError(f"{ca} holds no certificates in PEM") from None
    if not context.get_ca_certs():
        raise ConfigError(f"{ca} holds no certificate of an authority: none may issue others")


def _try_own(
    settings: TlsSettings, server: ssl.SSLContext, client: ssl.SSLContext | None
) -> PeerCertificate:
    if client is not None:
        own = _shake(server, client, None, settings)
        if settings.uri not in own.uris:
            named = ", ".join(own.uris) or "nobody"
            raise ConfigError(
                f"the certificate in {settings.certificate} must name {settings.uri} as a URI "
                f"among its alternative names; it names {named}"
            )
        return own
    alone = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _load_chain(alone, settings)
    customer = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    customer.check_hostname = bool(settings.hosts)
    customer.load_default_certs()
    if settings.ca is not None:
        _load_trust(customer, settings.ca)
    # A chain that ends with its own root is whole, whether this machine trusts that or not. What is
    # no root ends no chain by being here.
    for each in _PEM.findall(settings.certificate.read_text(encoding="ascii", errors="replace")):
        customer.load_verify_locations(cadata=each)
    found = [_shake(alone, customer, host, settings) for host in settings.hosts or (None,)]
    return found[-1]


def _shake(
    server: ssl.SSLContext, client: ssl.SSLContext, host: str | None, settings: TlsSettings
) -> PeerCertificate:
    """Have two contexts shake hands; return what the client has seen of the server."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    dialling = client.wrap_bio(down, up, server_side=False, server_hostname=host)
    answering = server.wrap_bio(up, down, server_side=True)
    try:
        for _ in range(_FLIGHTS_MAX):
            is_done = [_go_on(each) for each in (dialling, answering)]
            if all(is_done):
                break
    except ssl.SSLCertVerificationError as error:
        certificate = settings.certificate
        if host is not None and "match" in error.verify_message:
            raise ConfigError(
                f"the certificate in {certificate} is not for {host}, which others are told to "
                f"connect to: issue it for {host}, or set advertised.host to a name that it has"
            ) from None
        raise ConfigError(
            f"the certificate in {certificate} is refused: {error.verify_message}"
            + _chain_hint(error, settings)
        ) from None
    except ssl.SSLError as error:
        reason = (error.reason or str(error)).replace("_", " ").lower()
        raise ConfigError(f"{settings.certificate} cannot be used: {reason}") from None
    found = dialling.getpeercert()
    assert found
    return read_certificate(found)


def _chain_hint(error: ssl.SSLCertVerificationError, settings: TlsSettings) -> str:
    if "issuer" not in error.verify_message and "self-signed" not in error.verify_message:
        return ""
    if settings.ca is None:
        return ": put the certificates of its issuers behind it, up to the root"
    return f": {settings.ca} does not hold its issuer"


def _go_on(side: ssl.SSLObject) -> bool:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True
