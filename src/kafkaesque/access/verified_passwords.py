"""Passwords that were found right a short time ago, so that each connection need not cost 3 ms.

Neither a password nor anything from which it could be guessed stands here: what is remembered is an
HMAC by a key of this process. A changed credential has another epoch, and is checked again.
"""

import hmac
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from kafkaesque.access.credentials import AnyCredential
from kafkaesque.access.secret import Secret

REMEMBERED_MS: Final = 5 * 60_000
REMEMBERED_MAX: Final = 1_000


class VerifiedPasswords:
    """What one broker remembers; the key of its process is drawn with the first use."""

    __slots__ = ("_draw_key", "_key", "_until")

    def __init__(self, draw_key: Callable[[], Secret]) -> None:
        self._draw_key = draw_key
        self._key: Secret | None = None
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
        if self._key is None:
            self._key = self._draw_key()
        seed = f"{credential.epoch} {credential.id}\0".encode() + password.reveal()
        return hmac.digest(self._key.reveal(), seed, "sha256")
