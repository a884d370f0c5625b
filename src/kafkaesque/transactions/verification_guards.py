"""Transactions that the coordinator has to confirm before their first batch is appended.

Theory of operation. A batch may come late, after its transaction was ended: appended then, it would
open a transaction that nobody ends. So the coordinator is asked whether the transaction is under
way and knows of this partition. Between the question and the batch a marker may end the very
transaction, and a new one may begin that does not know of this partition; so the question carries a
guard, and every marker of the producer makes it void. Guards live in memory only: whoever leads
next asks anew.

Source: KIP-890, part 1.
"""

from typing import NamedTuple


class Guard(NamedTuple):
    """One question about a producer's transaction; no two are equal."""

    producer_id: int
    epoch: int
    serial: int


class VerificationGuards:
    """The questions about one partition that are open, or answered and not yet used."""

    __slots__ = ("_count_max", "_guards", "_serial", "_told")

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        #: By producer id, oldest first: the newest guard, and whether it was confirmed.
        self._guards: dict[int, tuple[Guard, bool]] = {}
        #: Those that were confirmed unasked, by producer id: for whose transactional id.
        self._told: dict[int, str] = {}
        self._serial = 0

    def demand(self, producer_id: int, epoch: int) -> Guard | None:
        """Return the guard to be confirmed; None if it has been.

        Where too many wait, the oldest is given up: its batch will be asked about again.
        """
        known = self._guards.get(producer_id)
        if known is not None and known[0].epoch == epoch:
            guard, is_confirmed = known
            return None if is_confirmed else guard
        if len(self._guards) >= self._count_max and known is None:
            self.drop(next(iter(self._guards)))
        self._serial += 1
        guard = Guard(producer_id, epoch, self._serial)
        self._guards[producer_id] = guard, False
        return guard

    def confirm(self, guard: Guard) -> bool:
        """The coordinator says that the transaction is under way; False if the guard is void."""
        known = self._guards.get(guard.producer_id)
        if known is None or known[0] != guard:
            return False
        self._guards[guard.producer_id] = guard, True
        return True

    def tell(self, producer_id: int, epoch: int, transactional_id: str) -> None:
        """The coordinator of a transactional id says unasked that a transaction is under way."""
        guard = self.demand(producer_id, epoch)
        if guard is not None:
            self.confirm(guard)
            self._told[producer_id] = transactional_id

    def expect(self, producer_id: int, transactional_id: str) -> None:
        """Somebody writes for this transactional id: what was told of another one is void."""
        if self._told.get(producer_id, transactional_id) != transactional_id:
            self.drop(producer_id)

    def drop(self, producer_id: int) -> None:
        """A marker of the producer was appended, or its transaction is open here."""
        self._guards.pop(producer_id, None)
        self._told.pop(producer_id, None)

    def clear(self) -> None:
        """Nothing is certain any more."""
        self._guards.clear()
        self._told.clear()
