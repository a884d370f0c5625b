"""`kafkaesque doctor` where brokers have no admin port, which says best who leads."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kafkaesque.cli.broker_ports import free_ports
from kafkaesque.cli.doctor import probe
from kafkaesque.cli.local_broker import BrokerReady
from kafkaesque.cli.local_cluster import LocalCluster
from tests.clients.test_cli_up import KAFKAESQUE
from tests.waiting import DEADLINE_S


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    made = LocalCluster(tmp_path / "data", [replace(each, admin=0) for each in free_ports(1)])
    made.prepare()
    made.start()
    try:
        assert isinstance(made.events.get(timeout=DEADLINE_S), BrokerReady)
        yield made
    finally:
        made.close()


def test_one_broker_that_leads_itself_is_believed(cluster: LocalCluster) -> None:
    command = [*KAFKAESQUE, "doctor", "--json", "-b", cluster.bootstrap_servers]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    found = json.loads(done.stdout)
    checks = {each["check"] for each in found["findings"]}
    assert checks - {"disk-fills"} == {"single-broker", "temporary-directory"}
    assert found["unseen"] == ["the clock and limits of broker 1: no admin port"]
    facts = probe.look(cluster.bootstrap_servers)
    assert not facts.has_no_controller
    assert not facts.has_unseen_moves
