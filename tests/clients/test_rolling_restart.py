"""Brokers are restarted one after another, and a producer with acks=all is refused nothing.

How long it waits is measured by `bench.rolling_restart`: here the machine may be busy.
"""

import pytest

from bench.rolling_restart import BROKERS, measure

#: scripts/test-clients runs them.
pytestmark = pytest.mark.extended


@pytest.mark.timeout(600)
def test_a_rolling_restart_costs_producers_nothing() -> None:
    report = measure(rate=300, rounds=1)
    assert len(report.restarts_s) == BROKERS
    assert report.sent > 1_000
    assert (report.errors, report.lost) == (0, 0), report.reasons
