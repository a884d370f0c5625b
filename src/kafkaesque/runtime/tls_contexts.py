"""What is known of TLS under a name: how a listener or a dialled connection speaks it."""

import ssl
from dataclasses import dataclass
from typing import Final

from kafkaesque.env.certificate import PeerCertificate
from kafkaesque.runtime.tls_socket import TlsBroken

#: Who proves what at a resumed connection was proved at an earlier one: so none are resumed. Each
#: handshake shows the certificate again, and expiry, revocation and a change of CA count at once.
TICKETS: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsContext:
    """One generation of certificate, key and trust; replaced as a whole."""

    #: For those who dial this broker.
    server: ssl.SSLContext
    #: For those whom this broker dials; None where it dials nobody under that name.
    client: ssl.SSLContext | None = None
    #: Certificates that count no more: issuer as in `PeerCertificate`, and serial number.
    revoked: frozenset[tuple[str, int]] = frozenset()

    def is_revoked(self, certificate: PeerCertificate) -> bool:
        """Tell whether a certificate counts no more."""
        return (certificate.issuer, certificate.serial) in self.revoked

    def check(self, certificate: PeerCertificate | None) -> None:
        """See whether the other end may come in with what it has shown.

        Raises:
            TlsBroken: its certificate is revoked.
        """
        if certificate is not None and self.is_revoked(certificate):
            raise TlsBroken(describe_revoked(certificate))


def describe_revoked(certificate: PeerCertificate) -> str:
    """Return what is wrong with a certificate that counts no more."""
    return f"its certificate {certificate.serial:x} ({certificate.subject}) is revoked"


def harden(context: ssl.SSLContext) -> None:
    """Set what holds for every context: TLS 1.2 and up, nothing negotiated anew, nothing resumed.

    TLS 1.3 is preferred by both sides by itself. TLS 1.2 keeps to key exchanges with forward
    secrecy and to authenticated encryption.
    """
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET | ssl.OP_NO_COMPRESSION
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    context.set_ciphers("ECDHE+AESGCM:ECDHE+CHACHA20")


_REASONS: Final = {
    "HTTP_REQUEST": "it speaks HTTP and not TLS",
    "HTTPS_PROXY_REQUEST": "it speaks HTTP and not TLS",
    "WRONG_VERSION_NUMBER": "it does not speak TLS",
    "UNSUPPORTED_PROTOCOL": "it speaks no TLS that is new enough: TLS 1.2 and 1.3 are spoken here",
    "NO_SHARED_CIPHER": "it knows no cipher that is spoken here",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it shows no certificate, and needs one here",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it wants a certificate of this side, and there is none",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust the CA of this side's certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it refuses this side's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it refuses this side's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it says that this side's certificate has expired",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": "this side's certificate is not made for that",
}


def explain(error: Exception) -> str:
    """Return why a handshake has failed, as far as that can be told, for people to read."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        reason = error.reason or str(error)
        return _REASONS.get(reason, reason.replace("_", " ").lower())
    return str(error)
