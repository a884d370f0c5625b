"""`Secret`: bytes that nobody prints, logs, writes down or sends by accident."""

from hmac import compare_digest
from typing import NoReturn


class Secret:
    """A password, a key or a token. `reveal` gives the bytes; nothing else does.

    It prints as `<secret>`, and refuses to be pickled, copied or encoded as JSON or MessagePack.
    """

    __slots__ = ("_value",)

    def __init__(self, value: bytes) -> None:
        self._value = value

    @staticmethod
    def of(text: str) -> "Secret":
        """Return the secret that is this text in UTF-8."""
        return Secret(text.encode())

    def reveal(self) -> bytes:
        """Return the bytes. Every use of this is a place to look at."""
        return self._value

    def __repr__(self) -> str:
        return "<secret>"

    def __format__(self, _: str) -> str:
        return repr(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and compare_digest(self._value, other._value)

    # A hash of it would stand in the order of a set.
    __hash__ = None  # type: ignore[assignment]

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise TypeError("a secret is not pickled or copied")

    def __getstate__(self) -> NoReturn:
        raise TypeError("a secret has no state to be written down")
