"""How long compaction waits between its steps."""

import pytest

from kafkaesque.broker.options.cleaner import WITHOUT_LIMIT
from kafkaesque.broker.upkeep.pace import CATCH_UP_MS_MAX, Pace

MB = 1_000_000


def test_what_is_taken_is_waited_for() -> None:
    pace = Pace(0)
    pace.take(MB)
    assert pace.wait_ms(0, MB) == pytest.approx(1000)
    assert pace.wait_ms(400, MB) == pytest.approx(600)
    pace.take(MB)
    assert pace.wait_ms(400, MB) == pytest.approx(1600)


@pytest.mark.parametrize("work_ms", [0, 3, 9])
def test_the_time_that_work_takes_counts(work_ms: int) -> None:
    pace = Pace(0)
    now_ms = 0
    for _ in range(100):
        pace.take(MB)
        now_ms += work_ms
        now_ms += max(round(pace.wait_ms(now_ms, 100 * MB)), 0)
    assert now_ms == pytest.approx(1000, abs=2)


def test_a_long_stop_is_not_made_up_for() -> None:
    pace = Pace(0)
    pace.wait_ms(60_000, MB)
    pace.take(MB)
    assert pace.wait_ms(60_000, MB) == pytest.approx(1000 - CATCH_UP_MS_MAX)


def test_the_speed_may_change_meanwhile() -> None:
    pace = Pace(0)
    pace.take(MB)
    assert pace.wait_ms(0, 1) == pytest.approx(1e9)
    assert pace.wait_ms(10_000, MB) == pytest.approx(-CATCH_UP_MS_MAX, abs=10_000)
    pace = Pace(0)
    pace.take(MB)
    pace.wait_ms(0, 10 * MB)
    assert pace.wait_ms(50, MB) == pytest.approx(950)


def test_without_limit_nothing_is_waited_for_and_a_limit_may_come() -> None:
    pace = Pace(0)
    for now_ms in range(10):
        pace.take(MB)
        assert pace.wait_ms(now_ms, WITHOUT_LIMIT) < 1
    pace.wait_ms(10, MB)
    pace.take(MB)
    assert pace.wait_ms(10, MB) == pytest.approx(1000 - CATCH_UP_MS_MAX)
