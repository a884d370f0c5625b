"""How far a member may trust its own judgement of others.

Lifeguard (Dadgar, Phillips, Currey 2018, section IV.A): who cannot keep up itself takes others for
dead. Whatever speaks for that raises a score, every probe that is answered in time lowers it, and
all delays of probing grow with it.
"""

from typing import Final


class LocalHealth:
    """The score: 0 is well."""

    __slots__ = ("_score_max", "score")

    def __init__(self, score_max: int) -> None:
        self._score_max: Final = score_max
        self.score = 0

    @property
    def multiplier(self) -> int:
        """How many times longer everything takes."""
        return self.score + 1

    def worsen(self, count: int = 1) -> None:
        """Something speaks for this member's being slow."""
        self.score = min(self._score_max, self.score + count)

    def improve(self) -> None:
        """A probe was answered in time."""
        self.score = max(0, self.score - 1)
