"""The client's side of SCRAM (RFC 5802, RFC 7677), without channel binding, as Kafka has it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets

#: Fewer are too weak (RFC 7677), more would let a server keep a client busy; Kafka has 16384.
ITERATIONS_MIN, ITERATIONS_MAX = 4096, 1_000_000
_FIRST = re.compile(r"r=([\x21-\x2b\x2d-\x7e]+),s=([A-Za-z0-9+/=]+),i=([1-9]\d{0,9})(?:,.*)?")
_NO_BINDING = "n,,"


class ScramFailed(Exception):
    """What the server says is no proof that it knows the password, or no SCRAM."""


class ScramClient:
    """Two messages to the server, each after the one before was answered."""

    def __init__(self, hash_name: str, username: str, password: str, nonce: str = "") -> None:
        self._hash_name = hash_name
        self._password = password.encode()
        self._nonce = nonce or secrets.token_urlsafe(24)
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={name},r={self._nonce}"
        self._server_signature = b""

    @property
    def first(self) -> bytes:
        """The first message."""
        return f"{_NO_BINDING}{self._first_bare}".encode()

    def final(self, server_first: bytes) -> bytes:
        """Return the message with the proof.

        Raises:
            ScramFailed: the server asks for what is unsafe, or speaks something else.
        """
        text = server_first.decode("utf-8", "replace")
        found = _FIRST.fullmatch(text)
        if found is None:
            raise ScramFailed("its first message is none of SCRAM")
        nonce, salt, iterations = found[1], found[2], int(found[3])
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise ScramFailed("its nonce does not begin with the client's")
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise ScramFailed(
                f"it asks for {iterations} iterations; {ITERATIONS_MIN} to {ITERATIONS_MAX} are"
                " accepted"
            )
        salted = hashlib.pbkdf2_hmac(self._hash_name, self._password, _decode(salt), iterations)
        binding = base64.b64encode(_NO_BINDING.encode()).decode()
        without_proof = f"c={binding},r={nonce}"
        signed = ",".join((self._first_bare, text, without_proof)).encode()
        client_key = self._hmac(salted, b"Client Key")
        stored_key = hashlib.new(self._hash_name, client_key).digest()
        signature = self._hmac(stored_key, signed)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def verify(self, server_final: bytes) -> None:
        """Believe the server.

        Raises:
            ScramFailed: it does not know the password.
        """
        verifier = server_final.decode("utf-8", "replace").partition(",")[0]
        if not verifier.startswith("v=") or not self._server_signature:
            raise ScramFailed("it refuses the proof")
        if not hmac.compare_digest(_decode(verifier[2:]), self._server_signature):
            raise ScramFailed("it has not proved that it knows the password")

    def _hmac(self, key: bytes, text: bytes) -> bytes:
        return hmac.digest(key, text, self._hash_name)


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ScramFailed("its message is not in base64") from None
