"""The one table of mechanisms: what each needs, and which of them a client is told of.

An authentication by one of them begins in `sasl_servers`, and goes on by `Authentication.step`: for
Kafka's SASL, AMQP, MQTT's enhanced authentication and the others. None of them knows how a
credential is checked.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkaesque.access.scram_mechanisms import SCRAM_SHA_256, SCRAM_SHA_512
from kafkaesque.access.sealing import ClusterKeys
from kafkaesque.access.state import AccessState
from kafkaesque.access.verified_passwords import VerifiedPasswords
from kafkaesque.model.errors import ConfigError, RequestRefused

if TYPE_CHECKING:
    from kafkaesque.access.json_web_tokens import JwtVerifier

#: Of NATS alone, where a broker sends something to be signed before anything is said. No listener
#: has to enable it: nobody has an NKey without being given one.
NKEY: Final = "NKEY"
#: Random bytes that an authentication is given for its nonce.
NONCE_BYTES: Final = 18


class MechanismRefused(RequestRefused):
    """The mechanism is not known, not enabled on this listener, or not without TLS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkers:
    """What a broker checks credentials with; one for all listeners."""

    #: Returns the state of now.
    access: Callable[[], AccessState]
    keys: ClusterKeys
    verified: VerifiedPasswords
    #: None: no OpenID provider is configured.
    jwt: "JwtVerifier | None" = None

    def decoy_key(self) -> bytes:
        """Return what unknown users' verifiers are made up with.

        By the first version of the cluster's key that is here: with another one all made-up salts
        would change at once, and none of the others.
        """
        return self.keys.subkey("decoys", self.keys.oldest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """What a connection is known by before it says who it is."""

    host: str
    is_encrypted: bool
    #: Name in the certificate that TLS has verified, as `principal_mapping` reads it.
    certificate_name: str | None = None
    #: Random, for this authentication alone.
    nonce: bytes
    #: What it was sent at the beginning, to be signed; empty: nothing, as by all but NATS.
    challenge: bytes = b""
    #: Whether whoever asks sees to the second factor, and the password is not all.
    shows_second_factor: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanism:
    """A row of the table."""

    name: str
    #: Whoever listens to it without TLS has the password or the token.
    needs_encryption: bool = False


#: The strongest first, which is the order in which clients are told.
MECHANISMS: Final[dict[str, Mechanism]] = {
    each.name: each
    for each in (
        Mechanism(name=SCRAM_SHA_512.name),
        Mechanism(name=SCRAM_SHA_256.name),
        Mechanism(name="OAUTHBEARER", needs_encryption=True),
        Mechanism(name="EXTERNAL", needs_encryption=True),
        Mechanism(name="PLAIN", needs_encryption=True),
    )
}


def offered(enabled: Collection[str], *, is_encrypted: bool) -> tuple[str, ...]:
    """Return the mechanisms that a client is told of.

    Raises:
        ConfigError: one that is enabled does not exist.
    """
    unknown = sorted(set(enabled) - set(MECHANISMS))
    if unknown:
        raise ConfigError(f"{unknown[0]!r} is no mechanism: {', '.join(MECHANISMS)} are")
    return tuple(
        name
        for name, each in MECHANISMS.items()
        if name in enabled and (is_encrypted or not each.needs_encryption)
    )
