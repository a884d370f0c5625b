"""Who is connected."""

from dataclasses import dataclass

from kafkaesque.access.principals import Principal, user_principal
from kafkaesque.broker.metadata.client_quotas import ANONYMOUS_USER
from kafkaesque.env.certificate import PeerCertificate


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What is known of a client: limits, quotas and the rules of access ask it."""

    #: Without the port.
    host: str
    #: The name of the listener that it came by.
    listener: str
    user: str = ANONYMOUS_USER
    #: What it has shown, where the listener speaks TLS and asks for it.
    certificate: PeerCertificate | None = None

    @property
    def principal(self) -> Principal:
        """The client's name in rules."""
        return user_principal(self.user)
