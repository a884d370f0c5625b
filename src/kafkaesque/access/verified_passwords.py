"""Passwords that were found right a short time ago, so that each connection need not cost 3 ms.

Neither a password nor anything from which it could be guessed stands here: what is remembered is an
HMAC by a key of this process. A changed credential has another epoch, and is checked again.
"""

import hmac
from collections import OrderedDict
from typing import Final

from kafkaesque.access.credentials import AnyCredential
from kafkaesque.access.secret import Secret

REMEMBERED_MS: Final = 5 * 60_000
REMEMBERED_MAX: Final = 1_000


class VerifiedPasswords:
    """What one broker remembers; `process_key` is random, and new with each start."""

    __slots__ = ("_key", "_until")

    def __init__(self, process_key: Secret) -> None:
        self._key = process_key
        #: The oldest first.
        self._until: OrderedDict[bytes, int] = OrderedDict()

    def has(self, credential: AnyCredential, password: Secret, now_ms: int) -> bool:
        """Tell whether the password was found right for this credential, and not long ago."""
        return self._until.get(self._mark(credential, password), 0) > now_ms

    def remember(self, credential: AnyCredential, password: Secret, now_ms: int) -> None:
        """Remember that the password is right."""
        mark = self._mark(credential, password)
        self._until.pop(mark, None)
        self._until[mark] = now_ms + REMEMBERED_MS
        while len(self._until) > REMEMBERED_MAX:
            self._until.popitem(last=False)

    def _mark(self, credential: AnyCredential, password: Secret) -> bytes:
        seed = f"{credential.epoch} {credential.id}\0".encode() + password.reveal()
        return hmac.digest(self._key.reveal(), seed, "sha256")
