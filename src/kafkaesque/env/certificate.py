"""Who is at the other end of a connection, as its certificate says."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

#: Short names of attributes (RFC 2253; RFC 4514, section 3), by what OpenSSL and Python call them.
#: Others have none.
SHORT_NAMES: Final[Mapping[str, str]] = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerCertificate:
    """A certificate that was checked: its issuer is trusted, and it was valid at the handshake.

    What it says is somebody's own choice as far as the issuer lets it be: compare whole values,
    and never parts of `subject`.
    """

    #: The distinguished name as RFC 4514 writes it, such as `CN=app,O=Example`; special characters
    #: are escaped.
    subject: str
    issuer: str
    #: Unique for an issuer.
    serial: int
    #: By the wall clock; the connection is closed then.
    not_after_ms: int
    #: The subject's attributes as they are, such as `("commonName", "app")`, in the certificate's
    #: order. What has several in one part counts as several parts.
    attributes: tuple[tuple[str, str], ...] = ()
    #: Every common name of the subject, unescaped.
    common_names: tuple[str, ...] = ()
    #: Subject alternative names.
    uris: tuple[str, ...] = ()
    dns_names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    emails: tuple[str, ...] = ()


def broker_uri(cluster_id: str, node: int) -> str:
    """Return the URI by which the certificate of a broker names it."""
    return f"kafkaesque://{quote(cluster_id, safe='')}/broker/{node}"


def user_uri(cluster_id: str, name: str) -> str:
    """Return the URI by which the certificate of a user names it."""
    return f"kafkaesque://{quote(cluster_id, safe='')}/user/{quote(name, safe='')}"
