"""The text port when the broker that keeps a group goes away."""

from __future__ import annotations

from pathlib import Path

from tests.unit.gateway_text.person import TextCluster


def test_a_group_goes_on_when_its_coordinator_is_gone(tmp_path: Path) -> None:
    cluster = TextCluster(tmp_path, count=3)
    try:
        live = cluster.live
        live.create_topic("flights", 1, 3)
        person = cluster.person()
        subscription = person.ok("SUBS flights readers")
        ask = f"CONS flights {subscription} next"
        person.ok("PUBS flights before")
        assert [body for _, _, body in person.consume(ask)[0]] == ["before"]
        where = live.broker.group_coordinators.find("readers")
        keeper = live.leader(where.topic, where.partition)
        left = [node for node in live.nodes if node != keeper]
        live.nodes[keeper].stop(lambda: None)
        live.wait(lambda: live.nodes[keeper].is_stopped, "the coordinator has stopped")
        for node in left:
            other = cluster.person(node=node)
            other.ok(f"PUBS flights {node}")
            found, last = other.consume(ask)
            assert [body for _, _, body in found] == [node]
            assert "not committed" not in last
    finally:
        cluster.close()
