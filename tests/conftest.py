"""What all tests share: how hard Hypothesis looks.

`fast` is what everybody runs; `deep` is for a night: `pytest --hypothesis-profile deep`, or
`HYPOTHESIS_PROFILE=deep` for everything that starts pytest by itself.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

# Examples have no deadline of their own: two cores shared with brokers make every clock lie, and
# pytest-timeout ends a test that hangs.
_COMMON = settings(
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("fast", _COMMON, max_examples=60, stateful_step_count=30)
settings.register_profile("deep", _COMMON, max_examples=5000, stateful_step_count=100)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

DEEP_TIMEOUT_S = 3600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives tests that look longer the time for it."""
    if settings.get_current_profile_name() != "deep":
        return
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(DEEP_TIMEOUT_S))
