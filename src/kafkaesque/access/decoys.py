"""Verifiers that are made up for names that have none, so that nobody learns which names exist.

Everything is drawn by an HMAC over the name: the same name gives the same salt each time, at each
broker. The cost and the length of the salt are those of some verifier that there is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kafkaesque.access.scram_mechanisms import ITERATIONS_MIN, ScramMechanism

#: Where there is no verifier to take after.
SALT_BYTES: Final = 16

Shapes = Mapping[tuple[str, int, int], int]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DecoyVerifier:
    """Keys of SCRAM that no password fits."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


def make_decoy(key: bytes, mechanism: ScramMechanism, name: str, shapes: Shapes) -> DecoyVerifier:
    """Return the verifier of a name that has none."""
    likely = sorted(each[1:] for each in shapes if each[0] == mechanism.name)
    likely = likely or [(ITERATIONS_MIN, SALT_BYTES)]

    def drawn(purpose: str, count: int) -> bytes:
        return _draw(key, mechanism, f"{purpose} {name}", count)

    iterations, salt_bytes = likely[int.from_bytes(drawn("shape", 8), "big") % len(likely)]
    return DecoyVerifier(
        salt=drawn("salt", salt_bytes),
        iterations=iterations,
        stored_key=drawn("stored key", mechanism.digest_bytes),
        server_key=drawn("server key", mechanism.digest_bytes),
    )


def choose_mechanism(key: bytes, name: str, shapes: Shapes, mechanism: ScramMechanism) -> str:
    """Return by which of the mechanisms that there are a password is checked that nobody has."""
    there = sorted({each[0] for each in shapes} | {mechanism.name})
    drawn = _draw(key, mechanism, f"mechanism {name}", 8)
    return there[int.from_bytes(drawn, "big") % len(there)]


def _draw(key: bytes, mechanism: ScramMechanism, seed: str, count: int) -> bytes:
    whole = f"{mechanism.name} {seed}".encode()
    blocks = count // mechanism.digest_bytes + 1
    return b"".join(mechanism.hmac(key, bytes([each]) + whole) for each in range(blocks))[:count]
