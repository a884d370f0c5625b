"""Whole gateways for the fuzzer: its bytes are the choices of a random conversation.

Each input has a simulated broker of its own, so that what is found can be done again.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from typing import Final

from tests.property.fuzz_targets import TARGETS, Target
from tests.unit.gateway_walks.ground import Ground
from tests.unit.gateway_walks.kinds import KINDS
from tests.unit.gateway_walks.walk import Walk

STEPS_MAX: Final = 60
SEEDS, SEED_BYTES = 20, 400


class BytesDice(random.Random):
    """Draws from bytes; when there are no more, the first of whatever there is."""

    def __init__(self, data: bytes) -> None:
        super().__init__(0)
        self._data: Final = data
        self._at = 0

    @property
    def is_over(self) -> bool:
        return self._at >= len(self._data)

    def _randbelow(self, n: int) -> int:
        size = 1 if n <= 256 else (n.bit_length() + 7) // 8
        raw = self._data[self._at : self._at + size]
        self._at += size
        return int.from_bytes(raw, "big") % n

    def getrandbits(self, k: int, /) -> int:
        return self._randbelow(1 << k)

    def random(self) -> float:
        return self._randbelow(1 << 16) / (1 << 16)


def run(kind: str, data: bytes) -> None:
    """Have clients of a protocol say what the bytes choose."""
    dice = BytesDice(data)
    walk = Walk(Ground(), dice, [KINDS[kind]])
    steps = 0
    while not dice.is_over and steps < STEPS_MAX:
        steps += 1
        walk.step()
    walk.end()


def _seeds(kind: str) -> Sequence[bytes]:
    dice = random.Random(kind)
    return [dice.randbytes(SEED_BYTES) for _ in range(SEEDS)]


EVERY_TARGET: Final[dict[str, Target]] = {
    **TARGETS,
    **{
        f"{kind}-gateway": Target(run=partial(run, kind), seeds=partial(_seeds, kind))
        for kind in KINDS
    },
}
