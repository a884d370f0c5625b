"""The door to chance."""

from typing import Protocol


class Dice(Protocol):
    """Randomness: from the system on a real machine, from the seed in the simulator."""

    def below(self, bound: int) -> int:
        """Return a number from 0 to `bound` - 1, all equally likely."""

    def unique_bytes(self, count: int) -> bytes:
        """Return bytes that serve as an identifier."""
