"""@stomp/stompjs for Node, unchanged: over WebSocket, as browsers use it, and over TCP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.amqp_cluster import new_name
from tests.clients.node_client import missing, run_node
from tests.clients.stomp_cluster import StompCluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StompCluster]:
    with StompCluster(1, tmp_path_factory.mktemp("stomp")) as found:
        yield found


@pytest.mark.skipif(bool(missing()), reason=missing())
@pytest.mark.parametrize("way", ["WebSocket", "TCP"])
def test_stompjs_works(cluster: StompCluster, way: str) -> None:
    where = (
        {"url": f"ws://127.0.0.1:{cluster.web_ports[0]}/stomp"}
        if way == "WebSocket"
        else {"port": cluster.stomp_ports[0]}
    )
    found = run_node("stomp", "", name=new_name("node"), **where)
    assert found["version"] == "1.2"
    assert found["bodies"] == [*(f"mé{n}" for n in range(10)), "committed"]
    assert found["binary"] == [0, 1, 255, 10, 0]
    assert found["header"] == "a\nb:c"
    assert found["redelivered"] == [False, True, *[False] * 11]
    assert found["heard"] == "to all"


@pytest.mark.skipif(bool(missing()), reason=missing())
@pytest.mark.parametrize(
    ("origin", "is_refused"), [("https://evil.example", True), ("http://127.0.0.1:{}", False)]
)
def test_pages_of_strangers_are_refused(
    cluster: StompCluster, origin: str, is_refused: bool
) -> None:
    port = cluster.web_ports[0]
    found = run_node(
        "stomp",
        "",
        name=new_name("node"),
        url=f"ws://127.0.0.1:{port}/stomp",
        origin=origin.format(port),
    )
    if is_refused:
        assert "403" in found["refused"]
    else:
        assert found["heard"] == "to all"
