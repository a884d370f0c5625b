"""A queue in the simplest way: a dict of messages, changed by one decision after the other.

It reads a log from its beginning, and refuses what must never be decided: who is given a message
that is not ready, whose lock ends early, what is settled though nobody asked, and so on.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kafkaesque.model.batch import read_batch_header
from kafkaesque.model.message_headers import GROUP, IDENTITY, NOT_AFTER, NOT_BEFORE, PRIORITY
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.queues import decisions as d
from kafkaesque.queues.decisions import Decision, Reason
from kafkaesque.queues.policy import Policy
from kafkaesque.queues.runs import offsets_of
from kafkaesque.queues.state import Disuse, Place, State
from kafkaesque.tables.logged import LoggedKind, read_logged
from tests.unit.queues.queue_host import TABLE, Entry


@dataclass(slots=True)
class Held:
    """A message that lives."""

    place: Place
    #: 0 where bytes were not counted when it came.
    size: int
    arrived_ms: int
    priority: int = 0
    group: bytes = b""
    #: Its group in a queue that is fair among them.
    tenant: bytes = b""
    attempts: int = 0
    failures: int = 0
    owner: int = -1
    until_ms: int = 0
    #: True time until which the owner was promised it.
    promised_ms: int = 0
    not_before_ms: int = 0
    not_after_ms: int = 0
    transaction: int | None = None
    #: Before which offset it comes, since it went to the tail; 0: it did not.
    tail: int = 0
    was_at_tail: bool = False


@dataclass(slots=True)
class Asked:
    """What clients asked for, by (offset, attempt): without that it is not decided."""

    settled: set[tuple[int, int]] = field(default_factory=set)
    returned: set[tuple[int, int]] = field(default_factory=set)
    rejected: set[tuple[int, int]] = field(default_factory=set)
    is_purged: bool = False
    #: With what was in flight.
    is_flight_purged: bool = False


class Model:
    """See the module."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.disuse: Disuse | None = None
        self.policy = Policy()
        self.messages: dict[int, Held] = {}
        self.end = 0
        self.is_begun = False
        self.true_ms = 0
        self.lock_ms = self.wall_ms = self.arrived_ms = 0
        #: Each offset that was ever killed, by target and in order: numbers are its places.
        self.killed: dict[str, list[int]] = {}
        #: Those that their targets refused.
        self.not_moved: set[int] = set()
        self.gone: dict[int, Reason] = {}
        self.given: dict[tuple[int, int], int] = {}
        self.identities: dict[bytes, int] = {}
        self.sessions: dict[int, bytes] = {}

    def read(self, entry: Entry, true_ms: int) -> None:
        """Take an entry that was decided at a true time."""
        self.true_ms = true_ms
        header = read_batch_header(entry.data)
        logged = read_logged(header, entry.data)
        if logged is None:
            if self.is_begun:
                self._arrive(entry, decode_batch(entry.data, 1 << 20), header.max_timestamp_ms)
            return
        if logged.table != TABLE:
            return
        if logged.kind is LoggedKind.SNAPSHOT:
            self.is_begun = self.is_begun or not logged.parts_left
            return
        self.lock_ms, self.wall_ms = logged.lock_ms, logged.wall_ms
        for data in logged.decisions:
            self.decide(d.read_decision(data))

    def decide(self, decision: Decision) -> None:
        _DO[type(decision)](self, decision)

    # -- arrivals

    def _arrive(self, entry: Entry, records: list[Record], wall_ms: int) -> None:
        self.arrived_ms = max(self.arrived_ms, wall_ms)
        share = -(-len(entry.data) // len(records))
        is_plain = not any(record.headers for record in records)
        for number, record in enumerate(records):
            said = {name: value or b"" for name, value in record.headers}
            size = share if is_plain else max(1, len(record.value or b""))
            held = Held(Place.READY, size if self.policy.is_sized else 0, self.arrived_ms)
            held.priority = min(int(said.get(PRIORITY, 0)), self.policy.priorities - 1)
            held.group = said.get(GROUP, b"") if self.policy.is_ordered else b""
            held.tenant = said.get(GROUP, b"") if self.policy.is_fair_by_group else b""
            held.not_after_ms = int(said.get(NOT_AFTER, 0))
            delayed_to = wall_ms + self.policy.delay_ms if self.policy.delay_ms else 0
            held.not_before_ms = int(said.get(NOT_BEFORE, 0)) or delayed_to
            if held.not_before_ms > wall_ms:
                held.place = Place.DELAYED
            else:
                held.not_before_ms = 0
            self._check_identity(said.get(IDENTITY, b""), wall_ms)
            self.messages[entry.base_offset + number] = held
        self.end = entry.next_offset

    def _check_identity(self, identity: bytes, wall_ms: int) -> None:
        window_ms = self.policy.deduplication_ms
        if identity and window_ms:
            last_ms = self.identities.get(identity, -window_ms)
            assert last_ms + window_ms <= wall_ms, f"{identity!r} is there twice"
            self.identities[identity] = wall_ms

    # -- decisions

    def _each(self, runs: d.Runs, *places: Place) -> Iterator[tuple[int, Held]]:
        for offset in offsets_of(runs):
            held = self.messages.get(offset)
            assert held is not None, f"{offset} does not live: {self.gone.get(offset)}"
            assert not places or held.place in places, f"{offset} is {held.place.name}"
            yield offset, held

    def _assign(self, decision: d.Assign) -> None:
        assert self.disuse is None, "a queue of which it says that nobody uses it is used"
        assert decision.session == d.NOBODY or decision.session in self.sessions
        for offset, held in self._each(decision.runs, Place.READY):
            assert not self._is_group_held(held), f"the group of {offset} is held"
            assert not self._is_overtaking(offset, held), f"{offset} overtakes its group"
            held.was_at_tail, held.tail = held.tail > 0, 0
            held.attempts += 1
            held.failures += 1
            held.place, held.owner, held.until_ms = (
                Place.IN_FLIGHT,
                decision.session,
                decision.until_ms,
            )
            held.promised_ms = self.true_ms + decision.until_ms - self.lock_ms
            assert (offset, held.attempts) not in self.given, "an attempt is given twice"
            self.given[offset, held.attempts] = decision.session
        most = self.policy.in_flight_max
        in_flight = sum(each.place is Place.IN_FLIGHT for each in self.messages.values())
        assert not most or in_flight <= most, "too many are in flight"
        self._check_order(decision)

    def _check_order(self, decision: d.Assign) -> None:
        """What is left does not come before what was given out."""
        if self.policy.is_fair:
            return
        if self.policy.is_fair_by_group:
            if not any(held.group for held in self.messages.values()):
                self._check_turns(decision)
            return
        given = [(o, self.messages[o]) for o in offsets_of(decision.runs)]
        left = [
            (offset, held)
            for offset, held in self.messages.items()
            if held.place is Place.READY and not held.group
        ]
        least = min(held.priority for _, held in given)
        assert all(held.priority <= least for _, held in left), "a higher priority waits"
        for priority in {held.priority for _, held in given}:
            last = [o for o, held in given if held.priority == priority and not held.was_at_tail]
            first = [o for o, held in left if held.priority == priority and not held.tail]
            assert not last or not first or max(last) < min(first), "one is overtaken"

    def _check_turns(self, decision: d.Assign) -> None:
        """None was given a message while another that waits had fewer in flight."""
        load = Counter(
            held.tenant for held in self.messages.values() if held.place is Place.IN_FLIGHT
        )
        waiting = {held.tenant for held in self.messages.values() if held.place is Place.READY}
        for offset in offsets_of(decision.runs):
            tenant = self.messages[offset].tenant
            if tenant:
                fewest = min((load[each] for each in waiting if each), default=load[tenant])
                assert load[tenant] <= fewest + 1, "a group has more than its share"

    def _is_group_held(self, held: Held) -> bool:
        return bool(held.group) and any(
            other.group == held.group
            and (
                other.place is Place.IN_FLIGHT
                or (other.place is Place.DELAYED and other.attempts > 0)
            )
            for other in self.messages.values()
        )

    def _is_overtaking(self, offset: int, held: Held) -> bool:
        return bool(held.group) and any(
            each < offset and other.group == held.group and other.place is Place.READY
            for each, other in self.messages.items()
        )

    def _extend(self, decision: d.Extend) -> None:
        for _, held in self._each(decision.runs, Place.IN_FLIGHT):
            held.until_ms = decision.until_ms
            held.promised_ms = self.true_ms + decision.until_ms - self.lock_ms

    def _release(self, decision: d.Release) -> None:
        for offset, held in self._each(decision.runs, Place.IN_FLIGHT):
            self._check_end_of_flight(offset, held, self.asked.returned)
            assert held.transaction is None, "what is staged is not given back"
            held.failures -= not decision.is_failed
            self._ready(held)
            if decision.due_ms:
                held.place, held.not_before_ms = Place.DELAYED, decision.due_ms
            elif decision.to_tail:
                held.tail = self.end

    def _check_end_of_flight(self, offset: int, held: Held, asked: set[tuple[int, int]]) -> None:
        """A message in flight is taken from its owner if he asks, or is gone, or in time."""
        if held.place is not Place.IN_FLIGHT or (offset, held.attempts) in asked:
            return
        assert held.until_ms != d.NEVER, f"{offset} is locked for ever"
        assert self.lock_ms >= held.until_ms, f"the lock of {offset} ends early"
        assert self.true_ms >= held.promised_ms, f"the lock of {offset} ends early in truth"

    def _ready(self, held: Held) -> None:
        held.place, held.owner, held.until_ms = Place.READY, -1, 0
        held.not_before_ms, held.transaction, held.tail = 0, None, 0

    def _due(self, decision: d.Due) -> None:
        due = sorted(
            (held.not_before_ms, offset)
            for offset, held in self.messages.items()
            if held.place is Place.DELAYED and held.not_before_ms <= decision.until_ms
        )
        assert decision.until_ms <= self.wall_ms, "delays end early"
        for _, offset in due[: decision.count_max]:
            self._ready(self.messages[offset])

    def _remove(self, decision: d.Remove) -> None:
        for offset, held in self._each(decision.runs):
            self._check_reason(decision.reason, offset, held)
            self._go(offset, decision.reason)

    def _check_reason(self, reason: Reason, offset: int, held: Held) -> None:
        assert held.transaction is None, "what is staged is not taken away"
        assert held.place is not Place.MOVING
        match reason:
            case Reason.SETTLED:
                assert (offset, held.attempts) in self.asked.settled, f"nobody settled {offset}"
            case Reason.EXPIRED:
                self._check_end_of_flight(offset, held, self.asked.returned)
                assert held.place is not Place.PARKED
                assert self._is_life_over(held), f"the life of {offset} ends early"
                before = held.failures - (held.place is Place.IN_FLIGHT)
                assert not (self.policy.keeps_begun and before > 0), f"{offset} has begun"
            case Reason.TOO_LONG:
                assert held.place in (Place.READY, Place.DELAYED)
                assert self._is_too_long(), f"{offset} is dropped though there is room"
            case Reason.REJECTED:
                assert (offset, held.attempts) in self.asked.rejected
            case Reason.ATTEMPTS:
                self._check_end_of_flight(offset, held, self.asked.returned)
                assert 0 < self.policy.attempts_max <= held.failures, f"{offset} is given up early"
            case Reason.PURGED:
                assert self.asked.is_flight_purged
                assert held.place is Place.IN_FLIGHT
            case Reason.REDRIVEN:
                assert held.place in (Place.READY, Place.PARKED)

    def _is_life_over(self, held: Held) -> bool:
        ttl_ms = self.policy.ttl_ms
        return bool(
            (held.not_after_ms and held.not_after_ms <= self.wall_ms)
            or (ttl_ms and held.arrived_ms + ttl_ms <= self.wall_ms)
        )

    def _is_too_long(self) -> bool:
        places = (Place.READY, Place.DELAYED) + (Place.IN_FLIGHT,) * self.policy.counts_in_flight
        counted = [held for held in self.messages.values() if held.place in places]
        most, most_bytes = self.policy.messages_max, self.policy.bytes_max
        # What came before bytes were counted has some size.
        is_guessed = most_bytes > 0 and not all(held.size for held in counted)
        size = sum(held.size for held in counted)
        return is_guessed or bool(
            (self.policy.holds_nothing and counted)
            or (most and len(counted) > most)
            or (most_bytes and size > most_bytes)
        )

    def _kill(self, decision: d.Kill) -> None:
        for offset, held in self._each(decision.runs):
            self._check_reason(decision.reason, offset, held)
            self._ready(held)
            held.place = Place.MOVING
            is_again = offset in self.killed.get(decision.target, ())
            assert not is_again or offset in self.not_moved, f"{offset} is killed twice"
            self.killed.setdefault(decision.target, []).append(offset)

    def _bury(self, decision: d.Bury) -> None:
        for offset, _ in self._each(decision.runs, Place.MOVING):
            self._go(offset, Reason.REDRIVEN)

    def _park(self, decision: d.Park) -> None:
        for offset, held in self._each(decision.runs):
            if held.place is Place.MOVING:
                self.not_moved.add(offset)
            else:
                self._check_reason(decision.reason, offset, held)
            self._ready(held)
            held.place = Place.PARKED

    def _unpark(self, decision: d.Unpark) -> None:
        for _, held in self._each(decision.runs, Place.PARKED):
            self._ready(held)
            held.failures = 0

    def _purge(self, decision: d.Purge) -> None:
        assert self.asked.is_purged
        stays = (Place.IN_FLIGHT, Place.MOVING)
        for offset in [each for each, held in self.messages.items() if held.place not in stays]:
            if offset < decision.end:
                self._go(offset, Reason.PURGED)

    def _go(self, offset: int, reason: Reason) -> None:
        del self.messages[offset]
        self.gone[offset] = reason

    def _configure(self, decision: d.Configure) -> None:
        self.policy = decision.policy

    def _open_session(self, decision: d.OpenSession) -> None:
        assert decision.session not in self.sessions
        self.sessions[decision.session] = decision.identity

    def _close_session(self, decision: d.CloseSession) -> None:
        assert all(held.owner != decision.session for held in self.messages.values())
        del self.sessions[decision.session]

    def _stage(self, decision: d.Stage) -> None:
        for _, held in self._each(decision.runs, Place.IN_FLIGHT):
            assert held.transaction is None
            held.transaction, held.until_ms = decision.transaction, 0

    def _finish(self, decision: d.Finish) -> None:
        for offset, held in list(self.messages.items()):
            if held.transaction != decision.transaction:
                continue
            if decision.is_committed:
                self._go(offset, Reason.SETTLED)
            else:
                self._ready(held)
                held.failures -= 1

    def _redrive(self, decision: d.Redrive) -> None:
        pass

    def _note_disuse(self, decision: d.NoteDisuse) -> None:
        assert all(each.place is not Place.IN_FLIGHT for each in self.messages.values())
        self.disuse = Disuse(decision.unused_ms, decision.wall_ms, decision.step_ms)

    def _note_use(self, _: d.NoteUse) -> None:
        assert self.disuse is not None, "a use was written down twice"
        self.disuse = None

    # -- comparison

    def compare(self, state: State) -> None:
        """A table's state is this one, and what it counts is what a recount gives."""
        assert state.disuse == self.disuse
        assert list(state.live.offsets()) == sorted(self.messages)
        assert state.floor == min(self.messages, default=state.end)
        for offset, held in self.messages.items():
            found = (
                state.place_of(offset),
                state.attempts[offset],
                state.failures_of(offset),
                state.ready.priorities[offset],
                state.delayed[offset],
                state.expiry[offset],
                state.owners[offset] - 1,
                state.locks[offset],
                state.staged.get(offset),
            )
            assert found == (
                held.place,
                held.attempts,
                held.failures,
                held.priority,
                held.not_before_ms,
                held.not_after_ms,
                held.owner,
                held.until_ms,
                held.transaction,
            ), offset
        self._compare_counts(state)

    def _compare_counts(self, state: State) -> None:
        by_place = dict.fromkeys(Place, 0)
        for held in self.messages.values():
            by_place[held.place] += 1
        assert state.ready_count == by_place[Place.READY]
        assert state.delayed.count == by_place[Place.DELAYED]
        assert state.flight_count == by_place[Place.IN_FLIGHT]
        assert len(state.moving) == by_place[Place.MOVING]
        for offset, moving in state.moving.items():
            numbered = dict(enumerate(self.killed[moving.target]))
            assert numbered.get(moving.sequence) == offset, "a number is wrong"
        ready = sorted(
            [
                *state.ready.all(),
                *state.group_order.waiting(),
                *state.fair_groups.sorted_offsets(),
            ]
        )
        assert ready == sorted(
            offset for offset, held in self.messages.items() if held.place is Place.READY
        )
        if not state.group_order.groups and not state.fair_groups.groups:
            assert list(state.ready.in_order()) == self._in_order()
        self._compare_bytes(state)

    def _in_order(self) -> list[int]:
        """Return the ready messages as they are to be given out."""
        ready = {o: held for o, held in self.messages.items() if held.place is Place.READY}
        return sorted(
            ready,
            key=lambda o: (-ready[o].priority, ready[o].tail or o, ready[o].tail == 0, o),
        )

    def _compare_bytes(self, state: State) -> None:
        sizes = {offset: state.size_of(offset, offset + 1) for offset in self.messages}
        for places, counted in (
            ((Place.READY, Place.DELAYED), state.waiting_bytes),
            ((Place.IN_FLIGHT,), state.flight_bytes),
        ):
            assert counted == sum(
                sizes[offset] for offset, held in self.messages.items() if held.place in places
            )
        for offset, held in self.messages.items():
            if state.sizes[offset]:
                assert state.sizes[offset] == held.size


_DO: dict[type[Decision], Callable[[Model, Any], None]] = {
    d.Assign: Model._assign,
    d.Extend: Model._extend,
    d.Release: Model._release,
    d.Due: Model._due,
    d.Remove: Model._remove,
    d.Kill: Model._kill,
    d.Bury: Model._bury,
    d.Park: Model._park,
    d.Unpark: Model._unpark,
    d.Purge: Model._purge,
    d.Configure: Model._configure,
    d.OpenSession: Model._open_session,
    d.CloseSession: Model._close_session,
    d.Stage: Model._stage,
    d.Finish: Model._finish,
    d.Redrive: Model._redrive,
    d.NoteDisuse: Model._note_disuse,
    d.NoteUse: Model._note_use,
}
