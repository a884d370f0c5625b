"""Messages that were taken and not sent: who gets one next was not sent it before.

A limit may be reached while a message is on its way, or its client be gone. The message goes back,
and its attempt has its number. Clients are told that a message comes again only if somebody has
had it, so this broker remembers which of its attempts nobody has. Another broker does not know, and
says that it may come again: clients have to bear that anyway.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from kafkaesque.model.ids import TopicId
from kafkaesque.queues.requests import Claim

#: Messages that are remembered; the oldest are forgotten first.
REMEMBERED_MAX: Final = 10_000


class Unsent:
    """Of all queues, on one broker."""

    __slots__ = ("_attempts",)

    def __init__(self) -> None:
        #: By log and offset: how many attempts nobody has had, and the last one.
        self._attempts: Final[OrderedDict[tuple[TopicId, int], tuple[int, int]]] = OrderedDict()

    def note(self, log_id: TopicId, claims: Iterable[Claim]) -> None:
        """Messages were taken, and go back without having been sent."""
        for claim in claims:
            for offset in range(claim.first, claim.end):
                count, last = self._attempts.pop((log_id, offset), (0, 0))
                if claim.attempt > last:
                    count += 1
                self._attempts[log_id, offset] = count, max(last, claim.attempt)
        while len(self._attempts) > REMEMBERED_MAX:
            self._attempts.popitem(last=False)

    def sent_before(self, log_id: TopicId, offset: int, attempt: int) -> int:
        """Return in how many attempts before this one somebody may have had a message."""
        if attempt == 1 or not self._attempts:
            return attempt - 1
        # Until it is settled it may go back once more, sent or not.
        count, last = self._attempts.get((log_id, offset), (0, 0))
        return max(0, attempt - 1 - (count if last < attempt else 0))
