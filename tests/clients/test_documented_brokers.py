"""What the pages say of brokers that stop, start and move replicas is so: four real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkaesque.cli.broker_ports import unused_ports
from tests.clients.cluster import configuration
from tests.documentation.brokers_steps import BROKERS_STEPS, STARTED
from tests.documentation.reader import Reader
from tests.documentation.shell import Shell
from tests.documentation.table import blocks_run_by, pages_run_by, this_file

THIS = this_file(__file__)
BROKERS = 4
CONTROLLERS = 3

#: The longest waits for a broker that copies what it has lost.
BLOCK_TIMEOUT_S = 300

pytestmark = [pytest.mark.extended, pytest.mark.timeout(900)]


def test_brokers_do_what_the_pages_say(tmp_path: Path) -> None:
    assert set(BROKERS_STEPS) == set(pages_run_by(THIS))
    ports = unused_ports(2 * BROKERS)
    kafka, peers = ports[:BROKERS], ports[BROKERS:]
    options = {"group.initial.rebalance.delay.ms": "0"}
    for number in range(1, BROKERS + 1):
        text = configuration(number, tmp_path / f"data-{number}", kafka, peers, options)
        # Broker 4 is no controller.
        text = text.replace(f'4 = "127.0.0.1:{peers[-1]}"\n', "")
        (tmp_path / f"broker-{number}.toml").write_text(text)
    servers = ",".join(f"127.0.0.1:{port}" for port in kafka[:CONTROLLERS])
    with Shell(tmp_path, {"KAFKAESQUE_BOOTSTRAP_SERVER": servers}, BLOCK_TIMEOUT_S) as shell:
        printed, code = shell.run(STARTED)
        assert code == 0, printed
        for page, steps in BROKERS_STEPS.items():
            reader = Reader(shell, tmp_path, steps, replaced={}, ports={})
            reader.follow(blocks_run_by(THIS, page))
