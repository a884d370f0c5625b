"""A queue's state as bytes: equal states give equal bytes.

What can be concluded is not written: that a message is ready follows from its being nowhere else.
So a million plain messages that wait take a few hundred bytes.
"""

from kafkaesque.queues.arrival import Details
from kafkaesque.queues.column import Column
from kafkaesque.queues.decisions import Reason
from kafkaesque.queues.offset_set import OffsetSet
from kafkaesque.queues.policy import read_policy, write_policy
from kafkaesque.queues.ready import Placed
from kafkaesque.queues.runs import BadDecision, Reader, Run, Writer, runs_of
from kafkaesque.queues.state import Disuse, Moving, Pending, State

VERSION = 1
#: Most queues are empty when nobody uses them; nobody changes it.
_NOTHING = OffsetSet()
_NUMBERS = (
    "end",
    "size_assumed",
    "waiting_bytes",
    "arrived_count",
    "arrived_bytes",
    "session_last",
    "redrive_end",
    "seek_count",
)


def write_state(state: State) -> bytes:
    """Return a state as bytes."""
    writer = Writer()
    writer.number(VERSION)
    # First, so that what lives is found without reading the rest.
    state.live.write(writer)
    write_policy(state.policy, writer)
    for name in _NUMBERS:
        writer.number(getattr(state, name))
    writer.text(state.redrive_target)
    for column in _columns(state):
        column.write(writer)
    for timetable in (state.delayed, state.expiry, state.locks):
        timetable.write(writer)
    _write_tables(state, writer)
    state.ages.write(writer)
    state.identities.write(writer)
    groups, disuse = state.fair_groups.groups, state.disuse
    if state.pending or groups or disuse:
        _write_pending(state, writer)
    if groups or disuse:
        groups.write(writer)
    if disuse:
        for number in disuse:
            writer.number(number)
    return bytes(writer.data)


def read_state(data: bytes) -> State:
    """Return the state that `write_state` was given.

    Raises:
        BadDecision: it is not a state, or one of another version.
    """
    reader = Reader(data)
    state = State()
    _read_version(reader)
    state.live.read(reader)
    state.policy = read_policy(reader)
    for name in _NUMBERS:
        setattr(state, name, reader.number())
    state.redrive_target = reader.text()
    for column in _columns(state):
        column.read(reader)
    for timetable in (state.delayed, state.expiry, state.locks):
        timetable.read(reader)
    places = _read_tables(state, reader)
    state.ages.read(reader)
    state.identities.read(reader)
    if not reader.is_at_end:
        _read_pending(state, reader)
    if not reader.is_at_end:
        state.fair_groups.groups.read(reader)
    if not reader.is_at_end:
        state.disuse = Disuse(reader.number(), reader.number(), reader.number())
    reader.end()
    _conclude(state, places)
    return state


def live_in(data: bytes) -> OffsetSet:
    """Return the messages that live by a snapshot: what else is before it, nobody needs any more.

    Raises:
        BadDecision: it is not a state, or one of another version.
    """
    reader, live = Reader(data), OffsetSet()
    _read_version(reader)
    live.read(reader)
    return live or _NOTHING


def _read_version(reader: Reader) -> None:
    version = reader.number()
    if version != VERSION:
        raise BadDecision(f"a snapshot of version {version}")


def _columns(state: State) -> tuple[Column, ...]:
    return (
        state.owners,
        state.attempts,
        state.excused,
        state.sizes,
        state.parked,
        state.ready.priorities,
        state.group_order.groups,
    )


def _write_tables(state: State, writer: Writer) -> None:
    places = state.ready.places()
    writer.number(len(places))
    for placed in places:
        writer.number(placed.place)
        writer.number(placed.offset)
    writer.number(len(state.moving))
    for offset, moving in sorted(state.moving.items()):
        writer.number(offset)
        writer.number(moving.reason)
        writer.text(moving.target)
        writer.number(moving.sequence)
    writer.number(len(state.sequences))
    for target, sequence in sorted(state.sequences.items()):
        writer.text(target)
        writer.number(sequence)
    writer.number(len(state.staged))
    for offset, transaction in sorted(state.staged.items()):
        writer.number(offset)
        writer.number(transaction)
    writer.number(len(state.sessions))
    for session, identity in sorted(state.sessions.items()):
        writer.number(session)
        writer.bytes(identity)
    writer.number(len(state.removed))
    for count in state.removed:
        writer.number(count)


def _read_tables(state: State, reader: Reader) -> list[Placed]:
    places = [Placed(reader.number(), reader.number()) for _ in range(reader.count())]
    for _ in range(reader.count()):
        offset, reason = reader.number(), reader.number()
        if reason >= len(Reason):
            raise BadDecision(f"reason {reason} is unknown")
        state.moving[offset] = Moving(Reason(reason), reader.text(), reader.number())
    for _ in range(reader.count()):
        target = reader.text()
        state.sequences[target] = reader.number()
    for _ in range(reader.count()):
        offset = reader.number()
        state.staged[offset] = reader.number()
    for _ in range(reader.count()):
        session = reader.number()
        state.sessions[session] = reader.bytes()
    counts = [reader.number() for _ in range(reader.count())]
    state.removed[: len(counts)] = counts
    return places


def _write_pending(state: State, writer: Writer) -> None:
    writer.number(len(state.pending))
    for offset, (transaction, wall_ms, details) in sorted(state.pending.items()):
        writer.number(offset)
        writer.number(transaction)
        writer.number(wall_ms)
        for number in details[1:5]:
            writer.number(number)
        writer.bytes(details.identity)


def _read_pending(state: State, reader: Reader) -> None:
    for _ in range(reader.count()):
        offset, transaction, wall_ms = (reader.number() for _ in range(3))
        priority, group, not_before_ms, not_after_ms = (reader.number() for _ in range(4))
        details = Details(offset, priority, group, not_before_ms, not_after_ms, reader.bytes())
        state.pending[offset] = Pending(transaction, wall_ms, details)


def _conclude(state: State, places: list[Placed]) -> None:
    """Find what follows from what was read: what is ready, who owns what, and held groups."""
    for offset, owner in state.owners.items():
        state.owned.setdefault(owner - 1, OffsetSet()).add(offset, offset + 1)
        state.fair_groups.count_flight(offset, offset + 1, 1)
        state.flight_count += 1
        state.flight_bytes += state.size_of(offset, offset + 1)
    for placed in places:
        state.ready.put_at_tail(placed.offset, placed.place)
    elsewhere = {placed.offset for placed in places}
    elsewhere.update(state.moving, state.pending, *_keys(state))
    for run in state.live.runs():
        for ready in _without(run, elsewhere):
            state.ready.put(*ready)
    order = state.group_order
    tried = (offset for offset, _ in state.delayed.items() if state.attempts[offset])
    for offset in (*tried, *(offset for offset, _ in state.owners.items())):
        if order.groups[offset]:
            order.hold(order.groups[offset])


def _keys(state: State) -> list[list[int]]:
    tables = (state.owners, state.parked, state.delayed)
    return [[offset for offset, _ in table.items()] for table in tables]


def _without(run: Run, elsewhere: set[int]) -> tuple[Run, ...]:
    if not elsewhere:
        return (run,)
    return runs_of(offset for offset in range(*run) if offset not in elsewhere)
