"""Many filters at once: what meets what, and in how many steps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.gateway.nats.jetstream.configs import overlap
from kafkaesque.gateway.nats.jetstream.filter_sets import FilterSet, overlapping

_HEAD = st.lists(st.sampled_from(["a", "b", "*"]), min_size=1, max_size=4)
_FILTERS = st.builds(lambda head, tail: ".".join(head + tail), _HEAD, st.sampled_from([[], [">"]]))


@given(st.lists(_FILTERS, max_size=6), _FILTERS)
def test_as_one_by_one(filters: list[str], wanted: str) -> None:
    found = FilterSet(filters)
    assert found.count_meeting(wanted) == sum(overlap(wanted, each) for each in filters)
    pairs = [(one, other) for at, one in enumerate(filters) for other in filters[at + 1 :]]
    assert overlapping(filters) == any(overlap(*each) for each in pairs)


class _Counted(str):
    """A filter that counts how often it is taken apart."""

    splits = 0

    def split(self, *args: object, **more: object) -> list[str]:
        _Counted.splits += 1
        return str(self).split(".")


def test_a_thousand_filters_are_not_compared_one_by_one() -> None:
    filters = [_Counted(f"a.*.{each}") for each in range(1_000)]
    assert not overlapping(filters)
    assert _Counted.splits == 2 * len(filters)
