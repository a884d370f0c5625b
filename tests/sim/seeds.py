"""How many seeds of the simulator a test takes: each looks elsewhere, and the suite has to end."""

from hypothesis import settings


def some_of(seeds: range) -> range:
    """Return the first third of them, and all in the profile that looks longer."""
    is_deep = settings.get_current_profile_name() == "deep"
    return seeds if is_deep else seeds[: (len(seeds) + 2) // 3]
