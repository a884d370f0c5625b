"""What queues promise whatever dies, and how often it was broken."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from kafkaesque.sim.clients.findings import Findings

#: What is told of a run: the anomalies of `QueueChecks` that break it.
PROMISES: Final[Mapping[str, tuple[str, ...]]] = {
    "lost": ("lost message",),
    "locks ended early": ("lock ended early",),
    "attempts forgotten": ("forgotten attempt", "attempt given twice", "attempt went back"),
    "settled again": ("settled again",),
    "out of order in a group": ("group out of order", "group in two hands"),
    "dead letters lost or doubled": ("lost dead letter", "doubled dead letter"),
    "other problems": (),
}
_OTHER: Final = "other problems"
_PROMISE_OF: Final = {name: promise for promise, names in PROMISES.items() for name in names}
#: What all findings about queues begin with.
_PREFIX: Final = "queues: "


class CountedFindings(Findings):
    """Counts all that is found by the promise that it breaks."""

    def __init__(self) -> None:
        super().__init__()
        self._broken: Final = Counter[str]()

    def note(self, what: str) -> None:
        """Something that must never be was seen."""
        super().note(what)
        name = what.removeprefix(_PREFIX).partition(":")[0]
        self._broken[_PROMISE_OF.get(name, _OTHER)] += 1

    def broken(self) -> dict[str, int]:
        """Return how often each promise was broken; 0 for those that were kept."""
        return {promise: self._broken[promise] for promise in PROMISES}
