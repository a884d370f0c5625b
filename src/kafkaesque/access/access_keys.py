"""Access keys: an id that is sent, and a secret that signs requests and is never sent.

The secret has to be known to check a signature, so it is kept sealed. It has 240 random bits:
whoever guesses does not get there, but keys that do not exist take as long as those that do.
"""

import base64
from collections.abc import Callable
from typing import Final

from kafkaesque.access.authentication import Failure, FailureReason, Success, settle
from kafkaesque.access.credentials import AccessKey, CredentialId, access_key_lookup
from kafkaesque.access.sealing import NONCE_BYTES, ClusterKeys, access_key_purpose
from kafkaesque.access.secret import Secret
from kafkaesque.access.state import AccessState

#: So that a key that was published by mistake can be searched for.
ID_PREFIX: Final = "KFQ"
ID_BYTES: Final = 10
SECRET_BYTES: Final = 30

#: Tells whether a request was signed with a secret.
IsSignedBy = Callable[[bytes], bool]

_NOBODYS: Final = bytes(40)


def make_access_key(
    user: str, draw: Callable[[int], bytes], keys: ClusterKeys
) -> tuple[AccessKey, Secret]:
    """Return a new credential, and its secret, which is shown to the user once.

    `draw` returns so many bytes that nobody can guess.

    Raises:
        KeyUnknown: the cluster has no key to seal it with.
    """
    access_key_id = ID_PREFIX + base64.b32encode(draw(ID_BYTES)).decode()
    # Neither slash nor plus: tools of the field have stumbled over both.
    secret = Secret(base64.b64encode(draw(SECRET_BYTES), altchars=b"-_"))
    sealed = keys.seal(secret, access_key_purpose(access_key_id), draw(NONCE_BYTES))
    credential = AccessKey(
        id=CredentialId(f"access-key/{access_key_id}"),
        user=user,
        access_key_id=access_key_id,
        secret=sealed,
    )
    return credential, secret


def find_access_key(state: AccessState, access_key_id: str) -> AccessKey | None:
    """Return the credential of an id, if there is one."""
    found = state.find(access_key_lookup(access_key_id))
    return found if isinstance(found, AccessKey) else None


def check_access_key(
    state: AccessState,
    keys: ClusterKeys,
    access_key_id: str,
    host: str,
    now_ms: int,
    is_signed_by: IsSignedBy,
) -> Success | Failure:
    """Return the outcome for a request that says to be signed with a key.

    Raises:
        KeyUnknown, SealBroken: the secret cannot be opened with the keys of this broker.
    """
    credential = find_access_key(state, access_key_id)
    if credential is None:
        is_signed_by(_NOBODYS)
        return Failure(reason=FailureReason.UNKNOWN)
    secret = keys.open(credential.secret, access_key_purpose(access_key_id))
    if not is_signed_by(secret.reveal()):
        return Failure(reason=FailureReason.WRONG, user=credential.user)
    return settle(state, credential, host, now_ms)
