"""How an authentication by each mechanism begins; loaded where somebody may log in."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final

from kafkaesque.access.authentication import Authentication
from kafkaesque.access.external import ExternalContext, ExternalServer
from kafkaesque.access.nkeys import NKeyContext, NKeyServer
from kafkaesque.access.oauthbearer import BearerContext, BearerServer
from kafkaesque.access.plain import PlainContext, PlainServer
from kafkaesque.access.sasl_mechanisms import (
    NKEY,
    Checkers,
    Client,
    MechanismRefused,
    offered,
)
from kafkaesque.access.scram_mechanisms import SCRAM_SHA_256, SCRAM_SHA_512, ScramMechanism
from kafkaesque.access.scram_messages import write_base64
from kafkaesque.access.scram_server import ScramContext, ScramServer


def _start_scram(kind: ScramMechanism, checkers: Checkers, client: Client) -> Authentication:
    return ScramServer(
        ScramContext(
            mechanism=kind,
            access=checkers.access,
            host=client.host,
            nonce=write_base64(client.nonce),
            decoy_key=checkers.decoy_key(),
        )
    )


def _start_plain(checkers: Checkers, client: Client) -> Authentication:
    return PlainServer(
        PlainContext(
            access=checkers.access,
            host=client.host,
            decoy_key=checkers.decoy_key(),
            verified=checkers.verified,
            shows_second_factor=client.shows_second_factor,
        )
    )


def _start_bearer(checkers: Checkers, client: Client) -> Authentication:
    return BearerServer(
        BearerContext(access=checkers.access, host=client.host, verifier=checkers.jwt)
    )


def _start_external(checkers: Checkers, client: Client) -> Authentication:
    return ExternalServer(
        ExternalContext(
            access=checkers.access, host=client.host, certificate_name=client.certificate_name
        )
    )


#: By the names of `sasl_mechanisms.MECHANISMS`.
STARTS: Final[Mapping[str, Callable[[Checkers, Client], Authentication]]] = {
    SCRAM_SHA_512.name: partial(_start_scram, SCRAM_SHA_512),
    SCRAM_SHA_256.name: partial(_start_scram, SCRAM_SHA_256),
    "OAUTHBEARER": _start_bearer,
    "EXTERNAL": _start_external,
    "PLAIN": _start_plain,
}


def start_authentication(
    name: str, enabled: Collection[str], checkers: Checkers, client: Client
) -> Authentication:
    """Return an authentication that waits for the client's first message.

    Raises:
        MechanismRefused: not one that the client was offered.
    """
    if name == NKEY and client.challenge:
        return NKeyServer(
            NKeyContext(access=checkers.access, host=client.host, challenge=client.challenge)
        )
    if name not in offered(enabled, is_encrypted=client.is_encrypted):
        raise MechanismRefused(f"the mechanism {name[:64]!r} is not offered here")
    return STARTS[name](checkers, client)
