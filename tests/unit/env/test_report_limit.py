from collections.abc import Callable

from kafkaesque.env.report_limit import LINES_MAX, WINDOW_MS, ReportLimit


class Timers:
    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        assert delay_ms == WINDOW_MS
        self.waiting.append(callback)

    def let_time_pass(self) -> None:
        waiting, self.waiting = self.waiting, []
        for callback in waiting:
            callback()


def test_few_lines_are_passed_on_and_nothing_is_added() -> None:
    said: list[str] = []
    timers = Timers()
    limit = ReportLimit(said.append, timers.call_later)
    for window in range(3):
        lines = [f"{window} {number}" for number in range(LINES_MAX)]
        for line in lines:
            limit.say(line)
        timers.let_time_pass()
        assert said == lines
        assert timers.waiting == []
        said.clear()


def test_many_lines_are_counted_and_the_next_window_begins_anew() -> None:
    said: list[str] = []
    timers = Timers()
    limit = ReportLimit(said.append, timers.call_later)
    for _ in range(1000):
        limit.say("again")
    assert said == ["again"] * LINES_MAX
    assert len(timers.waiting) == 1
    timers.let_time_pass()
    assert said[LINES_MAX:] == [f"and {1000 - LINES_MAX} more of this kind within 10 s"]
    limit.say("once more")
    assert said[-1] == "once more"
