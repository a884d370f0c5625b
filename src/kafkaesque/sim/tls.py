"""TLS on simulated machines: nothing is encrypted, and who somebody is is a value."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kafkaesque.env.certificate import PeerCertificate
from kafkaesque.runtime.connection import Shared, SocketConnection
from kafkaesque.runtime.framing import Cutter
from kafkaesque.runtime.ports import Socket


@dataclass(frozen=True, slots=True, kw_only=True)
class SimTls:
    """What a machine shows and believes under a name, as `ListenOptions.tls` has it."""

    #: None is a client without a certificate.
    certificate: PeerCertificate | None
    #: Issuers whose certificates it believes.
    trusted: frozenset[str]
    #: Whether whoever dials it must show one.
    wants_certificate: bool = True

    def believes(self, certificate: PeerCertificate | None) -> bool:
        """Tell whether somebody counts who shows this."""
        return certificate is not None and certificate.issuer in self.trusted


def refusal(dialling: SimTls | None, answering: SimTls | None) -> str | None:
    """Return why two ends do not shake hands; None if they do, or both speak in the clear."""
    if dialling is None or answering is None:
        return None if dialling is answering else "one side speaks TLS, the other does not"
    if not dialling.believes(answering.certificate):
        return "its certificate is refused"
    if dialling.certificate is None:
        return "it wants a certificate" if answering.wants_certificate else None
    return None if answering.believes(dialling.certificate) else "it refuses this certificate"


class SimTlsConnection(SocketConnection):
    """A connection at whose other end somebody has shown a certificate."""

    __slots__ = ("_certificate",)

    def __init__(
        self,
        shared: Shared,
        sock: Socket,
        peer: str,
        cutter: Cutter,
        on_gone: Callable[[SocketConnection], None],
        certificate: PeerCertificate,
    ) -> None:
        super().__init__(shared, sock, peer, cutter, on_gone)
        self._certificate: Final = certificate

    def peer_certificate(self) -> PeerCertificate | None:
        return self._certificate
