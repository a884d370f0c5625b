"""What all tests share: how hard Hypothesis looks, and what comes first.

`fast` is what everybody runs; `deep` is for a night: `pytest --hypothesis-profile deep`, or
`HYPOTHESIS_PROFILE=deep` for everything that starts pytest by itself.
"""

from __future__ import annotations

import gc
import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# Examples have no deadline of their own: two cores shared with brokers make every clock lie, and
# pytest-timeout ends a test that hangs. CI looks at the same examples for the same code, so that it
# says of a change what the change has done; everybody else looks at others, and finds more.
_COMMON = settings(
    deadline=None,
    derandomize="CI" in os.environ,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("fast", _COMMON, max_examples=40, stateful_step_count=30)
settings.register_profile("deep", _COMMON, max_examples=5000, stateful_step_count=100)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

DEEP_TIMEOUT_S = 3600

# Whoever starts the tests in the background may have them ignore Ctrl-C, and with them all that
# they start, of which some is to end by it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


#: Tests make much garbage and few cycles of it: looking for cycles less often saves a tenth.
GARBAGE_OBJECTS = 50_000

#: Where single tests take seconds.
_LONG = ("clients", "sim")


def _is_short(item: pytest.Item) -> bool:
    return item.path.parent.name not in _LONG


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the long ones first, so that two processes end together.

    And gives tests that look longer the time for it.
    """
    items.sort(key=_is_short)  # otherwise in the random order
    if settings.get_current_profile_name() != "deep":
        return
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(DEEP_TIMEOUT_S))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Keeps the garbage collector away from all that was imported and collected, which stays."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_OBJECTS)
