"""A SCRAM client, for our own command line and for tests: the other end of `scram_server`."""

from hmac import compare_digest
from typing import Final

from kafkaesque.access.scram_mechanisms import ITERATIONS_MAX, ITERATIONS_MIN, ScramMechanism
from kafkaesque.access.scram_messages import (
    TOKEN_EXTENSION,
    ScramMessageRefused,
    read_server_final,
    read_server_first,
    write_base64,
    write_saslname,
)
from kafkaesque.access.secret import Secret

#: No channel binding, nobody else to act as.
_GS2_HEADER: Final = "n,,"


class ScramClient:
    """One authentication: `first`, then `final`, then `verify`.

    A server that asks for fewer iterations than Kafka allows is refused: a proof made with few
    would let whoever listens guess the password.
    """

    __slots__ = ("_bare", "_mechanism", "_nonce", "_password", "_server_signature")

    def __init__(
        self,
        mechanism: ScramMechanism,
        name: str,
        password: Secret,
        nonce: bytes,
        *,
        is_token: bool = False,
    ) -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = write_base64(nonce)
        extension = f",{TOKEN_EXTENSION}" if is_token else ""
        self._bare = f"n={write_saslname(name)},r={self._nonce}{extension}"
        self._server_signature = b""

    def first(self) -> bytes:
        """Return the first message."""
        return (_GS2_HEADER + self._bare).encode()

    def final(self, server_first: bytes) -> bytes:
        """Return the last message.

        Raises:
            ScramMessageRefused: the server's message is malformed, answers another nonce, or asks
                for a number of iterations that is out of range.
        """
        told = read_server_first(server_first)
        if not told.nonce.startswith(self._nonce) or len(told.nonce) == len(self._nonce):
            raise ScramMessageRefused("the server answers another nonce")
        if not ITERATIONS_MIN <= told.iterations <= ITERATIONS_MAX:
            raise ScramMessageRefused(f"the server asks for {told.iterations} iterations")
        mechanism = self._mechanism
        salted = mechanism.salted_password(self._password.reveal(), told.salt, told.iterations)
        without_proof = f"c={write_base64(_GS2_HEADER.encode())},r={told.nonce}"
        signed = ",".join((self._bare, server_first.decode(), without_proof)).encode()
        signature = mechanism.hmac(mechanism.stored_key(salted), signed)
        client_key = mechanism.client_key(salted)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._server_signature = mechanism.hmac(mechanism.server_key(salted), signed)
        return f"{without_proof},p={write_base64(proof)}".encode()

    def verify(self, server_final: bytes) -> None:
        """Make sure that the server knows the password's verifier, too.

        Raises:
            ScramMessageRefused: it does not, or has refused.
        """
        if not self._server_signature:
            raise ScramMessageRefused("the server has ended before the client's proof")
        if not compare_digest(read_server_final(server_final), self._server_signature):
            raise ScramMessageRefused("the server does not know the password")
