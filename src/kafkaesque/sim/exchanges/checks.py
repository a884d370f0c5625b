"""What must never be seen, from what clients saw; nothing of how brokers do it.

*Lost*: confirmed and routed, and never delivered from one of its queues. *Acknowledged again*: a
delivery after the commit of its acknowledgement was answered. *Out of order*: a message that is
delivered for the first time after a later one of its channel, from the same queue. *Doubled*:
twice delivered from a queue for the first time. *Unreturned*: confirmed without a queue, and not
returned, though that was asked for. *Wrong queue*, *altered*, *made up*: what nobody has sent so.
Returns after their confirms are noted as they come (`history.py`).

Deliveries that are flagged as redelivered may come in any order, and any number of times: a
consumer has died with them.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from kafkaesque.sim.exchanges.history import ExchangeHistory, Given, Outcome, Sent
from kafkaesque.sim.exchanges.topology import QUEUES


class ExchangeChecks:
    """Looks at a history whose queues have been emptied."""

    def __init__(self, history: ExchangeHistory) -> None:
        self._history: Final = history
        self._note: Final = history.note

    def check(self) -> None:
        """Note all that is wrong."""
        history = self._history
        seen: dict[str, set[bytes]] = {name: set() for name in QUEUES}
        for given in history.given:
            sent = history.sent.get(given.body)
            if sent is None:
                self._note(f"made up: {given.body!r} from {given.queue}")
                continue
            self._check_way(given, sent)
            seen[given.queue].add(given.body)
        for body, sent in history.sent.items():
            self._check_end(body, sent, seen)
        self._check_settled()
        self._check_order()

    def _check_way(self, given: Given, sent: Sent) -> None:
        way = sent.way
        if given.queue not in way.queues:
            self._note(f"wrong queue: {given.body!r} from {given.queue}; {way}")
        if (given.exchange, given.key) != (way.exchange, way.key):
            self._note(f"altered: {given.body!r} from {given.exchange!r} by {given.key!r}; {way}")

    def _check_end(self, body: bytes, sent: Sent, seen: dict[str, set[bytes]]) -> None:
        if sent.outcome is not Outcome.CONFIRMED:
            return
        missing = [name for name in sorted(sent.way.queues) if body not in seen[name]]
        if missing:
            self._note(f"lost: {body!r} was confirmed, and never came from {missing}")
        if not sent.way.queues and sent.is_mandatory and not sent.is_returned:
            self._note(f"unreturned: {body!r} was confirmed, has no queue, and did not come back")

    def _check_settled(self) -> None:
        settled: dict[tuple[str, bytes], int] = {}
        for given in self._history.given:
            place = given.queue, given.body
            at = settled.get(place)
            if at is not None and given.at > at:
                self._note(f"acknowledged again: {given.body!r} from {given.queue}")
            if given.settled_at:
                settled[place] = min(given.settled_at, settled.get(place, given.settled_at))

    def _check_order(self) -> None:
        first: set[tuple[str, bytes]] = set()
        last: dict[tuple[str, str, str], int] = defaultdict(lambda: -1)
        for given in self._history.given:
            sent = self._history.sent.get(given.body)
            if sent is None or given.is_redelivered:
                continue
            if (given.queue, given.body) in first:
                self._note(f"doubled: {given.body!r} from {given.queue}")
            first.add((given.queue, given.body))
            # Two consumers see what was handed out in order as their networks let them.
            who = given.session if QUEUES[given.queue] > 1 else ""
            place = given.queue, who, sent.session
            if sent.number < last[place]:
                self._note(f"out of order: {given.body!r} from {given.queue} after {last[place]}")
            last[place] = max(last[place], sent.number)
