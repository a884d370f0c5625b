"""How many seeds of the simulator a test takes: each looks elsewhere, and the suite has to end."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import settings


def some_of(seeds: range) -> range:
    """Return the first third of them, and all in the profile that looks longer."""
    is_deep = settings.get_current_profile_name() == "deep"
    return seeds if is_deep else seeds[: (len(seeds) + 2) // 3]


def first_of(seeds: Sequence[int], essential: int) -> list[Any]:
    """Return them as parameters of a test; those after so many are `extended`."""
    return [
        seed if index < essential else pytest.param(seed, marks=pytest.mark.extended)
        for index, seed in enumerate(seeds)
    ]
