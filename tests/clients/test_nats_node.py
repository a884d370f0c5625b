"""nats.js, unchanged: the core protocol, JetStream, keys and values, across brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients import node_client
from tests.clients.nats_cluster import NatsCluster


@pytest.mark.skipif(bool(node_client.missing()), reason=node_client.missing() or "-")
def test_nats_js(tmp_path: Path) -> None:
    with NatsCluster(3, tmp_path) as cluster:
        urls = [cluster.url(1), cluster.url(2)]
        found = node_client.run_node("nats", "", urls=urls, name="nats-js")
    assert found["answer"] == ["hello!", "question"]
    assert found["nobody"] == "RequestError"
    assert found["duplicate"] is True
    assert found["messages"] == 10
    # The first was refused once, and comes again.
    assert sorted(found["worked"]) == [["m1", 2], ["m3", 1], ["m5", 1], ["m7", 1], ["m9", 1]]
    assert found["pending"] == 0
    assert found["ordered"] == [f"m{number}" for number in range(10)]
    assert found["stale"] == 10071
    assert (found["a"], found["b"], found["keys"]) == ("2", "DEL", ["a"])
    assert found["history"] == ["1", "2"]
    assert (found["mirrored"], found["gathered"]) == (found["sameRevision"], "a")
    assert (found["paused"], found["resumed"]) == (True, False)
