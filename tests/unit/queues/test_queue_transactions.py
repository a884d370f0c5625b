"""What open transactions do to a queue's state, and what takes it back."""

from kafkaesque.queues.arrival import Arrival, Details
from kafkaesque.queues.decisions import Assign
from kafkaesque.queues.replay import arrive, finish, pend, replay, stage, undo
from kafkaesque.queues.runs import Run
from kafkaesque.queues.snapshot import read_state, write_state
from kafkaesque.queues.state import Place, State


def test_a_snapshot_has_what_is_open() -> None:
    state = State()
    before = write_state(state)
    arrival = Arrival(
        runs=(Run(3, 5),), wall_ms=10, sizes=(7,), details=(Details(4, priority=2, group=9),)
    )
    pended = pend(state, 77, arrival)
    open_ = write_state(state)
    assert write_state(read_state(open_)) == open_
    assert state.ready_count == 0
    finished = finish(state, 77, 20, is_committed=True)
    assert state.ready_count == 2
    undo(finished)
    assert write_state(state) == open_
    finish(state, 77, 20, is_committed=False)
    assert (state.ready_count, state.live.first()) == (0, None)
    other = read_state(open_)
    finish(other, 77, 20, is_committed=True)
    assert other.ready_count == 2
    assert pended
    assert before != open_


def test_what_a_transaction_was_to_settle_stays_with_who_has_it() -> None:
    state = State()
    arrive(state, Arrival(runs=(Run(0, 2),), wall_ms=10, sizes=(7,)))
    replay(state, Assign(0, 500, (Run(0, 2),)))
    before = write_state(state)
    staged = stage(state, 77, (Run(0, 1),))
    undo(staged)
    assert write_state(state) == before
    stage(state, 77, (Run(0, 1),))
    open_ = write_state(state)
    undo(finish(state, 77, 20, is_committed=True))
    assert write_state(state) == open_
    finish(state, 77, 20, is_committed=False)
    assert (state.place_of(0), state.locks[0]) == (Place.IN_FLIGHT, 500)
    assert write_state(state) == before
    stage(state, 77, (Run(0, 1),))
    finish(state, 77, 20, is_committed=True)
    assert (state.place_of(0), state.place_of(1)) == (Place.NOWHERE, Place.IN_FLIGHT)
