"""Chance that comes from the seed."""

import random
from typing import Final


class SimDice:
    """The dice door of one process."""

    __slots__ = ("_random",)

    def __init__(self, generator: random.Random) -> None:
        self._random: Final = generator

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)

    def unique_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)
