"""A histogram in fixed buckets: to count a value costs one search and two additions."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

#: Upper bounds for what takes from a tenth of a millisecond to ten seconds, in seconds.
LATENCY_BOUNDS_S: Final = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
)
NS_PER_S: Final = 1_000_000_000


class Histogram:
    """How many values lay in which bucket; a value on a bound belongs below it."""

    __slots__ = ("_bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float] = LATENCY_BOUNDS_S) -> None:
        """`bounds` ascend; above the last one there is one more bucket."""
        self._bounds: Final = tuple(bounds)
        #: Values in each bucket, not cumulated.
        self.counts: Final = [0] * (len(self._bounds) + 1)
        self.sum: float = 0

    @property
    def bounds(self) -> tuple[float, ...]:
        """The upper bounds of all buckets but the last."""
        return self._bounds

    @property
    def count(self) -> int:
        """How many values there were."""
        return sum(self.counts)

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    def observe_ns(self, duration_ns: int) -> None:
        """Count a duration in a histogram of seconds."""
        self.observe(duration_ns / NS_PER_S)
