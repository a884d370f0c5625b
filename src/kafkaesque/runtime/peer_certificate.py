"""Reads a certificate that the `ssl` module has checked."""

import ssl
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kafkaesque.env.certificate import SHORT_NAMES, PeerCertificate

_ESCAPED: Final = frozenset('"+,;<>\\')

#: As `ssl` returns it: relative distinguished names, each of pairs of a type and a value.
_Name = Iterable[Iterable[tuple[str, str]]]


def read_certificate(found: Mapping[str, Any]) -> PeerCertificate:
    """Return what `SSLObject.getpeercert` has found."""
    names: dict[str, list[str]] = {}
    for kind, value in found.get("subjectAltName", ()):
        if isinstance(value, str):
            names.setdefault(kind, []).append(value)
    subject: _Name = found.get("subject", ())
    return PeerCertificate(
        subject=write_name(subject),
        issuer=write_name(found.get("issuer", ())),
        serial=int(found["serialNumber"], 16),
        not_after_ms=ssl.cert_time_to_seconds(found["notAfter"]) * 1000,
        attributes=tuple((kind, value) for part in subject for kind, value in part),
        common_names=tuple(v for part in subject for k, v in part if k == "commonName"),
        uris=tuple(names.get("URI", ())),
        dns_names=tuple(names.get("DNS", ())),
        addresses=tuple(names.get("IP Address", ())),
        emails=tuple(names.get("email", ())),
    )


def write_name(name: _Name) -> str:
    """Return a distinguished name as RFC 4514 writes it: the most special part first."""
    parts = [
        "+".join(f"{SHORT_NAMES.get(kind, kind)}={_escape(value)}" for kind, value in part)
        for part in name
    ]
    return ",".join(reversed(parts))


def _escape(value: str) -> str:
    escaped = "".join(_escape_character(each) for each in value)
    if value[:1] in (" ", "#"):
        escaped = "\\" + escaped
    if value[-1:] == " " and len(value) > 1:
        escaped = escaped[:-1] + "\\ "
    return escaped


def _escape_character(character: str) -> str:
    if character in _ESCAPED:
        return "\\" + character
    if ord(character) < 0x20 or ord(character) == 0x7F:
        return f"\\{ord(character):02X}"
    return character
