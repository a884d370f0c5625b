"""Groups that keep the markers of a Spark sink are known by their names."""

from __future__ import annotations

import pytest

from kafkaesque.model.sink_markers import keeps_sink_marker, sink_id


@pytest.mark.parametrize("query", ["0f3a", "3f0e5a52-8a7c-4b0e-9a55-1f6b7b0d8f11", "daily/orders"])
def test_a_sink_s_id_is_known_as_the_group_of_its_marker(query: str) -> None:
    assert keeps_sink_marker(sink_id(query, 0))
    assert keeps_sink_marker(sink_id(query, 117))
    assert keeps_sink_marker("app-" + sink_id(query, 0))


@pytest.mark.parametrize(
    "group",
    ["billing", "spark-sink-", "spark-sink-readers", "spark-sink-1"],
)
def test_other_groups_are_consumers(group: str) -> None:
    assert not keeps_sink_marker(group)
