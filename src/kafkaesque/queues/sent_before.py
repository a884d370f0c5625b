"""Which messages somebody may have been sent already, and which certainly not.

A message may be given out and come back without having been sent: its client may have no more by
then. It waits at its old place again. If nothing behind it was given out meanwhile, it comes in
order, and for the first time. Else others have overtaken it, and it is said to come again, which
allows it any order.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from kafkaesque.queues.runs import Run

#: What was given out last, and may still come back in any order: so many times.
GIVEN_OUT_MAX: Final = 8
#: Messages that are remembered as never sent; with more, all below `end` may have been.
RETURNED_MAX: Final = 10_000


def may_have_been_sent(offset: int, attempt: int, unsent_from: int) -> bool:
    """Tell of a message that was given out whether a client may have been sent it before.

    One that was overtaken counts as sent.
    """
    return attempt > 1 and offset < unsent_from


class SentBefore:
    """Of one queue, on its leader; a new leader takes all that is in the log for sent."""

    __slots__ = ("_given_out", "_returned", "end")

    def __init__(self, end: int) -> None:
        #: Nobody has been sent a message from this offset on.
        self.end = end
        #: The highest that were given out, rising; nothing between them was.
        self._given_out: Final[deque[Run]] = deque([Run(0, end)], GIVEN_OUT_MAX)
        #: Of those, what came back as never sent.
        self._returned: Final[set[int]] = set()

    def give_out(self, runs: Iterable[Run]) -> None:
        """Messages are on their way to a client."""
        for first, end in runs:
            if first < self.end:
                below = range(first, min(end, self.end))
                if not self._returned.issuperset(below):
                    # What is behind it may have been given out first: it lies between two runs.
                    self._given_out.clear()
                    self._given_out.append(Run(0, self.end))
                self._returned.difference_update(below)
            if end > self.end:
                self._given_out.append(Run(max(first, self.end), end))
                self.end = end

    def take_back(self, runs: Iterable[Run]) -> None:
        """Messages have come back that nobody has ever been sent."""
        given_out, returned = self._given_out, self._returned
        for first, end in runs:
            returned.update(range(first, min(end, self.end)))
        while self.end - 1 in returned:
            self.end -= 1
            returned.remove(self.end)
            if self.end == given_out[-1].first:
                given_out.pop()
                if not given_out:
                    # What was given out before is not known: it is taken for sent.
                    given_out.append(Run(0, self.end))
                self.end = given_out[-1].end
        given_out[-1] = Run(given_out[-1].first, self.end)
        if len(returned) > RETURNED_MAX:
            returned.clear()
