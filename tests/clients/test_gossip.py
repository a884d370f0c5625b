"""Brokers that find one another by gossip, as processes of their own."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.gossip_cluster import SECRET, GossipCluster
from kafkaesque import __version__
from tests.forked import processes

#: scripts/test-clients runs them.
pytestmark = pytest.mark.extended

#: Far more than it takes: the machine may have much else to do.
PATIENT_S = 60
NEXT = "the secret that comes after that one"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GossipCluster]:
    """Three that know one another only around a ring, and no controller's address."""
    made = GossipCluster(tmp_path_factory.mktemp("gossip"))
    made.start(1, [3])
    made.start(2, [3])
    made.start(3, [1])
    try:
        made.wait_until_ready(PATIENT_S)
        yield made
    finally:
        made.close()


@pytest.fixture
def fourth(cluster: GossipCluster) -> Iterator[int]:
    """One more, which knows the address of one that is no controller."""
    if 4 not in cluster.brokers or not cluster.brokers[4].is_running():
        cluster.start(4, [3])
    cluster.wait_until_ready(PATIENT_S)
    yield 4
    cluster.brokers[4].kill()


@pytest.mark.timeout(600)
def test_a_kill_is_known_to_the_others_soon_and_a_restart_is_let_in(
    cluster: GossipCluster, fourth: int
) -> None:
    since = cluster.places()
    cluster.brokers[fourth].kill()
    # Alone on the machine it takes a tenth of a second: see bench/gossip_kill.py.
    assert cluster.wait_for((1, 2, 3), "declares broker 4 at", since, PATIENT_S) < 30
    since = cluster.places()
    cluster.start(fourth, [2])
    cluster.wait_for((1, 2, 3), "finds broker 4 at", since, PATIENT_S)
    cluster.wait_until_ready(PATIENT_S)


@pytest.mark.timeout(600)
def test_a_process_that_is_stopped_for_seconds_is_not_taken_for_dead(
    cluster: GossipCluster, fourth: int
) -> None:
    since = cluster.places()
    pid = cluster.brokers[fourth].pid
    os.kill(pid, signal.SIGSTOP)
    # Half of the time after which it would be, on a machine that does nothing else.
    time.sleep(2.5)
    logs = {node: cluster.log(node)[since[node] :] for node in (1, 2, 3)}
    os.kill(pid, signal.SIGCONT)
    cluster.wait_until_ready(PATIENT_S)
    assert not any("declares broker" in log for log in logs.values())


@pytest.mark.timeout(600)
def test_who_stops_in_order_has_left(cluster: GossipCluster, fourth: int) -> None:
    since = cluster.places()
    cluster.brokers[fourth].stop()
    cluster.wait_for((1, 2, 3), "broker 4 has left", since, PATIENT_S)
    assert not any("declares broker" in cluster.log(node)[since[node] :] for node in (1, 2, 3))


@pytest.mark.timeout(600)
def test_the_status_of_the_cluster_shows_the_members(cluster: GossipCluster, fourth: int) -> None:
    bootstrap = cluster.brokers[1].address
    command = [sys.executable, "-m", "kafkaesque.cli.app", "cluster", "status", "-b", bootstrap]
    shown = processes.run([*command, "--json"], check=True, capture_output=True, timeout=PATIENT_S)
    gossip = json.loads(shown.stdout)["gossip"]
    members = {each["id"]: each for each in gossip["members"]}
    assert gossip["seen_by"] in members
    assert [members[node]["state"] for node in (1, 2, 3, fourth)] == ["alive"] * 4
    assert members[4]["address"] == cluster.peer_address(4)
    assert (members[4]["facts"]["rack"], members[4]["facts"]["release"]) == ("rack-4", __version__)
    table = processes.run(command, check=True, capture_output=True, timeout=PATIENT_S, text=True)
    assert any(
        line.split()[:2] == ["4", "alive"] and cluster.peer_address(4) in line
        for line in table.stdout.splitlines()
    ), table.stdout


@pytest.mark.timeout(600)
def test_a_stranger_is_kept_out_and_the_logs_of_both_say_why(cluster: GossipCluster) -> None:
    since = {**cluster.places(), 5: 0}
    cluster.start(5, secrets=["of quite another cluster"], knows=True)
    try:
        cluster.wait_for((5,), "turns this broker away: it does not know", since, PATIENT_S)
        cluster.wait_for((5,), "has answered yet", since, PATIENT_S)
        cluster.wait_for((1, 2), "closing a peer connection from 127.0.0.1", since, PATIENT_S)
        cluster.wait_for((1, 2), "gossip from 127.0.0.1", since, PATIENT_S)
        assert not any("broker 5 at" in cluster.log(node) for node in (1, 2, 3))
    finally:
        cluster.brokers.pop(5).kill()


@pytest.mark.timeout(600)
def test_the_secret_is_changed_by_files_of_two_lines(tmp_path: Path) -> None:
    pair = GossipCluster(tmp_path)
    try:
        pair.start(1)
        pair.start(2, [1])
        pair.wait_until_ready(PATIENT_S)
        steps = [(2, [SECRET, NEXT]), (1, [NEXT, SECRET]), (2, [NEXT, SECRET]), (1, [NEXT])]
        for node, secrets in steps:
            pair.brokers[node].stop()
            pair.start(node, [3 - node], secrets=secrets)
            pair.wait_until_ready(PATIENT_S)
        logs = pair.log(1) + pair.log(2)
        assert "is rejected" not in logs
        assert "turns this broker away" not in logs
    finally:
        pair.close()
