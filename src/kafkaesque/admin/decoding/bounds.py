"""What decoding may take, and why something cannot be decoded.

Bytes and schemas come from whoever may write a topic or register a schema. So nothing is built
before it is paid for: each part of what comes out has a price, about the characters that it takes
as JSON. That bounds memory and time alike.
"""

from typing import Final

from kafkaesque.model.counted import counted

#: Of a key or a value, as it was written.
VALUE_BYTES_MAX: Final = 1024 * 1024
#: Of what one value becomes.
DECODED_BYTES_MAX: Final = 2 * 1024 * 1024
#: The same of all values of one question to a broker: about a second of work.
QUESTION_BYTES_MAX: Final = 8 * 1024 * 1024
#: Values within values.
DEPTH_MAX: Final = 64
#: What a number, a true, or an empty list costs.
PART_BYTES: Final = 16


class UndecodableError(Exception):
    """A value is not what it should be, or too large; the message is one sentence for people."""


def left_over(count: int) -> UndecodableError:
    """Return the error of a value with so many bytes behind it."""
    follow = "follows" if count == 1 else "follow"
    return UndecodableError(f"{counted(count, 'byte')} {follow} the value")


class Allowance:
    """What may still come out, of one question; `take` is asked before anything is built."""

    __slots__ = ("_value_left", "_value_max", "left")

    def __init__(self, left: int = QUESTION_BYTES_MAX) -> None:
        self.left = left
        self._value_max = DECODED_BYTES_MAX
        #: Of the value that is decoded.
        self._value_left = DECODED_BYTES_MAX

    def begin(self) -> None:
        """Begin with the next value.

        Raises:
            UndecodableError: nothing is left for it.
        """
        if self.is_spent:
            raise UndecodableError(_SPENT)
        self._value_left = self._value_max = min(DECODED_BYTES_MAX, self.left)

    @property
    def is_spent(self) -> bool:
        """Whether nothing more may come out."""
        return self.left <= 0

    def take(self, size: int) -> None:
        """Pay for a part of the value.

        Raises:
            UndecodableError: that is more than there may be.
        """
        if size > self._value_left:
            self.left -= self._value_left
            self._value_left = 0
            if self._value_max < DECODED_BYTES_MAX:
                raise UndecodableError(_SPENT)
            raise UndecodableError(f"it becomes more than {DECODED_BYTES_MAX} characters")
        self._value_left -= size
        self.left -= size


_SPENT: Final = "the messages before it have used up what is decoded at once: ask for fewer"


def check_depth(depth: int) -> None:
    """Check how deep a value lies.

    Raises:
        UndecodableError: too deep.
    """
    if depth > DEPTH_MAX:
        raise UndecodableError(f"it is nested deeper than {DEPTH_MAX}")
