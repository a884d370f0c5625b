"""Retained names: a look-up by any filter, in pages of any size, finds what a naive one finds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.routing import retained_names
from kafkaesque.routing.names import (
    AMQP,
    MANY,
    MQTT,
    ONE,
    NameFilter,
    NameKey,
    key_of_levels,
    levels_of_key,
)
from kafkaesque.routing.retained_names import RetainedNames

#: With characters before the separator, and the one behind it.
WORDS = ("", "a", "b", "ab", "a-", "a-b", "a0", "!", "a\1", "$s", "%", "%00", "é")
NAMES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(tuple)
LEVELS = st.lists(st.sampled_from((*WORDS, ONE, ONE, MANY)), min_size=1, max_size=4).map(tuple)
FILTERS = st.builds(NameFilter, levels=LEVELS, skips_dollar=st.booleans())


def _all(names: RetainedNames[int], name_filter: NameFilter, count_max: int) -> list[NameKey]:
    found: list[NameKey] = []
    after: NameKey | None = None
    for _ in range(1000):
        page = names.page(name_filter, after, count_max)
        assert len(page.found) <= count_max
        found += [key for key, _ in page.found]
        after = page.after
        if after is None:
            return found
    raise AssertionError("pages without an end")


@given(st.lists(NAMES, max_size=30), st.sets(NAMES), FILTERS, st.integers(1, 5), st.integers(2, 6))
def test_pages_have_what_a_filter_matches_once(
    kept: list[tuple[str, ...]],
    removed: set[tuple[str, ...]],
    name_filter: NameFilter,
    count_max: int,
    block_max: int,
) -> None:
    before = retained_names.BLOCK_MAX
    retained_names.BLOCK_MAX = block_max  # type: ignore[misc]
    try:
        names: RetainedNames[int] = RetainedNames()
        for number, name in enumerate(kept):
            names.set(key_of_levels(name), number)
        for name in removed:
            names.discard(key_of_levels(name))
    finally:
        retained_names.BLOCK_MAX = before  # type: ignore[misc]
    left = {name: number for number, name in enumerate(kept) if name not in removed}
    assert {levels_of_key(key): value for key, value in names.items()} == left
    assert len(names) == len(left)
    for name, number in left.items():
        assert names.get(key_of_levels(name)) == number
    expected = sorted(key_of_levels(name) for name in left if name_filter.matches(name))
    assert sorted(_all(names, name_filter, count_max)) == expected


def test_a_look_up_passes_over_what_cannot_match() -> None:
    names: RetainedNames[int] = RetainedNames()
    for plant in range(100):
        for sensor in range(1000):
            names.set(MQTT.key_of(f"plant/{plant}/sensor/{sensor}"), sensor)
    steps = 0
    walk = names._walk(MQTT.read_filter("plant/+/sensor/7"), "")
    for _ in walk:
        steps += 1
    assert steps <= 400
    page = names.page(MQTT.read_filter("plant/+/sensor/7"), None, 1000)
    assert len(page.found) == 100
    assert page.after is None


def test_a_page_that_finds_nothing_ends_too() -> None:
    names: RetainedNames[int] = RetainedNames()
    before = retained_names.STEPS_MAX
    retained_names.STEPS_MAX = 10  # type: ignore[misc]
    try:
        for number in range(50):
            names.set(MQTT.key_of(f"a/{number}/b"), number)
        names.set(MQTT.key_of("a/z/c"), 1)
        page = names.page(AMQP.read_filter("#.c"), None, 5)
        assert not page.found
        assert page.after is not None
        assert _all(names, AMQP.read_filter("#.c"), 5) == ["a/z/c"]
    finally:
        retained_names.STEPS_MAX = before  # type: ignore[misc]
