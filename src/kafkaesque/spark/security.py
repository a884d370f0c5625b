"""How connections are secured, as values that go to tasks; passwords stay out of their repr."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsOptions:
    """Whom to trust over TLS, and what to show; paths are those of the machine that connects."""

    #: A file of certificates; with neither this nor `trusted`, those that the system trusts.
    trusted_path: str | None = None
    #: Certificates in PEM.
    trusted: str | None = field(default=None, repr=False)
    #: A file of a private key and its certificates.
    own_path: str | None = None
    #: The same in PEM.
    own: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    #: Whether a certificate has to name the host that was asked for.
    checks_host: bool = True
    version_min: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    version_max: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslOptions:
    """Who says to be whom."""

    mechanism: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityOptions:
    """Both may be missing: a connection in the clear, of nobody in particular."""

    tls: TlsOptions | None = None
    sasl: SaslOptions | None = None
