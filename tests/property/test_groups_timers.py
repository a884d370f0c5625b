"""Timers against a dictionary."""

from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.tables.timers import TimerQueue

KEYS = st.integers(0, 5)
TIMES = st.integers(0, 30)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("schedule"), KEYS, TIMES),
        st.tuples(st.just("cancel"), KEYS, st.just(0)),
        st.tuples(st.just("pop"), st.just(0), TIMES),
    ),
    max_size=60,
)


@given(STEPS)
def test_timers_are_a_dictionary_of_deadlines(steps: list[tuple[str, int, int]]) -> None:
    timers: TimerQueue[int] = TimerQueue()
    model: dict[int, int] = {}
    for what, key, time_ms in steps:
        if what == "schedule":
            timers.schedule(key, time_ms)
            model[key] = time_ms
        elif what == "cancel":
            timers.cancel(key)
            model.pop(key, None)
        else:
            popped = timers.pop_due(time_ms)
            due = {each for each, deadline_ms in model.items() if deadline_ms <= time_ms}
            assert (popped is None) == (not due)
            if popped is not None:
                earliest_ms = min(model.values())
                assert popped in due
                assert model.pop(popped) == earliest_ms
        assert timers.next_deadline_ms() == min(model.values(), default=None)
        assert len(timers) == len(model)
        assert all(each in timers for each in model)
