"""Brokers as numbers, where 0 has always said that there is none."""

import pytest

from kafkaesque.model.ids import NO_NODE, NodeId, read_node, write_node


@pytest.mark.parametrize(
    ("node", "written"),
    [(NO_NODE, 0), (1, 1), (2**31 - 1, 2**31 - 1), (0, 2**32 - 1)],
)
def test_what_was_written_before_broker_zero_says_what_it_said(node: int, written: int) -> None:
    assert write_node(NodeId(node)) == written
    assert read_node(written) == node
