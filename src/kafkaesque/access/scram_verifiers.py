"""Verifiers made from what AlterUserScramCredentials carries, and from passwords.

A SaltedPassword is worth a password, so it is turned into StoredKey and ServerKey where it comes
in, before anything is sent to the controller or written down.
"""

from kafkaesque.access.credentials import CredentialId, ScramVerifier
from kafkaesque.access.scram_mechanisms import ScramMechanism, check_parameters
from kafkaesque.access.secret import Secret
from kafkaesque.model.errors import InvalidRequest


def scram_credential_id(mechanism: ScramMechanism, user: str) -> CredentialId:
    """Return the id of a user's verifier: a user has one for each mechanism."""
    return CredentialId(f"{mechanism.name.lower()}/{user}")


def verifier_of_salted_password(
    mechanism: ScramMechanism, user: str, salted_password: Secret, salt: bytes, iterations: int
) -> ScramVerifier:
    """Return the verifier for a password that the client has salted (KIP-554).

    Raises:
        InvalidRequest: salt, iterations or the length of the salted password are out of range.
    """
    check_parameters(salt, iterations)
    salted = salted_password.reveal()
    if len(salted) != mechanism.digest_bytes:
        raise InvalidRequest(
            f"a salted password of {len(salted)} bytes is none of {mechanism.name}"
        )
    return ScramVerifier(
        id=scram_credential_id(mechanism, user),
        user=user,
        mechanism=mechanism.name,
        salt=salt,
        iterations=iterations,
        stored_key=mechanism.stored_key(salted),
        server_key=mechanism.server_key(salted),
    )


def verifier_of_password(
    mechanism: ScramMechanism, user: str, password: Secret, salt: bytes, iterations: int
) -> ScramVerifier:
    """Return the verifier for a password; work of milliseconds.

    Raises:
        InvalidRequest: the password is empty, or salt or iterations are out of range.
    """
    if not password.reveal():
        raise InvalidRequest("the password is empty")
    check_parameters(salt, iterations)
    salted = Secret(mechanism.salted_password(password.reveal(), salt, iterations))
    return verifier_of_salted_password(mechanism, user, salted, salt, iterations)
