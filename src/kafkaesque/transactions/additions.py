"""Partitions that wait to be added to a transaction, because something else is under way.

That is the end of the transaction before, or another partition that is added: over in milliseconds.
A client that is told to come again takes 20 of them (librdkafka) or 100 and more, for each
transaction; so it is answered when that is over, and told to come again only if it takes long.
"""

from collections.abc import Callable

from kafkaesque.transactions.errors import TransactionError
from kafkaesque.transactions.events import AddedPartitions

#: Takes the outcome of one addition, the same for all its partitions.
OnAdded = Callable[[TransactionError], None]


class Addition:
    """Partitions that somebody wants to be in a transaction; it is answered once."""

    __slots__ = ("added", "answer", "connection", "deadline_ms")

    def __init__(self, added: AddedPartitions, connection: int, answer: OnAdded) -> None:
        self.added = added
        self.connection = connection
        self.answer = answer
        self.deadline_ms = 0


class WaitingAdditions:
    """Additions that wait for their transactional id to be free."""

    __slots__ = ("_by_id", "_count", "_wait_ms")

    def __init__(self, wait_ms: int) -> None:
        self._wait_ms = wait_ms
        #: All of one id beside one another. Each waits equally long, so the first of an id is the
        #: first whose time is up, and the ids stand in the order of their first ones.
        self._by_id: dict[str, list[Addition]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, addition: Addition, now_ms: int) -> None:
        """Have it wait; it is answered when its time is up, unless it is taken before."""
        addition.deadline_ms = now_ms + self._wait_ms
        self._by_id.setdefault(addition.added.transactional_id, []).append(addition)
        self._count += 1

    def take(self, transactional_id: str) -> list[Addition]:
        """Take out all that wait for an id, oldest first."""
        taken = self._by_id.pop(transactional_id, [])
        self._count -= len(taken)
        return taken

    def expire(self, now_ms: int) -> None:
        """Tell those to come again whose time is up, and whoever came after them for their ids."""
        while self._by_id:
            first = next(iter(self._by_id))
            if self._by_id[first][0].deadline_ms > now_ms:
                return
            answer_all(self.take(first), TransactionError.CONCURRENT_TRANSACTIONS)

    def abandon(self, error: TransactionError) -> None:
        """Give up waiting, because this coordinator is one no more."""
        while self._by_id:
            answer_all(self.take(next(iter(self._by_id))), error)

    def next_deadline_ms(self) -> int | None:
        """Return when the first wait ends at the latest, or None."""
        if not self._by_id:
            return None
        return next(iter(self._by_id.values()))[0].deadline_ms


def answer_all(additions: list[Addition], error: TransactionError) -> None:
    """Give all of them the same answer."""
    for each in additions:
        each.answer(error)
