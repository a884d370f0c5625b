"""Chance that comes from the seed."""

import random
from typing import Final


class Chance(random.Random):
    """A generator whose most frequent draw is a cheap one."""

    def below(self, bound: int) -> int:
        """Return a number from 0 to below `bound`: what `randrange` draws, at half the price.

        Raises:
            ValueError: there is none.
        """
        if bound < 1:
            raise ValueError(f"no number is below {bound}")
        bits = bound.bit_length()
        number = self.getrandbits(bits)
        while number >= bound:
            number = self.getrandbits(bits)
        return number


class SimDice:
    """The dice door of one process."""

    __slots__ = ("_chance",)

    def __init__(self, generator: Chance) -> None:
        self._chance: Final = generator

    def below(self, bound: int) -> int:
        return self._chance.below(bound)

    def unique_bytes(self, count: int) -> bytes:
        return self._chance.randbytes(count)
