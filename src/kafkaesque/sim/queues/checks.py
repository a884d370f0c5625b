"""What must hold of everything that clients of queues have seen, whatever went wrong.

The checker knows what clients know, and no engine. What it finds has one of these names: *unsent*,
*refused put*, *inconsistent offset*, *doubled message*, *doubled identity*, *lost message*,
*attempt given twice*, *attempt went back*, *forgotten attempt*, *made-up failure*, *over the
limit*, *settled again*, *lock ended early*, *group out of order*, *group in two hands*, *lost dead
letter*, *doubled dead letter*, *wrong death*, *too early*, *too late*, *out of order*,
*wrong count*.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final

from kafkaesque.broker.queues.whole_numbers import whole_number
from kafkaesque.sim.queues.history import (
    FOREVER,
    Act,
    Delivery,
    Outcome,
    QueueHistory,
    QueueSpec,
    Sent,
    What,
)

#: Clocks run at most so many times as fast as true time.
RATE_MAX: Final = 1.25
#: So long a broker may take from its decision to its answer, by the wall's clock.
SLACK_MS: Final = 1_000
#: Why a message is removed that is somewhere else now.
_MOVED: Final = ("attempts", "rejected", "expired", "too_long")
_EMPTY: Final = ("ready", "delayed", "in_flight", "parked", "moving")


def held_until(delivery: Delivery) -> float:
    """Return until when a message is surely nobody else's, by what its holder knows."""
    if not delivery.lock_ms or delivery.let_go_ms < FOREVER:
        return delivery.answered_ms
    until = delivery.sent_ms + delivery.lock_ms / RATE_MAX
    in_doubt = ended = FOREVER
    for act in delivery.acts:
        due = act.sent_ms + act.lock_ms / RATE_MAX
        if act.what is not What.EXTEND:
            ended = min(ended, act.sent_ms)
        elif act.outcome is Outcome.DONE:
            until = due
        else:
            in_doubt = min(in_doubt, due)
    return min(until, in_doubt, ended)


def done(delivery: Delivery, *whats: What) -> Iterator[Act]:
    """Return what was surely done."""
    return (act for act in delivery.acts if act.what in whats and act.outcome is Outcome.DONE)


def asked(delivery: Delivery, *whats: What) -> Iterator[Act]:
    """Return what may have been done."""
    return (act for act in delivery.acts if act.what in whats)


class QueueChecks:
    """Looks at a whole history, once it has ended and all queues are empty."""

    def __init__(
        self, history: QueueHistory, note: Callable[[str], None], *, do_clocks_tell: bool
    ) -> None:
        """Where clocks jump or run at other rates, `do_clocks_tell` is not so."""
        self._history: Final = history
        self._note: Final = note
        self._do_clocks_tell: Final = do_clocks_tell
        self._by_place: Final[dict[tuple[str, int, int], list[Delivery]]] = defaultdict(list)
        self._by_value: Final[dict[tuple[str, bytes], list[Delivery]]] = defaultdict(list)
        for each in history.deliveries:
            self._by_place[each.queue, each.partition, each.offset].append(each)
            self._by_value[each.queue, each.value].append(each)

    def check(self) -> None:
        """Note what is wrong."""
        for delivery in self._history.deliveries:
            if not self._history.specs[delivery.queue].topic:
                self._check_origin(delivery)
        for sent in self._history.sent.values():
            self._check_offsets(sent)
            self._check_fate(sent)
        for deliveries in self._by_place.values():
            deliveries.sort(key=lambda each: each.attempt)
            self._check_attempts(deliveries)
        for spec in self._history.specs.values():
            if spec.is_ordered:
                self._check_groups(spec)
            if spec.topic:
                self._check_records(spec)
            self._check_drained(spec)
            self._check_counts(spec)

    # -- where messages come from

    def _origin(self, delivery: Delivery) -> Sent | None:
        queue = delivery.deaths[0][0] if delivery.deaths else delivery.queue
        return self._history.sent.get((queue, delivery.value))

    def _check_origin(self, delivery: Delivery) -> None:
        sent = self._origin(delivery)
        if sent is None or sent.sent_ms > delivery.answered_ms:
            self._note(f"unsent: {_show(delivery)}")
            return
        if sent.outcome is Outcome.REFUSED:
            self._note(f"refused put: {_show(delivery)} is there, and its publisher was refused")
        if delivery.deaths:
            self._check_death(delivery)
        elif self._do_clocks_tell:
            if delivery.answered_wall_ms < sent.not_before_ms:
                self._note(f"too early: {_show(delivery)}, not before {sent.not_before_ms}")
            if sent.not_after_ms and delivery.sent_wall_ms > sent.not_after_ms + SLACK_MS:
                self._note(f"too late: {_show(delivery)}, not after {sent.not_after_ms}")

    def _check_death(self, delivery: Delivery) -> None:
        queue, reason, attempts = delivery.deaths[-1]
        spec = self._history.specs.get(queue)
        before = self._by_value.get((queue, delivery.value), [])
        known = max((each.attempt for each in before), default=0)
        if spec is None or spec.dead_letters_to != delivery.queue:
            self._note(f"wrong death: {_show(delivery)} does not come from {queue}")
        elif any(True for each in before for _ in done(each, What.SETTLE)):
            self._note(f"settled again: {_show(delivery)} was settled in {queue}")
        elif attempts < known:
            self._note(f"wrong death: {_show(delivery)} after {attempts} attempts, not {known}")
        elif reason == "rejected":
            if not any(True for each in before for _ in asked(each, What.REJECT)):
                self._note(f"wrong death: {_show(delivery)} was never rejected")
        elif reason == "attempts":
            is_rejected = any(True for each in before for _ in done(each, What.REJECT))
            if is_rejected or not spec.limit or attempts < spec.limit:
                self._note(f"wrong death: {_show(delivery)} after {attempts} attempts")
        elif reason != "expired" or not spec.has_lives:
            self._note(f"wrong death: {_show(delivery)} for {reason}")

    def _check_offsets(self, sent: Sent) -> None:
        spec = self._history.specs[sent.queue]
        # Of a queue of several partitions publishers are told numbers in the whole.
        seen = {
            whole_number(each.partition, each.offset)
            for each in self._by_value.get((sent.queue, sent.value), [])
        }
        what = "doubled identity" if spec.is_unique else "doubled message"
        if len(sent.offsets) > 1 or len(seen) > 1:
            where = f"{sorted(seen)} of {sent.queue}, confirmed at {sorted(sent.offsets)}"
            self._note(f"{what}: {sent.value[:40]!r} at {where}")
        elif sent.offsets and seen and sent.offsets != seen:
            self._note(
                f"inconsistent offset: {sent.value[:40]!r} of {sent.queue} at {sorted(seen)}, and "
                f"confirmed at {sorted(sent.offsets)}"
            )
        queue = spec.dead_letters_to
        while queue:
            dead = {each.offset for each in self._by_value.get((queue, sent.value), [])}
            if len(dead) > 1:
                self._note(f"doubled dead letter: {sent.value[:40]!r} at {sorted(dead)} of {queue}")
            queue = self._history.specs[queue].dead_letters_to

    def _check_records(self, spec: QueueSpec) -> None:
        """All that is acknowledged in a topic is given out, and each record at its own place."""
        seen = {
            (each.partition, each.value): each.offset
            for each in self._history.deliveries
            if each.queue == spec.name
        }
        for place, offset in self._history.records[spec.name].items():
            found = seen.get(place)
            if found is None:
                self._note(f"lost message: {place} at {offset} of {spec.topic}")
            elif found != offset:
                self._note(f"inconsistent offset: {place} is at {offset}, and came at {found}")

    # -- what becomes of them

    def _check_fate(self, sent: Sent) -> None:
        """A message that is in a queue stays until there is a reason why it does not."""
        if sent.outcome is not Outcome.DONE:
            if not self._by_value.get((sent.queue, sent.value)):
                return
        queue, is_dead = sent.queue, False
        while True:
            spec = self._history.specs[queue]
            deliveries = self._by_value.get((queue, sent.value), [])
            is_settled = any(True for each in deliveries for _ in asked(each, What.SETTLE))
            is_purged = any(
                purge.queue == queue and purge.answered_ms >= sent.sent_ms
                for purge in self._history.purges
            )
            is_there = (queue, sent.value) in self._history.waiting
            if is_settled or is_purged or is_there or spec.has_lives:
                return
            following = self._next_seen(spec, sent.value)
            if not following:
                break
            queue, is_dead = following, True
        is_dead = is_dead or any(True for each in deliveries for _ in done(each, What.REJECT))
        what = "lost dead letter" if is_dead else "lost message"
        given = [(each.attempt, [act.what.name for act in each.acts]) for each in deliveries]
        self._note(
            f"{what}: {sent.value[:40]!r} of {sent.queue}, put at {sent.sent_ms:.0f}, confirmed at "
            f"{sorted(sent.offsets)}, last seen in {queue}: {given}"
        )

    def _next_seen(self, spec: QueueSpec, value: bytes) -> str:
        """Return the next queue in which a dead letter was seen; empty if there is none.

        It may have gone through one unseen: whoever took it there never got the answer.
        """
        queue = spec.dead_letters_to
        while queue and not self._by_value.get((queue, value)):
            queue = self._history.specs[queue].dead_letters_to
        return queue

    # -- attempts and locks

    def _check_attempts(self, deliveries: list[Delivery]) -> None:
        """They are of one message in one queue, by attempt."""
        for one, other in pairwise(deliveries):
            if one.attempt == other.attempt:
                self._note(f"attempt given twice: {_show(one)} and {_show(other)}")
            elif other.answered_ms < one.sent_ms:
                self._note(f"attempt went back: {_show(other)}, then {_show(one)}")
        limit = self._history.specs[deliveries[0].queue].limit
        ended: Delivery | None = None
        failed = excused = 0
        for at, each in enumerate(deliveries):
            if ended is not None:
                self._note(f"settled again: {_show(ended)} was ended, then {_show(each)}")
            if each.failures < failed:
                before = [(d.attempt, [a.what.name for a in d.acts]) for d in deliveries[:at]]
                self._note(f"forgotten attempt: {_show(each)}, and {failed} failed: {before}")
            if each.failures > each.attempt - 1 - excused:
                self._note(f"made-up failure: {_show(each)}, and {excused} were given back")
            if limit and each.failures >= limit:
                self._note(f"over the limit: {_show(each)}, and {limit} may fail")
            self._check_lock(each, deliveries[at + 1 :])
            if any(done(each, What.SETTLE)) or self._is_rejected(each):
                ended = each
            if any(asked(each, What.REJECT)):
                # It was parked, perhaps, and begins anew.
                failed = excused = 0
                continue
            failed += not each.is_left and not any(asked(each, What.RELEASE))
            excused += any(done(each, What.RELEASE))

    def _is_rejected(self, delivery: Delivery) -> bool:
        """Whether a message was made a dead letter; what is parked may come back."""
        goes = bool(self._history.specs[delivery.queue].dead_letters_to)
        return goes and any(done(delivery, What.REJECT))

    def _check_lock(self, delivery: Delivery, later: list[Delivery]) -> None:
        until = held_until(delivery)
        for each in later:
            if each.answered_ms < until:
                self._note(
                    f"lock ended early: {_show(delivery)} was held until {until:.0f}; {_show(each)}"
                )

    # -- order

    def _check_groups(self, spec: QueueSpec) -> None:
        by_group: dict[bytes, list[Delivery]] = defaultdict(list)
        for each in self._history.deliveries:
            sent = self._history.sent.get((spec.name, each.value))
            if each.queue == spec.name and sent is not None and sent.group:
                by_group[sent.group].append(each)
        for deliveries in by_group.values():
            for one in deliveries:
                until = held_until(one)
                for other in deliveries:
                    if one.offset == other.offset:
                        continue
                    is_same_answer = (one.sent_ms, one.answered_ms) == (
                        other.sent_ms,
                        other.answered_ms,
                    )
                    if one.offset < other.offset and other.answered_ms < one.sent_ms:
                        self._note(f"group out of order: {_show(other)}, then {_show(one)}")
                    elif one.answered_ms < other.sent_ms and other.answered_ms < until:
                        self._note(
                            f"group in two hands: {_show(one)} until {until:.0f}, {_show(other)}"
                        )
                    elif is_same_answer and one.offset < other.offset:
                        self._note(f"group in two hands: {_show(one)} and {_show(other)}")

    def _check_drained(self, spec: QueueSpec) -> None:
        """What waits comes in the queue's order, to one consumer when nothing else goes on."""
        ranks = [
            [self._rank(spec, each) for each in answer]
            for answer in self._history.drained.get(spec.name, [])
        ]
        for one, other in pairwise(ranks):
            if max(one) > min(other):
                self._note(f"out of order: {spec.name} gave {max(one)} before {min(other)}")

    def _rank(self, spec: QueueSpec, delivery: Delivery) -> tuple[int, int]:
        sent = self._history.sent.get((spec.name, delivery.value))
        priority = 0 if sent is None else min(sent.priority, spec.priorities - 1)
        return (-priority, delivery.offset) if spec.is_plain else (-priority, 0)

    # -- numbers

    def _check_counts(self, spec: QueueSpec) -> None:
        counts = self._history.counts.get(spec.name)
        if counts is None:
            self._note(f"wrong count: {spec.name} was not counted")
            return
        left = {name: counts[name] for name in _EMPTY if counts[name]}
        if left:
            self._note(f"wrong count: {spec.name} was emptied, and has {left}")
        removed = {
            name.removeprefix("removed_"): count
            for name, count in counts.items()
            if name.startswith("removed_")
        }
        if counts["arrived"] != sum(removed.values()):
            self._note(f"wrong count: {counts['arrived']} came to {spec.name}, {removed} went")
        places = [each for (queue, *_), each in self._by_place.items() if queue == spec.name]
        if counts["arrived"] < len(places):
            self._note(f"wrong count: {counts['arrived']} came to {spec.name}, not {len(places)}")
        for name, acts in (("least", done), ("most", asked)):
            settled = sum(any(any(acts(d, What.SETTLE)) for d in place) for place in places)
            is_wrong = (
                removed["settled"] < settled if acts is done else removed["settled"] > settled
            )
            if is_wrong:
                self._note(
                    f"wrong count: {removed['settled']} of {spec.name} were settled, at {name} "
                    f"{settled}"
                )
        if spec.dead_letters_to:
            self._check_moved(spec, sum(removed[name] for name in _MOVED))

    def _check_moved(self, spec: QueueSpec, moved: int) -> None:
        following = spec.dead_letters_to
        arrived, passed = 0, set[bytes]()
        for (queue, *_), (first, *_) in self._by_place.items():
            *before, last = (death[0] for death in first.deaths or (("",),))
            arrived += queue == following and last == spec.name
            # It was in the following queue, too, whether anybody has seen it there or not.
            if spec.name in before and not self._by_value.get((following, first.value)):
                passed.add(first.value)
        arrived += len(passed)
        if moved != arrived:
            what = "lost dead letter" if moved > arrived else "doubled dead letter"
            self._note(f"{what}: {moved} left {spec.name}, {arrived} came")


def _show(each: Delivery) -> str:
    return (
        f"{each.value[:40]!r} at {each.offset} of {each.queue}, attempt {each.attempt} after "
        f"{each.failures} failures, asked for at {each.sent_ms:.0f}, came at {each.answered_ms:.0f}"
    )
