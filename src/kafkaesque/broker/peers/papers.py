"""What the certificates of brokers must say, where brokers speak TLS with one another.

The environment has checked that an authority that is trusted has issued the certificate. That alone
makes nobody a broker: clients have certificates of the same authority. A broker's certificate names
it by a URI (see `env.certificate`), which must be that of the broker that it says it is, and the
only one of its kind. Nothing else in the certificate counts, and nothing that is sent.
"""

from typing import Final

from kafkaesque.broker.peers.messages import Denial, GreetingDenied, MalformedPeerFrame
from kafkaesque.env.certificate import PeerCertificate, broker_uri
from kafkaesque.model.ids import NodeId

_SCHEME: Final = "kafkaesque:"
#: Characters of a certificate that are reported.
SHOWN_CHARACTERS_MAX: Final = 200


class Papers:
    """The rules of one cluster.

    A cluster goes from the clear to TLS, broker by broker, in three steps: all accept it, then all
    dial with it, then nobody takes anything else. Until the last step whoever comes in the clear is
    believed as before; whoever shows a certificate is believed as that, and as nobody else.
    """

    __slots__ = ("_cluster_id", "dials_by", "is_optional", "listens_by")

    def __init__(
        self, cluster_id: str, tls: str, *, dials_tls: bool = True, is_optional: bool = False
    ) -> None:
        """`tls` is as in `ListenOptions.tls`; empty: no certificates are shown."""
        self._cluster_id: Final = cluster_id
        self.listens_by: Final = tls
        self.dials_by: Final = tls if dials_tls else ""
        self.is_optional: Final = is_optional

    def check_any(self, certificate: PeerCertificate | None) -> None:
        """See whether somebody may say which broker it is.

        Raises:
            MalformedPeerFrame: it is no broker, whatever it would say.
        """
        if self._is_clear(certificate):
            return
        name = _name(certificate)
        if name is None or not name.startswith(broker_uri(self._cluster_id, 0)[:-1]):
            raise MalformedPeerFrame(
                f"its certificate names no broker of this cluster, but {_shown(certificate)}"
            )

    def is_of(self, certificate: PeerCertificate | None, node: NodeId) -> bool:
        """Tell whether a certificate is this broker's."""
        return _name(certificate) == broker_uri(self._cluster_id, node)

    def is_dialled(self, certificate: PeerCertificate | None, node: NodeId) -> bool:
        """Tell whether who was dialled is this broker, or need not show that it is."""
        return not self.dials_by or self.is_of(certificate, node)

    def _is_clear(self, certificate: PeerCertificate | None) -> bool:
        """Tell whether somebody who has dialled this broker came in the clear, and may."""
        return not self.listens_by or (certificate is None and self.is_optional)

    def check(self, certificate: PeerCertificate | None, node: NodeId) -> None:
        """See whether somebody is the broker that it says it is.

        Raises:
            GreetingDenied: it is another one.
        """
        if not self._is_clear(certificate) and not self.is_of(certificate, node):
            raise GreetingDenied(
                Denial.OTHER_CERTIFICATE,
                f"it says that it is broker {node}, and its certificate names "
                f"{_shown(certificate)}",
            )

    def explain(self, certificate: PeerCertificate | None, node: NodeId) -> str:
        """Return what is wrong with what a broker has shown that was dialled."""
        return f"its certificate does not name broker {node}, but {_shown(certificate)}"


def _name(certificate: PeerCertificate | None) -> str | None:
    """Return the one URI of ours in a certificate; None if there is none, or are several."""
    if certificate is None:
        return None
    found = [uri for uri in certificate.uris if uri.lower().startswith(_SCHEME)]
    return found[0] if len(found) == 1 else None


def _shown(certificate: PeerCertificate | None) -> str:
    if certificate is None:
        return "nobody: there is none"
    names = ", ".join(certificate.uris) or certificate.subject or "nobody"
    return names[:SHOWN_CHARACTERS_MAX]
